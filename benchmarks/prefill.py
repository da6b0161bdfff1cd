"""Time to the first token on one GPU: our pre-fill beside its floor and plain torch, in one run.

    python -m benchmarks.prefill [--shape NAME ...] [--repeats N] [--no-peers] [--dry]
    python -m benchmarks.prefill --where     print where the time of a first token goes, record nothing
    python -m benchmarks.prefill --kernels   print what each kernel of a pass takes, record nothing

A case is "new ids after a reused prefix". The figure is the time from asking a session for its next token to
that token in the consumer's hands, greedy; "pre-fill alone" is the same from the cache's owner. Every timed
run follows an untimed one of its own kind: at once, and in cases of their own 20 ms later. The floor is the
larger of two times measured in the same rounds: the weights streamed once, and the products' operations at
the rate of an 8192 x 8192 x 8192 FP16 product. Peers compute an ordinary transformer of the same matrices.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.common import Record, append, interleave, make_record, show
from benchmarks.decode_cuda import random_on_device
from benchmarks.prefill_peer import torch_runs
from benchmarks.shapes import SHAPES
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.cuda_segment import CudaDecode
from kogagent.engine.engine import EngineCore
from kogagent.engine.segment import Segment
from kogagent.kernels.prefill import Prefill
from kogagent.spec import ModelSpec

CASES = ((2000, 8), (2000, 32), (0, 128), (0, 512), (0, 2048), (0, 4096))
"""(reused ids, new ids)"""
RESTED = ((2000, 32), (0, 512))
"""Cases that are also timed after a pause, as behind a tool that takes a while."""
REST_S = 0.020

BETWEEN = 100.0
"""µs of an idle card that lie between two passes, not in one."""


class Loaded:
    """One shape on the card: an engine core, and the backend that it owns."""

    def __init__(self, spec: ModelSpec) -> None:
        made: list[CudaBackend] = []

        def make() -> CudaBackend:
            made.append(CudaBackend(spec, random_on_device(spec)))
            return made[0]

        self.spec = spec
        self.core = EngineCore(make, kept_caches=0)
        self.backend = made[0]
        self.marks: list[tuple[str, float]] = []
        self._rng = np.random.default_rng()

    def _ids(self, count: int) -> list[int]:
        return [int(i) for i in self._rng.integers(0, self.spec.vocab_size, count)]

    def first_token(self, reused: int, new: int) -> Callable[[], float]:
        """A run: milliseconds to the first token of a session that holds `reused` ids and gets `new` ones."""
        with asyncio.Runner() as runner:
            session = self.core.session(reuse=False)
            session.append(self._ids(reused or 1))
            runner.run(session.prefill())

        async def once() -> float:
            session.rewind(reused)
            session.append(self._ids(new))
            self.marks = [("asked", start := time.perf_counter())]
            async with session.stream(max_tokens=1) as stream:
                await anext(stream)
                self.marks.append(("in the consumer's hands", end := time.perf_counter()))
                return (end - start) * 1e3

        return lambda: asyncio.run(once())

    def alone(self, reused: int, new: int) -> Callable[[], float]:
        """A run: milliseconds of the pre-fill itself, ids in to the largest logit's id out."""
        kv = self.backend.open_kv(self.spec.context)
        if reused:
            self.backend.prefill(kv, self._ids(reused))

        def once() -> float:
            kv.rewind(reused)
            ids = self._ids(new)
            torch.cuda.synchronize()
            start = time.perf_counter()
            logits = self.backend.append(kv, ids, logits="last")
            assert logits is not None
            int(logits.argmax())
            return (time.perf_counter() - start) * 1e3

        return once


def product_rate() -> Callable[[], float]:
    """A run: operations a second of a large FP16 product on random data."""
    a, b = (torch.randn((8192, 8192), dtype=torch.float16, device="cuda") for _ in range(2))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def run() -> float:
        start.record()
        for _ in range(4):
            a @ b
        end.record()
        end.synchronize()
        return float(4 * 2 * 8192**3 / (start.elapsed_time(end) / 1e3))

    return run


def _after_its_own(run: Callable[[], float], rest: float) -> Callable[[], float]:
    """The run `rest` seconds behind an untimed one of its kind, as a loop's turn follows the turn before: not
    behind another program, which leaves caches and clocks in another state."""

    def second() -> float:
        run()
        time.sleep(rest)
        return run()

    return second


def measure(spec: ModelSpec, repeats: int, *, peers: bool) -> Iterator[Record]:
    """A record of every case that fits the shape's context, as soon as it is measured."""
    loaded = Loaded(spec)
    rate = product_rate()
    kernel = loaded.backend.kernel()
    weights = spec.streamed_bytes() // 2
    head = spec.vocab_size * spec.dim
    for reused, new in CASES:
        if reused + new > spec.context:
            continue
        runs: dict[str, Callable[[], float]] = {
            "stream": lambda: kernel.stream_only(10) * 1e3,
            "rate": rate,
            "ours": loaded.first_token(reused, new),
            "pre-fill alone": loaded.alone(reused, new),
        }
        if peers:
            for name, run in torch_runs(spec, reused, new).items():
                runs[name] = lambda once=run: _milliseconds(once)  # type: ignore[misc]
        operations = 2 * (weights - head) * new + 2 * head
        for rest in (0.0, REST_S) if (reused, new) in RESTED else (0.0,):
            timed = {
                name: run if name in ("stream", "rate") else _after_its_own(run, rest)
                for name, run in runs.items()
            }
            figures = interleave(timed, repeats, warm_up=2)
            stream, product, ours = (figures.pop(name) for name in ("stream", "rate", "ours"))
            floors = (stream.value, operations / product.value * 1e3)
            note = (
                f"floors: weights streamed {floors[0]:.2f} ms, {operations / 1e12:.2f} TFLOP of products at "
                f"{product.value / 1e12:.0f} TFLOP/s {floors[1]:.2f} ms; random weights, greedy"
            )
            later = f" {rest * 1e3:.0f} ms later" if rest else ""
            case, limit = f"{spec.name}/fp16/{new} after {reused}{later}", max(floors)
            yield make_record(
                "ttft", case, "cuda", "ms", ours, limit=limit, peers=figures, device="cuda", note=note
            )
        torch.cuda.empty_cache()
    loaded.core.close()


