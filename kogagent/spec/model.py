"""What a model is: its shapes, its lanes. Knows no weights, no device, no text.

Letters, the same in Python and CUDA:
    V vocabulary   D width of a residual stream   N layers   L lanes   H query heads   K key-value heads
    h head width   F feed-forward width           T positions

One canonical layout for every model: weights are lane-major, RoPE turns interleaved pairs
(x0,x1),(x2,x3)…; a checkpoint that rotates halves has its q and k rows permuted when it is read.
A plain transformer is L=1, delay=0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kogagent.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama-3 RoPE scaling: low frequencies divided by `factor`, a linear ramp between."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor"):
            if not _is_number(getattr(self, field)):
                raise ConfigError(f"RopeScaling.{field}={getattr(self, field)!r} must be a number")
        if self.factor < 1:
            raise ConfigError(f"RopeScaling.factor={self.factor!r} must be at least 1")
        if not 0 < self.low_freq_factor < self.high_freq_factor:
            raise ConfigError(
                f"RopeScaling needs 0 < low_freq_factor < high_freq_factor, "
                f"got {self.low_freq_factor!r} and {self.high_freq_factor!r}"
            )
        if not _is_integer(self.original_context) or self.original_context < 1:
            raise ConfigError(f"RopeScaling.original_context={self.original_context!r} must be positive")

    def divisor(self, frequency: float) -> float:
        """What a frequency (radians a position) is divided by: 1 .. factor."""
        turns = self.original_context * frequency / (2 * math.pi)  # in the original context
        ramp = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = min(max(ramp, 0.0), 1.0)
        return 1.0 / (kept + (1.0 - kept) / self.factor)


@dataclass(frozen=True)
class ModelSpec:
    """The shape of one model. Frozen; refuses what does not fit together by naming the field.

    delay counts layers. early says what happens in layers n < delay:
        "none"     X_l += sqrt(L) * o_l[m,n]            no communication
        "present"  X_l += sum_j o_j[m,n]                blocking full sum
    early_resent (with "present" only): the first published code adds the other lanes' early outputs a
    second time at n+delay; weights trained that way need it.
    residual "ladder": every module reads the stream before the previous module's full sum has landed
    (Ladder Residual); delay must be 0.
    comm_attention, comm_mlp: False where that kind of module is never sent to other lanes; its own output is
    then scaled by sqrt(L) in layers n >= delay too.
    head: "replicate" norms each lane, takes the mean over lanes, full head; "vocab_parallel": lane l's
    normed stream gives the logits of rows [l*V/L, (l+1)*V/L); "sum": sum of lanes, norm, head.
    windows[n]: key visible while q - k < windows[n]; 0 is full causal attention.
    """

    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_dim: int
    context: int
    lanes: int = 1
    delay: int = 0
    early: Literal["none", "present"] = "none"
    early_resent: bool = False
    comm_attention: bool = True
    comm_mlp: bool = True
    residual: Literal["standard", "ladder"] = "standard"
    head: Literal["replicate", "vocab_parallel", "sum"] = "replicate"
    windows: tuple[int, ...] = ()
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    tied_head: bool = False
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        positive = (
            "vocab_size",
            "dim",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "head_dim",
            "ffn_dim",
            "context",
            "lanes",
        )
        for field in positive:
            value = getattr(self, field)
            if not _is_integer(value) or value < 1:
                raise ConfigError(f"ModelSpec.{field} must be a positive integer, not {value!r}")
        if not self.windows:
            object.__setattr__(self, "windows", (0,) * self.n_layers)
        if len(self.windows) != self.n_layers or any(not _is_integer(w) or w < 0 for w in self.windows):
            raise ConfigError(f"ModelSpec.windows needs {self.n_layers} entries >= 0, got {self.windows!r}")
        for field in ("n_heads", "n_kv_heads", "ffn_dim"):
            if getattr(self, field) % self.lanes:
                raise ConfigError(
                    f"ModelSpec.{field}={getattr(self, field)} is no multiple of lanes={self.lanes}"
                )
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(f"n_heads={self.n_heads} is no multiple of n_kv_heads={self.n_kv_heads}")
        if self.head_dim % 2:
            raise ConfigError(f"head_dim={self.head_dim} must be even: RoPE turns pairs")
        if not _is_integer(self.delay) or not 0 <= self.delay <= self.n_layers:
            raise ConfigError(f"delay={self.delay} must lie in 0..{self.n_layers} layers")
        if self.early not in ("none", "present"):
            raise ConfigError(f"early={self.early!r} must be 'none' or 'present'")
        if self.head not in ("replicate", "vocab_parallel", "sum"):
            raise ConfigError(f"head={self.head!r} must be 'replicate', 'vocab_parallel' or 'sum'")
        if self.head == "vocab_parallel" and self.vocab_size % self.lanes:
            raise ConfigError(
                f"head='vocab_parallel' needs vocab_size={self.vocab_size} divisible by lanes={self.lanes}"
            )
        if self.residual not in ("standard", "ladder"):
            raise ConfigError(f"residual={self.residual!r} must be 'standard' or 'ladder'")
        if self.residual == "ladder" and self.delay:
            raise ConfigError("residual='ladder' needs delay=0")
        if self.residual == "ladder" and not (self.comm_attention and self.comm_mlp):
            raise ConfigError("residual='ladder' needs comm_attention and comm_mlp: every sum lands")
        if self.early_resent and self.early != "present":
            raise ConfigError("early_resent needs early='present'")
        for field in ("norm_eps", "rope_theta"):
            if not _is_number(getattr(self, field)) or getattr(self, field) <= 0:
                raise ConfigError(f"{field}={getattr(self, field)!r} must be a positive number")
        for field in ("early_resent", "comm_attention", "comm_mlp", "qkv_bias", "qk_norm", "tied_head"):
            if not isinstance(getattr(self, field), bool):
                raise ConfigError(f"{field}={getattr(self, field)!r} must be true or false")
        if not all(_is_integer(i) and i >= 0 for i in (self.bos_id or 0, *self.eos_ids)):
            raise ConfigError(f"bos_id={self.bos_id!r} and eos_ids={self.eos_ids!r} must be token ids")

    def rope_frequencies(self) -> tuple[float, ...]:
        """Radians a position of pair i, [h/2]: theta**(-2i/h), scaled as Llama 3 does if the spec says so."""
        frequencies = [self.rope_theta ** (-2 * i / self.head_dim) for i in range(self.head_dim // 2)]
        if self.rope_scaling is None:
            return tuple(frequencies)
        return tuple(f / self.rope_scaling.divisor(f) for f in frequencies)

    # ── per lane ──
    @property
    def lane_heads(self) -> int:
        return self.n_heads // self.lanes

    @property
    def lane_kv_heads(self) -> int:
        return self.n_kv_heads // self.lanes

    @property
    def lane_ffn(self) -> int:
        return self.ffn_dim // self.lanes

    # ── tensors ──
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Canonical tensor names and shapes: what weights.py yields and every backend reads."""
        lanes, dim, width = self.lanes, self.dim, self.head_dim
        q, kv, ffn = self.lane_heads * width, self.lane_kv_heads * width, self.lane_ffn
        out: dict[str, tuple[int, ...]] = {"embed": (self.vocab_size, dim)}
        for i in range(self.n_layers):
            p = f"layers.{i}."
            out[p + "attn_norm"] = (dim,)
            out[p + "wq"] = (lanes, q, dim)
            out[p + "wk"] = (lanes, kv, dim)
            out[p + "wv"] = (lanes, kv, dim)
            if self.qkv_bias:
                out[p + "bq"], out[p + "bk"], out[p + "bv"] = (lanes, q), (lanes, kv), (lanes, kv)
            if self.qk_norm:
                out[p + "q_norm"], out[p + "k_norm"] = (width,), (width,)
            out[p + "wo"] = (lanes, dim, q)
            out[p + "ffn_norm"] = (dim,)
            out[p + "w1"] = (lanes, ffn, dim)
            out[p + "w3"] = (lanes, ffn, dim)
            out[p + "w2"] = (lanes, dim, ffn)
        out["norm"] = (dim,)
        if not self.tied_head:
            out["head"] = (self.vocab_size, dim)
        return out

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, a tied head counted once. Allocates nothing."""
        return sum(math.prod(shape) for shape in self.tensors().values())

    def streamed_bytes(self, bytes_per_weight: float = 2.0) -> int:
        """Weight bytes read for one token: everything but the embedding table, whose one row is not counted;
        a tied table is read whole as the head."""
        skipped = 0 if self.tied_head else self.vocab_size * self.dim
        return int((self.parameters - skipped) * bytes_per_weight)

    def kv_bytes(self, position: int, bytes_per_value: float = 2.0) -> int:
        """KV-cache bytes read to decode the token at `position`, windows applied."""
        per_layer = 2 * self.n_kv_heads * self.head_dim * bytes_per_value
        return int(sum(per_layer * (min(position, w) if w else position) for w in self.windows))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


LANEFORMER_2B = ModelSpec(
    name="laneformer-2b",
    vocab_size=32000,
    dim=3072,
    n_layers=15,
    n_heads=32,
    n_kv_heads=16,
    head_dim=96,
    ffn_dim=12288,
    context=4096,
    lanes=8,
    delay=2,
    windows=(512,) * 10 + (0,) * 5,
    bos_id=1,
    eos_ids=(2,),
)
"""The published 2.3B shape: 2,320,069,632 parameters."""
