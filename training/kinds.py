# ruff: noqa: E501 -- tables are data: one row a line reads better than wrapped ones
"""Kinds of argument whose meaning a name and a description carry: how each is named, described, typed, drawn, told.
Knows no tools and no tokens."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from training.naming import Split, joined, named, pick, rename, styled, words
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
latitude -90 90: Latitude.|Latitude in degrees.|The north-south coordinate.|Degrees of latitude. ~ at latitude {v}|with a latitude of {v}|latitude {v}|lat {v}
"""
CHOICE_ABOUTS = "The {n}.|{N} to use.|Which {n}.|The {n} that is wanted."
CHOICE_PHRASES = "with {n} {v}|{n} {v}|with the {n} set to {v}|in {v} {n}|using {v} as the {n}"
SWITCHES = "include_details notify urgent public recursive verbose overwrite include_tax compress dry_run remote active shuffle"
SWITCH_ABOUTS = "Whether to set {n}.|Turn {n} on or off.|If true, {n}.|{N} or not."
OBJECTS = "filter options address range settings customer contact item config details shipping metadata"
OBJECT_ABOUTS = "The {n}.|{N} of the request.|Holds the {n}.|What the {n} is."
OBJECT_PHRASES = "with the {n} {v}|with {n}: {v}|({n}: {v})|and {n} {v}"
DOING = ("include", "avoid", "use", "show", "allow", "keep", "add", "send", "skip")


def _rows(raw: str) -> list[tuple[list[str], list[str]]]:
    """(words before the colon, parts after it) of each line."""
    lines = (line.split(": ", 1) for line in raw.strip().split("\n"))
    return [(head.split(), rest.split(" ~ ")) for head, rest in lines]


TEXT_KINDS = _rows(TEXT_RAW)
NOTED = {kind: parts for (kind,), parts in _rows(NOTED_RAW)}
INTEGERS = _rows(INTEGER_RAW)
NUMBERS = _rows(NUMBER_RAW)


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

    def _text(self, rng: random.Random) -> _Meaning:
        (kind,), (names, abouts, phrases) = rng.choice(TEXT_KINDS)
        base, about = rng.choice(names.split()), pick(rng, abouts.split("|"), self.split)

        def one(r: random.Random) -> Spoken:
            return self.text_sample(r, kind)

        if rng.random() >= 0.16:
            return _Meaning(base, {"type": "string"}, one, phrases.split("|"), about)
        many = base if base.endswith("s") else base + "s"
        schema = {"type": "array", "items": {"type": "string"}}
        return _Meaning(many, schema, lambda r: listed(r, one), phrases.split("|"), about)

    def _choice(self, rng: random.Random) -> _Meaning:
        base = rng.choice(list(ENUMS))
        options = list(ENUMS[base])
        rng.shuffle(options)
        options = options[: rng.randint(2, min(6, len(options)))]
        schema = {"type": "string", "enum": options} if rng.random() >= 0.15 else {"type": "string"}
        said = words(base)
        about = pick(rng, named(CHOICE_ABOUTS, said), self.split)
        draw = verbatim(lambda r: r.choice(options))
        return _Meaning(base, schema, draw, named(CHOICE_PHRASES, said), about)

    def _integer(self, rng: random.Random) -> _Meaning:
        (base, lowest, highest), (abouts, phrases) = rng.choice(INTEGERS)
        low, high = int(lowest), int(highest)
        about = pick(rng, abouts.split("|"), self.split)
        schema: dict[str, Any] = {"type": "integer"}
        if rng.random() < 0.3:
            schema |= {"minimum": low, "maximum": high}
        return _Meaning(base, schema, lambda r: integer(r, low, high), phrases.split("|"), about)

    def _number(self, rng: random.Random) -> _Meaning:
        (base, lowest, highest), (abouts, phrases) = rng.choice(NUMBERS)
        low, high = int(lowest), int(highest)
        about = pick(rng, abouts.split("|"), self.split)
        return _Meaning(base, {"type": "number"}, lambda r: number(r, low, high), phrases.split("|"), about)

    def _date(self, rng: random.Random) -> _Meaning:
        made = self._noted(rng, "date", date)
        if rng.random() < 0.6:
            return made._replace(schema={"type": "string", "format": "date"})
        return made._replace(about=rng.choice(["Date as YYYY-MM-DD.", "The day, YYYY-MM-DD."]))

    def _noted(self, rng: random.Random, kind: str, draw: Draw) -> _Meaning:
        names, abouts, phrases = NOTED[kind]
        base, about = rng.choice(names.split()), pick(rng, abouts.split("|"), self.split)
        return _Meaning(base, {"type": "string"}, draw, phrases.split("|"), about)

    def boolean(self, rng: random.Random, base: str, about: str, style: str, required: bool) -> Param:
        said = words(base)
        name = styled(rename(rng, base, self.split), style)
        about = about or pick(rng, named(SWITCH_ABOUTS, said), self.split)

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
                return Spoken(value, ", ".join(_phrased(p, drawn[p.name]) for p in chosen))
            return Spoken(value, joined([_labelled(p, drawn[p.name]) for p in chosen], r))

        said = words(base)
        name = styled(rename(rng, base, self.split), style)
        about = pick(rng, named(OBJECT_ABOUTS, said), self.split)
        return Param(name, schema, draw, tuple(named(OBJECT_PHRASES, said)), required, about)


def _plainer(said: str) -> tuple[list[str], list[str]]:
    """A switch that is off and one that is on, in the plain words of people."""
    verb, _, rest = said.partition(" ")
    if not rest or verb not in DOING:
        return [f"no {said}", f"{said}: no", f"not {said}"], [f"with {said}", f"and {said}", f"{said}: yes"]
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
