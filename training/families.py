# ruff: noqa: E501, SIM905 -- sentences and tables are data: one a line reads better than wrapped ones
"""Everyday tools with natural requests, as data. Each was written for this file; none comes from a benchmark.

A family: names | description | parameters | requests. A parameter: name[?]:kind[:args] # description. In a request
{p} is the value of p, and [ … {p} …] appears only when the optional p is given. Kinds are drawn by `draw`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from training.kinds import Kinds
from training.naming import kept, rename, styled
from training.spoken import DAYS, MONTHS, Param, Spoken, clock, date, integer, listed, number, verbatim

RAW = r"""
get_weather current_weather weather_lookup check_weather | Get the current weather of a city. ~ Tells the weather in a place. ~ Look up weather conditions.
city:city # The city. ; unit?:enum:celsius,fahrenheit # Temperature unit.
What's the weather in {city}[ in {unit}]? ~ How is the weather in {city} right now[, in {unit}]? ~ Is it cold in {city}?[ Use {unit}.] ~ I need the weather for {city}[ ({unit})]. ~ Do I need a coat in {city} today?[ Give me {unit}.] ~ Tell me how warm it is in {city}[ in {unit}].

get_forecast weather_forecast forecast_weather | Get the weather forecast for the coming days. ~ Forecast the weather of a place.
place:city # Name of the place. ; days:int:1:14 # Number of days ahead. ; detailed?:bool # Whether to give hourly details.
What will the weather be in {place} over the next {days} days?[ {detailed}] ~ Give me a {days} day forecast for {place}[ {detailed}]. ~ Forecast for {place}, {days} days[, {detailed}]. ~ Will it rain in {place} in the coming {days} days?[ {detailed}] ~ I'm travelling to {place} for {days} days, what weather should I expect?[ {detailed}]

triangle_area calculate_triangle_area geometry.area_triangle | Calculate the area of a triangle. ~ Work out a triangle's area from base and height.
base:num:1:90 # Length of the base. ; height:num:1:90 # Height of the triangle. ; unit?:enum:cm,m,inches,feet # Unit of length.
What is the area of a triangle with base {base} and height {height}[ in {unit}]? ~ A triangle is {height} high and its base measures {base}. How big is its area?[ Lengths are in {unit}.] ~ Compute the area of a triangle whose base is {base} and whose height is {height}[ {unit}]. ~ I have a triangle, base {base}, height {height}[, in {unit}]. Area please. ~ Area of a triangle: base {base}, height {height}[, unit {unit}].

circle_area area_of_circle circle.get_area | Compute the area of a circle. ~ Area of a circle from its radius.
radius:num:1:99 # Radius of the circle. ; unit?:enum:cm,m,inches,feet # Unit of the radius.
What's the area of a circle with a radius of {radius}[ {unit}]? ~ How large is a circle of radius {radius}[ {unit}]? ~ Find the area of a circle whose radius is {radius}[ {unit}]. ~ A round table has a radius of {radius}[ {unit}]; what is its area? ~ Circle, radius {radius}[ in {unit}]: compute the area.

rectangle_area rectangle_perimeter get_rectangle | Compute a measure of a rectangle from its two sides. ~ Rectangle geometry.
length:num:1:200 # The longer side. ; width:num:1:200 # The shorter side.
A room is {length} long and {width} wide. How big is it? ~ Rectangle with length {length} and width {width}, please compute it. ~ My garden measures {length} by {width}; work it out. ~ Sides {length} and {width}: give me the rectangle's measure. ~ Compute the rectangle of length {length} and width {width}.

factorial math.factorial calculate_factorial compute_factorial | Calculate the factorial of a number. ~ Factorial of a non-negative integer.
n:int:0:30 # The number.
What's the factorial of {n}? ~ Compute {n}! ~ Calculate {n} factorial. ~ I need the factorial of {n}. ~ How much is {n} factorial?

gcd math.gcd greatest_common_divisor find_gcd | Find the greatest common divisor of two integers. ~ Greatest common factor of a and b.
a:int:2:999 # The first integer. ; b:int:2:999 # The second integer.
What's the greatest common divisor of {a} and {b}? ~ Find the gcd of {a} and {b}. ~ Which number is the largest that divides both {a} and {b}? ~ GCD({a}, {b})? ~ Give me the highest common factor of {a} and {b}.

is_prime check_prime math.is_prime prime_check | Check whether a number is prime. ~ Tells if an integer is a prime number.
number:int:2:99999 # The number to check.
Is {number} a prime number? ~ Check if {number} is prime. ~ Can {number} be divided by anything but itself and one? ~ Tell me whether {number} is prime. ~ Prime or not: {number}?

add_numbers sum_numbers total calculate_sum | Add a list of numbers. ~ Sum of numbers.
numbers:list:num:1:99 # The numbers to add.
What is the sum of {numbers}? ~ Add up {numbers}. ~ Total of {numbers} please. ~ Please sum {numbers}. ~ I spent {numbers}; how much is that together?

mean calculate_average average_of statistics.mean | Calculate the average of a list of numbers. ~ Arithmetic mean.
values:list:num:1:99 # The values.
What's the average of {values}? ~ Compute the mean of {values}. ~ Find the average for these scores: {values}. ~ My marks are {values}. What's my average? ~ Mean of {values}?

