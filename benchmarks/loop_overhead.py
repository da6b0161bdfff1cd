"""What the loop itself costs: µs a turn with a model and tools that cost nothing. Knows no weights.

    python -m benchmarks.loop_overhead            measure, print, append to results/loop_overhead.jsonl
    python -m benchmarks.loop_overhead --dry-run  print only

A turn is one model turn with one call: events, parsing and validating its arguments, running the tool, its
result in the history. The scripted model says its events from a list; what that costs is measured beside as
`script alone`, and not subtracted. `plain asyncio + json` is the least any loop could do: parse the arguments,
call the function, append two messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.common import Record, append, interleave, make_record, seconds, show
from kogagent import Agent, Limits, RunFinished, Tool, UserMessage, tool
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import ScriptedModel, call

TURNS = (20, 100, 1000)
TOOLS = (1, 162)
_FREE = Limits(max_turns=None, max_calls=None)


@tool
async def look(path: str, depth: int = 1) -> list[str]:
    """Look at a folder.

    Args:
        path: the folder
        depth: how many levels
    """
    return [path, "a.txt"]


def _tools(count: int) -> list[Tool[..., Any]]:
    """`look` and others of the same kind."""
    others = [tool(look.function, name=f"look_{n}") for n in range(count - 1)]
    return [*others, look]


def _script(turns: int) -> ScriptedModel:
    """turns-1 calls, each with arguments of its own, and an answer. Fresh every time: nothing can be remembered."""
    salt = secrets.token_hex(4)
    return ScriptedModel(*[call("look", path=f"/{salt}/{n}", depth=n) for n in range(turns - 1)], "done")


def _per_turn(turns: int, run: Callable[[ScriptedModel], Coroutine[Any, Any, None]]) -> Callable[[], float]:
    def once() -> float:
        model = _script(turns)
        return seconds(lambda: asyncio.run(run(model))) / turns * 1e6

    return once


def _agent_run(tools: list[Tool[..., Any]], turns: int) -> Callable[[], float]:
    async def run(model: ScriptedModel) -> None:
        result = await Agent(model, tools, limits=_FREE).run("go")
        assert result.turns == turns

    return _per_turn(turns, run)


def _agent_stream(tools: list[Tool[..., Any]], turns: int) -> Callable[[], float]:
    async def run(model: ScriptedModel) -> None:
        async with Agent(model, tools, limits=_FREE).stream("go") as events:
            async for event in events:
                last = event
        assert isinstance(last, RunFinished) and last.result.turns == turns

    return _per_turn(turns, run)


def _script_alone(turns: int) -> Callable[[], float]:
    async def run(model: ScriptedModel) -> None:
        request = TurnRequest((UserMessage("go"),))
        for _ in range(turns):
            async for _event in model.stream(request):
                pass

    return _per_turn(turns, run)


def _plain(turns: int) -> Callable[[], float]:
    async def run(model: ScriptedModel) -> None:
        history: list[dict[str, Any]] = []
        for n in range(turns - 1):
            arguments = json.dumps({"path": f"/{n}", "depth": n})
            history.append({"role": "assistant", "arguments": arguments})
            result = await look(**json.loads(arguments))
            history.append({"role": "tool", "content": json.dumps(result)})

    return _per_turn(turns, run)


def measure(repeats: int) -> list[Record]:
    """One record a case: stream() is the figure, run() and the controls stand beside it."""
    records = []
    for count in TOOLS:
        tools = _tools(count)
        for turns in TURNS:
            figures = interleave(
                {
                    "stream": _agent_stream(tools, turns),
                    "run": _agent_run(tools, turns),
                    "script": _script_alone(turns),
                    "plain": _plain(turns),
                },
                repeats=repeats,
            )
            peers = {
                "agent.run": figures["run"],
                "script alone": figures["script"],
                "plain asyncio + json": figures["plain"],
            }
            case = f"scripted/turns{turns}/tools{count}"
            note = (
                "agent.stream, every event read; one call a turn; the event loop and the Agent are made anew"
            )
            record = make_record(
                "loop_overhead", case, "none", "us_per_turn", figures["stream"], peers=peers, note=note
            )
            records.append(record)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description="What the agent loop costs a turn, without a model.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args()
    records = measure(options.repeats)
    show(records)
    if not options.dry_run:
        append(records)


if __name__ == "__main__":
    main()
