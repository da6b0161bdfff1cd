# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Agent-loop tasks over made-up files and tables: list, read, search, query, compute, convert.

A World is drawn afresh for every conversation: its files, its tables, the names and descriptions of its tools,
the way they write results. A Chain is one sub-question: the calls that answer it, each depending on the results
before, and the answer. Results come from running the calls. Nothing of the package's demo appears here.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training.kinds import Kinds, pick, rename, styled, words
from training.tooling import Call

UNITS: dict[str, dict[str, float]] = {
    "length": {
        "metres": 1,
        "feet": 0.3048,
        "kilometres": 1000,
        "miles": 1609.344,
        "centimetres": 0.01,
        "inches": 0.0254,
        "yards": 0.9144,
    },
    "mass": {"kilograms": 1, "pounds": 0.45359237, "grams": 0.001, "ounces": 0.028349523125, "tonnes": 1000},
    "volume": {"litres": 1, "gallons": 3.785411784, "millilitres": 0.001, "pints": 0.473176473},
    "time": {"hours": 60, "minutes": 1, "days": 1440, "seconds": 1 / 60},
    "temperature": {"celsius": 1, "fahrenheit": 1},
}
SHORT = {
    "metres": "m",
    "feet": "ft",
    "kilometres": "km",
    "miles": "mi",
    "centimetres": "cm",
    "inches": "in",
    "yards": "yd",
    "kilograms": "kg",
    "pounds": "lb",
    "grams": "g",
    "ounces": "oz",
    "tonnes": "t",
    "litres": "l",
    "gallons": "gal",
    "millilitres": "ml",
    "pints": "pt",
    "hours": "h",
    "minutes": "min",
    "days": "d",
    "seconds": "s",
    "celsius": "C",
    "fahrenheit": "F",
}


def shown(x: float) -> str:
    """A number as tools write it: at most four significant decimals, no trailing zeros."""
    if x == int(x) and abs(x) < 1e15:
        return str(int(x))
    return f"{x:.4f}".rstrip("0").rstrip(".") if abs(x) >= 0.01 else f"{x:.4g}"


def convert(value: float, unit: str, to: str) -> float:
    if unit in UNITS["temperature"]:
        return value if unit == to else (value - 32) / 1.8 if to == "celsius" else value * 1.8 + 32
    for table in UNITS.values():
        if unit in table:
            return value * table[unit] / table[to]
    raise KeyError(unit)


# ── facts ────────────────────────────────────────────────────────────────────────────────────

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

# quantity | sentences with {o} object, {n}, {u} | questions | objects
FACTS = [
    (
        "length",
        [
            "The {o} is {n} {u} high.",
            "The {o} has a height of {n} {u}.",
            "{n} {u} is the height of the {o}.",
            "At {n} {u}, the {o} can be seen from afar.",
            "The {o} rises {n} {u}.",
        ],
        [
            "How high is the {o} of {e}?",
            "What is the height of the {o} of {e}?",
            "How tall is the {o} at {e}?",
            "The {o} of {e}: how high is it?",
            "Find the height of the {o} of {e}.",
        ],
        "tower chimney gate dome mast wall roof statue hall arch crane silo",
        (2, 900),
        "the {o} of {e} is {v} high",
    ),
    (
        "length",
        [
            "The {o} is {n} {u} long.",
            "The length of the {o} is {n} {u}.",
            "From end to end the {o} measures {n} {u}.",
            "The {o} runs for {n} {u}.",
            "They laid a {o} of {n} {u}.",
        ],
        [
            "How long is the {o} of {e}?",
            "What's the length of the {o} at {e}?",
            "What does the {o} of {e} measure?",
            "Tell me how long the {o} of {e} is.",
            "How far does the {o} of {e} run?",
        ],
        "bridge pier tunnel fence path corridor cable canal track rope pipe hedge",
        (3, 800),
        "the {o} of {e} is {v} long",
    ),
    (
        "length",
        [
            "The {o} lies {n} {u} away.",
            "It is {n} {u} to the {o}.",
            "The way to the {o} is {n} {u}.",
            "The nearest {o} is at a distance of {n} {u}.",
            "One walks {n} {u} to reach the {o}.",
        ],
        [
            "How far is the {o} from {e}?",
            "What is the distance from {e} to the {o}?",
            "How far is it to the {o} from {e}?",
            "How much of a walk is it from {e} to the {o}?",
            "From {e}, how far away is the {o}?",
        ],
        "coast village airport town forest spring border lake road church",
        (1, 90),
        "the {o} is {v} from {e}",
    ),
    (
        "mass",
        [
            "Each {o} weighs {n} {u}.",
            "A {o} weighs {n} {u}.",
            "The weight of a {o} is {n} {u}.",
            "One {o} comes to {n} {u}.",
            "Every {o} had a weight of {n} {u}.",
        ],
        [
            "How much does a {o} of {e} weigh?",
            "What is the weight of one {o} at {e}?",
            "How heavy is a {o} at {e}?",
            "What does each {o} of {e} weigh?",
            "Give me the weight of a {o} of {e}.",
        ],
        "crate sack barrel bell anchor box wheel cheese stone basket block drum",
        (2, 400),
        "a {o} of {e} weighs {v}",
    ),
    (
        "volume",
        [
            "The {o} holds {n} {u}.",
            "Up to {n} {u} fit into the {o}.",
            "The {o} has room for {n} {u}.",
            "The capacity of the {o} is {n} {u}.",
            "When full, the {o} contains {n} {u}.",
        ],
        [
            "How much does the {o} of {e} hold?",
            "What is the capacity of the {o} at {e}?",
            "How much fits into the {o} of {e}?",
            "What volume has the {o} of {e}?",
            "How big is the {o} at {e}?",
        ],
        "tank cistern vat pool kettle well boiler trough bucket keg",
        (5, 900),
        "the {o} of {e} holds {v}",
    ),
    (
        "temperature",
        [
            "The {o} is kept at {n} degrees {u}.",
            "The {o} has a temperature of {n} degrees {u}.",
            "It is {n} degrees {u} in the {o}.",
            "The {o} must never exceed {n} degrees {u}.",
            "They heat the {o} to {n} degrees {u}.",
        ],
        [
            "How warm is the {o} of {e}?",
            "What is the temperature of the {o} at {e}?",
            "At which temperature is the {o} of {e}?",
            "How hot does it get in the {o} of {e}?",
            "Find the temperature of the {o} at {e}.",
        ],
        "oven cellar greenhouse kiln basin dryer sauna cold-room furnace stable",
        (2, 95),
        "the {o} of {e} is at {v}",
    ),
    (
        "time",
        [
            "The {o} takes {n} {u}.",
            "One {o} lasts {n} {u}.",
            "It takes {n} {u} to finish the {o}.",
            "The {o} is over after {n} {u}.",
            "Allow {n} {u} for the {o}.",
        ],
        [
            "How long does the {o} of {e} take?",
            "What is the duration of the {o} at {e}?",
            "How long is the {o} at {e}?",
            "How much time does the {o} of {e} need?",
            "The {o} of {e} takes how long?",
        ],
        "crossing visit shift harvest cleaning inspection lesson show trip repair",
        (2, 90),
        "the {o} of {e} takes {v}",
    ),
    (
        "money",
        [
            "A {o} costs {n} {u}.",
            "The price of a {o} is {n} {u}.",
            "One pays {n} {u} for a {o}.",
            "They charge {n} {u} for a {o}.",
            "For {n} {u} you get a {o}.",
        ],
        [
            "What does a {o} cost at {e}?",
            "How much is a {o} at {e}?",
            "What is the price of a {o} of {e}?",
            "How much do they charge for a {o} at {e}?",
            "How expensive is a {o} at {e}?",
        ],
        "ticket loaf bottle room seat lamp jar poster cup meal coat ride ladder rope",
        (2, 250),
        "a {o} costs {v} at {e}",
    ),
    (
        "count",
        [
            "There are {n} {o}s.",
            "It has {n} {o}s.",
            "They count {n} {o}s in all.",
            "The number of {o}s is {n}.",
            "A total of {n} {o}s belong to it.",
        ],
        [
            "How many {o}s are there at {e}?",
            "What is the number of {o}s of {e}?",
            "How many {o}s does {e} have?",
            "{e} has how many {o}s?",
            "Count the {o}s of {e}.",
        ],
        "worker room window bed boat guest table door cow lamp member pupil machine",
        (3, 950),
        "{e} has {v} {o}s",
    ),
    (
        "person",
        [
            "The {o} is {n}.",
            "{n} is the {o}.",
            "{n} works there as {o}.",
            "Its {o} is called {n}.",
            "{o}: {n}.",
        ],
        [
            "Who is the {o} of {e}?",
            "What is the name of the {o} at {e}?",
            "Name the {o} of {e}.",
            "Who works as {o} at {e}?",
            "Which person is {o} of {e}?",
        ],
        "owner keeper captain cook manager founder guard doctor gardener clerk architect pilot",
        (0, 0),
        "the {o} of {e} is {v}",
    ),
    (
        "clock",
        [
            "The {o} opens at {n}.",
            "From {n} on the {o} is open.",
            "The {o} starts at {n}.",
            "Opening time of the {o}: {n}.",
            "Every day at {n} the {o} begins.",
        ],
        [
            "When does the {o} of {e} open?",
            "At what time does the {o} start at {e}?",
            "From when is the {o} of {e} open?",
            "When does the {o} at {e} begin?",
            "What is the starting time of the {o} of {e}?",
        ],
        "shop office tour canteen counter workshop service course gallery kiosk",
        (0, 0),
        "the {o} of {e} opens at {v}",
    ),
    (
        "year",
        [
            "The {o} was built in {n}.",
            "The {o} dates from {n}.",
            "In {n} the {o} was finished.",
            "Since {n} there has been a {o}.",
            "The {o} was opened in {n}.",
        ],
        [
            "When was the {o} of {e} built?",
            "In which year was the {o} at {e} finished?",
            "How old is the {o} of {e}? Give the year.",
            "From which year is the {o} of {e}?",
            "What year does the {o} at {e} date from?",
        ],
        "chapel wing tower bridge hall kitchen barn dock tavern stage",
        (1650, 2024),
        "the {o} of {e} dates from {v}",
    ),
]