compound_interest calculate_compound_interest finance.compound | Calculate compound interest on a deposit. ~ Future value of a sum with compound interest.
principal:money # The amount invested. ; rate:num:1:15 # Yearly interest rate in percent. ; years:int:1:40 # Number of years. ; times_per_year?:int:1:12 # How often interest is added in a year.
If I invest {principal} at {rate}% a year for {years} years, what will I have?[ Interest is compounded {times_per_year} times a year.] ~ How much is {principal} worth after {years} years at {rate} percent[, compounded {times_per_year} times per year]? ~ Work out the compound interest on {principal} at {rate}% over {years} years[, {times_per_year} times yearly]. ~ I put {principal} into an account with {rate}% interest for {years} years[, added {times_per_year} times a year]. Final amount? ~ {years} years, {rate}% interest, {principal} to start with[, compounding {times_per_year} times a year]: what comes out?

loan_payment mortgage_payment monthly_payment calculate_loan | Calculate the monthly payment of a loan. ~ Monthly rate of a mortgage.
amount:money # Loan amount. ; interest:num:1:12 # Annual interest rate in percent. ; term:int:1:35 # Length of the loan in years.
What's the monthly payment on a loan of {amount} at {interest}% for {term} years? ~ I want to borrow {amount} over {term} years at {interest} percent. What do I pay each month? ~ Mortgage: {amount}, {interest}%, {term} years. Monthly rate? ~ How much would I pay a month for {amount} with {interest}% interest and a term of {term} years? ~ Compute the monthly rate of a {term} year loan of {amount} with interest {interest}%.

convert_currency currency_convert exchange | Convert an amount of money between currencies. ~ Currency conversion.
amount:money # The amount. ; from_currency:enum:USD,EUR,GBP,JPY,CHF,CAD # Currency to convert from. ; to_currency:enum:USD,EUR,GBP,JPY,INR,SEK # Currency to convert to.
How much is {amount} {from_currency} in {to_currency}? ~ Convert {amount} {from_currency} to {to_currency}. ~ I have {amount} {from_currency}, what's that in {to_currency}? ~ Change {amount} {from_currency} into {to_currency} please. ~ What do I get in {to_currency} for {amount} {from_currency}?

stock_price get_stock_price quote ticker_price | Get the price of a stock. ~ Latest share price of a company.
symbol:ticker # Ticker symbol. ; date?:date # Day of the price.
What's the price of {symbol} stock[ on {date}]? ~ How is {symbol} trading[ as of {date}]? ~ Get me the share price of {symbol}[ for {date}]. ~ Look up {symbol}[ on {date}]. ~ Quote for {symbol}[, {date}], please.

translate translate_text text_translator | Translate a text into another language. ~ Translator.
text:sentence # The text to translate. ; target_language:enum:French,German,Spanish,Italian,Polish,Japanese,Greek # Language to translate into.
Translate "{text}" into {target_language}. ~ How do you say '{text}' in {target_language}? ~ Please put this into {target_language}: {text} ~ I need "{text}" in {target_language}. ~ What is "{text}" in {target_language}?

send_email email.send mail_message send_mail | Send an e-mail. ~ Sends a message by e-mail.
to:email # Recipient's address. ; subject:phrase # Subject line. ; body:sentence # Text of the message. ; urgent?:bool # Whether to mark it urgent.
Send an email to {to} with the subject "{subject}" saying "{body}"[ {urgent}] ~ Email {to}: subject {subject}, text: {body}[ {urgent}] ~ Write to {to}. Subject: "{subject}". Message: "{body}"[ {urgent}] ~ Please mail "{body}" to {to}, subject "{subject}"[ {urgent}] ~ Let {to} know: "{body}" (subject: {subject})[ {urgent}]

send_message text_message chat.post post_message | Send a short message to a person or channel. ~ Post a chat message.
recipient:person # Who gets it. ; message:sentence # What to say.
Tell {recipient} "{message}" ~ Send {recipient} a message saying "{message}" ~ Message {recipient}: {message} ~ Please write "{message}" to {recipient} ~ Drop {recipient} a line: "{message}"

set_timer start_timer timer.create | Start a timer. ~ Countdown timer.
minutes:int:1:180 # Minutes until it rings. ; label?:noun # What the timer is for.
Set a timer for {minutes} minutes[ for the {label}]. ~ Wake me in {minutes} minutes[, label it {label}]. ~ {minutes} minute timer[ called {label}] please. ~ Start a countdown of {minutes} minutes[ named {label}]. ~ Ring in {minutes} minutes[ for {label}].

set_alarm alarm.create wake_me | Set an alarm. ~ Alarm clock.
time:time # Time as HH:MM. ; days?:list:enum:Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday # Days it repeats.
Set an alarm for {time}[ on {days}]. ~ Wake me up at {time}[ every {days}]. ~ I need an alarm at {time}[, {days}]. ~ Alarm at {time}[ on {days}], please. ~ Make it ring at {time}[ each {days}].

create_event add_event calendar.create schedule_meeting | Add an event to the calendar. ~ Create a calendar entry.
title:phrase # Title of the event. ; date:date # Day of the event. ; start?:time # Start time as HH:MM. ; attendees?:list:person # Who takes part.
Put "{title}" into my calendar on {date}[ at {start}][ with {attendees}]. ~ Schedule "{title}" for {date}[, starting {start}][, attendees {attendees}]. ~ Add an event called {title} on {date}[ at {start}][ and invite {attendees}]. ~ I have "{title}" on {date}[ from {start}][, together with {attendees}]; please note it. ~ Create the entry "{title}", {date}[, {start}][, people: {attendees}].

