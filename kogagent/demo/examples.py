"""Worked examples for a small model, and which of them to show for a question. Knows no model.

A model of 135M parameters learns the loop from what it has just read, and from little of it. So the prompt
holds a few runs whose questions resemble the asked one, the nearest last. Their calls are run here by the
same tools, so that an example never shows a result that the data does not give; and no example shares a name
with the asked question, so that the answer is never in the prompt.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kogagent.demo import museum
from kogagent.types import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, UserMessage

SHOWN = 4
SAME_KIND = 2  # two that differ in a name alone show what is to be replaced
_COMMON = frozenset(
    {"the", "a", "an", "of", "is", "was", "are", "were", "did", "do", "does", "to", "in", "it"}
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of an example: what it plans, the call it makes, and what the tool says."""

    plan: str
    tool: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Example:
    """A question, the calls that find the answer, the answer; `name` is what the question is about."""

    question: str
    steps: tuple[Step, ...]
    conclusion: str
    answer: str
    name: str
    kind: int  # examples of one kind differ in their name alone


@dataclass(frozen=True, slots=True)
class _Draft:
    """An example with places left open: {x} for the name, {0} for the result of the first step, {0n} for the
    first number in it. A step is (tool, *arguments) with the plan made from them."""

    question: str
    steps: tuple[tuple[str, ...], ...]
    answer: str
    names: tuple[str, ...] = ("",)