@dataclass
class Fact:
    entity: str
    file: str
    quantity: str
    obj: str
    number: float
    text: str  # the value as the file has it, e.g. "960" or a name
    unit: str
    sentence: str
    questions: list[str]
    answer: str


@dataclass
class Table:
    name: str
    item: str  # singular
    columns: dict[str, str]  # name -> text | category | person | int | real | key
    rows: list[list[Any]]
    refers: str = ""


@dataclass
class Chain:
    """One sub-question. steps[i](results so far) -> the i-th call; answer(results) -> text."""

    question: str
    steps: list[Callable[[list[str]], Call]]
    answer: Callable[[list[str]], str]
    key: str = ""
    """What the answer must quote where that is not the last result as it stands."""

    def quoted(self, results: list[str]) -> list[str]:
        """The strings a right answer holds."""
        last = results[-1]
        if self.key:
            return [self.key]
        return [] if last in ("no rows", "[]") else _cells(last)


@dataclass
class World:
    kinds: Kinds
    files: dict[str, list[str]] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    db: sqlite3.Connection | None = None
    names: dict[str, str] = field(default_factory=dict)  # tool role -> tool name
    args: dict[str, str] = field(default_factory=dict)  # role.argument -> parameter name
    short_units: bool = False
    row_style: str = "plain"
    enumerated: bool = True


ROLE_NAMES = {
    "list": "list_files files ls list_documents dir show_files list_notes",
    "read": "read_file read open_file cat get_document read_document load_note show_file",
    "search": "search find grep search_files find_text look_for search_notes find_lines",
    "query": "query sql run_sql ask_database query_database select db_query execute_query",
    "compute": "compute calculate calc evaluate calculator arithmetic eval_math do_math",
    "convert": "convert convert_units unit_convert change_unit to_unit convert_value units",
}
ROLE_ABOUT = {
    "list": [
        "List the files.",
        "Names of all text files.",
        "Shows which documents there are.",
        "List the documents of {w}.",
    ],
    "read": [
        "Read one text file.",
        "Returns the text of a file.",
        "Open a document and show its lines.",
        "Read a file of {w}.",
    ],
    "search": [
        "Find lines that contain the words.",
        "Search all files for a text.",
        "Search the documents; returns matching lines.",
        "Full-text search over the files.",
    ],
    "query": [
        "Ask the database with one SELECT.",
        "Run a read-only SQL query.",
        "Query the SQLite database.",
        "Read the database by SQL.",
    ],
    "compute": [
        "Work out an arithmetic expression.",
        "Evaluate a formula with + - * / and parentheses.",
        "Calculator.",
        "Computes the value of an expression.",
    ],
    "convert": [
        "Convert a value from one unit to another.",
        "Unit conversion.",
        "Change the unit of a quantity.",
        "Converts lengths, masses, volumes, times and temperatures.",
    ],
}
ROLE_ARGS = {
    "read": {"file": "file path name filename document"},
    "search": {"text": "text query words pattern keyword term"},
    "query": {"sql": "sql query statement select"},
    "compute": {"expression": "expression formula expr calculation"},
    "convert": {
        "value": "value amount number quantity",
        "unit": "unit from_unit source from_ unit_from",
        "to": "to to_unit target target_unit unit_to",
    },
}
TABLE_ITEMS = [
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
]
GROUP_ITEMS = [
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
]
CATEGORY = {
    "kind": "glass wood iron stone paper clay silver wool bone shell fern fish amber copper",
    "color": "red blue green white black grey brown yellow",
    "status": "new sold broken lent open closed stored lost",
    "city": "",
    "material": "oak steel bronze cotton leather ivory marble rubber",
    "grade": "A B C D",
    "country": "",
    "type": "small large heavy light rare common round flat",
}
NUMBERS = {
    "price": (2, 500),
    "stock": (0, 90),
    "sold": (0, 400),
    "mass": (1, 300),
    "weight": (1, 300),
    "age": (1, 120),
    "cost": (100, 40000),
    "days": (3, 90),
    "height": (2, 90),
    "length": (2, 400),
    "score": (1, 100),
    "visitors": (10, 9000),
    "room": (1, 9),
    "year": (1900, 2024),
    "seats": (4, 300),
    "pages": (20, 900),
    "rating": (1, 10),
    "floor": (0, 9),
}


