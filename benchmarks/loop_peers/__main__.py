"""One SDK in a process of its own: python -m benchmarks.loop_peers SDK

Every line on its input is one JSON object, {"turns": T, "tools": N, "runs": R}; the answer is one with the
seconds of R runs, {"cpu": …, "wall": …}. The SDK must be installed in the Python that runs this; ours need
not be.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

from benchmarks.child import answer_lines
from benchmarks.loop_peers.script import PEERS, Script

Run = Callable[[Script[Any]], Awaitable[int]]
"""Plays a script once; returns how many tool results the model has read."""


def main() -> None:
    package, name = PEERS[sys.argv[1]]
    module = importlib.import_module(f"benchmarks.loop_peers.{name}")
    prepare: Callable[[int], Run] = module.prepare
    made: dict[int, Run] = {}  # agents are made once, as programs do

    async def timed(run: Run, turns: int, runs: int) -> dict[str, float]:
        scripts = [Script(turns, secrets.token_hex(4), module.say) for _ in range(runs)]
        cpu, wall = time.process_time(), time.perf_counter()
        for script in scripts:
            read = await run(script)
            if read != turns - 1 or script.played != turns:
                raise AssertionError(f"{script.played} turns were played and {read} results read, of {turns}")
        return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}

    with asyncio.Runner() as runner:

        def answer(line: str) -> str:
            if line == "version":
                return metadata.version(package)
            asked = json.loads(line)
            run = made.setdefault(asked["tools"], prepare(asked["tools"]))
            return json.dumps(runner.run(timed(run, asked["turns"], asked["runs"])))

        answer_lines(answer)


if __name__ == "__main__":
    main()
