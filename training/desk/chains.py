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
from training.naming import capital, choose, pick, plural, series, uncapital
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
    "{q} Answer in {u}, please.",
    "{q} In {u}, please.",
    "{q} And how much is that in {u}?",
    "{q} I want the answer in {u}.",
    "{q} Please say it in {u}.",
    "{q} What is that in {u}?",
    "{q} Express it in {u}.",
    "{b}, expressed in {u}?",
    "{q} Turn it into {u}.",
    "{q} I only know {u}.",
    "{q} Use {u}.",
    "{b}, when put in {u}?",
    "{q} I'd like it in {u}.",
    "{q} Tell me in {u}.",
    "{q} How many {u} is that?",
    "{q} Make it {u}, please.",
    "{q} Put it into {u}.",
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
    "What would {k} {per}s of the {o} of {e} cost?", "How much money are {k} {per}s of the {o} at {e}?", "For {k} {per}s, what does the {o} of {e} cost?",
    "If I take the {o} of {e} for {k} {per}s, how much is it in all?", "Tell me what one pays for {k} {per}s of the {o} of {e}.", "We need the {o} of {e} for {k} {per}s. How much is that?",
    "The {o} of {e} for {k} {per}s: what is the price?", "Price of {k} {per}s of the {o} at {e}?", "Work out the fee for {k} {per}s of the {o} of {e}.",
    "How much is due for the {o} of {e} after {k} {per}s?",
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


# sign, question, more questions, answer
CHANGED = (
    (
        "+", "How many {things} would there be at {e} if {k} more were added?",
        "Add {k} to the {things} of {e}. How many does that make?|With {k} more, how many {things} would there be at {e}?|Suppose {k} more {things} come to those of {e}. How many are there then?|If {k} are added to the {things} of {e}, how many are there in all?|How many {things} will there be at {e} after {k} new ones?|{k} more than the {things} of {e}: how many is that?|Take the number of {things} at {e} and add {k}.",
        "there would be {v} {things} at {e}",
    ),
    (
        "-", "If {k} of the {things} of {e} leave, how many remain?",
        "How many {things} are left at {e} when {k} are gone?|Take {k} away from the {things} of {e}. How many stay?|Without {k} of them, how many {things} would there be at {e}?|{k} of the {things} of {e} go: how many are still there?|How many of the {things} at {e} remain after {k} have left?|If one takes {k} from the {things} of {e}, how many are left over?|The number of {things} of {e}, less {k}?",
        "{v} {things} remain at {e}",
    ),
    (
        "/", "In {k} equal groups, how many {things} of {e} are in each?",
        "Split the {things} of {e} into {k} equal groups: how many in each?|Divide the {things} of {e} by {k}. How many is that?|Put the {things} of {e} into {k} equal groups. How many has each?|If the {things} of {e} form {k} groups of one size, how large is a group?|Shared out among {k}, how many {things} of {e} does each get?|The {things} of {e} in {k} equal parts: how many a part?",
        "that makes {v} {things} in each",
    ),
)  # fmt: skip
SEVERAL = (
    ("What do {k} {things} of {e} {verb} together?", "{k} {things} of {e} {verb} {v}"),
    ("How much do {k} {things} {verb} at {e}?", "{k} {things} {verb} {v} at {e}"),
    ("I take {k} {things} at {e}: what do they {verb} in all?", "{k} {things} {verb} {v} in all"),
)
MORE_SEVERAL = (
    "{k} {things} of {e}: what do they {verb} altogether?", "Together, {k} {things} of {e} {verb} how much?", "If I take {k} {things} of {e}, how much do they {verb} together?",
    "Tell me what {k} {things} of {e} {verb} in all.", "How much would {k} {things} of {e} {verb} altogether?", "Suppose I have {k} {things} of {e}. What do they {verb} in total?",
    "Work out what {k} {things} of {e} {verb}.", "Given {k} {things} of {e}, how much do they {verb}?", "I wonder what {k} {things} of {e} {verb} together.", "What would {k} {things} {verb} at {e}?",
    "For {k} {things} of {e}, what do all of them {verb}?", "How much do {k} {things} of {e} {verb} when taken together?",
)  # fmt: skip
DISCOUNTS = (
    "with {off} percent off", "less {off} percent", "at a discount of {off} percent", "if I get {off} percent off", "after a reduction of {off} percent", "when {off} percent are taken off",
    "given a discount of {off}%", "minus {off}%",
)  # fmt: skip