# how people ask for a column: question about one row, superlatives up and down
SAID: dict[str, tuple[list[str], str, str]] = {
    "price": (["What does {n} cost?", "How expensive is {n}?", "How much is {n}?", "What do I pay for {n}?"], "most expensive", "cheapest"),
    "cost": (["What did {n} cost?", "How much did {n} cost?", "How expensive was {n}?", "What was paid for {n}?"], "most expensive", "cheapest"),
    "mass": (["How heavy is {n}?", "What does {n} weigh?", "How much does {n} weigh?", "What weight has {n}?"], "heaviest", "lightest"),
    "weight": (["How heavy is {n}?", "What does {n} weigh?", "How much does {n} weigh?", "What mass has {n}?"], "heaviest", "lightest"),
    "age": (["How old is {n}?", "What age is {n}?", "How many years old is {n}?", "Tell me how old {n} is."], "oldest", "youngest"),
    "height": (["How tall is {n}?", "How high is {n}?", "What height does {n} have?", "Tell me how tall {n} is."], "tallest", "smallest"),
    "length": (["How long is {n}?", "What length does {n} have?", "How many metres long is {n}?", "Tell me how long {n} is."], "longest", "shortest"),
    "days": (["How many days did {n} take?", "How long did {n} last?", "How many days was {n}?", "For how many days was {n}?"], "longest", "shortest"),
    "year": (["From which year is {n}?", "When was {n} made?", "Which year is {n} from?", "In what year was {n}?"], "newest", "oldest"),
    "stock": (["How many {n} are in stock?", "How many of {n} are left?", "What stock of {n} is there?", "How much of {n} do we have?"], "best stocked", "least stocked"),
    "sold": (["How many {n} were sold?", "How often was {n} sold?", "What number of {n} was sold?", "How many of {n} have been sold?"], "best selling", "worst selling"),
    "room": (["In which room is {n}?", "Where is {n}? Give the room.", "Which room holds {n}?", "What room is {n} in?"], "", ""),
    "floor": (["On which floor is {n}?", "Where is {n}? Give the floor.", "Which floor is {n} on?", "What floor holds {n}?"], "", ""),
    "visitors": (["How many visitors did {n} have?", "How many people visited {n}?", "Visitors of {n}?", "How many came to see {n}?"], "most visited", "least visited"),
    "pages": (["How many pages has {n}?", "How long is {n} in pages?", "How thick is {n}? Give the pages.", "Number of pages of {n}?"], "thickest", "thinnest"),
    "seats": (["How many seats has {n}?", "How many people can sit in {n}?", "Seats of {n}?", "How many seats are in {n}?"], "largest", "smallest"),
}  # fmt: skip


def plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _proper(rng: random.Random, kinds: Kinds) -> str:
    roll = rng.random()
    if roll < 0.5:
        return kinds.pools.noun(rng).split()[0].split("-")[0].capitalize()
    if roll < 0.75:
        return kinds.pools.value(rng, "last").split()[0]
    return rng.choice(kinds.pools.values["city"]).split()[-1]


def make_world(rng: random.Random, kinds: Kinds) -> World:
    world = World(
        kinds,
        short_units=rng.random() < 0.2,
        row_style=rng.choice(["plain", "plain", "plain", "json", "lists", "header"]),
        enumerated=rng.random() < 0.6,
    )
    for _ in range(rng.randint(2, 6)):
        name, place = _proper(rng, kinds), rng.choice(PLACES)
        entity = rng.choice([f"the {name} {place}", f"{name}", f"the {place} {name}"])
        if any(name.lower() in f for f in world.files):
            continue
        file = rng.choice(
            [
                f"{name.lower()}.txt",
                f"{name.lower()}.txt",
                f"{place}_{name.lower()}.txt",
                f"{name.lower()}.md",
                f"{place}-{name.lower()}.txt",
            ]
        )
        lines = [
            rng.choice(
                [
                    f"Notes on {entity}.",
                    f"About {entity}.",
                    f"{entity.capitalize()}: what we know.",
                    f"Report on {entity}, {rng.randint(1990, 2025)}.",
                ]
            )
        ]
        used = set()
        for kind in rng.sample(FACTS, rng.randint(3, 6)):
            fact = _fact(rng, kinds, entity, file, kind)
            if fact.obj in used:
                continue
            used.add(fact.obj)
            world.facts.append(fact)
            lines.append(fact.sentence)
        world.files[file] = lines
    for _ in range(rng.choice([0, 0, 1, 2])):  # files without facts
        topic = kinds.pools.noun(rng).split()[0]
        world.files.setdefault(
            f"{topic.lower()}.txt", [kinds.pools.value(rng, "sentence") for _ in range(rng.randint(2, 4))]
        )
    _tables(rng, world)
    for role, options in ROLE_NAMES.items():
        style = rng.choice(["snake", "snake", "snake", "camel"])
        choices = options.split()
        base = choices[0] if rng.random() < 0.3 else rng.choice(choices)
        name = styled(rename(rng, base, kinds.split), style)
        while name in world.names.values():
            name = styled(rename(rng, rng.choice(choices), kinds.split), style)
        world.names[role] = name
        for arg, names in ROLE_ARGS.get(role, {}).items():
            options_ = names.split()
            base = options_[0] if rng.random() < 0.4 else rng.choice(options_)
            given = rename(rng, base.rstrip("_"), kinds.split)
            while given in (world.args.get(f"{role}.{a}") for a in ROLE_ARGS[role]):
                given = rename(rng, rng.choice(options_).rstrip("_"), kinds.split)
            world.args[f"{role}.{arg}"] = given
    return world


