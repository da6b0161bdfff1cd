"""A Llama of a given shape in plain torch with a static cache, to be compiled: what a careful user gets from
torch alone. Decoding's peer on a GPU: one position a call, Gumbel sampling inside the graph.

Random weights. Lanes are joined: the peer computes an ordinary transformer of the same matrices.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.torch_layer import TorchLayer
from kogagent.spec import ModelSpec


class _Layer(TorchLayer):
    def __init__(self, spec: ModelSpec, length: int) -> None:
        super().__init__(spec)
        self.k: torch.Tensor
        self.v: torch.Tensor
        shape = (1, spec.n_kv_heads, length, spec.head_dim)
        self.register_buffer("k", torch.zeros(shape))
        self.register_buffer("v", torch.zeros(shape))

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        place: int | torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """place: the positions [rows]."""
        assert isinstance(place, torch.Tensor)
        self.k.index_copy_(2, place, k)
        self.v.index_copy_(2, place, v)
        return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask, enable_gqa=True)


class StaticModel(nn.Module):
    """Positions below `length`. sample: at temperature 1, else the largest logit."""

    def __init__(self, spec: ModelSpec, length: int, *, sample: bool = True) -> None:
        super().__init__()
        self.sample = sample
        self.embed = nn.Embedding(spec.vocab_size, spec.dim)
        self.layers = nn.ModuleList(_Layer(spec, length) for _ in range(spec.n_layers))
        self.norm = nn.RMSNorm(spec.dim, eps=spec.norm_eps)
        self.head = nn.Linear(spec.dim, spec.vocab_size, bias=False)
        frequencies = torch.tensor(spec.rope_frequencies(), dtype=torch.float32)
        places = torch.arange(length)
        angles = torch.outer(places.float(), frequencies)
        self.cos, self.sin, self.places = angles.cos(), angles.sin(), places

    def forward(self, ids: torch.Tensor, at: torch.Tensor, last: torch.Tensor | None = None) -> torch.Tensor:
        """The id [1, 1] after row `last` [1] of ids [1, rows] at positions `at` [rows]; None: of one row."""
        x = self.embed(ids)
        mask = (self.places <= at[:, None])[None, None]
        cos, sin = self.cos[at], self.sin[at]
        for layer in self.layers:
            x = layer(x, cos, sin, at, mask)
        if last is not None:
            x = x.index_select(1, last)
        logits = self.head(self.norm(x)).float()
        if self.sample:
            logits = logits - torch.empty_like(logits).exponential_().log()
        out: torch.Tensor = logits.argmax(-1)
        return out


def make_model(spec: ModelSpec, length: int, device: str = "cuda", *, sample: bool = True) -> StaticModel:
    """In FP16 on a device, not compiled yet."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device(device):
            return StaticModel(spec, length, sample=sample).eval()
    finally:
        torch.set_default_dtype(default)


def make_step(spec: ModelSpec, length: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """(token [1, 1], position [1]) -> token, compiled and warm; positions below `length`. FP16 on the GPU."""
    model = make_model(spec, length)
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
