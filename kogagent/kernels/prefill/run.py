"""Ids in chunks, each a bucket of rows whose whole pass is one captured graph.

Knows positions, the cache [N, 2, K, capacity, h] and buckets; passes.py knows the model. On a card every
graph is captured when the model is loaded: while the decode kernel is resident nothing may be compiled,
captured or freed.
"""

from __future__ import annotations

import contextlib
import gc
import math
import struct
import threading
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


_CAPTURING = threading.Lock()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collector rests meanwhile: it may come upon an engine that failed, and to free a graph or a
    kernel ends a capture. Engines take turns: who ends first would wake it under the other."""
    with _CAPTURING:
        rests = not gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if not rests:
                gc.enable()


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
        self._inputs, self._ids_at = self._passes.inputs, self._passes.ids_at
        on_card = self._inputs.is_cuda
        chunks = -(-context // self._buckets[-1])
        # Chunks read copies of pinned memory: to queue one waits for none before it. The last one's is the
        # chunk's whose token is wanted.
        staged = torch.zeros((chunks + 1, len(self._inputs)), dtype=torch.int64, pin_memory=on_card)
        self._words = [memoryview(part.numpy()).cast("B") for part in staged]
        # A bucket's words on both sides: the views are made once, since making one takes longer than a copy.
        self._copies = {
            b: (self._inputs[: self._ids_at + b], [part[: self._ids_at + b] for part in staged])
            for b in self._buckets
        }
        # Plain memory: the processor has just waited for the card, and torch's code would come from memory.
        self._best: Any = self._passes.best.numpy().data
        self._copied: Any = torch.cuda.Event() if on_card else None  # type: ignore[no-untyped-call]
        self._queued = False  # whether what the event was recorded behind may still run
        self._graphs: dict[tuple[int, bool], Any] = {}  # by bucket and whether the tail is in it
        if capture:
            self._capture()

    def _capture(self) -> None:
        """Every bucket's body, and that with what comes before and after it where a token is wanted, as
        graphs. Warm first: kernels are compiled and loaded there, products chosen ahead of it."""
        passes = self._passes
        self._inputs.zero_()  # no row is real: nothing reaches a cache
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        pool: Any = torch.cuda.graph_pool_handle()
        with _no_collection(), torch.inference_mode(), torch.cuda.stream(stream):

            def graph(run: Any) -> Any:
                run()
                made: Any = torch.cuda.CUDAGraph()
                with torch.cuda.graph(made, pool=pool, stream=stream, capture_error_mode="thread_local"):
                    run()
                return made

            for bucket in reversed(self._buckets):
                passes.choose_products(bucket)
                self._graphs[bucket, False] = graph(lambda rows=bucket: passes.body(rows))
                self._graphs[bucket, True] = graph(lambda rows=bucket: self._first_token(rows))
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def run(
        self, cache: torch.Tensor, position: int, ids: Sequence[int], *, logits: Wanted = "none"
    ) -> torch.Tensor | None:
        """Append ids at `position`. logits: "none", of the "last" row [V] or of "all" [len(ids), V], FP32.

        What "last" gives is overwritten by the next call.
        """
        bodies = self._bodies(cache, position, ids, tail=logits == "last")
        if logits == "all":
            return torch.cat([self._passes.all_rows(rows) for rows in bodies])
        for _ in bodies:
            pass
        return self._passes.logits if logits == "last" else None

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
        for _ in self._bodies(cache, position, ids, legal, mask, tail=True):
            pass
        self._wait()
        return largest(self._best.tolist())

    @property
    def logits(self) -> torch.Tensor:
        """Logits [V] of the last row of the last call that wanted them."""
        return self._passes.logits

    def _first_token(self, rows: int) -> None:
        """A chunk's words, its body and the tail."""
        self._take(rows, -1)
        self._passes.body(rows)
        self._passes.last_row()

    def _take(self, rows: int, index: int) -> None:
        to, staged = self._copies[rows]
        to.copy_(staged[index], non_blocking=True)

    def _record(self) -> None:
        """Note that something is queued."""
        if self._copied is not None:
            self._copied.record()
            self._queued = True

    def _wait(self) -> None:
        """Until what was noted last has ended. Where that is known the driver is not asked."""
        if self._queued:
            self._copied.synchronize()
            self._queued = False

    def _bodies(
        self,
        cache: torch.Tensor,
        position: int,
        ids: Sequence[int],
        legal: int = 0,
        mask: npt.NDArray[np.uint32] | None = None,
        *,
        tail: bool = False,
    ) -> Iterator[int]:
        """Queue the bodies of all chunks, behind the last one the tail; the rows of each, when it is queued.

        Words are packed by the struct module: NumPy's code would have to come from memory.
        """
        self._wait()  # the last call's copies have left the pinned memory
        most = self._buckets[-1]
        address, capacity = cache.data_ptr(), cache.shape[3]
        for index, start in enumerate(range(0, len(ids), most)):
            part = ids[start : start + most]
            with_tail = tail and start + most >= len(ids)
            words = self._words[-1 if with_tail else index]
            meta = (address, capacity, position + start, len(part), legal, with_tail and mask is not None)
            struct.pack_into(f"{len(meta)}q", words, 0, *meta)
            struct.pack_into(f"{len(part)}q", words, 8 * self._ids_at, *part)
            if with_tail and mask is not None:
                room = words[8 * META : 8 * self._ids_at]
                bits = mask.tobytes()[: len(room)]
                room[: len(bits)], room[len(bits) :] = bits, bytes(len(room) - len(bits))
            bucket = next(b for b in self._buckets if b >= len(part))
            graph = self._graphs.get((bucket, with_tail))
            if not with_tail:
                self._take(bucket, index)
                self._record()
            if graph is not None:
                graph.replay()
            elif with_tail:
                self._first_token(bucket)
            else:
                self._passes.body(bucket)
            if with_tail:
                self._record()
            yield len(part)
