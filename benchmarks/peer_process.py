"""Peers of decode, each in a process of its own: it cannot break our device, nor outlive its time.

    python -m benchmarks.peer_process PEER SHAPE CONTEXT TOKENS

The child makes its peer and answers with tokens a second. PEER: a key of PEERS; SHAPE: of shapes.SHAPES.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.child import Child, PeerFailed, answer_lines
from benchmarks.shapes import SHAPES
from kogagent.spec import ModelSpec


class PeerProcess:
    """One peer and its process. Raises PeerFailed when it is not ready within `seconds`."""

    def __init__(self, peer: str, shape: str, context: int, tokens: int, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.peer_process", peer, shape, str(context), str(tokens)]
        self._child = Child(command, f"{peer} of {shape}", seconds)

    def run(self) -> float:
        """One run of the peer; tokens a second."""
        return float(self._child.ask("run"))

    def close(self) -> None:
        """End the process. Idempotent."""
        self._child.close()


def _compiled(spec: ModelSpec, context: int, tokens: int) -> Callable[[], float]:
    from benchmarks.compiled_peer import decode_run

    return decode_run(spec, context, tokens)


def _transformers(spec: ModelSpec, context: int, tokens: int) -> Callable[[], float]:
    """transformers' own generate with its static cache, compiled by itself, sampling at temperature 1."""
    import torch

    from benchmarks.transformers_peer import random_twin

    model = random_twin(spec)

    def generate(count: int) -> float:
        ids = torch.randint(3, spec.vocab_size, (1, context), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            min_new_tokens=count,
            max_new_tokens=count,
            do_sample=True,
            top_k=0,
            pad_token_id=0,
            cache_implementation="static",
        )
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def run() -> float:
        short = generate(8)  # the pre-fill and the start: what is left is decoding
        return (tokens - 8) / (generate(tokens) - short)

    generate(tokens)
    return run


__all__ = ["PEERS", "PeerFailed", "PeerProcess"]

PEERS: dict[str, Callable[[ModelSpec, int, int], Callable[[], float]]] = {
    "torch.compile": _compiled,
    "transformers": _transformers,
}


def main() -> None:
    import torch

    peer, shape, context, tokens = sys.argv[1:]
    with torch.inference_mode():
        run = PEERS[peer](SHAPES[shape], int(context), int(tokens))
        answer_lines(lambda _: repr(run()))


if __name__ == "__main__":
    main()
