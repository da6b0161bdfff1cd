# ruff: noqa: E501, SIM905 -- sentences and words are data: one a line reads better than wrapped ones
"""Requests of every day that an assistant with other tools gets, the tool that would serve each, and answers without a call.
Knows no conversations.

The notation of unserved.txt:

    # subject | c, k, w, s or u | what it takes, as 'to …' | beginnings of words of tools that might serve it
    = names of a tool that does | descriptions ~ of it | slot names,of,it What it means. ; …
    Requests with {slots}.
    - A request that the tool does not serve, though it has its slots.

c: only a tool for this serves it, whatever its {thing}. k: a question, which a tool for searching might serve as well.
w: a wish. s: nothing is asked for. u: what is asked for cannot be told.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from training.naming import Split, capital, pick, rename, slots_of, styled, tidy, tool_name, words
from training.pools import Pools
from training.spoken import Draw, Param, Spoken, verbatim
from training.talk import DECLINES
from training.tasks import surrounded
from training.tools import Tool
from training.values import LISTS

NEAR = 0.35  # share of things asked about that a tool is named after
SEARCHING = frozenset(
    "file files document documents folder notes database sql grep wiki wikipedia web internet google knowledge encyclopedia question questions answer chat".split()
)
"""Words of tools that might answer any question."""
INFORMING = frozenset(
    "get show tell list find search look lookup check read info information details describe explain about".split()
)
"""Words of tools that might answer a question about what they are named after."""
LACKING = (
    "I have no tool to {act}.",
    "None of my tools can {act}.",
    "My tools cannot {act}.",
    "To {act} is beyond my tools.",
    "I'm sorry, I can't {act} with these tools.",
    "I have tools, but none to {act}.",
    "I cannot {act} here.",
    "There is no tool here to {act}.",
    "Sorry, I am not able to {act}.",
    "That would take a tool to {act}, and I have none.",
)
NOTHING_ASKED = (
    "What would you like me to do?",
    "How can I help?",
    "What can I do for you?",
    "I see. What should I do?",
    "Tell me what you need.",
    "I see no request in this.",
    "Is there something I should do?",
    "No tool is needed for that. How can I help?",
    "I understand. Do you need anything?",
)
UNCLEAR = (
    "I don't understand. What should I do?",
    "Please tell me more.",
    "Could you say that in a whole sentence?",
    "What do you mean?",
    "I need to know more. What should I do?",
    "Please say what you want me to do.",
    "I'm not sure what you want.",
    "What can I do for you?",
    "Sorry, what is your request?",
)
OFFERS = (
    "I can only {t}.",
    "What I can do is: {t}.",
    "They serve to {t}.",
    "I could help with this: {t}.",
    "My tools are for this: {t}.",
)
ELSE = ("Is there something else?", "What else do you need?", "Can I do something else for you?")
_THINGS = "animal plant instrument sport product fabric vehicle ingredient material planet subject invention game".split()  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What people ask for in like words, and how the tool for it is named."""

    kind: str
    act: str
    near: tuple[str, ...]
    requests: tuple[str, ...]
    names: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[tuple[str, tuple[str, ...], str], ...]
    """(slot, names of the parameter, description)"""
    served: tuple[str, ...]
    """The requests that the tool serves."""


def _subject(block: str) -> Subject:
    head, *lines = block.strip().split("\n")
    _, kind, act, near = (part.strip() for part in head.split("|"))
    tool = ("", "", "")
    if lines[0].startswith("= "):
        names, abouts, slots = (part.strip() for part in lines.pop(0)[2:].split("|"))
        tool = (names, abouts, slots)
    taken = [slot.split(None, 2) for slot in tool[2].split(" ; ") if slot]
    apart = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    requests = tuple(line.removeprefix("- ") for line in lines)
    wanted = {slot for slot, _, _ in taken}
    return Subject(
        kind,
        act,
        tuple(near.split()),
        requests,
        tuple(tool[0].split()),
        tuple(about.strip() for about in tool[1].split(" ~ ")),
        tuple((slot, tuple(names.split(",")), about) for slot, names, about in taken),
        tuple(r for r in requests if set(slots_of(r)) == wanted and r not in apart) if tool[0] else (),
    )


SUBJECTS = [_subject(b) for b in (Path(__file__).parent / "unserved.txt").read_text().strip().split("\n\n")]
SERVED = [s for s in SUBJECTS if s.served]
SERVING = frozenset(words(s.names[0]) for s in SERVED)
"""The topics of the tools for them: beside such a tool no question of another list is sure to be declined."""


