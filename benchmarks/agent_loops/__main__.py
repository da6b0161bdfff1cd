"""Agent loops on this machine: turns a second, where their time goes, what stands beside.

    python -m benchmarks.agent_loops                    two minutes, appended to results/agent_loops.jsonl
    python -m benchmarks.agent_loops --full             all of it
    python -m benchmarks.agent_loops --model laneformer-nano random:laneformer-2b --seconds 280
    python -m benchmarks.agent_loops compare OLD NEW    two results, case by case
    python -m benchmarks.agent_loops report             charts and tables of the newest results

README.md says what each loop measures. Lines are written as they come: what stops a run loses the rest alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
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
from benchmarks.agent_loops.models import label, open_engine
from benchmarks.agent_loops.peers import Peers, Played
from benchmarks.agent_loops.prefixes import Prefixes, resident
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
COMPARED = calls_loop(20, 1)
"""What peers play too."""
PARTS = ("scripted", "peers", "model", "prefixes", "demo")


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
        others = {}
        if name == one.name:
            others = {p: figures[p] for p in figures if p not in loops and not math.isnan(figures[p].value)}
        note = "; ".join(peers.notes) if others else ""
        out += records(loop, runs[name][-repeats:], others, note)
    return out


Part = tuple[str, Callable[[], list[Record]]]
"""A name, and what gives its records."""


def scripted_parts(runner: asyncio.Runner, options: argparse.Namespace) -> Iterator[Part]:
    for loop in scripted_loops(full=options.full):
        yield loop.name, lambda loop=loop: runner.run(measure(loop, options.repeats))  # type: ignore[misc]


def model_parts(
    runner: asyncio.Runner, engine: Engine, model: str, options: argparse.Namespace, left_out: list[str]
) -> Iterator[Part]:
    """What is measured on one model, the most wanted first."""
    name, repeats = label(model), options.repeats

    def compared() -> list[Record]:
        compiled = options.full or engine.backend_name == "cuda"
        with Peers(
            engine,
            model,
            device=options.device,
            llama_python=options.llama,
            seconds=options.peer_seconds,
            compiled=compiled,
        ) as peers:
            found = beside(runner, engine, COMPARED, name, peers, repeats)
            left_out.extend(peers.left_out)
        return found

    if "peers" in options.parts:
        yield f"peers/{name}", compared
    if "model" in options.parts:
        for one in led_loops(full=options.full):
            if one.name == COMPARED.name and "peers" in options.parts:
                continue  # measured among its peers
            yield f"{one.name}/{name}", partial(led_records, runner, led(engine, one, name), repeats)
    if "prefixes" in options.parts:
        yield f"forks/{name}", lambda: Prefixes(runner, engine, name).forks(repeats)
        yield f"resident/{name}", lambda: resident(runner, engine, model, name, options.device, repeats)


def led_records(runner: asyncio.Runner, loop: Loop, repeats: int) -> list[Record]:
    return runner.run(measure(loop, repeats))


class Taker:
    """Measures parts one after the other, writes what each gives, leaves out what the time does not allow."""

    def __init__(self, options: argparse.Namespace, left_out: list[str]) -> None:
        self._options, self.left_out = options, left_out
        self._ends = time.monotonic() + (options.seconds or math.inf)
        self.found: list[Record] = []
        self.apart: list[str] = []

    def take(self, parts: Iterator[Part]) -> None:
        wanted = self._options.loops
        for name, part in parts:
            if wanted and not any(text in name for text in wanted):
                continue
            if time.monotonic() > self._ends:
                self.left_out.append(f"{name}: the {self._options.seconds:g} seconds were over")
                continue
            started = time.monotonic()
            try:
                found = part()
            except ContextError as error:
                self.left_out.append(f"{name}: {error}")
                continue
            print(f"  {name} took {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
            apart = sorted({record.case for record in found if _apart(record, found)})
            self.apart += apart
            self._write([record for record in found if record.case not in apart])

    def _write(self, found: list[Record]) -> None:
        self.found += found
        if self._options.out is not None:
            with self._options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found)
        elif not self._options.dry_run:
            append(found)


def run(options: argparse.Namespace) -> int:
    options.parts = options.only or [part for part in PARTS if part != "demo" or options.full]
    left_out: list[str] = []
    taker = Taker(options, left_out)
    if options.out is not None:
        options.out.write_text("", encoding="utf-8")
    with asyncio.Runner() as runner:
        if "scripted" in options.parts:
            taker.take(scripted_parts(runner, options))
        if {"model", "peers", "prefixes"} & set(options.parts):
            for model in options.model:
                with open_engine(model, options.device) as engine:
                    taker.take(model_parts(runner, engine, model, options, left_out))
        if "demo" in options.parts:
            with Engine.load(DEFAULT_MODEL, device=options.device) as engine:
                loop = demo_loop(engine, DEFAULT_MODEL)
                taker.take(iter([(loop.name, lambda: led_records(runner, loop, REPEATS))]))
    show(taker.found)
    for reason in left_out:
        print(f"left out: {reason}")
    if taker.apart:
        print(f"not recorded: the phases miss the clock by over {APART:.0%} in {', '.join(taker.apart)}")
    return 1 if taker.apart else 0


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
        "--model",
        nargs="+",
        default=["laneformer-nano"],
        help="known names, directories, .gguf files, or random:SHAPE for random weights",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only", choices=PARTS, nargs="+", help="these parts alone")
    parser.add_argument("--loops", nargs="+", metavar="TEXT", help="those with one of these in their name")
    parser.add_argument("--llama", type=Path, help="a Python that has llama-cpp-python")
    parser.add_argument("--peer-seconds", type=float, default=2.0, help="of a run of a peer, at most")
    parser.add_argument("--seconds", type=float, help="after so many no new part is begun")
    parser.add_argument("--out", type=Path, help="write the lines to this file instead of the results")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args(words)
    if options.repeats < REPEATS:
        parser.error(f"--repeats {options.repeats}: a median needs at least {REPEATS}")
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
