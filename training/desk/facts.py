# ruff: noqa: E501 -- sentences are data: one list a line reads better than wrapped ones
"""Sentences that say one thing of one place, and the questions they answer. Knows no tools."""

from __future__ import annotations

import random
from dataclasses import dataclass

from training.desk.units import UNITS, shown
from training.kinds import Kinds, pick

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
CURRENCIES = ["euros", "dollars", "pounds", "crowns", "francs"]


@dataclass(frozen=True)
class Kind:
    """One kind of fact. {o} object, {n} number, {u} unit, {e} place, {v} value with unit."""

    quantity: str
    objects: tuple[str, ...]
    low: int
    high: int
    answer: str
    sentences: tuple[str, ...]
    questions: tuple[str, ...]


# quantity | objects | low | high | answer, then the sentences, then the questions
RAW = """
length | tower chimney gate dome mast wall roof statue hall arch crane silo | 2 | 900 | the {o} of {e} is {v} high
The {o} is {n} {u} high. ~ The {o} has a height of {n} {u}. ~ {n} {u} is the height of the {o}. ~ At {n} {u}, the {o} can be seen from afar. ~ The {o} rises {n} {u}.
How high is the {o} of {e}? ~ What is the height of the {o} of {e}? ~ How tall is the {o} at {e}? ~ The {o} of {e}: how high is it? ~ Find the height of the {o} of {e}.

length | bridge pier tunnel fence path corridor cable canal track rope pipe hedge | 3 | 800 | the {o} of {e} is {v} long
The {o} is {n} {u} long. ~ The length of the {o} is {n} {u}. ~ From end to end the {o} measures {n} {u}. ~ The {o} runs for {n} {u}. ~ They laid a {o} of {n} {u}.
How long is the {o} of {e}? ~ What's the length of the {o} at {e}? ~ What does the {o} of {e} measure? ~ Tell me how long the {o} of {e} is. ~ How far does the {o} of {e} run?

length | coast village airport town forest spring border lake road church | 1 | 90 | the {o} is {v} from {e}
The {o} lies {n} {u} away. ~ It is {n} {u} to the {o}. ~ The way to the {o} is {n} {u}. ~ The nearest {o} is at a distance of {n} {u}. ~ One walks {n} {u} to reach the {o}.
How far is the {o} from {e}? ~ What is the distance from {e} to the {o}? ~ How far is it to the {o} from {e}? ~ How much of a walk is it from {e} to the {o}? ~ From {e}, how far away is the {o}?

mass | crate sack barrel bell anchor box wheel cheese stone basket block drum | 2 | 400 | a {o} of {e} weighs {v}
Each {o} weighs {n} {u}. ~ A {o} weighs {n} {u}. ~ The weight of a {o} is {n} {u}. ~ One {o} comes to {n} {u}. ~ Every {o} had a weight of {n} {u}.
How much does a {o} of {e} weigh? ~ What is the weight of one {o} at {e}? ~ How heavy is a {o} at {e}? ~ What does each {o} of {e} weigh? ~ Give me the weight of a {o} of {e}.

volume | tank cistern vat pool kettle well boiler trough bucket keg | 5 | 900 | the {o} of {e} holds {v}
The {o} holds {n} {u}. ~ Up to {n} {u} fit into the {o}. ~ The {o} has room for {n} {u}. ~ The capacity of the {o} is {n} {u}. ~ When full, the {o} contains {n} {u}.
How much does the {o} of {e} hold? ~ What is the capacity of the {o} at {e}? ~ How much fits into the {o} of {e}? ~ What volume has the {o} of {e}? ~ How big is the {o} at {e}?

temperature | oven cellar greenhouse kiln basin dryer sauna cold-room furnace stable | 2 | 95 | the {o} of {e} is at {v}
The {o} is kept at {n} degrees {u}. ~ The {o} has a temperature of {n} degrees {u}. ~ It is {n} degrees {u} in the {o}. ~ The {o} must never exceed {n} degrees {u}. ~ They heat the {o} to {n} degrees {u}.
How warm is the {o} of {e}? ~ What is the temperature of the {o} at {e}? ~ At which temperature is the {o} of {e}? ~ How hot does it get in the {o} of {e}? ~ Find the temperature of the {o} at {e}.

time | crossing visit shift harvest cleaning inspection lesson show trip repair | 2 | 90 | the {o} of {e} takes {v}
The {o} takes {n} {u}. ~ One {o} lasts {n} {u}. ~ It takes {n} {u} to finish the {o}. ~ The {o} is over after {n} {u}. ~ Allow {n} {u} for the {o}.
How long does the {o} of {e} take? ~ What is the duration of the {o} at {e}? ~ How long is the {o} at {e}? ~ How much time does the {o} of {e} need? ~ The {o} of {e} takes how long?

money | ticket loaf bottle room seat lamp jar poster cup meal coat ride ladder rope | 2 | 250 | a {o} costs {v} at {e}
A {o} costs {n} {u}. ~ The price of a {o} is {n} {u}. ~ One pays {n} {u} for a {o}. ~ They charge {n} {u} for a {o}. ~ For {n} {u} you get a {o}.
What does a {o} cost at {e}? ~ How much is a {o} at {e}? ~ What is the price of a {o} of {e}? ~ How much do they charge for a {o} at {e}? ~ How expensive is a {o} at {e}?

count | worker room window bed boat guest table door cow lamp member pupil machine | 3 | 950 | {e} has {v} {o}s
There are {n} {o}s. ~ It has {n} {o}s. ~ They count {n} {o}s in all. ~ The number of {o}s is {n}. ~ A total of {n} {o}s belong to it.
How many {o}s are there at {e}? ~ What is the number of {o}s of {e}? ~ How many {o}s does {e} have? ~ {e} has how many {o}s? ~ Count the {o}s of {e}.

person | owner keeper captain cook manager founder guard doctor gardener clerk architect pilot | 0 | 0 | the {o} of {e} is {v}
The {o} is {n}. ~ {n} is the {o}. ~ {n} works there as {o}. ~ Its {o} is called {n}. ~ {o}: {n}.
Who is the {o} of {e}? ~ What is the name of the {o} at {e}? ~ Name the {o} of {e}. ~ Who works as {o} at {e}? ~ Which person is {o} of {e}?

clock | shop office tour canteen counter workshop service course gallery kiosk | 0 | 0 | the {o} of {e} opens at {v}
The {o} opens at {n}. ~ From {n} on the {o} is open. ~ The {o} starts at {n}. ~ Opening time of the {o}: {n}. ~ Every day at {n} the {o} begins.
When does the {o} of {e} open? ~ At what time does the {o} start at {e}? ~ From when is the {o} of {e} open? ~ When does the {o} at {e} begin? ~ What is the starting time of the {o} of {e}?

year | chapel wing tower bridge hall kitchen barn dock tavern stage | 1650 | 2024 | the {o} of {e} dates from {v}
The {o} was built in {n}. ~ The {o} dates from {n}. ~ In {n} the {o} was finished. ~ Since {n} there has been a {o}. ~ The {o} was opened in {n}.
When was the {o} of {e} built? ~ In which year was the {o} at {e} finished? ~ How old is the {o} of {e}? Give the year. ~ From which year is the {o} of {e}? ~ What year does the {o} at {e} date from?
"""


