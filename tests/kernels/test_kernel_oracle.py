"""The kernel's twin against the equations: every lane arrangement, head and option the kernel knows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from kogagent.engine.backends.cuda import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.monokernel import bias_rows, qk_norm_rows
from kogagent.kernels.oracle import Oracle
from kogagent.kernels.pack import pack, plan
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

SHARED = 232448
_replace = dataclasses.replace
CASES = [
    TINY,
    _replace(TINY, name="bias, norms of q and k, tied", qkv_bias=True, qk_norm=True, tied_head=True),
    _replace(TINY, name="ladder", residual="ladder", lanes=2),
    _replace(TINY, name="lanes without delay", lanes=2, head="sum"),
    _replace(TINY, name="odd columns", dim=40, ffn_dim=36),
    TINY_LANES,
    _replace(TINY_LANES, name="vocab_parallel", head="vocab_parallel", vocab_size=82),
    _replace(TINY_LANES, name="sum", head="sum"),
    _replace(TINY_LANES, name="present", early="present"),
    _replace(TINY_LANES, name="present and resent", early="present", early_resent=True),
    _replace(TINY_LANES, name="mlp kept", comm_mlp=False),
]


def make_oracle(spec: ModelSpec, tensors: dict[str, torch.Tensor], sms: int) -> Oracle:
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, sms, SHARED, one_stream=one_stream)
    bias = bias_rows(layout, tensors) if spec.qkv_bias else None
    qk_norm = qk_norm_rows(spec, tensors) if spec.qk_norm else None
    return Oracle(layout, pack(layout, tensors), tensors["embed"], steps, bias=bias, qk_norm=qk_norm)


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_the_twin_gives_the_equations_logits(spec: ModelSpec, rng: np.random.Generator) -> None:
    tensors = {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 20).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    oracle = make_oracle(spec, tensors, sms=int(rng.integers(spec.lanes, 40)))
    kv = torch.full((spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim), float("nan")).half()
    got = torch.stack([oracle.row(kv, token, i) for i, token in enumerate(ids)])
    error = (got - want).square().mean().sqrt() / want.square().mean().sqrt()
    assert error < 4e-3, f"{oracle.layout.blocks} blocks: relative error {error:.2e}"


def test_the_twin_refuses_a_word_that_never_arrives() -> None:
    spec = TINY
    tensors = {n: t.half() for n, t in random_tensors(spec, 1).items()}
    oracle = make_oracle(spec, tensors, sms=7)
    schedule = oracle.layout.schedule
    schedule[:, 2] = np.where(np.arange(len(schedule)) == 0, schedule[:, 2] - 1, schedule[:, 2])
    kv = torch.zeros((spec.n_layers, 2, spec.n_kv_heads, 8, spec.head_dim)).half()
    with pytest.raises(AssertionError, match="did not arrive once"):
        oracle.row(kv, 3, 0)
