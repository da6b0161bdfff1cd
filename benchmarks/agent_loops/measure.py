"""One loop on the clock: turns a second, the spread of turns, where their time went. Knows no workload."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields

from benchmarks.agent_loops.loops import Loop, Task
from benchmarks.common import Figure, Record, make_record
from kogagent import RunFinished, RunResult, Timings, ToolFinished, TurnEnd

PHASES = (*(f.name.removesuffix("_s") for f in fields(Timings) if f.name != "wall_s"), "loop")


@dataclass(frozen=True, slots=True)
class Timed:
    """One run. turn_s: wall seconds of each turn; phase_s: seconds of the whole run in each phase.

    stopped: it ended at a limit, as a weak model's runs sometimes do; its turns count all the same.
    """

    turn_s: tuple[float, ...]
    phase_s: Mapping[str, float]
    wall_s: float
    stopped: bool

    @property
    def turns_per_second(self) -> float:
        return len(self.turn_s) / self.wall_s


async def timed(task: Task) -> Timed:
    """Run a task to its end. A turn ends with its last tool result, the last turn with its answer.

    Raises ValueError when it made no call, or when the phases do not sum to its wall time.
    """
    ends: list[float] = []
    result: RunResult | None = None
    calls = 0
    started = time.perf_counter()
    async with task.agent.stream(task.prompt, history=task.history) as events:
        async for event in events:
            match event:
                case ToolFinished():
                    calls += 1
                    ends[-1] = time.perf_counter()
                case TurnEnd():
                    ends.append(time.perf_counter())
                case RunFinished(finished):
                    result = finished
    if result is None or calls == 0:
        raise ValueError(f"{task.prompt!r}: the run made no call, so it was no loop")
    phase_s = {phase: float(getattr(result.timings, f"{phase}_s")) for phase in PHASES}
    wall = result.timings.wall_s
    if abs(sum(phase_s.values()) - wall) > 1e-6 * wall or min(phase_s.values()) < 0:
        raise ValueError(f"phases {phase_s} do not make up the wall time {wall}")
    turns = [end - begin for begin, end in zip([started, *ends], ends, strict=False)]
    return Timed(tuple(turns), phase_s, wall, result.reason != "finished")


async def measure(loop: Loop, repeats: int) -> list[Record]:
    """Records of a loop: turns_s, p50_ms, p99_ms, and the milliseconds a turn of each phase.

    Each value is the median over repeats, after one uncounted run; p50 and p99 are over a repeat's turns.
    """
    await timed(loop.tasks())
    runs = [await timed(loop.tasks()) for _ in range(repeats)]

    def record(metric: str, values: list[float], note: str = "") -> Record:
        return make_record("agent_loops", loop.name, loop.backend, metric, Figure(tuple(values)), note=note)

    shape = f"{statistics.median(len(run.turn_s) for run in runs):g} turns a run"
    stopped = sum(run.stopped for run in runs)
    if stopped:
        shape += f", {stopped} of {repeats} runs stopped at a limit"
    out = [
        record("turns_s", [run.turns_per_second for run in runs], shape),
        record("p50_ms", [_percentile(run.turn_s, 0.5) * 1e3 for run in runs]),
        record("p99_ms", [_percentile(run.turn_s, 0.99) * 1e3 for run in runs]),
    ]
    spent = [phase for phase in PHASES if any(run.phase_s[phase] for run in runs)]
    return out + [
        record(f"{phase}_ms", [run.phase_s[phase] * 1e3 / len(run.turn_s) for run in runs]) for phase in spent
    ]


def _percentile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least this share of values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
