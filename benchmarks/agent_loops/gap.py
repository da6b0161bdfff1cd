"""The stretches of a turn in which a card does nothing, one after the other. Knows who calls whom between a
segment's last id and the next segment's launch; no phases.

    python -m benchmarks.agent_loops.gap [--device cuda --model laneformer-nano ...]

Without a device the card is a clock (clocked.py). It prints and keeps no records: phases say how long a turn
is, this says what to shorten. Its own marks cost each stretch about a microsecond.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import inspect
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from time import perf_counter
from typing import Any
from unittest import mock

from benchmarks.agent_loops.clocked import ClockedBackend, ClockedKernel
from benchmarks.agent_loops.instant import Instant
from benchmarks.agent_loops.loops import Task, calls_loop
from benchmarks.agent_loops.measure import timed
from benchmarks.agent_loops.models import open_engine
from kogagent.chat.parser import TurnParser
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.cuda_segment import CudaDecode
from kogagent.engine.segment import Segment
from kogagent.engine.session import Session
from kogagent.engine.worker import Worker
from kogagent.kernels.monokernel import Monokernel
from kogagent.local import Engine
from kogagent.local.model import LocalModel
from kogagent.local.turn import ModelTurn
from kogagent.loop.acting import Acting

_Mark = tuple[Any, str, str, str]
MARKS: tuple[_Mark, ...] = (  # in the order in which they happen; before "(" or behind ")" a call
    (CudaDecode, "_end", "(", "seen: the last id is in the host's memory"),
    (Segment, "_post", "(", "counted"),
    (TurnParser, "feed", "(", "in the reader's hands"),
    (TurnParser, "feed", ")", "parsed"),
    (ModelTurn, "_finish", ")", "stream and turn ended"),
    (Acting, "act", "(", "heard and decided"),
    (Acting, "act", ")", "tool run, its result in the history"),
    (LocalModel, "stream", "(", "turn ended, next one asked for"),
    (LocalModel, "open", "(", "grammar found"),
    (LocalModel, "open", ")", "rendered"),
    (Worker, "segment", "(", "segment made"),
    (Session, "_cache", "(", "the engine's thread has it"),
    (CudaDecode, "__init__", "(", "its cache is ready"),
    ((CudaBackend, ClockedBackend), "greedy", "(", "checked, mask made"),
    ((CudaBackend, ClockedBackend), "greedy", ")", "PRE-FILL"),
    ((Monokernel, ClockedKernel), "launch", "(", "forced run taken, place in the grammar found"),
    ((Monokernel, ClockedKernel), "launch", ")", "launched, three more queued behind it"),
)


class Stretches:
    """When each mark was last passed, and of every turn that passed all of them in order, how far they lay
    apart."""

    def __init__(self) -> None:
        self.turns: list[list[float]] = []
        self.forget()

    def forget(self) -> None:
        """What was passed so far leads to no launch."""
        self._at = [0.0] * len(MARKS)

    def passed(self, index: int) -> None:
        self._at[index] = perf_counter()
        if index == len(MARKS) - 1:
            at = self._at
            self.forget()
            if at[0] > 0.0 and at == sorted(at):
                self.turns.append([b - a for a, b in pairwise(at)])

    def watch(self) -> ExitStack:
        """Have the marks noted until the stack is closed."""
        stack = ExitStack()
        calls: dict[tuple[type, str], dict[str, int]] = {}
        for index, (owners, name, side, _) in enumerate(MARKS):
            for owner in owners if isinstance(owners, tuple) else (owners,):
                calls.setdefault((owner, name), {})[side] = index
        for (owner, name), sides in calls.items():
            made = self._noted(getattr(owner, name), sides.get("("), sides.get(")"))
            stack.enter_context(mock.patch.object(owner, name, made))
        return stack

    def _noted(self, call: Callable[..., Any], before: int | None, behind: int | None) -> Callable[..., Any]:
        def note(index: int | None) -> None:
            if index is not None:
                self.passed(index)

        if inspect.iscoroutinefunction(call):

            async def waited(*given: Any, **more: Any) -> Any:
                note(before)
                out = await call(*given, **more)
                note(behind)
                return out

            return functools.wraps(call)(waited)

        def called(*given: Any, **more: Any) -> Any:
            note(before)
            out = call(*given, **more)
            note(behind)
            return out

        return functools.wraps(call)(called)

    def print(self, title: str) -> None:
        print(f"{title}: {len(self.turns)} turns, µs, median (least)")
        if not self.turns:
            print("  none passed all marks in order: they are those of a GPU")
            return
        names = [name for _, _, _, name in MARKS[1:]]
        columns = list(zip(*self.turns, strict=True))
        for name, column in zip(names, columns, strict=True):
            print(f"  {statistics.median(column) * 1e6:8.0f} ({min(column) * 1e6:6.0f})  {name}")
        idle = [sum(turn) - turn[names.index("PRE-FILL")] for turn in self.turns]
        print(f"  {statistics.median(idle) * 1e6:8.0f} ({min(idle) * 1e6:6.0f})  all but pre-fill")


@contextmanager
def _engine(device: str, model: str) -> Iterator[tuple[Engine, Callable[[int], object]]]:
    """An engine, and what writes the next turns for one that is a clock."""
    if device:
        with open_engine(model, device) as engine:
            yield engine, lambda turns: None
    else:
        instant = Instant(ClockedBackend)
        with instant.engine:
            yield instant.engine, instant.write


async def play(task: Callable[[], Task], runs: int, stretches: Stretches) -> None:
    """What lies between two runs is no turn's."""
    for _ in range(runs):
        one = task()
        stretches.forget()
        await timed(one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="", help="cuda: real models on a card; else the card is a clock")
    parser.add_argument("--model", nargs="*", default=["laneformer-nano"])
    parser.add_argument("--runs", type=int, default=10, help="of 20 turns each")
    given = parser.parse_args()
    one = calls_loop(20, 1)
    with asyncio.Runner() as runner:
        for model in given.model if given.device else ["a clock"]:
            with _engine(given.device, model) as (engine, write):

                def task(engine: Engine = engine, write: Callable[[int], object] = write) -> Task:
                    write(len(one.steps))
                    return one.task(engine)

                runner.run(play(task, 2, Stretches()))
                stretches = Stretches()
                with stretches.watch():
                    runner.run(play(task, given.runs, stretches))
                stretches.print(model)


if __name__ == "__main__":
    main()
