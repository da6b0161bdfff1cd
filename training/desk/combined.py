# ruff: noqa: E501 -- requests are data: one a line reads better than wrapped ones
"""Sub-questions that put several results together: two facts, two cells, two rows, a cell and a fact."""

from __future__ import annotations

import random

from training.desk.chains import AND, COUNTED, Chain, Stages, look_up, topics
from training.desk.facts import Fact
from training.desk.tables import SAID, Table, quoted
from training.desk.units import plain_number
from training.desk.world import World, value_of
from training.naming import articles, capital, choose, kept, pick, plural, uncapital
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
    split = world.kinds.split
    asked = choose(rng, RESULT, MORE_RESULT, split).format(w=word)
    question = f"{a.question} {choose(rng, ['And'], SECOND, split)} {second}? {asked}"
    stages.append([world.call("compute", expression=f"{x.text} {sign} {y.text}")])
    both = f"{a.answer(a.value)} {b.answer(b.value)}"
    said = f"{both} The {word} is {{v}}{_unit(a)}."
    return Chain(question, stages, lambda r: said.replace("{v}", value_of(r[-1])), topics=topics(a, b))


RESULT = (
    "What is the {w}?", "What is the {w}?", "Tell me the {w}.", "Give me the {w} of the two.", "What {w} do they make?", "And the {w}?",
)  # fmt: skip
MORE_RESULT = (
    "I need the {w} of both.", "What is their {w}?", "Work out the {w}.", "What does the {w} come to?", "And what is the {w} of these two?", "Compute the {w} of the two.",
    "Just tell me the {w}.", "And now the {w} of both.", "Then the {w}, please.", "What {w} do the two give?", "How much is the {w}?", "Finally, what is the {w}?",
)  # fmt: skip
SECOND = ("Also,", "And also,", "Then,", "Next,", "And then,", "Besides,")
# first column, second column, sign: questions ~ answer, with the slots {n} {a} {b} {v}
CELLS_RAW = """
cost days /: What did {n} cost per day?|How much did {n} cost a day?|The cost of {n} for each day?|What was paid per day for {n}?|What did one day of {n} cost?|What was the daily cost of {n}?|How much a day did they pay for {n}?|Divide the cost of {n} by its days.|Cost per day of {n}?|What does the cost of {n} come to per day?|How much went into {n} each day?|Spread over its days, what did {n} cost a day?|Tell me what {n} cost per day.|For every day of {n}, what was paid? ~ {n} cost {a} in {b} days, that is {v} a day.
price sold *: How much money did {n} bring in?|What did all sold {n} bring?|What was taken for {n} in all?|Price times sold of {n}?|How much was earned with {n}?|What were the takings for {n}?|What did they earn by selling {n}?|What did the sales of {n} bring in all?|How much money came in for {n}?|Multiply the price of {n} by the number sold.|Just what money was made with {n}?|How much did the sold {n} bring altogether?|Tell me how much all sold {n} brought in.|What is the sum of money that the sold {n} brought?|How much was taken in total by selling {n}? ~ {n} costs {a} and {b} were sold: {v} in all.
price stock *: What is the stock of {n} worth?|How much are all {n} in stock worth?|What is the value of the {n} we have?|Worth of the stock of {n}?|What is the worth of all {n} in stock?|What would the whole stock of {n} bring?|Price times stock of {n}?|Multiply the price of {n} by the stock.|Just how much money lies in the stock of {n}?|What value have the {n} in stock?|Tell me what the stock of {n} is worth.|What would one pay for all {n} in stock?|At their price, what are all {n} in stock worth?|Value of the {n} in stock? ~ {b} of {n} at {a} are worth {v}.
stock sold +: How many {n} were there before any was sold?|How many of {n} were bought at first?|Stock and sold of {n} together?|What do stock and sold of {n} add up to?|How many {n} were there at the start, before any was sold?|Sold and still in stock, how many {n} are that together?|Add the stock of {n} to the number sold.|How many {n} did they have before the first was sold?|What was the stock of {n} before the sales?|Taking the sold and the remaining ones together, how many {n} were there?|How many {n} are that in all, those sold and those in stock?|Tell me how many {n} there were before they sold any.|With the sold ones, how many {n} would be in stock?|Sum of stock and sold for {n}?|How large was the stock of {n} at first, when none had been sold? ~ {a} in stock and {b} sold: {v} of {n}.
mass length /: What does {n} weigh per metre?|Mass of {n} for each metre?|How heavy is one metre of {n}?|What is the mass of {n} divided by its length?|How much does each metre of {n} weigh?|What is the mass per metre of {n}?|How heavy is {n} for every metre of its length?|Can you divide the mass of {n} by the length?|Mass per length of {n}?|What does a single metre of {n} weigh?|Tell me the weight of {n} per metre.|By the metre, how heavy is {n}?|{n}: mass divided by length? ~ {n} weighs {a} over {b} metres: {v} a metre.
visitors days /: How many visitors did {n} have a day?|Visitors of {n} per day?|How many people came to {n} each day?|What is the daily number of visitors of {n}?|How many visitors came to {n} on each day?|How many visitors a day were there at {n}?|What was the number of visitors per day of {n}?|Please divide the visitors of {n} by the days.|How many people visited {n} per day?|Daily visitors of {n}?|Now, on one day, how many visitors did {n} have on average?|Let me know how many visitors per day {n} had.|How many came to see {n} each day?|{n}: visitors divided by days? ~ {n} had {a} visitors in {b} days: {v} a day.
"""
CELLS = [line.split(": ", 1) for line in CELLS_RAW.strip().split("\n")]