def _multiplied(rng: random.Random, world: World, fact: Fact, stages: Stages) -> Chain:
    k, things, e = rng.randint(2, 60), plural(fact.obj), fact.entity
    split = world.kinds.split
    if fact.quantity == "count":
        sign, ask, more, done = rng.choice(CHANGED)
        question = choose(rng, [ask], more.split("|"), split).format(k=k, things=things, e=e)
        done = done.format(things=things, e=e, v="{v}")
        expression = f"{fact.text} {sign} {k}"
    else:
        verb = {"mass": "weigh", "money": "cost", "volume": "hold", "time": "take"}[fact.quantity]
        ask, done = rng.choice(SEVERAL)
        question = choose(rng, [ask, ask], MORE_SEVERAL, split).format(k=k, things=things, e=e, verb=verb)
        done = done.format(k=k, things=things, e=e, verb=verb, v="{v}")
        expression = f"{k} * {fact.text}"
        if fact.quantity == "money" and rng.random() < 0.4:
            off = rng.choice([5, 10, 15, 20, 25])
            less = choose(rng, ["with a discount of {off} percent"], DISCOUNTS, split).format(off=off)
            question = f"{question.rstrip('?.')}, {less}?"
            expression += rng.choice([f" * (1 - {off} / 100)", f" * {(100 - off) / 100:g}"])
    stages.append([world.call("compute", expression=expression)])
    unit = f" {fact.unit}" if fact.unit else ""
    done = capital(done) + "."
    return Chain(question, stages, lambda r: done.format(v=value_of(r[-1]) + unit), topics=topics(fact))


ALSO = ("And", "Also,", "And then,")
MORE_ALSO = (
    "Besides,",
    "Then,",
    "Next,",
    "And also,",
    "After that,",
    "Further,",
    "And while you are there,",
)
AND = (", and also", ", and then", ", and besides", " and also", ", and further", ", and next")


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
            [told[0].question, *(f"{choose(rng, ALSO, MORE_ALSO, world.kinds.split)} {q}" for q in rest)]
        )
    else:
        asks = [told[0].question.rstrip("?."), *(q.rstrip("?.") for q in rest)]
        last = choose(rng, [", and", " and"], AND, world.kinds.split)
        question = series(asks, f"{last} ") + "?"
    answer = " ".join(f.answer(f.value) for f in told)
    stages = look_up(rng, world, told, ["read", *(r for r in roles if r == "list")])
    if stages is None:
        return None
    return Chain(question, stages, lambda r: answer, keys=tuple(f.text for f in told), topics=topics(*told))


CELL_IN_UNIT = ("{b} in {u}?", "{b} in {u}?", "{q} Say it in {u}.", "In {u}: {s}")
MORE_CELL_IN_UNIT = (
    "{b}, in {u}?", "{q} I need it in {u}.", "{q} Give the answer in {u}.", "{q} In {u}, please.", "{q} Convert the result to {u}.", "{q} And how much is that in {u}?",
    "{b}, expressed in {u}?", "{q} Put it in {u}.", "{q} What is that in {u}?", "{q} Use {u}.", "{q} I want to see {u}.", "Using {u}: {s}",
)  # fmt: skip
# what is made of a number: question, more questions, expression
GO_ON = (
    ("And what is that times {k}?", "Multiply it by {k}.|And times {k}?|What is {k} times that?|Multiply the result by {k}.|Take it times {k}.|How much is that number times {k}?|And multiplied by {k}?|Then take that {k} times.", "{v} * {k}"),
    ("Divide it by {k}.", "And divided by {k}?|What is that divided by {k}?|Split it into {k} equal parts.|Divide the result by {k}.|Then share it among {k}.|How much is that over {k}?|And what is it when divided by {k}?|Take that number and divide it by {k}.", "{v} / {k}"),
    ("Add {k} to it.", "And with {k} more?|Then add {k}.|What is that plus {k}?|Put {k} on top of it.|Increase it by {k}.|And {k} more than that?|Add {k} to the result.|How much is it with {k} added?", "{v} + {k}"),
    ("And {k} percent of that?", "What is {k} percent of that?|And {k}% of it?|Take {k} percent of the result.|How much is {k} percent of it?|Give me {k} percent of that.|Of that, what is {k} percent?|Then {k}% of that number.|Work out {k} percent of it.", "{v} * {k} / 100"),
)  # fmt: skip


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
        ask = choose(rng, CELL_IN_UNIT, MORE_CELL_IN_UNIT, world.kinds.split)
        small = uncapital(asked.text, asked.names)
        question = ask.format(b=bare, q=asked.text, s=small, u=to)
        return Chain(question, stages, lambda r: answer(value_of(r[-1])))
    if number and "compute" in roles and rng.random() < 0.25:
        k = rng.randint(2, 40)
        ask, more, expression = rng.choice(GO_ON)
        ask = choose(rng, [ask], more.split("|"), world.kinds.split).format(k=k)
        stages.append([world.call("compute", expression=expression.format(v=cells[0], k=k))])
        question = f"{asked.text} {ask}"
        return Chain(question, stages, lambda r: f"{answer(cells[0])} The result is {value_of(r[-1])}.")
    said = f"{', '.join(cells)}{f' {unit}' if number and unit and rng.random() < 0.3 else ''}"
    return Chain(asked.text, stages, lambda r: answer(said), about=(rng.choice(asked.names or ("",)), ""))


