"""The loops: what is asked of which model with which tools. Knows no clock, no other program.

Scripted loops have no model at work: their turns come from a list. Led loops have one: each turn's tool is
given, its arguments are the model's own under the grammar, so that any weights, a test's or a good model's,
do the same work. The demo's loop chooses everything itself.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.agent_loops.tools import find_tools, hear_tool, look_tools, repair_tools, slow_tool
from kogagent import Agent, AssistantMessage, Hooks, Limits, Message, Tool, Toolbox
from kogagent.demo import demo_history, demo_model, museum_agent
from kogagent.local import Engine
from kogagent.loop.protocols import Model, ModelSource, TurnRequest
from kogagent.testing import ScriptedModel, call

QUESTIONS = (
    "What did the Merlin expedition cost per day?",
    "What did the Osprey expedition cost per day?",
    "What did the Kestrel expedition cost per day?",
    "What did the Heron expedition cost per day?",
    "How much money did the shop take for mugs?",
    "How much money did the shop take for posters?",
)
"""Three calls each where all goes well; a repeat takes the next, so that none is asked twice."""
_FREE = Limits(max_turns=None, max_calls=None, repeated_calls=None, tool_retries=None, result_tokens=20_000)
_ANSWER_TOKENS = 32
_WARM_TURNS = 3  # of a led loop: tools pre-filled, grammar compiled, a turn that goes on from another
_RESULT_CHARS = 200_000  # long observations are the point of some loops


@dataclass(frozen=True, slots=True)
class Task:
    """One run: an agent, what it is asked, what went before."""

    agent: Agent
    prompt: str
    history: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A named workload; `tasks` gives a fresh one each time. warm_up: one that is not counted, and need not
    go on once everything has been met; None for a whole one."""

    name: str
    backend: str
    tasks: Callable[[], Task]
    warm_up: Callable[[], Task] | None = None


@dataclass(frozen=True, slots=True)
class Led:
    """A loop on a real model. steps: the tool of each turn, None for an answer of at most 32 tokens; a loop
    whose last step is a tool ends with that tool's result. tools: made anew for each task."""

    name: str
    tools: Callable[[str], list[Tool[..., Any]]]
    steps: tuple[str | None, ...]
    prompt: str

    def task(self, model: Model | ModelSource, turns: int | None = None) -> Task:
        """A fresh run. turns: the first ones alone."""
        salt = secrets.token_hex(4)
        hooks = Hooks(before_turn=self.lead)
        box = Toolbox(self.tools(salt), max_result_chars=_RESULT_CHARS)
        limits = replace(_FREE, max_turns=len(self.steps[:turns]), turn_tokens=256, turn_calls=1)
        agent = Agent(model, box, instructions=INSTRUCTIONS, hooks=hooks, limits=limits)
        return Task(agent, f"{self.prompt} ({salt})")

    def lead(self, request: TurnRequest) -> TurnRequest:
        """The request of a turn with this turn's tool."""
        said = list(map(type, request.messages)).count(AssistantMessage)
        step = self.steps[said]
        if step is None:
            return replace(request, tool_choice="none", max_tokens=_ANSWER_TOKENS)
        return replace(request, tool_choice=step)


INSTRUCTIONS = "Work step by step. Call one tool at a time."


# ── no model ─────────────────────────────────────────────────────────────────────────────────

SCRIPTED_TURNS = (1, 20, 100)
SCRIPTED_TOOLS = (1, 8, 32, 162)
LATENCIES_MS = (1, 10, 100)
PARALLEL = (1, 4, 8)


def scripted_loops(*, full: bool = True) -> Iterator[Loop]:
    """Every turn's events come from a list: tools that return at once, tools that take their time, several
    calls in a turn."""
    for count in SCRIPTED_TOOLS if full else (1, 162):
        box = Toolbox(look_tools(count))
        for turns in SCRIPTED_TURNS if full else (20, 100):
            yield Loop(f"scripted/{turns} turns/{count} tools", "scripted", _looking(box, turns))
    for latency in LATENCIES_MS if full else (10,):
        yield Loop(f"latency/{latency} ms", "scripted", _waiting(latency, 20, 1))
    for calls in PARALLEL if full else (8,):
        yield Loop(f"parallel/{calls} calls of 10 ms", "scripted", _waiting(10, 20, calls))


