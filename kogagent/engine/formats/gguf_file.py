"""GGUF files: metadata to ModelSpec, tensors by name, quantised ones as the blocks they are.

Knows architectures llama (mistral, smollm too), qwen2 and qwen3. Everything but the tensor data is read and
checked when the file is opened. llama.cpp stores llama's q and k rows interleaved, as the canonical layout
has them; qwen's rotate halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kogagent.engine.formats import Entry, Keys, Layout
from kogagent.engine.formats.blocks import BLOCK_KINDS, BlockKind
from kogagent.engine.formats.huggingface import one_lane_entries
from kogagent.engine.tensor import STORED, HostTensor, Kind
from kogagent.errors import ConfigError, MissingExtraError
from kogagent.gguf_header import TensorPlace, read_header
from kogagent.spec import ModelSpec, RopeScaling

_KINDS: dict[str, Kind | BlockKind] = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", **{kind.upper(): kind for kind in BLOCK_KINDS}
}  # fmt: skip
QUANTISATIONS = tuple(_KINDS)

_HALVES = {"llama": False, "qwen2": True, "qwen3": True}

_HARMLESS = frozenset(
    {"vocab_size", "rope.scaling.original_context_length", "rope.scaling.finetuned", "pooling_type"}
)


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of the file. shape: as numpy has it, the row last."""

    shape: tuple[int, ...]
    read: Callable[[], HostTensor]


@dataclass(frozen=True, slots=True)
class GgufModel:
    """An opened file: what it says of the model and where its tensors lie."""

    layout: Layout
    tensors: Mapping[str, GgufTensor]


def open_gguf(path: Path) -> GgufModel:
    """Read a file's metadata. No tensor is de-quantised yet.

    The file's length is checked first. Raises ConfigError for a truncated file, an unknown architecture or
    metadata key, a tensor type outside QUANTISATIONS; MissingExtraError without the package.
    """
    try:
        import gguf
    except ImportError as error:
        raise MissingExtraError("Reading a GGUF file", "gguf", "gguf") from error
    header = read_header(path)
    unsupported = sorted({_type_name(gguf, t.kind) for t in header.tensors.values()} - set(QUANTISATIONS))
    if unsupported:
        raise ConfigError(
            f"{path}: tensors of type {', '.join(unsupported)} cannot be read; "
            f"supported are {', '.join(QUANTISATIONS)}"
        )
    sizes = {name: _size(gguf, name, place, path) for name, place in header.tensors.items()}
    end = max((place.start + sizes[name] for name, place in header.tensors.items()), default=0)
    if end > header.size:
        raise ConfigError(
            f"{path}: truncated: it has {header.size} bytes, and its tensors end at {end}. Download it again."
        )
    data = np.memmap(path, mode="r")
    tensors = {
        name: _tensor(gguf, place, data[place.start : place.start + sizes[name]])
        for name, place in header.tensors.items()
    }
    return GgufModel(_layout(header.metadata, tensors, str(path)), tensors)


def _type_name(gguf: Any, kind: int) -> str:
    try:
        return str(gguf.GGMLQuantizationType(kind).name)
    except ValueError:
        return f"number {kind}"


def _size(gguf: Any, name: str, place: TensorPlace, path: Path) -> int:
    """Bytes of a tensor."""
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(place.kind)]
    if not place.shape or place.shape[0] % block:
        raise ConfigError(f"{path}: {name!r} has rows of {place.shape[:1]}, no multiple of {block}: damaged")
    return math.prod(place.shape) // int(block) * int(size)


def _tensor(gguf: Any, place: TensorPlace, data: np.ndarray[Any, np.dtype[np.uint8]]) -> GgufTensor:
    kind = _KINDS[_type_name(gguf, place.kind)]
    shape = tuple(reversed(place.shape))
    if kind in STORED:
        numbers = data.view(STORED[kind]).reshape(shape)
        return GgufTensor(shape, lambda: HostTensor(kind, np.array(numbers)))  # the file is read-only memory
    whole = HostTensor(kind, np.asarray(data).reshape(*shape[:-1], -1))
    return GgufTensor(shape, lambda: whole)