def _fact(rng: random.Random, kinds: Kinds, entity: str, file: str, kind: tuple[Any, ...]) -> Fact:
    quantity, sentences, questions, objects, (low, high), answer = kind
    obj = rng.choice(objects.split())
    number, unit = 0.0, ""
    if quantity == "person":
        text = kinds.pools.value(rng, "person")
    elif quantity == "clock":
        text = f"{rng.randint(6, 19)}:{rng.choice(['00', '15', '30', '45'])}"
    else:
        number = rng.randint(low, high)
        if quantity not in ("year", "count") and rng.random() < 0.2:
            number = round(number + rng.random(), 1)
        text = shown(number)
        if quantity == "money":
            unit = rng.choice(["euros", "dollars", "pounds", "crowns", "francs"])
        elif quantity in UNITS:
            unit = rng.choice(list(UNITS[quantity])[:4])
    sentence = pick(rng, sentences, kinds.split).format(
        o=obj, n=text, u=unit.capitalize() if quantity == "temperature" else unit
    )
    sentence = sentence[0].upper() + sentence[1:]
    split = kinds.split
    shuffled = [pick(rng, questions, split).format(o=obj, e=entity)]
    return Fact(entity, file, quantity, obj, number, text, unit, sentence, shuffled, answer)


def _tables(rng: random.Random, world: World) -> None:
    kinds = world.kinds
    items = rng.sample(TABLE_ITEMS, 2)
    group = rng.choice(GROUP_ITEMS)
    world.tables = []
    group_names: list[str] = []
    if rng.random() < 0.6:
        columns = {"name": "key", rng.choice(["leader", "owner", "manager", "head"]): "person"}
        for c in rng.sample(list(NUMBERS), rng.randint(1, 3)):
            columns[c] = "int"
        table = Table(plural(group), group, columns, [])
        _fill(rng, kinds, table, rng.randint(3, 5), {})
        group_names = [r[0] for r in table.rows]
        world.tables.append(table)
    for item in items[: rng.choice([1, 1, 2])]:
        columns = {rng.choice(["name", "name", "name", "title", item]): "key"}
        for c in rng.sample(list(CATEGORY), rng.randint(1, 2)):
            columns[c] = "category"
        refers = ""
        if group_names and rng.random() < 0.7:
            columns[group] = "ref"
            refers = world.tables[0].name
        for c in rng.sample(list(NUMBERS), rng.randint(1, 3)):
            columns[c] = "real" if rng.random() < 0.15 else "int"
        table = Table(plural(item) if rng.random() < 0.85 else item, item, columns, [], refers)
        pools: dict[str, list[str]] = {}
        for c in columns:
            if columns[c] == "category":
                options = CATEGORY[c].split() or [kinds.pools.value(rng, c) for _ in range(6)]
                pools[c] = rng.sample(options, min(4, len(options)))
            elif columns[c] == "ref":
                pools[c] = group_names
        _fill(rng, kinds, table, rng.randint(5, 14), pools)
        world.tables.append(table)
    db = sqlite3.connect(":memory:")
    for t in world.tables:
        db.execute(f"CREATE TABLE {t.name} ({', '.join(t.columns)})")
        db.executemany(f"INSERT INTO {t.name} VALUES ({', '.join('?' * len(t.columns))})", t.rows)
    world.db = db


def _fill(rng: random.Random, kinds: Kinds, table: Table, count: int, pools: dict[str, list[str]]) -> None:
    """At most `count` rows, no two of one name."""
    key = next(i for i, kind in enumerate(table.columns.values()) if kind == "key")
    seen: set[str] = set()
    for _ in range(count):
        row = _row(rng, kinds, table.columns, pools)
        if row[key] not in seen:
            seen.add(row[key])
            table.rows.append(row)


def _row(
    rng: random.Random, kinds: Kinds, columns: dict[str, str], pools: dict[str, list[str]] | None = None
) -> list[Any]:
    out: list[Any] = []
    for name, kind in columns.items():
        if kind == "key":
            out.append(_proper(rng, kinds))
        elif kind == "person":
            out.append(rng.choice(kinds.pools.values["person"]))
        elif kind in ("category", "ref"):
            assert pools is not None
            out.append(rng.choice(pools[name]))
        else:
            low, high = NUMBERS[name]
            out.append(rng.randint(low, high) if kind == "int" else round(rng.uniform(low, high), 1))
    return out


# ── tools of a world ─────────────────────────────────────────────────────────────────────────


def tool_specs(rng: random.Random, world: World, roles: list[str]) -> list[dict[str, Any]]:
    split = world.kinds.split
    out = []
    place = _proper(rng, world.kinds)
    described = rng.random() < 0.4
    for role in roles:
        about = pick(rng, ROLE_ABOUT[role], split).format(w=place)
        properties: dict[str, Any] = {}
        for arg in ROLE_ARGS.get(role, {}):
            schema: dict[str, Any] = {"type": "string"}
            if role == "read" and world.enumerated:
                schema["enum"] = sorted(world.files)
            if role == "convert":
                if arg == "value":
                    schema = {"type": "number"}
                else:
                    known = [u for table in UNITS.values() for u in table]
                    units = [SHORT[u] if world.short_units else u for u in known]
                    schema["enum"] = units
            if described:
                schema["description"] = {
                    "file": "The file to read.",
                    "text": "Words to look for.",
                    "sql": "One SELECT statement.",
                    "expression": "The expression, for example 3 * (4 + 5).",
                    "value": "The value to convert.",
                    "unit": "Its unit.",
                    "to": "The unit wanted.",
                }[arg]
            properties[world.args[f"{role}.{arg}"]] = schema
        if role == "query":
            tables = ", ".join(f"{t.name} ({', '.join(t.columns)})" for t in world.tables)
            about += rng.choice(
                [
                    f" Tables: {tables}.",
                    f" Tables: {tables}.",
                    f" The tables are {tables}.",
                    f" Schema: {'; '.join(f'{t.name}({chr(44).join(t.columns)})' for t in world.tables)}",
                ]
            )
        if role == "read" and not world.enumerated and "list" not in roles:
            about += f" Files: {', '.join(sorted(world.files))}."
        out.append(
            {
                "name": world.names[role],
                "description": about,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)}
                if properties
                else {"type": "object", "properties": {}},
            }
        )
    return out


