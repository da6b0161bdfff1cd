"""Requests that differ in one thing from another of the same tool: which value is whose, or what is told."""

from __future__ import annotations

import random

from training.spoken import Param, Spoken
from training.tools import Task, Tool


def twin(rng: random.Random, tool: Tool, spoken: dict[str, Spoken]) -> Task | None:
    """One call of the tool that resembles the one with these values: two of them have changed places, or an
    optional one came or went. None where the tool has no such call."""
    makers = (_swapped, _swapped, _more, _fewer)
    for make in rng.sample(makers, len(makers)):
        if made := make(rng, tool, spoken):
            ordered = {p.name: made[p.name] for p in tool.params if p.name in made}
            return Task.of(tool.ask(rng, ordered), tool, [ordered])
    return None


def _swapped(rng: random.Random, tool: Tool, spoken: dict[str, Spoken]) -> dict[str, Spoken] | None:
    told = [p for p in tool.params if p.name in spoken and _free(p, spoken[p.name])]
    pairs = [
        (p.name, q.name)
        for i, p in enumerate(told)
        for q in told[:i]
        if p.schema == q.schema and spoken[p.name].value != spoken[q.name].value
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return {**spoken, a: spoken[b], b: spoken[a]}


def _free(p: Param, said: Spoken) -> bool:
    """Whether another parameter of its type could have the value, told in the same words."""
    return (
        set(p.schema) == {"type"}
        and p.schema["type"] in ("string", "integer", "number")
        and not said.whole
        and said.text == str(said.value)
    )


def _more(rng: random.Random, tool: Tool, spoken: dict[str, Spoken]) -> dict[str, Spoken] | None:
    left = [p for p in tool.params if p.name not in spoken]
    if not left:
        return None
    p = rng.choice(left)
    return {**spoken, p.name: p.draw(rng)}


def _fewer(rng: random.Random, tool: Tool, spoken: dict[str, Spoken]) -> dict[str, Spoken] | None:
    told = [p.name for p in tool.params if p.name in spoken and not p.required]
    if not told:
        return None
    gone = rng.choice(told)
    return {k: v for k, v in spoken.items() if k != gone}
