# ruff: noqa: E501 -- requests are data: one a line reads better than wrapped ones
"""Sub-questions over a world: the calls that answer each, built from the results before, and the answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from training.desk.facts import HERE, Fact, unplaced
from training.desk.tables import draw_question, quoted
from training.desk.units import UNITS, plain_number
from training.desk.world import World, cells_of, run_call, value_of
from training.kinds import pick, uncapital
from training.tooling import Call

Step = Callable[[list[str]], Call]
COUNTED = ("mass", "money", "count", "length", "volume", "time")
COLUMN_UNITS = {
    "mass": "kilograms",
    "weight": "kilograms",
    "height": "metres",
    "length": "metres",
    "days": "days",
}


@dataclass
class Chain:
    """steps[i](results so far) is the i-th call; answer(results) the sentence."""

    question: str
    steps: list[Step]
    answer: Callable[[list[str]], str]
    keys: tuple[str, ...] = ()
    """What the answer must quote where that is not the last result as it stands."""
    topic: str = ""
    """What all chains that ask for one thing in other words share."""

    def quoted(self, results: list[str]) -> list[str]:
        """The strings a right answer holds."""
        if self.keys:
            return list(self.keys)
        return [] if results[-1] in ("no rows", "[]") else cells_of(results[-1])

    def unplaced(self) -> Chain | None:
        """The same without its place; None where the question cannot do without."""
        question, answer = unplaced(self.question), self.answer
        if HERE in question:
            return None
        return replace(self, question=question, answer=lambda results: unplaced(answer(results)))


Maker = Callable[[random.Random, World, list[str]], Chain | None]


def draw_chain(rng: random.Random, world: World, roles: list[str], kinds: list[Maker]) -> Chain | None:
    """A chain of one of these kinds; None where this world has none."""
    chain = rng.choice(kinds)(rng, world, roles)
    return chain.unplaced() if chain is not None else None


def makers(roles: list[str]) -> list[Maker]:
    """The kinds of chain these tools can answer, as often as they should come."""
    out: list[Maker] = []
    if "read" in roles or "search" in roles:
        out += [fact_chain] * 5 + [two_facts_chain] * 2 + [facts_of_one_place] * 2
    if "query" in roles:
        out += [sql_chain] * 6
    if "query" in roles and "compute" in roles:
        out += [two_cells_chain] * 2
    if "read" in roles and "compute" in roles:
        out.append(two_prices_chain)
    for role, maker in (("compute", compute_chain), ("convert", convert_chain), ("list", list_chain)):
        if role in roles:
            out.append(maker)
    return out


def _look_up(rng: random.Random, world: World, fact: Fact, roles: list[str]) -> list[Step]:
    """The calls that bring the fact's line."""
    proper = [w for w in fact.entity.split() if w[:1].isupper()]
    if "search" in roles and ("read" not in roles or rng.random() < 0.5):
        text = f"{proper[0]} {fact.obj}" if proper and rng.random() < 0.8 else fact.obj
        search = world.call("search", text=text)
        if "read" not in roles or fact.sentence in run_call(world, search):  # not among more than are shown
            return [lambda _: search]
    read: Step = lambda _: world.call("read", file=fact.file)  # noqa: E731
    if world.enumerated or "list" not in roles:
        return [read]
    return [lambda _: world.call("list"), read]


def fact_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """One fact, as it stands, converted, or multiplied."""
    if not world.facts:
        return None
    fact = rng.choice(world.facts)
    steps = _look_up(rng, world, fact, roles)
    roll = rng.random()
    if fact.quantity in UNITS and "convert" in roles and roll < 0.45:
        return _converted(rng, world, fact, steps)
    if fact.quantity in ("mass", "money", "volume", "count", "time") and "compute" in roles and roll < 0.75:
        return _multiplied(rng, world, fact, steps)
    return Chain(fact.question, steps, lambda r: fact.answer(fact.value), keys=(fact.text,))


