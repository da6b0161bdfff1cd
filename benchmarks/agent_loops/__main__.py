"""python -m benchmarks.agent_loops [--model NAME] [--only scripted|demo] [--dry-run]"""

from __future__ import annotations

import argparse
import asyncio
import sys

from benchmarks.agent_loops.loops import demo_loop, scripted_loops
from benchmarks.agent_loops.measure import measure
from benchmarks.common import Record, append, show
from kogagent.demo import DEFAULT_MODEL
from kogagent.local import Engine

REPEATS = 5


async def _scripted() -> list[Record]:
    return [record for loop in scripted_loops() for record in await measure(loop, REPEATS)]


def _demo(model: str, device: str) -> list[Record]:
    with Engine.load(model, device=device) as engine:
        return asyncio.run(measure(demo_loop(engine, model), REPEATS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", choices=("scripted", "demo"))
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    options = parser.parse_args()
    records: list[Record] = []
    if options.only != "demo":
        records += asyncio.run(_scripted())
    if options.only != "scripted":
        records += _demo(options.model, options.device)
    show(records)
    if not options.dry_run:
        append(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
