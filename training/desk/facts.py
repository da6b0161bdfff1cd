# ruff: noqa: E501 -- sentences are data: one list a line reads better than wrapped ones
"""Sentences that say one thing of one place or thing, and the questions they answer. Knows no tools."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from pathlib import Path

from training.desk.names import proper_name
from training.desk.units import UNITS, shown
from training.kinds import Kinds
from training.naming import articles, pick, plural
from training.spoken import DAYS, MONTHS

PLACES = [
    "lighthouse",
    "farm",
    "bakery",
    "shipyard",
    "quarry",
    "mill",
    "orchard",
    "hospital",
    "theatre",
    "library",
    "station",
    "ferry",
    "harbour",
    "castle",
    "hotel",
    "winery",
    "workshop",
    "brewery",
    "school",
    "garden",
    "observatory",
    "mine",
    "dairy",
    "camp",
    "market",
    "abbey",
    "foundry",
    "zoo",
    "refinery",
    "vineyard",
    "aquarium",
]
CURRENCIES = ["euros", "dollars", "pounds", "crowns", "francs"]
NOUNS = ("mass", "money", "count", "length")  # what any noun may have
POOLS = {
    "colour": ("colour",),
    "origin": ("city", "country"),
    "supplier": ("company",),
    "person": ("person",),
    "buyer": ("city", "company", "person"),
}
MODIFIERS = (
    "old", "new", "small", "large", "upper", "lower", "north", "south", "east", "west", "main", "back", "front", "spare", "night", "day",
    "student", "season", "second", "guest", "red", "blue", "green", "winter", "summer", "double", "outer", "inner", "long", "round",
)  # fmt: skip
"""What tells two things of one name apart: the day ticket and the season ticket."""


HERE = "\ue0fe"
"""The entity of facts in a world that is all about one place, which nobody names."""


def unplaced(text: str) -> str:
    """A question or an answer about HERE as people say it who speak of one place alone."""
    if HERE not in text:
        return text
    text = re.sub(rf",? (?:of|at|to|by) {HERE}", "", text)
    text = re.sub(rf" from {HERE}(?=[.,])", " away", text)
    text = re.sub(rf" from {HERE}", "", text)
    text = re.sub(rf"(^|[.?!] ){HERE} has ", r"\1There are ", text)
    return re.sub(rf"(?:^|(?<=[.?!] ))(?:At|From) {HERE},? (\w)", lambda m: m[1].upper(), text)


@dataclass(frozen=True)
class Kind:
    """One kind of fact. {o} object, {n} number, {u} unit, {e} place, {v} value with unit."""

    quantity: str
    objects: tuple[str, ...]
    low: int
    high: int
    answer: str
    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    slots: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Other words of the templates, each with its options; forms of one word stand between slashes."""
    of_things: bool = False
    """Of a thing of which several can be weighed, paid or counted together."""

    @property
    def named(self) -> bool:
        """Whether the sentences name the place or thing themselves: several may share a file."""
        return "{e}" in self.sentences[0]

    def words(self, rng: random.Random) -> dict[str, str]:
        """One option for each of its other words; "v" among them is the value."""
        said: dict[str, str] = {}
        for name, options in self.slots:
            for i, form in enumerate(rng.choice(options).split("/"), 1):
                said[f"{name}{i}" if i > 1 else name] = form
        return said