_EXPEDITIONS = ("Heron", "Kestrel", "Merlin", "Osprey")
_DRAFTS = (
    _Draft(
        "How many fossils did the {x} expedition find?",
        (("query", "the number of fossils of {x}", "SELECT COUNT(*) FROM fossils WHERE expedition = '{x}'"),),
        "The {x} expedition found {0} fossils.",
        _EXPEDITIONS,
    ),
    _Draft(
        "What is the total mass of the fossils of the {x} expedition?",
        (
            (
                "query",
                "the total mass of fossils of {x}",
                "SELECT SUM(mass) FROM fossils WHERE expedition = '{x}'",
            ),
        ),
        "The fossils of the {x} expedition weigh {0} kilograms in total.",
        _EXPEDITIONS,
    ),
    _Draft(
        "How many fossils are {x} fossils?",
        (("query", "the number of {x} fossils", "SELECT COUNT(*) FROM fossils WHERE kind = '{x}'"),),
        "There are {0} {x} fossils.",
        ("fish", "shell", "bone", "fern"),
    ),
    _Draft(
        "How heavy are all {x} fossils together?",
        (("query", "the total mass of {x} fossils", "SELECT SUM(mass) FROM fossils WHERE kind = '{x}'"),),
        "All {x} fossils together weigh {0} kilograms.",
        ("fish", "shell", "bone", "fern"),
    ),
    _Draft(
        "Which {x} fossil is the heaviest?",
        (
            (
                "query",
                "the heaviest {x} fossil",
                "SELECT name FROM fossils WHERE kind = '{x}' ORDER BY mass DESC LIMIT 1",
            ),
        ),
        "The heaviest {x} fossil is {0}.",
        ("shell", "fern", "fish"),
    ),
    _Draft(
        "Which fossil is the lightest of all?",
        (("query", "the lightest of all fossils", "SELECT name FROM fossils ORDER BY mass ASC LIMIT 1"),),
        "The lightest of all fossils is {0}.",
    ),
    _Draft(
        "How heavy is {x}?",
        (("query", "the mass of the fossil {x}", "SELECT mass FROM fossils WHERE name = '{x}'"),),
        "{x} weighs {0} kilograms.",
        ("Onyx", "Pebble", "Willow"),
    ),
    _Draft(
        "What is the mass of {x}?",
        (("query", "the mass of the fossil {x}", "SELECT mass FROM fossils WHERE name = '{x}'"),),
        "The mass of {x} is {0} kilograms.",
        ("Flint", "Indigo", "Thistle"),
    ),
    _Draft(
        "In which room is {x}?",
        (("query", "the room of the fossil {x}", "SELECT room FROM fossils WHERE name = '{x}'"),),
        "{x} is in room {0}.",
        ("Kelp", "Quill", "Nettle"),
    ),
    _Draft(
        "What kind of fossil is {x}?",
        (("query", "the kind of the fossil {x}", "SELECT kind FROM fossils WHERE name = '{x}'"),),
        "{x} is a {0} fossil.",
        ("Rusty", "Dusty"),
    ),
    _Draft(
        "Which expedition was the longest?",
        (("query", "the longest expedition", "SELECT name FROM expeditions ORDER BY days DESC LIMIT 1"),),
        "The longest expedition was {0}.",
    ),
    _Draft(
        "Which expedition cost the least?",
        (("query", "the cheapest expedition", "SELECT name FROM expeditions ORDER BY cost ASC LIMIT 1"),),
        "The expedition that cost the least was {0}.",
    ),
    _Draft(
        "In which year was the {x} expedition?",
        (("query", "the year of the expedition {x}", "SELECT year FROM expeditions WHERE name = '{x}'"),),
        "The {x} expedition was in {0}.",
        _EXPEDITIONS,
    ),
    _Draft(
        "Who was the leader of the {x} expedition?",
        (("query", "the leader of the expedition {x}", "SELECT leader FROM expeditions WHERE name = '{x}'"),),
        "The leader of the {x} expedition was {0}.",
        _EXPEDITIONS,
    ),
    _Draft(
        "How many days did the {x} expedition take?",
        (("query", "the days of the expedition {x}", "SELECT days FROM expeditions WHERE name = '{x}'"),),
        "The {x} expedition took {0} days.",
        _EXPEDITIONS,
    ),
    _Draft(
        "What did the {x} expedition cost?",
        (("query", "the cost of the expedition {x}", "SELECT cost FROM expeditions WHERE name = '{x}'"),),
        "The {x} expedition cost {0} euros.",
        _EXPEDITIONS,
    ),
    _Draft(
        "What did the {x} expedition cost per day?",
        (
            ("query", "the cost of the expedition {x}", "SELECT cost FROM expeditions WHERE name = '{x}'"),
            ("query", "the days of the expedition {x}", "SELECT days FROM expeditions WHERE name = '{x}'"),
            ("compute", "{0n} / {1n}"),
        ),
        "The {x} expedition has cost: {0}, days: {1}, result: {2} per day.",
        _EXPEDITIONS,
    ),
    _Draft(
        "What is the price of a {x} in the shop?",
        (("query", "the price of the item {x}", "SELECT price FROM shop WHERE item = '{x}'"),),
        "A {x} costs {0} euros.",
        ("map", "book", "magnet"),
    ),
    _Draft(
        "How many {x}s did the shop sell?",
        (("query", "the number sold of the item {x}", "SELECT sold FROM shop WHERE item = '{x}'"),),
        "The shop sold {0} {x}s.",
        ("magnet", "book", "map"),
    ),
    _Draft(
        "How many {x}s are in stock?",
        (("query", "the stock of the item {x}", "SELECT stock FROM shop WHERE item = '{x}'"),),
        "There are {0} {x}s in stock.",
        ("puzzle", "poster"),
    ),
    _Draft(
        "How much money did the shop take for {x}s?",
        (
            ("query", "the price of the item {x}", "SELECT price FROM shop WHERE item = '{x}'"),
            ("query", "the number sold of the item {x}", "SELECT sold FROM shop WHERE item = '{x}'"),
            ("compute", "{0n} * {1n}"),
        ),
        "The {x}s have price: {0}, sold: {1}, result: {2}.",
        ("map", "book", "puzzle"),
    ),
    _Draft(
        "How heavy is {x} in ounces?",
        (
            ("query", "the mass of the fossil {x}", "SELECT mass FROM fossils WHERE name = '{x}'"),
            ("convert", "{0n}", "kilograms", "ounces"),
        ),
        "{x} has mass: {0}, ounces: {1}.",
        ("Maple", "Hazel"),
    ),
    _Draft(
        "How heavy are all {x} fossils together in grams?",
        (
            ("query", "the total mass of {x} fossils", "SELECT SUM(mass) FROM fossils WHERE kind = '{x}'"),
            ("convert", "{0n}", "kilograms", "grams"),
        ),
        "All {x} fossils together have sum of mass: {0}, grams: {1}.",
        ("fern", "shell"),
    ),
    _Draft(
        "Who was the cook of the {x} expedition?",
        (("search", "cook of {x}"),),
        "The cook of the {x} expedition was {0c}.",
        _EXPEDITIONS,
    ),
    _Draft(
        "Where did the base camp of the {x} expedition stand?",
        (("search", "base camp of {x}"),),
        "{0s}",
        ("Heron", "Merlin"),
    ),
    _Draft(
        "How many kilometres did the {x} team walk?",
        (("search", "how far the {x} team walked"), ("convert", "{0n}", "miles", "kilometres")),
        "The {x} team walked {0n} miles, kilometres: {1}.",
        ("Heron", "Merlin"),
    ),
    _Draft(
        "How high was the base camp of the {x} expedition in centimetres?",
        (("search", "altitude of the {x} base camp"), ("convert", "{0n}", "feet", "centimetres")),
        "The base camp of {x} stood at an altitude of {0n} feet, centimetres: {1}.",
        ("Osprey", "Heron"),
    ),
    _Draft(
        "How many fossils did the {x} expedition find, and how many kilometres did the team walk?",
        (
            (
                "query",
                "the number of fossils of {x}",
                "SELECT COUNT(*) FROM fossils WHERE expedition = '{x}'",
            ),
            ("search", "how far the {x} team walked"),
            ("convert", "{1n}", "miles", "kilometres"),
        ),
        "The {x} expedition has count: {0}, kilometres: {2}.",
        ("Heron", "Merlin"),
    ),
    _Draft("Who drives the loan van?", (("search", "driver of the loan van"),), "{0s}"),
    _Draft("Who is the {x}?", (("search", "the {x}"),), "{0s}", ("accountant", "gardener")),
    _Draft(
        "What is the telephone number of the workshop?", (("search", "telephone number workshop"),), "{0s}"
    ),
    _Draft("When does the staff meeting start?", (("search", "staff meeting starts"),), "{0s}"),
    _Draft("On which day is the workshop closed?", (("search", "workshop closed"),), "{0s}"),
    _Draft("Where is the assembly point?", (("search", "assembly point"),), "{0s}"),
    _Draft("What discount do groups get?", (("search", "groups discount"),), "{0s}"),
    _Draft("How long does the guided tour take?", (("search", "guided tour takes"),), "{0s}"),
    _Draft("On which day did the radio break?", (("search", "radio day"),), "{0s}"),
    _Draft("Where is the spare fuse of the generator?", (("search", "spare fuse"),), "{0s}"),
    _Draft("What is the type of the generator?", (("search", "type of the generator"),), "{0s}"),
    _Draft("What must you do when the alarm rings?", (("search", "alarm rings"),), "{0s}"),
    _Draft("How much plaster did the mule carry?", (("search", "mule plaster"),), "{0s}"),
    _Draft(
        "What is the name of the lake of Kestrel?", (("search", "lake of Kestrel"),), "{0s}", ("Kestrel",)
    ),
    _Draft("How many visitors may be in the hall?", (("search", "visitors in the hall"),), "{0s}"),
    _Draft("Where is Bramble lent to?", (("search", "Bramble lent"),), "{0s}", ("Bramble",)),
    _Draft(
        "How wide is a loan crate in inches?",
        (("search", "loan crate wide"), ("convert", "80", "centimetres", "inches")),
        "A loan crate is 80 centimetres wide, inches: {1}.",
    ),
    _Draft(
        "How many gallons of oil does an oil change take?",
        (("search", "oil change takes"), ("convert", "3", "litres", "gallons")),
        "An oil change takes 3 litres of oil, gallons: {1}.",
    ),
    _Draft(
        "How much do 3 extinguishers weigh together?",
        (("search", "extinguishers weigh"), ("compute", "3 * 6")),
        "Fire extinguishers weigh 6 kilograms, result: {1}.",
    ),
    _Draft(
        "How much does the plaster in 9 crates weigh?",
        (("search", "crate of plaster weighed"), ("compute", "9 * 18")),
        "A crate of plaster weighed 18 kilograms, result: {1}.",
    ),
    _Draft(
        "How much oil do 5 oil changes take?",
        (("search", "oil change takes"), ("compute", "5 * 3")),
        "An oil change takes 3 litres of oil, result: {1}.",
    ),
    _Draft("Which files do you have?", (("list_files",),), "The files are {0}."),
)


