"""Short segments and pre-fills of small models, for a checker that makes the card a thousand times slower.

python scripts/sanitize_gpu.py [prefill] [decode]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from kogagent.engine.backend import DecodePlan, TokenMatcher
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.grammar import compile_schema
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import random_tensors
from kogagent.spec import Vocabulary
from kogagent.testing.backends import TINY, TINY_LANES
from kogagent.testing.toy import finish

DEADLINE_NS = 600 * 10**9


def plans() -> Iterator[tuple[str, DecodePlan]]:
    """Every way a choice is made: freely with every filter, by the device's grammar, by the host's."""
    sampling = SamplingParams(temperature=0.9, top_k=20, top_p=0.9, repetition_penalty=1.2, seed=1)
    yield "sampled", DecodePlan(sampling, frozenset(), 3, history=(5,))
    tokens = (*(bytes([i]) for i in range(256)), b"<end>")
    vocabulary = Vocabulary(tokens, frozenset({256}), (256,))
    grammar = compile_schema({"enum": [[10, 2], [17, 2]]}, vocabulary)
    warm = SamplingParams(temperature=1.0, seed=1)
    yield "grammar", DecodePlan(warm, frozenset(), 8, matcher=grammar.start(), legal_ids=257)
    host: TokenMatcher = OnHost(grammar.start())
    yield "guided", DecodePlan(warm, frozenset(), 8, matcher=host, legal_ids=257)


class OnHost:
    """A matcher that the device does not know."""

    def __init__(self, matcher: TokenMatcher) -> None:
        self.mask, self.forced, self.advance = matcher.mask, matcher.forced, matcher.advance
        self._matcher = matcher

    @property
    def finished(self) -> bool:
        return self._matcher.finished

    def fork(self) -> OnHost:
        return OnHost(self._matcher.fork())


def main(parts: list[str]) -> None:
    for spec in (replace(TINY, vocab_size=304), replace(TINY_LANES, vocab_size=304)):
        backend = CudaBackend(spec, random_tensors(spec, seed=1))
        for program in backend.kernel()._programs():
            program.params["deadline_ns"] = DEADLINE_NS
        if "prefill" in parts:
            backend.prefill(backend.open_kv(spec.context), list(range(1, 20)))
            torch.cuda.synchronize()
            print(f"{spec.name}: pre-fill", flush=True)
        for name, plan in plans() if "decode" in parts else ():
            began = time.monotonic()
            kv = backend.open_kv(spec.context)
            ids = [e.id for e in finish(backend.decode(kv, [5, 6, 7], plan))]
            torch.cuda.synchronize()
            print(f"{spec.name}, {name}: ids {ids} in {time.monotonic() - began:.1f} s", flush=True)
        backend.close()


if __name__ == "__main__":
    main(sys.argv[1:] or ["prefill", "decode"])
