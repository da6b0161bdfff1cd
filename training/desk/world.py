# ruff: noqa: E501 -- descriptions are data: one a line reads better than wrapped ones
"""One conversation's files, tables and tools, and what its tools return. Knows no questions."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from training.desk.facts import CURRENCIES, HERE, KINDS, NAMED, PLACES, Fact, Kind, draw_fact, unplaced
from training.desk.names import proper_name
from training.desk.tables import Table, database, draw_tables
from training.desk.units import ALL_UNITS, LONG, SHORT, convert, plain_number, shown
from training.kinds import Kinds
from training.naming import capital, choose, pick, rename, styled
from training.tools import Call

ROLE_NAMES = {
    "list": "list_files files ls list_documents dir show_files list_notes",
    "read": "read_file read open_file cat get_document read_document load_note show_file",
    "search": "search find grep search_files find_text look_for search_notes find_lines",
    "query": "query sql run_sql ask_database query_database select db_query execute_query",
    "compute": "compute calculate calc evaluate calculator arithmetic eval_math do_math",
    "convert": "convert convert_units unit_convert change_unit to_unit convert_value units",
}
ROLE_ABOUT = {
    "list": "List the files.|Names of all text files.|Shows which documents there are.|List the documents of {w}."
    "|Lists all documents.|Which files there are.|Gives the names of the files.|Tells what can be read.|See what files exist.|All file names of {w}, one list.",
    "read": "Read one text file.|Returns the text of a file.|Open a document and show its lines.|Read a file of {w}."
    "|Read what a file says.|Gives the whole text of one document.|Shows a document.|Load one file and return its lines for you.|Get the contents of a file.|Text of one document of {w}.",
    "search": "Find lines that contain the words.|Search all files for a text.|Search the documents; returns "
    "matching lines.|Full-text search over the files."
    "|Look for words in all files.|Finds the lines in which the words stand.|Search every document for some words.|Returns the lines that match a text.|Where do these words occur? Gives the lines.|Looks up words in the files of {w}.",
    "query": "Ask the database with one SELECT.|Run a read-only SQL query.|Query the SQLite database.|Read the "
    "database by SQL."
    "|Runs one SELECT on the database.|Look up rows with SQL.|Sends a SQL query to the database and returns rows.|Select from the tables by SQL.|Database access, reading only, by SQL.|Answers one SQL SELECT.",
    "compute": "Work out an arithmetic expression.|Evaluate a formula with + - * / and parentheses.|Calculator.|"
    "Computes the value of an expression."
    "|Does arithmetic.|Calculates with numbers, + - * / and parentheses.|Work out a sum, product or quotient.|Returns the result of a calculation for you.|Tool: gives the number that an expression makes.",
    "convert": "Convert a value from one unit to another.|Unit conversion.|Change the unit of a quantity.|Converts "
    "lengths, masses, volumes, times and temperatures."
    "|Turns one unit into another.|Unit converter for length, mass, volume, time and temperature.|Gives a value in the unit wanted.|Change a value to other units.|Express a quantity in another unit for you.",
}
ROLE_ARGS = {
    "read": {"file": "file path name filename document"},
    "search": {"text": "text query words pattern keyword term"},
    "query": {"sql": "sql query statement select"},
    "compute": {"expression": "expression formula expr calculation"},
    "convert": {
        "value": "value amount number quantity",
        "unit": "unit from_unit source unit_from",
        "to": "to to_unit target target_unit unit_to",
    },
}
ARG_ABOUT = {
    "file": "The file to read.",
    "text": "Words to look for.",
    "sql": "One SELECT statement.",
    "expression": "The expression, for example 3 * (4 + 5).",
    "value": "The value to convert.",
    "unit": "Its unit.",
    "to": "The unit wanted.",
}
HEADS = (
    "Notes on {e}.", "About {e}.", "{E}: what we know.", "Report on {e}, {y}.", "{E}", "# {E}", "Facts about {e}", "{E}, a portrait.", "Visit to {e} in {y}.",
    "All there is to know about {e}:", "{E} ({y})", "This text is about {e}.",
)  # fmt: skip
MORE_HEADS = (
    "A visit to {e}.", "{E} in {y}.", "What one should know of {e}.", "From our notes on {e}:", "{E} at a glance", "== {E} ==", "Some facts about {e}.", "{E}, seen in {y}.",
    "Description of {e}.", "Written down about {e} in {y}:", "Who wants to know about {e} may read this.", "{E} in figures and names.", "Guide to {e}", "Summary: {e}.",
)  # fmt: skip


TOPICS = (
    "money fee | prices costs tickets shop fees",
    "person | staff people team who_is_who",
    "count sight | inventory numbers stock in_numbers",
    "length | building grounds sizes measures",
    "mass | goods cargo store",
    "volume temperature rate | rooms machines manual technology",
    "time clock interval | visit opening_hours times schedule",
    "date month day | calendar events diary",
    "year colour | history chronicle",
    "origin supplier | suppliers contracts deliveries",
    "choice name number | handbook rules notes where_is_what good_to_know",
)
"""What facts the files of one place hold, and what such a file is called."""
LISTED = ("care", "remarks", "records", "journal", "files", "repairs", "register", "list", "status", "memo", "whereabouts", "news")  # fmt: skip
"""What a file is called that says one thing each of many."""


@dataclass
class World:
    """names: role -> tool name; args: role.argument -> parameter name; row_style: how rows are written."""

    kinds: Kinds
    short_units: bool
    row_style: str
    enumerated: bool
    files: dict[str, list[str]] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    db: sqlite3.Connection | None = None
    measures: dict[str, str] = field(default_factory=dict)
    """Number column -> unit, where the database's description tells it."""
    names: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    money: str = ""
    """The currency of all its files, if they share one."""
    retry: str = ""
    """What the tools say behind every error."""
    read: set[str] = field(default_factory=set)
    """Files that the conversation at hand has read."""
    blind: set[str] = field(default_factory=set)
    """Files whose names do not tell what they say."""

    def unit(self, name: str) -> str:
        """A unit as the convert tool names it."""
        return SHORT[name] if self.short_units else name

    def role(self, call: Call) -> str:
        return next(r for r, n in self.names.items() if n == call[0])

    def call(self, role: str, **values: Any) -> Call:
        return self.names[role], {self.args[f"{role}.{a}"]: v for a, v in values.items()}