# quantity | objects | low | high | answer, then the sentences, then the questions
RAW = """
length | tower chimney gate dome mast wall roof statue hall arch crane silo column monument pylon obelisk stack lantern staircase scaffold mound cliff fountain | 2 | 900 | the {o} of {e} is {v} high
The {o} is {n} {u} high. ~ The {o} has a height of {n} {u}. ~ {n} {u} is the height of the {o}. ~ At {n} {u}, the {o} can be seen from afar. ~ The {o} rises {n} {u}. ~ Our {o} reaches a height of {n} {u}. ~ Height of the {o}: {n} {u}. ~ With its {n} {u}, the {o} is the pride of the place. ~ The {o} was raised to {n} {u}. ~ From its foot to its tip the {o} is {n} {u}. ~ Note that the {o} stands {n} {u} tall. ~ {o}: {n} {u} high ~ The top of the {o} is {n} {u} above the ground. ~ They built the {o} {n} {u} high. ~ The {o} measures {n} {u} from bottom to top. ~ It is {n} {u} up to the top of the {o}. ~ We measured the {o}: {n} {u} in height. ~ The {o} is {n} {u} tall. ~ Nothing here is higher than the {o} with its {n} {u}. ~ We know that the {o} goes up {n} {u}.
How high is the {o} of {e}? ~ What is the height of the {o} of {e}? ~ How tall is the {o} at {e}? ~ The {o} of {e}: how high is it? ~ Find the height of the {o} of {e}. ~ How tall is the {o} of {e}? ~ What height has the {o} at {e}? ~ Tell me the height of the {o} of {e}. ~ How high does the {o} of {e} rise? ~ Give the height of {e}'s {o}. ~ At {e}, how high is the {o}? ~ How many {u} high is the {o} of {e}? ~ How many {u} does the {o} of {e} rise? ~ I wonder how high the {o} of {e} is. ~ The {o} of {e} is how high? ~ What is the height of the {o} at {e}? ~ How high did they build the {o} of {e}? ~ How far up does the {o} of {e} go? ~ Height of the {o} of {e}? ~ Say how high the {o} of {e} is. ~ How far is it to the top of the {o} of {e}? ~ I need the height of the {o} of {e}. ~ At {e}, how tall is the {o}? ~ Just what does the {o} of {e} measure in height? ~ How many {u} tall is the {o} at {e}? ~ Do you know how high the {o} at {e} is? ~ Look up the height of the {o} of {e}.

length | bridge pier tunnel fence path corridor cable canal track rope pipe hedge gangway aisle railing drain chain conveyor runway terrace avenue ditch ramp | 3 | 800 | the {o} of {e} is {v} long
The {o} is {n} {u} long. ~ The length of the {o} is {n} {u}. ~ From end to end the {o} measures {n} {u}. ~ The {o} runs for {n} {u}. ~ They laid a {o} of {n} {u}. ~ The {o} has a length of {n} {u}. ~ Along its {n} {u}, the {o} is lit at night. ~ Length of the {o}: {n} {u}. ~ The {o} stretches over {n} {u}. ~ The {o} was extended to {n} {u}. ~ Walking the whole {o} means {n} {u}. ~ The {o} covers a length of {n} {u}. ~ A {o} of {n} {u} was added. ~ {o}: {n} {u} (length) ~ The new {o} is {n} {u} long. ~ The {o} goes on for {n} {u}. ~ {n} {u} is the length of the {o}. ~ They built the {o} {n} {u} long. ~ It is {n} {u} from one end of the {o} to the other. ~ The {o} is {n} {u} in length. ~ We measured {n} {u} for the {o}. ~ The {o} extends for {n} {u}. ~ With {n} {u} the {o} is the longest around. ~ The whole {o} has {n} {u}. ~ The {o} was cut down to {n} {u}. ~ The plan shows a {o} of {n} {u}. ~ The {o} comes to {n} {u} in all. ~ At {n} {u} the {o} ends. ~ One counts {n} {u} along the {o}. ~ The {o} reaches over {n} {u}.
How long is the {o} of {e}? ~ What's the length of the {o} at {e}? ~ What does the {o} of {e} measure? ~ Tell me how long the {o} of {e} is. ~ How far does the {o} of {e} run? ~ How long is the {o} at {e}? ~ What length has the {o} of {e}? ~ How many {u} long is the {o} of {e}? ~ How many {u} does the {o} of {e} measure? ~ I wonder how long the {o} of {e} is. ~ What is the length of the {o} of {e}? ~ How long did they build the {o} of {e}? ~ Length of the {o} of {e}? ~ Could you say how long the {o} of {e} is? ~ From end to end, how long is the {o} of {e}? ~ I need the length of the {o} at {e}. ~ So at {e}, how long is the {o}? ~ Over what length does the {o} of {e} run? ~ Look up the length of the {o} of {e}. ~ How many {u} in length is the {o} of {e}?

length | coast village airport town forest spring border lake road church river bakery-shop bus-stop island junction campsite hill post-office pharmacy waterfall glacier ruin | 1 | 90 | the {o} is {v} from {e}
The {o} lies {n} {u} away. ~ It is {n} {u} to the {o}. ~ The way to the {o} is {n} {u}. ~ The nearest {o} is at a distance of {n} {u}. ~ One walks {n} {u} to reach the {o}. ~ The distance to the {o} is {n} {u}. ~ {n} {u} separate it from the {o}. ~ The {o} can be reached in {n} {u}. ~ The {o} is {n} {u} off. ~ Distance to the {o}: {n} {u}. ~ Signs say that the {o} is {n} {u} from here. ~ From the gate to the {o} it is {n} {u}. ~ You will find the {o} after {n} {u}. ~ Not more than {n} {u} lie between it and the {o}. ~ The {o}: {n} {u} down the road. ~ The {o} is {n} {u} away. ~ To the {o} it takes {n} {u} of road. ~ {n} {u} is the distance to the {o}. ~ The {o} is only {n} {u} from here. ~ Go {n} {u} and you are at the {o}. ~ One drives {n} {u} to the {o}. ~ {o}: {n} {u} away ~ Note that for the {o} one has to go {n} {u}. ~ Note that the {o} is as near as {n} {u}. ~ Between here and the {o} there are {n} {u}. ~ After {n} {u} one comes to the {o}. ~ The road to the {o} has {n} {u}. ~ It is a walk of {n} {u} to the {o}. ~ The {o} can be seen from here, {n} {u} off. ~ At a distance of {n} {u} there is a {o}.
How far is the {o} from {e}? ~ What is the distance from {e} to the {o}? ~ How far is it to the {o} from {e}? ~ How much of a walk is it from {e} to the {o}? ~ From {e}, how far away is the {o}? ~ How far must one go from {e} to the {o}? ~ How far away from {e} is the {o}? ~ Give the distance to the {o} from {e}. ~ How many {u} must one go from {e} to the {o}? ~ How many {u} away from {e} is the {o}? ~ I wonder how far the {o} is from {e}. ~ What distance is it from {e} to the {o}? ~ How far off is the {o} from {e}? ~ How long is the way from {e} to the {o}? ~ From {e}, what is the distance to the {o}? ~ How far does one go from {e} to reach the {o}? ~ Let me know how far it is from {e} to the {o}. ~ What is the way from {e} to the {o} in length? ~ How far from {e} is the {o}? ~ How many {u} is the {o} away from {e}? ~ Just how many {u} is it from {e} to the {o}? ~ Say how far it is from {e} to the {o}. ~ Is it far from {e} to the {o}? Give the distance.

mass | crate sack barrel bell anchor box wheel cheese stone basket block drum bale jug brick log trunk sandbag plate lantern tray pallet pumpkin hammer | 2 | 400 | a {o} of {e} weighs {v}
Each {o} weighs {n} {u}. ~ A {o} weighs {n} {u}. ~ The weight of a {o} is {n} {u}. ~ One {o} comes to {n} {u}. ~ Every {o} had a weight of {n} {u}. ~ The {o}s weigh {n} {u} apiece. ~ A single {o} brings {n} {u} to the scale. ~ Weight of a {o}: {n} {u}. ~ Per {o} we count {n} {u}. ~ The scale shows {n} {u} for a {o}. ~ A {o} has a mass of {n} {u}. ~ {o}: {n} {u} each (weight) ~ No {o} is heavier than the others: {n} {u}. ~ One must lift {n} {u} to move a {o}. ~ Filled, a {o} weighs {n} {u}. ~ A {o} is {n} {u} in weight. ~ One {o} weighs {n} {u}. ~ {n} {u} is what a {o} weighs. ~ Each {o} is {n} {u} heavy. ~ We weighed a {o}: {n} {u}. ~ On the scale a {o} has {n} {u}. ~ The mass of one {o} is {n} {u}. ~ A {o} is as heavy as {n} {u}. ~ To lift a {o} means to lift {n} {u}. ~ A {o} makes {n} {u}. ~ With {n} {u} a {o} is not light. ~ It says {n} {u} on every {o}. ~ The usual {o} weighs {n} {u}. ~ Count {n} {u} for each {o}. ~ A {o} adds {n} {u} to the load.
How much does a {o} of {e} weigh? ~ What is the weight of one {o} at {e}? ~ How heavy is a {o} at {e}? ~ What does each {o} of {e} weigh? ~ Give me the weight of a {o} of {e}. ~ How heavy is one {o} of {e}? ~ What is the mass of a {o} at {e}? ~ Tell me what a {o} of {e} weighs. ~ What weight has a {o} of {e}? ~ A {o} at {e}: how heavy is it? ~ How many {u} does a {o} of {e} weigh? ~ How many {u} is a {o} of {e}? ~ I wonder how heavy a {o} of {e} is. ~ A {o} of {e} weighs how much? ~ What is the weight of each {o} of {e}? ~ How much weight has a {o} of {e}? ~ Weight of a {o} of {e}? ~ Just how heavy is each {o} at {e}? ~ At {e}, how much does a {o} weigh? ~ Could you say what one {o} of {e} weighs? ~ Just how much does one {o} at {e} bring to the scale? ~ I need the weight of a {o} of {e}. ~ What does a single {o} of {e} weigh? ~ Just what mass has one {o} of {e}? ~ Look up the weight of a {o} at {e}.

volume | tank cistern vat pool kettle well boiler trough bucket keg reservoir jar barrel pond flask bathtub churn sink aquifer canister | 5 | 900 | the {o} of {e} holds {v}
The {o} holds {n} {u}. ~ Up to {n} {u} fit into the {o}. ~ The {o} has room for {n} {u}. ~ The capacity of the {o} is {n} {u}. ~ When full, the {o} contains {n} {u}. ~ The {o} takes {n} {u}. ~ Capacity of the {o}: {n} {u}. ~ There is space for {n} {u} in the {o}. ~ The {o} was built for {n} {u}. ~ {o}: {n} {u} (capacity) ~ At most {n} {u} go into the {o}. ~ A full {o} means {n} {u}. ~ The {o} has a volume of {n} {u}. ~ {n} {u} go into the {o}. ~ The {o} can hold {n} {u}. ~ {n} {u} is the capacity of the {o}. ~ One can fill {n} {u} into the {o}. ~ The {o} is full with {n} {u}. ~ To fill the {o} takes {n} {u}. ~ No more than {n} {u} fit into the {o}. ~ The {o} has a capacity of {n} {u}. ~ Filled up, the {o} has {n} {u}. ~ Note that the {o} can take up {n} {u}. ~ In the {o} there is room for {n} {u}. ~ The volume of the {o} is {n} {u}. ~ {o}: holds {n} {u}
How much does the {o} of {e} hold? ~ What is the capacity of the {o} at {e}? ~ How much fits into the {o} of {e}? ~ What volume has the {o} of {e}? ~ How big is the {o} at {e}? ~ What is the volume of the {o} of {e}? ~ How much can the {o} at {e} take? ~ Tell me the capacity of the {o} of {e}. ~ At {e}, how much does the {o} hold? ~ How much is in the {o} of {e} when it is full? ~ How many {u} does the {o} of {e} hold? ~ How many {u} fit into the {o} of {e}? ~ I wonder how much the {o} of {e} holds. ~ The {o} of {e} holds how much? ~ What does the {o} of {e} hold? ~ What capacity has the {o} at {e}? ~ Capacity of the {o} of {e}? ~ How much can one fill into the {o} of {e}? ~ How much goes into the {o} of {e}? ~ How much does it take to fill the {o} of {e}? ~ So at {e}, what is the capacity of the {o}? ~ Say how much fits into the {o} of {e}. ~ How much room is there in the {o} of {e}? ~ I need the volume of the {o} of {e}. ~ How many {u} can the {o} of {e} take?

temperature | oven cellar greenhouse kiln basin dryer sauna cold-room furnace stable freezer boiler-room incubator pantry laboratory attic smokehouse hothouse vault drying-room | 2 | 95 | the {o} of {e} is at {v}
The {o} is kept at {n} degrees {u}. ~ The {o} has a temperature of {n} degrees {u}. ~ It is {n} degrees {u} in the {o}. ~ The {o} must never exceed {n} degrees {u}. ~ They heat the {o} to {n} degrees {u}. ~ The {o} is set to {n} degrees {u}. ~ We measured {n} degrees {u} in the {o}. ~ The {o} reaches {n} degrees {u}. ~ {n} degrees {u} is the temperature of the {o}. ~ Everybody can see that the {o} is at {n} degrees {u}. ~ Note that in the {o} the temperature is {n} degrees {u}. ~ Note that they keep the {o} at {n} degrees {u}. ~ We know that the thermometer of the {o} shows {n} degrees {u}. ~ The temperature of the {o} was set to {n} degrees {u}. ~ Note that inside the {o} we have {n} degrees {u}. ~ At {n} degrees {u} the {o} is just right.
How warm is the {o} of {e}? ~ What is the temperature of the {o} at {e}? ~ At which temperature is the {o} of {e}? ~ How hot does it get in the {o} of {e}? ~ Find the temperature of the {o} at {e}. ~ What temperature has the {o} of {e}? ~ How many degrees does the {o} at {e} have? ~ Tell me the temperature of the {o} of {e}. ~ At {e}, how warm is the {o}? ~ How warm is it in the {o} at {e}? ~ What does the thermometer show in the {o} of {e}? ~ I wonder how warm the {o} of {e} is. ~ The {o} of {e} has what temperature? ~ How hot is the {o} of {e}? ~ At what temperature do they keep the {o} of {e}? ~ Temperature of the {o} of {e}? ~ To what temperature is the {o} of {e} set? ~ How many degrees are there in the {o} of {e}? ~ Say how warm the {o} at {e} is. ~ At {e}, what is the temperature of the {o}? ~ Look up the temperature of the {o} of {e}. ~ What is the temperature in the {o} of {e}? ~ How warm do they keep the {o} at {e}?

time | crossing visit shift harvest cleaning inspection lesson show trip repair ride tasting loading walk class rehearsal break climb ceremony dive interview | 2 | 90 | the {o} of {e} takes {v}
The {o} takes {n} {u}. ~ One {o} lasts {n} {u}. ~ It takes {n} {u} to finish the {o}. ~ The {o} is over after {n} {u}. ~ Allow {n} {u} for the {o}. ~ The {o} lasts {n} {u}. ~ Duration of the {o}: {n} {u}. ~ Plan {n} {u} for the {o}. ~ The {o} goes on for {n} {u}. ~ After {n} {u} the {o} ends. ~ The {o} was shortened to {n} {u}. ~ {o}: {n} {u} (duration) ~ The {o} needs {n} {u}. ~ Everyone spends {n} {u} on the {o}. ~ A {o} of {n} {u} is offered. ~ {n} {u} is what the {o} takes. ~ The {o} is done in {n} {u}. ~ {n} {u} are needed for the {o}. ~ The {o} has a length of {n} {u}. ~ In {n} {u} the {o} is over. ~ The whole {o} takes {n} {u}. ~ The {o} is planned for {n} {u}. ~ A {o} usually takes {n} {u}. ~ They reckon with {n} {u} for the {o}. ~ Note that from start to end, the {o} takes {n} {u}. ~ The duration of the {o} is {n} {u}. ~ One is busy for {n} {u} with the {o}. ~ The {o} was made longer, to {n} {u}. ~ Have {n} {u} ready for the {o}. ~ It is {n} {u} until the {o} ends.
How long does the {o} of {e} take? ~ What is the duration of the {o} at {e}? ~ How long is the {o} at {e}? ~ How much time does the {o} of {e} need? ~ The {o} of {e} takes how long? ~ How long does the {o} at {e} last? ~ For how long does the {o} of {e} go on? ~ Tell me the duration of the {o} of {e}. ~ At {e}, how long does the {o} take? ~ What time does one need for the {o} of {e}? ~ How many {u} does one need for the {o} of {e}? ~ How many {u} long is the {o} of {e}? ~ I want to know how long the {o} of {e} takes. ~ What is the length of the {o} of {e} in time? ~ How much time does one need for the {o} of {e}? ~ Just how much time does the {o} at {e} take? ~ Duration of the {o} of {e}? ~ Just how long must I plan for the {o} of {e}? ~ After what time is the {o} of {e} over? ~ At {e}, how long does the {o} last? ~ Please say how long the {o} of {e} takes. ~ How much time goes by with the {o} of {e}? ~ I need the duration of the {o} of {e}. ~ Just how many {u} does the {o} of {e} take? ~ Just how many {u} does the {o} at {e} last?

money | ticket loaf bottle room seat lamp jar poster cup meal coat ride ladder rope blanket map candle basket hat mug pencil umbrella book parking-space breakfast photo | 2 | 250 | a {o} costs {v} at {e}
A {o} costs {n} {u}. ~ The price of a {o} is {n} {u}. ~ One pays {n} {u} for a {o}. ~ They charge {n} {u} for a {o}. ~ For {n} {u} you get a {o}. ~ Price of a {o}: {n} {u}. ~ A {o} is sold for {n} {u}. ~ {o}: {n} {u} each ~ Each {o} costs {n} {u}. ~ You can buy a {o} for {n} {u}. ~ The {o} is {n} {u}. ~ We ask {n} {u} for a {o}. ~ A {o} now costs {n} {u}. ~ Visitors pay {n} {u} per {o}. ~ {n} {u} is what a {o} costs. ~ {n} {u} buys a {o}. ~ A {o} goes for {n} {u}. ~ For a {o} one pays {n} {u}. ~ The cost of a {o} is {n} {u}. ~ A {o} comes at {n} {u}. ~ {o}: {n} {u} ~ Every {o} costs {n} {u}. ~ {n} {u} is the price of a {o}. ~ They want {n} {u} for a {o}. ~ A {o} is to be had for {n} {u}. ~ The price of a {o} went up to {n} {u}. ~ For a {o} we take {n} {u}. ~ One {o} costs {n} {u}. ~ A {o} was priced at {n} {u}. ~ Bring {n} {u} for a {o}.
What does a {o} cost at {e}? ~ How much is a {o} at {e}? ~ What is the price of a {o} of {e}? ~ How much do they charge for a {o} at {e}? ~ How expensive is a {o} at {e}? ~ What do I pay for a {o} at {e}? ~ What does one {o} cost at {e}? ~ At {e}, what is the price of a {o}? ~ How many {u} is a {o} at {e}? ~ What is a {o} sold for at {e}? ~ A {o} at {e} costs how much? ~ I want to know how much a {o} costs at {e}. ~ What do they ask for a {o} at {e}? ~ How much money is a {o} at {e}? ~ What's the usual price of a {o} at {e}? ~ How much does one pay for a {o} at {e}? ~ Let me know what a {o} costs at {e}. ~ At {e}, how much is a {o}? ~ What would a {o} cost me at {e}? ~ I want to buy a {o} at {e}. What does it cost? ~ Just for how much do they sell a {o} at {e}? ~ How many {u} do they ask for a {o} at {e}? ~ Say how much a {o} is at {e}. ~ What's the cost of a {o} at {e}?

count | worker room window bed boat guest table door cow lamp member pupil machine goat tent bicycle locker pond oven statue kitchen volunteer | 3 | 950 | {e} has {v} {o}s
There are {n} {o}s. ~ It has {n} {o}s. ~ They count {n} {o}s in all. ~ The number of {o}s is {n}. ~ A total of {n} {o}s belong to it. ~ Its {o}s are {n} in number. ~ {n} {o}s can be found here. ~ It owns {n} {o}s. ~ The list names {n} {o}s. ~ {o}s: {n} ~ In all, {n} {o}s are there. ~ The {o}s were counted: {n}. ~ One finds {n} {o}s. ~ {n} {o}s are there. ~ Note that the place has {n} {o}s. ~ We counted {n} {o}s. ~ Note that they have {n} {o}s. ~ {n} is the number of {o}s. ~ At last count there were {n} {o}s. ~ All in all it has {n} {o}s. ~ There are as many as {n} {o}s. ~ Note that one can count {n} {o}s. ~ Of {o}s there are {n}. ~ The book lists {n} {o}s. ~ {n} {o}s make up the whole. ~ The number of {o}s has grown to {n}.
How many {o}s are there at {e}? ~ What is the number of {o}s of {e}? ~ How many {o}s does {e} have? ~ {e} has how many {o}s? ~ Count the {o}s of {e}. ~ How many {o}s are at {e}? ~ How many {o}s belong to {e}? ~ Tell me the number of {o}s at {e}. ~ At {e}, how many {o}s are there? ~ How many {o}s can be found at {e}? ~ Give the count of {o}s at {e}. ~ {o}s of {e}: how many? ~ I wonder how many {o}s there are at {e}. ~ What number of {o}s is there at {e}? ~ How many {o}s in all are there at {e}? ~ Number of {o}s at {e}? ~ How many {o}s can one count at {e}? ~ Say how many {o}s there are at {e}. ~ At {e}, what is the number of {o}s? ~ How large is the number of {o}s at {e}? ~ Tell me how many {o}s there are at {e}. ~ Just how many {o}s do they have at {e}? ~ I need the number of {o}s of {e}. ~ What is the count of {o}s at {e}? ~ How many {o}s were counted at {e}?

person | owner keeper captain cook manager founder guard doctor gardener clerk architect pilot treasurer director baker mechanic librarian secretary trainer accountant porter inspector nurse | 0 | 0 | the {o} of {e} is {v}
The {o} is {n}. ~ {n} is the {o}. ~ {n} works there as {o}. ~ Its {o} is called {n}. ~ {o}: {n}. ~ {n} has been the {o} for years. ~ As {o}, {n} has the keys. ~ The work of the {o} is done by {n}. ~ We know that the post of {o} is held by {n}. ~ They made {n} the {o}. ~ Note that the name of the {o} is {n}. ~ We know that as {o} they have {n}. ~ {n} was chosen as {o}. ~ It is known that our {o} is {n}. ~ {n} does the work of a {o}. ~ The {o}, {n}, is there every day.
Who is the {o} of {e}? ~ What is the name of the {o} at {e}? ~ Name the {o} of {e}. ~ Who works as {o} at {e}? ~ Which person is {o} of {e}? ~ Who is {o} at {e}? ~ Tell me who the {o} of {e} is. ~ Who does the work of the {o} at {e}? ~ At {e}, who is the {o}? ~ What is the {o} of {e} called? ~ By what name is the {o} of {e} known? ~ Give the name of {e}'s {o}. ~ Tell me the name of the {o} of {e}. ~ I wonder who the {o} of {e} is. ~ Who has the post of {o} at {e}? ~ Which person works as {o} at {e}? ~ Find out who is {o} of {e}. ~ Name of the {o} of {e}? ~ Whom do they have as {o} at {e}? ~ The {o} of {e}, who is it? ~ Say who is the {o} at {e}. ~ What name has the {o} of {e}? ~ Do you know who the {o} at {e} is? ~ At {e}, what is the name of the {o}?

clock | shop office tour canteen counter workshop service course gallery kiosk museum exhibition pool desk bar playground surgery theatre fair | 0 | 0 | the {o} of {e} opens at {v}
The {o} opens at {n}. ~ From {n} on the {o} is open. ~ The {o} starts at {n}. ~ Opening time of the {o}: {n}. ~ Every day at {n} the {o} begins. ~ The {o} opens its doors at {n}. ~ Opening of the {o}: {n}. ~ The {o} can be visited from {n}. ~ At {n} the {o} opens. ~ The {o} is open from {n} on. ~ {o}: from {n} ~ Not before {n} does the {o} open. ~ The {o} begins at {n}. ~ Be there at {n}, when the {o} starts. ~ The {o} is closed until {n}. ~ One can go into the {o} from {n} on. ~ It is at {n} that the {o} opens. ~ {o}: opens {n} ~ They open the {o} at {n}. ~ Until {n} the {o} stays shut. ~ The doors of the {o} open at {n}. ~ The hour at which the {o} opens is {n}. ~ Come at {n} for the {o}. ~ The {o} is ready from {n}. ~ Before {n} the {o} is not open. ~ As of {n} the {o} is open. ~ At {n} they unlock the {o}. ~ At {n} sharp the {o} starts. ~ The sign says that the {o} opens at {n}. ~ The {o} is open as early as {n}.
When does the {o} of {e} open? ~ At what time does the {o} start at {e}? ~ From when is the {o} of {e} open? ~ When does the {o} at {e} begin? ~ What is the starting time of the {o} of {e}? ~ At what hour does the {o} of {e} open? ~ From what time on is the {o} at {e} open? ~ What is the opening time of the {o} at {e}? ~ I wonder when the {o} of {e} opens. ~ Let me know when the {o} at {e} opens. ~ So at {e}, when does the {o} open? ~ Opening time of the {o} of {e}? ~ What time does the {o} of {e} open? ~ Just how early does the {o} of {e} open? ~ From what time can one go to the {o} of {e}? ~ Say at what time the {o} of {e} opens, please. ~ So when can one go into the {o} of {e}? ~ So from which hour is the {o} of {e} open?

year | chapel wing tower bridge hall kitchen barn dock tavern stage mill tunnel gate arcade cellar well greenhouse stable museum cottage | 1650 | 2024 | the {o} of {e} dates from {v}
The {o} was built in {n}. ~ The {o} dates from {n}. ~ In {n} the {o} was finished. ~ Since {n} there has been a {o}. ~ The {o} was opened in {n}. ~ The {o} was put up in {n}. ~ The {o} is from {n}. ~ Built in {n}, the {o} still stands. ~ {n} saw the first {o}. ~ The {o} goes back to {n}. ~ The {o} was completed in {n}. ~ {o}: built {n} ~ A {o} was added in {n}. ~ The year {n} is carved over the {o}. ~ They began to use the {o} in {n}. ~ In {n} they built the {o}. ~ It was in {n} that the {o} was built. ~ The {o} has stood since {n}. ~ The {o} is dated {n}. ~ Year of the {o}: {n} ~ The {o} was made in {n}. ~ The {o} has been here since {n}. ~ In the year {n} the {o} was put up. ~ The {o} goes by the date of {n}. ~ Work on the {o} ended in {n}. ~ There has been a {o} ever since {n}. ~ {n} is the year in which the {o} was built. ~ The {o} came in {n}. ~ Note that the plans of the {o} are from {n}, and so is the {o}. ~ The {o} was new in {n}.
When was the {o} of {e} built? ~ In which year was the {o} at {e} finished? ~ How old is the {o} of {e}? Give the year. ~ From which year is the {o} of {e}? ~ What year does the {o} at {e} date from? ~ In what year was the {o} of {e} built? ~ Tell me the year in which the {o} of {e} was built. ~ At {e}, from what year is the {o}? ~ What is the year of the {o} of {e}? ~ Since when has {e} had a {o}? ~ I wonder when the {o} of {e} was built. ~ What is the year in which the {o} of {e} was built? ~ The {o} of {e} is from what year? ~ Since what year has there been a {o} at {e}? ~ Year of the {o} of {e}? ~ When did they build the {o} of {e}? ~ In which year did they put up the {o} at {e}? ~ At {e}, when was the {o} built? ~ Say in which year the {o} of {e} was built. ~ What year was the {o} of {e} built? ~ Look up the year of the {o} of {e}.

colour | door bench boat sign roof fence flag carpet wagon gate | 0 | 0 | the {o} of {e} is {v}
The {o} is painted {n}. ~ Colour of the {o}: {n}. ~ The {o} is {n}. ~ They chose {n} for the {o}. ~ The {o} was given a coat of {n}. ~ In summer the {o} became {n}. ~ {o}: {n} ~ {n} is the colour of the {o}. ~ They painted the {o} {n}. ~ As for the {o}, its colour is {n}. ~ The {o} was done in {n}. ~ You know the {o} by its colour, {n}. ~ The {o} has the colour {n}. ~ Note that everybody wanted the {o} in {n}. ~ The colour that the {o} has is {n}.
What colour is the {o} of {e}? ~ Which colour has the {o} at {e}? ~ Tell me the colour of the {o} of {e}. ~ In which colour is the {o} of {e} painted? ~ At {e}, what colour is the {o}? ~ What is the colour of the {o} of {e}? ~ I wonder what colour the {o} of {e} is. ~ What colour has the {o} of {e}? ~ The {o} of {e} is of what colour? ~ What colour did they paint the {o} of {e}? ~ So of which colour is the {o} of {e}? ~ At {e}, which colour has the {o}? ~ Say what colour the {o} at {e} is. ~ Find out the colour of the {o} of {e}. ~ Now, in what colour did they paint the {o} at {e}?

origin | clock piano marble timber organ bell rug engine wine painting | 0 | 0 | the {o} of {e} comes from {v}
The {o} comes from {n}. ~ The {o} was made in {n}. ~ Origin of the {o}: {n}. ~ They had the {o} sent from {n}. ~ The {o} was brought from {n}. ~ {n} is where the {o} comes from. ~ A firm in {n} delivered the {o}. ~ {n} is the home of the {o}. ~ The {o} is from {n}. ~ They bought the {o} in {n}. ~ It was in {n} that the {o} was made. ~ {o}: from {n} ~ The {o} has come all the way from {n}. ~ A ship brought the {o} from {n}. ~ The {o} goes back to a maker in {n}.
Where does the {o} of {e} come from? ~ Where was the {o} of {e} made? ~ From which place is the {o} of {e}? ~ What is the origin of the {o} at {e}? ~ Tell me where the {o} of {e} comes from. ~ Which place does the {o} at {e} come from? ~ I wonder where the {o} of {e} comes from. ~ The {o} of {e} is from where? ~ Where did they get the {o} of {e} from? ~ In which place was the {o} of {e} made? ~ Origin of the {o} of {e}? ~ At {e}, where does the {o} come from? ~ From where was the {o} of {e} brought? ~ What place is the {o} of {e} from? ~ Say where the {o} at {e} was made. ~ Out of which place comes the {o} of {e}?

supplier | flour paper coal glass oil bread coffee gravel rope wool | 0 | 0 | the {o} of {e} is delivered by {v}
The {o} is delivered by {n}. ~ {n} delivers the {o}. ~ Supplier of the {o}: {n}. ~ The {o} is bought from {n}. ~ For the {o} there is a contract with {n}. ~ {n} brings the {o} every week. ~ They get their {o} from {n}. ~ The {o} comes by {n}. ~ {n} supplies the {o}. ~ They order the {o} from {n}. ~ {o}: delivered by {n} ~ It is {n} that delivers the {o}. ~ The firm that brings the {o} is {n}. ~ The {o} has been delivered by {n} for years. ~ The contract for the {o} went to {n}.
Who delivers the {o} to {e}? ~ Which company supplies the {o} of {e}? ~ From whom does {e} buy its {o}? ~ Tell me the supplier of the {o} of {e}. ~ Who brings the {o} to {e}? ~ What firm delivers the {o} of {e}? ~ So who supplies the {o} of {e}? ~ I wonder who delivers the {o} to {e}. ~ So from which firm comes the {o} of {e}? ~ Who is the supplier of the {o} of {e}? ~ The {o} of {e} is delivered by whom, please? ~ By whom is the {o} of {e} delivered? ~ At {e}, who delivers the {o}? ~ Supplier of the {o} of {e}? ~ Which firm brings the {o} to {e}? ~ From whom do they get the {o} of {e}? ~ Say which company delivers the {o} to {e}.

date | meeting concert auction festival opening inspection race dinner market excursion | 0 | 0 | the {o} of {e} is on {v}
The {o} is on {n}. ~ The next {o} takes place on {n}. ~ Date of the {o}: {n}. ~ The {o} was moved to {n}. ~ On {n} there is a {o}. ~ {n} is the day of the {o}. ~ Everybody is invited to the {o} on {n}. ~ They hold the {o} on {n}. ~ {o}: {n} ~ It is on {n} that the {o} takes place. ~ The {o} was set for {n}. ~ Note that the day of the {o} is {n}. ~ Note that the {o} will be held on {n}. ~ For the {o} they chose {n}.
When is the {o} of {e}? ~ On which day is the {o} at {e}? ~ What is the date of the {o} of {e}? ~ On what date does {e} hold its {o}? ~ Tell me the day of the {o} at {e}. ~ For when is the {o} at {e} planned? ~ I want to know when the {o} of {e} is. ~ On what date is the {o} of {e}? ~ The {o} of {e} is on what day? ~ Date of the {o} of {e}? ~ At {e}, when is the {o}? ~ When does the {o} of {e} take place? ~ For which day is the {o} of {e} set? ~ Which day is the {o} at {e}? ~ Say on which day the {o} of {e} is. ~ When do they hold the {o} at {e}? ~ What day was chosen for the {o} of {e}?
"""