def _layout(values: Mapping[str, Any], tensors: Mapping[str, GgufTensor], where: str) -> Layout:
    arch = values.get("general.architecture")
    if arch not in _HALVES:
        raise ConfigError(
            f"{where}: architecture {arch!r} is not supported. Supported: {', '.join(sorted(_HALVES))}"
        )
    if values.get("split.count", 1) > 1:
        raise ConfigError(f"{where}: is one part of a split model. Merge the parts with gguf-split first.")
    prefix = f"{arch}."
    keys = Keys({k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}, where)
    if "token_embd.weight" not in tensors:
        raise ConfigError(f"{where}: missing 'token_embd.weight'")
    dim, heads = keys.integer("embedding_length"), keys.integer("attention.head_count")
    if heads < 1:
        raise keys.error("attention.head_count", "must be positive")
    head_dim = keys.integer("attention.key_length", dim // heads)
    layers = keys.integer("block_count")
    keys.only("attention.value_length", head_dim)
    keys.only("rope.dimension_count", head_dim)
    keys.only("rope.scaling.type", "none")
    keys.only("expert_count", 0)
    keys.only("expert_used_count", 0)
    keys.only("attention.causal", True)
    theta = _decimal(keys.number("rope.freq_base", 10000.0))
    spec = ModelSpec(
        name=str(values.get("general.name", "")),
        vocab_size=tensors["token_embd.weight"].shape[0],
        dim=dim,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn_dim=keys.integer("feed_forward_length"),
        context=keys.integer("context_length"),
        windows=(keys.integer("attention.sliding_window", 0),) * layers,
        norm_eps=_decimal(keys.number("attention.layer_norm_rms_epsilon")),
        rope_theta=theta,
        rope_scaling=_rope_scaling(tensors, theta, head_dim, where),
        qkv_bias=arch == "qwen2",
        qk_norm=arch == "qwen3",
        tied_head="output.weight" not in tensors,
        bos_id=values.get("tokenizer.ggml.bos_token_id"),
        eos_ids=_end_ids(values),
    )
    keys.finish(_HARMLESS)
    return Layout(spec, _entries(spec, halves=_HALVES[arch]), ignored=("rope_freqs.weight",))


def _end_ids(values: Mapping[str, Any]) -> tuple[int, ...]:
    names = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return tuple(dict.fromkeys(int(values[name]) for name in names if name in values))


def _rope_scaling(
    tensors: Mapping[str, GgufTensor], theta: float, head_dim: int, where: str
) -> RopeScaling | None:
    """Llama-3 scaling, which a GGUF keeps only as the tensor of its divisors.

    On the ramp, 1/divisor is a line in the frequency; its slope and offset give the three parameters (only
    their ratios matter: low_freq_factor is set to 1). The result must give the tensor back.
    """
    stored = tensors.get("rope_freqs.weight")
    if stored is None:
        return None
    divisors: list[float] = stored.read().float32().astype(np.float64).tolist()
    factor = max(divisors, default=0.0)
    failure = ConfigError(f"{where}: 'rope_freqs.weight' is no Llama-3 RoPE scaling and cannot be run")
    if len(divisors) != head_dim // 2 or min(divisors) < 1 - 1e-6 or not math.isfinite(factor):
        raise failure
    if factor == 1.0:
        return None
    turns = [theta ** (-2 * i / head_dim) / (2 * math.pi) for i in range(len(divisors))]  # a position
    ramp = [
        (t, (1 / d - 1 / factor) / (1 - 1 / factor))
        for t, d in zip(turns, divisors, strict=True)
        if 1 + 1e-6 < d < factor * (1 - 1e-6)
    ]
    if len(ramp) < 2:
        raise failure
    line = np.polyfit(np.array([t for t, _ in ramp]), np.array([r for _, r in ramp]), 1)
    slope, offset = float(line[0]), float(line[1])
    low = 1.0
    width = -low / offset if offset < 0 else 0.0
    if width <= 0 or slope <= 0:
        raise failure
    scaling = RopeScaling(factor, low, _tidy(low + width), round(slope * width))
    again = [scaling.divisor(2 * math.pi * t) for t in turns]
    if any(abs(a / d - 1) > 1e-3 for a, d in zip(again, divisors, strict=True)):
        raise failure
    return scaling


def _decimal(value: float) -> float:
    """The number that was meant: the shortest decimal that the file's type, FP32, rounds to this one."""
    return float(str(np.float32(value)))


def _tidy(value: float) -> float:
    """The nearest integer where a fit has only just missed it."""
    return float(round(value)) if abs(value - round(value)) < 1e-3 else value


def _entries(spec: ModelSpec, *, halves: bool) -> dict[str, Entry]:
    top = {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
    inner = {
        "attn_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight",
        "wq": "attn_q.weight", "wk": "attn_k.weight", "wv": "attn_v.weight", "wo": "attn_output.weight",
        "bq": "attn_q.bias", "bk": "attn_k.bias", "bv": "attn_v.bias",
        "q_norm": "attn_q_norm.weight", "k_norm": "attn_k_norm.weight",
        "w1": "ffn_gate.weight", "w3": "ffn_up.weight", "w2": "ffn_down.weight",
    }  # fmt: skip
    return one_lane_entries(spec, top, inner, "blk.", halves=halves)
