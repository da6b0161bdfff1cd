"""Decoding at batch 1 on one GPU: the resident kernel beside the stream alone and torch.compile, in one run.

    python -m benchmarks.decode_cuda [--shape NAME ...] [--context N ...] [--tokens N] [--peers] [--dry]

Shapes are those of known models with random weights of the right spread. The limit is measured in the
same rounds: the same tapes through the same ring, no product and no exchange. The figure is a segment of
the kernel, sampling at temperature 1, from before its launch to its last token in the host's hands.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.common import Record, append, interleave, make_record, show
from kogagent.engine.backends.cuda import kernel_steps
from kogagent.kernels.monokernel import Monokernel, Segment, Token
from kogagent.kernels.pack import plan
from kogagent.spec import LANEFORMER_2B, ModelSpec

SHAPES = {
    spec.name: spec
    for spec in (
        dataclasses.replace(LANEFORMER_2B, head="vocab_parallel"),
        ModelSpec(
            name="llama-3.2-1b",
            vocab_size=128256,
            dim=2048,
            n_layers=16,
            n_heads=32,
            n_kv_heads=8,
            head_dim=64,
            ffn_dim=8192,
            context=8192,
            rope_theta=5e5,
            tied_head=True,
        ),
        ModelSpec(
            name="qwen3-0.6b",
            vocab_size=151936,
            dim=1024,
            n_layers=28,
            n_heads=16,
            n_kv_heads=8,
            head_dim=128,
            ffn_dim=3072,
            context=8192,
            rope_theta=1e6,
            qk_norm=True,
            tied_head=True,
        ),
        ModelSpec(
            name="smollm2-135m",
            vocab_size=49152,
            dim=576,
            n_layers=30,
            n_heads=9,
            n_kv_heads=3,
            head_dim=64,
            ffn_dim=1536,
            context=8192,
            rope_theta=1e5,
            tied_head=True,
        ),
        ModelSpec(
            name="llama-2-7b",
            vocab_size=32000,
            dim=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=32,
            head_dim=128,
            ffn_dim=11008,
            context=4096,
        ),
    )
}


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


def make_kernel(spec: ModelSpec, tensors: dict[str, torch.Tensor], *, profile: bool = False) -> Monokernel:
    steps, one_stream = kernel_steps(spec)
    card: Any = torch.cuda.get_device_properties(0)
    layout = plan(spec, card.multi_processor_count, card.shared_memory_per_block_optin, one_stream=one_stream)
    return Monokernel(layout, tensors, steps, profile=profile)


def random_cache(spec: ModelSpec) -> torch.Tensor:
    shape = (spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim)
    return torch.randn(shape, dtype=torch.float16, device="cuda")


def run_segment(kernel: Monokernel, kv: torch.Tensor, context: int, tokens: int, seed: int) -> list[Token]:
    """One segment at a context, drained as it comes."""
    kernel.launch(Segment([1], context, max_tokens=tokens, temperature=1.0, seed=seed), kv)
    out: list[Token] = []
    while kernel.busy:
        out += kernel.drain()
    return out


def kernel_run(kernel: Monokernel, kv: torch.Tensor, context: int, tokens: int) -> Callable[[], float]:
    """A run of one segment; tokens a second."""
    seeds = iter(range(1 << 30))

    def run() -> float:
        start = time.perf_counter()
        out = run_segment(kernel, kv, context, tokens, next(seeds))
        elapsed = time.perf_counter() - start
        if len(out) != tokens:
            raise RuntimeError(f"the segment emitted {len(out)} of {tokens} tokens")
        return tokens / elapsed

    return run


def compiled_run(spec: ModelSpec, context: int, tokens: int) -> Callable[[], float]:
    """torch.compile max-autotune with a static cache and CUDA graphs over a Llama of this shape."""
    from benchmarks.compiled_peer import make_step

    step = make_step(spec)
    position = torch.tensor([context], device="cuda")

    def run() -> float:
        token = torch.ones((1, 1), dtype=torch.long, device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        at = position
        for _ in range(tokens):
            token = step(token, at).clone()
            at = at + 1
        torch.cuda.synchronize()
        return tokens / (time.perf_counter() - start)

    return run


def measure(spec: ModelSpec, contexts: Sequence[int], tokens: int, repeats: int, peers: bool) -> list[Record]:
    """Records of one shape at every context, the limit and peers in the same rounds."""
    kernel, kv = make_kernel(spec, random_on_device(spec)), random_cache(spec)
    records = []
    for context in contexts:
        runs = {
            "limit": lambda: 1.0 / kernel.stream_only(50),
            "ours": kernel_run(kernel, kv, context, tokens),
        }
        if peers:
            runs["torch.compile"] = compiled_run(spec, context, tokens)
        figures = interleave(runs, repeats)
        limit, ours = figures.pop("limit"), figures.pop("ours")
        needed = spec.streamed_bytes() + spec.kv_bytes(context + tokens // 2)
        layout = kernel.layout
        records.append(
            make_record(
                "decode",
                f"{spec.name}/fp16/ctx{context}",
                "cuda",
                "tok_s",
                ours,
                limit=limit,
                peers=figures,
                device="cuda",
                note=f"{needed / 1e6:.1f} MB a token, {ours.value * needed / 1e12:.2f} TB/s, random weights, "
                f"{layout.lanes} x {layout.group} blocks, ring {layout.stages} x {layout.stage_bytes} B, "
                f"{tokens} tokens a repeat; the limit streams the weights alone",
            )
        )
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode_cuda", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--shape", nargs="+", choices=sorted(SHAPES), default=sorted(SHAPES))
    parser.add_argument("--context", type=int, nargs="+", default=[512, 3500])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="torch.compile too; minutes a shape")
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options = parser.parse_args(arguments)
    records: list[Record] = []
    with torch.inference_mode():
        for name in options.shape:
            found = measure(SHAPES[name], options.context, options.tokens, options.repeats, options.peers)
            records += found
            torch.cuda.empty_cache()
            if not options.dry:
                append(found)
    show(records)


if __name__ == "__main__":
    main()
