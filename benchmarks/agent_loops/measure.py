"""One loop on the clock: turns a second, the spread of turns, where their time went. Knows no workload."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from benchmarks.agent_loops.loops import Loop, Task
from benchmarks.common import Figure, Record, make_record
from kogagent import RunFinished, RunResult, Timings, ToolFinished, TurnFinished, Usage

PHASES = (*(f.name.removesuffix("_s") for f in fields(Timings) if f.name != "wall_s"), "loop")
"""What a turn's time is divided into; see kogagent.Timings. They sum to its wall time."""
TOKENS = ("reused", "prefilled", "sampled", "forced")
_ENDS = (
    "finished",
    "max_turns",
    "max_tokens",
)  # how a led loop may end: its turns and its answer are bounded


@dataclass(frozen=True, slots=True)
class Timed:
    """One run. turn_s: wall seconds of each turn; own_s: those of them outside model, tools and reader;
    pass_s: seconds of the device in each, over its passes; read: the prompt ids of each, prefilled: those
    that it computed. phase_s: seconds of the whole run in each phase.

    missed_s: how far the phases are from this module's own clock. calls: the arguments of each call.
    stopped: it ended at a limit, as a weak model's runs sometimes do; its turns count all the same.
    """

    turn_s: tuple[float, ...]
    own_s: tuple[float, ...]
    pass_s: tuple[float, ...]
    read: tuple[int, ...]
    prefilled: tuple[int, ...]
    phase_s: Mapping[str, float]
    usage: Usage
    wall_s: float
    missed_s: float
    calls: tuple[str, ...]
    stopped: bool

    @property
    def turns_per_second(self) -> float:
        return len(self.turn_s) / self.wall_s

    @property
    def overhead_share(self) -> float:
        """Wall time outside model, tools and reader, over all of it."""
        own = sum(self.phase_s[name] for name in PHASES if name not in _NOT_OURS)
        return own / self.wall_s


_NOT_OURS = ("prefill", "sampled", "forced", "tool", "reader")


async def timed(task: Task) -> Timed:
    """Run a task to its end. A turn ends with its last tool result, the last turn with its answer.

    Raises ValueError when it made no call, or when the phases do not sum to the run's wall time.
    """
    turns: list[float] = []
    own: list[float] = []
    passes: list[float] = []
    read: list[int] = []
    prefilled: list[int] = []
    result: RunResult | None = None
    calls: list[str] = []
    started = time.perf_counter()
    async with task.agent.stream(task.prompt, history=task.history) as events:
        async for event in events:
            match event:
                case ToolFinished(call=call):
                    calls.append(call.arguments)
                case TurnFinished(timings=timings, usage=usage):
                    turns.append(timings.wall_s)
                    own.append(timings.wall_s - sum(getattr(timings, f"{name}_s") for name in _NOT_OURS))
                    passes.append(timings.engine_s / max(usage.steps, 1))
                    read.append(usage.prefilled_tokens + usage.reused_tokens)
                    prefilled.append(usage.prefilled_tokens)
                case RunFinished(finished):
                    result = finished
    clocked = time.perf_counter() - started
    if result is None or not calls:
        raise ValueError(f"{task.prompt!r}: the run made no call, so it was no loop")
    phase_s = {phase: float(getattr(result.timings, f"{phase}_s")) for phase in PHASES}
    wall, summed = result.timings.wall_s, math.fsum(phase_s.values())
    if abs(summed - wall) > 1e-6 * wall or min(phase_s.values()) < -1e-9:
        raise ValueError(f"phases {phase_s} do not make up the wall time {wall}")
    return Timed(
        tuple(turns),
        tuple(own),
        tuple(passes),
        tuple(read),
        tuple(prefilled),
        phase_s,
        result.usage,
        wall,
        abs(clocked - summed),
        tuple(calls),
        result.reason not in _ENDS,
    )


async def measure(loop: Loop, repeats: int) -> list[Record]:
    """Records of a loop from fresh tasks, after its warm-up: see `records`."""
    await timed((loop.warm_up or loop.tasks)())
    return records(loop, [await timed(loop.tasks()) for _ in range(repeats)])


def records(
    loop: Loop, runs: Sequence[Timed], peers: Mapping[str, Figure] | None = None, note: str = ""
) -> list[Record]:
    """turns_s with its peers, p50_ms, p99_ms, overhead_share, the milliseconds and the tokens a turn of each
    phase. Each value is the median over runs; p50 and p99 are over a run's turns. note goes with turns_s."""
    device = "cuda" if loop.backend == "cuda" else "cpu"

    def record(metric: str, values: list[float], **more: object) -> Record:
        figure = Figure(tuple(values))
        return make_record("agent_loops", loop.name, loop.backend, metric, figure, device=device, **more)  # type: ignore[arg-type]

    shape = f"{statistics.median(len(run.turn_s) for run in runs):g} turns a run"
    stopped = sum(run.stopped for run in runs)
    if stopped:
        shape += f", {stopped} of {len(runs)} runs stopped at a limit"
    if note:
        shape += f"; {note}"
    out = [
        record("turns_s", [run.turns_per_second for run in runs], note=shape, peers=peers),
        record("p50_ms", [_percentile(run.turn_s, 0.5) * 1e3 for run in runs]),
        record("p99_ms", [_percentile(run.turn_s, 0.99) * 1e3 for run in runs]),
        record("missed_share", [run.missed_s / (run.wall_s + run.missed_s) for run in runs]),
        record("overhead_share", [run.overhead_share for run in runs]),
    ]
    if all(len(run.turn_s) >= 20 for run in runs):
        # Whether the last turns cost more than the first ones, the very first left out.
        out.append(record("growth", [last(run.turn_s) / second(run.turn_s) for run in runs]))
        if any(run.usage.completion_tokens for run in runs):
            out.append(record("own_growth", [last(run.own_s) / second(run.own_s) for run in runs]))
            out.append(record("prefilled_second", [float(run.prefilled[1]) for run in runs]))
            out.append(record("prefilled_last", [float(run.prefilled[-1]) for run in runs]))
    spent = [phase for phase in PHASES if any(run.phase_s[phase] for run in runs)]
    out += [
        record(f"{phase}_ms", [run.phase_s[phase] * 1e3 / len(run.turn_s) for run in runs]) for phase in spent
    ]
    if any(run.usage.completion_tokens for run in runs):
        out += [
            record(f"{kind}_tokens", [getattr(run.usage, f"{kind}_tokens") / len(run.turn_s) for run in runs])
            for kind in TOKENS
        ]
    return out


def second(turns: Sequence[float]) -> float:
    """Of the first turns that go on from another."""
    return statistics.median(turns[1:4])


def last(turns: Sequence[float]) -> float:
    """Of the last turns; a scripted loop's very last is an answer."""
    return statistics.median(turns[-4:-1])


def _percentile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least this share of values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
