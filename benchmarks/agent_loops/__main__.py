"""Agent loops on this machine: turns a second, where their time goes, what stands beside.

    python -m benchmarks.agent_loops                    two minutes, appended to results/agent_loops.jsonl
    python -m benchmarks.agent_loops --full             all of it
    python -m benchmarks.agent_loops compare OLD NEW    two results, case by case
    python -m benchmarks.agent_loops report             charts and tables of the newest results

README.md says what each loop measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.agent_loops.compare import compare
from benchmarks.agent_loops.loops import (
    SWITCHES,
    Led,
    Loop,
    calls_loop,
    demo_loop,
    led,
    led_loops,
    scripted_loops,
)
from benchmarks.agent_loops.measure import Timed, measure, records, timed
from benchmarks.agent_loops.peers import Peers, Played
from benchmarks.agent_loops.report import RESULTS, write_report
from benchmarks.agent_loops.tape import Tape
from benchmarks.common import Record, append, interleave, show
from kogagent.demo import DEFAULT_MODEL
from kogagent.errors import ContextError
from kogagent.local import Engine

REPEATS = 5
APART = 0.02
"""How far a loop's phases may be from an independent clock, as a share: what is further is not recorded."""
_SLACK_MS = 1.0  # a run: starting and ending one is no part of any turn
PARTS = ("scripted", "model", "peers", "demo")


def beside(
    runner: asyncio.Runner, engine: Engine, one: Led, model: str, peers: Peers, repeats: int
) -> list[Record]:
    """A loop of calls, its switches and its peers in the same rounds."""
    tape = Tape(engine)
    loops = {one.name: Loop(f"{one.name}/{model}", engine.backend_name, lambda: one.task(tape))}
    loops |= {switch: led(engine, one, model, switch, **options) for switch, options in SWITCHES.items()}
    runs: dict[str, list[Timed]] = {name: [] for name in loops}
    newest: list[Played] = []

    def run(name: str, loop: Loop) -> Callable[[], float]:
        def once() -> float:
            task = loop.tasks()
            done = runner.run(timed(task))
            runs[name].append(done)
            if name == one.name:
                newest[:] = [Played(task.prompt, one.tools(""), list(tape.steps), done.calls)]
            return done.turns_per_second

        return once

    ours = {name: run(name, loop) for name, loop in loops.items()}
    ours[one.name]()
    peers.check(runner, newest[0].steps[0].prompt)
    figures = interleave(ours | peers.runs(runner, lambda: newest[0]), repeats)
    out: list[Record] = []
    for name, loop in loops.items():
        others = {peer: figures[peer] for peer in figures if peer not in loops} if name == one.name else {}
        note = "; ".join(peers.notes) if others else ""
        out += records(loop, runs[name][-repeats:], others, note)
    return out


def model_records(
    runner: asyncio.Runner, options: argparse.Namespace, parts: Sequence[str]
) -> tuple[list[Record], list[str]]:
    """(records, what was left out and why) of the loops on a model."""
    model, out, left_out = Path(options.model).stem, [], []
    with Engine.load(options.model, device=options.device) as engine:
        if "model" in parts:
            for one in led_loops(full=options.full):
                try:
                    out += runner.run(measure(led(engine, one, model), options.repeats))
                except ContextError as error:
                    left_out.append(f"{one.name}: {error}")
                print(f"  {one.name}", file=sys.stderr, flush=True)
        if "peers" in parts:
            with Peers(engine, options.model, device=options.device, llama_python=options.llama) as peers:
                out += beside(runner, engine, calls_loop(20, 1), model, peers, options.repeats)
                left_out += peers.left_out
    return out, left_out


def run(options: argparse.Namespace) -> int:
    parts = options.only or [part for part in PARTS if part != "demo" or options.full]
    found: list[Record] = []
    left_out: list[str] = []
    with asyncio.Runner() as runner:
        if "scripted" in parts:
            for loop in scripted_loops(full=options.full):
                found += runner.run(measure(loop, options.repeats))
        if "model" in parts or "peers" in parts:
            more, without = model_records(runner, options, parts)
            found += more
            left_out += without
        if "demo" in parts:
            with Engine.load(DEFAULT_MODEL, device=options.device) as engine:
                found += runner.run(measure(demo_loop(engine, DEFAULT_MODEL), REPEATS))
    show(found)
    for reason in left_out:
        print(f"left out: {reason}")
    apart = sorted({record.case for record in found if _apart(record, found)})
    if apart:
        print(f"not recorded: the phases miss the clock by over {APART:.0%} in {', '.join(apart)}")
        found = [record for record in found if record.case not in apart]
    if options.out is not None:
        lines = (json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in found)
        options.out.write_text("".join(lines), encoding="utf-8")
    elif not options.dry_run:
        append(found)
    return 1 if apart else 0


def _apart(record: Record, found: Sequence[Record]) -> bool:
    """Whether this is the record of a loop whose phases do not make up its time. A whole run's start and end
    are no turn's: short runs have a millisecond for them."""
    if record.metric != "missed_share":
        return False
    turns = next(r for r in found if (r.case, r.metric) == (record.case, "turns_s"))
    run_ms = float(turns.note.split(" turns")[0]) / turns.value * 1e3
    return record.value > APART + _SLACK_MS / run_ms


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agent_loops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if words[:1] == ["compare"]:
        parser.add_argument("old", type=Path)
        parser.add_argument("new", type=Path)
        options = parser.parse_args(words[1:])
        print(compare(options.old, options.new))
        return 0
    if words[:1] == ["report"]:
        parser.add_argument("results", type=Path, nargs="?", default=RESULTS)
        parser.add_argument(
            "--to", type=Path, default=Path("agent-loops-report"), help="a folder for the files"
        )
        options = parser.parse_args(words[1:])
        for path in write_report(options.results, options.to):
            print(path)
        return 0
    parser.add_argument("--full", action="store_true", help="every workload; without it a two-minute set")
    parser.add_argument(
        "--model", default="laneformer-nano", help="a known name, a directory or a .gguf file"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only", choices=PARTS, nargs="+", help="these parts alone")
    parser.add_argument("--llama", type=Path, help="a Python that has llama-cpp-python")
    parser.add_argument("--out", type=Path, help="write the lines to this file instead of the results")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args(words)
    if options.repeats < REPEATS:
        parser.error(f"--repeats {options.repeats}: a median needs at least {REPEATS}")
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
