"""Ids in chunks, each a bucket of rows whose whole pass is one captured graph.

Knows positions, the cache [N, 2, K, capacity, h] and buckets; passes.py knows the model. On a card every
graph is captured when the model is loaded: while the decode kernel is resident nothing may be compiled,
captured or freed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kogagent.kernels.layout import Layout
from kogagent.kernels.prefill.passes import META, Passes

Wanted: TypeAlias = Literal["none", "last", "all"]
"""Which rows' logits: see `Prefill.run`."""
BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
"""Rows of a chunk. One is filled up to the next of these; a longer run is cut into chunks of the last."""


def largest(parts: Sequence[Sequence[float]]) -> tuple[int, float] | None:
    """The first id with the largest logit, and its logprob, of what device.py's `greedy` says of each part of
    the vocabulary; None where a logit is NaN or infinite.

    Plain Python: the processor has just waited for the card, and NumPy's code would come from memory.
    """
    best, low, high, log2 = zip(*parts, strict=True)
    most_likely = max(best)
    if any(map(math.isnan, best)) or not math.isfinite(most_likely):
        return None
    top = best.index(most_likely)
    most = max(log2)
    log_sum = (most + math.log2(sum(2.0 ** (x - most) for x in log2))) * math.log(2)
    return int(low[top]) + (int(high[top]) << 16), most_likely - log_sum


class Prefill:
    """The forward pass over many rows, over its own copy of the weights.

    tensors: canonical names, on the device, of the weights' type. steps: params.STEP records. rope
    [context, h/2, 2] FP32. capture: whether buckets become graphs, now; for a CUDA device only. kernels:
    others than device.py's, for a machine without a card.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        rope: torch.Tensor,
        *,
        capture: bool,
        buckets: Sequence[int] = BUCKETS,
        kernels: Any = None,
    ) -> None:
        context = layout.spec.context
        self._buckets = (*(b for b in buckets[:-1] if b < context), min(context, buckets[-1]))
        self._passes = Passes(layout, tensors, steps, rope, self._buckets[-1], kernels)
        self._inputs = self._passes.inputs  # meta, then ids
        on_card = self._inputs.is_cuda
        chunks = -(-context // self._buckets[-1])
        # Chunks read copies of pinned memory: to queue one waits for none before it.
        staged = torch.zeros((chunks, len(self._inputs)), dtype=torch.int64, pin_memory=on_card)
        self._words = [memoryview(part.numpy()).cast("B") for part in staged]
        # A bucket's words on both sides: the views are made once, since making one takes longer than a copy.
        self._copies = {
            b: (self._inputs[: META + b], [part[: META + b] for part in staged]) for b in self._buckets
        }
        self._staged_bits = torch.zeros(len(self._passes.bits), dtype=torch.int32, pin_memory=on_card)
        self._bits: npt.NDArray[np.uint32] = self._staged_bits.numpy().view(np.uint32)
        self._copied: Any = torch.cuda.Event() if on_card else None  # type: ignore[no-untyped-call]
        self._graphs: dict[int, Any] = {}
        self._tail: Any = None
        if capture:
            self._capture()

    def _capture(self) -> None:
        """Every bucket's body and the tail as graphs. Warm first: kernels are compiled and loaded there."""
        passes = self._passes
        self._inputs.zero_()  # no row is real: nothing reaches a cache
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        pool: Any = torch.cuda.graph_pool_handle()
        with torch.inference_mode(), torch.cuda.stream(stream):

            def graph(run: Any) -> Any:
                run()
                made: Any = torch.cuda.CUDAGraph()
                with torch.cuda.graph(made, pool=pool, stream=stream, capture_error_mode="thread_local"):
                    run()
                return made

            for bucket in reversed(self._buckets):
                self._graphs[bucket] = graph(lambda rows=bucket: passes.body(rows))
            self._tail = graph(passes.last_row)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def run(
        self, cache: torch.Tensor, position: int, ids: Sequence[int], *, logits: Wanted = "none"
    ) -> torch.Tensor | None:
        """Append ids at `position`. logits: "none", of the "last" row [V] or of "all" [len(ids), V], FP32.

        What "last" gives is overwritten by the next call.
        """
        bodies = self._bodies(cache, position, ids, 0)
        if logits == "all":
            return torch.cat([self._passes.all_rows(rows) for rows in bodies])
        for _ in bodies:
            pass
        if logits == "none":
            return None
        self._last()
        return self._passes.logits

    @torch.inference_mode()
    def greedy(
        self,
        cache: torch.Tensor,
        position: int,
        ids: Sequence[int],
        legal: int,
        mask: npt.NDArray[np.uint32] | None = None,
    ) -> tuple[int, float] | None:
        """Append ids; the id below `legal`, and in the bit set `mask` [ceil(V/32)] where there is one, with
        the largest logit, the lowest of equals, and its logprob.

        None where logits are NaN or infinite, or that of no such id is finite. The logits stay for `logits`.
        """
        for _ in self._bodies(cache, position, ids, legal, masked=mask is not None):
            pass
        if mask is not None:  # while the bodies run
            words = mask[: len(self._bits)]
            self._bits[: len(words)], self._bits[len(words) :] = words, 0
            self._passes.bits.copy_(self._staged_bits, non_blocking=True)
            if self._copied is not None:
                self._copied.record()
        self._last()
        return largest(self._passes.best.tolist())

    @property
    def logits(self) -> torch.Tensor:
        """Logits [V] of the last row of the last call that wanted them."""
        return self._passes.logits

    def _last(self) -> None:
        if self._tail is None:
            self._passes.last_row()
        else:
            self._tail.replay()

    def _bodies(
        self, cache: torch.Tensor, position: int, ids: Sequence[int], legal: int, *, masked: bool = False
    ) -> Iterator[int]:
        """Queue the bodies of all chunks; the rows of each, when it is queued.

        Words are packed by the struct module: NumPy's code would have to come from memory.
        """
        if self._copied is not None:
            self._copied.synchronize()  # the last call's copies have left the pinned memory
        most = self._buckets[-1]
        address, capacity = cache.data_ptr(), cache.shape[3]
        for index, start in enumerate(range(0, len(ids), most)):
            part = ids[start : start + most]
            meta = (address, capacity, position + start, len(part), legal, masked)
            layout = f"{len(meta)}q{8 * (META - len(meta))}x{len(part)}q"
            struct.pack_into(layout, self._words[index], 0, *meta, *part)
            bucket = next(b for b in self._buckets if b >= len(part))
            to, staged = self._copies[bucket]
            to.copy_(staged[index], non_blocking=True)
            if self._copied is not None:
                self._copied.record()
            if bucket in self._graphs:
                self._graphs[bucket].replay()
            else:
                self._passes.body(bucket)
            yield len(part)