class Unserved:
    """Draws requests and tools of one split."""

    def __init__(self, pools: Pools, split: Split) -> None:
        self.pools = pools
        self.split: Split = split

    def tool(self, rng: random.Random) -> Tool:
        """A tool that serves some of the requests."""
        s = rng.choice(SERVED)
        style = rng.choice(["snake", "snake", "camel"])
        params: dict[str, Param] = {}
        by_slot: dict[str, str] = {}
        for slot, names, about in s.slots:
            name = styled(rename(rng, rng.choice(names), self.split), style)
            while name in params:
                name = styled(rename(rng, rng.choice(names), self.split), style)
            kind = "integer" if slot in ("n", "m") else "string"
            params[name] = Param(name, {"type": kind}, self._draw(slot), ("for {v}",), True, about)
            by_slot[slot] = name

        def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
            return _filled(
                pick(r, s.served, self.split), {k: spoken[name].text for k, name in by_slot.items()}
            )

        name = tool_name(rng, rng.choice(s.names), style, self.split)
        return Tool(name, rng.choice(s.abouts), tuple(params.values()), ask, words(s.names[0]), whole=True)

    def turn(self, rng: random.Random, tools: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """A request that none of the tools (name, description, parameters) serves, and the answer."""
        named = [words(t["name"]).split() for t in tools]
        told = {
            w for t in tools for w in re.findall("[a-z]+", f"{words(t['name'])} {t['description']}".lower())
        }
        able = [
            s
            for s in SUBJECTS
            if not (s.kind == "k" and SEARCHING & told)
            and not any(w.startswith(s.near) for w in told if s.near)
        ]
        s = rng.choice(able)
        line = pick(rng, s.requests, self.split)
        values = {slot: self._draw(slot)(rng).text for slot in slots_of(line)}
        if "thing" in values:
            near = [n for n in named if s.kind == "c" or (s.kind == "k" and not INFORMING.intersection(n))]
            if near and rng.random() < NEAR:
                values["thing"] = " ".join(rng.choice(near)[-rng.choice([1, 2]) :])
            elif s.kind == "k":
                while told.intersection(re.findall("[a-z]+", values["thing"].lower())):
                    values["thing"] = self._draw("thing")(rng).text
        request = _filled(line, values)
        if s.kind in "ckw":
            request = surrounded(rng, request)
        return request, self._answer(rng, s, named)

    def _answer(self, rng: random.Random, s: Subject, named: Sequence[Sequence[str]]) -> str:
        if s.kind in "su":
            said = pick(rng, NOTHING_ASKED if s.kind == "s" else UNCLEAR, self.split)
            chance = 0.2
        else:
            said = pick(rng, DECLINES if rng.random() < 0.5 else LACKING, self.split).format(act=s.act)
            chance = 0.3
        if rng.random() < chance:
            tools = ", ".join(" ".join(n) for n in rng.sample(named, min(3, len(named))))
            return f"{said} {pick(rng, OFFERS, self.split).format(t=tools)}"
        if s.kind in "ckw" and rng.random() < 0.2:
            return f"{said} {rng.choice(ELSE)}"
        return said

    def _draw(self, slot: str) -> Draw:
        """A sampler of what may stand for a slot; a digit behind its name marks another of one kind."""
        kind = slot.rstrip("0123456789")
        if kind in ("n", "m"):
            return _count
        return verbatim(partial(self._text, kind=kind))

    def _text(self, rng: random.Random, kind: str) -> str:
        pools = self.pools
        if kind == "thing":
            return pools.topic(rng) if rng.random() < 0.5 else rng.choice(LISTS[rng.choice(_THINGS)])
        if kind == "adj":
            return pools.adjective(rng)
        return rng.choice(LISTS[kind]) if kind in LISTS else pools.value(rng, kind)


def _count(rng: random.Random) -> Spoken:
    n = rng.randint(3, 99)
    return Spoken(n, str(n))


def _filled(line: str, values: dict[str, str]) -> str:
    def put(m: re.Match[str]) -> str:
        value = values[m.group(2)]
        return f"{'an ' if value[0] in 'aeiouAEIO' else 'a '}{value}" if m.group(1) else value

    return capital(tidy(re.sub(r"(\ba )?\{(\w+)\}", put, line)))
