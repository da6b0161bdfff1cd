"""Many ids at once through the model, in torch on the device: keys and values into the decode cache.

Knows the canonical tensors, the lane records of params.STEP and the cache [N, 2, K, capacity, h]; no
sampling.
Products are FP16 with FP32 sums and results; norms, RoPE and residual streams are FP32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from kogagent.spec import ModelSpec

CHUNK = 1024
"""Rows of one pass: bounds the memory of masks and activations."""


class Prefill:
    """The forward pass over many rows. tensors: canonical names, FP16 on the device."""

    def __init__(
        self,
        spec: ModelSpec,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        one_stream: bool,
    ) -> None:
        self._spec, self._w, self._steps = spec, tensors, steps
        self._streams = 1 if one_stream else spec.lanes
        self._device = tensors["embed"].device
        self._frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float64, device=self._device)

    @torch.inference_mode()
    def run(
        self, cache: torch.Tensor, position: int, ids: Sequence[int], *, logits: bool
    ) -> torch.Tensor | None:
        """Append ids at `position`; their logits [len(ids), V] FP32 if asked for."""
        out = []
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            streams = self._pass(cache, position + start, part)
            if logits:
                out.append(self._logits(streams))
        return torch.cat(out) if logits else None

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight.float(), self._spec.norm_eps)

    def _project(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """x [S or L, T, in] times w [L, out, in] -> [L, T, out], FP32."""
        x = x.half().expand(w.shape[0], -1, -1)
        return torch.bmm(x, w.transpose(1, 2), out_dtype=torch.float32)

    def _pass(self, cache: torch.Tensor, position: int, ids: Sequence[int]) -> torch.Tensor:
        w = self._w
        positions = torch.arange(position, position + len(ids), dtype=torch.float64, device=self._device)
        angles = torch.outer(positions, self._frequencies)
        turn = torch.polar(torch.ones_like(angles), angles).to(torch.complex64).unsqueeze(1)  # [T, 1, h/2]
        rows = w["embed"][torch.tensor(list(ids), device=self._device)].float()
        streams = rows.expand(self._streams, -1, -1).clone()
        outputs: list[torch.Tensor] = []
        for module, step in enumerate(self._steps):
            p = f"layers.{module // 2}."
            if module % 2 == 0:
                x = self._norm(streams, w[p + "attn_norm"])
                o = self._attention(p, x, cache[module // 2], position, turn, int(step["window"]))
            else:
                x = self._norm(streams, w[p + "ffn_norm"])
                hidden = F.silu(self._project(x, w[p + "w1"])).mul_(self._project(x, w[p + "w3"]))
                o = self._project(hidden, w[p + "w2"])
            if self._streams == 1:
                o = o.sum(0, keepdim=True)
            outputs.append(o if step["sends"] else o.new_empty(0))
            streams = self._land(streams, o, float(step["own"]), float(step["others"]))
            if step["late"] >= 0:
                late = outputs[int(step["late"])]
                streams = self._land(streams, late, float(step["late_own"]), float(step["late_others"]))
        return streams

    def _land(self, streams: torch.Tensor, o: torch.Tensor, own: float, others: float) -> torch.Tensor:
        if others == 0.0:
            return streams.add_(o, alpha=own)
        return streams.add_(o, alpha=own - others).add_(o.sum(0, keepdim=True), alpha=others)

    def _attention(
        self, p: str, x: torch.Tensor, cache: torch.Tensor, position: int, turn: torch.Tensor, window: int
    ) -> torch.Tensor:
        spec, w = self._spec, self._w
        lanes, rows, h = spec.lanes, x.shape[1], spec.head_dim
        q, k, v = (self._project(x, w[p + name]) for name in ("wq", "wk", "wv"))
        if spec.qkv_bias:
            q, k, v = (t + w[p + b].float().unsqueeze(1) for t, b in ((q, "bq"), (k, "bk"), (v, "bv")))
        q, k, v = (t.reshape(lanes, rows, -1, h) for t in (q, k, v))
        if spec.qk_norm:
            q, k = self._norm(q, w[p + "q_norm"]), self._norm(k, w[p + "k_norm"])
        q, k = _rotate(q, turn), _rotate(k, turn)
        end = position + rows

        def heads(t: torch.Tensor) -> torch.Tensor:  # [L, T, n, h] -> [L * n, T, h]
            return t.transpose(1, 2).reshape(-1, rows, h).half()

        cache[0, :, position:end], cache[1, :, position:end] = heads(k), heads(v)
        first = max(0, position + 1 - window) if window else 0
        group = spec.n_heads // spec.n_kv_heads
        keys = cache[0, :, first:end].repeat_interleave(group, 0)
        values = cache[1, :, first:end].repeat_interleave(group, 0)
        age = torch.arange(position, end, device=x.device).unsqueeze(1) - torch.arange(
            first, end, device=x.device
        )
        visible = (age >= 0) & (age < window) if window else age >= 0
        mixed = F.scaled_dot_product_attention(heads(q)[None], keys[None], values[None], attn_mask=visible)[0]
        mixed = mixed.view(lanes, spec.lane_heads, rows, h).transpose(1, 2).reshape(lanes, rows, -1)
        return self._project(mixed, w[p + "wo"])

    def _logits(self, streams: torch.Tensor) -> torch.Tensor:
        spec, w = self._spec, self._w
        head = w["embed"] if spec.tied_head else w["head"]
        if spec.head == "sum":  # equal streams are summed as often as there are lanes
            streams = streams.sum(0, keepdim=True) * (spec.lanes / self._streams)
        x = self._norm(streams, w["norm"])
        if spec.head == "replicate":
            x = x.mean(0, keepdim=True)
        per_lane = spec.head == "vocab_parallel" and self._streams > 1
        return (
            self._project(x, head.view(spec.lanes if per_lane else 1, -1, spec.dim))
            .transpose(0, 1)
            .flatten(1)
        )


def _rotate(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2)
