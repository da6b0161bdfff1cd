"""A tool, and a task: a request and the calls that answer it. Knows not how either is made."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.sketches import Sketch
from training.spoken import Param, Spoken

Call = tuple[str, dict[str, Any]]
Ask = Callable[[random.Random, dict[str, Spoken]], str]


@dataclass(frozen=True)
class Tool:
    """A tool as the model is told of it, and how people ask for it."""

    name: str
    about: str
    params: tuple[Param, ...]
    ask: Ask
    topic: str
    whole: bool = False
    """Requests are whole sentences that name every required argument."""
    sketch: Sketch | None = None
    """What a tool of an everyday domain was made of."""
    miss: Callable[[random.Random], str] | None = None
    """A request near by that a tool of an everyday domain does not serve."""

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "object", "properties": {p.name: p.json_schema() for p in self.params}}
        required = [p.name for p in self.params if p.required]
        if required:
            out["required"] = required
        return out

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.about, "parameters": self.schema()}


def ordered(rng: random.Random, params: dict[str, Param]) -> tuple[Param, ...]:
    """As a schema shows them: the required ones first, but for some."""
    out = list(params.values())
    if rng.random() < 0.85:
        out.sort(key=lambda p: not p.required)
    return tuple(out)


@dataclass(frozen=True)
class Task:
    """A request and the calls that answer it, in order."""

    request: str
    calls: tuple[Call, ...]
    spoken: tuple[dict[str, Spoken], ...]

    @classmethod
    def of(cls, request: str, tool: Tool, sets: Sequence[dict[str, Spoken]]) -> Task:
        """A call of one tool for each set of values."""
        return cls(request, tuple((tool.name, plain(s)) for s in sets), tuple(sets))


def arguments(rng: random.Random, tool: Tool, optional: float = 0.45) -> dict[str, Spoken]:
    """A value for each required parameter and some optional ones, in schema order."""
    out: dict[str, Spoken] = {}
    for p in tool.params:
        if p.required or rng.random() < optional:
            drawn = p.draw(rng)
            for _ in range(3):  # from Rome to Rome?
                if not isinstance(drawn.value, str) or all(drawn.value != o.value for o in out.values()):
                    break
                drawn = p.draw(rng)
            out[p.name] = drawn
    return out


def plain(spoken: dict[str, Spoken]) -> dict[str, Any]:
    return {name: s.value for name, s in spoken.items()}