add_reminder create_reminder remind_me | Create a reminder. ~ Reminds the user of something.
text:task # What to be reminded of. ; date:date # When. ; time?:time # Time of day.
Remind me to {text} on {date}[ at {time}]. ~ Don't let me forget to {text} on {date}[ at {time}]. ~ I must {text} on {date}[ at {time}], remind me. ~ Set a reminder for {date}[, {time}]: {text}. ~ Please remind me on {date}[ at {time}] to {text}.

add_todo create_task todo.add new_task | Add a task to the to-do list. ~ New to-do item.
task:task # What to do. ; priority?:enum:low,medium,high # Priority. ; due?:date # Due date.
Add "{task}" to my to-do list[ with {priority} priority][, due {due}]. ~ New task: {task}[, priority {priority}][, until {due}]. ~ I need to {task}[ by {due}][; it's {priority} priority]. ~ Put {task} on the list[, {priority} priority][, due on {due}]. ~ To do: {task}[ ({priority})][ before {due}].

find_restaurants search_restaurants restaurant.search | Find restaurants in a place. ~ Restaurant search.
location:city # Where to look. ; cuisine?:enum:Italian,Chinese,Indian,Mexican,Thai,French,Japanese # Kind of kitchen. ; max_price?:int:10:120 # Highest price per person.
Find me a[ {cuisine}] restaurant in {location}[ under {max_price} per person]. ~ Where can I eat[ {cuisine} food] in {location}[ for at most {max_price}]? ~ I'm hungry and in {location}.[ I'd like {cuisine} food.][ Up to {max_price} a head.] ~ Good[ {cuisine}] places to eat in {location}[, max price {max_price}]? ~ Restaurants in {location}[, {cuisine}][, not above {max_price}].

book_table reserve_table make_reservation | Reserve a table at a restaurant. ~ Table booking.
restaurant:place # Name of the restaurant. ; people:int:1:12 # Number of guests. ; date:date # Day of the visit. ; time:time # Time as HH:MM.
Book a table for {people} at {restaurant} on {date} at {time}. ~ I'd like a reservation at {restaurant}, {date}, {time}, {people} people. ~ Reserve {people} seats at {restaurant} for {date} at {time}. ~ Table for {people}, {restaurant}, {time} on {date} please. ~ Can you get us a table at {restaurant}? We are {people}, on {date} at {time}.

search_flights find_flights flights.search | Search flights between two cities. ~ Find a flight.
origin:city # City of departure. ; destination:city # City of arrival. ; date:date # Day of departure. ; cabin?:enum:economy,business,first # Cabin class. ; passengers?:int:1:9 # Number of passengers.
Find flights from {origin} to {destination} on {date}[ in {cabin} class][ for {passengers} passengers]. ~ I want to fly to {destination} from {origin} on {date}[, {cabin}][, {passengers} people]. ~ Any flights {origin} to {destination} on {date}[ ({cabin})][ for {passengers}]? ~ How do I get from {origin} to {destination} by plane on {date}[, {cabin} class][, we are {passengers}]? ~ Flights leaving {origin} on {date} for {destination}[, cabin {cabin}][, {passengers} travellers].

book_hotel find_hotel hotels.search reserve_hotel | Find a hotel room. ~ Hotel search.
city:city # City of the hotel. ; check_in:date # Day of arrival. ; nights:int:1:21 # Number of nights. ; stars?:int:1:5 # Minimum stars. ; breakfast?:bool # Breakfast included.
I need a hotel in {city} from {check_in} for {nights} nights[ with at least {stars} stars][ {breakfast}]. ~ Find me a room in {city}, arriving {check_in}, {nights} nights[, {stars} stars or more][, {breakfast}]. ~ Hotel in {city} for {nights} nights starting {check_in}[, minimum {stars} stars][, {breakfast}]. ~ We arrive in {city} on {check_in} and stay {nights} nights[; we want {stars} stars][; {breakfast}]. ~ Book {nights} nights in {city} from {check_in}[, {stars} stars][, {breakfast}].

get_directions route plan_route navigate | Plan a route between two places. ~ Directions.
start:city # Where to start. ; end:city # Where to go. ; mode?:enum:driving,walking,cycling,transit # How to travel. ; avoid?:list:enum:tolls,ferries,highways # What to avoid.
How do I get from {start} to {end}[ by {mode}][ avoiding {avoid}]? ~ Directions from {start} to {end}[, {mode}][, avoid {avoid}]. ~ Plan a[ {mode}] route from {start} to {end}[ without {avoid}]. ~ I'm in {start} and need to be in {end}[, {mode}][; no {avoid}]. ~ Navigate to {end} starting at {start}[ ({mode})][, skipping {avoid}].

distance_between get_distance geo.distance | Compute the distance between two cities. ~ How far apart two places are.
from_city:city # The first city. ; to_city:city # The second city. ; unit?:enum:km,miles # Unit of the answer.
How far is it from {from_city} to {to_city}[ in {unit}]? ~ What's the distance between {from_city} and {to_city}[, in {unit}]? ~ Distance {from_city} to {to_city}[ ({unit})]. ~ How many[ {unit}] lie between {from_city} and {to_city}? ~ Tell me how far {to_city} is from {from_city}[ in {unit}].

find_recipe search_recipes recipe.find get_recipe | Find a recipe. ~ Recipe search.
dish:dish # The dish. ; diet?:enum:vegan,vegetarian,gluten-free,keto # Diet to respect. ; servings?:int:1:12 # Number of servings.
How do I cook {dish}?[ It must be {diet}.][ For {servings} people.] ~ Find a[ {diet}] recipe for {dish}[ for {servings} servings]. ~ I want to make {dish}[, {diet}][, {servings} portions]. ~ Recipe for {dish}[ ({diet})][ serving {servings}]. ~ What goes into {dish}?[ I eat {diet}.][ We are {servings}.]

