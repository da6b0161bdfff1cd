# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Kinds of argument: how each is named, described, typed, drawn, and spoken of. Knows no tools and no tokens.

A name or phrase belongs to exactly one split, by its checksum: what the held-out split shows was never trained on.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

Split = Literal["train", "test"]
T = TypeVar("T")
SCALARS = ("string", "integer", "number")
HELD_OUT = 10  # one name in so many is kept for the test split


def held_out(name: str) -> bool:
    """Whether a name belongs to the test split, whatever its style of writing."""
    return zlib.crc32(re.sub(r"[^a-z0-9]", "", name.lower()).encode()) % HELD_OUT == 0


def in_split(name: str, split: Split) -> bool:
    return held_out(name) == (split == "test")


def pick(rng: random.Random, options: Sequence[str], split: Split) -> str:
    """One phrase of a list. Lists of four or more keep the phrase of lowest checksum for the test split."""
    if len(options) < 4:
        return rng.choice(options)
    test = kept(options)
    if split == "test":
        return test
    while (choice := rng.choice(options)) == test:
        pass
    return choice


def kept(options: Sequence[str]) -> str:
    """The phrase of a list that belongs to the test split."""
    return _kept(options) if isinstance(options, tuple) else min(options, key=_checksum)


@lru_cache(1 << 12)
def _kept(options: tuple[str, ...]) -> str:
    return min(options, key=_checksum)


@lru_cache(1 << 15)
def _checksum(text: str) -> int:
    return zlib.crc32(text.encode())


_PREFIXES = [
    "the",
    "target",
    "new",
    "source",
    "base",
    "first",
    "main",
    "input",
    "given",
    "event",
    "item",
    "record",
    "request",
    "user",
    "search",
    "order",
    "my",
    "object",
    "local",
    "current",
    "selected",
    "primary",
    "default",
    "custom",
    "final",
    "start",
    "raw",
    "query",
]
SUFFIXES = ["value", "param", "field", "input", "arg", "data", "option", "setting", "spec", "info"]


def rename(rng: random.Random, name: str, split: Split) -> str:
    """The name itself where the split allows it, else a variant (target_city, cityValue…).

    In training every third name is a variant too: a name must be copied from the prompt, not remembered.
    """
    if in_split(name, split) and (split == "test" or rng.random() > 0.35):
        return name
    for attempt in range(2000):
        if attempt > 40:
            other = f"{rng.choice(_PREFIXES)}_{name}_{rng.choice(SUFFIXES)}"
        elif rng.random() < 0.7:
            other = f"{rng.choice(_PREFIXES)}_{name}"
        else:
            other = f"{name}_{rng.choice(SUFFIXES)}"
        if in_split(other, split):
            return other
    raise AssertionError(f"no variant of {name!r} lies in the {split} split")


@lru_cache(1 << 14)
def words(name: str) -> str:
    """A name in words: maxResults -> max results."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name)
    return re.sub(r"[_.\-\s]+", " ", name).strip().lower()


def styled(name: str, style: str) -> str:
    """snake, camel, pascal, kebab-free forms of a name in words."""
    parts = words(name).split()
    if style == "camel":
        return parts[0] + "".join(p.capitalize() for p in parts[1:])
    if style == "pascal":
        return "".join(p.capitalize() for p in parts)
    return "_".join(parts)


def slots_of(phrase: str) -> list[str]:
    """The names in braces of a phrase, in order."""
    return re.findall(r"\{(\w+)\}", phrase)


def plural(noun: str) -> str:
    """Of a noun that may be in the plural already: costs, masses, velocities."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ss", "x", "ch", "sh")) else f"{noun}s"


def capital(text: str) -> str:
    """With its first letter large."""
    return text[0].upper() + text[1:]


def uncapital(text: str, values: Sequence[str]) -> str:
    """A sentence as it goes on behind 'Also, ': its first letter small unless it begins a name or value, or is I."""
    first = re.match(r"\W*[\w'-]+", text)
    word = first.group() if first else ""
    if re.match(r"I\b", word) or (not word[1:].islower() and len(word) > 1):
        return text
    if any(v[:1].isupper() and v.startswith(word) for v in values):
        return text
    return text[:1].lower() + text[1:]