def run_call(world: World, call: Call) -> str:
    """What the world's tool returns."""
    name, args = call
    role = next(r for r, n in world.names.items() if n == name)
    value = {a: args[world.args[f"{role}.{a}"]] for a in ROLE_ARGS.get(role, {})}
    if role == "list":
        return (
            ", ".join(sorted(world.files)) if world.row_style != "json" else json.dumps(sorted(world.files))
        )
    if role == "read":
        if value["file"] not in world.files:
            return f"No file {value['file']!r}. Files: {', '.join(sorted(world.files))}."
        return "\n".join(world.files[value["file"]])
    if role == "search":
        wanted = value["text"].lower().split()
        hits = []
        for file, lines in sorted(world.files.items()):
            for line in lines:
                found = sum(w in f"{file} {line}".lower() for w in wanted)
                if found:
                    hits.append((found, f"{file}: {line}"))
        if not hits:
            return f"No line contains {value['text']!r}. Use another word, or read a file."
        best = max(h[0] for h in hits)
        return "\n".join([h[1] for h in hits if h[0] == best][:4])
    if role == "query":
        assert world.db is not None
        try:
            cursor = world.db.execute(value["sql"])
        except sqlite3.Error as error:
            return f"SQL error: {error}. Write one SELECT."
        rows = [
            [_num(round(x, 4)) if isinstance(x, float) else x for x in row] for row in cursor.fetchmany(9)
        ]
        columns = [c[0] for c in cursor.description]
        cells = [[shown(x) if isinstance(x, (int, float)) else str(x) for x in row] for row in rows]
        if not rows:
            return "no rows" if world.row_style != "json" else "[]"
        if world.row_style == "json":
            return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], ensure_ascii=False)
        if world.row_style == "lists":
            return json.dumps([list(row) for row in rows], ensure_ascii=False)
        if world.row_style == "header":
            return "\n".join([" | ".join(columns), *(" | ".join(row) for row in cells)])
        if len(columns) == 1:
            return ", ".join(row[0] for row in cells)
        return "\n".join(", ".join(row) for row in cells)
    if role == "compute":
        return shown(float(eval(value["expression"], {"__builtins__": {}})))  # our own expressions only
    long = {v: k for k, v in SHORT.items()} if world.short_units else {}
    unit, to = long.get(value["unit"], value["unit"]), long.get(value["to"], value["to"])
    return f"{shown(convert(value['value'], unit, to))} {value['to']}"


def call(world: World, role: str, **values: Any) -> Call:
    return world.names[role], {world.args[f"{role}.{a}"]: v for a, v in values.items()}


# ── chains ───────────────────────────────────────────────────────────────────────────────────


def _finish(rng: random.Random, world: World, fact: Fact, value: str) -> str:
    text = fact.answer.format(o=fact.obj, e=fact.entity, v=value)
    return text[0].upper() + text[1:] + "."


def _look_up(
    rng: random.Random, world: World, fact: Fact, roles: list[str]
) -> list[Callable[[list[str]], Call]]:
    """The calls that bring the fact's line."""
    proper = [w for w in fact.entity.split() if w[:1].isupper()]
    if "search" in roles and ("read" not in roles or rng.random() < 0.5):
        text = f"{proper[0]} {fact.obj}" if proper and rng.random() < 0.8 else fact.obj
        return [lambda _: call(world, "search", text=text)]
    read = lambda _: call(world, "read", file=fact.file)  # noqa: E731
    if world.enumerated or "list" not in roles:
        return [read]
    return [lambda _: call(world, "list"), read]


def fact_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    if not world.facts:
        return None
    fact = rng.choice(world.facts)
    steps = _look_up(rng, world, fact, roles)
    question = fact.questions[0]
    value = (
        f"{fact.text} {fact.unit}".strip()
        if fact.quantity != "temperature"
        else f"{fact.text} degrees {fact.unit.capitalize()}"
    )
    roll = rng.random()
    if fact.quantity in UNITS and "convert" in roles and roll < 0.45:
        to = rng.choice([u for u in UNITS[fact.quantity] if u != fact.unit])
        unit_words = to.capitalize() if fact.quantity == "temperature" else to
        question = pick(
            rng,
            [
                question.rstrip("?.") + f" in {unit_words}?",
                question + f" Give it in {unit_words}.",
                question + f" I need it in {unit_words}.",
                question.rstrip("?.") + f", in {unit_words}?",
                question + f" Convert it to {unit_words}.",
            ],
            world.kinds.split,
        )
        source, target = (SHORT[fact.unit], SHORT[to]) if world.short_units else (fact.unit, to)
        steps.append(lambda _: call(world, "convert", value=_num(fact.number), unit=source, to=target))
        return Chain(
            question,
            steps,
            lambda r: _finish(rng, world, fact, f"{r[-1]}" + (f" ({value})" if rng.random() < 0.3 else "")),
        )
    if fact.quantity in ("mass", "money", "volume", "count", "time") and "compute" in roles and roll < 0.75:
        k = rng.randint(2, 60)
        if fact.quantity == "count":
            question, expression, done = rng.choice(
                [
                    (
                        f"How many {fact.obj}s would there be at {fact.entity} if {k} more were added?",
                        f"{fact.text} + {k}",
                        "there would be {v} {o}s at {e}",
                    ),
                    (
                        f"If {k} of the {fact.obj}s of {fact.entity} leave, how many remain?",
                        f"{fact.text} - {k}",
                        "{v} {o}s remain at {e}",
                    ),
                    (
                        f"How many {fact.obj}s does {fact.entity} have in {k} groups of equal size, per group?",
                        f"{fact.text} / {k}",
                        "that makes {v} {o}s per group at {e}",
                    ),
                ]
            )
        else:
            verb = {"mass": "weigh", "money": "cost", "volume": "hold", "time": "take"}[fact.quantity]
            question, expression, done = rng.choice(
                [
                    (
                        f"What do {k} {fact.obj}s of {fact.entity} {verb} together?",
                        f"{k} * {fact.text}",
                        "{k} {o}s of {e} {w} {v}",
                    ),
                    (
                        f"How much do {k} {fact.obj}s {verb} at {fact.entity}?",
                        f"{k} * {fact.text}",
                        "{k} {o}s {w} {v} at {e}",
                    ),
                    (
                        f"I take {k} {fact.obj}s at {fact.entity}: what do they {verb} in all?",
                        f"{k} * {fact.text}",
                        "{k} {o}s {w} {v} in all",
                    ),
                ]
            )
            done = done.replace("{w}", verb).replace("{k}", str(k))
            if fact.quantity == "money" and rng.random() < 0.4:
                off = rng.choice([5, 10, 15, 20, 25])
                question = question.rstrip("?") + f", with a discount of {off} percent?"
                expression = (
                    f"{k} * {fact.text} * (1 - {off} / 100)"
                    if rng.random() < 0.5
                    else f"{expression} * {(100 - off) / 100:g}"
                )
        steps.append(lambda _: call(world, "compute", expression=expression))
        unit = f" {fact.unit}" if fact.unit else ""

        def finish(r: list[str]) -> str:
            text = done.format(o=fact.obj, e=fact.entity, v=r[-1] + unit)
            return text[0].upper() + text[1:] + "."

        return Chain(question, steps, finish)
    return Chain(question, steps, lambda r: _finish(rng, world, fact, value), key=fact.text)


