"""The loops: what is asked of which model with which tools. Knows no clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kogagent import Agent, Limits, Message, Toolbox, tool
from kogagent.demo import demo_model, museum_agent, worked_examples
from kogagent.local import Engine
from kogagent.testing import ScriptedModel, call

TURNS = (20, 100)
TOOLS = (1, 8, 32, 162)
QUESTIONS = (
    "What did the Merlin expedition cost per day?",
    "What did the Osprey expedition cost per day?",
    "What did the Kestrel expedition cost per day?",
    "What did the Heron expedition cost per day?",
    "How much money did the shop take for mugs?",
    "How much money did the shop take for posters?",
)
"""Three calls each where all goes well; a repeat takes the next, so that none is asked twice."""
_FREE = Limits(max_turns=None, max_calls=None)


@dataclass(frozen=True, slots=True)
class Task:
    """One run: an agent, what it is asked, what went before."""

    agent: Agent
    prompt: str
    history: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A named workload; `tasks` gives a fresh one each time."""

    name: str
    backend: str
    tasks: Callable[[], Task]


@tool
async def look(path: str, depth: int = 1) -> list[str]:
    """Look at a folder.

    Args:
        path: the folder
        depth: how many levels
    """
    return [path, "a.txt"]


def scripted_loops() -> Iterator[Loop]:
    """No model at work: every turn's events come from a list, every tool returns at once."""
    for count in TOOLS:
        others = [tool(look.function, name=f"look_{n}") for n in range(count - 1)]
        box = Toolbox([*others, look])
        for turns in TURNS:
            yield Loop(f"scripted/{turns} turns/{count} tools", "scripted", _scripted(box, turns))


def _scripted(box: Toolbox, turns: int) -> Callable[[], Task]:
    def task() -> Task:
        salt = secrets.token_hex(4)
        calls: list[Any] = [call("look", path=f"/{salt}/{n}", depth=n) for n in range(turns - 1)]
        return Task(Agent(ScriptedModel(*calls, "done"), box, limits=_FREE), "go")

    return task


def demo_loop(engine: Engine, model: str) -> Loop:
    """The demo's agent on a real model: plan, call, observe, answer."""
    asked = iter(QUESTIONS)
    agent = museum_agent(demo_model(engine))

    def task() -> Task:
        question = next(asked)
        return Task(agent, question, worked_examples(question))

    return Loop(f"demo/{model}", engine.backend_name, task)