def make_world(rng: random.Random, kinds: Kinds) -> World:
    styles = ["plain", "plain", "json", "lists", "header", "named", "named"]
    world = World(kinds, rng.random() < 0.2, rng.choice(styles), rng.random() < 0.6)
    world.money = rng.choice([*CURRENCIES, "", ""])
    world.retry = rng.choice(["", "", " Correct the call and try again."])
    world.tables = draw_tables(rng, kinds)
    world.db = database(world.tables)
    if rng.random() < 0.4:
        _files_of_one_place(rng, world)
    if not world.facts:
        _files(rng, world)
    if rng.random() < 0.4:
        _files_about_rows(rng, world)
    _idle_files(rng, world)
    for lines in world.files.values():
        _as_people_write(rng, kinds, lines)
    columns = {c for t in world.tables for c in t.of_kind("int", "real") if c in MEASURES}
    world.measures = {c: rng.choice(MEASURES[c].split()) for c in sorted(columns) if rng.random() < 0.7}
    for role, options in ROLE_NAMES.items():
        style = rng.choice(["snake", "snake", "snake", "camel"])
        world.names[role] = _fresh(rng, kinds, options.split(), style, set(world.names.values()))
        taken: set[str] = set()
        for arg, arg_options in ROLE_ARGS.get(role, {}).items():
            given = _fresh(rng, kinds, arg_options.split(), "", taken)
            taken.add(given)
            world.args[f"{role}.{arg}"] = given
    return world


def _fresh(rng: random.Random, kinds: Kinds, options: list[str], style: str, taken: set[str]) -> str:
    """A name not taken, the first option more often than the others."""
    base = options[0] if rng.random() < 0.35 else rng.choice(options)
    while True:
        name = rename(rng, base, kinds.split)
        name = styled(name, style) if style else name
        if name not in taken:
            return name
        base = rng.choice(options)


