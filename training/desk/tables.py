# ruff: noqa: E501 -- questions and their SQL are data: one form a line reads better than wrapped ones
"""Small databases, and questions with the SQL that answers them. Knows no tools, no files."""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from training.desk.names import proper_name
from training.kinds import Kinds
from training.naming import capital, choose, pick, plural, words

ITEMS = [
    "fossil",
    "painting",
    "lamp",
    "boat",
    "tree",
    "engine",
    "book",
    "bottle",
    "tool",
    "coin",
    "chair",
    "plant",
    "machine",
    "instrument",
    "sample",
    "vase",
    "horse",
    "clock",
    "cheese",
    "parcel",
    "photo",
    "map",
    "statue",
    "tile",
    "robot",
    "toy",
    "stamp",
    "kite",
    "drum",
    "bicycle",
    "carpet",
    "mask",
    "bridge",
    "camera",
    "ladder",
    "medal",
    "poem",
    "recipe",
    "song",
    "ticket",
    "wagon",
    "yacht",
    "saddle",
    "mirror",
    "sword",
    "crown",
    "puppet",
    "kettle",
    "lens",
    "rocket",
    "shirt",
    "tractor",
    "violin",
    "quilt",
    "rug",
    "basket",
    "candle",
    "garden",
    "hat",
    "report",
    "project",
    "event",
    "player",
    "patient",
    "movie",
    "server",
    "sensor",
    "invoice",
]
GROUPS = [
    "expedition",
    "team",
    "factory",
    "harbour",
    "region",
    "supplier",
    "branch",
    "club",
    "ward",
    "district",
    "course",
    "ship",
    "gallery",
    "farm",
    "store",
    "museum",
    "school",
    "hospital",
    "village",
    "league",
    "studio",
    "depot",
    "workshop",
    "department",
    "orchestra",
    "society",
    "publisher",
    "airline",
    "lab",
]
LEADERS = ["leader", "owner", "manager", "head"]
CATEGORY = {
    "kind": "glass wood iron stone paper clay silver wool bone shell fern fish amber copper",
    "size": "tiny medium huge narrow wide tall short",
    "shape": "square oval curved hollow pointed spiral",
    "quality": "poor fair good excellent damaged",
    "region": "north south east west centre coast hills",
    "season": "spring summer autumn winter",
    "language": "French German Polish Greek Arabic Hindi",
    "level": "beginner advanced expert junior senior",
    "color": "red blue green white black grey brown yellow",
    "status": "new sold broken lent open closed stored lost",
    "city": "",
    "material": "oak steel bronze cotton leather ivory marble rubber",
    "grade": "A B C D",
    "country": "",
    "type": "small large heavy light rare common round flat",
}
NUMBERS = {
    "price": (2, 500), "stock": (0, 90), "sold": (0, 400), "mass": (1, 300), "weight": (1, 300), "age": (1, 120),
    "cost": (100, 40000), "days": (3, 90), "height": (2, 90), "length": (2, 400), "score": (1, 100),
    "visitors": (10, 9000), "room": (1, 9), "year": (1900, 2024), "seats": (4, 300), "pages": (20, 900),
    "rating": (1, 10), "floor": (0, 9), "depth": (1, 90), "width": (1, 90), "speed": (5, 300), "power": (10, 900),
    "points": (0, 120), "votes": (10, 9000), "goals": (0, 60), "wins": (0, 40), "budget": (500, 90000),
    "salary": (900, 9000), "profit": (10, 9000), "hours": (1, 60), "distance": (2, 900), "capacity": (10, 900),
    "members": (3, 400), "area": (5, 900), "orders": (0, 300), "copies": (1, 900), "rank": (1, 50), "voltage": (3, 400),
}  # fmt: skip
# column: how people ask for one row's value ~ most ~ least, either with synonyms for training
SAID_RAW = """
price: What does {n} cost?|How expensive is {n}?|How much is {n}?|What do I pay for {n}?|What is the price of {n}?|What is {n} priced at?|{n}: what does it cost?|What do they charge for {n}?|Tell me what {n} costs.|How much would I pay for {n}?|What must one pay for {n}? ~ most expensive/priciest/costliest/dearest ~ cheapest/least expensive/least costly
cost: What did {n} cost?|How much did {n} cost?|How expensive was {n}?|What was paid for {n}?|What did they pay for {n}?|What was the cost of {n}?|How much was spent on {n}?|Tell me what {n} cost.|How much money went into {n}?|{n}: what did it cost?|What was {n} bought for? ~ most expensive/priciest/costliest/dearest ~ cheapest/least expensive/least costly
mass: How heavy is {n}?|What does {n} weigh?|How much does {n} weigh?|What weight has {n}?|Tell me how heavy {n} is.|{n}: how heavy?|What is the weight of {n}?|What mass does {n} have?|Tell me what {n} weighs.|{n} weighs how much?|I need the mass of {n}. ~ heaviest/weightiest ~ lightest/least heavy
weight: How heavy is {n}?|What does {n} weigh?|How much does {n} weigh?|What mass has {n}?|Tell me how heavy {n} is.|{n}: how heavy?|What is the weight of {n}?|What weight does {n} have?|Tell me what {n} weighs.|{n} weighs how much?|I need the weight of {n}. ~ heaviest/weightiest ~ lightest/least heavy
age: How old is {n}?|What age is {n}?|How many years old is {n}?|Tell me how old {n} is.|What is the age of {n}?|{n} is how old?|How many years does {n} count?|I wonder how old {n} is.|Age of {n}, please?|How aged is {n}? ~ oldest/most aged ~ youngest/least old
height: How tall is {n}?|How high is {n}?|What height does {n} have?|Tell me how tall {n} is.|What is the height of {n}?|{n} is how tall?|I need the height of {n}.|{n}: how high is it, please?|How tall would you say is {n}?|Height of {n}? ~ tallest/highest ~ smallest/lowest/shortest
length: How long is {n}?|What length does {n} have?|How many metres long is {n}?|Tell me how long {n} is.|What is the length of {n}?|{n} is how long?|Let me know the length of {n}.|{n}: how long is it?|What does {n} measure in length?|Length of {n}? ~ longest ~ shortest
days: How many days did {n} take?|How long did {n} last?|How many days was {n}?|For how many days was {n}?|How many days did {n} last?|{n} lasted how many days?|So what number of days did {n} take?|How many days has {n}?|Days of {n}?|Over how many days did {n} go on? ~ longest ~ shortest
year: From which year is {n}?|When was {n} made?|Which year is {n} from?|In what year was {n}?|What year is {n} from?|{n} is from which year?|What is the year of {n}?|Tell me the year of {n}.|What year does {n} date from?|To which year does {n} belong?|Year of {n}? ~ newest/latest/most recent ~ oldest/earliest
stock: How many {n} are in stock?|How many of {n} are left?|What stock of {n} is there?|How much of {n} do we have?|What is the stock of {n}?|Just how many of {n} do they have in stock?|What is left of {n}?|Stock of {n}?|Tell me how many of {n} are in stock.|How large is the stock of {n}?|How many pieces of {n} are there in stock? ~ best stocked/most plentiful ~ least stocked/scarcest
sold: How many {n} were sold?|How often was {n} sold?|What number of {n} was sold?|How many of {n} have been sold?|How many of {n} were sold?|How many times was {n} sold?|How many sales of {n} were there?|Tell me how many of {n} were sold.|How many of {n} did they sell?|{n} was sold how often?|Sold pieces of {n}? ~ best selling/most sold/top selling ~ worst selling/least sold
room: In which room is {n}?|Where is {n}? Give the room.|Which room holds {n}?|What room is {n} in?|Just what room holds {n}?|{n} is in which room?|Let me know the room of {n}.|In what room do I find {n}?|Room of {n}?|Into which room was {n} put? ~  ~ 
floor: On which floor is {n}?|Where is {n}? Give the floor.|Which floor is {n} on?|What floor holds {n}?|{n} is on which floor?|On what floor do I find {n}?|Please tell me the floor of {n}.|What floor is {n} on?|Floor of {n}, please? ~  ~ 
visitors: How many visitors did {n} have?|How many people visited {n}?|Visitors of {n}?|How many came to see {n}?|How many visitors came to {n}?|How many people came to {n}?|Just what number of visitors did {n} have?|Tell me how many visitors {n} had.|{n} had how many visitors?|How many people went to see {n}?|How many guests visited {n}? ~ most visited/most frequented ~ least visited/least frequented
pages: How many pages has {n}?|How long is {n} in pages?|How thick is {n}? Give the pages.|Number of pages of {n}?|How many pages does {n} have?|{n} has how many pages?|How many pages long is {n}?|Tell me how many pages {n} has.|How many pages are there in {n}?|What is the number of pages of {n}? ~ thickest/bulkiest ~ thinnest/slimmest
depth: How deep is {n}?|What depth has {n}?|Tell me how deep {n} is.|{n} is how deep?|What's the depth of {n}?|What depth does {n} have?|How deep does {n} go?|{n}: how deep is it?|I want to know how deep {n} is.|Depth of {n}? ~ deepest ~ shallowest/least deep
width: How wide is {n}?|What width has {n}?|Tell me how wide {n} is.|How broad is {n}?|What's the width of {n}?|Just what width does {n} have?|{n} is how wide?|{n}: how wide is it?|I wonder how wide {n} is.|Width of {n}? ~ widest/broadest ~ narrowest/least wide
speed: How fast is {n}?|What speed has {n}?|Tell me how fast {n} is.|How quick is {n}?|What is the speed of {n}?|What speed does {n} reach?|{n} is how fast?|How fast does {n} go?|I wonder how fast {n} is.|At what speed does {n} go?|Speed of {n}? ~ fastest/quickest/speediest ~ slowest/least fast
power: How strong is {n}?|What power has {n}?|How much power does {n} have?|Tell me the power of {n}.|What is the power of {n}?|Just what power does {n} have?|{n} has how much power?|How powerful is {n}?|I wonder how strong {n} is.|Power of {n}, please? ~ strongest/most powerful ~ weakest/least powerful
points: How many points does {n} have?|How many points has {n}?|Points of {n}?|What points did {n} get?|What number of points has {n}?|{n} has how many points?|How many points did {n} make?|Tell me the points of {n}.|How many points were given to {n}?|With how many points does {n} stand in the list? ~  ~ 
votes: How many votes did {n} get?|How many people voted for {n}?|Votes for {n}?|Tell me how many votes {n} got.|What number of votes did {n} get?|{n} got how many votes, please?|How many votes went to {n}?|Exactly how many votes were cast for {n}?|Just how many voted for {n}?|Just how many votes has {n}? ~ most popular/most voted for ~ least popular/least voted for
goals: How many goals did {n} score?|Goals of {n}?|How often did {n} score?|How many goals has {n}?|What number of goals did {n} score?|{n} scored how many goals, please?|How many goals did {n} get?|Let me know how many goals {n} scored.|How many goals were scored by {n}?|Just how many goals does {n} have? ~  ~ 
budget: What budget has {n}?|How big is the budget of {n}?|How much money does {n} have to spend?|Budget of {n}?|What is the budget of {n}?|What budget does {n} have?|How large is {n}'s budget?|Let me know the budget of {n}.|What can {n} spend?|How much may {n} spend? ~ best funded/best financed ~ worst funded/worst financed
salary: What does {n} earn?|How much does {n} earn?|What is {n} paid?|How much is {n} paid?|What is the salary of {n}?|What salary does {n} get?|{n} earns how much?|Tell me what {n} earns.|How high is the salary of {n}?|How much do they pay {n}?|Salary of {n}, please? ~ best paid/highest paid ~ worst paid/lowest paid
capacity: How much does {n} hold?|What capacity has {n}?|How much fits into {n}?|How much room is in {n}?|What is the capacity of {n}?|What does {n} hold?|{n} holds how much?|Tell me how much {n} holds.|How much can {n} take?|What fits into {n}?|Capacity of {n}? ~  ~ 
members: How many members has {n}?|How many members does {n} have?|Members of {n}?|How many people belong to {n}?|What number of members has {n}?|{n} has how many members?|Let me know how many members {n} has.|How many are members of {n}?|How many members belong to {n}?|How large is the number of members of {n}? ~  ~ 
area: How large is {n}?|What area has {n}?|How much area does {n} cover?|Tell me how large {n} is.|What's the area of {n}?|What area does {n} cover?|{n} covers how large an area?|Tell me the area of {n}.|How big an area has {n}?|The area of {n}?|How big is {n}? ~ largest ~ smallest
seats: How many seats has {n}?|How many people can sit in {n}?|Seats of {n}?|How many seats are in {n}?|How many seats does {n} have?|{n} has how many seats?|How many seats are there in {n}?|Tell me how many seats {n} has.|How many can sit down in {n}?|What number of seats has {n}? ~ largest ~ smallest
"""
SAID: dict[str, tuple[str, str, str]] = {}
for _line in SAID_RAW.strip("\n").split("\n"):
    _column, _rest = _line.split(": ", 1)
    _asks, _up, _down = _rest.split(" ~ ")
    SAID[_column] = (_asks, _up.strip(), _down.strip())

