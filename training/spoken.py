# ruff: noqa: E501, SIM905 -- words are data: one list a line reads better than wrapped ones
"""Parameters and values, as JSON and as a person says them; dates, times, numbers, lists. Knows no tools, no splits."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training.naming import joined

SCALARS = ("string", "integer", "number")


@dataclass(frozen=True)
class Spoken:
    """A value as JSON and as a person says it."""

    value: Any
    text: str
    whole: bool = False
    """The text is a phrase that stands for itself ('from rest'), not one to put into another."""


Draw = Callable[[random.Random], Spoken]


def verbatim(make: Callable[[random.Random], str]) -> Draw:
    """A sampler of texts that are said as they are."""

    def draw(rng: random.Random) -> Spoken:
        text = make(rng)
        return Spoken(text, text)

    return draw


@dataclass(frozen=True)
class Param:
    """One parameter of a tool. phrases have a slot {v}; draw gives values."""

    name: str
    schema: dict[str, Any]
    draw: Draw
    phrases: tuple[str, ...]
    required: bool = True
    about: str = ""
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether any text may stand there."""
        return self.schema["type"] == "string" and "enum" not in self.schema

    def json_schema(self) -> dict[str, Any]:
        return self.shown or described(self.schema, self.about)


def described(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {**schema, "description": about} if about else dict(schema)


MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def ordinal(n: int) -> str:
    return f"{n}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def date(rng: random.Random) -> Spoken:
    y, m, d = rng.randint(1950, 2035), rng.randint(1, 12), rng.randint(1, 28)
    if rng.random() < 0.7:
        y = rng.randint(2020, 2027)
    month = MONTHS[m - 1]
    iso = f"{y}-{m:02}-{d:02}"
    forms = [
        iso,
        iso,
        iso,
        f"{month} {d}, {y}",
        f"{d} {month} {y}",
        f"{month} {ordinal(d)}, {y}",
        f"the {ordinal(d)} of {month} {y}",
    ]
    if rng.random() < 0.3:
        forms = [
            f"{month[:3]} {d}, {y}",
            f"{month[:3]} {d} {y}",
            f"{d} {month[:3]} {y}",
            f"{month[:3]} {ordinal(d)}, {y}",
            f"{month} {d} {y}",
            f"{month} {ordinal(d)} {y}",
            f"{month} the {ordinal(d)}, {y}",
            f"{ordinal(d)} {month} {y}",
            f"{ordinal(d)} of {month} {y}",
            f"{ordinal(d)} of {month}, {y}",
            f"the {ordinal(d)} of {month}, {y}",
            f"{y}/{m:02}/{d:02}",
            f"{y} {month} {d}",
        ]
    return Spoken(iso, rng.choice(forms))


def clock(rng: random.Random) -> Spoken:
    h, m = rng.randint(0, 23), rng.choice([0, 0, 0, 15, 30, 30, 45, rng.randint(0, 59)])
    value = f"{h:02}:{m:02}"
    twelve = f"{(h + 11) % 12 + 1}{'' if m == 0 else f':{m:02}'} {'am' if h < 12 else 'pm'}"
    forms = [value, value, twelve, twelve]
    if rng.random() < 0.4:
        tight = twelve.replace(" ", "")
        bare = f"{h}:{m:02}"  # of 24 hours
        forms = [
            tight,
            tight.upper(),
            twelve.upper(),
            f"{h}h{m:02}",
            f"{twelve[:-3]} in the {_part(h)}",
            bare,
            bare,
        ]
        if told := _by_the_clock(rng, h, m):
            forms += [told, told]
    return Spoken(value, rng.choice(forms))


def _by_the_clock(rng: random.Random, hour: int, minute: int) -> str:
    """'half past five in the afternoon', 'noon'; empty where people read digits."""
    if minute == 0 and hour % 12 == 0:
        return "noon" if hour else "midnight"
    if minute not in _PAST:
        return ""
    ahead = minute == 45
    shown = _SMALL[(hour + ahead + 11) % 12 + 1]
    past = rng.choice(_PAST[minute])
    return f"{past}{shown} in the {_part(hour)}"


def _part(hour: int) -> str:
    """Of the day, as it tells the two halves apart."""
    return "morning" if hour < 12 else "afternoon" if hour < 18 else "evening"


_PAST = {
    0: ("",),
    15: ("quarter past ", "a quarter past "),
    30: ("half past ",),
    45: ("quarter to ", "a quarter to "),
}
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_LARGER = dict(enumerate(_TEENS, 13)) | {10 * n: ten for n, ten in enumerate(_TENS, 2)} | {100: "one hundred"}


def integer(rng: random.Random, low: int, high: int) -> Spoken:
    value = rng.randint(low, high) if rng.random() < 0.7 else low + int((high - low) * rng.random() ** 3)
    if value >= 20 and rng.random() < 0.3:  # people like round numbers
        unit = 10 ** (len(str(value)) - rng.choice([1, 1, 2]))
        value = min(max(low, value // unit * unit), high)
    text = str(value)
    if 0 <= value <= 12 and rng.random() < 0.2:
        text = _SMALL[value]
    elif value in _LARGER and rng.random() < 0.08:
        text = _LARGER[value]
    elif value >= 100000 and value % 100000 == 0 and rng.random() < 0.5:
        text = f"{value / 1000000:g} million"
    elif value >= 1000 and value % 1000 == 0 and rng.random() < 0.15:
        text = rng.choice([f"{value // 1000} thousand", f"{value // 1000}k"])
    elif value >= 1000 and rng.random() < 0.3:
        text = f"{value:,}"
    return Spoken(value, text)


def number(rng: random.Random, low: float, high: float) -> Spoken:
    places = rng.choice([0, 0, 1, 1, 2, 2, 3])
    value = round(rng.uniform(low, high), places)
    if places == 0 or value == int(value):
        value = int(value)
        return Spoken(value, str(value))
    return Spoken(value, str(value))


def listed(rng: random.Random, item: Draw, low: int = 1, high: int = 4) -> Spoken:
    items: list[Spoken] = []
    for _ in range(rng.randint(low, high)):
        drawn = item(rng)
        if all(drawn.value != i.value for i in items):
            items.append(drawn)
    values = [i.value for i in items]
    if rng.random() < 0.15:
        return Spoken(values, json.dumps(values, ensure_ascii=False))
    texts = [i.text for i in items]
    if len(texts) > 1 and any("," in t or " and " in t for t in texts):  # where an item ends must show
        texts = [f'"{t}"' for t in texts]
    return Spoken(values, joined(texts, rng))


def number_list(rng: random.Random, whole: bool) -> Spoken:
    """A list of numbers, as JSON or in words."""
    n = rng.randint(2, 8)
    low, high = rng.choice([(0, 20), (1, 100), (-20, 20), (100, 9000)])
    items = [integer(rng, low, high) if whole else number(rng, low, high) for _ in range(n)]
    values = [s.value for s in items]
    roll = rng.random()
    if roll < 0.5:
        return Spoken(values, json.dumps(values))
    if roll < 0.6:
        return Spoken(values, json.dumps(values, separators=(",", ":")))
    return Spoken(values, joined([str(v) for v in values], rng))


LIST = re.compile(r", | and ")


def is_list(spoken: Spoken) -> bool:
    """Whether it tells the values of several calls, which must not run into a value beside it."""
    return spoken.value is None and LIST.search(spoken.text) is not None
