"""The same model, or one of its size, for other programs: transformers' class, a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.agent_loops.models import is_random, spec_of, tensors_of
from benchmarks.transformers_peer import joined_twin, random_twin, transformers_twin
from kogagent.errors import ConfigError
from kogagent.local.names import find_model
from kogagent.spec import ModelSpec


def twin_of(model: str, device: str) -> tuple[Any, bool]:
    """(transformers' model in FP16 on "cpu" or "cuda", whether its weights are the same). A model that
    transformers has no class for, one with lanes, is stood in for by a plain transformer of its size with
    random weights."""
    import torch

    spec = spec_of(model)
    if not is_random(model):
        try:
            return transformers_twin(spec, tensors_of(model, "cpu"), torch.float16).to(device), True
        except ConfigError:
            pass
    return (random_twin(spec) if device == "cuda" else joined_twin(spec, torch.float16)), False


def gguf_of(model: str, folder: Path) -> tuple[Path, bool]:
    """(a file that llama.cpp reads, whether it is the same model), written to the folder where it must be."""
    if not is_random(model):
        path = find_model(model)
        if path.suffix == ".gguf":
            return path, True
        found = sorted(path.glob("*.gguf"))
        if found:
            return found[0], True
    stand_in = folder / "stand-in.gguf"
    _write_random(spec_of(model), stand_in)
    return stand_in, False


def _write_random(spec: ModelSpec, path: Path) -> None:
    """A Llama of this size in FP16 without a vocabulary: tokens are given as ids."""
    import gguf
    import numpy as np

    rng = np.random.default_rng()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(spec.n_layers)
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.dim)
    writer.add_feed_forward_length(spec.ffn_dim)
    writer.add_head_count(spec.n_heads)
    writer.add_head_count_kv(spec.n_kv_heads)
    writer.add_key_length(spec.head_dim)
    writer.add_value_length(spec.head_dim)
    writer.add_rope_dimension_count(spec.head_dim)
    writer.add_layer_norm_rms_eps(spec.norm_eps)
    writer.add_rope_freq_base(spec.rope_theta)
    writer.add_vocab_size(spec.vocab_size)
    writer.add_tokenizer_model("none")

    def add(name: str, *shape: int) -> None:
        values = rng.standard_normal(shape, dtype=np.float32) * shape[-1] ** -0.5
        writer.add_tensor(name, values.astype(np.float16))

    def add_norm(name: str) -> None:
        writer.add_tensor(name, np.ones(spec.dim, np.float32))

    q, kv = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    add("token_embd.weight", spec.vocab_size, spec.dim)
    if not spec.tied_head:
        add("output.weight", spec.vocab_size, spec.dim)
    add_norm("output_norm.weight")
    for layer in range(spec.n_layers):
        at = f"blk.{layer}"
        add_norm(f"{at}.attn_norm.weight")
        add_norm(f"{at}.ffn_norm.weight")
        add(f"{at}.attn_q.weight", q, spec.dim)
        add(f"{at}.attn_k.weight", kv, spec.dim)
        add(f"{at}.attn_v.weight", kv, spec.dim)
        add(f"{at}.attn_output.weight", spec.dim, q)
        add(f"{at}.ffn_gate.weight", spec.ffn_dim, spec.dim)
        add(f"{at}.ffn_up.weight", spec.ffn_dim, spec.dim)
        add(f"{at}.ffn_down.weight", spec.dim, spec.ffn_dim)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