def _converted(rng: random.Random, world: World, fact: Fact, steps: list[Step]) -> Chain:
    to = rng.choice([u for u in UNITS[fact.quantity] if u != fact.unit])
    said = to.capitalize() if fact.quantity == "temperature" else to
    bare = fact.question.rstrip("?.")
    asks = [
        f"{bare} in {said}?",
        f"{fact.question} Give it in {said}.",
        f"{fact.question} I need it in {said}.",
        f"{bare}, in {said}?",
        f"{fact.question} Convert it to {said}.",
    ]
    number, unit = plain_number(fact.number), world.unit(fact.unit)
    steps.append(lambda _: world.call("convert", value=number, unit=unit, to=world.unit(to)))
    also = f" ({fact.value})" if rng.random() < 0.3 else ""
    return Chain(pick(rng, asks, world.kinds.split), steps, lambda r: fact.answer(value_of(r[-1]) + also))


def _multiplied(rng: random.Random, world: World, fact: Fact, steps: list[Step]) -> Chain:
    k, o, e = rng.randint(2, 60), fact.obj, fact.entity
    if fact.quantity == "count":
        question, expression, done = rng.choice(
            [
                (
                    f"How many {o}s would there be at {e} if {k} more were added?",
                    "+",
                    f"there would be {{v}} {o}s at {e}",
                ),
                (f"If {k} of the {o}s of {e} leave, how many remain?", "-", f"{{v}} {o}s remain at {e}"),
                (
                    f"In {k} equal groups, how many {o}s of {e} are in each?",
                    "/",
                    f"that makes {{v}} {o}s in each",
                ),
            ]
        )
        expression = f"{fact.text} {expression} {k}"
    else:
        verb = {"mass": "weigh", "money": "cost", "volume": "hold", "time": "take"}[fact.quantity]
        question, done = rng.choice(
            [
                (f"What do {k} {o}s of {e} {verb} together?", f"{k} {o}s of {e} {verb} {{v}}"),
                (f"How much do {k} {o}s {verb} at {e}?", f"{k} {o}s {verb} {{v}} at {e}"),
                (f"I take {k} {o}s at {e}: what do they {verb} in all?", f"{k} {o}s {verb} {{v}} in all"),
            ]
        )
        expression = f"{k} * {fact.text}"
        if fact.quantity == "money" and rng.random() < 0.4:
            off = rng.choice([5, 10, 15, 20, 25])
            question = f"{question.rstrip('?')}, with a discount of {off} percent?"
            expression += rng.choice([f" * (1 - {off} / 100)", f" * {(100 - off) / 100:g}"])
    steps.append(lambda _: world.call("compute", expression=expression))
    unit = f" {fact.unit}" if fact.unit else ""
    done = done[0].upper() + done[1:] + "."
    return Chain(question, steps, lambda r: done.format(v=value_of(r[-1]) + unit))


def two_facts_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
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
    where = ["read"] if "read" in roles else roles
    steps = [*_look_up(rng, world, a, where), *_look_up(rng, world, b, where)]
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
    steps.append(lambda _: world.call("compute", expression=f"{x.text} {sign} {y.text}"))
    unit = f" {a.unit}" if a.unit else ""
    both = f"{a.answer(a.text + unit)} {b.answer(b.text + unit)}"
    return Chain(question, steps, lambda r: f"{both} The {word} is {value_of(r[-1])}{unit}.")