SUMS = """
What is {a} times {b}?|How much is {a} * {b}?|Multiply {a} by {b}.|{a} x {b}?|{a} multiplied by {b}?|Work out {a} times {b}.|Just what do you get for {a} times {b}?|Take {a} {b} times. What is that?|The product of {a} and {b}?|Compute {a} x {b}.|Tell me the product of {a} and {b}.|{b} times {a} is what?|Please multiply {a} by {b}.|What does {a} times {b} make?|Find {a} * {b}.|I'd like {a} times {b}.|What is {a} taken {b} times?|Say how much {a} times {b} is. ~ {a} * {b}
What is {a} plus {b} minus {c}?|Add {b} to {a} and take away {c}.|{a} + {b} - {c} is what?|Compute {a} + {b} - {c}.|{a} plus {b}, less {c}?|Work out {a} plus {b} minus {c}.|What is left of {a} and {b} together when {c} is taken off?|How much is {a} and {b} together, minus {c}?|Put {b} on top of {a} and deduct {c}.|Take {c} from the sum of {a} and {b}.|What does {a} + {b} - {c} make?|Start with {a}, add {b}, take off {c}.|Calculate {a} plus {b} less {c}, please.|I'd like {a} plus {b}, with {c} taken off.|If I have {a}, get {b} and spend {c}, what is left?|Say how much {a} plus {b} minus {c} is. ~ {a} + {b} - {c}
What is {b} percent of {a}?|How much is {b}% of {a}?|Give me {b} percent of {a}.|{b}% of {a}?|Work out {b} percent of {a}.|Take {b} percent of {a}.|How many are {b} percent of {a}?|What does {b}% of {a} come to?|Compute {b}% of {a}.|Of {a}, how much is {b} percent?|I need {b}% of {a}.|Find {b} percent of {a}.|Tell me what {b} percent of {a} is.|I'd like {b} percent of {a}, please.|Say how much {b}% of {a} is.|Please find out how much {b} percent of {a} makes. ~ {a} * {b} / 100
Divide {a} by {c}.|What is {a} divided by {c}?|How much is {a} / {c}?|Split {a} into {c} equal parts. How big is each?|{a} divided by {c}?|{a} over {c}?|Work out {a} divided by {c}.|Share {a} among {c}: how much does each get?|How much is each part if {a} is cut into {c} equal ones?|What does {a} divided by {c} make?|Compute {a} / {c}.|What is the quotient of {a} and {c}?|Tell me what {a} divided by {c} is.|{a} shared equally by {c} is how much each?|What do you get if you divide {a} by {c}?|I'd like {a} divided by {c}, please.|{c} people share {a}: how much has each?|Say how much {a} divided by {c} is. ~ {a} / {c}
What is {f} times {b}?|Compute {f} * {b}.|{b} pieces at {f} each: how much?|I buy {b} things for {f} each. What do I pay?|{b} times {f}, please?|Multiply {f} by {b}.|{b} of them cost {f} apiece. What is the total?|How much do {b} pieces cost at {f} each?|Work out {b} times {f}.|At {f} apiece, what do {b} cost?|If one costs {f}, what do {b} cost?|How much is {b} * {f}?|Price of {b} pieces, {f} each?|Say how much {b} times {f} is.|{b} at {f} apiece: what is the sum? ~ {b} * {f}
What is {c} squared plus {b}?|Square {c} and add {b}.|Compute {c} to the power of 2, plus {b}.|{c}^2 + {b} = ?|Add {b} to the square of {c}.|The square of {c}, plus {b}?|How much is {c} squared and {b} more?|Work out {c} squared plus {b}.|Take {c} times itself and add {b}.|{c} to the second power, plus {b}: how much is it?|What do you get for {c} squared plus {b}?|{c} times {c}, plus {b}?|Find the sum of {c} squared and {b}. ~ {c} ** 2 + {b}
What is {c}^2?|{c}^2 = ?|How much is {c}^2?|{c} squared?|Square {c}.|Compute {c}^2.|What's the square of {c}?|{c} to the power of 2?|Work out {c} squared.|{c} times itself?|{c}^2, please.|Tell me the square of {c}.|{c} * {c} = ?|What does {c} squared make? ~ {c} ** 2
What is {c}^2 - {b}?|{c}^2 - {b} = ?|How much is {c}^2 minus {b}?|{c} squared, less {b}?|Square {c} and take away {b}.|Compute {c}^2 - {b}.|The square of {c} without {b}?|Take {b} off {c}^2.|{c} to the power of 2, minus {b}?|What is left of {c}^2 when {b} is taken away?|Work out {c} squared minus {b}. ~ {c} ** 2 - {b}
What is {b} + {c}^2?|{b} + {c}^2 = ?|How much is {b} plus {c} squared?|Compute {b} + {c}^2.|{b} and the square of {c}, added up?|Work out {b} + {c}^2.|Start with {b} and add {c}^2.|What do {b} and {c}^2 make? ~ {b} + {c} ** 2
What is {b} * {c}^2?|{b} x {c}^2 = ?|How much is {b} times {c}^2?|Compute {b} * {c}^2.|{b} times the square of {c}?|Multiply the square of {c} by {b}.|Take {c}^2 {b} times.|Work out {b} times {c} squared. ~ {b} * {c} ** 2
What is {c}^3?|{c}^3 = ?|How much is {c} cubed?|Compute {c}^3.|{c} to the power of 3?|The cube of {c}?|Work out {c} to the third power.|{c} cubed, please.|Raise {c} to the third. ~ {c} ** 3
{a} + {b} = ?|{a}+{b}|{a} + {b}?|What is {a} + {b}?|How much is {a} and {b}?|Add {a} and {b}.|The sum of {a} and {b}?|{a} plus {b} is what?|Put {a} and {b} together.|{a} plus {b} = |What do {a} and {b} add up to? ~ {a} + {b}
({a} - {b}) / {c} = ?|What is ({a} - {b}) / {c}?|Take {b} off {a} and divide by {c}.|{a} minus {b}, divided by {c}?|Divide the difference of {a} and {b} by {c}.|How much is ({a} - {b}) / {c}?|Compute ({a} - {b}) / {c}.|From {a} take {b}, then share it among {c}.|Work out {a} less {b}, over {c}. ~ ({a} - {b}) / {c}
What is the average of {a}, {b} and {c}?|Mean of {a}, {b} and {c}?|Average {a}, {b}, {c}.|Take the mean of {a}, {b} and {c}.|Find the average of {a}, {b} and {c}.|What do {a}, {b} and {c} average?|How much are {a}, {b} and {c} on average?|Compute the mean of {a}, {b} and {c}.|Average of {a}, {b} and {c}, please.|Three numbers, {a}, {b} and {c}: what is their mean?|Add {a}, {b} and {c} and divide the sum by 3.|I need the mean value of {a}, {b} and {c}.|Work out the average of the numbers {a}, {b}, {c}.|On average, what are {a}, {b} and {c}?|I'd like the average of {a}, {b} and {c}.|Say what {a}, {b} and {c} are on average.|The mean of {a}, {b}, {c}, please. ~ ({a} + {b} + {c}) / 3
Add {a} and {b}, then multiply by {c}.|What is the sum of {a} and {b}, times {c}?|({a} + {b}) times {c}?|Multiply the sum of {a} and {b} by {c}.|Take the sum of {a} and {b} {c} times.|Could you add {b} to {a} and multiply the sum by {c}?|Can you work out the sum of {a} and {b}, then take it times {c}?|{c} times the sum of {a} and {b}, please?|How much is ({a} + {b}) * {c}?|Compute ({a} + {b}) x {c}.|First add {a} and {b}, then take that times {c}.|Well, what do you get when you add {a} and {b} and multiply the result by {c}?|{a} and {b} together, times {c}: how much is it?|Put {a} and {b} together and multiply by {c}.|I'd like {c} times the sum of {a} and {b}.|The sum of {a} and {b}, multiplied by {c}: what is it? ~ ({a} + {b}) * {c}
What is the difference between {a} and {b}?|Take {b} away from {a}.|{a} minus {b}?|How much is left of {a} without {b}?|Subtract {b} from {a}.|How much is {a} less {b}?|{a} - {b}?|What remains of {a} when {b} is taken off?|Work out {a} minus {b}.|Deduct {b} from {a}.|What is {a} without {b}?|Compute {a} - {b}.|If I have {a} and give away {b}, what is left?|Tell me what {a} minus {b} is.|I'd like {a} minus {b}.|Take off {b} from {a}: what is left?|Say how much {a} less {b} is. ~ {a} - {b}
Raise {a} by {c} percent.|What is {a} plus {c} percent?|{a} with {c}% on top?|How much is {a}, increased by {c} percent?|Increase {a} by {c} percent.|Add {c} percent to {a}.|{a} plus {c}%, please?|What does {a} become with {c} percent more?|Put {c} percent on top of {a}.|Just what is {a} after a rise of {c} percent?|If {a} goes up by {c} percent, what is it then?|Please work out {a} plus {c} percent.|{a} grows by {c}%. How much is that?|How much do I get if I add {c}% to {a}?|{a}, raised by {c} percent?|I'd like {a} raised by {c} percent.|Could you say how much {a} with {c}% more is?|Let {a} grow by {c} percent: what is it then? ~ {a} * (1 + {c} / 100)
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
    "Change {v} {u} into {t}.", "Turn {v} {u} into {t}.", "{v} {u} are how many {t}?",
    "How much is {v} {u} in {t}?", "Give me {v} {u} in {t}.", "What do {v} {u} make in {t}?",
    "I need {v} {u} converted to {t}.", "Tell me how many {t} there are in {v} {u}.", "Put {v} {u} into {t}.",
    "Suppose I have {v} {u}. How much is that in {t}?", "From {u} to {t}: {v}.", "How many {t} do {v} {u} come to?",
    "Can you convert {v} {u} to {t}?",
    "{v} {u}, how many {t} is that?", "I'd like {v} {u} in {t}.", "{v} {u} to {t}, please.",
    "Say {v} {u} in {t}.", "Please work out {v} {u} in {t}.",
)  # fmt: skip


def convert_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    unit, to = rng.sample(list(rng.choice(list(UNITS.values()))), 2)
    value = plain_number(round(rng.uniform(1, 500), rng.choice([0, 0, 1])))
    call = world.call("convert", value=value, unit=world.unit(unit), to=world.unit(to))
    question = pick(rng, CONVERT, world.kinds.split).format(v=value, u=unit, t=to)
    return Chain(question, [[call]], lambda r: f"{value} {unit} are {value_of(r[-1])}.")


FILES = (
    "Which files are there?", "List the files.", "What documents do we have?", "Show me the names of all files.", "Which texts can you read?",
    "Name all files.", "What files are there?", "Give me a list of the files.",
    "Which documents exist?", "So what are the files called?", "Tell me which files we have.",
    "I want to see the names of the documents.", "Now, what is there to read?", "Which texts are there?",
    "Names of the files, please.", "What is in the folder?", "Please list all documents.",
    "What notes do you have?", "Please show all the files.", "Let me see which files there are, please.",
    "How are the documents named?", "Which files can you open?", "What are the names of the files?",
    "Which documents are at hand?", "I'd like to see a list of the files.", "There are which files?",
    "Say what the files are called.",
)  # fmt: skip


def list_chain(rng: random.Random, world: World, roles: list[str]) -> Chain:
    names = sorted(world.files)
    answer = f"There are {len(names)} files: {', '.join(names)}."
    call = world.call("list")
    return Chain(
        pick(rng, FILES, world.kinds.split), [[call]], lambda r: answer, topics=frozenset(["the files"])
    )