def _files(rng: random.Random, world: World) -> None:
    """A file a place; the places may be rows of a table."""
    kinds = world.kinds
    proper = [t for t in world.tables if not t.goods and len(t.rows) > 2]
    places = [(proper_name(rng, kinds), rng.choice(PLACES)) for _ in range(rng.randint(2, 6))]
    if proper and rng.random() < 0.45:
        table = rng.choice(proper)
        names = [table.cell(row, table.of_kind("key")[0]) for row in table.rows[:6]]
        places = [(name, table.item) for name in rng.sample(names, min(len(names), rng.randint(2, 5)))]
    for name, place in places:
        entity = rng.choice([f"the {name} {place}", name, f"the {place} {name}"])
        low = re.sub(r"\W+", "_", name.lower())
        if any(low in f for f in world.files):
            continue
        file = rng.choice(
            [
                f"{low}.txt",
                f"{low}.txt",
                f"{place}_{low}.txt",
                f"{low}.md",
                f"{place}-{low}.txt",
                f"{low}_{place}.txt",
                f"{low}_{rng.choice(['notes', 'report', 'info'])}.txt",
                f"{rng.choice(['about', 'notes', 'visit'])}_{low}.md",
            ]
        )
        head = choose(rng, HEADS, MORE_HEADS, kinds.split).format(
            e=entity, E=capital(entity), y=rng.randint(1990, 2025)
        )
        world.files[file] = [head]
        for kind in rng.sample(KINDS, rng.randint(3, 6)):
            _tell_of(rng, world, entity, file, kind)
        priced = next((f for f in world.facts if f.file == file and f.quantity == "money"), None)
        for _ in range(6 if priced and rng.random() < 0.6 else 0):  # a second price in the same money
            fact = draw_fact(
                rng, kinds, entity, file, next(k for k in KINDS if k.quantity == "money"), money=world.money
            )
            if priced and fact.unit == priced.unit and _tell(world, fact):
                break


def _files_about_rows(rng: random.Random, world: World) -> None:
    """Files that say of rows of a table what no column of it does."""
    table = rng.choice(world.tables)
    key = table.of_kind("key")[0]
    for stem in rng.sample(LISTED, rng.choice([1, 1, 2])):
        file = f"{stem}.{rng.choice(['txt', 'txt', 'md'])}"
        world.blind.add(file)
        title = stem.capitalize()
        world.files[file] = [
            rng.choice(
                [title, f"# {title}", f"{title}, {rng.randint(1990, 2025)}.", f"{title} of the {table.name}"]
            )
        ]
        few = rng.sample(NAMED, rng.choice([1, 2, 2, 3]))
        for row in rng.sample(table.rows, min(len(table.rows), rng.randint(3, 6))):
            name = table.cell(row, key)
            entity = f"the {name}" if table.goods else rng.choice([name, name, f"the {table.item} {name}"])
            _tell(world, draw_fact(rng, world.kinds, entity, file, rng.choice(few), money=world.money))


def _idle_files(rng: random.Random, world: World) -> None:
    """Files without facts."""
    kinds = world.kinds
    for _ in range(rng.choice([0, 0, 1, 2])):
        topic = kinds.pools.noun(rng).split()[0].lower()
        sentences = [kinds.pools.value(rng, "sentence") for _ in range(rng.randint(2, 4))]
        world.files.setdefault(f"{topic}.txt", sentences)


def _as_people_write(rng: random.Random, kinds: Kinds, lines: list[str]) -> None:
    """Behind its title, a file may say things that nobody asks for, and several things on one line."""
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 5)):
            lines.insert(rng.randint(1, len(lines)), rng.choice(kinds.pools.sentences))
    if rng.random() < 0.4:
        for i in range(len(lines) - 1, 1, -1):
            if lines[i - 1].endswith(".") and rng.random() < 0.4:
                lines[i - 1] += f" {lines.pop(i)}"


