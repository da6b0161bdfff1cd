"""Where a token's time goes: microseconds of each phase, least, mean and most over the blocks.

    python -m benchmarks.phases [--shape NAME] [--context N] [--tokens N]

Cycles of the first thread of each block; what they are in time comes from the segment's own wall time.
The kernel is built with its counters on and is a few percent slower than the one that is measured elsewhere.
"ring" is the part of the products spent waiting for weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.decode_cuda import SHAPES, make_kernel, random_cache, random_on_device, run_segment

PHASES = {
    "stream to qkv": 0,
    "attention": 12,
    "  q, k, v arrived and turned": 15,
    "  split published": 14,
    "merge of splits": 1,
    "stream to gate and up": 2,
    "hidden to down": 3,
    "head's input": 4,
    "choice of the id": 10,
    "qkv": 5,
    "out": 6,
    "gate and up": 7,
    "down": 8,
    "head": 9,
    "  ring, inside the five above": 13,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phases", description="Time a token by phase.")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="laneformer-2b")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args(arguments)
    spec = SHAPES[options.shape]
    kernel, kv = make_kernel(spec, random_on_device(spec), profile=True), random_cache(spec)
    for seed in range(3):  # the last counts: clocks and caches are warm by then
        start = time.perf_counter()
        count = len(run_segment(kernel, kv, options.context, options.tokens, seed))
        elapsed = time.perf_counter() - start
    cycles = kernel.profile()
    whole = [slot for name, slot in PHASES.items() if not name.startswith(" ")]
    megahertz = cycles[:, whole].sum(1).mean() / elapsed / 1e6
    times = cycles / count / megahertz
    micros = elapsed / count * 1e6
    print(f"{spec.name}, context {options.context}, µs a token: {micros:.1f} in all, {megahertz:.0f} MHz")
    for name, slot in PHASES.items():
        column = times[:, slot]
        print(f"{name:32s} {column.min():8.1f} {column.mean():8.1f} {column.max():8.1f}")


if __name__ == "__main__":
    main()
