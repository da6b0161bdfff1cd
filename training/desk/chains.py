# ruff: noqa: E501 -- requests are data: one a line reads better than wrapped ones
"""Sub-questions over a world: the calls that answer each, built from the results before, and the answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from training.desk.facts import HERE, Fact, unplaced
from training.desk.tables import draw_question
from training.desk.units import UNITS, plain_number
from training.desk.world import World, cells_of, run_call, value_of
from training.naming import capital, pick, plural, series, uncapital
from training.tools import Call

COUNTED = ("mass", "money", "count", "length", "volume", "time")
Stages = list[list[Call]]


@dataclass
class Chain:
    """stages: calls that may go together, one stage behind the other. answer(their results) is the sentence."""

    question: str
    stages: Stages
    answer: Callable[[Sequence[str]], str]
    keys: tuple[str, ...] = ()
    """What the answer must quote where that is not the last result as it stands."""
    topics: frozenset[str] = frozenset()
    """What it asks about: two chains that share one ask for one thing in other words."""
    about: tuple[str, str] = ("", "")
    """The name and the thing that a single look-up is about."""

    @property
    def calls(self) -> list[Call]:
        return [call for stage in self.stages for call in stage]

    def quoted(self, results: Sequence[str]) -> list[str]:
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


def look_up(rng: random.Random, world: World, facts: Sequence[Fact], roles: list[str]) -> Stages | None:
    """The calls that bring the facts' lines, those of several files together; none for files that have been read.

    None where nothing tells these tools' user in which file to look.
    """
    facts = [f for f in facts if f.file not in world.read]
    if not facts:
        return []
    blind = any(f.file in world.blind for f in facts)
    if "search" in roles and ("read" not in roles or blind or rng.random() < 0.5):
        searches = [_search(rng, world, fact) for fact in facts]
        # not among more lines than are shown
        if ("read" not in roles and not blind) or all(
            f.sentence in run_call(world, s) for f, s in zip(facts, searches, strict=True)
        ):
            return [searches]
    if blind:
        return None
    reads = [world.call("read", file=file) for file in dict.fromkeys(f.file for f in facts)]
    return [reads] if world.enumerated or "list" not in roles else [[world.call("list")], reads]


def _search(rng: random.Random, world: World, fact: Fact) -> Call:
    name = _name(fact)
    return world.call("search", text=f"{name} {fact.obj}" if name and rng.random() < 0.8 else fact.obj)


def _name(fact: Fact) -> str:
    words = fact.entity.split()
    return next((w for w in words if w[:1].isupper()), words[-1] if fact.kind.named else "")


def topics(*facts: Fact) -> frozenset[str]:
    return frozenset(f.sentence for f in facts)


def fact_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """One fact, as it stands, converted, or multiplied."""
    if not world.facts:
        return None
    fact = rng.choice(world.facts)
    stages = look_up(rng, world, [fact], roles)
    if stages is None:
        return None
    roll = rng.random()
    if fact.quantity in UNITS and "convert" in roles and roll < 0.45:
        return _converted(rng, world, fact, stages)
    if "compute" in roles and roll < 0.75:
        if fact.kind.of_things and fact.quantity in ("mass", "money", "volume", "count", "time"):
            return _multiplied(rng, world, fact, stages)
        if fact.quantity == "fee":
            return _over_time(rng, world, fact, stages)
    about = (_name(fact), fact.obj)
    return Chain(
        fact.question,
        stages,
        lambda r: fact.answer(fact.value),
        keys=(fact.text,),
        topics=topics(fact),
        about=about,
    )


IN_UNIT = (
    "{b} in {u}?",
    "{q} Give it in {u}.",
    "{q} I need it in {u}.",
    "{b}, in {u}?",
    "{q} Convert it to {u}.",
)


def _converted(rng: random.Random, world: World, fact: Fact, stages: Stages) -> Chain:
    to = rng.choice([u for u in UNITS[fact.quantity] if u != fact.unit])
    said = to.capitalize() if fact.quantity == "temperature" else to
    bare = fact.question.rstrip("?.")
    asked = pick(rng, IN_UNIT, world.kinds.split).format(b=bare, q=fact.question, u=said)
    question = fact.in_unit.replace("{u}", said) or asked
    number, unit = plain_number(fact.number), world.unit(fact.unit)
    stages.append([world.call("convert", value=number, unit=unit, to=world.unit(to))])
    also = f" ({fact.value})" if rng.random() < 0.3 else ""
    return Chain(question, stages, lambda r: fact.answer(value_of(r[-1]) + also), topics=topics(fact))


OVER_TIME = (
    "What does the {o} of {e} cost for {k} {per}s?", "How much is the {o} of {e} for {k} {per}s?", "I want the {o} of {e} for {k} {per}s. What do I pay?",
    "{k} {per}s of the {o} of {e}: how much together?", "What do {k} {per}s of the {o} of {e} come to?",
)  # fmt: skip


def _over_time(rng: random.Random, world: World, fact: Fact, stages: Stages) -> Chain:
    """A fee for several of the times it is asked for."""
    per = re.search(r" a (\w+)\.?$", fact.kind.answer)
    assert per
    k, o, e = rng.randint(2, 24), fact.obj, fact.entity
    question = pick(rng, OVER_TIME, world.kinds.split).format(o=o, e=e, k=k, per=per[1])
    stages.append([world.call("compute", expression=f"{k} * {fact.text}")])
    done = f"The {o} of {e} costs {{v}} {fact.unit} for {k} {per[1]}s."
    return Chain(question, stages, lambda r: done.format(v=value_of(r[-1])), topics=topics(fact))


def _multiplied(rng: random.Random, world: World, fact: Fact, stages: Stages) -> Chain:
    k, things, e = rng.randint(2, 60), plural(fact.obj), fact.entity
    if fact.quantity == "count":
        question, expression, done = rng.choice(
            [
                (
                    f"How many {things} would there be at {e} if {k} more were added?",
                    "+",
                    f"there would be {{v}} {things} at {e}",
                ),
                (
                    f"If {k} of the {things} of {e} leave, how many remain?",
                    "-",
                    f"{{v}} {things} remain at {e}",
                ),
                (
                    f"In {k} equal groups, how many {things} of {e} are in each?",
                    "/",
                    f"that makes {{v}} {things} in each",
                ),
            ]
        )
        expression = f"{fact.text} {expression} {k}"
    else:
        verb = {"mass": "weigh", "money": "cost", "volume": "hold", "time": "take"}[fact.quantity]
        question, done = rng.choice(
            [
                (f"What do {k} {things} of {e} {verb} together?", f"{k} {things} of {e} {verb} {{v}}"),
                (f"How much do {k} {things} {verb} at {e}?", f"{k} {things} {verb} {{v}} at {e}"),
                (
                    f"I take {k} {things} at {e}: what do they {verb} in all?",
                    f"{k} {things} {verb} {{v}} in all",
                ),
            ]
        )
        expression = f"{k} * {fact.text}"
        if fact.quantity == "money" and rng.random() < 0.4:
            off = rng.choice([5, 10, 15, 20, 25])
            question = f"{question.rstrip('?')}, with a discount of {off} percent?"
            expression += rng.choice([f" * (1 - {off} / 100)", f" * {(100 - off) / 100:g}"])
    stages.append([world.call("compute", expression=expression)])
    unit = f" {fact.unit}" if fact.unit else ""
    done = capital(done) + "."
    return Chain(question, stages, lambda r: done.format(v=value_of(r[-1]) + unit), topics=topics(fact))


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
    if rng.random() < 0.4 and not told[0].kind.named:
        rest = [re.sub(rf" (?:at|of) {re.escape(e)}", " there", q) for q in rest]
    if rng.random() < 0.4:
        question = " ".join(
            [told[0].question, *(f"{rng.choice(['And', 'Also,', 'And then,'])} {q}" for q in rest)]
        )
    else:
        asks = [told[0].question.rstrip("?."), *(q.rstrip("?.") for q in rest)]
        question = series(asks, rng.choice([", and ", " and "])) + "?"
    answer = " ".join(f.answer(f.value) for f in told)
    stages = look_up(rng, world, told, ["read", *(r for r in roles if r == "list")])
    if stages is None:
        return None
    return Chain(question, stages, lambda r: answer, keys=tuple(f.text for f in told), topics=topics(*told))


def sql_chain(rng: random.Random, world: World, roles: list[str]) -> Chain | None:
    """A question to the database; its number perhaps converted or computed with."""
    asked = draw_question(rng, world.kinds, world.tables)
    stages: Stages = [[world.call("query", sql=asked.sql)]]
    result = run_call(world, stages[0][0])
    if result in ("no rows", "[]"):
        return Chain(asked.text, stages, lambda r: "The database has none.")
    cells = cells_of(result)

    def answer(value: str) -> str:
        return asked.answer.format(v=value)

    unit = world.measures.get(asked.column, "")
    number = len(cells) == 1 and re.fullmatch(r"-?[\d.]+", cells[0]) is not None
    if number and unit and "convert" in roles and rng.random() < 0.5:
        to = rng.choice([u for table in UNITS.values() if unit in table for u in table if u != unit])
        value = plain_number(float(cells[0]))
        stages.append([world.call("convert", value=value, unit=world.unit(unit), to=world.unit(to))])
        bare = asked.text.rstrip("?.")
        asks = [
            f"{bare} in {to}?",
            f"{bare} in {to}?",
            f"{asked.text} Say it in {to}.",
            f"In {to}: {uncapital(asked.text, asked.names)}",
        ]
        return Chain(rng.choice(asks), stages, lambda r: answer(value_of(r[-1])))
    if number and "compute" in roles and rng.random() < 0.25:
        k = rng.randint(2, 40)
        ask, expression = rng.choice(
            [
                (f" And what is that times {k}?", f"{cells[0]} * {k}"),
                (f" Divide it by {k}.", f"{cells[0]} / {k}"),
                (f" Add {k} to it.", f"{cells[0]} + {k}"),
                (f" And {k} percent of that?", f"{cells[0]} * {k} / 100"),
            ]
        )
        stages.append([world.call("compute", expression=expression)])
        return Chain(
            asked.text + ask, stages, lambda r: f"{answer(cells[0])} The result is {value_of(r[-1])}."
        )
    said = f"{', '.join(cells)}{f' {unit}' if number and unit and rng.random() < 0.3 else ''}"
    return Chain(asked.text, stages, lambda r: answer(said), about=(rng.choice(asked.names or ("",)), ""))


SUMS = """
What is {a} times {b}?|How much is {a} * {b}?|Multiply {a} by {b}.|{a} x {b}? ~ {a} * {b}
What is {a} plus {b} minus {c}?|Add {b} to {a} and take away {c}.|{a} + {b} - {c} is what?|Compute {a} + {b} - {c}. ~ {a} + {b} - {c}
What is {b} percent of {a}?|How much is {b}% of {a}?|Give me {b} percent of {a}.|{b}% of {a}? ~ {a} * {b} / 100
Divide {a} by {c}.|What is {a} divided by {c}?|How much is {a} / {c}?|Split {a} into {c} equal parts. How big is each? ~ {a} / {c}
What is {f} times {b}?|Compute {f} * {b}.|{b} pieces at {f} each: how much?|I buy {b} things for {f} each. What do I pay? ~ {b} * {f}
What is {c} squared plus {b}?|Square {c} and add {b}.|Compute {c} to the power of 2, plus {b}.|{c}^2 + {b} = ? ~ {c} ** 2 + {b}
What is the average of {a}, {b} and {c}?|Mean of {a}, {b} and {c}?|Average {a}, {b}, {c}.|Take the mean of {a}, {b} and {c}. ~ ({a} + {b} + {c}) / 3
Add {a} and {b}, then multiply by {c}.|What is the sum of {a} and {b}, times {c}?|({a} + {b}) times {c}?|Multiply the sum of {a} and {b} by {c}. ~ ({a} + {b}) * {c}
What is the difference between {a} and {b}?|Take {b} away from {a}.|{a} minus {b}?|How much is left of {a} without {b}? ~ {a} - {b}
Raise {a} by {c} percent.|What is {a} plus {c} percent?|{a} with {c}% on top?|How much is {a}, increased by {c} percent? ~ {a} * (1 + {c} / 100)
""".strip().split("\n")


def compute_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    a, b, c = rng.randint(2, 999), rng.randint(2, 99), rng.randint(2, 50)
    f = round(rng.uniform(1, 90), rng.choice([1, 2]))
    asks, expression = (part.strip() for part in rng.choice(SUMS).split("~"))
    numbers = {"a": a, "b": b, "c": c, "f": f}
    question = pick(rng, asks.split("|"), world.kinds.split).format(**numbers)
    said = rng.choice(["The result is {v}.", "That is {v}.", "It comes to {v}."])
    call = world.call("compute", expression=expression.format(**numbers))
    return Chain(question, [[call]], lambda r: said.format(v=value_of(r[-1])))


CONVERT = (
    "How many {t} are {v} {u}?", "Convert {v} {u} to {t}.", "What is {v} {u} in {t}?", "{v} {u} in {t}?", "I have {v} {u}; say it in {t}.", "Express {v} {u} in {t}.",
)  # fmt: skip


def convert_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    unit, to = rng.sample(list(rng.choice(list(UNITS.values()))), 2)
    value = plain_number(round(rng.uniform(1, 500), rng.choice([0, 0, 1])))
    call = world.call("convert", value=value, unit=world.unit(unit), to=world.unit(to))
    question = pick(rng, CONVERT, world.kinds.split).format(v=value, u=unit, t=to)
    return Chain(question, [[call]], lambda r: f"{value} {unit} are {value_of(r[-1])}.")


def list_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    asks = [
        "Which files are there?",
        "List the files.",
        "What documents do we have?",
        "Show me the names of all files.",
        "Which texts can you read?",
    ]
    names = sorted(world.files)
    answer = f"There are {len(names)} files: {', '.join(names)}."
    call = world.call("list")
    return Chain(
        pick(rng, asks, world.kinds.split), [[call]], lambda r: answer, topics=frozenset(["the files"])
    )
