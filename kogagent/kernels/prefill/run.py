"""Ids in chunks, each a bucket of rows whose whole pass is one captured graph.

Knows positions, the cache [N, 2, K, capacity, h] and buckets; passes.py knows the model. On a card every
graph is captured when the model is loaded: while the decode kernel is resident nothing may be compiled,
captured or freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kogagent.kernels.pack import Layout
from kogagent.kernels.prefill.passes import Passes

Wanted: TypeAlias = Literal["none", "last", "all"]
"""Which rows' logits: see `Prefill.run`."""
BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Rows of a chunk. One is filled up to the next of these; a longer run is cut into chunks of the last."""


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
        out = []
        done = 0
        while done < len(ids):
            part = ids[done : done + self._buckets[-1]]
            self._body(cache, position + done, part)
            done += len(part)
            if logits == "all":
                out.append(self._passes.all_rows(len(part)))
            elif logits == "last" and done == len(ids):
                if self._tail is None:
                    self._passes.last_row()
                else:
                    self._tail.replay()
                return self._passes.logits
        return torch.cat(out) if out else None

    def _body(self, cache: torch.Tensor, position: int, ids: Sequence[int]) -> None:
        head = [cache.data_ptr(), cache.shape[3], position, len(ids)]
        values = torch.tensor([*head, *ids], dtype=torch.int64)
        self._inputs[: len(values)].copy_(values)
        bucket = next(b for b in self._buckets if b >= len(ids))
        if bucket in self._graphs:
            self._graphs[bucket].replay()
        else:
            self._passes.body(bucket)
