"""What knobs of the decode kernel cost or gain on one GPU: the pace of the weights, looks at words, blocks.

    python -m benchmarks.variants [--shape NAME ...] [--only TEXT ...] [--context N] [--tokens N] [--dry]

Every variant is the same kernel with other constants, compiled beforehand, a process for each processor, and
takes turns with the others over the same random weights: the bare kernel from launch to last token, beside
the stream alone with the same constants. "lane alone" is one of eight lanes of LaneFormer-2B with a card of
its own and links of 5 µs.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.common import Record, append, interleave, make_record, show
from benchmarks.decode_cuda import random_cache, random_on_device, run_segment
from benchmarks.shapes import SHAPES
from kogagent.engine.backends.arrangement import arrange_for, kernel_steps
from kogagent.engine.backends.cuda_devices import cut_tensors
from kogagent.errors import KogagentError
from kogagent.kernels.build import build_all
from kogagent.kernels.layout import Layout, plan
from kogagent.kernels.monokernel import Monokernel
from kogagent.spec import ModelSpec

ALONE, LINK_NS = "lane alone", 5000


@dataclass(frozen=True, slots=True)
class Variant:
    """defines: switches of csrc. blocks: one a multiprocessor, 0 for all of these."""

    name: str
    defines: tuple[str, ...] = ()
    blocks: int = 0


def _variant(pace: int, poll: int) -> Variant:
    """pace: cycles for 8 KiB of weights; poll: cycles before the first look at words."""
    return Variant(f"pace {pace}, poll {poll}", (f"PACE={pace}", f"POLL_FIRST={poll}"))


VARIANTS = (
    Variant("as it is"),
    *(_variant(0, n) for n in (0, 200, 400, 600, 800, 1000)),
    *(_variant(n, m) for n in (300, 350, 400, 450, 500) for m in (0, 200, 400, 800)),
    *(Variant(f"{n} blocks", (), n) for n in (72, 96, 120)),
)
MOST_BYTES = 90e9
"""Of weights packed at once; variants beyond take turns with the first in another round."""


def spec_of(name: str) -> ModelSpec:
    """Of a shape; of the whole model for a lane alone."""
    return SHAPES["laneformer-2b" if name == ALONE else name]


def variants_of(name: str, variants: Sequence[Variant]) -> list[Variant]:
    """Those that a shape has: the blocks of a lane alone are its card's."""
    return [one for one in variants if name != ALONE or not one.blocks]


def arranged(
    name: str, variant: Variant, sms: int, shared: int
) -> tuple[ModelSpec, Layout, npt.NDArray[np.void]]:
    """The spec that its weights are cut for, the layout and the steps of a shape's variant."""
    if name == ALONE:
        made = arrange_for(spec_of(name), 8, 1, sms, shared)
        return made.spec, made.layout, made.steps
    spec = spec_of(name)
    steps, one_stream = kernel_steps(spec)
    return spec, plan(spec, variant.blocks or sms, shared, one_stream=one_stream), steps


def compile_variants(shapes: Sequence[str], variants: Sequence[Variant]) -> None:
    """All of them into the cache."""
    card: Any = torch.cuda.get_device_properties(0)
    capability = card.major * 10 + card.minor
    wanted = []
    for name in shapes:
        link = ("KOGAGENT_LINK",) if name == ALONE else ()
        for variant in variants_of(name, variants):
            _, layout, _ = arranged(name, variant, *size_of_card())
            wanted.append((capability, (*variant.defines, *link), layout.model_source()))
    build_all(list(dict.fromkeys(wanted)))


def make_kernel(
    name: str, variant: Variant, weights: Mapping[str, torch.Tensor], **options: Any
) -> Monokernel:
    """weights: of the shape, or of the whole model that a lane alone belongs to. options: of Monokernel."""
    cut, layout, steps = arranged(name, variant, *size_of_card())
    if name == ALONE:
        weights = cut_tensors(spec_of(name), cut, weights)
        options |= {"devices": [torch.device("cuda", 0)], "alone": True, "link_ns": LINK_NS}
    return Monokernel(layout, weights, steps, defines=variant.defines, **options)


def size_of_card() -> tuple[int, int]:
    card: Any = torch.cuda.get_device_properties(0)
    return card.multi_processor_count, card.shared_memory_per_block_optin


def measure(
    name: str, variants: Sequence[Variant], context: int, tokens: int, failed: list[str]
) -> list[Record]:
    """Records of a shape's variants. failed: gets those that do not run, with why."""
    spec = spec_of(name)
    weights = random_on_device(spec)
    cache, seeds = random_cache(spec), itertools.count()

    def rate(kernel: Monokernel) -> float:
        start = time.perf_counter()
        out = run_segment(kernel, cache, context, tokens, next(seeds))
        if len(out) != tokens:
            raise RuntimeError(f"the segment emitted {len(out)} of {tokens} tokens: {out[-1]}")
        return tokens / (time.perf_counter() - start)

    def limit(kernel: Monokernel) -> float:
        return 1.0 / kernel.stream_only(20)

    first, *rest = variants_of(name, variants)
    at_once = max(int(MOST_BYTES / spec.streamed_bytes()) - 1, 1)
    records: list[Record] = []
    for at in range(0, len(rest), at_once):
        batch = rest[at : at + at_once]
        kernels: dict[str, Monokernel] = {}
        for variant in (first, *batch):
            made = make_kernel(name, variant, weights)
            try:
                rate(made)
                kernels[variant.name] = made
            except (RuntimeError, KogagentError) as error:
                failed.append(f"{name}, {variant.name}: {error}")
        runs: dict[str, Callable[[], float]] = {}
        for key, kernel in kernels.items():
            runs[key] = functools.partial(rate, kernel)
            runs[f"{key}: limit"] = functools.partial(limit, kernel)
        figures = interleave(runs)
        records += [
            make_record(
                "variants",
                f"{name}/ctx{context}/{key}",
                "cuda",
                "tok_s",
                figures[key],
                limit=figures[f"{key}: limit"],
                device="cuda",
            )
            for key in kernels
        ]
        del kernels, runs
        torch.cuda.empty_cache()
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.variants", description=(__doc__ or "").split("\n")[0]
    )
    shapes = [*SHAPES, ALONE]
    parser.add_argument("--shape", nargs="+", choices=shapes, default=shapes)
    parser.add_argument("--only", nargs="+", default=[], help="variants whose name holds one of these")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options = parser.parse_args(arguments)
    chosen = [
        v for v in VARIANTS if v is VARIANTS[0] or not options.only or any(o in v.name for o in options.only)
    ]
    compile_variants(options.shape, chosen)
    failed: list[str] = []
    with torch.inference_mode():
        for name in options.shape:
            found = measure(name, chosen, options.context, options.tokens, failed)
            show(found)
            if not options.dry:
                append(found)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
