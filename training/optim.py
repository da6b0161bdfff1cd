"""Muon for the layers' matrices and AdamW for the rest, over weights stacked [N, L, out, in]. Knows no
model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def orthogonal(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz: the nearest semi-orthogonal matrices, about, of a batch [n, out, in] (Jordan 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def muon_update(w: Tensor, g: Tensor, momentum: Tensor, lr: Tensor, beta: float, decay: float) -> None:
    """One step on one stacked weight. The update's RMS is 0.2 lr, as AdamW's is (Moonlight)."""
    momentum.lerp_(g, 1 - beta)
    flat = g.lerp(momentum, beta).flatten(0, -3)
    update = orthogonal(flat).to(w.dtype).view_as(w) * (0.2 * math.sqrt(max(w.shape[-2:])))
    w.mul_(1 - lr * decay).sub_(update * lr)


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum per layer and lane."""

    def __init__(self, params: Iterable[Tensor], lr: float, beta: float = 0.95, decay: float = 0.1) -> None:
        super().__init__(list(params), {"lr": lr, "beta": beta, "decay": decay})
        self._lr: dict[torch.device, Tensor] = {}  # on the device, so that no step waits for a copy

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure, no loss
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state["momentum"] = torch.zeros_like(w)
                lr = self._lr.setdefault(w.device, torch.zeros((), device=w.device)).fill_(group["lr"])
                muon_update(w, w.grad, state["momentum"], lr, group["beta"], group["decay"])
