"""Hugging Face transformers on our weights, in memory: a peer of decode, a check in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kogagent.engine.formats.huggingface import names
from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec


def transformers_twin(spec: ModelSpec, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> Any:
    """The causal LM of transformers with these weights, in eval mode.

    Raises ConfigError for a spec that none of its Llama family can be: lanes, windows on some layers only.
    """
    if spec.lanes > 1 or spec.residual != "standard" or any(spec.windows):
        raise ConfigError(f"transformers has no twin of {spec.name!r}: lanes, ladder or windows")
    model = _make(spec).to(dtype).eval()
    own_names = names(spec)
    state = {own_names[name]: _halves(spec, name, tensor).to(dtype) for name, tensor in tensors.items()}
    if spec.tied_head:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def _make(spec: ModelSpec) -> Any:
    """The causal LM of transformers with this shape, its weights still random."""
    import transformers

    family = "Qwen2" if spec.qkv_bias else "Qwen3" if spec.qk_norm else "Llama"
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": spec.rope_theta}
    if spec.rope_scaling is not None:
        rope |= {
            "rope_type": "llama3",
            "factor": spec.rope_scaling.factor,
            "low_freq_factor": spec.rope_scaling.low_freq_factor,
            "high_freq_factor": spec.rope_scaling.high_freq_factor,
            "original_max_position_embeddings": spec.rope_scaling.original_context,
        }
    config = getattr(transformers, f"{family}Config")(
        vocab_size=spec.vocab_size,
        hidden_size=spec.dim,
        intermediate_size=spec.ffn_dim,
        num_hidden_layers=spec.n_layers,
        num_attention_heads=spec.n_heads,
        num_key_value_heads=spec.n_kv_heads,
        head_dim=spec.head_dim,
        max_position_embeddings=spec.context,
        rms_norm_eps=spec.norm_eps,
        rope_parameters=rope,
        tie_word_embeddings=spec.tied_head,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return getattr(transformers, f"{family}ForCausalLM")(config)


def _halves(spec: ModelSpec, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Without its lane axis, and the rows of q and k back from interleaved pairs to halves."""
    part = name.rsplit(".", 1)[-1]
    if part[0] in "wb":
        tensor = tensor[0]
    if part in ("wq", "wk", "bq", "bk", "q_norm", "k_norm"):
        split = tensor.reshape(-1, spec.head_dim // 2, 2, *tensor.shape[1:])
        tensor = split.transpose(1, 2).reshape(tensor.shape)
    return tensor


def random_twin(spec: ModelSpec) -> Any:
    """A causal LM of this shape with random FP16 weights, made on the GPU; lanes are joined, windows full."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("cuda"):
            return _make(spec).eval()
    finally:
        torch.set_default_dtype(default)


def joined_twin(spec: ModelSpec, dtype: torch.dtype) -> Any:
    """A causal LM of this shape with random weights on the CPU; lanes are joined, windows full."""
    return _make(spec).to(dtype).eval()