def _num(x: float) -> float | int:
    return int(x) if x == int(x) else x


def two_facts_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Compare or add one quantity of two entities."""
    pairs = [
        (a, b)
        for a in world.facts
        for b in world.facts
        if a.file < b.file
        and a.quantity == b.quantity
        and a.unit == b.unit
        and a.quantity in ("mass", "money", "count", "length", "volume", "time")
    ]
    if not pairs or "compute" not in roles:
        return None
    a, b = rng.choice(pairs)
    steps = [
        *_look_up(rng, world, a, ["read"] if "read" in roles else roles),
        *_look_up(rng, world, b, ["read"] if "read" in roles else roles),
    ]
    if rng.random() < 0.5:
        question = f"{a.questions[0]} And {b.questions[0][0].lower() + b.questions[0][1:].rstrip('?.')}? What is the sum?"
        expression, word = f"{a.text} + {b.text}", "sum"
    else:
        question = f"{a.questions[0]} And {b.questions[0][0].lower() + b.questions[0][1:].rstrip('?.')}? What is the difference?"
        x, y = (a, b) if a.number >= b.number else (b, a)
        expression, word = f"{x.text} - {y.text}", "difference"
    steps.append(lambda _: call(world, "compute", expression=expression))
    unit = f" {a.unit}" if a.unit else ""
    return Chain(
        question,
        steps,
        lambda r: (
            f"{_finish(rng, world, a, a.text + unit)} {_finish(rng, world, b, b.text + unit)} The {word} is {r[-1]}{unit}."
        ),
    )


def _scalar(result: str) -> str:
    """The one cell of a query result, whatever the row style."""
    if result.startswith("["):
        data = json.loads(result)
        row = data[0] if data else ""
        cell = next(iter(row.values())) if isinstance(row, dict) else row[0]
        return shown(cell) if isinstance(cell, (int, float)) else str(cell)
    return result.split("\n")[-1]


def _cells(result: str) -> list[str]:
    """The cells of a one-column result."""
    if result.startswith("["):
        cells = [next(iter(r.values())) if isinstance(r, dict) else r[0] for r in json.loads(result)]
        return [shown(c) if isinstance(c, int | float) else str(c) for c in cells]
    if "\n" in result:
        return result.split("\n")[1:]
    return result.split(", ")


def q(text: object) -> str:
    """A string in SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def sql_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    table = rng.choice(world.tables)
    key = next(c for c, k in table.columns.items() if k == "key")
    cats = [c for c, k in table.columns.items() if k in ("category", "ref", "person")]
    nums = [c for c, k in table.columns.items() if k in ("int", "real")]
    order = list(table.columns)
    items, item, t = plural(table.item), table.item, table.name
    row = rng.choice(table.rows)
    name = row[order.index(key)]
    cat = rng.choice(cats)
    val = row[order.index(cat)]
    num = rng.choice(nums)
    said = words(num)
    forms: list[tuple[list[str], str, Callable[[str], str]]] = []
    of = {
        "category": [
            f"with the {cat} {val}",
            f"whose {cat} is {val}",
            f"of {cat} {val}",
            f"that have {cat} {val}",
        ],
        "ref": [
            f"from the {cat} {val}",
            f"of the {val} {cat}",
            f"that belong to the {cat} {val}",
            f"of {val}",
        ],
        "person": [f"with the {cat} {val}", f"whose {cat} is {val}", f"of the {cat} {val}", f"led by {val}"],
    }[table.columns[cat]]
    where = pick(rng, of, world.kinds.split)
    forms.append(
        (
            [
                f"How many {items} {where} are there?",
                f"Count the {items} {where}.",
                f"How many {items} are there {where}?",
                f"What's the number of {items} {where}?",
            ],
            f"SELECT COUNT(*) FROM {t} WHERE {cat} = {q(val)}",
            lambda v: f"There are {v} {items} {where}.",
        )
    )
    forms.append(
        (
            [
                f"How many {items} are in the database?",
                f"How many {items} are there in all?",
                f"Count all {items}.",
                f"What is the total number of {items}?",
            ],
            f"SELECT COUNT(*) FROM {t}",
            lambda v: f"There are {v} {items} in all.",
        )
    )
    forms.append(
        (
            [
                f"What is the {said} of {name}?",
                f"Tell me the {said} of the {item} {name}.",
                f"{name}: what is its {said}?",
                f"Look up the {said} of {name}.",
            ],
            f"SELECT {num} FROM {t} WHERE {key} = {q(name)}",
            lambda v: f"The {said} of {name} is {v}.",
        )
    )
    forms.append(
        (
            [
                f"What is the {cat} of {name}?",
                f"Which {cat} has the {item} {name}?",
                f"{name}: which {cat}?",
                f"Tell me the {cat} of {name}.",
            ],
            f"SELECT {cat} FROM {t} WHERE {key} = {q(name)}",
            lambda v: f"The {cat} of {name} is {v}.",
        )
    )
    high = rng.random() < 0.6
    word = (
        rng.choice(["highest", "largest", "greatest", "most"])
        if high
        else rng.choice(["lowest", "smallest", "least"])
    )
    if word in ("most", "least"):
        word = "highest" if high else "lowest"
    direction = " DESC" if high else ""
    forms.append(
        (
            [
                f"Which {item} has the {word} {said}?",
                f"What is the name of the {item} with the {word} {said}?",
                f"Find the {item} with the {word} {said}.",
                f"Name the {item} whose {said} is {word}.",
            ],
            f"SELECT {key} FROM {t} ORDER BY {num}{direction} LIMIT 1",
            lambda v: f"{v} has the {word} {said}.",
        )
    )
    forms.append(
        (
            [
                f"Which {item} {where} has the {word} {said}?",
                f"Among the {items} {where}, which has the {word} {said}?",
                f"Find the {item} {where} with the {word} {said}.",
                f"Of all {items} {where}, name the one with the {word} {said}.",
            ],
            f"SELECT {key} FROM {t} WHERE {cat} = {q(val)} ORDER BY {num}{direction} LIMIT 1",
            lambda v: f"{v} has the {word} {said} of the {items} {where}.",
        )
    )
    agg, agg_word = rng.choice([("SUM", "total"), ("AVG", "average"), ("MAX", "maximum"), ("MIN", "minimum")])
    forms.append(
        (
            [
                f"What is the {agg_word} {said} of all {items}?",
                f"Compute the {agg_word} {said} over the {items}.",
                f"{agg_word.capitalize()} {said} of the {items}?",
                f"Tell me the {agg_word} {said} of the {items}.",
            ],
            f"SELECT {agg}({num}) FROM {t}",
            lambda v: f"The {agg_word} {said} of all {items} is {v}.",
        )
    )
    forms.append(
        (
            [
                f"What is the {agg_word} {said} of the {items} {where}?",
                f"{agg_word.capitalize()} {said} of the {items} {where}?",
                f"For the {items} {where}, what is the {agg_word} {said}?",
                f"I need the {agg_word} {said} of the {items} {where}.",
            ],
            f"SELECT {agg}({num}) FROM {t} WHERE {cat} = {q(val)}",
            lambda v: f"The {agg_word} {said} of the {items} {where} is {v}.",
        )
    )
    bound = row[order.index(num)]
    more = rng.random() < 0.5
    than = (
        rng.choice(["above", "more than", "over", "greater than"])
        if more
        else rng.choice(["below", "less than", "under"])
    )
    forms.append(
        (
            [
                f"How many {items} have a {said} {than} {bound}?",
                f"Count the {items} whose {said} is {than} {bound}.",
                f"How many {items} with a {said} {than} {bound} are there?",
                f"Number of {items} with {said} {than} {bound}?",
            ],
            f"SELECT COUNT(*) FROM {t} WHERE {num} {'>' if more else '<'} {bound}",
            lambda v: f"{v} {items} have a {said} {than} {bound}.",
        )
    )
    forms.append(
        (
            [
                f"Which {items} have a {said} {than} {bound}?",
                f"List the {items} whose {said} is {than} {bound}.",
                f"Show the {items} with a {said} {than} {bound}.",
                f"Name all {items} with {said} {than} {bound}.",
            ],
            f"SELECT {key} FROM {t} WHERE {num} {'>' if more else '<'} {bound}",
            lambda v: "LIST",
        )
    )
    forms.append(
        (
            [
                f"Which {items} are there {where}?",
                f"List the {items} {where}.",
                f"Name the {items} {where}.",
                f"Show me all {items} {where}.",
            ],
            f"SELECT {key} FROM {t} WHERE {cat} = {q(val)}",
            lambda v: "LIST",
        )
    )
    if num in SAID:
        asks, up, down = SAID[num]
        owner = rng.choice([name, name, f"the {item} {name}"])
        natural = [a.format(n=owner) for a in asks]
        forms.append(
            (
                natural,
                f"SELECT {num} FROM {t} WHERE {key} = {q(name)}",
                lambda v: f"The {said} of {name} is {v}.",
            )
        )
        forms.append((natural, f"SELECT {num} FROM {t} WHERE {key} = {q(name)}", lambda v: f"{name}: {v}."))
        if up:
            top, way = (up, " DESC") if high else (down, "")
            asks = [
                f"Which {item} is the {top}?",
                f"What is the {top} {item}?",
                f"Name the {top} {item}.",
                f"Find the {top} {item}.",
            ]
            forms.append(
                (
                    asks,
                    f"SELECT {key} FROM {t} ORDER BY {num}{way} LIMIT 1",
                    lambda v: f"The {top} {item} is {v}.",
                )
            )
            asks = [
                f"Which is the {top} {item} {where}?",
                f"What is the {top} {item} {where}?",
                f"Name the {top} {item} {where}.",
                f"Of the {items} {where}, which is the {top}?",
            ]
            forms.append(
                (
                    asks,
                    f"SELECT {key} FROM {t} WHERE {cat} = {q(val)} ORDER BY {num}{way} LIMIT 1",
                    lambda v: f"The {top} {item} {where} is {v}.",
                )
            )
    if table.columns[cat] == "person":
        asks = [
            f"Who is the {cat} of {name}?",
            f"Who was {cat} of the {item} {name}?",
            f"Name the {cat} of {name}.",
            f"Which person is {cat} of {name}?",
        ]
        forms.append(
            (asks, f"SELECT {cat} FROM {t} WHERE {key} = {q(name)}", lambda v: f"The {cat} of {name} is {v}.")
        )
    if table.columns[cat] == "category":
        asks = [
            f"How many {val} {items} are there?",
            f"Count the {val} {items}.",
            f"How many {items} are {val}?",
            f"Number of {val} {items}?",
        ]
        forms.append(
            (
                asks,
                f"SELECT COUNT(*) FROM {t} WHERE {cat} = {q(val)}",
                lambda v: f"There are {v} {val} {items}.",
            )
        )
    if len(nums) > 1 and {"price", "cost"} & set(nums) and {"stock", "sold", "days", "seats"} & set(nums):
        p = next(c for c in nums if c in ("price", "cost"))
        s = next(c for c in nums if c in ("stock", "sold", "days", "seats"))
        forms.append(
            (
                [
                    f"What is {p} times {s} of all {items} in total?",
                    f"Sum up {p} times {s} over the {items}.",
                    f"What do the {items} come to, {p} times {s}?",
                    f"Total of {p} * {s} for all {items}?",
                ],
                f"SELECT SUM({p} * {s}) FROM {t}",
                lambda v: f"The total of {p} times {s} is {v}.",
            )
        )
    if table.refers:
        other = next(o for o in world.tables if o.name == table.refers)
        ref = next(c for c, k in table.columns.items() if k == "ref")
        person = next(c for c, k in other.columns.items() if k == "person")
        who = rng.choice(other.rows)[1]
        for agg2, head in (
            ("COUNT(*)", f"How many {items}"),
            (f"SUM({t}.{num})", f"What total {said} have the {items}"),
        ):
            forms.append(
                (
                    [
                        f"{head} of the {other.item} led by {who}?",
                        f"{head} of the {other.item} whose {person} is {who}?",
                        f"{head} belong to the {other.item} of {who}?",
                        f"{head} of the {person} {who}?",
                    ],
                    f"SELECT {agg2} FROM {t} JOIN {other.name} ON {t}.{ref} = {other.name}.name WHERE {other.name}.{person} = {q(who)}",
                    lambda v: f"For the {other.item} of {who} the answer is {v}.",
                )
            )
    questions, sql, answer = rng.choice(forms)
    question = pick(rng, questions, world.kinds.split)
    steps: list[Callable[[list[str]], Call]] = [lambda _: call(world, "query", sql=sql)]
    result = run_call(world, steps[0]([]))
    if result in ("no rows", "[]"):
        return Chain(question, steps, lambda r: f"No {items} match.")
    if answer("") == "LIST":
        return Chain(question, steps, lambda r: f"The {items} are {', '.join(_cells(r[-1]))}.")
    value = _scalar(result)
    if re.fullmatch(r"-?[\d.]+", value) and rng.random() < 0.3:
        quantity = {
            "mass": "kilograms",
            "weight": "kilograms",
            "height": "metres",
            "length": "metres",
            "days": "days",
        }.get(num)
        if quantity and "convert" in roles and num in sql.split(" FROM ")[0] and "(*)" not in sql:
            kind = next(k for k, table_ in UNITS.items() if quantity in table_)
            to = rng.choice([u for u in UNITS[kind] if u != quantity])
            source, target = (SHORT[quantity], SHORT[to]) if world.short_units else (quantity, to)
            question = question.rstrip("?.") + rng.choice(
                [f" ({quantity}) in {to}?", f" in {to}? The database has {quantity}."]
            )
            steps.append(
                lambda r: call(world, "convert", value=_num(float(_scalar(r[-1]))), unit=source, to=target)
            )
            return Chain(question, steps, lambda r: answer(r[-1]))
        if "compute" in roles:
            k = rng.randint(2, 40)
            ask, make = rng.choice(
                [
                    (f" And what is that times {k}?", f"{{v}} * {k}"),
                    (f" Divide it by {k}.", f"{{v}} / {k}"),
                    (f" Add {k} to it.", f"{{v}} + {k}"),
                    (f" And {k} percent of that?", f"{{v}} * {k} / 100"),
                ]
            )
            steps.append(lambda r: call(world, "compute", expression=make.format(v=_scalar(r[-1]))))
            return Chain(question + ask, steps, lambda r: answer(_scalar(r[-2])) + f" The result is {r[-1]}.")
    return Chain(question, steps, lambda r: answer(_scalar(r[-1])))