calories nutrition.lookup get_calories food_calories | Get the calories of a food. ~ Nutrition facts.
food:fruit # The food. ; grams?:int:10:900 # Weight in grams.
How many calories are in[ {grams} grams of] {food}? ~ Calories of {food}[, {grams} g]? ~ What's the energy content of[ {grams} g] {food}? ~ I ate {food}[, about {grams} grams]. How many calories? ~ Look up the nutrition of {food}[ for {grams} grams].

bmi calculate_bmi health.bmi body_mass_index | Calculate the body mass index. ~ BMI from weight and height.
weight:num:40:140 # Weight in kilograms. ; height:num:140:210 # Height in centimetres.
What's my BMI if I weigh {weight} kg and am {height} cm tall? ~ Compute the body mass index for {weight} kg and {height} cm. ~ I'm {height} cm and weigh {weight} kilos. BMI? ~ BMI of a person of {weight} kg who is {height} cm tall. ~ Calculate BMI: height {height} cm, weight {weight} kg.

play_music play_song music.play | Play a song. ~ Music player.
song:phrase # Title of the song. ; artist?:person # Who performs it. ; volume?:int:1:100 # Volume in percent.
Play "{song}"[ by {artist}][ at volume {volume}]. ~ Put on {song}[ by {artist}][, volume {volume}]. ~ I want to hear "{song}"[ from {artist}][ at {volume} percent]. ~ Start the song {song}[ of {artist}][ with the volume at {volume}]. ~ Can you play {song}[ by {artist}]?[ Volume {volume}.]

search_movies find_movie movies.search | Search for films. ~ Film search.
genre:enum:comedy,drama,horror,thriller,animation,western # Genre. ; year?:int:1950:2026 # Year of release. ; director?:person # Director of the film.
Find a {genre} movie[ from {year}][ directed by {director}]. ~ Any good {genre} films[ from {year}][ by {director}]? ~ I'd like to watch a {genre}[ made in {year}][ by {director}]. ~ Show me {genre} movies[, year {year}][, director {director}]. ~ Recommend a {genre}[ of {year}][ by {director}].

search_books find_book library.search | Search the library for books. ~ Book search.
author:person # The author. ; topic?:noun # Subject of the book. ; max_results?:int:1:20 # How many to list.
Which books by {author} do we have[ about {topic}]?[ List at most {max_results}.] ~ Find books written by {author}[ on {topic}][, at most {max_results}]. ~ Anything by {author}[ on the subject of {topic}]?[ Up to {max_results} titles.] ~ Books of {author}[, topic {topic}][, {max_results} results]. ~ I'm looking for {author}'s books[ about {topic}][, show {max_results}].

get_news news.search search_news latest_news | Search the news. ~ News headlines on a topic.
topic:noun # What the news is about. ; country?:country # Country of the news. ; limit?:int:1:20 # How many articles.
What's new about {topic}[ in {country}]?[ {limit} articles please.] ~ Show me news on {topic}[ from {country}][, {limit} items]. ~ Latest headlines about {topic}[ in {country}][, at most {limit}]. ~ Any news regarding {topic}[ for {country}]?[ Give me {limit}.] ~ Get[ {limit}] articles about {topic}[ from {country}].

track_package parcel.track shipment_status track_order | Track a parcel. ~ Where a shipment is.
tracking_number:id # Tracking number of the parcel.
Where is my parcel {tracking_number}? ~ Track package {tracking_number}. ~ Has shipment {tracking_number} arrived? ~ Status of parcel {tracking_number}, please. ~ My tracking number is {tracking_number}. Where is it?

get_order order.lookup order_details find_order | Look up an order. ~ Details of a customer's order.
order_id:id # Number of the order. ; include_items?:bool # Whether to list the items.
What's in order {order_id}?[ {include_items}] ~ Show me order {order_id}[ {include_items}]. ~ Look up the order {order_id}[, {include_items}]. ~ Details for order number {order_id}[, {include_items}]. ~ I'm asking about order {order_id}[ ({include_items})].

cancel_order order.cancel cancel_booking | Cancel an order. ~ Cancels what was ordered.
order_id:id # Number of the order. ; reason?:sentence # Why it is cancelled.
Cancel order {order_id}[, reason: {reason}]. ~ Please cancel my order {order_id}[ because "{reason}"]. ~ I don't want {order_id} any more[, "{reason}"]. ~ Stop the order {order_id}[. Reason: {reason}]. ~ Order {order_id} should be cancelled[: {reason}].

search_products product.search find_products shop_search | Search products in the shop. ~ Product search.
query:topic # Words to search for. ; max_price?:num:5:900 # Highest price. ; category?:enum:electronics,books,clothing,toys,garden,sports # Category to search in. ; in_stock?:bool # Only products in stock.
Search for {query}[ under {max_price}][ in {category}][ {in_stock}]. ~ I want to buy {query}[ for less than {max_price}][, category {category}][, {in_stock}]. ~ Find {query}[ cheaper than {max_price}][ among {category}][, {in_stock}]. ~ Do you sell {query}?[ My limit is {max_price}.][ Look in {category}.][ {in_stock}] ~ Show me {query}[, at most {max_price}][, {category}][, {in_stock}].