def _looking(box: Toolbox, turns: int) -> Callable[[], Task]:
    def task() -> Task:
        salt = secrets.token_hex(4)
        calls: list[Any] = [
            call("look", path=f"/{salt}/{n}", pattern="*.txt", depth=n % 10) for n in range(max(turns - 1, 1))
        ]
        answers = ["done"] if turns > 1 else []
        limits = replace(_FREE, max_turns=turns)
        return Task(Agent(ScriptedModel(*calls, *answers), box, limits=limits), "go")

    return task


def _waiting(latency_ms: float, turns: int, calls: int) -> Callable[[], Task]:
    box = Toolbox([slow_tool(latency_ms, asyncio.sleep)])

    def task() -> Task:
        salt = secrets.token_hex(4)
        turn = [[call("fetch", key=f"{salt}-{n}-{m}") for m in range(calls)] for n in range(turns - 1)]
        return Task(Agent(ScriptedModel(*turn, "done"), box, limits=_FREE), "go")

    return task


# ── a model at work ──────────────────────────────────────────────────────────────────────────

CALL_TURNS = (1, 20, 100)
CALL_TOOLS = (1, 8, 32, 162)
OBSERVED_TOKENS = (100, 500, 2000, 8000)


def led_loops(*, full: bool = True) -> Iterator[Led]:
    """Loops of calls with zero-cost tools, of long observations, edit-test-fix, search-and-answer. Which of
    them fit a model's context is found out by running them."""
    for count in CALL_TOOLS if full else (1, 8):
        for turns in CALL_TURNS if full else (20,):
            yield calls_loop(turns, count)
    for size in OBSERVED_TOKENS if full else (500,):
        yield Led(
            f"observe/{size} tokens",
            hear_tool(size),
            ("read_log",) * 4 + (None,),
            "What went wrong on which day?",
        )
    yield Led(
        "edit-test-fix",
        repair_tools,
        ("list_files", "read_file", "run_tests", "edit_line", "run_tests", None),
        "The test of mean.py fails. Repair it.",
    )
    yield Led(
        "search-and-answer",
        find_tools,
        ("search", "read_document", "search", "read_document", None),
        "Which expedition found a skull, and who led it?",
    )


def calls_loop(turns: int, tools: int) -> Led:
    """So many calls of `look`, each with arguments of the model's own."""

    def made(salt: str) -> list[Tool[..., Any]]:
        return look_tools(tools)

    return Led(
        f"calls/{turns} turns/{tools} tools", made, ("look",) * turns, "List every folder, one by one."
    )


def led(engine: Engine, one: Led, model: str, switch: str = "", **options: Any) -> Loop:
    """A led loop on an engine. options: switches of Engine.model, named by `switch`."""
    _ = engine.chat  # read once an engine: no run's business
    source: ModelSource = _Switched(engine, options) if options else engine
    name = f"{one.name}/{model}" + (f"/{switch}" if switch else "")
    return Loop(name, engine.backend_name, lambda: one.task(source), lambda: one.task(source, _WARM_TURNS))


@dataclass(frozen=True, slots=True)
class _Switched:
    """An engine with options set, to see what each is worth."""

    engine: Engine
    options: dict[str, Any]

    def as_model(self) -> Model:
        return self.engine.model(**self.options)


SWITCHES: dict[str, dict[str, Any]] = {"no forced runs": {"forced_runs": False}, "no reuse": {"reuse": False}}
"""What can be turned off while the loop stays the same. Without the grammar a model writes what it likes,
and there is no loop to compare: peers.py plays the same tokens without it."""


def demo_loop(engine: Engine, model: str) -> Loop:
    """The demo's agent on a real model: plan, call, observe, answer."""
    asked = iter(QUESTIONS)
    agent = museum_agent(demo_model(engine))

    def task() -> Task:
        question = next(asked)
        return Task(agent, question, demo_history(engine, question))

    return Loop(f"demo/{model}", engine.backend_name, task)
