"""The pre-fill peer: a Llama of a given shape in plain torch, eager or captured as one CUDA graph.

Random weights, lanes joined, full attention: what a careful user gets from torch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.torch_layer import TorchLayer
from kogagent.spec import ModelSpec


class _Layer(TorchLayer):
    def __init__(self, spec: ModelSpec, length: int) -> None:
        super().__init__(spec)
        self.cache = torch.zeros((2, 1, spec.n_kv_heads, length, spec.head_dim))

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        place: int | torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """place: of the first row."""
        end = int(place) + q.shape[2]
        self.cache[0, :, :, place:end], self.cache[1, :, :, place:end] = k, v
        keys, values = self.cache[0, :, :, :end], self.cache[1, :, :, :end]
        return F.scaled_dot_product_attention(
            q, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )


class TorchPrefill(nn.Module):
    """`rows` ids after `start` reused ones; the largest logit's id of the last."""

    def __init__(self, spec: ModelSpec, start: int, rows: int) -> None:
        super().__init__()
        self._start, self._rows = start, rows
        self.embed = nn.Embedding(spec.vocab_size, spec.dim)
        self.layers = nn.ModuleList(_Layer(spec, start + rows) for _ in range(spec.n_layers))
        self.norm = nn.RMSNorm(spec.dim, eps=spec.norm_eps)
        self.head = nn.Linear(spec.dim, spec.vocab_size, bias=False)
        frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float32)
        angles = torch.outer(torch.arange(start, start + rows).float(), frequencies)
        self._cos, self._sin = angles.cos(), angles.sin()
        places = torch.arange(start + rows)
        self._mask = places <= places[start:, None] if start else None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self._cos, self._sin, self._start, self._mask)
        out: torch.Tensor = self.head(self.norm(x[:, -1:])).argmax(-1)
        return out


def torch_runs(spec: ModelSpec, start: int, rows: int) -> dict[str, Callable[[], int]]:
    """Eager and captured: each takes fresh ids and gives the next id, in the host's hands."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("cuda"):
            model = TorchPrefill(spec, start, rows).eval()
    finally:
        torch.set_default_dtype(default)
    ids = torch.zeros((1, rows), dtype=torch.long, device="cuda")

    def fresh() -> None:
        ids.copy_(torch.randint(spec.vocab_size, (1, rows)))

    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(ids)
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = model(ids)
    torch.cuda.synchronize()

    def captured() -> int:
        fresh()
        graph.replay()
        return int(out)

    def eager() -> int:
        fresh()
        return int(model(ids))

    return {"torch eager": eager, "torch CUDA graph": captured}