add_to_cart cart.add put_in_basket | Put a product into the shopping cart. ~ Add to basket.
product_id:id # Identifies the product. ; quantity:int:1:20 # How many. ; size?:enum:S,M,L,XL # Size to take. ; colour?:colour # Colour to take.
Add {quantity} of {product_id} to my cart[, size {size}][, in {colour}]. ~ Put {product_id} into the basket, {quantity} pieces[, size {size}][, colour {colour}]. ~ I'll take {quantity} x {product_id}[ in size {size}][ in {colour}]. ~ {quantity} times {product_id} please[, {size}][, {colour}]. ~ Buy {quantity} {product_id}[ ({size})][ {colour}].

create_user register_user add_user users.create | Create a user account. ~ New account.
name:person # Full name. ; email:email # E-mail address. ; role?:enum:admin,editor,viewer # Role of the account. ; age?:int:18:99 # Age in years.
Create an account for {name} with the email {email}[ as {role}][, age {age}]. ~ Register {name} ({email})[ with the role {role}][, {age} years old]. ~ New user: {name}, {email}[, {role}][, aged {age}]. ~ Sign up {name}; mail address {email}[; role {role}][; age {age}]. ~ Add {name} to the users, e-mail {email}[, role {role}][, age {age}].

turn_on_light set_light lights.set control_light | Control a lamp. ~ Switch and dim a light.
room:room # The room. ; brightness?:int:1:100 # Brightness in percent. ; color?:colour # Colour of the light.
Turn on the light in the {room}[ at {brightness} percent][ in {color}]. ~ Light in the {room}, please[, brightness {brightness}][, {color}]. ~ Make the {room} bright[, {brightness}%][, colour {color}]. ~ Set the {room} lamp[ to {brightness}%][ and to {color}]. ~ I want light in the {room}[ with {brightness} percent brightness][ in the colour {color}].

set_thermostat thermostat.set heat_room | Set the temperature of a room. ~ Thermostat.
room:room # The room. ; temperature:num:12:28 # Target temperature in degrees Celsius.
Set the {room} to {temperature} degrees. ~ Make it {temperature} °C in the {room}. ~ Heat the {room} to {temperature}. ~ I want {temperature} degrees in the {room}. ~ Thermostat in the {room}: {temperature}.

read_file file.read open_file cat_file | Read a file. ~ Returns what a file holds.
path:path # Path of the file. ; lines?:int:1:200 # Read only so many lines.
What is in {path}?[ Only the first {lines} lines.] ~ Show me the file {path}[, {lines} lines]. ~ Open {path}[ and give me {lines} lines]. ~ Read {path}[, first {lines} lines]. ~ Print the content of {path}[ up to line {lines}].

write_file save_file file.write create_file | Write text to a file. ~ Saves text.
path:path # Path of the file. ; content:sentence # What to write. ; append?:bool # Whether to keep what is there.
Write "{content}" to {path}[ {append}] ~ Save the text "{content}" as {path}[, {append}] ~ Create {path} containing "{content}"[ {append}] ~ Put "{content}" into the file {path}[, {append}] ~ Store this in {path}: "{content}"[ {append}]

copy_file move_file file.move rename_file | Move or copy a file. ~ File transfer.
source:path # The file as it is. ; destination:path # Where it goes.
Move {source} to {destination}. ~ {source} should become {destination}. ~ Put {source} at {destination}. ~ Transfer {source} to {destination} please. ~ Take {source} and store it as {destination}.

delete_file remove_file file.delete | Delete a file. ~ Removes a file for good.
path:path # File to delete. ; force?:bool # Do not ask.
Delete {path}[ {force}]. ~ Remove the file {path}[, {force}]. ~ Get rid of {path}[ {force}]. ~ I no longer need {path}[, {force}]. ~ Please erase {path}[ {force}].

run_query sql.query query_database execute_sql | Run an SQL query on a database. ~ Database query.
database:ident # Name of the database. ; query:sql # The SQL text. ; timeout?:int:1:60 # Seconds to wait.
Run {query} on the database {database}[ with a timeout of {timeout} seconds]. ~ On {database}, execute: {query}[ (timeout {timeout})] ~ Query {database}: {query}[, at most {timeout} seconds] ~ Please run this on {database}: {query}[ timeout {timeout}] ~ Ask the {database} database {query}[, waiting {timeout} seconds]

capital_of get_capital country.capital | Get the capital of a country. ~ Capital city look-up.
country:country # The country.
What's the capital of {country}? ~ Which city is the capital of {country}? ~ Name {country}'s capital. ~ Capital of {country}? ~ I forgot the capital of {country}.

population get_population population_of | Get the population of a place. ~ Number of inhabitants.
place:city # City or region. ; year?:int:1950:2026 # Year of the count.
How many people live in {place}?[ Take {year}.] ~ Population of {place}[ in {year}]? ~ What was the population of {place}[ in {year}]? ~ Number of inhabitants of {place}[, {year}]. ~ How big is {place}[ as of {year}], in people?

time_in get_time world_clock current_time | Get the local time of a city. ~ World clock.
city:city # The city.
What time is it in {city}? ~ Local time in {city}, please. ~ How late is it in {city}? ~ Tell me the time in {city}. ~ Is it already night in {city}?

define_word dictionary.lookup word_meaning define | Look up the meaning of a word. ~ Dictionary.
word:noun # The word. ; language?:enum:English,French,German,Spanish # Language of the answer.
What does "{word}" mean?[ Answer in {language}.] ~ Define {word}[ in {language}]. ~ Look up the word {word}[ ({language})]. ~ Meaning of '{word}'[, in {language}]? ~ I don't know the word {word}[; explain it in {language}].

