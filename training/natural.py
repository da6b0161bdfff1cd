# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Tools of everyday domains as people write them: names, schemas and descriptions drawn from a sketch."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from training.asking import NAMED, request
from training.kinds import Kinds
from training.naming import Split, in_split, joined, pick, rename, slots_of, styled, words
from training.sketches import EXTRAS, Sketch
from training.spoken import Draw, Param, Spoken
from training.tools import Tool
from training.values import sort

GIVEN = (
    " based on {n}", " given the {n}", ", given {n}", " by {n}", " using the provided {n}", " for the specified {n}", "; needs {n}", ", depending on {n}",
)  # fmt: skip


def drawn(rng: random.Random, kinds: Kinds, sketch: Sketch, prefix: bool = False) -> Tool:
    """The tool under names of the split. prefix: its name begins with the domain's."""
    style = rng.choice(["snake", "snake", "snake", "snake", "camel"])
    params: dict[str, Param] = {}
    slots = sketch.slots
    if rng.random() < 0.4:  # what tools of any topic offer beside, and people seldom use
        taken = {n for slot in slots for n in slot.names}
        extras = [s for s in EXTRAS[sketch.opened] if not taken & set(s.names)]
        slots = (*slots, *rng.sample(extras, rng.choice([1, 1, 2, 3])))
    for slot in slots:
        about, required = slot.about, slot.required
        if not required and rng.random() < 0.12:
            required = True
            if rng.random() < 0.6:
                about = re.sub(r" *Default [^.]*(\.\d[^.]*)?\.", "", about)
        made = sort(kinds, rng, slot.kind, slot.args, about)
        if made.note:
            about = f"{about} {made.note}"
        elif rng.random() < 0.06:
            about = ""
        draw = _truth(slot.phrases) if slot.kind == "bool" else made.draw
        if slot.special:
            draw = _sometimes(slot.special, draw)
        names = [styled(n, style) for n in slot.names]
        name = param_name(rng, names, kinds.split, style, 0.12)
        while name in {p.name for p in params.values()}:
            name = param_name(rng, names, kinds.split, style, 1.0)
        plain = tuple(p for p in slot.phrases if set(slots_of(p)) == {"v"})
        phrases = (
            ("{v}",)
            if slot.kind == "bool"
            else plain or tuple(n.replace("{n}", words(slot.key)) for n in NAMED[:4])
        )
        params[slot.key] = Param(name, made.schema, draw, phrases, required, about)
    said = {slot.key: slot for slot in slots}
    by_key = {key: p.name for key, p in params.items()}

    def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
        given = {key: spoken[name] for key, name in by_key.items() if name in spoken}
        return request(r, sketch, said, given, kinds.split)

    def miss(r: random.Random) -> str:
        alike = [m for m in sketch.misses if "{" in m]
        text = pick(r, alike if alike and r.random() < 0.6 else sketch.misses, kinds.split)
        return re.sub(r"\{(\w+)\}", lambda m: _apart(params[m.group(1)].draw, r), text)

    ordered = list(params.values())
    if rng.random() < 0.9:
        ordered.sort(key=lambda p: not p.required)
    about = rng.choice(sketch.abouts)
    needed = [words(key) for key, p in params.items() if p.required]
    if needed and rng.random() < 0.35:
        about = f"{about.rstrip('.')}{rng.choice(GIVEN).format(n=joined(needed, rng))}."
    if rng.random() < 0.25:
        about, ordered = _explained(rng, about, needed, ordered)
    name = _tool_name(rng, sketch, kinds.split, style, prefix)
    return Tool(name, about, tuple(ordered), ask, sketch.topic, sketch=sketch, miss=miss)


PURPOSES = (
    "This function takes {n} and returns the result.", "It needs {n} to work.", "Provide {n} to get an answer.", "Use this function whenever the user asks for it.",
    "The function can be used for planning as well as for checking a result that is known already.", "Returns an object with the result and the values that led to it.",
    "Optional parameters need not be given.", "Note that all parameters must be in the units that their descriptions name.", "Only one request is handled by each call.",
)  # fmt: skip
NOTES = {
    "number": ("It must be a number.", "Should be a positive number unless stated otherwise.", "Used in the calculation.", "Do not include the unit.", "A decimal number is accepted."),
    "integer": ("It must be a whole number.", "An integer is expected.", "Should be given as a plain number without the unit.", "Used in the calculation."),
    "string": ("It should be given as a string.", "This must not be empty.", "Use the name as it is commonly written.", "For instance: '{e}'.", "e.g. {e}", "Upper and lower case do not matter."),
    "array": ("It must be a list.", "Provide one or more items.", "Each item is looked at on its own.", "Given as an array."),
    "boolean": ("Set to true to enable it.", "True or false.", "If true, it is done; otherwise it is not."),
    "object": ("An object with the fields listed.", "Fields that are not needed may be left out."),
}  # fmt: skip


def _explained(
    rng: random.Random, about: str, needed: Sequence[str], params: Sequence[Param]
) -> tuple[str, list[Param]]:
    """Long descriptions, as of a documented function."""
    for text in rng.sample(PURPOSES, rng.randint(1, 2)):
        if "{n}" not in text or needed:
            about = f"{about.rstrip('.')}. {text.format(n=joined(['the ' + n for n in needed], rng) if needed else '')}"
    out = []
    for p in params:
        notes = NOTES[p.schema["type"]]
        if p.about and "{e}" not in p.about and rng.random() < 0.6:
            example = p.draw(rng).value if p.schema["type"] == "string" else ""
            note = rng.choice(notes).replace("{e}", example)
            out.append(replace(p, about=f"{p.about.rstrip('.')}. {note}"))
        else:
            out.append(p)
    return about, out


def _apart(draw: Draw, rng: random.Random) -> str:
    """A value in words that fit into any phrase."""
    while (spoken := draw(rng)).whole:
        pass
    return spoken.text


def _sometimes(special: Sequence[Spoken], draw: Draw) -> Draw:
    return lambda r: r.choice(special) if r.random() < 0.3 else draw(r)


def _truth(phrases: Sequence[str]) -> Callable[[random.Random], Spoken]:
    yes = [p for p in phrases if not p.startswith("~")]
    no = [p[1:] for p in phrases if p.startswith("~")]

    def draw(r: random.Random) -> Spoken:
        value = not no or r.random() < 0.65
        return Spoken(value, r.choice(yes if value else no), whole=True)

    return draw


def param_name(rng: random.Random, names: Sequence[str], split: Split, style: str, other: float) -> str:
    """One of the names, or a variant of one."""
    own = [n for n in names if in_split(n, split)]
    if own and rng.random() >= other:
        return rng.choice(own)
    return styled(rename(rng, rng.choice(names), split), style)


def _tool_name(rng: random.Random, sketch: Sketch, split: Split, style: str, prefix: bool) -> str:
    base = rng.choice(sketch.names)
    _, _, rest = base.partition("_")
    options = [f"{sketch.domain}.{base}", f"{sketch.domain}_{base}"]
    if not prefix:
        options += [base, base]
    if not prefix and rest and "." not in base:
        options += [f"{rest}.{base.split('_')[0]}", rest]
    name = rng.choice(options)
    if not in_split(name, split) or rng.random() < 0.12:
        name = rename(rng, name.replace(".", "_"), split)
    if "." in name:
        return name if rng.random() < 0.5 else name.replace(".", "_")
    return styled(name, style if rng.random() < 0.9 else "pascal")