def _cell(world: World, table: Table, column: str, name: str) -> Call:
    return world.call(
        "query", sql=f"SELECT {column} FROM {table.name} WHERE {table.of_kind('key')[0]} = {quoted(name)}"
    )


ANY_TWO = [
    "What is the {f} of {n} {said} its {s}?",
    "{f} {said} {s} of {n}?",
    "Take the {f} of {n} {said} the {s}.",
    "For {n}, what is {f} {said} {s}?",
]
MORE_ANY_TWO = [
    "For {n}, take the {f} {said} the {s}.",
    "How much is the {f} of {n} {said} its {s}?",
    "Compute the {f} {said} the {s} of {n}.",
    "Work out the {f} of {n} {said} the {s} of {n}.",
    "{n}: {f} {said} {s}?",
    "I need the {f} of {n} {said} its {s}.",
    "What do you get for the {f} of {n} {said} the {s}?",
    "Tell me the {f} {said} the {s} for {n}.",
    "What does the {f} {said} the {s} make for {n}?",
    "Look up the {f} and the {s} of {n}. What is the one {said} the other?",
    "With {n}, I take the {f} {said} the {s}. What is the result?",
]
OF_SIGN = {
    "/": "Divide the {f} of {n} by its {s}.|What is the {f} of {n} per {s}?|Take the {f} of {n} and divide it by the {s}.|If you divide the {f} of {n} by the {s}, what do you get?|The {f} of {n} over its {s}?",
    "*": "Multiply the {f} of {n} by its {s}.|What is the product of the {f} and the {s} of {n}?|Take the {f} of {n} and multiply it with the {s}.|If you multiply the {f} of {n} by the {s}, what do you get?|Multiply {f} and {s} of {n}.|The {f} of {n} multiplied by its {s}?",
    "+": "Add the {s} of {n} to its {f}.|What is the sum of the {f} and the {s} of {n}?|Add up the {f} and the {s} of {n}.|What do the {f} and the {s} of {n} add up to?|How much are the {f} and the {s} of {n} together?|The {f} of {n} and its {s}, added up?",
    "-": "Subtract the {s} of {n} from its {f}.|Take the {s} of {n} away from its {f}.|What is left of the {f} of {n} when the {s} is taken off?|How much is the {f} of {n} less its {s}?|From the {f} of {n} take away the {s}.|The {f} of {n}, minus the {s}?",
}
"""More ways to ask for two columns, and for what one sign makes of them."""


