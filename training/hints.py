"""Everyday tools that people ask for without naming what is to be done: wordings and the calls they mean.

A block of a file in indirect/: groups | names | descriptions; a line for each parameter, in the notation of
training/domains; a line with = for each value that is no parameter's but told in a wording; wordings,
each with what it tells in other words, and for several calls with what it tells for each:

    > It's too dark in the {room}. | on=true
    = a town
    = b town
    > Is {a} or {b} the warmer place? | city={a} & city={b}
    > {n} of them broke. | change=-{n}
    ? How warm will it be? | city

A value whose name begins with other is said beside it and goes nowhere. The last line lacks the value behind
its stroke, for which must be asked. The tools of one first group are siblings, which an agent may have side
by side; what is asked of a tool of any of its groups may be near it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from training import errands
from training.kinds import Kinds
from training.naming import articles, capital, pick, slots_of, styled, tool_name
from training.natural import param_name
from training.shapes import Sort
from training.sketches import Slot, slot
from training.spoken import Param, Spoken, verbatim
from training.today import Today
from training.tools import Task, Tool
from training.typed import typed
from training.values import sort
from training.variety import decorated


@dataclass(frozen=True)
class Hint:
    """groups: what is asked of a tool of one may be near another of it. helpers: values of wordings that are
    no parameter's. wordings: the sentence, and for each call the values that it tells in other words.
    unfinished: sentences and the parameter whose value each lacks. words: what stands for some slots of all
    sentences."""

    groups: tuple[str, ...]
    names: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[Slot, ...]
    helpers: tuple[Slot, ...]
    wordings: dict[str, tuple[dict[str, Any], ...]]
    unfinished: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        """With its words in their slots."""
        for name, word in self.words.items():
            text = text.replace(f"{{{name}}}", word)
        return text


def read(path: Path) -> list[Hint]:
    out = []
    for block in path.read_text().strip().split("\n\n"):
        head, *lines = block.split("\n")
        groups, names, abouts = head.split(" | ")
        slots = tuple(slot(line) for line in lines if line[0] not in ">=?")
        helpers = tuple(slot(f"{line[2:]} # ") for line in lines if line[0] == "=")
        wordings = {}
        for line in lines:
            if line[0] == ">":
                text, _, told = line[2:].rpartition(" |")
                wordings[text] = tuple(_told(call) for call in told.split(" & "))
        unfinished = dict(line[2:].rsplit(" | ", 1) for line in lines if line[0] == "?")
        known = (tuple(names.split(", ")), tuple(abouts.split(" ~ ")))
        out.append(Hint(tuple(groups.split()), *known, slots, helpers, wordings, unfinished))
    return out


def _told(text: str) -> dict[str, Any]:
    """'on=true, level=5'"""
    pairs = (pair.split("=") for pair in text.split(",") if pair.strip())
    return {key.strip(): _value(value.strip()) for key, value in pairs}


def _value(text: str) -> Any:
    return json.loads(text) if re.fullmatch(r"-?[\d.]+|true|false", text) else text


HINTS = [hint for path in sorted((Path(__file__).parent / "indirect").glob("*.txt")) for hint in read(path)]
VAGUE = {
    "calendar",
    "facts",
    "heat",
    "light",
    "message",
    "route",
    "sums",
    "translate",
    "weather",
}  # one wording may mean several of these
SIBLINGS = {
    group: hints
    for group in {hint.groups[0] for hint in HINTS} - VAGUE
    if len(hints := [hint for hint in HINTS if hint.groups[0] == group]) > 2
}


def family(rng: random.Random, kinds: Kinds, count: int) -> tuple[list[Hint], list[Hint]]:
    """So many siblings at most, and those that are not among them. A group comes as often as it has tools."""
    group = rng.choice([hint.groups[0] for hint in HINTS if hint.groups[0] in SIBLINGS])
    hints = rng.sample(SIBLINGS[group], len(SIBLINGS[group]))
    return hints[:count], hints[count:]


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
            made = _sort(kinds, rng, one)
            names, taken = [styled(n, style) for n in one.names], {p.name for p in params.values()}
            name = param_name(rng, names, split, style, 0.12)
            while name in taken:
                name = param_name(rng, names, split, style, 1.0)
            about = [one.about if rng.random() < 0.85 else "", made.note]  # the note has to be known
            params[one.key] = Param(
                name, made.schema, made.draw, ("{v}",), one.required, " ".join(filter(None, about))
            )
            if rng.random() < 0.5:
                params[one.key] = decorated(rng, kinds.pools, params[one.key], 0.02)
        keys = {key: p.name for key, p in params.items()}
        name = tool_name(rng, rng.choice(hint.names), style, split)
        ask = lambda r, spoken: ""  # noqa: E731 -- asked for by its own wordings alone
        tool = Tool(name, rng.choice(hint.abouts), tuple(params.values()), ask, hint.groups[0])
        return cls(hint, tool, keys)

    def unfinished(self, rng: random.Random, kinds: Kinds) -> tuple[str, Param, Spoken, Task] | None:
        """A request that lacks a value, whose it is, the value, and the task once it is told; None where no
        wording is so."""
        if not self.hint.unfinished:
            return None
        wording = pick(rng, tuple(self.hint.unfinished), kinds.split)
        by_key = {key: next(p for p in self.tool.params if p.name == name) for key, name in self.keys.items()}
        missing = by_key[self.hint.unfinished[wording]]
        text = articles(self.hint.filled(wording))
        said = {key: by_key[key].draw(rng) for key in slots_of(text)}
        value = missing.draw(rng)
        request = text.format(**{key: s.text for key, s in said.items()})
        told = {self.keys[key]: s for key, s in said.items()} | {missing.name: value}
        spoken = {p.name: told[p.name] for p in self.tool.params if p.name in told}
        return capital(request), missing, value, Task.of(request, self.tool, [spoken])

    def of_the_same(self, rng: random.Random, kinds: Kinds, key: Spoken) -> Task | None:
        """A request about the thing that was just spoken of, whose key is known; None where no wording is."""
        slot = self.hint.slots[0].key
        thing = re.compile(rf"(the )?({self.hint.words['noun']} )?(number )?\{{{slot}\}}")
        able = [t for t, calls in self.hint.wordings.items() if f"{{{slot}}}" in t and calls == ({},)]
        if not able:
            return None
        text = articles(thing.sub("it", self.hint.filled(pick(rng, able, kinds.split))))
        by_name = {p.name: p for p in self.tool.params}
        said = {one: by_name[self.keys[one]].draw(rng) for one in slots_of(text)}
        told = {self.keys[one]: spoken for one, spoken in said.items()} | {
            self.keys[slot]: replace(key, text="")
        }
        request = capital(text.format(**{one: s.text for one, s in said.items()}))
        spoken = {p.name: told[p.name] for p in self.tool.params if p.name in told}
        return Task.of(request, self.tool, [spoken])

    def dates(self) -> list[str]:
        """The keys of its parameters that take a date."""
        return [slot.key for slot in self.hint.slots if slot.kind == "date"]

    def undated(self, rng: random.Random, kinds: Kinds) -> tuple[str, Param, Spoken, Task] | None:
        """What `unfinished` gives, of a request that tells a day which nobody knows the date of: tomorrow."""
        dates = self.dates()
        able = [
            t for t, calls in self.hint.wordings.items() if calls == ({},) and set(dates) & set(slots_of(t))
        ]
        if not able:
            return None
        text = articles(self.hint.filled(pick(rng, able, kinds.split)))
        key = next(key for key in slots_of(text) if key in dates)
        by_name = {p.name: p for p in self.tool.params}
        said = {one: by_name[self.keys[one]].draw(rng) for one in slots_of(text)}
        day = rng.choice(["today", "tomorrow", "tomorrow", "yesterday", "the day after tomorrow"])
        shown = {one: day if one == key else s.text for one, s in said.items()}
        request = capital(re.sub(rf"\b[Oo]n (?=\{{{key}\}})", "", text).format(**shown))
        told = {self.keys[one]: s for one, s in said.items()}
        spoken = {p.name: told[p.name] for p in self.tool.params if p.name in told}
        return request, by_name[self.keys[key]], said[key], Task.of(request, self.tool, [spoken])

    def task(self, rng: random.Random, kinds: Kinds, alone: bool = True, today: Today | None = None) -> Task:
        """A request in one of its wordings and what it calls. alone: as people type it. today: known to who
        is asked, so that days may be told by it."""
        wording = pick(rng, tuple(self.hint.wordings), kinds.split)
        text = articles(self.hint.filled(wording))
        by_name = {p.name: p for p in self.tool.params}
        draws = {key: by_name[name].draw for key, name in self.keys.items()}
        like = {(s.kind, s.args): draws[s.key] for s in self.hint.slots}  # a date in the parameter's notation
        draws |= {s.key: like.get((s.kind, s.args)) or _sort(kinds, rng, s).draw for s in self.hint.helpers}
        days = [key for key in self.dates() if key in slots_of(text)]
        if today and days and rng.random() < 0.6:  # one alone: two must differ
            key = rng.choice(days)
            day, on = today.told(rng, by_name[self.keys[key]].about)
            draws[key] = partial(_same, day)
            text = text if on else re.sub(rf"\b[Oo]n (?=\{{{key}\}})", "", text)
        slots = slots_of(text)
        said: dict[str, Spoken] = {}
        while len({repr(s.value) for s in said.values()}) < len(said) or not said.keys() >= set(slots):
            said = {key: draws[key](rng) for key in slots}
        sets = []
        for values in self.hint.wordings[wording]:
            told = {self.keys[key]: said[key] for key in said if key in self.keys}
            told |= {self.keys[key]: Spoken(_filled(value, said), "") for key, value in values.items()}
            sets.append({p.name: told[p.name] for p in self.tool.params if p.name in told})
        request = text.format(**{key: s.text for key, s in said.items()})
        if text[0] != "{":  # a value at the head is copied as it is
            request = capital(request)
        return Task.of(
            typed(rng, request, text[0] == "{", text.rstrip(".!?")[-1] == "}") if alone else request,
            self.tool,
            sets,
        )


def _same(value: Spoken, rng: random.Random) -> Spoken:
    return value


def _filled(value: Any, said: dict[str, Spoken]) -> Any:
    """A value told in other words: '{a} + {b}' holds what was said, '{a}' is it."""
    if not isinstance(value, str):
        return value
    if value[1:-1] in said and value[0] == "{":
        return said[value[1:-1]].value
    if value[2:-1] in said and value[:2] == "-{":  # six are broken: -6
        return -said[value[2:-1]].value
    return value.format(**{key: s.value for key, s in said.items()})


def _sort(kinds: Kinds, rng: random.Random, one: Slot) -> Sort:
    """An enumeration keeps its options as they stand: wordings name them. said: options that the schema does
    not show. sought: one of these or, four times of ten, anything."""
    if one.kind not in ("enum", "said", "sought"):
        return errands.sort(kinds, one.kind) or sort(kinds, rng, one.kind, one.args, one.about)
    options = one.args.split("|")
    anything = 0.4 if one.kind == "sought" else 0.0
    schema = {"type": "string", "enum": options} if one.kind == "enum" else {"type": "string"}
    return Sort(
        schema, verbatim(lambda r: kinds.pools.topic(r) if r.random() < anything else r.choice(options))
    )


def thinned(rng: random.Random, hint: Hint) -> Hint:
    """Now and then without some of its optional parameters and the wordings that tell them."""
    gone = {s.key for s in hint.slots if not s.required and rng.random() < 0.25}
    left = {
        text: calls
        for text, calls in hint.wordings.items()
        if gone.isdisjoint(slots_of(text)) and all(gone.isdisjoint(told) for told in calls)
    }
    if len(left) < 6 or any(not gone.isdisjoint(slots_of(text)) for text in hint.unfinished):
        return hint
    return replace(hint, slots=tuple(s for s in hint.slots if s.key not in gone), wordings=left)


def toolset(rng: random.Random, kinds: Kinds, wanted: Sequence[Hint]) -> list[Hinted]:
    """A tool of each hint, at most: each has a name of its own."""
    drawn = [Hinted.drawn(rng, kinds, thinned(rng, hint)) for hint in wanted]
    return list({h.tool.name: h for h in drawn}.values())