_CRUDE = frozenset(
    int(checksum, 16)
    for checksum in re.findall(
        "[0-9a-f]{8}",
        """
    cc614ca6 7b4a72b6 0601ecbb 3dbf7a3b 22dad126 b38c8e3d dfec8b58 033330db f6fbde46 cada2bed
    75f1cb2c 17bdbf93 9559c34b f9835dcc 73fe0531 e1bcb11a 8ccef82b 66df1e8c 96e2bc3e 31b4780a
    5216b6bb 61448318 5af64758 1387f6fe 0c7206a1 8d2bebf9 c063859c bef3a4b6 16f68578 dba090a2
    6c924623 186d72d8 bb80fa3d 2c399cb7 efa269f7 a9f573ac fd5d2f3d 1c23dabc 6cbb5832 4b6ebe39
    e8d73970 6a007340 10181690
    """,
    )
)
"""Checksums of slurs and of words about sex, which a dictionary holds and no tool is named after."""


def _decent(words: list[list[str]]) -> list[list[str]]:
    return [
        word for word in words if _CRUDE.isdisjoint(map(_checksum, re.findall("[a-z]+", word[0].lower())))
    ]


class Pools:
    """What sources.py gathered, but for crude words."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt") as file:
            raw = json.load(file)
        self.operations: list[dict[str, Any]] = raw["operations"]
        self.values: dict[str, list[str]] = raw["values"]
        words = {kind: _decent(raw["wordnet"][kind]) for kind in ("noun", "verb", "adj")}
        self.nouns: list[list[str]] = words["noun"]
        self.verbs: list[list[str]] = words["verb"]
        self.adjectives: list[list[str]] = words["adj"]

    def value(self, rng: random.Random, kind: str) -> str:
        world = f"{kind}_world"
        if world in self.values and rng.random() < 0.25:
            return rng.choice(self.values[world])
        return rng.choice(self.values[kind])

    def noun(self, rng: random.Random) -> str:
        return self.nouns[int(len(self.nouns) * rng.random() ** 2)][0]

    def adjective(self, rng: random.Random) -> str:
        return self.adjectives[int(len(self.adjectives) * rng.random() ** 2)][0]

    def topic(self, rng: random.Random) -> str:
        return f"{self.adjective(rng)} {self.noun(rng)}" if rng.random() < 0.5 else self.noun(rng)


@dataclass(frozen=True)
class Spoken:
    """A value as JSON and as a person says it."""

    value: Any
    text: str
    whole: bool = False
    """The text is a phrase that stands for itself ('from rest'), not one to put into another."""


@dataclass(frozen=True)
class Param:
    """One parameter of a tool. phrases have a slot {v}; draw gives values."""

    name: str
    schema: dict[str, Any]
    draw: Callable[[random.Random], Spoken]
    phrases: tuple[str, ...]
    required: bool = True
    about: str = ""
    shown: dict[str, Any] = field(default_factory=dict)

    def json_schema(self) -> dict[str, Any]:
        return self.shown or described(self.schema, self.about)


def described(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {**schema, "description": about} if about else dict(schema)


MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def ordinal(n: int) -> str:
    return f"{n}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def date(rng: random.Random) -> Spoken:
    y, m, d = rng.randint(1950, 2035), rng.randint(1, 12), rng.randint(1, 28)
    if rng.random() < 0.7:
        y = rng.randint(2020, 2027)
    month = MONTHS[m - 1]
    iso = f"{y}-{m:02}-{d:02}"
    forms = [
        iso,
        iso,
        iso,
        f"{month} {d}, {y}",
        f"{d} {month} {y}",
        f"{month} {ordinal(d)}, {y}",
        f"the {ordinal(d)} of {month} {y}",
    ]
    return Spoken(iso, rng.choice(forms))


def clock(rng: random.Random) -> Spoken:
    h, m = rng.randint(0, 23), rng.choice([0, 0, 0, 15, 30, 30, 45, rng.randint(0, 59)])
    value = f"{h:02}:{m:02}"
    twelve = f"{(h + 11) % 12 + 1}{'' if m == 0 else f':{m:02}'} {'am' if h < 12 else 'pm'}"
    return Spoken(value, rng.choice([value, value, twelve, twelve]))


_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


def integer(rng: random.Random, low: int, high: int) -> Spoken:
    value = rng.randint(low, high) if rng.random() < 0.7 else low + int((high - low) * rng.random() ** 3)
    if value >= 20 and rng.random() < 0.3:  # people like round numbers
        unit = 10 ** (len(str(value)) - rng.choice([1, 1, 2]))
        value = min(max(low, value // unit * unit), high)
    text = str(value)
    if 0 <= value <= 12 and rng.random() < 0.2:
        text = _SMALL[value]
    elif value >= 100000 and value % 100000 == 0 and rng.random() < 0.5:
        text = f"{value / 1000000:g} million"
    elif value >= 1000 and value % 1000 == 0 and rng.random() < 0.15:
        text = rng.choice([f"{value // 1000} thousand", f"{value // 1000}k"])
    elif value >= 1000 and rng.random() < 0.3:
        text = f"{value:,}"
    return Spoken(value, text)


def number(rng: random.Random, low: float, high: float) -> Spoken:
    places = rng.choice([0, 0, 1, 1, 2, 2, 3])
    value = round(rng.uniform(low, high), places)
    if places == 0 or value == int(value):
        value = int(value)
        return Spoken(value, str(value))
    return Spoken(value, str(value))


def joined(items: Sequence[str], rng: random.Random) -> str:
    items = list(items)
    if len(items) == 1:
        return items[0]
    style = rng.random()
    if style < 0.6:
        return ", ".join(items[:-1]) + rng.choice([" and ", ", and "]) + items[-1]
    return ", ".join(items)


def listed(
    rng: random.Random, item: Callable[[random.Random], Spoken], low: int = 1, high: int = 4
) -> Spoken:
    items: list[Spoken] = []
    for _ in range(rng.randint(low, high)):
        drawn = item(rng)
        if all(drawn.value != i.value for i in items):
            items.append(drawn)
    values = [i.value for i in items]
    if rng.random() < 0.15:
        return Spoken(values, json.dumps(values, ensure_ascii=False))
    texts = [i.text for i in items]
    if len(texts) > 1 and any("," in t or " and " in t for t in texts):  # where an item ends must show
        texts = [f'"{t}"' for t in texts]
    return Spoken(values, joined(texts, rng))


def identifier(rng: random.Random, pools: Pools) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    shape = rng.random()
    if shape < 0.3:
        stem = re.sub(r"[^a-z]+", "-", pools.noun(rng).lower()).strip("-")
        return f"{stem}-{rng.randint(1, 9999)}"
    if shape < 0.5:
        return (
            "".join(rng.choice(letters).upper() for _ in range(rng.randint(2, 3)))
            + f"-{rng.randint(10, 99999)}"
        )
    if shape < 0.65:
        return "".join(rng.choice("0123456789abcdef") for _ in range(rng.choice([6, 8, 12])))
    if shape < 0.8:
        return "-".join(re.sub(r"[^a-z]+", "", pools.noun(rng).lower()) or "x" for _ in range(2))
    if shape < 0.9:
        return f"{re.sub(r'[^a-z]+', '_', pools.noun(rng).lower()).strip('_')}_{rng.randint(1, 99):02}"
    return str(rng.randint(1000, 99999999))


def file_path(rng: random.Random, pools: Pools) -> str:
    stem = re.sub(r"[^a-z0-9]+", rng.choice("_-"), pools.topic(rng).lower()).strip("_-") or "notes"
    name = (
        stem
        + "."
        + rng.choice(["txt", "md", "csv", "json", "py", "pdf", "png", "log", "xml", "yaml", "docx", "html"])
    )
    shape = rng.random()
    if shape < 0.5:
        return name
    folders = [re.sub(r"[^a-z]+", "", pools.noun(rng).lower()) or "data" for _ in range(rng.randint(1, 2))]
    return ("/" if rng.random() < 0.4 else "") + "/".join([*folders, name])


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


def _rows(raw: str) -> list[tuple[list[str], list[str]]]:
    """(words before the colon, parts after it) of each line."""
    lines = (line.split(": ", 1) for line in raw.strip().split("\n"))
    return [(head.split(), rest.split(" ~ ")) for head, rest in lines]


TEXT_KINDS = _rows(TEXT_RAW)
INTEGERS = _rows(INTEGER_RAW)
NUMBERS = _rows(NUMBER_RAW)


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
        split = self.split
        if roll < 0.34:
            (kind,), (names, abouts, phrases) = rng.choice(TEXT_KINDS)
            schema: dict[str, Any] = {"type": "string"}
            draw: Callable[[random.Random], Spoken] = lambda r: self.text_sample(r, kind)  # noqa: E731
            base, about = rng.choice(names.split()), pick(rng, abouts.split("|"), split)
            spoken = phrases.split("|")
            if rng.random() < 0.16:
                schema = {"type": "array", "items": {"type": "string"}}
                base = base if base.endswith("s") else base + "s"
                one = draw
                draw = lambda r: listed(r, one)  # noqa: E731
        elif roll < 0.46:
            base = rng.choice(list(ENUMS))
            options = list(ENUMS[base])
            rng.shuffle(options)
            options = options[: rng.randint(2, min(6, len(options)))]
            schema = {"type": "string", "enum": options}
            if rng.random() < 0.15:
                schema = {"type": "string"}
            draw = lambda r: (lambda o: Spoken(o, o))(r.choice(options))  # noqa: E731
            about = pick(
                rng,
                [
                    f"The {words(base)}.",
                    f"{words(base).capitalize()} to use.",
                    f"Which {words(base)}.",
                    f"The {words(base)} that is wanted.",
                ],
                split,
            )
            spoken = [
                f"with {words(base)} {{v}}",
                f"{words(base)} {{v}}",
                f"with the {words(base)} set to {{v}}",
                f"in {{v}} {words(base)}",
                f"using {{v}} as the {words(base)}",
            ]
        elif roll < 0.62:
            (base, lowest, highest), (abouts, phrases) = rng.choice(INTEGERS)
            low, high = int(lowest), int(highest)
            about, spoken = pick(rng, abouts.split("|"), split), phrases.split("|")
            schema = {"type": "integer"}
            if rng.random() < 0.3:
                schema |= {"minimum": low, "maximum": high}
            draw = lambda r: integer(r, low, high)  # noqa: E731
        elif roll < 0.72:
            (base, lowest, highest), (abouts, phrases) = rng.choice(NUMBERS)
            low, high = int(lowest), int(highest)
            about, spoken = pick(rng, abouts.split("|"), split), phrases.split("|")
            schema = {"type": "number"}
            draw = lambda r: number(r, low, high)  # noqa: E731
        elif roll < 0.80:
            base = rng.choice(
                ["date", "start_date", "due_date", "day", "deadline", "departure_date", "birthday", "when"]
            )
            about = pick(
                rng,
                [
                    "The date.",
                    "Date as YYYY-MM-DD.",
                    "When, as YYYY-MM-DD.",
                    "The day (YYYY-MM-DD).",
                    "ISO date.",
                ],
                split,
            )
            schema = {"type": "string", "format": "date"} if rng.random() < 0.6 else {"type": "string"}
            if "format" not in schema:
                about = rng.choice(["Date as YYYY-MM-DD.", "The day, YYYY-MM-DD."])
            draw, spoken = date, ["on {v}", "for {v}", "dated {v}", "by {v}", "starting {v}"]
        elif roll < 0.84:
            base = rng.choice(["time", "start_time", "at", "alarm_time", "arrival"])
            about = pick(
                rng,
                ["The time as HH:MM.", "Time of day, 24 hours.", "When, as HH:MM.", "Clock time (HH:MM)."],
                split,
            )
            schema, draw, spoken = (
                {"type": "string"},
                clock,
                ["at {v}", "for {v}", "starting at {v}", "from {v}"],
            )
        elif roll < 0.88:
            base = rng.choice(["email", "to", "recipient_email", "address", "cc"])
            about = pick(
                rng,
                ["The e-mail address.", "Who receives it.", "Recipient's address.", "E-mail of the contact."],
                split,
            )
            schema, draw, spoken = (
                {"type": "string"},
                self.email,
                ["to {v}", "for {v}", "with the email {v}", "sent to {v}"],
            )
        elif roll < 0.94:
            base = rng.choice(["file", "path", "filename", "document", "source"])
            about = pick(
                rng, ["Path of the file.", "The file name.", "Which file.", "File to work on."], split
            )
            schema = {"type": "string"}
            draw = lambda r: (lambda p: Spoken(p, p))(file_path(r, self.pools))  # noqa: E731
            spoken = ["{v}", "for the file {v}", "from {v}", "in {v}", "of {v}"]
        else:
            return self.boolean(
                rng,
                rng.choice(
                    [
                        "include_details",
                        "notify",
                        "urgent",
                        "public",
                        "recursive",
                        "verbose",
                        "overwrite",
                        "include_tax",
                        "compress",
                        "dry_run",
                        "remote",
                        "active",
                        "shuffle",
                    ]
                ),
                "",
                style,
                required,
            )
        name = styled(rename(rng, base, split), style)
        if not in_split(name, split):
            name = styled(rename(rng, words(name), split), style)
        return Param(name, schema, draw, tuple(spoken), required, about if rng.random() < 0.9 else "")

    def boolean(self, rng: random.Random, base: str, about: str, style: str, required: bool) -> Param:
        said = words(base)
        name = styled(rename(rng, base, self.split), style)
        about = about or pick(
            rng,
            [
                f"Whether to set {said}.",
                f"Turn {said} on or off.",
                f"If true, {said}.",
                f"{said.capitalize()} or not.",
            ],
            self.split,
        )

        def draw(r: random.Random) -> Spoken:
            value = r.random() < 0.6
            yes = [f"with {said} enabled", f"with {said} on", f"{said} set to true", f"turn {said} on"]
            no = [f"with {said} disabled", f"without {said}", f"{said} set to false", f"{said} off"]
            if self.split == "train" and r.random() < 0.5:  # plainer words, as people use them
                verb, _, rest = said.partition(" ")
                yes, no = (
                    [f"with {said}", f"and {said}", f"{said}: yes"],
                    [f"no {said}", f"{said}: no", f"not {said}"],
                )
                if rest and verb in (
                    "include",
                    "avoid",
                    "use",
                    "show",
                    "allow",
                    "keep",
                    "add",
                    "send",
                    "skip",
                ):
                    doing = f"{verb.removesuffix('e')}{'p' if verb == 'skip' else ''}ing {rest}"
                    yes, no = (
                        [doing, f"and {said}", f"with {rest}"],
                        [f"not {doing}", f"but do not {said}", f"no {rest}"],
                    )
                    if verb in ("avoid", "skip"):
                        yes[2] = f"without {rest}"
                        no[2] = f"{rest} allowed"
                return Spoken(value, r.choice(yes if value else no))
            return Spoken(value, pick(r, yes if value else no, self.split))

        return Param(name, {"type": "boolean"}, draw, ("{v}",), required, about)

    def generic(self, rng: random.Random, raw: dict[str, Any], style: str) -> Param:
        """A parameter of a real API: spoken of by its name or by its description."""
        name = styled(rename(rng, words(raw["name"]) or "value", self.split), style)
        said, about = words(name), raw.get("about", "")
        kind = raw["type"]
        required = raw["required"]
        if kind == "boolean":
            return self.boolean(rng, words(raw["name"]), about, style, required)
        noun = _noun_phrase(about)
        phrases = [
            f"with {said} {{v}}",
            f"with the {said} {{v}}",
            f"{said}: {{v}}",
            f"using {{v}} as {said}",
            f"where {said} is {{v}}",
            f"set {said} to {{v}}",
            f"{said} = {{v}}",
            f"and {said} {{v}}",
        ]
        if noun and rng.random() < 0.6:
            phrases = [
                f"with the {noun} {{v}}",
                f"with {{v}} as the {noun}",
                f"where the {noun} is {{v}}",
                f"{noun}: {{v}}",
                f"the {noun} being {{v}}",
            ]
        one: Callable[[random.Random], Spoken]
        item: dict[str, Any]
        if "enum" in raw:
            one, item = self._option(raw["enum"]), {"type": "string", "enum": raw["enum"]}
        elif kind == "integer":
            top = rng.choice([10, 100, 1000, 100000])
            one = lambda r: integer(r, 0, top)  # noqa: E731
            item = {"type": "integer"}
        elif kind == "number":
            top = rng.choice([1, 10, 1000])
            one = lambda r: number(r, 0, top)  # noqa: E731
            item = {"type": "number"}
        elif kind == "date":
            one, item = date, {"type": "string", "format": "date"}
        else:
            one, item = self._string_for(said + " " + about.lower()), {"type": "string"}
        if kind == "array":
            first = one
            return Param(
                name,
                {"type": "array", "items": item},
                lambda r: listed(r, first),
                tuple(phrases),
                required,
                about,
            )
        return Param(name, item, one, tuple(phrases), required, about)

    def _option(self, options: list[str]) -> Callable[[random.Random], Spoken]:
        def draw(r: random.Random) -> Spoken:
            option = r.choice(options)
            return Spoken(option, option if r.random() < 0.5 else re.sub(r"[_\-]+", " ", option).lower())

        return draw

    def _string_for(self, said: str) -> Callable[[random.Random], Spoken]:
        pools = self.pools
        table = (
            ("email", self.email),
            ("domain", lambda r: self.text_sample(r, "domain")),
            ("country", lambda r: self.text_sample(r, "country")),
            ("city", lambda r: self.text_sample(r, "city")),
            ("user", lambda r: self.text_sample(r, "user")),
            ("description", lambda r: self.text_sample(r, r.choice(["sentence", "phrase"]))),
            ("title", lambda r: self.text_sample(r, "phrase")),
            ("query", lambda r: (lambda t: Spoken(t, t))(pools.topic(r))),
            ("comment", lambda r: self.text_sample(r, "sentence")),
            ("path", lambda r: (lambda t: Spoken(t, t))(file_path(r, pools))),
            ("file", lambda r: (lambda t: Spoken(t, t))(file_path(r, pools))),
        )
        for key, draw in table:
            if key in said:
                return draw

        def draw_id(r: random.Random) -> Spoken:
            text = identifier(r, pools) if r.random() < 0.8 else pools.topic(r)
            return Spoken(text, text)

        return draw_id

    def nested(self, rng: random.Random, style: str, required: bool) -> Param:
        """An object with two or three fields of other kinds."""
        base = rng.choice(
            [
                "filter",
                "options",
                "address",
                "range",
                "settings",
                "customer",
                "contact",
                "item",
                "config",
                "details",
                "shipping",
                "metadata",
            ]
        )
        fields: dict[str, Param] = {}
        for _ in range(rng.randint(2, 3)):
            p = self.semantic(rng, style, True)
            fields.setdefault(p.name, p)
        chosen = list(fields.values())
        schema = {
            "type": "object",
            "properties": {p.name: p.json_schema() for p in chosen},
            "required": [p.name for p in chosen],
        }
        said = words(base)

        def draw(r: random.Random) -> Spoken:
            drawn = {p.name: p.draw(r) for p in chosen}
            value = {k: s.value for k, s in drawn.items()}
            if r.random() < 0.5:
                text = ", ".join(
                    p.phrases[0].replace("{v}", drawn[p.name].text)
                    if p.schema["type"] != "array"
                    else f"{words(p.name)} {drawn[p.name].text}"
                    for p in chosen
                )
                return Spoken(value, f"{text}")
            return Spoken(
                value,
                joined(
                    [
                        f"{words(p.name)} {json.dumps(drawn[p.name].value) if p.schema['type'] == 'boolean' else drawn[p.name].text}"
                        for p in chosen
                    ],
                    r,
                ),
            )

        name = styled(rename(rng, base, self.split), style)
        about = pick(
            rng,
            [
                f"The {said}.",
                f"{said.capitalize()} of the request.",
                f"Holds the {said}.",
                f"What the {said} is.",
            ],
            self.split,
        )
        return Param(
            name,
            schema,
            draw,
            (f"with the {said} {{v}}", f"with {said}: {{v}}", f"({said}: {{v}})", f"and {said} {{v}}"),
            required,
            about,
        )


def _noun_phrase(about: str) -> str:
    """The head of a description: 'The maximum number of results to return.' -> maximum number of results."""
    match = re.match(r"(?:Required\. |Optional\. )?(?:The|A|An)\s+(.+)", about)
    if not match:
        return ""
    head = re.split(
        r"\s+(?:to|that|for|which|is|are|in|on|by|from|you|used|associated|whose|must)\b|[.,(:;]",
        match.group(1),
    )[0]
    return head.lower() if 1 <= len(head.split()) <= 5 and len(head) < 40 else ""
