"""The incremental backend in torch: KV cache, fused weights, FP16 weights with FP32 around them.

Knows ids and weights. One forward pass for every model: what lanes, delays and ladders do to the streams is
read from the lane table. A plain transformer is L=1.

Rounding points of the half types: the inputs and results of matrix products of few rows; norms, RoPE,
attention, residual streams and the cache are FP32. With many rows FP16 weights are widened and the product is
FP32 throughout: the half-precision GEMM of CPUs without FP16 arithmetic is slower than both steps together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from kogagent.engine.backend import HOST_PREFILL_CHUNK, KV, Decode, DecodePlan
from kogagent.engine.backends.host import HostDecode, InHostMemory, check_capacity, check_pending
from kogagent.engine.backends.tensor_kv import TensorKV, own_kv
from kogagent.engine.lanes import Step, lane_table
from kogagent.engine.weights import check_tensors
from kogagent.errors import ConfigError, EngineClosedError, InputError
from kogagent.spec import ModelSpec

Dtype: TypeAlias = Literal["auto", "float32", "float16", "bfloat16"]

_TORCH_DTYPES = {
    "auto": torch.float16,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
_CPU = torch.device("cpu")
_CHUNK = 256  # rows of one pass of a long pre-fill: bounds the memory of masks and activations
_WIDEN_ROWS = 8  # from here on widening FP16 weights and an FP32 product beat the FP16 product


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one layer: matrices [L, out, in] in the compute type, the rest FP32."""

    attn_norm: torch.Tensor  # [D]
    wqkv: torch.Tensor  # [L, (heads + 2 kv_heads) * h, D]
    bias: torch.Tensor | None  # [L, 1, (heads + 2 kv_heads) * h]
    qk_scale: torch.Tensor | None  # [heads + kv_heads, h]
    wo: torch.Tensor  # [L, D, heads * h]
    ffn_norm: torch.Tensor  # [D]
    w13: torch.Tensor  # [L, 2F, D]
    w2: torch.Tensor  # [L, D, F]
    window: int


@dataclass(frozen=True, slots=True)
class _Add:
    """One landing as two scaled additions: streams += each * o + total * sum over lanes of o."""

    source: int
    each: float
    total: float