def compute_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    a, b, c = rng.randint(2, 999), rng.randint(2, 99), rng.randint(2, 50)
    f = round(rng.uniform(1, 90), rng.choice([1, 2]))
    asks, expression = rng.choice(
        [
            (
                [
                    f"What is {a} times {b}?",
                    f"How much is {a} * {b}?",
                    f"Multiply {a} by {b}.",
                    f"{a} x {b}?",
                ],
                f"{a} * {b}",
            ),
            (
                [
                    f"What is {a} plus {b} minus {c}?",
                    f"Add {b} to {a} and take away {c}.",
                    f"{a} + {b} - {c} is what?",
                    f"Compute {a} + {b} - {c}.",
                ],
                f"{a} + {b} - {c}",
            ),
            (
                [
                    f"What is {b} percent of {a}?",
                    f"How much is {b}% of {a}?",
                    f"Give me {b} percent of {a}.",
                    f"{b}% of {a}?",
                ],
                f"{a} * {b} / 100",
            ),
            (
                [
                    f"Divide {a} by {c}.",
                    f"What is {a} divided by {c}?",
                    f"How much is {a} / {c}?",
                    f"Split {a} into {c} equal parts. How big is each?",
                ],
                f"{a} / {c}",
            ),
            (
                [
                    f"What is {f} times {b}?",
                    f"Compute {f} * {b}.",
                    f"{b} pieces at {f} each: how much?",
                    f"I buy {b} things for {f} each. What do I pay?",
                ],
                f"{b} * {f}",
            ),
            (
                [
                    f"What is {c} squared plus {b}?",
                    f"Square {c} and add {b}.",
                    f"Compute {c} to the power of 2, plus {b}.",
                    f"{c}^2 + {b} = ?",
                ],
                f"{c} ** 2 + {b}",
            ),
            (
                [
                    f"What is the average of {a}, {b} and {c}?",
                    f"Mean of {a}, {b} and {c}?",
                    f"Average {a}, {b}, {c}.",
                    f"Take the mean of the numbers {a}, {b} and {c}.",
                ],
                f"({a} + {b} + {c}) / 3",
            ),
            (
                [
                    f"Add {a} and {b}, then multiply by {c}.",
                    f"What is the sum of {a} and {b}, times {c}?",
                    f"({a} + {b}) times {c}?",
                    f"Multiply the sum of {a} and {b} by {c}.",
                ],
                f"({a} + {b}) * {c}",
            ),
        ]
    )
    return Chain(
        pick(rng, asks, world.kinds.split),
        [lambda _: call(world, "compute", expression=expression)],
        lambda r: rng.choice([f"The result is {r[-1]}.", f"That is {r[-1]}.", f"It comes to {r[-1]}."]),
    )


