"""Decoding at batch 1 on one GPU: engine.stream beside the bare kernel, the limit and peers.

    python -m benchmarks.decode_cuda [--shape NAME ...] [--context N ...] [--tokens N] [--gaps N] [--dry]
                                     [--peers NAME ...] [--peer-seconds S]

Shapes are those of known models with random weights of the right spread. The limit is measured in the
same rounds: the same tapes through the same ring, no product and no exchange. The figure is engine.stream(),
sampling at temperature 1, from its first token in the consumer's hands to its last. "bare kernel" is
the rate of a segment from its launch to its last token, drained without an engine. Peers run in processes of
their own, which compile all at once before anything is measured, and take turns with us; one that is not
ready in its time is named and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
import torch

from benchmarks.common import Figure, Record, append, interleave, make_record, show
from benchmarks.peer_process import PEERS, PeerFailed, PeerProcess
from benchmarks.shapes import SHAPES
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.engine import EngineCore
from kogagent.engine.sampling import SamplingParams
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.segment import Segment, Token
from kogagent.local.engine import Engine
from kogagent.spec import ModelSpec, Vocabulary
from kogagent.tokenizer import Tokenizer


def random_on_device(spec: ModelSpec, seed: int = 0) -> dict[str, torch.Tensor]:
    """FP16 weights drawn on the GPU with the spread of `engine.weights.random_tensors`."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    out = {}
    for name, shape in spec.tensors().items():
        tensor = torch.empty(shape, device="cuda", dtype=torch.float16)
        part = name.rsplit(".", 1)[-1]
        if part.endswith("norm"):
            tensor.fill_(1.0)
        elif part in ("wo", "w2"):
            tensor.normal_(0.0, (shape[-1] * spec.lanes * 2 * spec.n_layers) ** -0.5, generator=generator)
        elif part == "embed" and not spec.tied_head:
            tensor.normal_(0.0, 1.0, generator=generator)
        else:
            tensor.normal_(0.0, shape[-1] ** -0.5, generator=generator)
        out[name] = tensor
    return out


def random_cache(spec: ModelSpec) -> torch.Tensor:
    shape = (spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim)
    return torch.randn(shape, dtype=torch.float16, device="cuda")


class NumberTokenizer:
    """What an Engine asks of a tokenizer, for a model without one: its text is ids in decimals."""

    def __init__(self, vocab_size: int) -> None:
        tokens = tuple(b"%d " % i for i in range(vocab_size))
        self.vocabulary = Vocabulary(tokens, frozenset(), ())  # no end: a stream has all its tokens
        self.prompt_prefix: tuple[int, ...] = ()

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


class Loaded:
    """One shape on the card: an engine, and the kernel that it owns for runs without it."""

    def __init__(self, spec: ModelSpec) -> None:
        made: list[CudaBackend] = []

        def make() -> CudaBackend:
            made.append(CudaBackend(spec, random_on_device(spec)))
            return made[0]

        core = EngineCore(make, kept_caches=1)
        self.spec = spec
        self.engine = Engine(core, cast(Tokenizer, NumberTokenizer(spec.vocab_size)))
        self.kernel = made[0].kernel()
        self.cache = random_cache(spec)
        self._seeds = itertools.count()
        self._rng = np.random.default_rng()

    def bare(self, context: int, tokens: int) -> float:
        """One segment without the engine; tokens a second."""
        start = time.perf_counter()
        out = run_segment(self.kernel, self.cache, context, tokens, next(self._seeds))
        elapsed = time.perf_counter() - start
        if len(out) != tokens:
            raise RuntimeError(f"the segment emitted {len(out)} of {tokens} tokens")
        return tokens / elapsed

    def stream(self, context: int, tokens: int) -> float:
        """engine.stream() over a fresh prompt; tokens a second after the first."""
        prompt = " ".join(map(str, self._rng.integers(0, self.spec.vocab_size, context)))
        sampling = SamplingParams(temperature=1.0, seed=next(self._seeds))

        async def consume() -> list[float]:
            stream = self.engine.stream(prompt, sampling=sampling, max_tokens=tokens)
            return [time.perf_counter() async for _ in stream]

        times = asyncio.run(consume())
        if len(times) != tokens:
            raise RuntimeError(f"the stream gave {len(times)} of {tokens} tokens")
        with_first = sum(at - times[0] < 100e-6 for at in times)  # tokens that the first wake-up brought
        return (tokens - with_first) / (times[-1] - times[0])

    def gaps(self, context: int, tokens: int) -> list[float]:
        """Seconds between tokens as they reach the host, over segments of this context's room."""
        out: list[float] = []
        while len(out) < tokens:
            count = min(tokens - len(out), self.spec.context - context, 2000)
            segment = Segment([1], context, max_tokens=max(count, 2), temperature=1.0, seed=next(self._seeds))
            self.kernel.launch(segment, self.cache)
            arrived: list[float] = []
            while self.kernel.busy:
                found = self.kernel.drain()
                now = time.perf_counter()
                arrived += [now] * len(found)
            out += [b - a for a, b in itertools.pairwise(arrived)]
        return out

    def close(self) -> None:
        self.engine.close()