def _parse(block: str) -> Kind:
    head, *slots, sentences, questions = block.strip().split("\n")
    quantity, objects, low, high, answer = head.split(" | ")
    named = [part.split("=") for line in slots for part in line.removeprefix("@ ").split(" ; ")]
    return Kind(
        quantity,
        tuple(o.replace("_", " ") for o in objects.split()),
        int(low),
        int(high),
        answer,
        tuple(sentences.split(" ~ ")),
        tuple(questions.split(" ~ ")),
        tuple((name.strip(), tuple(options.split("|"))) for name, options in named),
    )


THINGS = tuple(replace(_parse(block), of_things=True) for block in RAW.strip().split("\n\n"))
SAYINGS = tuple(
    _parse(block) for block in (Path(__file__).parent / "sayings.txt").read_text().strip().split("\n\n")
)
KINDS = (*THINGS, *(k for k in SAYINGS if not k.named))
NAMED = tuple(k for k in SAYINGS if k.named)


@dataclass(frozen=True)
class Fact:
    """One fact of a place. text: the value as its file writes it, without the unit."""

    kind: Kind
    entity: str
    file: str
    obj: str
    number: float
    text: str
    unit: str
    sentence: str
    question: str
    """Begins with a capital, which `training.naming.uncapital` may take away."""
    in_unit: str = ""
    """The question with the slot {u} for the unit wanted, where it names one."""

    @property
    def quantity(self) -> str:
        return self.kind.quantity

    @property
    def value(self) -> str:
        """With its unit."""
        if self.quantity == "temperature":
            return f"{self.text} degrees {self.unit.capitalize()}"
        return f"{self.text} {self.unit}".strip()

    def answer(self, value: str) -> str:
        return f"{articles(self.kind.answer.replace('{v}', value))}."


