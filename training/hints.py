"""Everyday tools that people ask for without naming what is to be done: wordings and the calls they mean.

A block of hints.txt: group | names | descriptions; a line for each parameter, in the notation of
training/domains; wordings, each with the values that it tells in other words:

    > It's too dark in the {room}. | on=true
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.kinds import Kinds
from training.naming import capital, pick, slots_of, styled, tool_name
from training.natural import param_name
from training.sketches import Slot, slot
from training.spoken import Draw, Param, Spoken, verbatim
from training.tools import Task, Tool
from training.values import sort


@dataclass(frozen=True)
class Hint:
    """group: what is asked of one tool of a group may be near another of it. wordings: the sentence, and the
    values that it tells in other words."""

    group: str
    names: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[Slot, ...]
    wordings: dict[str, dict[str, Any]]


def _read(path: Path) -> list[Hint]:
    out = []
    for block in path.read_text().strip().split("\n\n"):
        head, *lines = block.split("\n")
        group, names, abouts = head.split(" | ")
        slots = tuple(slot(line) for line in lines if line[0] != ">")
        wordings = {}
        for line in lines:
            if line[0] == ">":
                text, _, told = line[2:].rpartition(" |")
                pairs = (pair.split("=") for pair in told.split(",") if pair.strip())
                wordings[text] = {key.strip(): _value(value.strip()) for key, value in pairs}
        out.append(Hint(group, tuple(names.split(", ")), tuple(abouts.split(" ~ ")), slots, wordings))
    return out


def _value(text: str) -> Any:
    return json.loads(text) if re.fullmatch(r"-?[\d.]+|true|false", text) else text


HINTS = _read(Path(__file__).with_name("hints.txt"))


@dataclass(frozen=True)
class Hinted:
    """A tool of a hint under names of the split, and how people ask for it."""

    hint: Hint
    tool: Tool
    keys: dict[str, str]
    """What its wordings call a parameter -> the parameter's name."""

    @classmethod
    def drawn(cls, rng: random.Random, kinds: Kinds, hint: Hint) -> Hinted:
        split = kinds.split
        style = rng.choice(["snake", "snake", "snake", "camel"])
        params: dict[str, Param] = {}
        for one in hint.slots:
            schema, draw = _sort(kinds, rng, one)
            names, taken = [styled(n, style) for n in one.names], {p.name for p in params.values()}
            name = param_name(rng, names, split, style, 0.12)
            while name in taken:
                name = param_name(rng, names, split, style, 1.0)
            about = one.about if rng.random() < 0.85 else ""
            params[one.key] = Param(name, schema, draw, ("{v}",), one.required, about)
        keys = {key: p.name for key, p in params.items()}
        name = tool_name(rng, rng.choice(hint.names), style, split)
        ask = lambda r, spoken: ""  # noqa: E731 -- asked for by its own wordings alone
        tool = Tool(name, rng.choice(hint.abouts), tuple(params.values()), ask, hint.group)
        return cls(hint, tool, keys)

    def task(self, rng: random.Random, kinds: Kinds) -> Task:
        """A request in one of its wordings and the call that it means."""
        text = pick(rng, tuple(self.hint.wordings), kinds.split)
        told = {self.keys[key]: Spoken(value, "") for key, value in self.hint.wordings[text].items()}
        by_name = {p.name: p for p in self.tool.params}
        said = {key: by_name[self.keys[key]].draw(rng) for key in slots_of(text)}
        told |= {self.keys[key]: value for key, value in said.items()}
        request = capital(text.format(**{key: s.text for key, s in said.items()}))
        ordered = {p.name: told[p.name] for p in self.tool.params if p.name in told}
        return Task.of(_typed(rng, request), self.tool, [ordered])


def _sort(kinds: Kinds, rng: random.Random, one: Slot) -> tuple[dict[str, Any], Draw]:
    """An enumeration keeps its options as they stand: wordings name them."""
    if one.kind != "enum":
        made = sort(kinds, rng, one.kind, one.args, one.about)
        return made.schema, made.draw
    options = one.args.split("|")
    return {"type": "string", "enum": options}, verbatim(lambda r: r.choice(options))


def _typed(rng: random.Random, request: str) -> str:
    """With the stop and capital that people put, or without, and perhaps a word before."""
    roll = rng.random()
    if roll < 0.15:
        return rng.choice(["Hey, ", "Hmm. ", "Oh dear. ", "Sorry, but: ", "Hi! ", "Listen: "]) + request
    if roll < 0.3:
        return request.rstrip(".!")
    return request + rng.choice(["", "", "", "", " Thanks!"]) if request[-1] in ".?!" else request


def toolset(rng: random.Random, kinds: Kinds, count: int) -> list[Hinted]:
    """At most so many tools, each under a name of its own."""
    drawn = [Hinted.drawn(rng, kinds, hint) for hint in rng.sample(HINTS, count)]
    return list({h.tool.name: h for h in drawn}.values())
