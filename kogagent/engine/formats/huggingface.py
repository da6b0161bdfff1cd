"""Hugging Face directories of the Llama family: config.json to ModelSpec, parameter names to canonical ones.

Knows configs and tensor names; reads no tensor data. Every one of these families rotates halves, so the rows
of q and k (their biases and norms too) are reordered when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kogagent.engine.formats import Entry, Keys, Layout
from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec, RopeScaling


@dataclass(frozen=True, slots=True)
class _Family:
    """What config.json leaves out: defaults of the family, and which tensors it has."""

    architecture: str
    norm_eps: float = 1e-6
    context: int = 32768
    kv_heads: int | None = None  # None: as many as query heads
    head_dim: int | None = None  # None: hidden_size / heads
    window: int | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    layered_windows: bool = False  # use_sliding_window, max_window_layers, layer_types


FAMILIES: Mapping[str, _Family] = {
    "llama": _Family("LlamaForCausalLM", context=2048),
    "mistral": _Family("MistralForCausalLM", context=4096 * 32, kv_heads=8, window=4096),
    "qwen2": _Family("Qwen2ForCausalLM", kv_heads=32, window=4096, qkv_bias=True, layered_windows=True),
    "qwen3": _Family(
        "Qwen3ForCausalLM", kv_heads=32, head_dim=128, window=4096, qk_norm=True, layered_windows=True
    ),
}

# Keys that no forward pass of these families reads at inference.
_HARMLESS = frozenset(
    {
        "model_type", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache",
        "_name_or_path", "pad_token_id", "sep_token_id", "cls_token_id", "unk_token_id",
        "decoder_start_token_id", "initializer_range", "attention_dropout", "hidden_dropout",
        "resid_pdrop", "embd_pdrop",
        "pretraining_tp", "is_llama_config", "transformers.js_config", "unsloth_version", "unsloth_fixed",
        "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
        "output_attentions", "output_hidden_states", "return_dict", "return_dict_in_generate",
        "output_scores", "chunk_size_feed_forward", "id2label", "label2id", "num_labels", "problem_type",
        "task_specific_params", "finetuning_task", "tokenizer_class", "prefix", "torchscript",
        "tie_encoder_decoder", "pruned_heads", "use_bfloat16", "tf_legacy_loss", "remove_invalid_values",
        "exponential_decay_length_penalty", "max_length", "min_length", "do_sample", "early_stopping",
        "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
        "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
        "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
        "suppress_tokens", "begin_suppress_tokens", "base_model_tp_plan", "base_model_pp_plan",
    }
)  # fmt: skip


def layout(config: Mapping[str, Any], generation: Mapping[str, Any]) -> Layout:
    """The layout of one config.json; end ids of generation_config.json join those of the config.

    Raises ConfigError naming the key for anything that would change the forward pass and cannot be run.
    """
    family = FAMILIES[config["model_type"]]
    keys = Keys(config, "config.json")
    if keys.get("architectures", [family.architecture]) != [family.architecture]:
        raise keys.error("architectures", f"is not supported; only {family.architecture} can be run")
    keys.only("hidden_act", "silu")
    keys.only("attention_bias", *((True, False) if family.qkv_bias else (False,)))
    keys.only("mlp_bias", False)
    keys.only("partial_rotary_factor", 1, 1.0)
    keys.only("rope_interleaved", False)
    keys.only("is_encoder_decoder", False)
    keys.only("add_cross_attention", False)
    keys.only("is_decoder", False, True)
    keys.only("quantization_config")
    dim, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    if heads < 1:
        raise keys.error("num_attention_heads", "must be positive")
    context = keys.integer("max_position_embeddings", family.context)
    theta, scaling = _rope(keys, context)
    spec = ModelSpec(
        name=str(config.get("_name_or_path") or ""),
        vocab_size=keys.integer("vocab_size"),
        dim=dim,
        n_layers=keys.integer("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=keys.integer("num_key_value_heads", family.kv_heads or heads),
        head_dim=keys.integer("head_dim", family.head_dim or dim // heads),
        ffn_dim=keys.integer("intermediate_size"),
        context=context,
        windows=_windows(keys, family),
        norm_eps=keys.number("rms_norm_eps", family.norm_eps),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        tied_head=keys.boolean("tie_word_embeddings", False),
        bos_id=next(iter(keys.ids("bos_token_id")), None),
        eos_ids=_end_ids(keys, generation),
    )
    keys.finish(_HARMLESS)
    return Layout(
        spec,
        _entries(spec),
        ignored=[f"model.layers.{i}.self_attn.rotary_emb.inv_freq" for i in range(spec.n_layers)],
        same={"lm_head.weight": "embed"} if spec.tied_head else {},
    )


def _end_ids(keys: Keys, generation: Mapping[str, Any]) -> tuple[int, ...]:
    own = keys.ids("eos_token_id")
    return tuple(dict.fromkeys([*own, *Keys(generation, "generation_config.json").ids("eos_token_id")]))


def _rope(keys: Keys, context: int) -> tuple[float, RopeScaling | None]:
    """theta and scaling, from `rope_theta` and `rope_scaling` or from `rope_parameters`, which has both."""
    nested = keys.get("rope_parameters")
    scaling = keys.get("rope_scaling")
    theta = keys.number("rope_theta", 10000.0)
    where = "rope_scaling" if nested is None else "rope_parameters"
    parameters = scaling if nested is None else nested
    if parameters is None:
        return theta, None
    if not isinstance(parameters, dict):
        raise keys.error(where, "must be an object")
    if nested is not None and scaling not in (None, nested):
        raise keys.error("rope_scaling", "contradicts rope_parameters")
    inner = Keys(parameters, f"config.json: {where}")
    theta = inner.number("rope_theta", theta)
    kind = inner.get("rope_type", inner.get("type", "default"))
    inner.only("type", kind)
    inner.only("partial_rotary_factor", 1, 1.0)
    result = None
    if kind == "llama3":
        result = RopeScaling(
            factor=inner.number("factor"),
            low_freq_factor=inner.number("low_freq_factor"),
            high_freq_factor=inner.number("high_freq_factor"),
            original_context=inner.integer("original_max_position_embeddings", context),
        )
    elif kind != "default":
        raise ConfigError(
            f"config.json: {where} of type {kind!r} is not supported; only 'default' and 'llama3' can be run"
        )
    inner.finish(())
    return theta, result


def _windows(keys: Keys, family: _Family) -> tuple[int, ...]:
    layers = keys.integer("num_hidden_layers")
    given = keys.get("sliding_window")
    if given is not None:
        window = keys.integer("sliding_window")
    else:  # null says no window; an absent key means the family's default
        window = 0 if keys.has("sliding_window") else family.window or 0
    if not family.layered_windows:
        if family.window is None and window:
            raise keys.error("sliding_window", "is not read by this family; remove it")
        keys.only("layer_types", ["sliding_attention" if window else "full_attention"] * layers)
        return (window,) * layers
    used = keys.boolean("use_sliding_window", False)
    first = keys.integer("max_window_layers", 28)
    default = [
        "sliding_attention" if used and window and n >= first else "full_attention" for n in range(layers)
    ]
    types = keys.get("layer_types", default)
    if not isinstance(types, list) or len(types) != layers:
        raise keys.error("layer_types", f"must be a list of {layers} entries")
    for kind in types:
        if kind not in ("sliding_attention", "full_attention"):
            raise keys.error(
                "layer_types", f"holds {kind!r}; only sliding_attention and full_attention can be run"
            )
    if "sliding_attention" in types and not (used and window):
        raise keys.error("layer_types", "needs use_sliding_window and sliding_window")
    return tuple(window if kind == "sliding_attention" else 0 for kind in types)


_TOP = {"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
_INNER = {
    "attn_norm": "input_layernorm.weight", "ffn_norm": "post_attention_layernorm.weight",
    "wq": "self_attn.q_proj.weight", "wk": "self_attn.k_proj.weight", "wv": "self_attn.v_proj.weight",
    "bq": "self_attn.q_proj.bias", "bk": "self_attn.k_proj.bias", "bv": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight",
    "wo": "self_attn.o_proj.weight",
    "w1": "mlp.gate_proj.weight", "w3": "mlp.up_proj.weight", "w2": "mlp.down_proj.weight",
}  # fmt: skip


def names(spec: ModelSpec) -> dict[str, str]:
    """The parameter name of every canonical tensor."""
    return {name: entry.name for name, entry in _entries(spec).items()}


def _entries(spec: ModelSpec) -> dict[str, Entry]:
    return one_lane_entries(spec, _TOP, _INNER, "model.layers.", halves=True)


def one_lane_entries(
    spec: ModelSpec, top: Mapping[str, str], inner: Mapping[str, str], prefix: str, *, halves: bool
) -> dict[str, Entry]:
    """Entries of a plain transformer, whose tensors have no lane axis: prefix + layer + "." + inner[part]."""
    entries = {}
    for name, shape in spec.tensors().items():
        if name in top:
            entries[name] = Entry(top[name], (shape,))
            continue
        _, layer, part = name.split(".")
        lane_major = part[0] in "wb"
        turned = halves and part in ("wq", "wk", "bq", "bk", "q_norm", "k_norm")
        entries[name] = Entry(
            f"{prefix}{layer}.{inner[part]}",
            (shape[1:] if lane_major else shape,),
            spec.head_dim if turned else 0,
        )
    return entries