search_web web.search google look_up | Search the web. ~ Finds web pages.
query:topic # What to search for. ; limit?:int:1:20 # Number of results.
Search the web for {query}[, {limit} results]. ~ Look up {query} online[ ({limit} hits)]. ~ Find pages about {query}[, at most {limit}]. ~ What does the internet say about {query}?[ Show {limit} pages.] ~ Google {query}[ and give me {limit} results].

speed average_speed physics.speed velocity | Compute a speed from distance and time. ~ Average speed.
distance:num:1:900 # Distance covered. ; time:num:1:24 # Time it took. ; unit?:enum:km/h,m/s,mph # Unit of the result.
How fast is something that covers {distance} in {time}[, in {unit}]? ~ Speed for a distance of {distance} and a time of {time}[ ({unit})]. ~ I travelled {distance} in {time}. What was my speed[ in {unit}]? ~ Compute the velocity: distance {distance}, time {time}[, unit {unit}]. ~ A train needs {time} for {distance}; how fast is it[ in {unit}]?

force newton_force physics.force | Compute a force from mass and acceleration. ~ Newton's second law.
mass:num:1:500 # Mass in kg. ; acceleration:num:1:50 # Acceleration in m/s^2.
What force acts on {mass} kg accelerated at {acceleration} m/s^2? ~ Compute the force for a mass of {mass} kg and an acceleration of {acceleration}. ~ A body of {mass} kg speeds up with {acceleration} m/s². Force? ~ Force: mass {mass}, acceleration {acceleration}. ~ How strong must I push {mass} kg to reach {acceleration} m/s^2?

roll_dice dice.roll throw_dice | Roll dice. ~ Random dice.
count:int:1:10 # How many dice. ; sides:int:4:20 # Sides of each die.
Roll {count} dice with {sides} sides. ~ Throw {count} d{sides}. ~ {count} dice, {sides} sides each, please roll. ~ I need a roll of {count} dice having {sides} sides. ~ Let {count} {sides}-sided dice fall.

random_number random.integer pick_number | Draw a random number between two bounds. ~ Random integer.
low:int:0:50 # Smallest number. ; high:int:51:1000 # Largest number.
Give me a random number between {low} and {high}. ~ Pick a number from {low} to {high}. ~ Draw something between {low} and {high}. ~ Random integer, {low} to {high}. ~ Choose any number, at least {low} and at most {high}.

quadratic solve_quadratic math.quadratic quadratic_roots | Solve a quadratic equation a x^2 + b x + c = 0. ~ Roots of a quadratic.
a:int:1:20 # Coefficient of x^2. ; b:int:-30:30 # Coefficient of x. ; c:int:-30:30 # Constant term.
Solve the quadratic equation with a = {a}, b = {b} and c = {c}. ~ What are the roots for a={a}, b={b}, c={c}? ~ Roots of {a}x^2 + {b}x + {c} = 0? ~ Find x when a is {a}, b is {b}, c is {c}. ~ Quadratic with coefficients {a}, {b} and {c}: solve it.

sort_list sort_numbers list.sort order_items | Sort a list. ~ Puts items in order.
items:list:num:1:99 # The items. ; order?:enum:ascending,descending # Direction.
Sort {items}[ in {order} order]. ~ Put {items} in order[, {order}]. ~ Arrange these[ {order}]: {items}. ~ Order the numbers {items}[ ({order})]. ~ I need {items} sorted[, {order}].

word_count count_words text.count | Count the words of a text. ~ Word counter.
text:sentence # The text.
How many words are in "{text}"? ~ Count the words: {text} ~ Word count of "{text}", please. ~ Number of words in '{text}'? ~ "{text}": how many words is that?

exchange_contact add_contact contacts.create save_contact | Save a contact. ~ New address book entry.
name:person # Name of the contact. ; phone:phone # Phone number. ; email?:email # E-mail address. ; company?:company # Where the person works.
Save {name}'s number: {phone}[, email {email}][, works at {company}]. ~ New contact {name}, phone {phone}[, {email}][, {company}]. ~ Add {name} with {phone} to my contacts[; mail {email}][; company {company}]. ~ {name} has the phone number {phone}[ and the email {email}][ and is with {company}]; store that. ~ Put {name} ({phone}) into the address book[, e-mail {email}][, firm {company}].

call_phone dial make_call phone.call | Call a phone number. ~ Dials a number.
number:phone # The number to call.
Call {number}. ~ Dial {number} please. ~ Ring {number}. ~ I need to talk to {number}. ~ Make a call to {number}.

transfer_money bank.transfer send_money pay | Transfer money. ~ Bank transfer.
recipient:person # Who gets the money. ; amount:money # How much. ; currency?:enum:USD,EUR,GBP,CHF # Currency. ; note?:phrase # Purpose of the payment.
Send {amount}[ {currency}] to {recipient}[ for "{note}"]. ~ Transfer {amount}[ {currency}] to {recipient}[, note {note}]. ~ Pay {recipient} {amount}[ {currency}][, purpose: {note}]. ~ I owe {recipient} {amount}[ {currency}][ ({note})]; please pay. ~ {recipient} should get {amount}[ {currency}][ for {note}].

account_balance get_balance bank.balance | Get the balance of an account. ~ How much money is on an account.
account:id # The account. ; currency?:enum:USD,EUR,GBP,CHF # Currency of the answer.
What's the balance of account {account}[ in {currency}]? ~ How much is on {account}[, in {currency}]? ~ Balance of {account}[ ({currency})], please. ~ Check account {account}[ and show it in {currency}]. ~ How much money do I have on {account}[ in {currency}]?

