# ruff: noqa: E501 -- tables are data: one row a line reads better than wrapped ones
"""Kinds of argument whose meaning a name and a description carry: how each is named, described, typed, drawn, told.
Knows no tools and no tokens."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from training.naming import Split, joined, named, pick, rename, styled, widened, words
from training.pools import Pools
from training.spoken import Draw, Param, Spoken, clock, date, integer, listed, number, verbatim

ENUMS_RAW = """
unit: celsius|fahrenheit
units: metric|imperial
language: English|French|German|Spanish|Italian|Japanese|Polish|Greek|Arabic
currency: USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|SEK|PLN
priority: low|medium|high|urgent
status: open|closed|pending|archived|active
sort_by: price|rating|date|distance|name|size
order: ascending|descending
format: json|csv|pdf|text|xml
size: small|medium|large
category: electronics|books|clothing|toys|garden|sports|food
genre: comedy|drama|horror|jazz|rock|classical|fantasy
cuisine: Italian|Chinese|Indian|Mexican|Thai|French|Japanese
cabin: economy|business|first
frequency: daily|weekly|monthly|yearly
level: beginner|intermediate|advanced
color: red|green|blue|yellow|black|white|purple
gender: male|female
mode: driving|walking|cycling|transit
day: Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday
month: January|February|March|April|May|June|July|August|September|October|November|December
room_type: single|double|suite|deluxe
diet: vegan|vegetarian|gluten-free|keto
shape: circle|square|triangle|rectangle
region: north|south|east|west
operation: add|subtract|multiply|divide
role: admin|editor|viewer|owner
severity: minor|major|critical|blocker
visibility: public|private|internal|hidden
season: spring|summer|autumn|winter
direction: left|right|up|down
payment_method: cash|card|invoice|transfer|voucher
shipping: standard|express|overnight|pickup
quality: draft|normal|high|best
theme: light|dark|sepia|contrast
material: wood|steel|glass|leather|cotton|stone
meal: breakfast|lunch|dinner|brunch|snack
weekday: Monday|Tuesday|Wednesday|Thursday|Friday
interval: hour|day|week|month|quarter|year
scope: team|project|company|everyone
stage: planned|started|paused|finished|cancelled
tone: formal|friendly|neutral|playful
layout: portrait|landscape|square
channel: email|sms|phone|chat|letter
plan: free|basic|premium|enterprise
engine: petrol|diesel|electric|hybrid
instrument: piano|guitar|violin|drums|flute
seat: window|aisle|middle
strength: weak|mild|strong|extra strong
finish: matte|glossy|satin|raw
audience: children|adults|students|experts
"""
ENUMS = {
    name: options.split("|") for name, options in (line.split(": ") for line in ENUMS_RAW.strip().split("\n"))
}

# kind of value: names ~ descriptions ~ phrases with the slot {v}
TEXT_RAW = """
city: city location town destination place ~ The city.|Name of the city.|City to look at, for example 'Paris'.|The location.|Which city is meant. ~ in {v}|for {v}|near {v}|around {v}|from {v}
person: name person full_name customer author guest contact employee recipient patient ~ Full name of the person.|The person's name.|Who it is for.|Name of the customer. ~ for {v}|named {v}|of {v}|by {v}|belonging to {v}
company: company company_name organization vendor supplier employer brand ~ The company's name.|Name of the organisation.|Which company.|The firm to use. ~ for {v}|at {v}|of {v}|by the company {v}|from {v}
country: country nation country_name ~ The country.|Name of the country.|Country to consider.|Which country to use. ~ in {v}|for {v}|of {v}|within {v}|from {v}
job: job_title occupation profession position role_name ~ The job title.|The occupation.|Professional position.|The post to look for. ~ as a {v}|for the position {v}|for the job title {v}|for {v}
dish: dish recipe meal food item_name ~ Name of the dish.|The dish.|What to cook.|The meal. ~ for {v}|of {v}|called {v}|with the dish {v}
street: street address street_address pickup_address ~ The street address.|Street and number.|Where to go.|The address to use. ~ at {v}|to {v}|for the address {v}|with the address {v}
phrase: title subject headline name label caption ~ The title.|Subject line.|A short title.|The headline to show. ~ titled '{v}'|called "{v}"|with the title '{v}'|with the subject "{v}"
sentence: message text body note comment content description ~ The text.|Body of the message.|What to write.|Free text to store. ~ saying '{v}'|with the text "{v}"|that says "{v}"|with the message '{v}'
user: username user user_id login account handle ~ The user name.|User to act on.|Account name.|The login of the user. ~ for user {v}|for {v}|for the account {v}|of the user {v}
domain: domain host site hostname website ~ The domain name.|Host to use.|The web site.|Name of the host. ~ for {v}|on {v}|of {v}|for the domain {v}
colour: color colour paint tint ~ The colour.|Colour to use.|Name of the colour.|The shade. ~ in {v}|with the color {v}|coloured {v}|painted {v}
device: device model phone product gadget ~ The device model.|Device name.|Which product.|The phone model. ~ for the {v}|on the {v}|of the {v}|for a {v}
fruit: fruit ingredient product crop ~ The fruit.|An ingredient.|Name of the product.|What to take. ~ for {v}|with {v}|of {v}|made from {v}
drink: drink beverage cocktail order_item ~ The drink.|Which beverage.|Name of the drink.|What to serve. ~ for {v}|of {v}|for the drink {v}|with {v}
isbn: isbn book_id isbn_code ~ ISBN of the book.|The book's ISBN.|The ISBN code.|Identifies the book. ~ with ISBN {v}|for the ISBN {v}|for the book {v}|{v}
"""
# names ~ descriptions ~ phrases, of values in a notation
NOTED_RAW = """
date: date start_date due_date day deadline departure_date birthday when ~ The date.|Date as YYYY-MM-DD.|When, as YYYY-MM-DD.|The day (YYYY-MM-DD).|ISO date. ~ on {v}|for {v}|dated {v}|by {v}|starting {v}
clock: time start_time at alarm_time arrival ~ The time as HH:MM.|Time of day, 24 hours.|When, as HH:MM.|Clock time (HH:MM). ~ at {v}|for {v}|starting at {v}|from {v}
email: email to recipient_email address cc ~ The e-mail address.|Who receives it.|Recipient's address.|E-mail of the contact. ~ to {v}|for {v}|with the email {v}|sent to {v}
path: file path filename document source ~ Path of the file.|The file name.|Which file.|File to work on. ~ {v}|for the file {v}|from {v}|in {v}|of {v}
"""
# name, lowest, highest: descriptions ~ phrases
INTEGER_RAW = """
limit 1 100: Maximum number of results.|How many to return.|The number of items to show.|Upper limit. ~ limited to {v}|at most {v} results|show {v} of them|up to {v}|returning {v} results
count 1 500: How many.|The number.|Number of items.|The count. ~ with {v} items|{v} times|a count of {v}|for {v} of them
year 1900 2030: The year.|Year to consider.|Calendar year.|In which year. ~ in {v}|for {v}|for the year {v}|of {v}
age 1 99: Age in years.|The age.|How old.|Years of age. ~ aged {v}|who is {v} years old|age {v}|of age {v}
guests 1 12: Number of people.|The party size.|How many guests.|People in the group. ~ for {v} people|for {v} guests|with a party of {v}|for a group of {v}
duration 1 600: Duration in minutes.|How long, in minutes.|Length in minutes.|Minutes it takes. ~ for {v} minutes|lasting {v} minutes|with a duration of {v} minutes|of {v} minutes
quantity 1 1000: The quantity.|How many units.|Amount of units.|Number of pieces. ~ {v} units|a quantity of {v}|{v} pieces|with quantity {v}
days 1 60: Number of days.|How many days.|Days ahead.|The length in days. ~ for {v} days|over {v} days|for the next {v} days|during {v} days
rooms 1 9: Number of rooms.|How many rooms.|Rooms that are wanted.|The rooms. ~ with {v} rooms|of {v} rooms|{v} rooms|having {v} rooms|with room for {v} rooms
hours 1 72: Number of hours.|How many hours.|Hours it takes.|Time in hours. ~ for {v} hours|within {v} hours|lasting {v} hours|over {v} hours|during {v} hours
weeks 1 52: Number of weeks.|How many weeks.|Weeks ahead.|Time in weeks. ~ for {v} weeks|over {v} weeks|within {v} weeks|during {v} weeks|for the next {v} weeks
floor 1 40: The floor.|Number of the floor.|Which floor.|Floor of the building. ~ on floor {v}|at floor {v}|for floor {v}|on level {v}|from floor {v}
rating 1 5: Rating in stars.|How many stars.|Stars given.|Lowest rating. ~ with {v} stars|rated {v} stars|with a rating of {v}|of {v} stars|having {v} stars
retries 1 9: How often to try again.|Number of tries.|Attempts before it gives up.|Tries at most. ~ with {v} retries|trying {v} times|after {v} tries|in {v} attempts|with {v} attempts
width 1 900: Width in pixels.|How wide, in pixels.|Pixels across.|The width. ~ {v} pixels wide|with a width of {v} pixels|of width {v}|having a width of {v}|as wide as {v} pixels
seats 1 60: Number of seats.|How many seats.|Seats to keep.|The seats. ~ with {v} seats|for {v} seats|{v} seats|having {v} seats|with seats for {v}
population 1000 9000000: Number of inhabitants.|How many people live there.|Inhabitants at least.|The population. ~ with {v} inhabitants|of {v} people|with a population of {v}|for {v} inhabitants|having {v} inhabitants
views 100 40000000: Number of views.|How often it was seen.|Views so far.|The views. ~ with {v} views|seen {v} times|after {v} views|at {v} views|having {v} views
salary 9000 900000: Salary a year.|What is earned in a year.|Yearly pay.|The salary. ~ with a salary of {v}|earning {v} a year|on {v} a year|paid {v} a year|at a salary of {v}
version 1 40: Version number.|The version.|Which version.|Number of the release. ~ in version {v}|version {v}|of version {v}|at version {v}|using version {v}
page 1 50: Page number.|The page.|Which page.|Page to read. ~ page {v}|on page {v}|starting at page {v}|from page {v}
"""
NUMBER_RAW = """
amount 1 5000: The amount of money.|Amount to use.|Sum of money.|How much. ~ of {v}|for an amount of {v}|with {v}|worth {v}
price 1 900: The price.|Maximum price.|Price in the local currency.|What it costs. ~ at a price of {v}|under {v}|costing {v}|for {v}
weight 1 300: Weight in kilograms.|The mass in kg.|How heavy, in kg.|Mass. ~ weighing {v} kg|with a weight of {v} kg|of {v} kilograms|with {v} kg
distance 1 900: Distance in kilometres.|How far, in km.|The distance.|Length of the way. ~ within {v} km|over {v} kilometres|at a distance of {v} km|of {v} km
rate 0 20: The rate in percent.|Interest rate in percent.|Rate per year, in percent.|The percentage. ~ at {v} percent|at a rate of {v}%|with {v}% interest|with a rate of {v} percent
temperature -30 45: The temperature in degrees.|Temperature.|Degrees Celsius.|How warm. ~ at {v} degrees|with a temperature of {v} degrees|at {v} °C|set to {v} degrees
radius 1 90: The radius.|Radius in metres.|Radius of the circle.|Half the diameter. ~ with a radius of {v}|with radius {v}|of radius {v}|whose radius is {v}
speed 1 200: Speed in km/h.|How fast, in km/h.|The speed.|Kilometres an hour. ~ at {v} km/h|with a speed of {v} km/h|going {v} km/h|at a speed of {v} km/h|driving {v} km/h
volume 1 900: Volume in litres.|How many litres.|The volume.|Litres it holds. ~ holding {v} litres|with a volume of {v} litres|of {v} litres|with {v} litres|containing {v} litres
height 1 300: Height in metres.|How high, in metres.|The height.|Metres above the ground. ~ {v} metres high|with a height of {v} metres|at a height of {v} metres|of height {v}|standing {v} metres tall
length 1 400: Length in metres.|How long, in metres.|The length.|Metres from end to end. ~ {v} metres long|with a length of {v} metres|of length {v}|having a length of {v} metres|measuring {v} metres
area 1 900: Area in square metres.|How large, in square metres.|The area.|Square metres. ~ covering {v} square metres|with an area of {v} square metres|of {v} square metres|on {v} square metres|having {v} square metres
discount 1 60: Discount in percent.|Percent taken off.|The discount.|How much cheaper, in percent. ~ with {v} percent off|at a discount of {v}%|with a discount of {v} percent|reduced by {v}%|less {v} percent
budget 10 5000: The budget.|Money to spend at most.|What may be spent.|Highest cost. ~ on a budget of {v}|with a budget of {v}|spending {v} at most|within a budget of {v}|having {v} to spend
power 1 3000: Power in watts.|How many watts.|The power.|Watts it draws. ~ with {v} watts|of {v} watts|drawing {v} watts|at a power of {v} watts|with a power of {v} watts
longitude -180 180: Longitude.|Longitude in degrees.|The east-west coordinate.|Degrees of longitude. ~ at longitude {v}|with a longitude of {v}|longitude {v}|lon {v}|on longitude {v}
latitude -90 90: Latitude.|Latitude in degrees.|The north-south coordinate.|Degrees of latitude. ~ at latitude {v}|with a latitude of {v}|latitude {v}|lat {v}
"""
# more of these: names ~ descriptions ~ phrases; the descriptions and phrases in training alone
MORE_RAW = """
city: municipality venue_city region_name ~ The city to use.|A city.|City name.|Town or city.|Place that is asked about.|Where.|The place in question. ~ over in {v}|down in {v}|within {v}|close to {v}|not far from {v}|at {v}|in the city of {v}|in the town of {v}|in and around {v}|for the city of {v}|located in {v}|somewhere in {v}|based in {v}
person: holder member attendee student passenger owner ~ Name of the person.|The person meant.|First and last name.|A person.|Whose it is.|The person concerned. ~ on behalf of {v}|in the name of {v}|whose name is {v}|the person being {v}|for a person called {v}|regarding {v}|under the name {v}|for somebody named {v}|concerning {v}|that {v} asked for|the name is {v}|name {v}
company: firm business manufacturer publisher client ~ The company.|Company to look at.|The business.|Firm that is meant.|Legal name of the company.|The organisation concerned. ~ with the company {v}|for the firm {v}|made by {v}|run by {v}|owned by {v}|the company being {v}|for a company called {v}|by {v}|through {v}|on behalf of {v}|on the firm {v}
country: country_of_origin state land market ~ A country.|The country in question.|Name of the state.|Country name in English.|Where in the world. ~ over in {v}|inside {v}|throughout {v}|across {v}|for the country {v}|in the country of {v}|the country being {v}|anywhere in {v}|limited to {v}|country {v}
job: job work role trade ~ A job title.|Name of the profession.|What the person works as.|Kind of work.|The trade. ~ for the job of {v}|as {v}|for a {v}|for the role of {v}|for somebody who works as a {v}|with the job title {v}|in the position of {v}|where the job is {v}|with {v} as the profession|for the occupation of {v}
dish: menu_item course main_course entree ~ A dish.|The food.|What is eaten.|Dish that is wanted.|Name of the meal. ~ with {v}|for a plate of {v}|for some {v}|the dish being {v}|where the dish is {v}|as {v}|in the form of {v}|dish {v}|for the meal {v}|made as {v}
street: home_address delivery_address place_of_residence ~ An address.|The full street address.|Address with the number of the house.|Where it is. ~ located at {v}|near {v}|around {v}|for {v}|where the address is {v}|the address being {v}|with {v} as the address|found at {v}|address {v}
phrase: heading tag_line topic_line display_name ~ Title to use.|A name for it.|Short text at the top.|What it is called.|The heading. ~ named "{v}"|under the title "{v}"|with the heading '{v}'|with the name "{v}"|entitled '{v}'|by the name of "{v}"|labelled '{v}'|the title being "{v}"|headed '{v}'|as "{v}"|title: '{v}'
sentence: remark memo details reason summary_text ~ A text.|What it says.|The words to use.|Text that is sent.|Anything to add.|The wording. ~ reading "{v}"|with the words "{v}"|which says '{v}'|with the note '{v}'|with the comment "{v}"|containing "{v}"|the text being '{v}'|text: "{v}"|with '{v}' in it|where it says '{v}'
user: screen_name nickname owner_id member_name ~ The user.|Name of the account.|Login name.|Handle of the user.|Whose account it is. ~ belonging to {v}|by {v}|on the account {v}|under the login {v}|of {v}|with the user name {v}|for the user called {v}|owned by {v}|where the user is {v}|user {v}
domain: server web_address url_host page_domain ~ A domain.|Domain to look at.|The server's name.|Web site that is meant.|Internet domain. ~ at {v}|under {v}|with the domain {v}|for the site {v}|on the host {v}|at the web site {v}|hosted at {v}|where the domain is {v}|the site being {v}|domain {v}
colour: shade tone hue finish_color ~ The colour that is wanted.|A colour.|What colour.|Tone to use. ~ with {v} as the color|of the color {v}|the color being {v}|made {v}|color {v}|where the color is {v}|in the shade {v}|with a {v} tone|with the colour {v}|in a {v} shade
device: handset machine equipment hardware ~ A device.|The model.|Name of the gadget.|What machine it is.|Device to act on. ~ with the {v}|using the {v}|where the device is the {v}|from the {v}|to the {v}|by means of a {v}|for the device {v}|on my {v}|for my {v}|device {v}|running on the {v}
fruit: food_item produce flavor filling ~ A fruit.|What fruit.|The thing to eat.|Flavour to use.|Ingredient that is meant. ~ containing {v}|out of {v}|using {v}|where the fruit is {v}|full of {v}|tasting of {v}|with some {v}|on the basis of {v}|fruit {v}|for the fruit {v}
drink: refreshment liquid cup bottle ~ A drink.|What is drunk.|What to pour.|The drink that is wanted. ~ along with {v}|for a glass of {v}|for some {v}|the drink being {v}|where the drink is {v}|to go with {v}|using {v}|drink {v}|together with {v}|for a {v}
isbn: book_number isbn_number edition_code ~ The ISBN.|ISBN that is meant.|Number of the book.|Which book, by ISBN. ~ whose ISBN is {v}|by its ISBN {v}|under ISBN {v}|ISBN {v}|ISBN: {v}|ISBN {v}|for the book with the ISBN {v}|with {v} as the ISBN|of the book {v}|the ISBN being {v}
date: on_date event_date target_date delivery_day valid_from ~ A date.|The day, as YYYY-MM-DD.|Date in ISO format.|Day it is about.|On which day, YYYY-MM-DD. ~ as of {v}|the date being {v}|with the date {v}|for the date {v}|scheduled for {v}|set for {v}|on the day {v}|date {v}|where the date is {v}|with {v} as the date|due {v}|taking place on {v}
clock: hour_of_day meeting_time opening_time clock_time ~ Time, HH:MM.|At what time.|The hour and minute.|Time in 24 hours, HH:MM.|When on that day. ~ as of {v}|beginning at {v}|the time being {v}|with the time {v}|scheduled for {v}|set for {v}|around {v}|time {v}|where the time is {v}|at exactly {v}|at {v} sharp
email: contact_email mail reply_to user_email ~ E-mail address.|The address to write to.|Where to send it.|An e-mail address. ~ addressed to {v}|using the address {v}|with {v} as the email|where the email is {v}|at the address {v}|the email being {v}|email {v}|under the email {v}|by mail to {v}
path: filepath input_file target_file location_on_disk ~ The path.|A file.|File that is meant.|Where the file lies.|Path to the document. ~ on {v}|with the file {v}|using {v}|the file being {v}|where the file is {v}|located at {v}|taken from {v}|file {v}|stored in {v}|for the document {v}
limit: max_results ~ At most so many.|Highest number of entries.|How many at most.|Limit of the list.|Show so many. ~ no more than {v} of them|with a limit of {v}|a maximum of {v}|stop after {v}|not more than {v} results|cut off at {v} results|the first {v} of them|limited to the first {v}|with {v} results at most|capped at {v} results
count: repetitions ~ So many of them.|A number of items.|Count to use.|How often or how many.|Number wanted. ~ with a count of {v}|a total of {v}|{v} in all|{v} altogether|the count being {v}|where the count is {v}|making it {v} items|for {v} items|{v} in number|counting {v}
year: year_of_birth ~ A year.|The year in question.|Year, four digits.|Year it is about. ~ during {v}|from {v}|as of {v}|the year being {v}|with the year {v}|back in {v}|dated {v}|in the year {v}|where the year is {v}|for all of {v}|year {v}
age: years_old ~ Age of the person.|How old the person is.|Age, in full years.|Years lived. ~ at the age of {v}|at {v} years|whose age is {v}|being {v} years old|{v} years old|{v} years of age|with an age of {v}|the age being {v}|where the age is {v}|for a {v}-year-old|age {v}
guests: party ~ How many people come.|Guests in total.|So many persons.|Size of the party.|Persons. ~ with {v} people|with {v} guests|for {v} persons|for {v} of us|{v} people|{v} guests|when {v} guests come|for a party of {v}|seating {v}|there being {v} guests|we are {v} people
duration: minutes ~ Minutes.|Time it takes, in minutes.|For how many minutes.|Length, minutes. ~ taking {v} minutes|that takes {v} minutes|over {v} minutes|{v} minutes long|during {v} minutes|with a length of {v} minutes|the duration being {v} minutes|within {v} minutes|{v} minutes|which lasts {v} minutes
quantity: units ~ Units.|How many pieces.|Number of units.|So many units. ~ in a quantity of {v}|with {v} units|with {v} pieces|the quantity being {v}|where the quantity is {v}|amounting to {v} units|{v} units of it|for {v} units|quantity {v}|{v} pieces of it
days: day_count ~ Days.|So many days.|For how many days.|Length of time in days. ~ {v} days long|lasting {v} days|within {v} days|for a period of {v} days|covering {v} days|in the next {v} days|that takes {v} days|the days being {v}|{v} days|across {v} days
page: page_number ~ A page.|Number of the page.|The page to show.|Page that is wanted. ~ at page {v}|of page {v}|showing page {v}|with the page {v}|the page being {v}|where the page is {v}|page number {v}|for page {v}|go to page {v}|continuing on page {v}
amount: sum ~ Money.|The sum.|An amount.|How much money.|The figure to use. ~ amounting to {v}|in the amount of {v}|a sum of {v}|with an amount of {v}|the amount being {v}|where the amount is {v}|totalling {v}|to the value of {v}|amount {v}|using {v} as the amount
price: cost ~ A price.|How much it costs.|Price at most.|What is paid.|The price asked. ~ priced at {v}|at {v}|with a price of {v}|the price being {v}|where the price is {v}|that costs {v}|price {v}|for the price of {v}|no dearer than {v}|sold at {v}
weight: mass ~ Weight, kg.|Kilograms.|How many kilograms.|What it weighs. ~ at {v} kg|that weighs {v} kg|whose weight is {v} kg|weight {v} kg|having a weight of {v} kg|the weight being {v} kg|{v} kg heavy|where the weight is {v} kg|as heavy as {v} kg|{v} kg
distance: range_km ~ Kilometres.|How many kilometres.|Distance, km.|How far away. ~ up to {v} km away|{v} km away|in a distance of {v} km|with a distance of {v} km|the distance being {v} km|covering {v} km|{v} km|for {v} km|not farther than {v} km|along {v} km
rate: interest ~ Percent.|A rate, in percent.|How many percent.|Percentage to use. ~ with {v} percent|the rate being {v}%|where the rate is {v}%|yielding {v} percent|charging {v}%|rate {v}%|bearing {v} percent|using a rate of {v}%|for {v} percent|on {v} percent
temperature: heat ~ Degrees.|How hot or cold.|A temperature.|Temperature in Celsius. ~ with {v} degrees|kept at {v} degrees|of {v} degrees|the temperature being {v} degrees|heated to {v} degrees|{v} degrees|where it is {v} degrees|in {v} degrees|at a temperature of {v} °C|when it has {v} degrees
radius: r ~ A radius.|Distance from the middle to the edge.|The radius, in metres.|How far from the centre. ~ having a radius of {v}|the radius being {v}|where the radius is {v}|radius {v}|given a radius of {v}|for a radius of {v}|radius {v}|with {v} as the radius|that has the radius {v}|around a radius of {v}
latitude: lat ~ Degrees north or south.|A latitude.|How far north.|Latitude of the point. ~ on latitude {v}|where the latitude is {v}|the latitude being {v}|at {v} degrees of latitude|for latitude {v}|with lat {v}|latitude {v}|given latitude {v}|using latitude {v}|on the parallel {v}
"""
CHOICE_ABOUTS = "The {n}.|{N} to use.|Which {n}.|The {n} that is wanted."
CHOICE_PHRASES = "with {n} {v}|{n} {v}|with the {n} set to {v}|in {v} {n}|using {v} as the {n}"
MORE_CHOICE_ABOUTS = "A {n}.|{N}.|{N} that is wanted.|Select the {n}.|Kind of {n}.|What {n} it is.|Sets the {n}.|Choose the {n}.|{N} of the result.|{N} that applies."
MORE_CHOICE_PHRASES = "with {v} as the {n}|with {v} for the {n}|with the {n} {v}|{n}: {v}|the {n} being {v}|where the {n} is {v}|and {v} as the {n}|taking {v} for the {n}|the {n} should be {v}|choosing {v} as the {n}|for {n} {v}|of the {n} {v}|({n}: {v})|set the {n} to {v}|whose {n} is {v}|having {v} as {n}|{n} = {v}"
SWITCHES = (
    "include_details notify urgent public recursive verbose overwrite include_tax compress dry_run remote active shuffle "
    "send_copy use_cache keep_history allow_duplicates show_images add_captions skip_weekends avoid_tolls gift_wrap insured anonymous refundable private draft encrypted pinned round_trip wheelchair_access pets "
)
SWITCH_ABOUTS = "Whether to set {n}.|Turn {n} on or off.|If true, {n}.|{N} or not."
MORE_SWITCH_ABOUTS = "{N}.|Set to true for {n}.|Whether {n} is on.|True: {n}.|{N}, yes or no.|Flag for {n}.|Enables {n}.|If set, {n}.|Controls {n}."
OBJECTS = "filter options address range settings customer contact item config details shipping metadata preferences location billing profile window constraints"
OBJECT_ABOUTS = "The {n}.|{N} of the request.|Holds the {n}.|What the {n} is."
MORE_OBJECT_ABOUTS = "A {n}.|{N} to use.|The {n}, as an object.|All about the {n}.|Fields of the {n}.|{N} that is sent along.|Object with the {n}."
OBJECT_PHRASES = "with the {n} {v}|with {n}: {v}|({n}: {v})|and {n} {v}"
MORE_OBJECT_PHRASES = "with this {n}: {v}|{n}: {v}|with the following {n}: {v}|and the {n}: {v}|the {n}: {v}|using this {n}: {v}|for this {n}: {v}|the {n} as follows: {v}|with the {n} as follows: {v}|given this {n}: {v}|[{n}: {v}]|({n} - {v})|(the {n}: {v})|and this {n}: {v}"
DOING = ("include", "avoid", "use", "show", "allow", "keep", "add", "send", "skip")


def _rows(raw: str) -> list[tuple[list[str], list[str]]]:
    """(words before the colon, parts after it) of each line."""
    lines = (line.split(": ", 1) for line in raw.strip().split("\n"))
    return [(head.split(), rest.split(" ~ ")) for head, rest in lines]


TEXT_KINDS = _rows(TEXT_RAW)
NOTED = {kind: parts for (kind,), parts in _rows(NOTED_RAW)}
INTEGERS = _rows(INTEGER_RAW)
NUMBERS = _rows(NUMBER_RAW)
MORE = {kind: [part.split("|") for part in parts] for (kind,), parts in _rows(MORE_RAW)}
"""Kind -> one string of names, descriptions, phrases."""


class _Meaning(NamedTuple):
    """What a parameter will be, before its name is in the split and in style."""

    base: str
    schema: dict[str, Any]
    draw: Draw
    phrases: list[str]
    about: str


class Kinds:
    """Draws parameters of every kind, in one split."""

    def __init__(self, pools: Pools, split: Split) -> None:
        self.pools = pools
        self.split: Split = split

    def text_sample(self, rng: random.Random, kind: str) -> Spoken:
        value = self.pools.value(rng, kind)
        return Spoken(value, value)

    def email(self, rng: random.Random) -> Spoken:
        user, domain = self.pools.value(rng, "user"), self.pools.value(rng, "domain")
        value = f"{user}@{domain}"
        return Spoken(value, value)

    def semantic(self, rng: random.Random, style: str, required: bool) -> Param:
        """A parameter whose meaning its name and description carry."""
        roll = rng.random()
        if roll >= 0.94:
            return self.boolean(rng, rng.choice(SWITCHES.split()), "", style, required)
        if roll < 0.34:
            made = self._text(rng)
        elif roll < 0.46:
            made = self._choice(rng)
        elif roll < 0.62:
            made = self._integer(rng)
        elif roll < 0.72:
            made = self._number(rng)
        elif roll < 0.80:
            made = self._date(rng)
        elif roll < 0.84:
            made = self._noted(rng, "clock", clock)
        elif roll < 0.88:
            made = self._noted(rng, "email", self.email)
        else:
            made = self._noted(rng, "path", verbatim(self.pools.path))
        name = styled(rename(rng, made.base, self.split), style)
        about = made.about if rng.random() < 0.9 else ""
        return Param(name, made.schema, made.draw, tuple(made.phrases), required, about)

    def _worded(self, rng: random.Random, kind: str, abouts: str, phrases: str) -> tuple[str, list[str]]:
        """A description of a parameter of the kind, and how its values are told."""
        _, more_abouts, more_phrases = MORE.get(kind, ([], [], []))
        about = pick(rng, widened(abouts.split("|"), more_abouts, self.split), self.split)
        return about, widened(phrases.split("|"), more_phrases, self.split)

    def _named(self, rng: random.Random, kind: str, names: str) -> str:
        """A name for a parameter of the kind."""
        more = MORE[kind][0][0].split() if kind in MORE else []
        return rng.choice([*names.split(), *more])

    def _text(self, rng: random.Random) -> _Meaning:
        (kind,), (names, abouts, told) = rng.choice(TEXT_KINDS)
        base, (about, phrases) = self._named(rng, kind, names), self._worded(rng, kind, abouts, told)

        def one(r: random.Random) -> Spoken:
            return self.text_sample(r, kind)

        if rng.random() >= 0.16:
            return _Meaning(base, {"type": "string"}, one, phrases, about)
        many = base if base.endswith("s") else base + "s"
        schema = {"type": "array", "items": {"type": "string"}}
        return _Meaning(many, schema, lambda r: listed(r, one), phrases, about)

    def _choice(self, rng: random.Random) -> _Meaning:
        base = rng.choice(list(ENUMS))
        options = list(ENUMS[base])
        rng.shuffle(options)
        options = options[: rng.randint(2, min(6, len(options)))]
        schema = {"type": "string", "enum": options} if rng.random() >= 0.15 else {"type": "string"}
        said = words(base)
        abouts = widened(named(CHOICE_ABOUTS, said), named(MORE_CHOICE_ABOUTS, said), self.split)
        phrases = widened(named(CHOICE_PHRASES, said), named(MORE_CHOICE_PHRASES, said), self.split)
        draw = verbatim(lambda r: r.choice(options))
        return _Meaning(base, schema, draw, phrases, pick(rng, abouts, self.split))

    def _integer(self, rng: random.Random) -> _Meaning:
        (kind, lowest, highest), (abouts, told) = rng.choice(INTEGERS)
        low, high = int(lowest), int(highest)
        base, (about, phrases) = self._named(rng, kind, kind), self._worded(rng, kind, abouts, told)
        schema: dict[str, Any] = {"type": "integer"}
        if rng.random() < 0.3:
            schema |= {"minimum": low, "maximum": high}
        return _Meaning(base, schema, lambda r: integer(r, low, high), phrases, about)

    def _number(self, rng: random.Random) -> _Meaning:
        (kind, lowest, highest), (abouts, told) = rng.choice(NUMBERS)
        low, high = int(lowest), int(highest)
        base, (about, phrases) = self._named(rng, kind, kind), self._worded(rng, kind, abouts, told)
        return _Meaning(base, {"type": "number"}, lambda r: number(r, low, high), phrases, about)

    def _date(self, rng: random.Random) -> _Meaning:
        made = self._noted(rng, "date", date)
        if rng.random() < 0.6:
            return made._replace(schema={"type": "string", "format": "date"})
        return made._replace(about=rng.choice(["Date as YYYY-MM-DD.", "The day, YYYY-MM-DD."]))

    def _noted(self, rng: random.Random, kind: str, draw: Draw) -> _Meaning:
        names, abouts, told = NOTED[kind]
        base, (about, phrases) = self._named(rng, kind, names), self._worded(rng, kind, abouts, told)
        return _Meaning(base, {"type": "string"}, draw, phrases, about)

    def boolean(self, rng: random.Random, base: str, about: str, style: str, required: bool) -> Param:
        said = words(base)
        name = styled(rename(rng, base, self.split), style)
        abouts = widened(named(SWITCH_ABOUTS, said), named(MORE_SWITCH_ABOUTS, said), self.split)
        about = about or pick(rng, abouts, self.split)

        def draw(r: random.Random) -> Spoken:
            value = r.random() < 0.6
            if self.split == "train" and r.random() < 0.5:  # plainer words, as people use them
                return Spoken(value, r.choice(_plainer(said)[value]))
            yes = [f"with {said} enabled", f"with {said} on", f"{said} set to true", f"turn {said} on"]
            no = [f"with {said} disabled", f"without {said}", f"{said} set to false", f"{said} off"]
            return Spoken(value, pick(r, yes if value else no, self.split))

        return Param(name, {"type": "boolean"}, draw, ("{v}",), required, about)

    def nested(self, rng: random.Random, style: str, required: bool) -> Param:
        """An object with two or three fields of other kinds."""
        base = rng.choice(OBJECTS.split())
        fields: dict[str, Param] = {}
        for _ in range(rng.randint(2, 3)):
            p = self.semantic(rng, style, True)
            fields.setdefault(p.name, p)
        chosen = list(fields.values())
        schema = {
            "type": "object",
            "properties": {p.name: p.json_schema() for p in chosen},
            "required": list(fields),
        }

        def draw(r: random.Random) -> Spoken:
            drawn = {p.name: p.draw(r) for p in chosen}
            value = {k: s.value for k, s in drawn.items()}
            if r.random() < 0.5:
                between = "; " if any(p.schema["type"] == "array" for p in chosen) else ", "
                return Spoken(value, between.join(_phrased(p, drawn[p.name]) for p in chosen))
            return Spoken(value, joined([_labelled(p, drawn[p.name]) for p in chosen], r))

        said = words(base)
        name = styled(rename(rng, base, self.split), style)
        abouts = widened(named(OBJECT_ABOUTS, said), named(MORE_OBJECT_ABOUTS, said), self.split)
        phrases = widened(named(OBJECT_PHRASES, said), named(MORE_OBJECT_PHRASES, said), self.split)
        return Param(name, schema, draw, tuple(phrases), required, pick(rng, abouts, self.split))


def _plainer(said: str) -> tuple[list[str], list[str]]:
    """A switch that is off and one that is on, in the plain words of people."""
    verb, _, rest = said.partition(" ")
    if not rest or verb not in DOING:
        return (
            [
                f"no {said}",
                f"{said}: no",
                f"not {said}",
                f"{said} = false",
                f"with no {said}",
                f"{said} not wanted",
                f"{said} switched off",
            ],
            [
                f"with {said}",
                f"and {said}",
                f"{said}: yes",
                f"{said} = true",
                f"{said} wanted",
                f"{said} switched on",
            ],
        )
    doing = f"{verb.removesuffix('e')}{'p' if verb == 'skip' else ''}ing {rest}"
    shunned = verb in ("avoid", "skip")
    return (
        [f"not {doing}", f"but do not {said}", f"{rest} allowed" if shunned else f"no {rest}"],
        [doing, f"and {said}", f"without {rest}" if shunned else f"with {rest}"],
    )


def _phrased(p: Param, value: Spoken) -> str:
    """A field of an object in the words of its kind."""
    if p.schema["type"] == "array":
        return f"{words(p.name)} {value.text}"
    return p.phrases[0].replace("{v}", value.text)


def _labelled(p: Param, value: Spoken) -> str:
    """A field of an object behind its name."""
    return f"{words(p.name)} {json.dumps(value.value) if p.schema['type'] == 'boolean' else value.text}"