WHERE: tuple[tuple[type, str, str, str], ...] = (
    (Segment, "step", "the worker's thread has it", ""),
    (CudaDecode, "wait", "its session's cache is ready", ""),
    (Prefill, "greedy", "the segment's rules are looked up", "the id is found"),
    (Prefill, "_bodies", "checked", ""),  # a generator: it runs later, and waits itself before it packs
    (Prefill, "_wait", "ids are packed and all is queued", "the card has ended"),
    (Segment, "_post", "the answer is drawn up", ""),
)
"""(class, method, what is done when it begins, what when it returns), in the order of a first token."""


@contextlib.contextmanager
def watched(loaded: Loaded) -> Iterator[None]:
    """Notes in its `marks` when each of WHERE happens, (what, seconds)."""

    def wrapped(original: Callable[..., Any], before: str, after: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **options: Any) -> Any:
            if before:
                loaded.marks.append((before, time.perf_counter()))
            try:
                return original(*args, **options)
            finally:
                if after:
                    loaded.marks.append((after, time.perf_counter()))

        return call

    with contextlib.ExitStack() as stack:
        for owner, name, before, after in WHERE:
            call = wrapped(getattr(owner, name), before, after)
            stack.enter_context(mock.patch.object(owner, name, call))
        yield


def where(loaded: Loaded, reused: int, new: int, repeats: int) -> list[tuple[str, float]]:
    """(what is done, median µs since what was done before it), of a first token through a session."""
    run = loaded.first_token(reused, new)
    run()
    rounds: list[dict[str, float]] = []
    for _ in range(repeats):
        with watched(loaded):
            run()
        marks, found = loaded.marks, dict[str, float]()
        for (_, last), (what, at) in pairwise(marks):
            found[what] = found.get(what, 0.0) + at - last
            if what == "in the consumer's hands":
                break  # the stream's end is nobody's first token
        rounds.append({**found, "all": sum(found.values())})
    return [(what, median(one.get(what, 0.0) for one in rounds) * 1e6) for what in rounds[-1]]


def kernels(loaded: Loaded, reused: int, new: int, repeats: int) -> list[tuple[str, float, float, float]]:
    """(kernel, launches, µs, µs in which nothing ran before it) of one pre-fill, the dearest first, from the
    driver's own record of them."""
    run = loaded.alone(reused, new)
    run()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    events: Any = profile.events()
    on_card = [e for e in events if e.device_type.name == "CUDA"]
    found: dict[str, list[float]] = {}
    end = -math.inf  # of all before
    for event in sorted(on_card, key=lambda e: e.time_range.start):
        begin, stop = event.time_range.start, event.time_range.end
        sums = found.setdefault(event.name, [0.0, 0.0, 0.0])
        sums[0] += 1
        sums[1] += max(stop - max(begin, end), 0.0)
        sums[2] += begin - end if 0 < begin - end < BETWEEN else 0.0
        end = max(end, stop)
    rows = [(name, a / repeats, b / repeats, c / repeats) for name, (a, b, c) in found.items()]
    return sorted(rows, key=lambda row: -row[2] - row[3])


def say_where(loaded: Loaded, reused: int, new: int, repeats: int) -> None:
    for what, took in where(loaded, reused, new, repeats):
        print(f"  {took:9.1f}  {what}")


def say_kernels(loaded: Loaded, reused: int, new: int, repeats: int) -> None:
    print(" launches, of all, nothing before them")
    for what, count, took, idle in kernels(loaded, reused, new, repeats):
        print(f"  {count:5.0f} {took:9.1f} {idle:9.1f}  {what[:100]}")


def _milliseconds(run: Callable[[], int]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefill", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--shape", nargs="+", choices=sorted(SHAPES), default=["laneformer-2b"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--no-peers", action="store_true", help="leave out plain torch")
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    parser.add_argument("--where", action="store_true", help="where the time of a first token goes")
    parser.add_argument("--kernels", action="store_true", help="what each kernel of a pass takes")
    options = parser.parse_args(arguments)
    if options.where or options.kernels:
        say = say_kernels if options.kernels else say_where
        with torch.inference_mode():
            for name in options.shape:
                loaded = Loaded(SHAPES[name])
                for reused, new in CASES:
                    print(f"{name}, {new} ids after {reused}, µs:")
                    say(loaded, reused, new, options.repeats)
                loaded.core.close()
        return
    with torch.inference_mode():
        for name in options.shape:
            for record in measure(SHAPES[name], options.repeats, peers=not options.no_peers):
                show([record])
                if not options.dry:
                    append([record])


if __name__ == "__main__":
    main()