def _parse(block: str) -> Kind:
    head, sentences, questions = block.strip().split("\n")
    quantity, objects, low, high, answer = head.split(" | ")
    return Kind(
        quantity,
        tuple(objects.split()),
        int(low),
        int(high),
        answer,
        tuple(sentences.split(" ~ ")),
        tuple(questions.split(" ~ ")),
    )


KINDS = tuple(_parse(block) for block in RAW.strip().split("\n\n"))


@dataclass(frozen=True)
class Fact:
    """One fact of a place. text: the value as its file writes it, without the unit."""

    kind: Kind
    entity: str
    file: str
    obj: str
    number: float
    text: str
    unit: str
    sentence: str
    question: str

    @property
    def quantity(self) -> str:
        return self.kind.quantity

    @property
    def value(self) -> str:
        """With its unit."""
        if self.quantity == "temperature":
            return f"{self.text} degrees {self.unit.capitalize()}"
        return f"{self.text} {self.unit}".strip()

    def answer(self, value: str) -> str:
        text = self.kind.answer.format(o=self.obj, e=self.entity, v=value)
        return text[0].upper() + text[1:] + "."


def draw_fact(rng: random.Random, kinds: Kinds, entity: str, file: str, kind: Kind) -> Fact:
    obj = rng.choice(kind.objects)
    number, unit = 0.0, ""
    if kind.quantity == "person":
        text = kinds.pools.value(rng, "person")
    elif kind.quantity == "clock":
        text = f"{rng.randint(6, 19)}:{rng.choice(['00', '15', '30', '45'])}"
    else:
        number = rng.randint(kind.low, kind.high)
        if kind.quantity not in ("year", "count") and rng.random() < 0.2:
            number = round(number + rng.random(), 1)
        text = shown(number)
        if kind.quantity == "money":
            unit = rng.choice(CURRENCIES)
        elif kind.quantity in UNITS:
            unit = rng.choice(list(UNITS[kind.quantity])[:4])
    written = unit.capitalize() if kind.quantity == "temperature" else unit
    sentence = pick(rng, kind.sentences, kinds.split).format(o=obj, n=text, u=written)
    question = pick(rng, kind.questions, kinds.split).format(o=obj, e=entity)
    return Fact(kind, entity, file, obj, number, text, unit, sentence[0].upper() + sentence[1:], question)
