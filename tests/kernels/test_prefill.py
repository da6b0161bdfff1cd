"""Prefill against the equations and against the kernel's cache, its products done in FP32 on the CPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from kogagent.engine.backends.cuda import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels import prefill
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

_replace = dataclasses.replace
CASES = [
    TINY,
    _replace(TINY, name="bias, norms of q and k, tied", qkv_bias=True, qk_norm=True, tied_head=True),
    _replace(TINY, name="ladder", residual="ladder", lanes=2),
    _replace(TINY, name="lanes without delay", lanes=2, head="sum"),
    TINY_LANES,
    _replace(TINY_LANES, name="vocab_parallel", head="vocab_parallel", vocab_size=82),
    _replace(TINY_LANES, name="present and resent", early="present", early_resent=True, head="sum"),
]


class HostPrefill(prefill.Prefill):
    def _project(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """The same product where there is no FP16 GEMM with FP32 results."""
        return torch.bmm(x.half().float().expand(w.shape[0], -1, -1), w.float().transpose(1, 2))


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_prefill_in_chunks_gives_the_equations_logits(
    spec: ModelSpec, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefill, "CHUNK", 7)  # chunk borders fall inside windows
    tensors = {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 30).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    steps, one_stream = kernel_steps(spec)
    host = HostPrefill(spec, tensors, steps, one_stream=one_stream)
    cache = torch.full((spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim), float("nan")).half()
    assert host.run(cache, 0, ids[:11], logits=False) is None
    got = host.run(cache, 11, ids[11:], logits=True)
    assert got is not None
    error = (got - want[11:]).square().mean().sqrt() / want.square().mean().sqrt()
    assert error < 4e-3, f"relative error {error:.2e}"
    assert bool(cache[:, :, :, len(ids) :].isnan().all()), "rows past the sequence were written"
