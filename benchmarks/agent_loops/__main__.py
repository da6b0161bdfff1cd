"""Agent loops on this machine: turns a second, where their time goes, what stands beside.

    python -m benchmarks.agent_loops                    two minutes, appended to results/agent_loops.jsonl
    python -m benchmarks.agent_loops --full             all of it, peers included
    python -m benchmarks.agent_loops --full --resume --seconds 400    in pieces: once more until all is done
    python -m benchmarks.agent_loops --model laneformer-nano random:laneformer-2b --seconds 280
    python -m benchmarks.agent_loops compare OLD NEW    two results, case by case
    python -m benchmarks.agent_loops report             charts and tables of the newest results

README.md says what each loop measures. Lines are written as they come: what stops a run loses the rest alone.
Peers that need a Python of their own are looked for in .venv-peers (make peers) and where
KOGAGENT_PEERS_PYTHON says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.agent_loops.compare import compare, lines_of
from benchmarks.agent_loops.loops import Led
from benchmarks.agent_loops.models import LONG, label, open_engine
from benchmarks.agent_loops.parts import (
    PARTS,
    REPEATS,
    Part,
    demo_part,
    host_parts,
    long_parts,
    model_parts,
    peers_part,
    scripted_parts,
)
from benchmarks.agent_loops.report import RESULTS, write_report
from benchmarks.common import Record, append, commit, show
from kogagent.demo import DEFAULT_MODEL
from kogagent.errors import ContextError, InputError
from kogagent.local import Engine
from kogagent.local.names import NANO, SMOLLM2, known_models

APART = 0.02
"""How far a loop's phases may be from an independent clock, as a share: what is further is not recorded."""
_SLACK_MS = 1.0  # a run: starting and ending one is no part of any turn


class Taker:
    """Measures parts one after the other, writes what each gives, leaves out what the time does not allow.

    unfit: the loops that no model has held so far, by name.
    """

    def __init__(self, options: argparse.Namespace, left_out: list[str]) -> None:
        self._options, self.left_out = options, left_out
        self._ends = time.monotonic() + (options.seconds or math.inf)
        self._before = _of_this_commit(options.out or RESULTS) if options.resume else []
        self.found: list[Record] = []
        self.apart: list[str] = []
        self.unfit: dict[str, Led] = {}
        self._held: set[str] = set()

    def take(self, parts: Iterable[Part]) -> None:
        wanted = self._options.loops
        for part in parts:
            if wanted and not any(text in part.name for text in wanted):
                continue
            if any(part.done(record) for record in self._before):
                self._has_held(part)
                continue
            if time.monotonic() > self._ends:
                self.left_out.append(f"{part.name}: the {self._options.seconds:g} seconds were over")
                continue
            started = time.monotonic()
            try:
                found = part.records()
            except ContextError as error:
                self.left_out.append(f"{part.name}: {error}")
                if part.loop is not None and part.loop.name not in self._held:
                    self.unfit[part.loop.name] = part.loop
                continue
            self._has_held(part)
            print(f"  {part.name} took {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
            apart = sorted({record.case for record in found if _apart(record, found)})
            self.apart += apart
            self._write([record for record in found if record.case not in apart])

    def _has_held(self, part: Part) -> None:
        if part.loop is not None:
            self._held.add(part.loop.name)
            self.unfit.pop(part.loop.name, None)

    def _write(self, found: list[Record]) -> None:
        self.found += found
        if self._options.out is not None:
            with self._options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found)
        elif not self._options.dry_run:
            append(found)