def convert_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    kind = rng.choice(list(UNITS))
    unit, to = rng.sample(list(UNITS[kind]), 2)
    value = _num(round(rng.uniform(1, 500), rng.choice([0, 0, 1])))
    ask = pick(
        rng,
        [
            f"How many {to} are {value} {unit}?",
            f"Convert {value} {unit} to {to}.",
            f"What is {value} {unit} in {to}?",
            f"{value} {unit} in {to}?",
            f"I have {value} {unit}; say it in {to}.",
        ],
        world.kinds.split,
    )
    source, target = (SHORT[unit], SHORT[to]) if world.short_units else (unit, to)
    return Chain(
        ask,
        [lambda _: call(world, "convert", value=value, unit=source, to=target)],
        lambda r: f"{value} {unit} are {r[-1]}.",
    )


def list_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    ask = pick(
        rng,
        [
            "Which files are there?",
            "List the files.",
            "What documents do we have?",
            "Show me the names of all files.",
            "Which texts can you read?",
        ],
        world.kinds.split,
    )

    def answer(r: list[str]) -> str:
        names = json.loads(r[-1]) if r[-1].startswith("[") else r[-1].split(", ")
        return f"There are {len(names)} files: {', '.join(names)}."

    return Chain(ask, [lambda _: call(world, "list")], answer)
