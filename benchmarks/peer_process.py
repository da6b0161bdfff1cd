"""Peers of decode, each in a process of its own: it cannot break our device, nor outlive its time.

    python -m benchmarks.peer_process PEER SHAPE CONTEXT TOKENS

The child makes its peer, writes "ready", then answers every line on its input with one figure in tokens a
second, so that it takes turns with what the parent measures. PEER: a key of PEERS; SHAPE: of shapes.SHAPES.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from benchmarks.common import ROOT
from benchmarks.shapes import SHAPES
from kogagent.spec import ModelSpec


class PeerFailed(Exception):
    """The peer did not get ready, or did not answer: why, in its own last words."""


class PeerProcess:
    """One peer and its process. Raises PeerFailed when it is not ready within `seconds`."""

    def __init__(self, peer: str, shape: str, context: int, tokens: int, seconds: float) -> None:
        self.what = f"{peer} of {shape}"
        command = [sys.executable, "-m", "benchmarks.peer_process", peer, shape, str(context), str(tokens)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._read, self._listen)]
        for reader in self._readers:
            reader.start()
        self._answer("ready", seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("peer: "):  # compilers write to standard output too
                self._lines.put(line.removeprefix("peer: ").strip())
        self._lines.put(None)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = [*self._errors[-4:], line.strip()]

    def _answer(self, to: str, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise PeerFailed(f"{self.what}: no answer to {to!r} in {seconds:.0f} s") from None
        if line is None:
            self.close()
            raise PeerFailed(f"{self.what}: {' | '.join(self._errors[-2:]) or 'it ended'}")
        return line

    def run(self) -> float:
        """One run of the peer; tokens a second."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended; its last words come with the answer
            self._process.stdin.write("run\n")
            self._process.stdin.flush()
        return float(self._answer("run", 60.0))

    def close(self) -> None:
        """End the process. Idempotent."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


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


PEERS: dict[str, Callable[[ModelSpec, int, int], Callable[[], float]]] = {
    "torch.compile": _compiled,
    "transformers": _transformers,
}


def main() -> None:
    import torch

    peer, shape, context, tokens = sys.argv[1:]
    with torch.inference_mode():
        run = PEERS[peer](SHAPES[shape], int(context), int(tokens))
        print("peer: ready", flush=True)
        for _ in sys.stdin:
            print(f"peer: {run()!r}", flush=True)


if __name__ == "__main__":
    main()