student_grade get_grade grades.lookup | Look up a student's grade. ~ Grades.
student:person # The student. ; course:topic # The course. ; term?:enum:spring,summer,autumn,winter # The term.
What grade did {student} get in {course}[ in {term}]? ~ Grade of {student} in {course}[, {term}]. ~ How did {student} do in {course}[ in the {term} term]? ~ Look up {student}'s mark for {course}[ ({term})]. ~ {student}, {course}[, {term}]: which grade?

hire_car rent_car car_rental.book | Rent a car. ~ Car rental.
city:city # Where to pick it up. ; from_date:date # First day. ; days:int:1:30 # For how many days. ; car_type?:enum:compact,suv,van,luxury # Kind of car.
Rent a[ {car_type}] car in {city} from {from_date} for {days} days. ~ I need a car in {city}, {days} days from {from_date}[, type {car_type}]. ~ Car hire in {city} starting {from_date}, {days} days[, {car_type}]. ~ Get me wheels in {city} on {from_date} for {days} days[; a {car_type}]. ~ Hire a[ {car_type}] vehicle for {days} days in {city}, first day {from_date}.

team_score match_result sports.result get_score | Get the result of a match. ~ Sports results.
team:team # The team. ; season?:int:1990:2026 # The season. ; opponent?:team # The other team.
How did {team} play[ against {opponent}][ in {season}]? ~ Score of {team}[ versus {opponent}][, season {season}]? ~ Did {team} win[ against {opponent}][ in {season}]? ~ Result for {team}[ - {opponent}][ ({season})]. ~ Look up the {team} match[ with {opponent}][ of {season}].