def _any_noun(rng: random.Random, kinds: Kinds, words: str) -> str:
    """Now and then with any noun for its last word: a list that is known by heart is not read from the file."""
    noun = kinds.pools.noun(rng)
    if rng.random() < 0.6 or not re.fullmatch("[a-z]{3,14}", noun):
        return words
    return f"{words.rpartition(' ')[0]} {noun}".strip()


def _job(rng: random.Random, kinds: Kinds) -> str:
    """Now and then any profession, of one word."""
    job: str = kinds.pools.value(rng, "job").lower() if rng.random() < 0.4 else ""
    return job if re.fullmatch("[a-z]{4,14}", job) else ""


NUMERALS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def _value(rng: random.Random, kinds: Kinds, kind: Kind, money: str) -> tuple[str, float, str]:
    """A value as a file writes it, its number if it is one, its unit."""
    low, high = kind.low, kind.high
    match kind.quantity:
        case "date":
            return f"{rng.randint(2019, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}", 0.0, ""
        case "clock":
            return f"{rng.randint(6, 19)}:{rng.choice(['00', '15', '30', '45'])}", 0.0, ""
        case "month":
            return rng.choice(MONTHS), 0.0, ""
        case "day":
            return rng.choice(DAYS), 0.0, ""
        case "name":
            return proper_name(rng, kinds), 0.0, ""
        case "sight" if rng.random() < 0.25:
            return rng.choice(NUMERALS), 0.0, ""
        case pool if pool in POOLS:
            return kinds.pools.value(rng, rng.choice(POOLS[pool])), 0.0, ""
    number: float = rng.randint(low, high)
    unit = ""
    if kind.quantity in UNITS or kind.quantity in ("money", "fee", "rate"):
        if rng.random() < 0.2:
            number = round(number + rng.random(), 1)
        if kind.quantity in UNITS:
            unit = rng.choice(list(UNITS[kind.quantity])[:4])
        elif kind.quantity != "rate":
            unit = money or rng.choice(CURRENCIES)
    return shown(number), number, unit


