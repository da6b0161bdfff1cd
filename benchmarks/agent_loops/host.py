"""What a turn costs the host where the device takes no time. Knows records, and the loop that is played."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping

from benchmarks.agent_loops.instant import Instant
from benchmarks.agent_loops.loops import Led
from benchmarks.agent_loops.measure import PHASES, Timed, timed
from benchmarks.common import Figure, Record, make_record

PASSES_S = (0.0, 1e-4)
"""Seconds of a pass: at once, so that everything is handed over in two pieces, and as on a GPU, where each
choice is handed over by itself while the next is made."""
RUNS = 10  # of the loop, for one sample


def name_of(loop: str, pass_s: float) -> str:
    """What records call it."""
    name = "host/" + loop.removeprefix("calls/")
    return f"{name}/{pass_s * 1e6:.0f} µs a pass" if pass_s else name


def host(
    runner: asyncio.Runner,
    one: Led,
    repeats: int,
    pass_s: float,
    make: Callable[[float], Instant] = Instant,
    runs: int = RUNS,
) -> list[Record]:
    """us_per_turn: processor time of the whole process, of which loop_thread_us is the event loop's; the wall
    time of each phase that is not the device's."""
    instant = make(pass_s)
    with instant.engine:

        def sample() -> dict[str, float]:
            return runner.run(_sample(instant, one, runs))

        sample()
        samples = [sample() for _ in range(repeats)]
    case = name_of(one.name, pass_s)

    def record(metric: str) -> Record:
        return make_record("agent_loops", case, "instant", metric, Figure(tuple(s[metric] for s in samples)))

    return [record(metric) for metric in samples[0] if any(s[metric] for s in samples)]


async def _sample(instant: Instant, one: Led, runs: int) -> dict[str, float]:
    """The medians of so many runs."""
    found: list[Mapping[str, float]] = []
    for _ in range(runs):
        task = one.task(instant.engine)
        instant.write(len(one.steps))  # none of a turn's work
        process, thread = time.process_time(), time.thread_time()
        run = await timed(task)
        process, thread = time.process_time() - process, time.thread_time() - thread
        found.append(_microseconds(run, process, thread))
    return {metric: statistics.median(one[metric] for one in found) for metric in found[0]}


def _microseconds(run: Timed, process: float, thread: float) -> dict[str, float]:
    """A turn's."""
    of_device = ("prefill", "sampled", "forced")
    spent = {f"{phase}_us": run.phase_s[phase] for phase in PHASES if phase not in of_device}
    whole = {"us_per_turn": process, "loop_thread_us": thread}
    return {name: seconds / len(run.turn_s) * 1e6 for name, seconds in {**whole, **spent}.items()}