class CpuBackend(InHostMemory):
    """A model on the CPU. dtype "auto" is float16.

    Raises ConfigError when tensors do not fit the spec or overflow the type.
    """

    prefill_chunk = HOST_PREFILL_CHUNK

    def __init__(self, spec: ModelSpec, tensors: Mapping[str, torch.Tensor], dtype: Dtype = "auto") -> None:
        if dtype not in _TORCH_DTYPES:
            raise InputError(f"dtype={dtype!r} must be one of {', '.join(_TORCH_DTYPES)}")
        check_tensors(spec, tensors)
        self._spec = spec
        self._dtype = _TORCH_DTYPES[dtype]
        self._closed = False
        table = lane_table(spec)
        self._streams = 1 if table.one_stream else spec.lanes
        self._steps = [(step, self._additions(step)) for step in table.steps]
        self._last_use = [step.last_use for step in table.steps]
        self._frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float64)
        self._embed = self._narrow("embed", tensors["embed"])
        head = self._embed if spec.tied_head else self._narrow("head", tensors["head"])
        per_lane = spec.head == "vocab_parallel" and self._streams > 1
        self._head = head.view(spec.lanes if per_lane else 1, -1, spec.dim)
        self._norm = tensors["norm"].detach().float()
        self._layers = [self._layer(i, tensors) for i in range(spec.n_layers)]

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "torch"

    @property
    def dtype(self) -> str:
        return str(self._dtype).removeprefix("torch.")

    def open_kv(self, capacity: int) -> TensorKV:
        self._check_open()
        check_capacity(self._spec, capacity)
        return TensorKV(self._spec, capacity, torch.float32, _CPU)

    @property
    def kept_as(self) -> str:
        return f"torch {torch.__version__} {self._dtype} {torch.get_num_threads()}"

    def rows(self, kv: KV, length: int) -> Sequence[npt.NDArray[Any]]:
        return (own_kv(kv, _CPU).store[:, :, :, :length].numpy(),)

    def restore(self, kv: KV, rows: Sequence[npt.NDArray[Any]], length: int) -> None:
        own = own_kv(kv, _CPU)
        if len(rows) != 1 or rows[0].dtype != np.float32:
            raise InputError("these rows are not those of a torch cache")
        try:
            own.store.numpy()[:, :, :, :length] = rows[0][:, :, :, :length]
        except (ValueError, IndexError) as error:
            raise InputError(f"these rows are not {length} of this model's: {error}") from error
        own.advance(length)

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        if ids:
            self._run(kv, ids, "none")

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self._check_open()
        return HostDecode(self, kv, ids, plan)

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        return self._run(kv, ids, "all")

    def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append ids; the logits [V] of the last."""
        out: npt.NDArray[np.float32] = self._run(kv, ids, "last")[-1]
        return out

    def close(self) -> None:
        self._closed = True
        self._layers = []
        self._embed = self._head = self._norm = torch.empty(0)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosedError("this backend is closed. Load the engine again.")

    # ── loading ──

    def _narrow(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        narrow = tensor.detach().to(self._dtype)
        if self._dtype == torch.float16 and tensor.dtype != torch.float16 and not _is_finite(narrow):
            raise ConfigError(f"tensor {name!r} has weights beyond FP16's range. Load with dtype='float32'.")
        return narrow.contiguous()

    def _layer(self, i: int, tensors: Mapping[str, torch.Tensor]) -> _Layer:
        spec = self._spec
        p = f"layers.{i}."

        def fused(*parts: str) -> torch.Tensor:
            whole = torch.cat([tensors[p + part].detach() for part in parts], 1)
            return self._narrow(p + "+".join(parts), whole)

        bias = qk_scale = None
        if spec.qkv_bias:
            bias = torch.cat([tensors[p + b].detach().float() for b in ("bq", "bk", "bv")], 1).unsqueeze(1)
        if spec.qk_norm:
            q, k = (tensors[p + n].detach().float() for n in ("q_norm", "k_norm"))
            qk_scale = torch.cat([q.expand(spec.lane_heads, -1), k.expand(spec.lane_kv_heads, -1)])
        return _Layer(
            attn_norm=tensors[p + "attn_norm"].detach().float(),
            wqkv=fused("wq", "wk", "wv"),
            bias=bias,
            qk_scale=qk_scale,
            wo=self._narrow(p + "wo", tensors[p + "wo"]),
            ffn_norm=tensors[p + "ffn_norm"].detach().float(),
            w13=fused("w1", "w3"),
            w2=self._narrow(p + "w2", tensors[p + "w2"]),
            window=spec.windows[i],
        )

    def _additions(self, step: Step) -> tuple[_Add, ...]:
        if self._streams == self._spec.lanes:
            return tuple(_Add(a.source, a.own - a.others, a.others) for a in step.landings)
        return tuple(_Add(a.source, 0.0, a.own) for a in step.landings)  # equal for all: own == others

    # ── forward ──
    # Shapes: X [S, rows, D] with S streams, 1 where they are all equal; o [L, rows, D].

    def _run(
        self, kv: KV, ids: Sequence[int], want: Literal["none", "last", "all"]
    ) -> npt.NDArray[np.float32]:
        self._check_open()
        own = own_kv(kv, _CPU)
        store = own.store
        check_pending(kv, ids, self._spec.vocab_size)
        out = []
        with torch.inference_mode():
            for start in range(0, len(ids), _CHUNK):
                chunk = ids[start : start + _CHUNK]
                streams = self._pass(store, own.length, chunk)
                own.advance(len(chunk))
                if want == "all":
                    out.append(self._logits(streams))
                elif want == "last" and start + _CHUNK >= len(ids):
                    out.append(self._logits(streams[:, -1:]))
            rows: npt.NDArray[np.float32] = (torch.cat(out) if out else torch.empty(0)).numpy()
        return rows

    def _pass(self, store: torch.Tensor, position: int, ids: Sequence[int]) -> torch.Tensor:
        """The streams after every layer; keys and values of the ids are written to the store."""
        angles = torch.outer(
            torch.arange(position, position + len(ids), dtype=torch.float64), self._frequencies
        )
        turn = torch.polar(torch.ones_like(angles), angles).to(torch.complex64).unsqueeze(1)  # [rows, 1, h/2]
        rows = self._embed[torch.tensor(ids)].float()
        streams = rows.expand(self._streams, -1, -1).clone()
        masks: dict[int, torch.Tensor | None] = {}
        outputs: dict[int, torch.Tensor] = {}
        for step, additions in self._steps:
            layer = self._layers[step.layer]
            if step.kind == "attention":
                if layer.window not in masks:
                    masks[layer.window] = self._mask(position, len(ids), layer.window)
                x = F.rms_norm(streams, (self._spec.dim,), layer.attn_norm, self._spec.norm_eps)
                o = self._attention(layer, x, store[step.layer], position, turn, masks[layer.window])
            else:
                x = F.rms_norm(streams, (self._spec.dim,), layer.ffn_norm, self._spec.norm_eps)
                gate, up = self._project(x, layer.w13).chunk(2, -1)
                o = self._project(F.silu(gate).mul_(up), layer.w2)
            outputs[step.module] = o
            for add in additions:
                source = outputs[add.source]
                if add.each:
                    streams.add_(source, alpha=add.each)
                if add.total:
                    streams.add_(source.sum(0, keepdim=True), alpha=add.total)
                if self._last_use[add.source] == step.module:
                    del outputs[add.source]
        return streams

    def _attention(
        self,
        layer: _Layer,
        x: torch.Tensor,
        store: torch.Tensor,
        position: int,
        turn: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        spec = self._spec
        lanes, rows, h = spec.lanes, x.shape[1], spec.head_dim
        qkv = self._project(x, layer.wqkv)
        if layer.bias is not None:
            qkv = qkv + layer.bias
        qkv = qkv.view(lanes, rows, -1, h)
        turned = spec.lane_heads + spec.lane_kv_heads
        qk, v = qkv[:, :, :turned], qkv[:, :, turned:]
        if layer.qk_scale is not None:
            qk = F.rms_norm(qk, (h,), None, spec.norm_eps) * layer.qk_scale
        pairs = torch.view_as_complex(qk.view(lanes, rows, turned, -1, 2))
        qk = torch.view_as_real(pairs * turn).flatten(-2)  # [L, rows, heads + kv_heads, h]
        # Heads of all lanes side by side: attention never crosses them, so one call serves every lane.
        end = position + rows
        keys, values = store[0], store[1]  # [K, capacity, h]
        keys[:, position:end] = qk[:, :, spec.lane_heads :].transpose(1, 2).reshape(-1, rows, h)
        values[:, position:end] = v.transpose(1, 2).reshape(-1, rows, h)
        first = max(0, position + 1 - layer.window) if layer.window else 0
        # Query heads that share keys are more rows of one problem: [K, group * rows, h].
        q = qk[:, :, : spec.lane_heads].transpose(1, 2).reshape(1, spec.n_kv_heads, -1, h)
        mixed = F.scaled_dot_product_attention(
            q, keys[None, :, first:end], values[None, :, first:end], attn_mask=mask
        )
        mixed = mixed.view(lanes, spec.lane_heads, rows, h).transpose(1, 2).reshape(lanes, rows, -1)
        return self._project(mixed, layer.wo)

    def _mask(self, position: int, rows: int, window: int) -> torch.Tensor | None:
        """Visible keys of each query row, once for each head of a group: [group * rows, keys], or None."""
        if rows == 1:
            return None  # the slice of keys is the window
        end = position + rows
        first = max(0, position + 1 - window) if window else 0
        age = torch.arange(position, end).unsqueeze(1) - torch.arange(first, end)  # q - k
        visible = (age >= 0) & (age < window) if window else age >= 0
        return visible.repeat(self._spec.n_heads // self._spec.n_kv_heads, 1)

    def _logits(self, streams: torch.Tensor) -> torch.Tensor:
        """[S, rows, D] -> [rows, V]."""
        spec = self._spec
        if spec.head == "sum":  # equal streams are summed as often as there are lanes
            streams = streams.sum(0, keepdim=True) * (spec.lanes / self._streams)
        x = F.rms_norm(streams, (spec.dim,), self._norm, spec.norm_eps)
        if spec.head == "replicate":
            x = x.mean(0, keepdim=True)
        return self._project(x, self._head).transpose(0, 1).flatten(1)

    def _project(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """x [S or L, rows, in] times w [L, out, in] -> [L, rows, out], FP32 in and out."""
        lanes, rows = w.shape[0], x.shape[1]
        if w.dtype == torch.float16 and rows >= _WIDEN_ROWS:
            w = w.float()
        if lanes == 1:
            return F.linear(x.to(w.dtype), w[0]).float()
        return torch.bmm(x.to(w.dtype).expand(lanes, -1, -1), w.transpose(1, 2)).float()


def _is_finite(tensor: torch.Tensor) -> bool:
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) and torch.isfinite(high))
