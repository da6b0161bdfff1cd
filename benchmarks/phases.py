"""Where a token's time goes: microseconds of each phase, least, mean and most over the blocks.

    python -m benchmarks.phases [--shape NAME] [--context N] [--tokens N] [--dry]

Cycles of the first thread of each block; what they are in time comes from the segment's own wall time.
The kernel is built with its counters on and is a few percent slower than the one that is measured elsewhere.
"ring" is the part of the products spent waiting for weights. A record is one phase: its mean over the blocks
in five segments, the range over the blocks in its note.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.common import Figure, Record, append, make_record
from benchmarks.decode_cuda import random_cache, random_on_device, run_segment
from benchmarks.shapes import SHAPES
from benchmarks.variants import ALONE, VARIANTS, make_kernel, spec_of
from kogagent.kernels.monokernel import Monokernel

PHASES = {
    "stream to qkv": 0,
    "attention": 12,
    "  q, k, v arrived and turned": 15,
    "    of which waited": 19,
    "  keys and values waited for": 11,
    "  split published": 14,
    "merge of splits": 1,
    "  splits waited for": 17,
    "stream to gate and up": 2,
    "hidden to down": 3,
    "head's input": 4,
    "choice of the id": 10,
    "qkv": 5,
    "out": 6,
    "gate and up": 7,
    "down": 8,
    "head": 9,
    "  late landings waited for": 20,
    "  ring, inside the five above": 13,
    "  sums published, inside the five above": 18,
    "  words waited for, of streams, hidden and merged": 16,
}

BLOCKED = 21
"""Slot that counts late landings, outputs of other lanes, which were not there when they were wanted."""

REPEATS = 5


def measure(
    kernel: Monokernel, run: Callable[[int], int]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(microseconds a token by repeat, block and slot; by repeat) of segments that `run(seed)` decodes."""
    whole = [slot for name, slot in PHASES.items() if not name.startswith(" ")]
    times, tokens = [], []
    for seed in range(2 + REPEATS):  # clocks and caches are warm after two
        start = time.perf_counter()
        count = run(seed)
        elapsed = time.perf_counter() - start
        cycles = kernel.profile()
        times.append(cycles / count * (elapsed / cycles[:, whole].sum(1).mean()) * 1e6)
        tokens.append(elapsed / count * 1e6)
    return np.stack(times[2:]), np.asarray(tokens[2:])


def records(case: str, times: npt.NDArray[np.float64], tokens: npt.NDArray[np.float64]) -> list[Record]:
    """One record a phase, and one of the whole token."""
    out = []
    for name, slot in PHASES.items():
        column = times[:, :, slot]
        note = f"over the blocks {column.min():.1f} to {column.max():.1f} us"
        figure = Figure(tuple(column.mean(1).tolist()))
        of = name.strip()
        out.append(make_record("phases", f"{case}/{of}", "cuda", "us", figure, device="cuda", note=note))
    whole = Figure(tuple(tokens.tolist()))
    out.append(make_record("phases", f"{case}/token", "cuda", "us", whole, device="cuda", note="counters on"))
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phases", description="Time a token by phase.")
    parser.add_argument("--shape", choices=[*SHAPES, ALONE], default="laneformer-2b")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options = parser.parse_args(arguments)
    spec = spec_of(options.shape)
    weights, kv = random_on_device(spec), random_cache(spec)
    kernel = make_kernel(options.shape, VARIANTS[0], weights, profile=True)
    times, tokens = measure(
        kernel, lambda seed: len(run_segment(kernel, kv, options.context, options.tokens, seed))
    )
    print(
        f"{options.shape}, context {options.context}, us a token: {np.median(tokens):.1f} in all; "
        "least, mean, most over the blocks"
    )
    blocked = kernel.profile()[:, BLOCKED]
    print(f"late landings not there when wanted: {blocked.sum()} in {options.tokens} tokens of all blocks")
    for name, slot in PHASES.items():
        column = times[:, :, slot]
        print(f"{name:32s} {column.min():8.1f} {column.mean():8.1f} {column.max():8.1f}")
    if not options.dry:
        append(records(f"{options.shape}/fp16/ctx{options.context}", times, tokens))


if __name__ == "__main__":
    main()