plant_care plant.info get_plant | Get care tips for a plant. ~ Gardening advice.
plant:fruit # Name of the plant. ; month?:month # Month of the year.
How do I look after {plant}[ in {month}]? ~ Care tips for {plant}[ for {month}]. ~ My {plant} looks bad, what should I do?[ It's {month}.] ~ Gardening advice on {plant}[, {month}]. ~ What does {plant} need[ in {month}]?

crypto_price coin.price get_coin | Get the price of a crypto coin. ~ Coin price.
coin:enum:bitcoin,ether,litecoin,dogecoin,monero # Name of the coin. ; currency?:enum:USD,EUR,GBP # Currency of the price.
What's {coin} worth[ in {currency}]? ~ Price of {coin}[ in {currency}]? ~ How is {coin} doing[, in {currency}]? ~ Get the {coin} price[ ({currency})]. ~ How much does one {coin} cost[ in {currency}]?

sunrise get_sunrise sun_times | Get sunrise and sunset. ~ Times of the sun.
city:city # The place. ; date?:date # The day.
When does the sun rise in {city}[ on {date}]? ~ Sunset in {city}[ on {date}]? ~ Sun times for {city}[, {date}]. ~ When does it get dark in {city}[ on {date}]? ~ How early is it light in {city}[ on {date}]?

resize_image image.resize scale_picture | Resize an image. ~ Changes the size of a picture.
file:path # The image file. ; width:int:16:4000 # Width in pixels. ; height:int:16:4000 # Height in pixels. ; keep_ratio?:bool # Keep the proportions.
Resize {file} to {width} by {height}[ {keep_ratio}]. ~ Make {file} {width} pixels wide and {height} pixels high[, {keep_ratio}]. ~ Scale {file} to {width}x{height}[ {keep_ratio}]. ~ {file} should measure {width} x {height} pixels[, {keep_ratio}]. ~ Change the size of {file}: width {width}, height {height}[, {keep_ratio}].

deploy_service service.deploy release_app | Deploy a version of a service. ~ Rolls out software.
service:ident # Name of the service. ; version:version # Version to deploy. ; environment:enum:staging,production,test # Where to. ; replicas?:int:1:20 # Number of copies.
Deploy {service} {version} to {environment}[ with {replicas} replicas]. ~ Roll out version {version} of {service} in {environment}[, {replicas} copies]. ~ Put {service} {version} on {environment}[ ({replicas} instances)]. ~ Release {version} of {service} to {environment}[, replicas: {replicas}]. ~ {environment} should run {service} at {version}[, {replicas} times].

create_ticket open_issue tickets.create file_bug | Open a ticket. ~ Files an issue.
title:phrase # Title of the ticket. ; description:sentence # What is wrong. ; priority?:enum:low,medium,high,critical # How urgent it is. ; labels?:list:noun # Labels to attach.
Open a ticket "{title}": {description}[ Priority {priority}.][ Labels: {labels}.] ~ File an issue titled "{title}" saying "{description}"[, {priority} priority][, labelled {labels}] ~ Report "{title}". Details: {description}[ It's {priority}.][ Tag it {labels}.] ~ New[ {priority}] ticket: {title} - {description}[ (labels {labels})] ~ Create an issue, title {title}, text "{description}"[, priority {priority}][, labels {labels}]
"""

ROOMS = "kitchen|bedroom|living room|bathroom|office|hallway|garage|cellar|attic|nursery".split("|")
TEAM_NAMES = "Rovers|United|Hawks|Lions|Wanderers|Tigers|Sharks|Falcons|Rangers|Comets".split("|")
TASK_VERBS = "buy|call|clean|fix|water|order|collect|check|pay|write to|visit|pack|print|return".split("|")


@dataclass(frozen=True)
class Slot:
    name: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True)
class Family:
    names: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[Slot, ...]
    requests: tuple[str, ...]
    """For training; the one of lowest checksum is kept for the test split."""
    held_out: str


def _parse(block: str) -> Family:
    head, slots, requests = block.strip().split("\n")
    names, abouts = head.split(" | ")
    parsed = []
    told = [r.strip() for r in requests.split(" ~ ")]
    for text in slots.split(" ; "):
        spec, about = text.split(" # ")
        name, kind = spec.strip().split(":", 1)
        parsed.append(Slot(name.rstrip("?"), kind, not name.endswith("?"), about.strip()))
    return Family(
        tuple(names.split()),
        tuple(a.strip() for a in abouts.split(" ~ ")),
        tuple(parsed),
        (*(r for r in told if r != kept(told)), *WORDINGS.get(names.split()[0], ())),
        kept(told),
    )


# more requests, by a family's first name; they came after the held-out requests were drawn, and serve training alone
WORDINGS = {
    name: tuple(requests.split(" ~ "))
    for name, requests in (
        line.split(" | ", 1)
        for line in (Path(__file__).parent / "wordings.txt").read_text().strip().split("\n")
    )
}
FAMILIES = tuple(_parse(block) for block in RAW.strip().split("\n\n"))


def draw_for(
    kinds: Kinds, kind: str, name: str
) -> tuple[dict[str, object], Callable[[random.Random], Spoken]]:
    """Schema and sampler of a slot kind."""
    pools = kinds.pools
    head, _, rest = kind.partition(":")

    string: dict[str, object] = {"type": "string"}
    if head == "int":
        low, high = map(int, rest.split(":"))
        return {"type": "integer"}, lambda r: integer(r, low, high)
    if head == "num":
        low, high = map(int, rest.split(":"))
        return {"type": "number"}, lambda r: number(r, low, high)
    if head == "money":
        return {"type": "number"}, lambda r: number(r, 5, 900) if r.random() < 0.4 else integer(r, 100, 90000)
    if head == "enum":
        options = rest.split(",")
        return {"type": "string", "enum": options}, verbatim(lambda r: r.choice(options))
    if head == "list":
        schema, one = draw_for(kinds, rest, name)
        return {"type": "array", "items": schema}, lambda r: listed(r, one, 2, 5)
    if head == "date":
        return {"type": "string", "format": "date"}, date
    if head == "time":
        return string, clock
    if head == "email":
        return string, kinds.email
    if head == "path":
        return string, verbatim(pools.path)
    if head == "id":
        return string, verbatim(pools.identifier)
    if head == "ident":
        return string, verbatim(
            lambda r: re.sub(r"[^a-z]+", r.choice("_-"), pools.topic(r).lower()).strip("_-") or "core"
        )
    if head == "noun":
        return string, verbatim(pools.noun)
    if head == "topic":
        return string, verbatim(pools.topic)
    if head == "task":
        return string, verbatim(
            lambda r: f"{r.choice(TASK_VERBS)} {r.choice(['the', 'my', 'some'])} {pools.noun(r)}"
        )
    if head == "room":
        return string, verbatim(lambda r: r.choice(ROOMS))
    if head == "month":
        return {"type": "string", "enum": MONTHS}, verbatim(lambda r: r.choice(MONTHS))
    if head == "weekday":
        return {"type": "string", "enum": DAYS}, verbatim(lambda r: r.choice(DAYS))
    if head == "ticker":
        return string, verbatim(
            lambda r: "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 4)))
        )
    if head == "version":
        return string, verbatim(
            lambda r: f"{r.choice(['', 'v'])}{r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}"
        )
    if head == "phone":
        return string, verbatim(
            lambda r: (
                r.choice(["+", "0", "00"]) + "".join(r.choice("0123456789") for _ in range(r.randint(7, 11)))
            )
        )
    if head == "team":
        return string, verbatim(lambda r: f"{pools.value(r, 'city')} {r.choice(TEAM_NAMES)}")
    if head == "sql":

        def sql(r: random.Random) -> str:
            column, table = pools.noun(r).split()[0].lower(), pools.noun(r).split()[0].lower() + "s"
            return r.choice(
                [
                    f"SELECT * FROM {table}",
                    f"SELECT {column} FROM {table} LIMIT {r.randint(1, 50)}",
                    f"SELECT COUNT(*) FROM {table}",
                    f"SELECT AVG({column}) FROM {table}",
                ]
            )

        return string, verbatim(sql)
    if head == "place":
        return string, verbatim(
            lambda r: (
                f"{r.choice(['Chez', 'The', 'La', 'Casa', 'Zum'])} {pools.value(r, r.choice(['last', 'first', 'fruit', 'colour']))}"
            )
        )
    return string, lambda r: kinds.text_sample(r, head)


def family_params(rng: random.Random, kinds: Kinds, family: Family, style: str) -> dict[str, Param]:
    """The family's parameters, by slot name; names and descriptions vary."""
    out = {}
    for slot in family.slots:
        about = slot.about if rng.random() < 0.85 else ""
        base = styled(rename(rng, slot.name, kinds.split), style)
        if slot.kind == "bool":
            out[slot.name] = kinds.boolean(rng, slot.name, about, style, slot.required)
            continue
        schema, draw = draw_for(kinds, slot.kind, slot.name)
        if schema.get("enum") and rng.random() < 0.25:
            schema = {"type": "string"}
        if schema.get("format") == "date" and rng.random() < 0.4:
            schema, about = {"type": "string"}, rng.choice(["Date as YYYY-MM-DD.", "The day, YYYY-MM-DD."])
        out[slot.name] = Param(base, schema, draw, ("{v}",), slot.required, about)
    return out