def facts_of_one_place(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Two or three facts of one file, read once."""
    files = {f.file: [g for g in world.facts if g.file == f.file] for f in world.facts}
    if "read" not in roles or not files:
        return None
    facts = files[rng.choice(list(files))]
    if len(facts) < 2:
        return None
    told = rng.sample(facts, min(len(facts), rng.choice([2, 2, 3])))
    e = told[0].entity
    rest = [uncapital(f.question, [e]) for f in told[1:]]
    if rng.random() < 0.4:
        rest = [re.sub(rf" (?:at|of) {re.escape(e)}", " there", q) for q in rest]
    if rng.random() < 0.4:
        question = " ".join(
            [told[0].question, *(f"{rng.choice(['And', 'Also,', 'And then,'])} {q}" for q in rest)]
        )
    else:
        asks = [told[0].question.rstrip("?."), *(q.rstrip("?.") for q in rest)]
        question = ", ".join(asks[:-1]) + rng.choice([", and ", " and "]) + asks[-1] + "?"
    answer = " ".join(f.answer(f.value) for f in told)
    steps = _look_up(rng, world, told[0], ["read", *(r for r in roles if r == "list")])
    return Chain(question, steps, lambda r: answer, keys=tuple(f.text for f in told))


def sql_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """A question to the database; its number perhaps converted or computed with."""
    asked = draw_question(rng, world.kinds, world.tables)
    steps: list[Step] = [lambda _: world.call("query", sql=asked.sql)]
    result = run_call(world, steps[0]([]))
    if result in ("no rows", "[]"):
        return Chain(asked.text, steps, lambda r: "The database has none.")
    cells = cells_of(result)

    def answer(value: str) -> str:
        return asked.answer.format(v=value)

    number = len(cells) == 1 and re.fullmatch(r"-?[\d.]+", cells[0]) is not None
    if number and rng.random() < 0.3:
        unit = COLUMN_UNITS.get(asked.column, "")
        if unit and "convert" in roles:
            to = rng.choice([u for table in UNITS.values() if unit in table for u in table if u != unit])
            tail = rng.choice([f" ({unit}) in {to}?", f" in {to}? The database has {unit}."])
            value = plain_number(float(cells[0]))
            steps.append(
                lambda _: world.call("convert", value=value, unit=world.unit(unit), to=world.unit(to))
            )
            return Chain(asked.text.rstrip("?.") + tail, steps, lambda r: answer(value_of(r[-1])))
        if "compute" in roles:
            k = rng.randint(2, 40)
            ask, expression = rng.choice(
                [
                    (f" And what is that times {k}?", f"{cells[0]} * {k}"),
                    (f" Divide it by {k}.", f"{cells[0]} / {k}"),
                    (f" Add {k} to it.", f"{cells[0]} + {k}"),
                    (f" And {k} percent of that?", f"{cells[0]} * {k} / 100"),
                ]
            )
            steps.append(lambda _: world.call("compute", expression=expression))
            return Chain(
                asked.text + ask, steps, lambda r: f"{answer(cells[0])} The result is {value_of(r[-1])}."
            )
    return Chain(asked.text, steps, lambda r: answer(", ".join(cells)))


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


def two_cells_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
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
    where = f"FROM {table.name} WHERE {key} = {quoted(name)}"
    steps: list[Step] = [
        lambda _: world.call("query", sql=f"SELECT {first} {where}"),
        lambda _: world.call("query", sql=f"SELECT {second} {where}"),
        lambda _: world.call("compute", expression=f"{a} {sign} {b}"),
    ]
    owner = rng.choice([name, name, f"the {name} {table.item}", f"the {table.item} {name}"])
    question = pick(rng, asks.split("|"), world.kinds.split).format(n=owner)
    question = question[0].upper() + question[1:]
    return Chain(question, steps, lambda r: answer.format(n=name, a=a, b=b, v=value_of(r[-1])))


def two_prices_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """Several of two things of one file, together."""
    pairs = [
        (a, b)
        for a in world.facts
        for b in world.facts
        if a.file == b.file and a.obj < b.obj and a.quantity == b.quantity == "money" and a.unit == b.unit
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    i, j = rng.randint(1, 12), rng.randint(2, 12)
    asks = [
        f"How much do {i} {a.obj}s and {j} {b.obj}s cost at {a.entity}?",
        f"What do I pay at {a.entity} for {i} {a.obj}s and {j} {b.obj}s?",
        f"At {a.entity} I take {i} {a.obj}s and {j} {b.obj}s. What is the price of all?",
        f"{i} {a.obj}s and {j} {b.obj}s at {a.entity}: how much together?",
    ]
    steps = _look_up(rng, world, a, ["read"])
    steps.append(lambda _: world.call("compute", expression=f"{i} * {a.text} + {j} * {b.text}"))
    said = f"{i} {a.obj}s and {j} {b.obj}s cost {{v}} {a.unit} at {a.entity}."
    return Chain(pick(rng, asks, world.kinds.split), steps, lambda r: said.format(v=value_of(r[-1])))


def compute_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    a, b, c = rng.randint(2, 999), rng.randint(2, 99), rng.randint(2, 50)
    f = round(rng.uniform(1, 90), rng.choice([1, 2]))
    asks, expression = rng.choice(
        [
            (f"What is {a} times {b}?|How much is {a} * {b}?|Multiply {a} by {b}.|{a} x {b}?", f"{a} * {b}"),
            (f"What is {a} plus {b} minus {c}?|Add {b} to {a} and take away {c}.|{a} + {b} - {c} is what?|Compute {a} + {b} - {c}.", f"{a} + {b} - {c}"),
            (f"What is {b} percent of {a}?|How much is {b}% of {a}?|Give me {b} percent of {a}.|{b}% of {a}?", f"{a} * {b} / 100"),
            (f"Divide {a} by {c}.|What is {a} divided by {c}?|How much is {a} / {c}?|Split {a} into {c} equal parts. How big is each?", f"{a} / {c}"),
            (f"What is {f} times {b}?|Compute {f} * {b}.|{b} pieces at {f} each: how much?|I buy {b} things for {f} each. What do I pay?", f"{b} * {f}"),
            (f"What is {c} squared plus {b}?|Square {c} and add {b}.|Compute {c} to the power of 2, plus {b}.|{c}^2 + {b} = ?", f"{c} ** 2 + {b}"),
            (f"What is the average of {a}, {b} and {c}?|Mean of {a}, {b} and {c}?|Average {a}, {b}, {c}.|Take the mean of {a}, {b} and {c}.", f"({a} + {b} + {c}) / 3"),
            (f"Add {a} and {b}, then multiply by {c}.|What is the sum of {a} and {b}, times {c}?|({a} + {b}) times {c}?|Multiply the sum of {a} and {b} by {c}.", f"({a} + {b}) * {c}"),
        ]
    )  # fmt: skip
    said = rng.choice(["The result is {v}.", "That is {v}.", "It comes to {v}."])
    question = pick(rng, asks.split("|"), world.kinds.split)
    step: Step = lambda _: world.call("compute", expression=expression)  # noqa: E731
    return Chain(question, [step], lambda r: said.format(v=value_of(r[-1])))


def convert_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    unit, to = rng.sample(list(rng.choice(list(UNITS.values()))), 2)
    value = plain_number(round(rng.uniform(1, 500), rng.choice([0, 0, 1])))
    asks = [
        f"How many {to} are {value} {unit}?",
        f"Convert {value} {unit} to {to}.",
        f"What is {value} {unit} in {to}?",
        f"{value} {unit} in {to}?",
        f"I have {value} {unit}; say it in {to}.",
    ]
    step: Step = lambda _: world.call("convert", value=value, unit=world.unit(unit), to=world.unit(to))  # noqa: E731
    return Chain(
        pick(rng, asks, world.kinds.split), [step], lambda r: f"{value} {unit} are {value_of(r[-1])}."
    )


def list_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    asks = [
        "Which files are there?",
        "List the files.",
        "What documents do we have?",
        "Show me the names of all files.",
        "Which texts can you read?",
    ]
    names = sorted(world.files)
    step: Step = lambda _: world.call("list")  # noqa: E731
    answer = f"There are {len(names)} files: {', '.join(names)}."
    return Chain(pick(rng, asks, world.kinds.split), [step], lambda r: answer, topic="the files")