def run_segment(kernel: Monokernel, kv: torch.Tensor, context: int, tokens: int, seed: int) -> list[Token]:
    """One segment at a context, drained as it comes."""
    kernel.launch(Segment([1], context, max_tokens=tokens, temperature=1.0, seed=seed), kv)
    out: list[Token] = []
    while kernel.busy:
        out += kernel.drain()
    return out


def measure(
    spec: ModelSpec,
    contexts: Sequence[int],
    tokens: int,
    repeats: int,
    peers: Mapping[str, PeerProcess] | None = None,
    missing: Sequence[str] = (),
    *,
    gaps: int = 0,
) -> list[Record]:
    """Records of one shape at every context, limit and peers in the same rounds. Peers run at the first.

    missing: why other peers could not run.
    """
    loaded = Loaded(spec)
    records = []
    for index, context in enumerate(contexts):
        runs: dict[str, Callable[[], float]] = {
            "limit": lambda: 1.0 / loaded.kernel.stream_only(50),
            "stream": lambda at=context: loaded.stream(at, tokens),  # type: ignore[misc]
            "bare kernel": lambda at=context: loaded.bare(at, tokens),  # type: ignore[misc]
        }
        if index == 0:
            runs |= {name: child.run for name, child in (peers or {}).items()}
        figures = interleave(runs, repeats)
        limit, ours = figures.pop("limit"), figures.pop("stream")
        needed = spec.streamed_bytes() + spec.kv_bytes(context + tokens // 2)
        layout = loaded.kernel.layout
        case = f"{spec.name}/fp16/ctx{context}"
        note = (
            f"{needed / 1e6:.1f} MB a token, {ours.value * needed / 1e12:.2f} TB/s "
            f"({ours.value * needed / DATASHEET:.0%} of the datasheet's 4.8), random weights, "
            f"{layout.lanes} x {layout.group} blocks, ring {layout.stages} x {layout.stage_bytes} B, "
            f"{tokens} tokens a repeat; the limit streams the weights alone"
        )
        note += "".join(f"; could not run: {why}" for why in missing if index == 0)
        records.append(
            make_record(
                "decode", case, "cuda", "tok_s", ours, limit=limit, peers=figures, device="cuda", note=note
            )
        )
        if gaps and index == 0:
            records.append(_gap_record(case, loaded.gaps(context, gaps)))
    loaded.close()
    return records


DATASHEET = 4.8e12
"""Bytes a second of an H200's memory, as its maker states."""


def ready_peers(
    peers: Sequence[str], shapes: Sequence[str], context: int, tokens: int, seconds: float
) -> tuple[dict[str, dict[str, PeerProcess]], dict[str, list[str]]]:
    """By shape, the peers that got ready within `seconds`, all started at once; and why others did not."""
    ready: dict[str, dict[str, PeerProcess]] = {shape: {} for shape in shapes}
    missing: dict[str, list[str]] = {shape: [] for shape in shapes}
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # of each child

    def start(shape: str, peer: str) -> None:
        try:
            ready[shape][peer] = PeerProcess(peer, shape, context, tokens, seconds)
        except PeerFailed as error:
            print(f"could not run: {error}", flush=True)
            missing[shape].append(str(error))

    with ThreadPoolExecutor(max(len(peers) * len(shapes), 1)) as pool:
        for shape, peer in itertools.product(shapes, peers):
            pool.submit(start, shape, peer)
    return ready, missing


def _gap_record(case: str, gaps: Sequence[float]) -> Record:
    """The 99th percentile over the median, of five equal parts of the gaps."""
    parts = np.array_split(np.asarray(gaps), 5)
    ratios = [float(np.quantile(part, 0.99) / np.median(part)) for part in parts]
    middle = statistics.median(gaps) * 1e6
    note = (
        f"{len(gaps)} gaps in five parts, median {middle:.1f} µs, p99 {np.quantile(gaps, 0.99) * 1e6:.1f}, "
        f"most {max(gaps) * 1e6:.0f} µs"
    )
    figure = Figure(tuple(ratios))
    return make_record("decode", case, "cuda", "gap_p99_over_median", figure, device="cuda", note=note)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode_cuda", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--shape", nargs="+", choices=sorted(SHAPES), default=list(SHAPES))
    parser.add_argument("--context", type=int, nargs="+", default=[512, 3500])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", nargs="*", choices=sorted(PEERS), default=[])
    parser.add_argument("--peer-seconds", type=float, default=300.0, help="the peers' time to get ready")
    parser.add_argument("--gaps", type=int, default=0, help="tokens whose gaps are measured, first context")
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options = parser.parse_args(arguments)
    records: list[Record] = []
    ready, missing = ready_peers(
        options.peers, options.shape, options.context[0], options.tokens, options.peer_seconds
    )
    for name in options.shape:
        case = (SHAPES[name], options.context, options.tokens, options.repeats)
        try:
            found = measure(*case, ready[name], missing[name], gaps=options.gaps)
        except (torch.cuda.OutOfMemoryError, PeerFailed) as error:
            print(f"{name} could not run: {error}", flush=True)
            continue
        finally:
            for child in ready[name].values():
                child.close()
        records += found
        show(found)
        torch.cuda.empty_cache()
        if not options.dry:
            append(found)
    show(records)


if __name__ == "__main__":
    main()
