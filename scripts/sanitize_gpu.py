"""Short segments and pre-fills of small models, for a checker that makes the card a thousand times slower."""

from __future__ import annotations

import time

import torch

from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.monokernel import Segment
from kogagent.testing.backends import TINY, TINY_LANES

DEADLINE_NS = 600 * 10**9


def main() -> None:
    for spec in (TINY, TINY_LANES):
        backend = CudaBackend(spec, random_tensors(spec, seed=1))
        kernel = backend.kernel()
        for program in kernel._programs():
            program.params["deadline_ns"] = DEADLINE_NS
        kv = backend.open_kv(spec.context)
        backend.prefill(kv, list(range(1, 20)))
        segment = Segment(
            [5, 6, 7], kv.length, max_tokens=4, temperature=0.9, top_k=20, top_p=0.9, penalty=1.2, history=[5]
        )
        began = time.monotonic()
        kernel.launch(segment, kv.store, logits=True)
        out = []
        while kernel.busy:
            out += kernel.drain()
        torch.cuda.synchronize()
        print(
            f"{spec.name}: ids {[token.id for token in out]} in {time.monotonic() - began:.1f} s", flush=True
        )
        backend.close()


if __name__ == "__main__":
    main()