def _files_of_one_place(rng: random.Random, world: World) -> None:
    """Files by topic: no question names the place, and the file follows from what is asked, or from a search."""
    kinds = world.kinds
    entity = f"the {proper_name(rng, kinds)} {rng.choice(PLACES)}"
    for topic in rng.sample(TOPICS, rng.randint(3, 6)):
        quantities, stems = (part.split() for part in topic.split(" | "))
        stem = rng.choice(stems)
        file = f"{stem}.{rng.choice(['txt', 'txt', 'md'])}"
        head = rng.choice(["{S} of {e}", "{S} of {e}.", "# {S}", "{S} of {e}, {y}.", "{S}"])
        subject = stem.replace("_", " ").capitalize()
        world.files[file] = [head.format(S=subject, e=entity, y=rng.randint(1990, 2025))]
        options = [k for k in KINDS if k.quantity in quantities]
        for _ in range(rng.randint(2, 5)):
            _tell_of(rng, world, HERE, file, rng.choice(options))


def _tell_of(rng: random.Random, world: World, entity: str, file: str, kind: Kind) -> None:
    """Write a fact of this kind, and perhaps the same of a thing that one word tells apart."""
    fact = draw_fact(rng, world.kinds, entity, file, kind, money=world.money)
    if HERE in unplaced(fact.question):
        return
    told = _tell(world, fact)
    if told and " " in fact.obj and kind.of_things and rng.random() < 0.5:
        other = draw_fact(rng, world.kinds, entity, file, kind, fact.obj, world.money)
        if HERE not in unplaced(other.question):
            _tell(world, other)


def _tell(world: World, fact: Fact) -> bool:
    """Write a fact into its file, unless its place has one of the same thing; whether it was written."""
    if any(f.entity == fact.entity and f.obj == fact.obj for f in world.facts):
        return False
    world.facts.append(fact)
    world.files[fact.file].append(fact.sentence)
    return True


SCHEMA = (" Tables: {}.", " Tables: {}.", " The tables are {}.", " Schema: {}")
MORE_SCHEMA = (
    " It holds {}.",
    " There are these tables: {}.",
    " Tables and columns: {}.",
    " The database has {}.",
)


def tool_specs(rng: random.Random, world: World, roles: list[str]) -> list[dict[str, Any]]:
    """The tools of these roles, as the model is told of them."""
    place = proper_name(rng, world.kinds)
    described = rng.random() < 0.4
    out = []
    for role in roles:
        about = pick(rng, ROLE_ABOUT[role].split("|"), world.kinds.split).format(w=place)
        properties: dict[str, Any] = {}
        for arg in ROLE_ARGS.get(role, {}):
            schema: dict[str, Any] = {"type": "number" if arg == "value" else "string"}
            if role == "read" and world.enumerated:
                schema["enum"] = sorted(world.files)
            if arg in ("unit", "to"):
                schema["enum"] = [world.unit(u) for u in ALL_UNITS]
            if described:
                schema["description"] = ARG_ABOUT[arg]
            properties[world.args[f"{role}.{arg}"]] = schema
        if role == "query":
            open_, comma = rng.choice([(" (", ", "), (" (", ", "), ("(", ",")])
            shape = [f"{t.name}{open_}{comma.join(t.columns)})" for t in world.tables]
            lead = choose(rng, SCHEMA, MORE_SCHEMA, world.kinds.split)
            about += lead.format(", ".join(shape))
            if told := _measures(rng, world.measures):
                about += rng.choice([" {}.", " Units: {}.", " ({})"]).format(told)
        if role == "read" and not world.enumerated and "list" not in roles:
            about += f" Files: {', '.join(sorted(world.files))}."
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if properties:
            parameters["required"] = list(properties)
        out.append({"name": world.names[role], "description": about, "parameters": parameters})
    return out


MEASURES = {
    "mass": "kilograms kilograms grams pounds",
    "weight": "kilograms kilograms pounds tonnes",
    "height": "metres metres centimetres feet",
    "length": "metres metres feet kilometres",
    "depth": "metres metres feet",
    "width": "metres metres centimetres inches",
    "distance": "kilometres kilometres miles",
    "capacity": "litres litres gallons",
    "days": "days",
    "hours": "hours",
}
"""Number columns that may be told in a unit, and the units."""