# needs | questions | SQL | answer. needs: "" always, else a flag that _flags sets. The names are _fields' keys.
FORMS_RAW = """
; How many {items} {where} are there?|Count the {items} {where}.|How many {items} are there {where}?|What's the number of {items} {where}?|Give me the number of {items} {where}.|How many {items} do we have {where}?|Please count the {items} {where}.|I wonder how many {items} {where} there are.|{items} {where}: how many?|How large is the number of {items} {where}?|Count of {items} {where}, please.|How many {items} {where} can you find?|The number of {items} {where} is what?|Check how many {items} {where} we have.|I need a count of the {items} {where}.|How many {items} {where} does the database list?|Please work out how many {items} {where} there are.|How big is the group of {items} {where}?|What does the count of {items} {where} come to?|I'd like the number of {items} {where}, please.|There are how many {items} {where}?|Number of {items} {where}, please. ; SELECT COUNT(*) FROM {t} WHERE {cat} = {q_val} ; There are {v} {items} {where}.
; How many {items} are in the database?|How many {items} are there in all?|Count all {items}.|What is the total number of {items}?|How many {items} do we have?|How many {items} does the database hold?|Give me the count of all {items}.|{items}: how many in total?|I wonder how many {items} there are altogether.|Just how many {items} are listed?|Please count all the {items}.|Tell me how many {items} there are in all.|Total count of {items}?|How many {items} are on record?|I need to know how many {items} we have in all.|Number of all {items}?|The {items} altogether: how many?|How many rows are there in the table of {items}?|In all, how many {items} do we know of?|Exactly how many {items} does the table hold?|There are how many {items} altogether?|What is the count of all {items}?|I'd like the number of all {items}. ; SELECT COUNT(*) FROM {t} ; There are {v} {items} in all.
; What is the {said} of {name}?|Tell me the {said} of the {item} {name}.|{name}: what is its {said}?|Look up the {said} of {name}.|Which {said} has {name}?|Find the {said} of the {name} {item}.|What is {name}'s {said}?|How much is the {said} of {name}?|{said} of {name}?|I need the {said} of {name}.|Can you look up the {said} of {name}?|I want to know the {said} of {name}.|For {name}, what is the {said}?|{name}, {said}?|Get me the {said} of {name}.|Just what {said} does {name} have?|What {said} is listed for {name}?|Check the {said} of {name}.|Which {said} is on record for {name}?|The {said} of {name} is what, please?|Please say what {said} {name} has.|What figure stands under {said} for {name}?|I am looking for the {said} of {name}.|Just what does the table say for the {said} of {name}?|Under {said}, what stands for {name}?|I am after the {said} of {name}.|{name} has what {said}, please?|Now, what value has {said} for {name}?|Read me the {said} of {name}.|Would you look up {name}'s {said}? ; SELECT {num} FROM {t} WHERE {key} = {q_name} ; The {said} of {name} is {v}.
; What is the {cat} of {name}?|Which {cat} has the {item} {name}?|{name}: which {cat}?|Tell me the {cat} of {name}.|Give me the {cat} of {name}.|What {cat} does {name} have?|Find the {cat} of the {item} {name}.|What is {name}'s {cat}?|Which {cat} does {name} have?|{cat} of {name}?|I need the {cat} of {name}.|Can you look up the {cat} of {name}?|As for {name}, what is its {cat}?|{name}, {cat}?|I would like to know the {cat} of {name}.|What {cat} is listed for {name}?|Check the {cat} of {name}, please.|Which {cat} is on record for {name}?|The {cat} of {name} is what?|Say which {cat} {name} has.|Look up what {cat} {name} has.|What does the table say for the {cat} of {name}?|Under {cat}, what stands for {name}?|I am after the {cat} of {name}.|{name} has which {cat}?|What value has {cat} for {name}?|Would you look up {name}'s {cat}?|I wonder what {cat} {name} has. ; SELECT {cat} FROM {t} WHERE {key} = {q_name} ; The {cat} of {name} is {v}.
; Which {item} has the {word} {said}?|What is the name of the {item} with the {word} {said}?|Find the {item} with the {word} {said}.|Name the {item} whose {said} is {word}.|Whose {said} is {word}, among the {items}?|Which of the {items} has the {word} {said}?|Look for the {item} with the {word} {said}.|The {word} {said}: which {item} has it?|I want the {item} with the {word} {said}.|Tell me which {item} has the {word} {said}.|Name the {item} that has the {word} {said}.|What {item} has the {word} {said}?|Who has the {word} {said} of all the {items}?|Please look up which of the {items} has the {word} {said}.|Which of all {items} comes out with the {word} {said}?|I wonder which {item} has the {word} {said}.|Of all {items}, which one has the {word} {said}?|Give me the name of the {item} with the {word} {said}.|Which one of the {items} has a {said} that is the {word}?|Could you name the one of the {items} whose {said} is the {word}?|Show me the {item} whose {said} is {word} of all.|Rank the {items} by {said}: which has the {word}?|Sort the {items} by {said}. Which has the {word}?|Whose {said} of all {items} is {word}?|The {item} of {word} {said}, please.|Which {item} holds the record for the {word} {said}?|Tell me the name of the {item} whose {said} is the {word}.|What is the one of the {items} called that has the {word} {said}?|Show the name of the {item} with the {word} {said}. ; SELECT {key} FROM {t} ORDER BY {num}{way} LIMIT 1 ; {v} has the {word} {said}.
; Which {item} {where} has the {word} {said}?|Among the {items} {where}, which has the {word} {said}?|Find the {item} {where} with the {word} {said}.|Of all {items} {where}, name the one with the {word} {said}.|Tell me which {item} {where} has the {word} {said}.|Name the {item} {where} with the {word} {said}.|What {item} {where} has the {word} {said}?|I am looking for the {item} {where} with the {word} {said}, please.|Well, of the {items} {where}, which one has the {word} {said}?|Which of the {items} {where} has the {word} {said}?|I need the {item} {where} whose {said} is {word}.|The {word} {said} among the {items} {where}: which {item} is that?|Please look at the {items} {where} and name the one with the {word} {said}.|Of those {items} {where}, whose {said} is {word}?|Which one, of the {items} {where}, shows the {word} {said}?|Rank the {items} {where} by {said}: which has the {word}?|The {item} {where} of {word} {said}, please.|Take only the {items} {where}: which has the {word} {said}? ; SELECT {key} FROM {t} WHERE {cat} = {q_val} ORDER BY {num}{way} LIMIT 1 ; {v} has the {word} {said} of the {items} {where}.
; What is the {total} {said} of all {items}?|Compute the {total} {said} over the {items}.|What {total} {said} do the {items} have?|Tell me the {total} {said} of the {items}.|Give me the {total} {said} of all {items}.|What is the {total} {said} over all {items}?|Work out the {total} {said} of all {items}.|I need the {total} {said} of the {items}.|The {total} {said} of the {items} is what?|Can you compute the {total} {said} of all {items}?|Taking all {items}, what is the {total} {said}?|For all of the {items}, give the {total} {said}.|Please find the {total} {said} of the {items}.|What does the {total} {said} of all {items} come to?|I wonder what the {total} {said} of all {items} is.|{total} {said} over all {items}?|Calculate the {total} {said} of the {items}.|Take all {items}: what is their {total} {said}?|Over the whole table of {items}, what is the {total} {said}?|How high is the {total} {said} of all {items}?|I'd like the {total} {said} over all {items}.|Please say what {total} {said} the {items} have.|The {items} have what {total} {said}? ; SELECT {agg}({num}) FROM {t} ; The {total} {said} of all {items} is {v}.
; What is the {total} {said} of the {items} {where}?|What {total} {said} do the {items} {where} have?|For the {items} {where}, what is the {total} {said}?|I need the {total} {said} of the {items} {where}.|Give me the {total} {said} of the {items} {where}.|Tell me what {total} {said} the {items} {where} have.|Compute the {total} {said} of the {items} {where}.|{total} {said} of the {items} {where}?|From among the {items} {where}, what is the {total} {said}?|The {items} {where}: what {total} {said} do they have?|Can you find the {total} {said} of all {items} {where}?|Taking only the {items} {where}, what is the {total} {said}?|What does the {total} {said} of the {items} {where} come to?|I wonder what the {total} {said} of the {items} {where} is.|Please work out the {total} {said} for the {items} {where}.|How high is the {total} {said} of the {items} {where}?|Take only the {items} {where}: what is their {total} {said}?|Only for the {items} {where}, what is the {total} {said}?|Say what {total} {said} the {items} {where} have.|I'd like the {total} {said} of the {items} {where}. ; SELECT {agg}({num}) FROM {t} WHERE {cat} = {q_val} ; The {total} {said} of the {items} {where} is {v}.
; How many {items} have a {said} {than} {bound}?|Count the {items} whose {said} is {than} {bound}.|How many {items} with a {said} {than} {bound} are there?|Number of {items} with {said} {than} {bound}?|Tell me how many {items} have a {said} {than} {bound}.|For how many {items} is the {said} {than} {bound}?|Give me the number of {items} with a {said} {than} {bound}.|How many of the {items} have a {said} {than} {bound}?|I wonder how many {items} have a {said} {than} {bound}.|Count all {items} that have a {said} {than} {bound}.|In how many of the {items} is the {said} {than} {bound}?|How many {items} exist whose {said} is {than} {bound}?|From among the {items}, how many have a {said} {than} {bound}?|Could you count the {items} that have {said} {than} {bound}?|What is the number of {items} whose {said} is {than} {bound}?|How often is the {said} of the {items} {than} {bound}?|How many {items} show a {said} {than} {bound}?|Of all {items}, how many have {said} {than} {bound}?|Just how many {items} come with a {said} {than} {bound}?|Say how many {items} have a {said} {than} {bound}.|{said} {than} {bound}: how many {items}, please? ; SELECT COUNT(*) FROM {t} WHERE {num} {sign} {bound} ; {v} {items} have a {said} {than} {bound}.
; Which {items} have a {said} {than} {bound}?|List the {items} whose {said} is {than} {bound}.|Show the {items} with a {said} {than} {bound}.|Name all {items} with {said} {than} {bound}.|Give me the {items} whose {said} is {than} {bound}.|For which {items} is the {said} {than} {bound}?|Please find all {items} with a {said} {than} {bound}.|Let me know which {items} have a {said} {than} {bound}.|I want a list of the {items} with a {said} {than} {bound}.|What {items} have a {said} {than} {bound}?|Names of the {items} whose {said} is {than} {bound}?|Which of the {items} have a {said} {than} {bound}?|All {items} with {said} {than} {bound}, please.|Could you list the {items} that have a {said} {than} {bound}?|Which {items} are there with a {said} {than} {bound}?|{said} {than} {bound}: which {items}, please?|Which {items} show a {said} {than} {bound}?|Pick out the {items} with a {said} {than} {bound}.|Of all {items}, which have a {said} {than} {bound}?|I need the names of the {items} with a {said} {than} {bound}. ; SELECT {key} FROM {t} WHERE {num} {sign} {bound} ; The {items} are {v}.
; Which {items} are there {where}?|List the {items} {where}.|Name the {items} {where}.|Show me all {items} {where}.|Tell me the {items} {where}.|Give me the names of the {items} {where}.|What {items} are there {where}?|Find all {items} {where}.|All {items} {where}, please.|I want a list of the {items} {where}.|Could you name the {items} {where}?|Which of the {items} are there {where}?|Which are the {items} {where}?|Names of all {items} {where}?|{items} {where}: which are they?|What are the names of the {items} {where}?|I would like to see the {items} {where}.|Look up the {items} {where} and list them.|Pick out the {items} {where}.|I need to know which {items} there are {where}.|Let me have the names of the {items} {where}.|Write down the {items} {where}.|There are which {items} {where}?|Give a list of all {items} {where}, please. ; SELECT {key} FROM {t} WHERE {cat} = {q_val} ; The {items} are {v}.
natural; {asks} ; SELECT {num} FROM {t} WHERE {key} = {q_name} ; The {said} of {name} is {v}.
natural; {asks} ; SELECT {num} FROM {t} WHERE {key} = {q_name} ; {name}: {v}.
ranked; Which {item} is the {top}?|What is the {top} {item}?|Name the {top} {item}.|Find the {top} {item}.|Which of the {items} is the {top}?|I wonder which {item} is the {top}.|Let me know which {item} is the {top}.|The {top} {item}, which is it, please?|Of all {items}, which is the {top}?|Which one of the {items} is {top}?|I want the name of the {top} {item}.|From among the {items}, which is the {top}?|Look up the {top} {item}.|Say which of the {items} is the {top}.|What is the {top} {item} called?|Just which {item} is {top} of all?|Which {item} would you call the {top}?|Name me the {top} among the {items}.|Just what {item} is the {top}?|I need the name of the {top} {item}, please.|Who or what is the {top} of the {items}? ; SELECT {key} FROM {t} ORDER BY {num}{way} LIMIT 1 ; The {top} {item} is {v}.
ranked; Which is the {top} {item} {where}?|What is the {top} {item} {where}?|Name the {top} {item} {where}.|Of the {items} {where}, which is the {top}?|Give me the {top} of the {items} {where}.|Just which {item} {where} is the {top}?|Please find the {top} {item} {where}.|I would like to know the {top} {item} {where}.|Now, among the {items} {where}, which is the {top}?|Which of the {items} {where} is {top}?|I am looking for the {top} {item} {where}.|Look at the {items} {where}: which is the {top}?|Please name me the {top} among the {items} {where}.|Take the {items} {where}: which is the {top}?|I need the name of the {top} {item} {where}.|Who or what is the {top} of the {items} {where}? ; SELECT {key} FROM {t} WHERE {cat} = {q_val} ORDER BY {num}{way} LIMIT 1 ; The {top} {item} {where} is {v}.
person; Who is the {cat} of {name}?|Who was {cat} of the {item} {name}?|Name the {cat} of {name}.|Which person is {cat} of {name}?|Tell me the {cat} of {name}.|Who has the post of {cat} in the {item} {name}?|What is the {cat} of {name} called?|Tell me who is {cat} of {name}.|So who works as {cat} of {name}?|Look up who is {cat} of the {item} {name}.|{name}: who is the {cat}, please?|I want to know who the {cat} of {name} is.|The {cat} of {name}, who is it?|What is the name of the {cat} of {name}?|So who acts as {cat} of the {item} {name}?|Get me the name of the {cat} of {name}.|As for {name}, who is its {cat}?|{cat} of {name}?|{name} has whom as {cat}?|Whose name stands under {cat} for {name}?|I need the name of the {cat} of {name}. ; SELECT {cat} FROM {t} WHERE {key} = {q_name} ; The {cat} of {name} is {v}.
category; How many {val} {items} are there?|Count the {val} {items}.|How many {items} are {val}?|Number of {val} {items}?|How many {val} {items} do we have?|Tell me the number of {val} {items}.|How many of the {items} are {val}?|I wonder how many {val} {items} there are.|{val} {items}: how many?|Of all {items}, how many are {val}?|Please count all {val} {items}.|How many {val} {items} are listed?|What is the number of {val} {items}?|Could you count the {val} {items}?|Give me the count of the {val} {items}.|Among the {items}, how many are {val}?|How many {val} {items} can you find?|There are how many {val} {items}?|I'd like the number of {val} {items}.|How big is the number of {val} {items}?|{items} that are {val}: how many? ; SELECT COUNT(*) FROM {t} WHERE {cat} = {q_val} ; There are {v} {val} {items}.
product; What is {p} times {s} of all {items} in total?|Sum up {p} times {s} over the {items}.|What do the {items} come to, {p} times {s}?|Total of {p} * {s} for all {items}?|Add up {p} times {s} for all {items}.|For each of the {items} take {p} times {s}: what is the sum?|Sum of {p} times {s} over all {items}?|Over all {items}, what does {p} times {s} add up to?|What is the total of {p} multiplied by {s} over the {items}?|Multiply {p} and {s} of each {item} and add it all up.|What do all {items} make in total, taking {p} times {s} of each?|I need the grand total of {p} times {s} for the {items}, please. ; SELECT SUM({p} * {s}) FROM {t} ; The total of {p} times {s} is {v}.
joined; How many {items} of the {other_item} led by {who}?|How many {items} of the {other_item} whose {leader} is {who}?|How many {items} belong to the {other_item} of {who}?|How many {items} of the {leader} {who}?|How many {items} are there in the {other_item} whose {leader} is {who}?|Please count the {items} that belong to the {other_item} with {leader} {who}.|{who} is {leader} of one {other_item}. How many {items} has it?|Number of {items} in the {other_item} of {who}?|The {other_item} with the {leader} {who} has how many {items}?|How many {items} has the {other_item} whose {leader} is {who}?|Tell me how many {items} belong to the {other_item} led by {who}.|{who} leads one {other_item}: how many {items} are there in it?|How many {items} come under {leader} {who}?|How many {items} are in the {other_item} that has {who} as {leader}? ; SELECT COUNT(*) FROM {t} JOIN {other} ON {t}.{ref} = {other}.name WHERE {other}.{leader} = {q_who} ; The {other_item} of {who} has {v} {items}.
joined; What total {said} have the {items} of the {other_item} led by {who}?|What total {said} have the {items} whose {leader} is {who}?|What total {said} belongs to the {other_item} of {who}?|Total {said} of the {items} of the {leader} {who}?|Add up the {said} of the {items} whose {leader} is {who}.|What is the total {said} of the {items} that belong to the {other_item} of {who}?|Sum of {said} over the {items} of the {other_item} led by {who}?|The {items} of the {leader} {who}: what is their {said} in total?|In the {other_item} whose {leader} is {who}, what total {said} do the {items} have?|Tell me the total {said} of the {items} in the {other_item} led by {who}.|{who} leads one {other_item}. What total {said} do its {items} have, please?|How much {said} do the {items} of the {other_item} with {leader} {who} have altogether? ; SELECT SUM({t}.{num}) FROM {t} JOIN {other} ON {t}.{ref} = {other}.name WHERE {other}.{leader} = {q_who} ; The {items} of {who} have a total {said} of {v}.
range; How many {items} have a {said} between {least} and {most}?|Count the {items} with a {said} from {least} to {most}.|How many {items} lie between {least} and {most} in {said}?|For how many {items} is the {said} at least {least} and at most {most}?|Number of {items} with a {said} of {least} to {most}?|The {said} between {least} and {most}: how many {items}?|I wonder how many {items} have a {said} from {least} to {most}.|{items} with {said} between {least} and {most}: how many?|Just how many of the {items} have a {said} of {least} to {most}?|Please count the {items} whose {said} lies between {least} and {most}.|In how many {items} is the {said} between {least} and {most}?|Tell me how many {items} have a {said} of at least {least} and at most {most}.|How many {items} exist whose {said} is from {least} to {most}?|With {said} from {least} to {most}, how many {items} are there?|How many {items} have at least {least} and no more than {most} as their {said}?|For how many {items} does the {said} lie between {least} and {most}?|For how many of the {items} is the {said} no less than {least} and no more than {most}?|How many {items} fall between {least} and {most} in {said}?|{said} from {least} to {most}: how many {items}, please?|I'd like the number of {items} with {said} from {least} to {most}.|How many of the {items} have between {least} and {most} as {said}? ; SELECT COUNT(*) FROM {t} WHERE {num} BETWEEN {least} AND {most} ; {v} {items} have a {said} between {least} and {most}.
; Which three {items} have the {word} {said}?|Name the three {items} with the {word} {said}.|List the 3 {items} with the {word} {said}.|What are the three {items} of {word} {said}?|Give me the top three {items}, those with the {word} {said}.|The three {items} with the {word} {said}, please.|Tell me the three {items} with the {word} {said}.|What three {items} have the {word} {said}?|Find the three {items} that have the {word} {said}.|Show me three {items}, the ones with the {word} {said}.|I want to see the three {items} with the {word} {said}.|So by {said}, which three {items} are {word}?|Which are the three {items} with the {word} {said}?|Who are the first three {items}, those of {word} {said}?|Of all {items}, which three have the {word} {said}?|Rank the {items} by {said}: which three have the {word}?|Of {word} {said}: which three {items}?|Let me have the three {items} with the {word} {said}.|Sort the {items} by {said} and name the three with the {word}.|I need three {items}, those with the {word} {said}. ; SELECT {key} FROM {t} ORDER BY {num}{way} LIMIT 3 ; The three are {v}.
; How many {items} {where} have a {said} {than} {bound}?|Count the {items} {where} whose {said} is {than} {bound}.|How many of the {items} {where} have a {said} {than} {bound}?|Number of {items} {where} with a {said} {than} {bound}?|Among the {items} {where}, how many have a {said} {than} {bound}?|Of the {items} {where}, for how many is the {said} {than} {bound}?|I wonder how many {items} {where} have a {said} {than} {bound}.|{items} {where} with {said} {than} {bound}: how many?|Give me the number of {items} {where} with a {said} {than} {bound}.|How many {items} {where} are there whose {said} is {than} {bound}?|Only the {items} {where}: how many have a {said} {than} {bound}?|Tell me how many of the {items} {where} have a {said} {than} {bound}.|For how many {items} {where} is the {said} {than} {bound}?|What is the number of {items} {where} whose {said} is {than} {bound}?|With a {said} {than} {bound}, how many {items} are there {where}?|Take the {items} {where}: how many have a {said} {than} {bound}?|Of all {items} {where}, how many come with a {said} {than} {bound}?|{said} {than} {bound}, and only {items} {where}: how many?|I'd like the number of {items} {where} with {said} {than} {bound}.|Say how many {items} {where} have a {said} {than} {bound}.|How many {items} {where} show a {said} {than} {bound}? ; SELECT COUNT(*) FROM {t} WHERE {cat} = {q_val} AND {num} {sign} {bound} ; {v} {items} {where} have a {said} {than} {bound}.
; How large is the {word} {said} of the {items}?|What is the {word} {said} of all {items}?|Tell me the {word} {said} among the {items}.|What {said} has the {item} with the {word} {said}?|Give me the {word} {said} that any {item} has.|The {word} {said} of any {item}?|Which is the {word} {said} of all {items}?|Look up the {word} {said} of the {items}.|I need the {word} {said} among all {items}, please.|What is the {word} {said} of any {item}?|{word} {said} among the {items}?|Find the {word} {said} of the {items}.|Of all {items}, what is the {word} {said}?|What number is the {word} {said} among the {items}?|The {word} {said} found among the {items}: what is it?|Say what the {word} {said} of the {items} is.|Just how much is the {word} {said} of the {items}?|Which value is the {word} {said} among the {items}?|The {items} have what {said} at the {word}?|I'd like the {word} {said} of all {items}. ; SELECT {extreme}({num}) FROM {t} ; The {word} {said} is {v}.
; How many different {cat} values do the {items} have?|How many kinds of {cat} are there among the {items}?|Count the different values of {cat} of the {items}.|Number of different {cat} entries of the {items}?|In how many sorts of {cat} do the {items} come?|How many distinct values has {cat} for the {items}?|How many different values of {cat} can be seen among the {items}?|How many distinct {cat} entries do the {items} have?|I wonder how many different values {cat} takes for the {items}.|Tell me how many different {cat} values the {items} show.|Among the {items}, how many different {cat} values occur?|Count the distinct {cat} values of the {items}.|What is the number of different {cat} values of the {items}?|Different {cat} values of the {items}: how many?|There are how many different values of {cat} among the {items}?|I'd like the number of different {cat} values of the {items}, please.|How many {cat} values are there among the {items}, each counted once? ; SELECT COUNT(DISTINCT {cat}) FROM {t} ; There are {v} different values of {cat}.
leading; Which {cat} has the most {items}?|Most {items} are of which {cat}?|Which {cat} is most frequent among the {items}?|Tell me the {cat} that most {items} have.|What {cat} do most of the {items} have?|Among the {items}, which {cat} comes most often?|So which {cat} do most {items} have?|The most frequent {cat} of the {items}, please?|Find the {cat} that comes up most often among the {items}.|What is the most common {cat} of the {items}?|Which {cat} is the most common among the {items}?|Look up which {cat} has the most {items}.|To which {cat} do most of the {items} belong?|Which {cat} counts the most {items}?|Name the {cat} with the most {items}.|I wonder which {cat} most {items} have.|What {cat} comes up most among the {items}?|The {items} are mostly of which {cat}, please?|Which is the {cat} that most {items} share?|Sort the {items} by {cat}: which {cat} has the most? ; SELECT {cat} FROM {t} GROUP BY {cat} ORDER BY COUNT(*) DESC LIMIT 1 ; Most {items} have the {cat} {v}.
amount; Which {item} has the most {said}?|Name the {item} with most {said}.|What {item} has the most {said} of all?|Of all {items}, which has the most {said}?|Find the {item} that has the most {said}.|Whose {said} are the most, among the {items}?|The most {said}: which {item} has them?|Tell me which {item} has the most {said}.|Look up the {item} with the most {said}.|I want to know which {item} has the most {said}.|Which of the {items} has most {said}?|Who has the most {said} among the {items}?|Give me the name of the {item} with the most {said}.|Among the {items}, which has the most {said}?|Which {item} comes first in {said}?|What is the name of the {item} that has the most {said}?|Rank the {items} by {said}. Which has the most?|The {item} with the most {said}, please.|Which {item} is first if you go by {said}?|Sort the {items} by {said} and name the one with the most. ; SELECT {key} FROM {t} ORDER BY {num} DESC LIMIT 1 ; {v} has the most {said}.
amount; Which {item} has the fewest {said}?|Name the {item} with the fewest {said}.|What {item} has the least {said} of all?|Of all {items}, which has the fewest {said}?|Find the {item} that has the fewest {said}.|Whose {said} are the fewest, among the {items}?|The fewest {said}: which {item} has them?|Please tell me which {item} has the fewest {said}.|Please look up the {item} with the fewest {said}.|I want to know which {item} has the fewest {said}.|Which of the {items} has the fewest {said}?|Who has the fewest {said} among the {items}?|Give me the name of the {item} with the fewest {said}.|Among the {items}, which has the fewest {said}?|Which {item} comes last in {said}?|What is the name of the {item} that has the least {said}?|Rank the {items} by {said}. Which has the fewest?|The {item} with the fewest {said}, please.|Which {item} is last if you go by {said}?|Sort the {items} by {said} and name the one with the fewest. ; SELECT {key} FROM {t} ORDER BY {num} LIMIT 1 ; {v} has the fewest {said}.
goods; {asks} ; SELECT {num} FROM {t} WHERE {key} = {q_name} ; The {said} of the {raw} is {v}.
goods; {asks} ; SELECT {num} FROM {t} WHERE {key} = {q_name} ; {raw}: {v}.
person; Which {items} does {val} lead?|Name all {items} whose {cat} is {val}.|Of which {items} is {val} the {cat}?|{val} is {cat} of which {items}?|List what {items} have {val} as {cat}.|Tell me every {item} of the {cat} {val}.|Just which {items} have {val} as {cat}?|What {items} have the {cat} {val}?|Find all {items} that have {val} as their {cat}.|I need the {items} whose {cat} is {val}.|Name everything among the {items} that {val} leads.|I want a list of the {items} with the {cat} {val}.|Show the {items} of which {val} is {cat}.|{val}: {cat} of which {items}?|In which {items} is {val} the {cat}? ; SELECT {key} FROM {t} WHERE {cat} = {q_val} ; {val} is {cat} of {v}.
"""
TOTALS = (
    ("SUM", "total", "overall", "combined", "summed"),
    ("AVG", "average", "mean"),
    ("MAX", "maximum", "maximal", "top"),
    ("MIN", "minimum", "minimal"),
)
Words = tuple[Sequence[str], Sequence[str]]
# words that stand before a number or a column, and more for training
HIGHEST: Words = (("highest", "largest", "greatest"), ("biggest", "maximum"))
LOWEST: Words = (("lowest", "smallest"), ("least", "minimum"))
ABOVE: Words = (
    ("above", "more than", "over"),
    ("greater than", "higher than", "larger than", "in excess of"),
)
BELOW: Words = (("below", "less than", "under"), ("lower than", "smaller than", "beneath"))
AMOUNTS = ("visitors", "points", "votes", "goals", "wins", "members", "seats", "pages", "orders", "copies", "hours", "days")  # fmt: skip
# of goods: the row's noun, alone or in the plural
GOODS_RAW = """
price: What does {a} cost?|What is the price of {a}?|How much is {a}?|How much do they ask for {a}?|What do I pay for {a}?|{a} costs how much?|Tell me what {a} costs.|What are they asking for {a}?|How much do I pay for {a}?|How much money is {a}?|What would {a} cost me?|At what price do they sell {a}?|I want to buy {a}. What does it cost?
cost: What did {a} cost?|How much was paid for {a}?|What was the cost of {a}?|How expensive was {a}?|What did they pay for {a}?|{a} cost how much?|Please tell me what {a} cost.|Now, how much did {a} cost?|How much money was paid for {a}?|What was {a} bought for?|What sum was spent on {a}?|At what cost was {a} bought?|I wonder what {a} cost.
stock: How many {s} are in stock?|How many {s} are left?|What is the stock of {s}?|How many {s} do they have?|Are there {s} in stock? How many?|What number of {s} is in stock?|How many {s} are there in stock?|Tell me how many {s} are in stock.|{s} in stock: how many?|I wonder how many {s} they have.|How many {s} can I still get?|How large is the stock of {s}?|How many {s} lie in stock?
sold: How many {s} were sold?|How many {s} did they sell?|How often was {a} sold?|What number of {s} was sold?|How many {s} have been sold?|Sold {s}?|Tell me how many {s} were sold.|How many {s} went over the counter?|How many times did they sell {a}?|I wonder how many {s} have been sold.|{s}: how many were sold?|Just how many {s} found a buyer?|Just how large were the sales of {s} in number?
orders: How many orders are there for {s}?|How many {s} were ordered?|What is the number of orders of {s}?|How often was {a} ordered?|Orders for {s}?|How many people ordered {a}?|How many orders came in for {s}?|Tell me how many orders there are for {s}.|{s}: how many orders?|Just what number of orders is there for {s}?|I want to know how many {s} were ordered.|How many orders do we have for {s}?|Just how many times did people order {a}?
weight: How heavy is {a}?|What does {a} weigh?|What is the weight of {a}?|How much does {a} weigh?|Tell me how heavy {a} is.|{a} weighs how much?|What weight has {a}?|{a}: how heavy is it?|I wonder how heavy {a} is.|Now, what does {a} bring to the scale?|Tell me the weight of {a}.|Weight of {a}?
"""
GOODS = {
    column: asks.split("|")
    for column, asks in (line.split(": ", 1) for line in GOODS_RAW.strip().split("\n"))
}
FORMS = [tuple(part.strip() for part in line.split(";")) for line in FORMS_RAW.strip().split("\n")]
WHERE = {
    "category": "with the {cat} {val}|whose {cat} is {val}|of {cat} {val}|that have {cat} {val}|having {cat} {val}|listed under {cat} {val}|with {val} as {cat}|for which the {cat} is {val}|marked with the {cat} {val}|where the {cat} is {val}|having {val} for {cat}",
    "ref": "from the {cat} {val}|of the {val} {cat}|that belong to the {cat} {val}|of {val}|of the {cat} {val}|belonging to {val}|in the {val} {cat}|listed under the {cat} {val}|from {val}|with {val} as {cat}",
    "person": "with the {cat} {val}|whose {cat} is {val}|of the {cat} {val}|led by {val}|with {val} as {cat}|under the {cat} {val}|under {val}|that have {val} as {cat}",
}


