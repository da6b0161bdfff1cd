"""The equations in torch FP32, the whole sequence each time: truth for the other backends, no cache.

Knows ids and weights. Speed is no aim here; a reader checks this file against docs and papers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import HOST_PREFILL_CHUNK, KV, Decode, DecodePlan
from kogagent.engine.backends.host import (
    HostDecode,
    InHostMemory,
    NeverParked,
    check_capacity,
    check_pending,
    check_rewind,
    fork_length,
)
from kogagent.engine.lanes import lane_table
from kogagent.engine.weights import check_tensors
from kogagent.errors import EngineClosedError, InputError
from kogagent.spec import ModelSpec


class ReferenceKV(NeverParked):
    """The ids of one sequence: with the whole sequence computed each time, nothing else is needed."""

    def __init__(self, capacity: int) -> None:
        self.ids: list[int] = []
        self._capacity = capacity
        self._closed = False

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def capacity(self) -> int:
        return self._capacity

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        del self.ids[length:]

    def fork(self, length: int | None = None) -> ReferenceKV:
        self.check_open()
        other = ReferenceKV(self._capacity)
        other.ids = self.ids[: fork_length(self, length)]
        return other

    @property
    def memory(self) -> Mapping[Hashable, int]:
        return {id(self): 8 * len(self.ids)}

    def growth(self, length: int) -> int:
        return 8 * max(0, length - len(self.ids))

    def close(self) -> None:
        self.ids = []
        self._closed = True

    def check_open(self) -> None:
        if self._closed:
            raise EngineClosedError("this KV cache is closed. Open a new session.")


class ReferenceBackend(InHostMemory):
    """A model as its equations say. Raises ConfigError when tensors do not fit the spec."""

    prefill_chunk = HOST_PREFILL_CHUNK

    def __init__(self, spec: ModelSpec, tensors: Mapping[str, torch.Tensor]) -> None:
        check_tensors(spec, tensors)
        self._spec = spec
        self._table = lane_table(spec)
        self._frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float64)
        self._weights: dict[str, torch.Tensor] | None = {n: t.detach().float() for n, t in tensors.items()}

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "reference"

    @property
    def dtype(self) -> str:
        return "float32"

    def open_kv(self, capacity: int) -> ReferenceKV:
        self._open_weights()
        check_capacity(self._spec, capacity)
        return ReferenceKV(capacity)

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        self._append(kv, ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self._open_weights()
        return HostDecode(self, kv, ids, plan)

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        sequence = self._append(kv, ids)
        out: npt.NDArray[np.float32] = self.forward(sequence)[-len(ids) :].numpy()
        return out

    def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append ids; the logits [V] of the last."""
        out: npt.NDArray[np.float32] = self.logits(kv, ids)[-1]
        return out

    def close(self) -> None:
        self._weights = None

    def forward(self, ids: Sequence[int]) -> torch.Tensor:
        """Logits [T, V] of a whole sequence."""
        with torch.inference_mode():
            return self._forward(ids)

    def _append(self, kv: KV, ids: Sequence[int]) -> list[int]:
        self._open_weights()
        if not isinstance(kv, ReferenceKV):
            raise InputError(f"a {type(kv).__name__} belongs to another backend; use open_kv of this one")
        kv.check_open()
        if ids:
            check_pending(kv, ids, self._spec.vocab_size)
        kv.ids += ids
        return kv.ids

    def _open_weights(self) -> dict[str, torch.Tensor]:
        if self._weights is None:
            raise EngineClosedError("this backend is closed. Load the engine again.")
        return self._weights

    # Shapes: X and o [L, T, D]; q [L, T, heads, h]; a lane never sees another but through the landings.

    def _forward(self, ids: Sequence[int]) -> torch.Tensor:
        w, spec = self._open_weights(), self._spec
        positions = torch.arange(len(ids), dtype=torch.float64)
        angles = torch.outer(positions, self._frequencies)  # [T, h/2]
        turn = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        streams = w["embed"][torch.tensor(ids)].expand(spec.lanes, -1, -1)
        outputs: dict[int, torch.Tensor] = {}
        for step in self._table.steps:
            p = f"layers.{step.layer}."
            if step.kind == "attention":
                x = self._norm(streams, w[p + "attn_norm"])
                outputs[step.module] = self._attention(w, p, x, turn, spec.windows[step.layer])
            else:
                x = self._norm(streams, w[p + "ffn_norm"])
                outputs[step.module] = self._mlp(w, p, x)
            for landing in step.landings:
                own = outputs[landing.source]
                others = own.sum(0, keepdim=True) - own
                streams = streams + landing.own * own + landing.others * others
        return self._head(w, streams)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self._spec.norm_eps) * weight

    def _attention(
        self, w: dict[str, torch.Tensor], p: str, x: torch.Tensor, turn: torch.Tensor, window: int
    ) -> torch.Tensor:
        spec = self._spec
        lanes, length, _ = x.shape
        q, k, v = (torch.einsum("ltd,lod->lto", x, w[p + name]) for name in ("wq", "wk", "wv"))
        if spec.qkv_bias:
            q, k, v = (t + w[p + b].unsqueeze(1) for t, b in ((q, "bq"), (k, "bk"), (v, "bv")))
        q, k, v = (t.reshape(lanes, length, -1, spec.head_dim) for t in (q, k, v))
        if spec.qk_norm:
            q, k = self._norm(q, w[p + "q_norm"]), self._norm(k, w[p + "k_norm"])
        q, k = _rotate(q, turn), _rotate(k, turn)
        group = spec.n_heads // spec.n_kv_heads
        k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
        scores = torch.einsum("lqhe,lkhe->lhqk", q, k) / spec.head_dim**0.5
        age = torch.arange(length).unsqueeze(1) - torch.arange(length)  # q - k
        visible = (age >= 0) & (age < (window or length))
        scores = scores.masked_fill(~visible, float("-inf"))
        mixed = torch.einsum("lhqk,lkhe->lqhe", scores.softmax(-1), v).reshape(lanes, length, -1)
        return torch.einsum("lto,ldo->ltd", mixed, w[p + "wo"])

    def _mlp(self, w: dict[str, torch.Tensor], p: str, x: torch.Tensor) -> torch.Tensor:
        gate = torch.einsum("ltd,lfd->ltf", x, w[p + "w1"])
        up = torch.einsum("ltd,lfd->ltf", x, w[p + "w3"])
        return torch.einsum("ltf,ldf->ltd", torch.nn.functional.silu(gate) * up, w[p + "w2"])

    def _head(self, w: dict[str, torch.Tensor], streams: torch.Tensor) -> torch.Tensor:
        spec = self._spec
        head = w["embed"] if spec.tied_head else w["head"]
        if spec.head == "sum":
            return self._norm(streams.sum(0), w["norm"]) @ head.T
        normed = self._norm(streams, w["norm"])
        if spec.head == "replicate":
            return normed.mean(0) @ head.T
        rows = head.reshape(spec.lanes, -1, spec.dim)  # lane l answers for rows [l*V/L, (l+1)*V/L)
        return torch.einsum("ltd,lvd->tlv", normed, rows).reshape(normed.shape[1], -1)


def _rotate(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Turn pairs (x0,x1), (x2,x3).. of x [L, T, heads, h] by turn [T, h/2]."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turn[:, None, :]).reshape(x.shape)