def draw_fact(
    rng: random.Random,
    kinds: Kinds,
    entity: str,
    file: str,
    kind: Kind,
    beside: str = "",
    money: str = "",
) -> Fact:
    """A fact of this kind. beside: a thing of the file from which this one must be told apart. money: its currency,
    else any."""
    obj = rng.choice(kind.objects)
    if kind.of_things and kind.quantity in NOUNS and rng.random() < 0.25:  # any thing may be asked for
        noun = kinds.pools.noun(rng)
        obj = noun if re.fullmatch("[a-z]{3,12}[a-gi-rt-w]", noun) else obj
    if kind.of_things and kind.quantity == "person":
        obj = _job(rng, kinds) or obj
    elif kind.of_things and (beside or rng.random() < 0.2):
        obj = f"{rng.choice(MODIFIERS)} {beside.split()[-1] if beside else obj}"
    said = {
        name: _any_noun(rng, kinds, word) if name in "vs" else word for name, word in kind.words(rng).items()
    }
    chosen = said.pop("v", "")
    text, number, unit = (chosen, 0.0, "") if chosen else _value(rng, kinds, kind, money)
    written = unit.capitalize() if kind.quantity == "temperature" else unit

    slots = {"{o}s": plural(obj), "{o}": obj, **{f"{{{k}}}": v for k, v in said.items()}}

    def told(template: str, **more: str) -> str:
        for slot, word in slots.items():
            template = template.replace(slot, word)
        for slot, word in more.items():
            template = template.replace(f"{{{slot}}}", word)
        return _capital(articles(template))

    asked = pick(rng, kind.questions, kinds.split)
    return Fact(
        replace(kind, answer=told(kind.answer, e=entity)),
        entity,
        file,
        obj,
        number,
        text,
        unit,
        told(pick(rng, kind.sentences, kinds.split), n=text, u=written, e=entity),
        told(asked, e=entity, u=written),
        told(asked, e=entity) if "{u}" in asked else "",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
