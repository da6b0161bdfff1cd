"""One layer of a Llama of a given shape in plain torch: what the peers on a GPU share.

Lanes are joined: a layer computes an ordinary transformer of the same matrices.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from kogagent.spec import ModelSpec


class TorchLayer(nn.Module):
    """Random weights. A subclass keeps the cache: `attend` puts keys and values [1, K, T, h] into it and
    gives what the queries [1, H, T, h] make of it; place: whatever it needs to know of their positions."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = spec.n_heads, spec.n_kv_heads, spec.head_dim
        rows = (spec.n_heads + 2 * spec.n_kv_heads) * spec.head_dim
        self.norm1, self.norm2 = (nn.RMSNorm(spec.dim, eps=spec.norm_eps) for _ in range(2))
        self.qkv = nn.Linear(spec.dim, rows, bias=False)
        self.out = nn.Linear(spec.n_heads * spec.head_dim, spec.dim, bias=False)
        self.gate_up = nn.Linear(spec.dim, 2 * spec.ffn_dim, bias=False)
        self.down = nn.Linear(spec.ffn_dim, spec.dim, bias=False)

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        place: int | torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        raise NotImplementedError

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        place: int | torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """x [1, T, D]; cos, sin [T, h/2] of its positions."""
        rows = x.shape[1]
        sizes = [n * self.width for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (
            t.view(1, rows, -1, self.width).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(sizes, -1)
        )
        mixed = self.attend(_turned(q, cos, sin), _turned(k, cos, sin), v, place, mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, rows, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        out: torch.Tensor = x + self.down(F.silu(gate) * up)
        return out


def _turned(t: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = t.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(t.dtype)
