# ruff: noqa: E501, SIM905 -- phrases are data: one list a line reads better than wrapped ones
"""Values that are more than a word or a number: hours of the clock, coordinates, formulas, ranges, conditions, scores.

Knows no tools. Each tells what the call holds and how a person says it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from training.kinds import Kinds
from training.naming import rename, series
from training.spoken import Draw, Spoken, integer
from training.variety import formula


@dataclass(frozen=True)
class Sort:
    """What a parameter takes: its schema, how values are drawn, and what its description adds."""

    schema: dict[str, Any]
    draw: Draw
    note: str = ""


DAY_HOURS = (
    "In 24 hour format.", "From 0 to 23.", "Given in the 24-hour clock.", "E.g. if 15 is given, it means 3 PM.", "Between 0 and 23; 20 is 8 PM.", "(24 hour clock)",
)  # fmt: skip


def hour(rng: random.Random) -> Spoken:
    """A full hour of the 24-hour clock, mostly told in twelve: '11 PM' is 23."""
    value = rng.choice([*range(24), *range(17, 24)])
    twelve = (value + 11) % 12 + 1
    half = "am" if value < 12 else "pm"
    forms = [
        f"{twelve} {half}",
        f"{twelve} {half.upper()}",
        f"{twelve}{half}",
        f"{twelve} {half.upper()}",
        f"{value}:00",
    ]
    if value >= 17:
        forms.append(f"{twelve} {'at night' if value > 20 else 'in the evening'}")
    elif value in (0, 12):
        forms = ["noon" if value else "midnight"]
    elif value < 12 and value > 4:
        forms.append(f"{twelve} in the morning")
    return Spoken(value, rng.choice(forms))


def feet(rng: random.Random) -> Spoken:
    """A height in inches, told in feet and inches."""
    tall, rest = rng.choice([4, 5, 5, 5, 6]), rng.randint(0, 11)
    forms = [
        f"{tall}ft {rest}in",
        f"{tall} feet {rest} inches",
        f"{tall}'{rest}\"",
        f"{tall} ft {rest} in",
        f"{tall * 12 + rest} inches",
    ]
    return Spoken(tall * 12 + rest, rng.choice(forms))


def geographic(rng: random.Random) -> Spoken:
    """Latitude and longitude; south and west are negative."""
    places = rng.choice([1, 2, 4, 4, 6])
    values = [round(rng.uniform(-most, most), places) for most in (80, 175)]
    if rng.random() < 0.45:
        (lat, north), (lon, east) = ((abs(v), v >= 0) for v in values)
        degree = rng.choice(["", "", "°"])
        gap = rng.choice([" ", ""]) if degree else " "
        said = f"{lat}{degree}{gap}{'N' if north else 'S'}, {lon}{degree}{gap}{'E' if east else 'W'}"
        return Spoken(values, rng.choice([f"({said})", said, f"({said})"]))
    inner = f"{values[0]}, {values[1]}"
    return Spoken(
        values, rng.choice([f"({inner})", f"[{inner}]", f"latitude {values[0]} and longitude {values[1]}"])
    )


def equation(rng: random.Random) -> Spoken:
    """A formula, told bare, quoted, or as 'y = …', of which the call holds the right side."""
    value = formula(rng)
    if rng.random() < 0.4:
        value = value.replace(" ", "")
    name = next((c for c in value if c in "xtyn"), "x")
    left = rng.choice(
        [f"f({name})", "f(x)" if name == "x" else f"f({name})", "y" if name != "y" else "z", f"g({name})"]
    )
    sign = rng.choice([" = ", "=", " = "])
    forms = [
        value,
        value,
        f"'{value}'",
        f"{left}{sign}{value}",
        f"{left}{sign}{value}",
        f"{left}{sign}{value}",
    ]
    return Spoken(value, rng.choice(forms))


EXAMPLES = ("(e.g. '{e}')", "For example '{e}'.", "Such as {e}, etc.", "E.g. {e}.", "(for example {e})")


def told_options(rng: random.Random, shown: list[str]) -> str:
    """The values of a string parameter as a sentence of its description."""
    mark = rng.choice(["'", "'", '"', ""])
    told = [f"{mark}{o}{mark}" for o in shown]
    either = series(told, " or ") if len(told) > 1 else told[0]
    form = rng.choice(
        [
            "Options: {o}.", "One of {o}.", "Can be {e}.", "Either {e}.", "Choices are {e}.", "Could be {o} etc.", "e.g., {o}.", "Possible values: {o}.",
            "Available options: {o}.", "Options are {e}.", "Valid values are {o}.", "({e})",
        ]
    )  # fmt: skip
    return form.format(o=", ".join(told), e=either)


def between(kinds: Kinds, rng: random.Random, low: int, high: int) -> Sort:
    """An object of a lower and an upper bound."""
    first, last = (
        rename(rng, n, kinds.split) for n in rng.choice([("min", "max"), ("low", "high"), ("from", "to"), ("minimum", "maximum"), ("lower", "upper")])
    )  # fmt: skip

    def draw(r: random.Random) -> Spoken:
        a, b = sorted((integer(r, low, high).value, integer(r, low, high).value))
        dollar = "$" if high > 9000 else ""
        x, y = (f"{dollar}{v:,}" if r.random() < 0.6 else f"{dollar}{v}" for v in (a, b))
        text = r.choice(
            [f"{x} to {y}", f"{x} - {y}", f"between {x} and {y}", f"of at least {x} and at most {y}"]
        )
        return Spoken({first: a, last: b}, text, whole=text.startswith(("between", "of")))

    kind = rng.choice(["integer", "number"])
    fields = {
        first: {"type": kind, "description": "The lower limit."},
        last: {"type": kind, "description": "The upper limit."},
    }
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    return Sort(schema | ({"required": [first, last]} if rng.random() < 0.4 else {}), draw)


COMPARED = {
    ">": ("is greater than {v}", "is more than {v}", "is above {v}", "> {v}", "exceeds {v}", "is over {v}"),
    "<": ("is less than {v}", "is below {v}", "is under {v}", "< {v}", "is smaller than {v}"),
    "=": ("is {v}", "equals {v}", "is equal to {v}", "= {v}", "is exactly {v}"),
    ">=": ("is at least {v}", "is {v} or more", ">= {v}", "is not less than {v}"),
    "<=": ("is at most {v}", "is {v} or less", "<= {v}", "is no more than {v}"),
}
COLUMNS = "age price salary height score year quantity rating weight experience distance budget".split()
LABELS = "status department city category color role type country brand level gender grade".split()


def conditions(kinds: Kinds, rng: random.Random) -> Sort:
    """A list of {field, operation, value}, told as one would in a sentence."""
    keys = [
        rename(rng, rng.choice(names), kinds.split)
        for names in (("field", "column", "attribute", "key"), ("operation", "operator", "comparison", "op"), ("value", "operand", "compare_to"))
    ]  # fmt: skip
    field, operation, value = keys
    as_text = rng.random() < 0.7
    notes = {
        field: {"type": "string", "description": "The field that is compared."},
        operation: {
            "type": "string",
            "description": "How it is compared.",
            "enum": rng.sample(list(COMPARED), 5),
        },
        value: {"type": "string" if as_text else "number", "description": "What it is compared to."},
    }
    item: dict[str, Any] = {"type": "object", "properties": notes}
    if rng.random() < 0.6:
        item["required"] = keys

    def draw(r: random.Random) -> Spoken:
        made: list[dict[str, Any]] = []
        told: list[str] = []
        for _ in range(r.choice([1, 2, 2, 3])):
            if as_text and r.random() < 0.45:
                name, sign = r.choice(LABELS), "="
                what: Any = r.choice(
                    [kinds.pools.noun(r), kinds.pools.value(r, "city"), kinds.pools.adjective(r)]
                )
                said = r.choice([f"'{what}'", what, f'"{what}"'])
            else:
                name, sign = r.choice(COLUMNS), r.choice(list(COMPARED))
                number_ = r.randint(1, 100) if r.random() < 0.7 else r.randint(1, 90) * 1000
                what, said = str(number_) if as_text else number_, str(number_)
            if all(name != m[field] for m in made):
                made.append({field: name, operation: sign, value: what})
                told.append(f"{r.choice(['', '', 'the '])}{name} {r.choice(COMPARED[sign]).format(v=said)}")
        return Spoken(made, r.choice([" and ", " and ", ", and "]).join(told))

    return Sort({"type": "array", "items": item}, draw)


def scores(kinds: Kinds, rng: random.Random, names: list[str], about: str) -> Sort:
    """An object of numbers under names that the request gives."""

    def draw(r: random.Random) -> Spoken:
        chosen = r.sample(names, min(len(names), r.randint(2, 4)))
        held = {name: r.randint(1, 100) for name in chosen}
        forms = [
            json.dumps(held), str(held), "{" + ", ".join(f"'{k}':{v}" for k, v in held.items()) + "}", ", ".join(f"{k}: {v}" for k, v in held.items()),
            ", ".join(f"{v} in {k}" for k, v in held.items()), " and ".join(f"{v} for {k}" for k, v in held.items()), ", ".join(f"{k} {v}" for k, v in held.items()),
        ]  # fmt: skip
        return Spoken(held, r.choice(forms))

    return Sort(
        {"type": "object"} | ({"additionalProperties": {"type": "integer"}} if rng.random() < 0.5 else {}),
        draw,
    )
