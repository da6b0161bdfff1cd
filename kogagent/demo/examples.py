"""Worked examples for a small model, and which of them to show for a question. Knows no model.

A model of 135M parameters learns the loop from what it has just read, and from little of it. So the prompt
holds a few runs whose questions resemble the asked one, the nearest last. Their calls are run here by the
same tools, so that an example never shows a result that the data does not give.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kogagent.demo import museum
from kogagent.types import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, UserMessage

SHOWN = 4
_COMMON = frozenset(
    {"the", "a", "an", "of", "is", "was", "are", "were", "did", "do", "does", "to", "in", "it"}
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of an example: what it plans and the call it makes."""

    plan: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A question, the calls that find the answer, the answer."""

    question: str
    steps: tuple[Step, ...]
    answer: str


def _query(plan: str, sql: str) -> Step:
    return Step(plan, "query", {"sql": sql})


def _search(words: str) -> Step:
    return Step(f"Search the files for {words}.", "search", {"text": words})


def _convert(value: float, unit: str, to: str) -> Step:
    return Step(
        f"Convert {museum.number(value)} {unit} to {to}.", "convert", {"value": value, "unit": unit, "to": to}
    )


def _compute(expression: str) -> Step:
    return Step(f"Compute {expression}.", "compute", {"expression": expression})


EXAMPLES = (
    Example(
        "How many fossils did the Heron expedition find?",
        (
            _query(
                "Count the fossils of the expedition Heron.",
                "SELECT COUNT(*) FROM fossils WHERE expedition = 'Heron'",
            ),
        ),
        "The Heron expedition found 3 fossils.",
    ),
    Example(
        "How many fossils are of kind fish?",
        (_query("Count the fossils of kind fish.", "SELECT COUNT(*) FROM fossils WHERE kind = 'fish'"),),
        "There are 5 fish.",
    ),
    Example(
        "How heavy is the fossil Onyx?",
        (_query("Get the mass of the fossil Onyx.", "SELECT mass FROM fossils WHERE name = 'Onyx'"),),
        "Onyx weighs 54 kilograms.",
    ),
    Example(
        "Which shell is the heaviest?",
        (
            _query(
                "Sort the shells by mass, the heaviest first.",
                "SELECT name FROM fossils WHERE kind = 'shell' ORDER BY mass DESC LIMIT 1",
            ),
        ),
        "The heaviest shell is Umber.",
    ),
    Example(
        "Which fossil is the lightest?",
        (
            _query(
                "Sort the fossils by mass, the lightest first.",
                "SELECT name FROM fossils ORDER BY mass ASC LIMIT 1",
            ),
        ),
        "The lightest fossil is Nettle.",
    ),
    Example(
        "Which expedition was the longest?",
        (
            _query(
                "Sort the expeditions by days, the longest first.",
                "SELECT name FROM expeditions ORDER BY days DESC LIMIT 1",
            ),
        ),
        "The longest expedition was Merlin.",
    ),
    Example(
        "In which year was the Kestrel expedition?",
        (
            _query(
                "Get the year of the expedition Kestrel.",
                "SELECT year FROM expeditions WHERE name = 'Kestrel'",
            ),
        ),
        "The Kestrel expedition was in 2011.",
    ),
    Example(
        "Who was the leader of the Heron expedition?",
        (
            _query(
                "Get the leader of the expedition Heron.",
                "SELECT leader FROM expeditions WHERE name = 'Heron'",
            ),
        ),
        "The Heron expedition was led by Samir Quist.",
    ),
    Example(
        "How many days did the Kestrel expedition take?",
        (
            _query(
                "Get the days of the expedition Kestrel.",
                "SELECT days FROM expeditions WHERE name = 'Kestrel'",
            ),
        ),
        "The Kestrel expedition took 41 days.",
    ),
    Example(
        "What is the price of a map in the shop?",
        (_query("Get the price of the item map.", "SELECT price FROM shop WHERE item = 'map'"),),
        "A map costs 5 euros.",
    ),
    Example(
        "How many magnets did the shop sell?",
        (_query("Get the number sold of the item magnet.", "SELECT sold FROM shop WHERE item = 'magnet'"),),
        "The shop sold 760 magnets.",
    ),
    Example(
        "Which fossils are in room 2?",
        (_query("List the names of the fossils in room 2.", "SELECT name FROM fossils WHERE room = 2"),),
        "Room 2 has Bramble, Indigo, Quill, Saffron and Violet.",
    ),
    Example(
        "In which room is the fossil Kelp?",
        (_query("Get the room of the fossil Kelp.", "SELECT room FROM fossils WHERE name = 'Kelp'"),),
        "Kelp is in room 4.",
    ),
    Example(
        "What is the total mass of the fern fossils?",
        (
            _query(
                "Add up the mass of the fossils of kind fern.",
                "SELECT SUM(mass) FROM fossils WHERE kind = 'fern'",
            ),
        ),
        "The ferns weigh 55 kilograms in total.",
    ),
    Example(
        "Who drives the loan van?",
        (_search("driver of the loan van"),),
        "The driver of the loan van is Otto Reiss.",
    ),
    Example(
        "Who was the cook of the Osprey expedition?",
        (_search("cook of Osprey"),),
        "The cook of the Osprey expedition was Joao Prado.",
    ),
    Example("When does the museum open?", (_search("museum open"),), "The museum opens at 9:30."),
    Example(
        "Where is the spare fuse of the generator?",
        (_search("spare fuse of the generator"),),
        "The spare fuse is behind the green panel in room 5.",
    ),
    Example(
        "What was the coldest night of the Merlin expedition?",
        (_search("coldest night of Merlin"),),
        "The coldest night was 21 degrees below zero Celsius.",
    ),
    Example(
        "Where did the base camp of the Heron expedition stand?",
        (_search("base camp of Heron"),),
        "The base camp stood in the Tolva marsh.",
    ),
    Example(
        "Which files do you have?",
        (Step("List the files.", "list_files", {}),),
        "The files are generator.txt, heron.txt, kestrel.txt, loans.txt, merlin.txt, osprey.txt, safety.txt "
        "and tickets.txt.",
    ),
    Example(
        "How many kilometres did the Heron team walk?",
        (
            _search("how far the Heron team walked"),
            _convert(47, "miles", "kilometres"),
        ),
        "The Heron team walked 75.64 kilometres.",
    ),
    Example(
        "How many ounces does the fossil Maple weigh?",
        (
            _query("Get the mass of the fossil Maple.", "SELECT mass FROM fossils WHERE name = 'Maple'"),
            _convert(11, "kilograms", "ounces"),
        ),
        "Maple weighs 388.01 ounces.",
    ),
    Example(
        "How much money did the shop take for maps?",
        (
            _query("Get the price of the item map.", "SELECT price FROM shop WHERE item = 'map'"),
            _query("Get the number sold of the item map.", "SELECT sold FROM shop WHERE item = 'map'"),
            _compute("5 * 418"),
        ),
        "The shop took 2090 euros for maps.",
    ),
    Example(
        "How much do 4 adult tickets cost?",
        (
            _search("adult ticket costs"),
            _compute("4 * 14"),
        ),
        "4 adult tickets cost 56 euros.",
    ),
    Example(
        "What did the Heron expedition cost per day?",
        (
            _query(
                "Get the cost of the expedition Heron.", "SELECT cost FROM expeditions WHERE name = 'Heron'"
            ),
            _query(
                "Get the days of the expedition Heron.", "SELECT days FROM expeditions WHERE name = 'Heron'"
            ),
            _compute("15700 / 35"),
        ),
        "The Heron expedition cost 448.57 euros per day.",
    ),
    Example(
        "How many fossils did the Heron expedition find, and how many kilometres did the team walk?",
        (
            _query(
                "Count the fossils of the expedition Heron.",
                "SELECT COUNT(*) FROM fossils WHERE expedition = 'Heron'",
            ),
            _search("how far the Heron team walked"),
            _convert(47, "miles", "kilometres"),
        ),
        "The Heron expedition found 3 fossils and the team walked 75.64 kilometres.",
    ),
    Example(
        "How high was the base camp of the Heron expedition in metres?",
        (
            _search("altitude of the Heron base camp"),
            _convert(960, "feet", "metres"),
        ),
        "The Heron base camp was 292.61 metres high.",
    ),
    Example(
        "What is the mass of Pebble?",
        (_query("Get the mass of the fossil Pebble.", "SELECT mass FROM fossils WHERE name = 'Pebble'"),),
        "Pebble weighs 7 kilograms.",
    ),
    Example(
        "How heavy is Hazel in grams?",
        (
            _query("Get the mass of the fossil Hazel.", "SELECT mass FROM fossils WHERE name = 'Hazel'"),
            _convert(6, "kilograms", "grams"),
        ),
        "Hazel weighs 6000 grams.",
    ),
    Example(
        "What kind of fossil is Rusty?",
        (_query("Get the kind of the fossil Rusty.", "SELECT kind FROM fossils WHERE name = 'Rusty'"),),
        "Rusty is a shell.",
    ),
    Example(
        "Which item of the shop is the cheapest?",
        (
            _query(
                "Sort the items by price, the cheapest first.",
                "SELECT item FROM shop ORDER BY price ASC LIMIT 1",
            ),
        ),
        "The cheapest item is the magnet.",
    ),
    Example(
        "What must you do when the alarm rings?",
        (_search("alarm rings"),),
        "Walk to the assembly point under the oak tree.",
    ),
    Example(
        "How wide is a loan crate in inches?",
        (
            _search("loan crate wide"),
            _convert(80, "centimetres", "inches"),
        ),
        "A loan crate is 31.5 inches wide.",
    ),
    Example(
        "How much plaster did the mule carry?",
        (_search("mule plaster"),),
        "The mule carried 65 kilograms of plaster.",
    ),
    Example(
        "How much oil do 3 oil changes take?",
        (
            _search("litres of oil"),
            _compute("3 * 3"),
        ),
        "3 oil changes take 9 litres of oil.",
    ),
)


def worked_examples(question: str, count: int = SHOWN) -> list[Message]:
    """The examples nearest to a question as the messages of finished runs, the nearest last."""
    return [message for number in _nearest(question, count) for message in _messages(number)]


def nearest(question: str, count: int = SHOWN) -> list[Example]:
    """The examples most like the question, by its words and pairs of words, the nearest last.

    Names, units and numbers count as their kind. Where all but the last would start with one tool, the last
    place goes to the best example that starts with another: a model shown one tool only uses no other.
    """
    return [EXAMPLES[number] for number in _nearest(question, count)]


def _nearest(question: str, count: int) -> list[int]:
    vectors = _vectors()
    asked = _vector(question)
    order = sorted(
        range(len(EXAMPLES)),
        key=lambda i: -sum(weight * vectors[i].get(feature, 0.0) for feature, weight in asked.items()),
    )
    chosen = order[: count - 1]
    first_tools = {EXAMPLES[i].steps[0].tool for i in chosen}
    rest = order[count - 1 :]
    other = (
        [i for i in rest if EXAMPLES[i].steps[0].tool not in first_tools] if len(first_tools) == 1 else rest
    )
    chosen += (other or rest)[:1]
    return chosen[::-1]


@cache
def _messages(number: int) -> tuple[Message, ...]:
    """An example as a finished run; its results are what the tools say now."""
    example = EXAMPLES[number]
    tools = {function.__name__: function for function in museum.TOOLS}
    out: list[Message] = [UserMessage(example.question)]
    for turn, step in enumerate(example.steps, 1):
        call = ToolCall(f"example_{number}_{turn}", step.tool, json.dumps(step.arguments))
        result = ToolResult(call.id, step.tool, tools[step.tool](**step.arguments))
        out += [AssistantMessage(plan=step.plan, calls=(call,)), ToolMessage(result)]
    out.append(AssistantMessage(example.answer))
    return tuple(out)


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
    found = Counter(feature for example in EXAMPLES for feature in _features(example.question))
    return {feature: math.log(1 + len(EXAMPLES) / count) for feature, count in found.items()}


def _vector(text: str) -> dict[str, float]:
    """Weights of the features, of length 1."""
    rarity = _rarity()
    unseen = math.log(1 + len(EXAMPLES))
    weights = {
        feature: (0.2 if feature in _COMMON else 0.7 if " " in feature else 1.0) * rarity.get(feature, unseen)
        for feature in _features(text)
    }
    length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {feature: weight / length for feature, weight in weights.items()}


@cache
def _vectors() -> tuple[dict[str, float], ...]:
    return tuple(_vector(example.question) for example in EXAMPLES)