def run(options: argparse.Namespace) -> int:
    left_out: list[str] = []
    if options.out is not None and not options.resume:
        options.out.write_text("", encoding="utf-8")
    taker, kinds = Taker(options, left_out), set(options.parts)
    with asyncio.Runner() as runner:

        def on(model: str, parts: Callable[[Engine], Iterable[Part]]) -> None:
            """Take parts that need an engine, which may not be had here."""
            try:
                engine = open_engine(model, options.device)
            except InputError as error:
                if model in options.model:
                    raise
                left_out.append(f"{label(model)}: {error}")
                return
            with engine:
                taker.take(parts(engine))

        if "scripted" in kinds:
            taker.take(scripted_parts(runner, options))
        if "host" in kinds:
            taker.take(host_parts(runner, options))
        for model in options.model if kinds & {"model", "peers", "prefixes"} else ():
            on(model, lambda e, m=model: model_parts(runner, e, m, options, left_out))  # type: ignore[misc]
        for model in options.compared if "peers" in kinds else ():
            if model not in options.model:
                on(model, lambda e, m=model: [peers_part(runner, e, m, options, left_out, switches=False)])  # type: ignore[misc]
        if options.long and (taker.unfit or "growth" in kinds):
            on(options.long, lambda e: long_parts(runner, e, options.long, options, dict(taker.unfit)))
        if "demo" in kinds:
            on(DEFAULT_MODEL, lambda e: [demo_part(runner, e)])
    show(taker.found)
    for reason in left_out:
        print(f"left out: {reason}")
    if taker.apart:
        print(f"not recorded: the phases miss the clock by over {APART:.0%} in {', '.join(taker.apart)}")
    return 1 if taker.apart else 0


def _of_this_commit(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that this commit has measured on this machine."""
    return [] if not path.exists() else [line for line in lines_of(path) if line["commit"] == commit()]


def _apart(record: Record, found: Sequence[Record]) -> bool:
    """Whether this is the record of a loop whose phases do not make up its time. A whole run's start and end
    are no turn's: short runs have a millisecond for them."""
    if record.metric != "missed_share":
        return False
    turns = next(r for r in found if (r.case, r.metric) == (record.case, "turns_s"))
    run_ms = float(turns.note.split(" turns")[0]) / turns.value * 1e3
    return record.value > APART + _SLACK_MS / run_ms


def _server(text: str) -> tuple[str, str]:
    name, found, url = text.partition("=")
    if not (name and found and url.startswith("http")):
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=URL, like vllm=http://127.0.0.1:8000/v1")
    return name, url


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
    add = parser.add_argument
    add("--full", action="store_true", help="every workload; without it a two-minute set")
    names = "known names, directories, .gguf files, or random:SHAPE for random weights"
    add("--model", nargs="+", default=[NANO], help=names)
    add(
        "--compared",
        nargs="+",
        metavar="MODEL",
        help="whose peers play; by default --model's, with --full SmolLM2's",
    )
    add(
        "--long",
        metavar="MODEL",
        help="plays what no --model's context holds, by default with --full " + LONG,
    )
    add("--device", default="auto")
    add("--repeats", type=int, default=REPEATS)
    add("--only", choices=PARTS, nargs="+", help="these parts alone")
    add("--loops", nargs="+", metavar="TEXT", help="those with one of these in their name")
    add(
        "--server",
        nargs="+",
        type=_server,
        default=[],
        metavar="NAME=URL",
        help="OpenAI-style servers of the same model that run already: peers",
    )
    add("--peer-seconds", type=float, default=2.0, help="of a run of a peer, at most")
    add("--seconds", type=float, help="after so many no new part is begun")
    add(
        "--resume",
        action="store_true",
        help="leave out what this commit has measured already, in the file written to",
    )
    add("--out", type=Path, help="write the lines to this file instead of the results")
    add("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args(words)
    if options.repeats < REPEATS:
        parser.error(f"--repeats {options.repeats}: a median needs at least {REPEATS}")
    if options.resume and options.dry_run:
        parser.error("--resume goes on with what was recorded, --dry-run records nothing: give one of them")
    options.server = dict(options.server)
    options.parts = options.only or [part for part in PARTS if options.full or part not in ("demo", "growth")]
    if options.compared is None:
        here = options.full and known_models()[SMOLLM2] is None
        options.compared = [*options.model, *([SMOLLM2] if here else [])]
    if options.long is None and (options.full or "growth" in options.parts):
        options.long = LONG
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
