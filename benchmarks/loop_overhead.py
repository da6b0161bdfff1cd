"""What the loop itself costs: µs a turn with a model and tools that cost nothing. Knows no weights.

    python -m benchmarks.loop_overhead            measure, print, append to results/loop_overhead.jsonl
    python -m benchmarks.loop_overhead --dry-run  print only
    make peers                                    install the SDKs it is compared with, in .venv-peers

A turn is one model turn with one call: events, parsing and validating its arguments, running the tool, its
result in the history. What a model does to make its events is none of the loop's work, so the model here has
them ready: it is a generator that yields what ScriptedModel gave beforehand, call started, its arguments,
call, end; what yielding costs is measured beside as `model alone`, and not subtracted. `ScriptedModel` is the
same run on the test double itself, which makes its events as it plays. `plain asyncio + json` is the least
any loop could do: parse the arguments, call the function, append two messages. Agents and event loops are
made once, as programs do.

With one tool, two runs that do more are measured as records of their own: `observed`, with a Trace, and
`stored`, with every turn safe in a SessionStore before its calls run.

The clock is the CPU time of the process: nothing here waits, so on an idle machine it is the wall time,
and on a busy one it leaves out what others take. The wall time stands beside it.

Other SDKs (benchmarks/loop_peers) play the same script, their models too with everything ready that they will
say, each in a process of its own under --peers' Python, in the same rounds. Some of them take minutes for
1,000 turns: there each is run once, unless --full is given, and the record's note says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.child import Child, PeerFailed
from benchmarks.common import ROOT, Figure, Record, append, interleave, make_record, show
from benchmarks.loop_peers.script import PEERS, look, names
from kogagent import (
    Agent,
    Limits,
    Observer,
    RunFinished,
    SessionStore,
    Tool,
    Toolbox,
    Transcript,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import Model, TurnRequest
from kogagent.observe import Trace
from kogagent.testing import ScriptedModel, call
from kogagent.types import ModelEvent

TURNS = (20, 100, 1000)
TOOLS = (1, 162)
_FREE = Limits(max_turns=None, max_calls=None)


PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
_SLOW = 1000
"""From so many turns on, peers are run once: they grow with the history."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another SDK, ready in a process of its own."""

    name: str
    version: str
    child: Child

    def run(self, turns: int, tools: int) -> float:
        """µs of CPU time a turn, over enough runs for 100 turns."""
        runs = max(100 // turns, 1)
        asked = {"turns": turns, "tools": tools, "runs": runs}
        spent = json.loads(self.child.ask(json.dumps(asked), seconds=3600))
        return float(spent["cpu"]) / (turns * runs) * 1e6


def start_peers(python: Path, wanted: Iterable[str] = PEERS) -> tuple[list[Peer], list[str]]:
    """(those that run under this Python, why each other one does not)."""
    ready, failed = [], []
    for name in wanted:
        try:
            child = Child([str(python), "-m", "benchmarks.loop_peers", name], name, seconds=300)
            ready.append(Peer(name, child.ask("version"), child))
        except PeerFailed as error:
            failed.append(str(error))
    return ready, failed


def _tools(count: int) -> list[Tool[..., Any]]:
    """`look` and others of the same kind."""
    return [tool(look, name=name) for name in names(count)]


_REQUEST = TurnRequest((UserMessage("go"),))


class Prepared:
    """The least a model can be: a generator of events that are there, a turn after the other."""

    def __init__(self, turns: Iterable[Sequence[ModelEvent]]) -> None:
        self._turns = iter(turns)

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        for event in next(self._turns):
            yield event


Play: TypeAlias = Callable[[Model], Coroutine[Any, Any, None]]


def _script(turns: int) -> ScriptedModel:
    """turns-1 calls, each with arguments of its own, and an answer: nothing can be remembered."""
    salt = secrets.token_hex(4)
    return ScriptedModel(*[call("look", path=f"/{salt}/{n}", depth=n) for n in range(turns - 1)], "done")


async def _prepared(turns: int) -> Prepared:
    """What `_script` says."""
    script = _script(turns)
    return Prepared([[event async for event in script.stream(_REQUEST)] for _ in range(turns)])


def _per_turn(
    runner: asyncio.Runner,
    turns: int,
    run: Play,
    clock: Callable[[], float] = time.process_time,
    *,
    prepared: bool = True,
) -> Callable[[], float]:
    """Enough runs of so many turns for 1,000 turns; µs a turn. prepared: by a model whose events are there,
    else by one that makes them."""

    async def timed() -> float:
        runs = range(max(1000 // turns, 1))
        scripts: list[Model] = [await _prepared(turns) if prepared else _script(turns) for _ in runs]
        started = clock()
        for script in scripts:
            await run(script)
        return (clock() - started) / (turns * len(scripts)) * 1e6

    return lambda: runner.run(timed())


def _agent_run(toolbox: Toolbox, turns: int) -> Play:
    agent = Agent(_script(1), toolbox, limits=_FREE)

    async def run(model: Model) -> None:
        agent.model = model
        result = await agent.run("go")
        assert result.turns == turns

    return run


def _agent_stream(
    toolbox: Toolbox,
    turns: int,
    observers: Sequence[Observer] = (),
    open_session: Callable[[str], Transcript] | None = None,
) -> Play:
    agent = Agent(_script(1), toolbox, limits=_FREE, observers=observers)

    async def run(model: Model) -> None:
        history = None if open_session is None else open_session(secrets.token_hex(8))
        agent.model = model
        async with agent.stream("go", history=history) as events:
            async for event in events:
                last = event
        assert isinstance(last, RunFinished) and last.result.turns == turns

    return run


def _model_alone(turns: int) -> Play:
    async def run(model: Model) -> None:
        for _ in range(turns):
            async for _event in model.stream(_REQUEST):
                pass

    return run


def _plain(turns: int) -> Play:
    async def run(model: Model) -> None:
        history: list[dict[str, Any]] = []
        for n in range(turns - 1):
            arguments = json.dumps({"path": f"/{n}", "depth": n})
            history.append({"role": "assistant", "arguments": arguments})
            result = await look(**json.loads(arguments))
            history.append({"role": "tool", "content": json.dumps(result)})

    return run


def measure(repeats: int, peers: Sequence[Peer], turns: Sequence[int], *, full: bool) -> list[Record]:
    """One record a case: stream() is the figure, run() and the controls stand beside it; with peers a second
    one, in whose rounds they took turns."""
    records = []
    with (
        tempfile.TemporaryDirectory() as folder,
        SessionStore(Path(folder) / "sessions.db") as store,
        asyncio.Runner() as runner,
    ):
        for count in TOOLS:
            toolbox = Toolbox(_tools(count))
            for length in turns:
                runs = {
                    "stream": _agent_stream(toolbox, length),
                    "run": _agent_run(toolbox, length),
                    "model": _model_alone(length),
                    "plain": _plain(length),
                }
                if count == TOOLS[0]:
                    runs["observed"] = _agent_stream(toolbox, length, [Trace(limit=1)])
                    runs["stored"] = _agent_stream(toolbox, length, open_session=store.open)
                clocked = {name: _per_turn(runner, length, run) for name, run in runs.items()}
                clocked["wall"] = _per_turn(runner, length, runs["stream"], time.perf_counter)
                clocked["scripted"] = _per_turn(runner, length, runs["stream"], prepared=False)
                once = length >= _SLOW and not full
                beside = {peer.name: _peer_run(peer, length, count) for peer in peers}
                figures = interleave(clocked | ({} if once else beside), repeats=repeats)
                if once:
                    figures |= {name: Figure((run(),)) for name, run in beside.items()}
                case = f"turns{length}/tools{count}"
                records.append(_record(f"scripted/{case}", figures))
                if count == TOOLS[0]:
                    records += [_variant(kind, case, figures) for kind in _VARIANTS]
                if peers:
                    records.append(_beside(f"peers/{case}", figures, peers, once=once))
    return records


def _peer_run(peer: Peer, turns: int, tools: int) -> Callable[[], float]:
    return lambda: peer.run(turns, tools)


def _record(case: str, figures: Mapping[str, Figure]) -> Record:
    peers = {
        "wall time": figures["wall"],
        "agent.run": figures["run"],
        "ScriptedModel": figures["scripted"],
        "model alone": figures["model"],
        "plain asyncio + json": figures["plain"],
    }
    note = "agent.stream, every event read; one call a turn; events made beforehand; CPU time of the process"
    return make_record(
        "loop_overhead", case, "none", "us_per_turn", figures["stream"], peers=peers, note=note
    )


_VARIANTS = {
    "observed": "agent.stream watched by a Trace, which keeps every event as JSON",
    "stored": "agent.stream on a session of a SessionStore, every turn written before its calls run; the "
    "store's thread is counted",
}


def _variant(kind: str, case: str, figures: Mapping[str, Figure]) -> Record:
    """What a run costs that does more than the plain one, beside which it stands."""
    peers = {"nothing of it": figures["stream"]}
    note = f"{kind}: {_VARIANTS[kind]}; CPU time of the process"
    return make_record(
        "loop_overhead", f"{kind}/{case}", "none", "us_per_turn", figures[kind], peers=peers, note=note
    )


def _beside(case: str, figures: Mapping[str, Figure], peers: Sequence[Peer], *, once: bool) -> Record:
    """agent.run beside the other SDKs: whole runs without events, as they were asked for."""
    versions = ", ".join(f"{peer.name} {peer.version}" for peer in peers)
    note = f"agent.run; {versions}; CPU time of each process" + ("; each peer run once" if once else "")
    values = {peer.name: figures[peer.name] for peer in peers} | {"plain asyncio + json": figures["plain"]}
    return make_record("loop_overhead", case, "none", "us_per_turn", figures["run"], peers=values, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the agent loop costs a turn, without a model.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--turns", type=int, nargs="+", default=list(TURNS))
    parser.add_argument("--peers", type=Path, default=PEERS_PYTHON, help="a Python with the other SDKs")
    parser.add_argument("--full", action="store_true", help="peers of 1,000 turns as often as everything")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args()
    peers, failed = start_peers(options.peers) if options.peers.exists() else ([], [])
    for reason in failed or ([] if peers else [f"no other SDKs: there is no {options.peers} (make peers)"]):
        print(f"left out: {reason}", file=sys.stderr)
    try:
        records = measure(options.repeats, peers, options.turns, full=options.full)
    finally:
        for peer in peers:
            peer.child.close()
    show(records)
    if not options.dry_run:
        append(records)


if __name__ == "__main__":
    main()
