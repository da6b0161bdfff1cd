"""What a turn costs the host where the device takes no time. Knows records, and the loop that is played."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping

from benchmarks.agent_loops.clocked import ClockedBackend
from benchmarks.agent_loops.instant import Instant, InstantBackend
from benchmarks.agent_loops.loops import Led
from benchmarks.agent_loops.measure import PHASES, Timed, timed
from benchmarks.common import Figure, Record, make_record

DEVICES: Mapping[str, Callable[[], Instant]] = {"": Instant, "/a card": lambda: Instant(ClockedBackend)}
"""By the end of a record's name: a device that takes no time, so that everything is handed over in two
pieces, and a card but for its silicon, where each choice is handed over while the next is made."""
RUNS = 10  # of the loop, for one sample


def name_of(loop: str, device: str) -> str:
    """What records call it."""
    return f"host/{loop.removeprefix('calls/')}{device}"


def host(
    runner: asyncio.Runner,
    one: Led,
    repeats: int,
    device: str,
    make: Callable[[], Instant],
    runs: int = RUNS,
) -> list[Record]:
    """us_per_turn: processor time of the whole process, of which loop_thread_us is the event loop's; the wall
    time of each phase that is not the device's. Of a device that has a clock: outside_us, the wall time that
    the phases give neither device nor tool nor reader, and beside_us, what its clock leaves of all of it."""
    instant = make()
    with instant.engine:

        def sample() -> dict[str, float]:
            return runner.run(_sample(instant, one, runs))

        sample()
        samples = [sample() for _ in range(repeats)]
    case = name_of(one.name, device)

    def record(metric: str) -> Record:
        return make_record(
            "agent_loops", case, instant.backend.name, metric, Figure(tuple(s[metric] for s in samples))
        )

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
        found.append(_microseconds(run, process, thread, instant.backend))
    return {metric: statistics.median(one[metric] for one in found) for metric in found[0]}


def _microseconds(run: Timed, process: float, thread: float, backend: InstantBackend) -> dict[str, float]:
    """A turn's."""
    of_device = ("prefill", "sampled", "forced")
    turns = len(run.turn_s)
    spent = {f"{phase}_us": run.phase_s[phase] for phase in PHASES if phase not in of_device}
    whole = {"us_per_turn": process, "loop_thread_us": thread}
    device = backend.seconds(turns, run.usage.steps)
    if device:
        whole |= {"outside_us": run.overhead_share * run.wall_s, "beside_us": run.wall_s - device}
    return {name: seconds / turns * 1e6 for name, seconds in {**whole, **spent}.items()}