@dataclass
class Table:
    """columns: name -> key, person, category, ref, int, real. refers: the table its ref column names."""

    name: str
    item: str
    columns: dict[str, str]
    rows: list[list[Any]] = field(default_factory=list)
    refers: str = ""
    goods: bool = False
    """Its keys are nouns (mug, poster) and no names."""

    def of_kind(self, *kinds: str) -> list[str]:
        return [c for c, k in self.columns.items() if k in kinds]

    def cell(self, row: list[Any], column: str) -> Any:
        return row[list(self.columns).index(column)]

    def called(self, rng: random.Random, name: str, many: bool = False) -> str:
        """A row as people speak of it."""
        if self.goods:
            return (
                plural(name)
                if many
                else rng.choice([f"a{'n' if name[0] in 'aeio' else ''} {name}", f"the {name}"])
            )
        return rng.choice([name, name, f"the {self.item} {name}", f"the {name} {self.item}"])


@dataclass(frozen=True)
class Question:
    """answer has a slot {v}. column: what the query selects, where that is one number column."""

    text: str
    sql: str
    answer: str
    column: str
    names: tuple[str, ...] = ()
    """Names that it may begin with."""


def quoted(text: object) -> str:
    """A string in SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def draw_tables(rng: random.Random, kinds: Kinds) -> list[Table]:
    """One to three tables; the first may group the rows of the others."""
    tables: list[Table] = []
    group = rng.choice(GROUPS)
    if rng.random() < 0.6:
        columns = {"name": "key", rng.choice(LEADERS): "person"}
        columns |= dict.fromkeys(rng.sample(list(NUMBERS), rng.randint(1, 3)), "int")
        tables.append(Table(plural(group), group, columns))
        _fill(rng, kinds, tables[0], rng.randint(3, 5), {})
    groups = tables[0] if tables else None
    group_names = [row[0] for row in groups.rows] if groups else []
    if rng.random() < 0.2:
        tables.append(_goods(rng, kinds))
    for item in rng.sample(ITEMS, rng.choice([1, 1, 2]) if len(tables) < 2 else 1):
        columns = {rng.choice(["name", "name", "name", "title", item]): "key"}
        columns |= dict.fromkeys(rng.sample(list(CATEGORY), rng.randint(1, 2)), "category")
        refers = ""
        if groups and rng.random() < 0.7:
            columns[group], refers = "ref", groups.name
        for column in rng.sample(list(NUMBERS), rng.randint(1, 3)):
            columns[column] = "real" if rng.random() < 0.15 else "int"
        table = Table(plural(item) if rng.random() < 0.85 else item, item, columns, refers=refers)
        values = {group: group_names}
        for column in table.of_kind("category"):
            options = CATEGORY[column].split() or [kinds.pools.value(rng, column) for _ in range(6)]
            values[column] = rng.sample(options, min(4, len(options)))
        _fill(rng, kinds, table, rng.randint(5, 14), values)
        tables.append(table)
    return tables


def _goods(rng: random.Random, kinds: Kinds) -> Table:
    """What a shop or store holds: its rows are things, not names."""
    key, name = rng.choice(["item", "article", "product", "name", "thing"]), rng.choice(STORES)
    columns = {key: "key"}
    if rng.random() < 0.4:
        columns[rng.choice(["kind", "size", "material", "color"])] = "category"
    columns |= dict.fromkeys(
        rng.sample(["price", "stock", "sold", "orders", "weight", "cost"], rng.randint(2, 4)), "int"
    )
    table = Table(name, key if key not in ("name", "thing") else "article", columns, goods=True)
    values = {c: rng.sample(CATEGORY[c].split(), 3) for c in table.of_kind("category")}
    _fill(rng, kinds, table, rng.randint(4, 9), values)
    return table


STORES = [
    "shop",
    "store",
    "stock",
    "goods",
    "inventory",
    "market",
    "depot",
    "sales",
    "kiosk",
    "pantry",
    "supplies",
    "stall",
]


def _noun(rng: random.Random, kinds: Kinds) -> str:
    noun = kinds.pools.noun(rng) if rng.random() < 0.4 else ""
    return noun if re.fullmatch("[a-z]{3,10}[a-rt-z]", noun) else rng.choice(ITEMS)


def _fill(rng: random.Random, kinds: Kinds, table: Table, count: int, values: dict[str, list[str]]) -> None:
    """At most `count` rows, no two of one name."""
    seen: set[str] = set()
    for _ in range(count):
        row: list[Any] = []
        name = _noun(rng, kinds) if table.goods else proper_name(rng, kinds)
        for column, kind in table.columns.items():
            if kind == "key":
                row.append(name)
            elif kind == "person":
                row.append(rng.choice(kinds.pools.values["person"]))
            elif kind in ("category", "ref"):
                row.append(rng.choice(values[column]))
            else:
                low, high = NUMBERS[column]
                row.append(rng.randint(low, high) if kind == "int" else round(rng.uniform(low, high), 1))
        if name not in seen:
            seen.add(name)
            table.rows.append(row)


def database(tables: list[Table]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for t in tables:
        db.execute(f"CREATE TABLE {t.name} ({', '.join(t.columns)})")
        db.executemany(f"INSERT INTO {t.name} VALUES ({', '.join('?' * len(t.columns))})", t.rows)
    return db


def draw_question(rng: random.Random, kinds: Kinds, tables: list[Table]) -> Question:
    """A question about one table, or about two that one names."""
    table = rng.choice(tables)
    fields, flags = _fields(rng, kinds, tables, table)
    forms = [f for f in FORMS if (not f[0] or f[0] in flags) and ("{cat}" not in f[2] or fields["cat"])]
    _, asks, sql, answer = rng.choice(forms)
    told = fields["asks"] if asks == "{asks}" else asks.split("|")
    text = pick(rng, told, kinds.split).format(**fields)
    text = capital(_an(text))
    selected = sql.split(" FROM ")[0]
    column = fields["num"] if "{num}" in selected else ""
    answer = answer.replace("{v}", "{{v}}")
    names = tuple(str(fields[k]) for k in ("name", "val", "who") if k in fields)
    return Question(text, sql.format(**fields), _an(answer.format(**fields)), column, names)


def _an(text: str) -> str:
    """With "an" before a column that needs it: an age, an hours. A capital A may be a value."""
    return re.sub(r"\ba (?=[aeio]|hours\b)", "an ", text)


def _fields(
    rng: random.Random, kinds: Kinds, tables: list[Table], table: Table
) -> tuple[dict[str, Any], set[str]]:
    """What the forms' slots hold, and which kinds of form fit."""
    row = rng.choice(table.rows)
    num = rng.choice(table.of_kind("int", "real"))
    key = table.of_kind("key")[0]
    cat = rng.choice(table.of_kind("category", "ref", "person") or [""])
    raw, val = table.cell(row, key), table.cell(row, cat) if cat else ""
    name = table.called(rng, raw) if table.goods else raw
    kind = table.columns[cat] if cat else ""
    high, more = rng.random() < 0.6, rng.random() < 0.5
    agg, total, *others = rng.choice(TOTALS)
    fields: dict[str, Any] = {
        "t": table.name,
        "item": table.item,
        "items": plural(table.item),
        "key": key,
        "name": name,
        "raw": raw,
        "q_name": quoted(raw),
        "cat": cat,
        "val": val,
        "q_val": quoted(val),
        "num": num,
        "said": words(num),
        "word": choose(rng, *(HIGHEST if high else LOWEST), kinds.split),
        "way": " DESC" if high else "",
        "extreme": "MAX" if high else "MIN",
        "agg": agg,
        "total": choose(rng, [total], others, kinds.split),
        "bound": table.cell(row, num),
        "sign": ">" if more else "<",
        "than": choose(rng, *(ABOVE if more else BELOW), kinds.split),
    }
    fields["least"], fields["most"] = sorted((table.cell(row, num), table.cell(rng.choice(table.rows), num)))
    flags = {kind} if kind else set()
    if fields["least"] != fields["most"]:
        flags.add("range")
    if kind:
        fields["where"] = pick(rng, WHERE[kind].split("|"), kinds.split).format(cat=cat, val=val)
        ranks = Counter(table.cell(r, cat) for r in table.rows).most_common(2)
        if kind != "person" and (len(ranks) < 2 or ranks[0][1] > ranks[1][1]):
            flags.add("leading")
    if num in AMOUNTS:
        flags.add("amount")
    if table.goods:
        fields |= {"asks": GOODS[num], "a": f"a{'n' if raw[0] in 'aeio' else ''} {raw}", "s": plural(raw)}
        flags.add("goods")
    elif num in SAID:
        asks, up, down = SAID[num]
        fields |= {"asks": asks.split("|"), "n": table.called(rng, name)}
        best, *synonyms = (up if high else down).split("/")
        fields["top"] = choose(rng, [best], synonyms, kinds.split)
        flags |= {"natural", "ranked"} if up else {"natural"}
    prices = [c for c in ("price", "cost") if c in table.columns]
    counts = [c for c in ("stock", "sold", "days", "seats") if c in table.columns]
    if prices and counts:
        fields |= {"p": prices[0], "s": counts[0]}
        flags.add("product")
    if table.refers:
        other = next(o for o in tables if o.name == table.refers)
        leader = other.of_kind("person")[0]
        who = other.cell(rng.choice(other.rows), leader)
        fields |= {"other": other.name, "other_item": other.item, "leader": leader, "who": who}
        fields |= {"q_who": quoted(who), "ref": table.of_kind("ref")[0]}
        flags.add("joined")
    return fields, flags