def two_cells(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Two numbers of one row, and what they make together."""
    named = [(head.split(), rest) for head, rest in CELLS]
    fits = [(t, head, rest) for t in world.tables for head, rest in named if {*head[:2]} <= set(t.columns)]
    if fits and rng.random() < 0.8:
        table, (first, second, sign), rest = rng.choice(fits)
        told, answer = rest.split(" ~ ")
        asks, more = [pick(rng, told.split("|"), world.kinds.split)], []
    else:  # any two columns
        able = [t for t in world.tables if len(t.of_kind("int", "real")) > 1]
        if not able:
            return None
        table = rng.choice(able)
        first, second = rng.sample(table.of_kind("int", "real"), 2)
        sign, said = rng.choice([("/", "divided by"), ("*", "times"), ("+", "plus"), ("-", "minus")])
        asks, more = (
            [f.format(f=first, said=said, s=second, n="{n}") for f in forms]
            for forms in (ANY_TWO, MORE_ANY_TWO + OF_SIGN[sign].split("|"))
        )
        if world.kinds.split == "train":  # `pick` would keep one of these forms, another for other columns
            held = kept(asks)
            asks = [a for a in asks if a != held]
        else:
            asks, more = [kept(asks)], []
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
    question = capital(choose(rng, asks, more, world.kinds.split).format(n=owner))
    return Chain(
        question,
        stages,
        lambda r: answer.format(n=owner if table.goods else name, a=a, b=b, v=value_of(r[-1])),
    )


MORE = (
    "How much more {said} has {a} than {b}?", "What is the difference in {said} between {a} and {b}?", "By how much does the {said} of {a} differ from that of {b}?",
    "{a} or {b}: who has more {said}, and by how much?", "Compare the {said} of {a} and {b}: what is the difference?", "How far apart are {a} and {b} in {said}?",
    "How far is the {said} of {a} from that of {b}?", "Let me know the difference in {said} between {a} and {b}.", "How big is the gap in {said} between {a} and {b}?",
    "How large is the difference between the {said} of {a} and that of {b}?", "Take the {said} of {a} and that of {b}: how much lies between them?", "By what amount do {a} and {b} differ in {said}?",
    "Just what separates {a} from {b} in {said}?", "I would like to know by how much {a} and {b} differ in their {said}.", "Difference in {said}, {a} against {b}?",
    "{a} and {b}: what is the difference of their {said}?", "In {said}, how much lies between {a} and {b}?", "Subtract the smaller {said} from the larger, for {a} and {b}.",
    "How much do {a} and {b} differ in {said}?", "Work out the difference of the {said} of {a} and of {b}.",
    "Take {a} and {b}: how far apart is their {said}?", "Between {a} and {b}, what is the difference in {said}?", "{a} against {b}: by how much do they differ in {said}?",
    "Say how much {a} and {b} differ in {said}.", "I'd like the difference in {said} of {a} and {b}.",
)  # fmt: skip
ALTOGETHER = (
    "What {said} do {a} and {b} have together?", "Add up the {said} of {a} and {b}.", "What is the {said} of {a} and {b} in all?", "The {said} of {a} plus that of {b}?",
    "How much {said} have {a} and {b} together?", "Give me the sum of the {said} of {a} and of {b}.",
    "What is the {said} of {a} and {b} together?", "Tell me the total {said} of {a} and {b}.", "Can you add the {said} of {a} to that of {b}?",
    "What total {said} do {a} and {b} have?", "If you add the {said} of {b} to that of {a}, what do you get?", "For {a} and {b}, what is the {said} in total?",
    "What do the {said} of {a} and the {said} of {b} come to?", "The combined {said} of {a} and {b}?", "How much {said} is it altogether for {a} and {b}?",
    "Work out the {said} of {a} and {b} combined.",
    "Take {a} and {b}: what is their {said} in all?", "Between them, what {said} do {a} and {b} have?", "{a} plus {b}: how much {said} is that, please?",
    "I'd like the {said} of {a} and {b}, added up.",
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
    "What percentage of the {items} has the {cat} {val}?", "What percent of the {items} have {cat} {val}?", "Which share of the {items} is of {cat} {val}? Say it in percent.",
    "Percentage of the {items} with the {cat} {val}?", "Just how large is the share of {items} with {cat} {val}, in percent?", "Get me the percentage of the {items} whose {cat} is {val}.",
    "Among the {items}, what percentage is of {cat} {val}?", "{cat} {val}: what percentage of all {items} is that?",
    "I need to know what percentage of the {items} is of {cat} {val}.", "Out of all {items}, how many percent are of {cat} {val}?", "What part of the {items} has {cat} {val}? Give it in percent.",
    "So in percent, what part of all {items} has the {cat} {val}?", "Work out the percentage of {items} that have {cat} {val}.", "As a percentage, how many of the {items} are of {cat} {val}?",
    "For what percentage of the {items} is the {cat} {val}?",
    "{cat} {val} is what percentage of the {items}?", "How many in a hundred of the {items} have {cat} {val}?", "Say what percentage of the {items} has {cat} {val}.",
    "Take all {items}: what percentage of them is of {cat} {val}?", "I'd like the share of {items} with {cat} {val}, in percent, please.",
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


BOTH_NUMBERS = (
    "What is the {w} of the two numbers?",
    "Give me the {w} of the two.",
    "And the {w} of both?",
)


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
        question = f"{first} {choose(rng, ['And'], SECOND, world.kinds.split)} {second}"
        if rng.random() < 0.5:
            question = f"{first.rstrip('?.')}{choose(rng, [', and'], AND, world.kinds.split)} {second}"
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
    asked = choose(rng, BOTH_NUMBERS, MORE_RESULT, world.kinds.split).format(w=word)
    question = f"{first} {choose(rng, ['And'], SECOND, world.kinds.split)} {second} {asked}"
    return Chain(
        question,
        stages,
        lambda r: f"{told} {fact.answer(fact.value)} The {word} is {value_of(r[-1])}.",
        topics=topics(fact),
    )


DEARER = (
    "How much more than a {y} does a {x} cost at {e}?", "What is the difference in price between a {x} and a {y} at {e}?",
    "By how much is a {x} dearer than a {y} at {e}?", "At {e}, how much do I save with a {y} in place of a {x}?",
    "How much cheaper is a {y} than a {x} at {e}?", "Tell me how much more a {x} costs than a {y} at {e}.", "What more do I pay for a {x} than for a {y} at {e}?",
    "How much do the prices of a {x} and a {y} differ at {e}?", "Subtract the price of a {y} from that of a {x} at {e}.", "How much would I save at {e} by taking a {y} and not a {x}?",
    "Just what does a {x} cost over and above a {y} at {e}?", "At {e}, what is the gap in price from a {y} to a {x}?", "How large is the price difference of a {x} over a {y} at {e}?",
)  # fmt: skip
BOTH = (
    "How much do {a} and {b} cost at {e}?", "What do I pay at {e} for {a} and {b}?", "At {e} I take {a} and {b}. What is the price of all?", "{a} and {b} at {e}: how much together?",
    "We buy {a} and {b} at {e}. What does it cost us?", "What is the price of {a} and {b} together at {e}?",
    "What do {a} and {b} come to at {e}?", "How much would {a} and {b} be at {e}?", "I want {a} and {b} at {e}. How much money do I need?",
    "At {e}, what do {a} together with {b} cost?", "What is the bill for {a} and {b} at {e}?", "Let me know what {a} and {b} cost in all at {e}.",
    "Work out the price of {a} plus {b} at {e}.", "I order {a} and also {b} at {e}: what is to pay?", "For {a} and {b}, what do they charge at {e}?",
    "The total for {a} and {b} at {e}?", "If we get {a} and {b} at {e}, how much is it altogether?", "Add up {a} and {b} at the prices of {e}.",
    "So how much money must one bring for {a} and {b} at {e}?",
    "Let me have {a} and {b} at {e}. What is the price?", "{a}, and {b} as well, at {e}: what do I pay?", "Say how much {a} and {b} cost at {e}.",
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
        question = articles(pick(rng, DEARER, world.kinds.split).format(x=x.obj, y=y.obj, e=e))
        stages.append([world.call("compute", expression=f"{x.text} - {y.text}")])
        said = articles(f"A {x.obj} costs {x.text} and a {y.obj} {y.text} {a.unit}: {{v}} {a.unit} more.")
        return Chain(question, stages, lambda r: said.format(v=value_of(r[-1])), topics=topics(a, b))
    i, j = rng.randint(1, 12), rng.randint(2, 12)
    first, second = (f"{n} {f.obj if n == 1 else plural(f.obj)}" for n, f in ((i, a), (j, b)))
    question = pick(rng, BOTH, world.kinds.split).format(a=first, b=second, e=e)
    stages.append([world.call("compute", expression=f"{i} * {a.text} + {j} * {b.text}")])
    done = f"{first} and {second} cost {{v}} {a.unit} at {e}."
    question = capital(question)
    return Chain(question, stages, lambda r: done.format(v=value_of(r[-1])), topics=topics(a, b))
