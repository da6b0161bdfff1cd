"""What the loop itself costs: µs a turn with a model and tools that cost nothing. Knows no weights.

    python -m benchmarks.loop_overhead            measure, print, append to results/loop_overhead.jsonl
    python -m benchmarks.loop_overhead --dry-run  print only

A turn is one model turn with one call: events, parsing and validating its arguments, running the tool, its
result in the history. The scripted model says its events from a list; what that costs is measured beside as
`script alone`, and not subtracted. `plain asyncio + json` is the least any loop could do: parse the
arguments, call the function, append two messages. Agents and event loops are made once, as programs do.

The clock is the CPU time of the loop's thread: nothing here waits, so on an idle machine it is the wall time,
and on a busy one it leaves out what others take. The wall time stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from benchmarks.common import Figure, Record, append, interleave, make_record, show
from kogagent import Agent, Limits, RunFinished, Tool, Toolbox, UserMessage, tool
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
    """turns-1 calls, each with arguments of its own, and an answer: nothing can be remembered."""
    salt = secrets.token_hex(4)
    return ScriptedModel(*[call("look", path=f"/{salt}/{n}", depth=n) for n in range(turns - 1)], "done")


def _per_turn(
    runner: asyncio.Runner,
    turns: int,
    run: Callable[[ScriptedModel], Coroutine[Any, Any, None]],
    clock: Callable[[], float] = time.thread_time,
) -> Callable[[], float]:
    """Enough runs of so many turns for 1,000 turns; µs a turn."""

    async def timed() -> float:
        scripts = [_script(turns) for _ in range(max(1000 // turns, 1))]
        started = clock()
        for script in scripts:
            await run(script)
        return (clock() - started) / (turns * len(scripts)) * 1e6

    return lambda: runner.run(timed())


def _agent_run(toolbox: Toolbox, turns: int) -> Callable[[ScriptedModel], Coroutine[Any, Any, None]]:
    async def run(model: ScriptedModel) -> None:
        result = await Agent(model, toolbox, limits=_FREE).run("go")
        assert result.turns == turns

    return run


def _agent_stream(toolbox: Toolbox, turns: int) -> Callable[[ScriptedModel], Coroutine[Any, Any, None]]:
    async def run(model: ScriptedModel) -> None:
        async with Agent(model, toolbox, limits=_FREE).stream("go") as events:
            async for event in events:
                last = event
        assert isinstance(last, RunFinished) and last.result.turns == turns

    return run


def _script_alone(turns: int) -> Callable[[ScriptedModel], Coroutine[Any, Any, None]]:
    async def run(model: ScriptedModel) -> None:
        request = TurnRequest((UserMessage("go"),))
        for _ in range(turns):
            async for _event in model.stream(request):
                pass

    return run


def _plain(turns: int) -> Callable[[ScriptedModel], Coroutine[Any, Any, None]]:
    async def run(model: ScriptedModel) -> None:
        history: list[dict[str, Any]] = []
        for n in range(turns - 1):
            arguments = json.dumps({"path": f"/{n}", "depth": n})
            history.append({"role": "assistant", "arguments": arguments})
            result = await look(**json.loads(arguments))
            history.append({"role": "tool", "content": json.dumps(result)})

    return run


def measure(repeats: int) -> list[Record]:
    """One record a case: stream() is the figure, run() and the controls stand beside it."""
    records = []
    with asyncio.Runner() as runner:
        for count in TOOLS:
            toolbox = Toolbox(_tools(count))
            for turns in TURNS:
                runs = {
                    "stream": _agent_stream(toolbox, turns),
                    "run": _agent_run(toolbox, turns),
                    "script": _script_alone(turns),
                    "plain": _plain(turns),
                }
                clocked = {name: _per_turn(runner, turns, run) for name, run in runs.items()}
                clocked["wall"] = _per_turn(runner, turns, runs["stream"], time.perf_counter)
                figures = interleave(clocked, repeats=repeats)
                records.append(_record(f"scripted/turns{turns}/tools{count}", figures))
    return records


def _record(case: str, figures: Mapping[str, Figure]) -> Record:
    peers = {
        "wall time": figures["wall"],
        "agent.run": figures["run"],
        "script alone": figures["script"],
        "plain asyncio + json": figures["plain"],
    }
    note = "agent.stream, every event read; one call a turn; CPU time of the loop's thread"
    return make_record(
        "loop_overhead", case, "none", "us_per_turn", figures["stream"], peers=peers, note=note
    )


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
