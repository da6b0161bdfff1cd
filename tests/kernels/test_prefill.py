"""Pre-fill against the equations: on a card, or by Triton's interpreter where there is none."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():  # read when the kernels' module is imported, which Prefill does
    os.environ["TRITON_INTERPRET"] = "1"

from kogagent.engine.backends.cuda import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.monokernel import rope_table
from kogagent.kernels.pack import plan
from kogagent.kernels.prefill import Prefill
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHARED = 232448
_replace = dataclasses.replace
CASES = [
    TINY,
    _replace(TINY, name="bias, norms of q and k, tied", qkv_bias=True, qk_norm=True, tied_head=True),
    _replace(TINY, name="ladder", residual="ladder", lanes=2),
    _replace(TINY, name="lanes without delay", lanes=2, head="sum"),
    _replace(TINY, name="heads of 24, one kv head", head_dim=24, n_kv_heads=1),
    _replace(TINY, name="one layer", n_layers=1, windows=(0,)),
    TINY_LANES,
    _replace(TINY_LANES, name="vocab_parallel", head="vocab_parallel", vocab_size=82),
    _replace(TINY_LANES, name="present and resent", early="present", early_resent=True, head="sum"),
    _replace(TINY_LANES, name="ladder in lanes, mlp kept", comm_mlp=False),
]


def make_prefill(spec: ModelSpec, tensors: Mapping[str, torch.Tensor], buckets: tuple[int, ...]) -> Prefill:
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, 40, SHARED, one_stream=one_stream)
    there = {name: tensor.to(DEVICE) for name, tensor in tensors.items()}
    return Prefill(
        layout, there, steps, rope_table(spec).to(DEVICE), capture=DEVICE == "cuda", buckets=buckets
    )


def poisoned_cache(spec: ModelSpec, capacity: int, dtype: torch.dtype) -> torch.Tensor:
    shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
    return torch.full(shape, float("nan"), dtype=dtype, device=DEVICE)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.cpu() - want).square().mean().sqrt() / want.square().mean().sqrt())


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_prefill_in_chunks_gives_the_equations_logits(
    spec: ModelSpec, dtype: torch.dtype, tolerance: float, rng: np.random.Generator
) -> None:
    tensors = {n: t.to(dtype) for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 30).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    prefill = make_prefill(spec, tensors, (3, 7))  # chunk borders fall inside windows, buckets are padded
    cache = poisoned_cache(spec, spec.context - 3, dtype)
    assert prefill.run(cache, 0, ids[:11]) is None
    got = prefill.run(cache, 11, ids[11:], logits="all")
    assert got is not None
    assert relative_error(got, want[11:]) < tolerance
    assert bool(cache[:, :, :, len(ids) :].isnan().all()), "rows past the sequence were written"
    assert bool(cache[:, :, :, : len(ids)].isfinite().all())
    last = prefill.run(cache, 20, ids[20:29], logits="last")
    assert last is not None
    assert relative_error(last, want[28]) < tolerance
