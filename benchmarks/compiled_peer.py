"""The decode peer on a GPU: a Llama of a given shape in plain torch, compiled with CUDA graphs.

Random weights, static cache, one position a call, Gumbel sampling inside the graph: what a careful user gets
from torch alone.
Lanes are joined: the peer computes an ordinary transformer of the same matrices.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from kogagent.spec import ModelSpec


class _Layer(nn.Module):
    def __init__(self, spec: ModelSpec, length: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = spec.n_heads, spec.n_kv_heads, spec.head_dim
        rows = (spec.n_heads + 2 * spec.n_kv_heads) * spec.head_dim
        self.norm1, self.norm2 = (nn.RMSNorm(spec.dim, eps=spec.norm_eps) for _ in range(2))
        self.qkv = nn.Linear(spec.dim, rows, bias=False)
        self.out = nn.Linear(spec.n_heads * spec.head_dim, spec.dim, bias=False)
        self.gate_up = nn.Linear(spec.dim, 2 * spec.ffn_dim, bias=False)
        self.down = nn.Linear(spec.ffn_dim, spec.dim, bias=False)
        self.k: torch.Tensor
        self.v: torch.Tensor
        shape = (1, spec.n_kv_heads, length, spec.head_dim)
        self.register_buffer("k", torch.zeros(shape))
        self.register_buffer("v", torch.zeros(shape))

    def forward(
        self, x: torch.Tensor, at: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        sizes = [n * self.width for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (
            t.view(1, 1, -1, self.width).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(sizes, -1)
        )

        def turn(t: torch.Tensor) -> torch.Tensor:
            a, b = t.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(t.dtype)

        self.k.index_copy_(2, at, turn(k))
        self.v.index_copy_(2, at, v)
        mixed = F.scaled_dot_product_attention(turn(q), self.k, self.v, attn_mask=mask, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        out: torch.Tensor = x + self.down(F.silu(gate) * up)
        return out


class _Model(nn.Module):
    def __init__(self, spec: ModelSpec, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(spec.vocab_size, spec.dim)
        self.layers = nn.ModuleList(_Layer(spec, length) for _ in range(spec.n_layers))
        self.norm = nn.RMSNorm(spec.dim, eps=spec.norm_eps)
        self.head = nn.Linear(spec.dim, spec.vocab_size, bias=False)
        frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float32)
        places = torch.arange(length)
        angles = torch.outer(places.float(), frequencies)
        self.cos, self.sin, self.places = angles.cos(), angles.sin(), places

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = self.embed(token)
        mask = (self.places <= at)[None, None, None, :]
        cos, sin = self.cos[at], self.sin[at]
        for layer in self.layers:
            x = layer(x, at, cos, sin, mask)
        logits = self.head(self.norm(x)).float()
        noise = -torch.empty_like(logits).exponential_().log()
        out: torch.Tensor = (logits + noise).argmax(-1)
        return out


def make_step(spec: ModelSpec, length: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """(token [1, 1], position [1]) -> token, compiled and warm; positions below `length`. FP16 on the GPU."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("cuda"):
            model = _Model(spec, length).eval()
    finally:
        torch.set_default_dtype(default)
    step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch.compile(
        model, mode="max-autotune", fullgraph=True
    )
    token = torch.zeros((1, 1), dtype=torch.long, device="cuda")
    for at in range(6):
        token = step(token, torch.tensor([at], device="cuda")).clone()
    return step


def decode_run(spec: ModelSpec, context: int, tokens: int) -> Callable[[], float]:
    """A run of `tokens` steps from position `context` on; tokens a second."""
    step = make_step(spec, context + tokens + 1)

    def run() -> float:
        token = torch.ones((1, 1), dtype=torch.long, device="cuda")
        at = torch.tensor([context], device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(tokens):
            token = step(token, at).clone()
            at = at + 1
        torch.cuda.synchronize()
        return tokens / (time.perf_counter() - start)

    return run