def _worked(draft: _Draft, name: str, kind: int) -> Example:
    """A draft with its places filled, step by step, from what the tools say."""
    tools = {function.__name__: function for function in museum.TOOLS}
    found: dict[str, str] = {}

    def fill(text: str) -> str:
        text = text.replace("{x}", name)
        return re.sub(r"\{(\d\w?)\}", lambda match: found[match[1]], text)

    steps: list[Step] = []
    last = len(draft.steps) + 1
    for number, (tool, *texts) in enumerate(draft.steps):
        plan, arguments = _step(tool, [fill(text) for text in texts])
        result = tools[tool](**arguments)
        steps.append(Step(f"Step {number + 1} of {last}: {plan}.", tool, arguments, result))
        found[f"{number}"] = result if tool in ("search", "list_files") else result.rpartition(": ")[2]
        found[f"{number}n"] = (re.findall(r"\d+", result) or [""])[0]
        found[f"{number}s"] = result.splitlines()[0].partition(": ")[2]
        found[f"{number}c"] = result.rpartition("Cook: ")[2].rstrip(".")
    conclusion = f"Step {last} of {last}: answer."
    return Example(fill(draft.question), tuple(steps), conclusion, fill(draft.answer), name, kind)


def _step(tool: str, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    match tool, texts:
        case "query", [what, sql]:
            return f"query {what}", {"sql": sql}
        case "search", [words]:
            return f"search {words}", {"text": words}
        case "convert", [value, unit, to]:
            return f"convert {value} {unit} to {to}", {"value": int(value), "unit": unit, "to": to}
        case "compute", [expression]:
            return f"compute {expression}", {"expression": expression}
        case _:
            return "list the files", {}


@cache
def examples() -> tuple[Example, ...]:
    """All worked examples."""
    return tuple(_worked(draft, name, kind) for kind, draft in enumerate(_DRAFTS) for name in draft.names)


def worked_examples(question: str, count: int = SHOWN) -> list[Message]:
    """The examples nearest to a question as the messages of finished runs, the nearest last."""
    return [message for example in nearest(question, count) for message in _messages(example)]


def nearest(question: str, count: int = SHOWN) -> list[Example]:
    """The examples most like a question, by its words and pairs of words, the nearest last.

    Names, units and numbers count as their kind. Examples about a name in the question are left out. Those
    that take the same tools in the same order as the nearest come first: so many turns, then the answer.
    """
    asked, words = _vector(question), set(re.findall(r"\w+", question.lower()))
    scored = [
        (sum(weight * vector.get(feature, 0.0) for feature, weight in asked.items()), number)
        for number, vector in enumerate(_vectors())
        if not {examples()[number].name.lower(), examples()[number].name.lower() + "s"} & words
    ]
    order: list[int] = []
    kinds: Counter[int] = Counter()
    for _, number in sorted(scored, key=lambda pair: (-pair[0], pair[1])):
        kinds[examples()[number].kind] += 1
        if kinds[examples()[number].kind] <= SAME_KIND:
            order.append(number)
    way = _tools(order[0])
    order.sort(
        key=lambda number: _tools(number) != way
    )  # stable: the nearest that go the same way come first
    chosen, rest = order[:count], order[count:]
    if len(way) == 1 and {_tools(number) for number in chosen} == {way}:
        chosen[-1] = next(number for number in rest if _tools(number)[0] != way[0])
    return [examples()[number] for number in reversed(chosen)]


def _tools(number: int) -> tuple[str, ...]:
    return tuple(step.tool for step in examples()[number].steps)


def _messages(example: Example) -> list[Message]:
    """An example as a finished run."""
    out: list[Message] = [UserMessage(example.question)]
    for turn, step in enumerate(example.steps, 1):
        call = ToolCall(f"{example.question} {turn}", step.tool, json.dumps(step.arguments))
        out.append(AssistantMessage(plan=step.plan, calls=(call,)))
        out.append(ToolMessage(ToolResult(call.id, step.tool, step.result)))
    out.append(AssistantMessage(example.answer, plan=example.conclusion))
    return out


def _features(text: str) -> Counter[str]:
    """How often each word and pair of words occurs; names, units and numbers stand for their kind."""
    kinds = museum.kinds_of_words()
    words = [
        kinds.get(word) or ("#" if word[0].isdigit() else word if word in _COMMON else museum.stem(word))
        for word in re.findall(r"\w+", text.lower())
    ]
    return Counter(words) + Counter(f"{a} {b}" for a, b in itertools.pairwise(words))


@cache
def _rarity() -> dict[str, float]:
    found = Counter(feature for example in examples() for feature in _features(example.question))
    return {feature: math.log(1 + len(examples()) / count) for feature, count in found.items()}


def _vector(text: str) -> dict[str, float]:
    """Weights of the features, of length 1."""
    rarity = _rarity()
    unseen = math.log(1 + len(examples()))
    weights = {
        feature: (0.2 if feature in _COMMON else 0.7 if " " in feature else 1.0) * rarity.get(feature, unseen)
        for feature in _features(text)
    }
    length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {feature: weight / length for feature, weight in weights.items()}


@cache
def _vectors() -> tuple[dict[str, float], ...]:
    return tuple(_vector(example.question) for example in examples())
