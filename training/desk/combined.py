# ruff: noqa: E501 -- requests are data: one a line reads better than wrapped ones
"""Sub-questions that put several results together: two facts, two cells, two rows, a cell and a fact."""

from __future__ import annotations

import random

from training.desk.chains import COUNTED, Chain, Stages, look_up, topics
from training.desk.facts import Fact
from training.desk.tables import SAID, Table, quoted
from training.desk.units import plain_number
from training.desk.world import World, value_of
from training.naming import capital, pick, plural, uncapital
from training.tools import Call


def _unit(fact: Fact) -> str:
    return f" {fact.unit}" if fact.unit else ""


def two_facts(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """The sum or difference of one quantity of two places."""
    pairs = [
        (a, b)
        for a in world.facts
        for b in world.facts
        if a.file < b.file and a.quantity == b.quantity and a.unit == b.unit and a.quantity in COUNTED
    ]
    if not pairs or "compute" not in roles:
        return None
    a, b = rng.choice(pairs)
    stages = look_up(rng, world, [a, b], roles)
    if stages is None:
        return None
    word, sign = rng.choice([("sum", "+"), ("difference", "-")])
    x, y = (a, b) if sign == "+" or a.number >= b.number else (b, a)
    second = uncapital(b.question, [b.entity]).rstrip("?.")
    asked = rng.choice(
        [
            "What is the {w}?",
            "What is the {w}?",
            "Tell me the {w}.",
            "Give me the {w} of the two.",
            "What {w} do they make?",
            "And the {w}?",
        ]
    )
    question = f"{a.question} And {second}? {asked.format(w=word)}"
    stages.append([world.call("compute", expression=f"{x.text} {sign} {y.text}")])
    both = f"{a.answer(a.value)} {b.answer(b.value)}"
    said = f"{both} The {word} is {{v}}{_unit(a)}."
    return Chain(question, stages, lambda r: said.replace("{v}", value_of(r[-1])), topics=topics(a, b))


# first column, second column, sign: questions ~ answer, with the slots {n} {a} {b} {v}
CELLS_RAW = """
cost days /: What did {n} cost per day?|How much did {n} cost a day?|The cost of {n} for each day?|What was paid per day for {n}? ~ {n} cost {a} in {b} days, that is {v} a day.
price sold *: How much money did {n} bring in?|What did all sold {n} bring?|What was taken for {n} in all?|Price times sold of {n}? ~ {n} costs {a} and {b} were sold: {v} in all.
price stock *: What is the stock of {n} worth?|How much are all {n} in stock worth?|What is the value of the {n} we have?|Worth of the stock of {n}? ~ {b} of {n} at {a} are worth {v}.
stock sold +: How many {n} were there before any was sold?|How many of {n} were bought at first?|Stock and sold of {n} together?|What do stock and sold of {n} add up to? ~ {a} in stock and {b} sold: {v} of {n}.
mass length /: What does {n} weigh per metre?|Mass of {n} for each metre?|How heavy is one metre of {n}?|What is the mass of {n} divided by its length? ~ {n} weighs {a} over {b} metres: {v} a metre.
visitors days /: How many visitors did {n} have a day?|Visitors of {n} per day?|How many people came to {n} each day?|What is the daily number of visitors of {n}? ~ {n} had {a} visitors in {b} days: {v} a day.
"""
CELLS = [line.split(": ", 1) for line in CELLS_RAW.strip().split("\n")]


def _cell(world: World, table: Table, column: str, name: str) -> Call:
    return world.call(
        "query", sql=f"SELECT {column} FROM {table.name} WHERE {table.of_kind('key')[0]} = {quoted(name)}"
    )


def two_cells(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Two numbers of one row, and what they make together."""
    named = [(head.split(), rest) for head, rest in CELLS]
    fits = [(t, head, rest) for t in world.tables for head, rest in named if {*head[:2]} <= set(t.columns)]
    if fits and rng.random() < 0.8:
        table, (first, second, sign), rest = rng.choice(fits)
        asks, answer = rest.split(" ~ ")
    else:  # any two columns
        able = [t for t in world.tables if len(t.of_kind("int", "real")) > 1]
        if not able:
            return None
        table = rng.choice(able)
        first, second = rng.sample(table.of_kind("int", "real"), 2)
        sign, said = rng.choice([("/", "divided by"), ("*", "times"), ("+", "plus"), ("-", "minus")])
        asks = "|".join(
            f.format(f=first, said=said, s=second, n="{n}")
            for f in (
                "What is the {f} of {n} {said} its {s}?",
                "{f} {said} {s} of {n}?",
                "Take the {f} of {n} {said} the {s}.",
                "For {n}, what is {f} {said} {s}?",
            )
        )
        answer = f"{{n}} has {first} {{a}} and {second} {{b}}, which makes {{v}}."
    key, row = table.of_kind("key")[0], rng.choice(table.rows)
    name = table.cell(row, key)
    a, b = (plain_number(table.cell(row, c)) for c in (first, second))  # as the results show them
    if sign == "/" and not b:
        return None
    both = [_cell(world, table, c, name) for c in (first, second)]
    stages: Stages = [both] if rng.random() < 0.6 else [both[:1], both[1:]]
    stages.append([world.call("compute", expression=f"{a} {sign} {b}")])
    many = first in ("price", "stock") and second in ("sold", "stock")
    owner = table.called(rng, name, many)
    question = pick(rng, asks.split("|"), world.kinds.split).format(n=owner)
    question = capital(question)
    return Chain(
        question,
        stages,
        lambda r: answer.format(n=owner if table.goods else name, a=a, b=b, v=value_of(r[-1])),
    )


MORE = (
    "How much more {said} has {a} than {b}?", "What is the difference in {said} between {a} and {b}?", "By how much does the {said} of {a} differ from that of {b}?",
    "{a} or {b}: who has more {said}, and by how much?", "Compare the {said} of {a} and {b}: what is the difference?", "How far apart are {a} and {b} in {said}?",
)  # fmt: skip
ALTOGETHER = (
    "What {said} do {a} and {b} have together?", "Add up the {said} of {a} and {b}.", "What is the {said} of {a} and {b} in all?", "The {said} of {a} plus that of {b}?",
    "How much {said} have {a} and {b} together?", "Give me the sum of the {said} of {a} and of {b}.",
)  # fmt: skip


def two_rows(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """One column of two rows: their difference or sum, and both values."""
    table = rng.choice(world.tables)
    if len(table.rows) < 2:
        return None
    column = rng.choice(table.of_kind("int", "real"))
    key = table.of_kind("key")[0]
    first, second = rng.sample(table.rows, 2)
    (a, x), (b, y) = ((table.cell(r, key), plain_number(table.cell(r, column))) for r in (first, second))
    apart = rng.random() < 0.6
    names = [table.called(rng, n) for n in (a, b)]
    question = pick(rng, MORE if apart else ALTOGETHER, world.kinds.split).format(
        said=column, a=names[0], b=names[1]
    )
    both = [_cell(world, table, column, n) for n in (a, b)]
    stages: Stages = [both] if rng.random() < 0.6 else [both[:1], both[1:]]
    high, low = max(x, y), min(x, y)
    stages.append([world.call("compute", expression=f"{high} - {low}" if apart else f"{x} + {y}")])
    done = "The difference is {v}." if apart else "Together that is {v}."
    told = f"The {column} of {names[0]} is {x}, that of {names[1]} {y}."
    return Chain(capital(question), stages, lambda r: f"{told} {done.format(v=value_of(r[-1]))}")


SHARES = (
    "What share of the {items} has {cat} {val}, in percent?", "How many percent of the {items} have the {cat} {val}?", "Which percentage of the {items} is of {cat} {val}?",
    "Of all {items}, what percentage has {cat} {val}?", "In percent, how many of the {items} have {cat} {val}?", "Tell me the percentage of {items} with {cat} {val}.",
)  # fmt: skip


def share(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Some of all rows, in percent."""
    able = [t for t in world.tables if t.of_kind("category", "ref")]
    if not able:
        return None
    table = rng.choice(able)
    cat = rng.choice(table.of_kind("category", "ref"))
    val = table.cell(rng.choice(table.rows), cat)
    part, whole = sum(table.cell(r, cat) == val for r in table.rows), len(table.rows)
    question = pick(rng, SHARES, world.kinds.split).format(items=plural(table.item), cat=cat, val=val)
    stages: Stages = [
        [
            world.call("query", sql=f"SELECT COUNT(*) FROM {table.name} WHERE {cat} = {quoted(val)}"),
            world.call("query", sql=f"SELECT COUNT(*) FROM {table.name}"),
        ],
        [world.call("compute", expression=f"{part} * 100 / {whole}")],
    ]
    said = f"{part} of {whole} {plural(table.item)} have the {cat} {val}: {{v}} percent."
    return Chain(question, stages, lambda r: said.format(v=value_of(r[-1])))


def cell_and_fact(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """A number of the database and one of a file, asked for together or put together."""
    if not world.facts:
        return None
    fact = rng.choice(world.facts)
    table = rng.choice(world.tables)
    column = rng.choice(table.of_kind("int", "real"))
    row = rng.choice(table.rows)
    name = table.cell(row, table.of_kind("key")[0])
    cell = plain_number(table.cell(row, column))
    owner = table.called(rng, name)
    up_front = (
        SAID[column][0].split("|")
        if column in SAID and not table.goods
        else [f"What is the {column} of {{n}}?"]
    )
    first = pick(rng, up_front, world.kinds.split).format(n=owner)
    query = _cell(world, table, column, name)
    found = look_up(rng, world, [fact], roles)
    if found is None:
        return None
    stages = [[query, *found[0]], *found[1:]] if found and rng.random() < 0.6 else [[query], *found]
    second = uncapital(fact.question, [fact.entity])
    told = f"The {column} of {owner} is {cell}."
    first = capital(first)
    if fact.quantity not in COUNTED or "compute" not in roles or rng.random() < 0.4:
        question = f"{first} And {second}"
        if rng.random() < 0.5:
            question = f"{first.rstrip('?.')}, and {second}"
        return Chain(
            question,
            stages,
            lambda r: f"{told} {fact.answer(fact.value)}",
            keys=(str(cell), fact.text),
            topics=topics(fact),
        )
    word, sign = rng.choice([("sum", "+"), ("product", "*"), ("difference", "-")])
    x, y = (str(cell), fact.text) if sign != "-" or cell >= fact.number else (fact.text, str(cell))
    stages.append([world.call("compute", expression=f"{x} {sign} {y}")])
    question = f"{first} And {second} {rng.choice(['What is the {w} of the two numbers?', 'Give me the {w} of the two.', 'And the {w} of both?']).format(w=word)}"
    return Chain(
        question,
        stages,
        lambda r: f"{told} {fact.answer(fact.value)} The {word} is {value_of(r[-1])}.",
        topics=topics(fact),
    )


DEARER = (
    "How much more than a {y} does a {x} cost at {e}?", "What is the difference in price between a {x} and a {y} at {e}?",
    "By how much is a {x} dearer than a {y} at {e}?", "At {e}, how much do I save with a {y} in place of a {x}?",
)  # fmt: skip
BOTH = (
    "How much do {a} and {b} cost at {e}?", "What do I pay at {e} for {a} and {b}?", "At {e} I take {a} and {b}. What is the price of all?", "{a} and {b} at {e}: how much together?",
    "We buy {a} and {b} at {e}. What does it cost us?", "What is the price of {a} and {b} together at {e}?",
)  # fmt: skip


def two_prices(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Two things of one file: several of each together, or what one costs more than the other."""
    pairs = [
        (a, b)
        for a in world.facts
        for b in world.facts
        if a.file == b.file
        and a.kind.of_things
        and b.kind.of_things
        and a.obj < b.obj
        and a.quantity == b.quantity == "money"
        and a.unit == b.unit
    ]
    if not pairs:
        return None
    a, b = rng.sample(rng.choice(pairs), 2)
    e = a.entity
    stages = look_up(rng, world, [a], ["read", *(r for r in roles if r == "list")])
    if stages is None:
        return None
    if rng.random() < 0.25:
        x, y = (a, b) if a.number >= b.number else (b, a)
        question = pick(rng, DEARER, world.kinds.split).format(x=x.obj, y=y.obj, e=e)
        stages.append([world.call("compute", expression=f"{x.text} - {y.text}")])
        said = f"A {x.obj} costs {x.text} and a {y.obj} {y.text} {a.unit}: {{v}} {a.unit} more."
        return Chain(question, stages, lambda r: said.format(v=value_of(r[-1])), topics=topics(a, b))
    i, j = rng.randint(1, 12), rng.randint(2, 12)
    first, second = (f"{n} {f.obj if n == 1 else plural(f.obj)}" for n, f in ((i, a), (j, b)))
    question = pick(rng, BOTH, world.kinds.split).format(a=first, b=second, e=e)
    stages.append([world.call("compute", expression=f"{i} * {a.text} + {j} * {b.text}")])
    done = f"{first} and {second} cost {{v}} {a.unit} at {e}."
    question = capital(question)
    return Chain(question, stages, lambda r: done.format(v=value_of(r[-1])), topics=topics(a, b))
