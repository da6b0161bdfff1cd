"""LaneFormer checkpoints: the published directories, both generations, and the form this package writes.

Knows configs and tensor names; reads no tensor data.

The published form keeps its weights lane-major and turns interleaved pairs, as the canonical layout does; its
head is [V, D] or, lane-major too, [L, V/L, D]. The first generation says `use_comm` and places windows by
`sliding_window_n_layers`; the second says `use_attention_comm`, `use_mlp_comm` and `swa_layers`.
The form written here has `format_version` and every field of ModelSpec, with canonical tensor names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from kogagent.engine.formats import Entry, Keys, Layout
from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec, RopeScaling

MODEL_TYPES = frozenset({"laneformer", "laneformer_tp"})
FORMAT_VERSION = 1

_HARMLESS = frozenset(
    {
        "architectures", "model_type", "auto_map", "transformers_version", "torch_dtype", "dtype",
        "use_cache", "pad_token_id", "initializer_range", "depth_init", "multiple_of", "_name_or_path",
        "use_flex_attn", "name", "output_attentions", "output_hidden_states", "return_dict",
        "chunk_size_feed_forward",
        "id2label", "label2id", "problem_type",
    }
)  # fmt: skip


def layout(config: Mapping[str, Any]) -> Layout:
    """The layout of a LaneFormer config.json, whichever of the three forms it has."""
    return _own(config) if "format_version" in config else _published(config)


def to_config(spec: ModelSpec) -> dict[str, Any]:
    """The config.json of the form written here: model_type, format_version and every field of the spec."""
    return {"model_type": "laneformer", "format_version": FORMAT_VERSION, **dataclasses.asdict(spec)}


def _own(config: Mapping[str, Any]) -> Layout:
    version = config["format_version"]
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"config.json: format_version={version!r} is not supported, only {FORMAT_VERSION} is"
        )
    fields = {f.name for f in dataclasses.fields(ModelSpec)}
    given = {k: v for k, v in config.items() if k not in ("model_type", "format_version")}
    unknown, missing = sorted(given.keys() - fields), sorted(fields - given.keys())
    if unknown or missing:
        raise ConfigError(f"config.json: unknown keys {unknown}, missing keys {missing}")
    for key in ("windows", "eos_ids"):
        if not isinstance(given[key], list):
            raise ConfigError(f"config.json: {key}={given[key]!r} must be a list")
        given[key] = tuple(given[key])
    if given["rope_scaling"] is not None:
        names = {f.name for f in dataclasses.fields(RopeScaling)}
        if not isinstance(given["rope_scaling"], dict) or given["rope_scaling"].keys() != names:
            raise ConfigError(
                f"config.json: rope_scaling={given['rope_scaling']!r} needs the keys {sorted(names)}"
            )
        given["rope_scaling"] = RopeScaling(**given["rope_scaling"])
    spec = ModelSpec(**given)
    return Layout(spec, {name: Entry(name, (shape,)) for name, shape in spec.tensors().items()})


def _published(config: Mapping[str, Any]) -> Layout:
    keys = Keys(config, "config.json")
    layers, lanes = keys.integer("num_hidden_layers"), keys.integer("num_lanes")
    heads = keys.integer("num_attention_heads")
    dim = keys.integer("hidden_size")
    early: Literal["none", "present"] = "present" if keys.boolean("use_early_comm", True) else "none"
    comm = keys.boolean("use_comm", True)
    comm_attention = keys.boolean("use_attention_comm", comm)
    comm_mlp = keys.boolean("use_mlp_comm", comm)
    second_generation = "use_attention_comm" in config or "use_mlp_comm" in config or "swa_layers" in config
    # The first published code queues early outputs even after their blocking sum.
    resent_by_default = early == "present" and not second_generation
    keys.only("replicated_rmsn_scale", True)
    keys.only("attn_mask_type", "causal")
    keys.only("hidden_act", "silu")
    keys.only("attention_bias", False)
    keys.only("mlp_bias", False)
    keys.only("attention_dropout", 0.0)
    spec = ModelSpec(
        name=str(config.get("name") or ""),
        vocab_size=keys.integer("vocab_size"),
        dim=dim,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=keys.integer("num_key_value_heads", heads),
        head_dim=keys.integer("head_dim", dim // heads if heads else 0),
        ffn_dim=keys.integer("intermediate_size"),
        context=keys.integer("max_position_embeddings"),
        lanes=lanes,
        delay=keys.integer("broadcast_delay"),
        early=early,
        early_resent=keys.boolean("early_resent", resent_by_default),
        comm_attention=comm_attention,
        comm_mlp=comm_mlp,
        head=_head(keys),
        windows=_windows(keys, layers),
        norm_eps=keys.number("norm_eps", 1e-5),
        rope_theta=keys.number("rope_theta", 10000.0),
        rope_scaling=_rope_scaling(keys),
        tied_head=keys.boolean("tie_word_embeddings", False),
        bos_id=next(iter(keys.ids("bos_token_id")), None),
        eos_ids=keys.ids("eos_token_id"),
    )
    keys.finish(_HARMLESS)
    return Layout(spec, _published_entries(spec), same={"lm_head.weight": "embed"} if spec.tied_head else {})


def _head(keys: Keys) -> Literal["replicate", "vocab_parallel", "sum"]:
    kind = keys.get("lm_head_type", "replicate")
    if kind not in ("replicate", "vocab_parallel"):
        raise keys.error("lm_head_type", "is not supported; only 'replicate' or 'vocab_parallel' can be run")
    if not keys.boolean("pre_norm_lane_agg", False):
        return "replicate" if kind == "replicate" else "vocab_parallel"
    if kind != "replicate":
        raise keys.error("pre_norm_lane_agg", f"needs lm_head_type='replicate', not {kind!r}")
    return "sum"


def _windows(keys: Keys, layers: int) -> tuple[int, ...]:
    """swa_layers names the windowed layers; else sliding_window_n_layers counts them from the front
    (positive) or the back (negative), and unclamped_layers are exempt."""
    window = keys.integer("sliding_window", 0)
    first = keys.integer("sliding_window_n_layers", 0)
    exempt = _layer_list(keys, "unclamped_layers", layers)
    named = keys.get("swa_layers")
    if named is not None:
        windowed = set(_layer_list(keys, "swa_layers", layers))
        if first or exempt:
            raise keys.error("swa_layers", "contradicts sliding_window_n_layers or unclamped_layers")
    else:
        windowed = {n for n in range(layers) if n < first or n >= layers + first} - set(exempt)
    if windowed and window < 1:
        raise keys.error("sliding_window", f"must be positive: layers {sorted(windowed)} need it")
    return tuple(window if n in windowed else 0 for n in range(layers))


def _layer_list(keys: Keys, key: str, layers: int) -> tuple[int, ...]:
    value = keys.get(key, [])
    if not isinstance(value, list) or any(
        isinstance(v, bool) or not isinstance(v, int) or not 0 <= v < layers for v in value
    ):
        raise keys.error(key, f"must be a list of layers in 0..{layers - 1}")
    return tuple(value)


def _rope_scaling(keys: Keys) -> RopeScaling | None:
    value = keys.get("rope_scaling")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise keys.error("rope_scaling", "must be an object")
    inner = Keys(value, "config.json: rope_scaling")
    inner.only("rope_type", "llama3")
    inner.only("type", "llama3")
    scaling = RopeScaling(
        factor=inner.number("scaling_factor") if "scaling_factor" in value else inner.number("factor"),
        low_freq_factor=inner.number("low_freq_factor"),
        high_freq_factor=inner.number("high_freq_factor"),
        original_context=inner.integer("original_max_position_embeddings"),
    )
    inner.finish(())
    return scaling


def _published_entries(spec: ModelSpec) -> dict[str, Entry]:
    names = {"embed": "model.tok_embeddings", "norm": "model.norm", "head": "lm_head"}
    inner = {
        "wq": "attention.wq", "wk": "attention.wk", "wv": "attention.wv", "wo": "attention.wo",
        "w1": "feed_forward.w1", "w2": "feed_forward.w2", "w3": "feed_forward.w3",
        "attn_norm": "attention_norm", "ffn_norm": "ffn_norm",
    }  # fmt: skip
    entries = {}
    for name, shape in spec.tensors().items():
        if name in names:
            own = names[name]
        else:
            _, layer, part = name.split(".")
            own = f"model.layers.{layer}.{inner[part]}"
        shapes: tuple[tuple[int, ...], ...] = (shape,)
        if name == "head" and spec.vocab_size % spec.lanes == 0:
            shapes = (shape, (spec.lanes, spec.vocab_size // spec.lanes, spec.dim))
        entries[name] = Entry(own + ".weight", shapes)
    return entries