def _measures(rng: random.Random, measures: dict[str, str]) -> str:
    form = rng.choice(["{c} in {u}", "{c} is in {u}", "{c}: {u}"])
    return ", ".join(form.format(c=c, u=u) for c, u in measures.items() if c != u)


def run_call(world: World, call: Call) -> str:
    """What the world's tool returns."""
    role = world.role(call)
    value = {a: call[1][world.args[f"{role}.{a}"]] for a in ROLE_ARGS.get(role, {})}
    if role == "list":
        names = sorted(world.files)
        return json.dumps(names) if world.row_style == "json" else ", ".join(names)
    if role == "read":
        if value["file"] not in world.files:
            return f"No file {value['file']!r}. Files: {', '.join(sorted(world.files))}.{world.retry}"
        return "\n".join(world.files[value["file"]])
    if role == "search":
        return _search(world, value["text"])
    if role == "query":
        return _query(world, value["sql"])
    if role == "compute":  # our own expressions, and a model's in evaluation: numbers and operators alone
        if set(value["expression"]) - set("0123456789.+-*/()% "):
            return f"Only numbers and + - * / ( ) are allowed.{world.retry}"
        number = shown(float(eval(value["expression"], {"__builtins__": {}})))
        return f"result: {number}" if world.row_style == "named" else number
    unit, to = (LONG.get(u, u) for u in (value["unit"], value["to"]))
    number = shown(convert(value["value"], unit, to))
    return f"{value['to']}: {number}" if world.row_style == "named" else f"{number} {value['to']}"


def _search(world: World, text: str) -> str:
    wanted = text.lower().split()
    hits = []
    for file, lines in sorted(world.files.items()):
        for line in lines:
            found = sum(w in f"{file} {line}".lower() for w in wanted)
            if found:
                hits.append((found, f"{file}: {line}"))
    if not hits:
        return f"No line contains {text!r}. Use another word, or read a file.{world.retry}"
    best = max(h[0] for h in hits)
    return "\n".join([h[1] for h in hits if h[0] == best][:4])


def _query(world: World, sql: str) -> str:
    assert world.db is not None
    try:
        cursor = world.db.execute(sql)
    except sqlite3.Error as error:
        return f"SQL error: {error}. Write one SELECT.{world.retry}"
    fetched = cursor.fetchmany(9)
    rows = [[plain_number(round(x, 4)) if isinstance(x, float) else x for x in row] for row in fetched]
    columns = [c[0] for c in cursor.description]
    if not rows:
        return "[]" if world.row_style == "json" else "no rows"
    if world.row_style == "json":
        return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], ensure_ascii=False)
    if world.row_style == "lists":
        return json.dumps(rows, ensure_ascii=False)
    cells = [[shown(x) if isinstance(x, int | float) else str(x) for x in row] for row in rows]
    if world.row_style == "header":
        return "\n".join([" | ".join(columns), *(" | ".join(row) for row in cells)])
    if len(columns) == 1:
        label = columns[0].lower().replace("(", " of ").rstrip(")").replace(" of *", "")
        return (f"{label}: " if world.row_style == "named" else "") + ", ".join(row[0] for row in cells)
    return "\n".join(", ".join(row) for row in cells)


def cells_of(result: str) -> list[str]:
    """The cells of a one-column result, whatever the row style."""
    if result.startswith("["):
        cells = [next(iter(r.values())) if isinstance(r, dict) else r for r in json.loads(result)]
        cells = [c[0] if isinstance(c, list) else c for c in cells]
        return [shown(c) if isinstance(c, int | float) else str(c) for c in cells]
    if "\n" in result:
        return result.split("\n")[1:]
    return re.sub(r"^[\w. ]+: ", "", result).split(", ")


def value_of(result: str) -> str:
    """A computed or converted value as a sentence says it, whatever the row style."""
    named = re.fullmatch(r"(\w+): (\S+)", result)
    if not named:
        return result
    return named.group(2) if named.group(1) == "result" else f"{named.group(2)} {named.group(1)}"
