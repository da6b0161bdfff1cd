"""What a module reads: the same values and gradients as eight streams that are kept and landed on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kogagent.engine.lanes import lane_table
from training.experiment import VARIANTS
from training.model import STACKED, LaneModel, Layout, attend, dense_masks, mlp_core, turned
from training.streams import Operations, moves
from training.train import NANO, TINY

SHAPE = replace(
    TINY,
    vocab_size=64,
    dim=32,
    n_layers=6,
    n_heads=16,
    head_dim=4,
    ffn_dim=64,
    context=64,
    windows=(8, 0, 5, 0, 3, 0),
)
MODES: tuple[dict[str, Any], ...] = (
    *(v.changes for v in VARIANTS),
    {"delay": 2, "early_resent": True},
    {"delay": 1, "early": "none", "comm_attention": False},
    {"delay": 2, "comm_mlp": False},
    {"delay": 2, "head": "sum", "tied_head": False},
    {"delay": 0, "head": "sum"},
    {"delay": 3, "head": "vocab_parallel"},
    {"lanes": 1, "delay": 2},
)


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def plain_logits(model: LaneModel, ids: Tensor, places: Tensor, masks: dict[int, Tensor]) -> Tensor:
    """Logits [B, T, V] from streams [L, B, T, D] that every output is added to, as engine/lanes.py says."""
    spec = model.spec
    width, eps = spec.head_dim, spec.norm_eps
    cos, sin = (t[places][:, None, None] for t in (model.cos, model.sin))  # [B, 1, 1, T, h/2]

    def turn(x: Tensor) -> Tensor:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def heads(x: Tensor, w: Tensor) -> Tensor:
        y = torch.einsum("lbtd,lod->blto", x, w)
        return y.view(*y.shape[:-1], -1, width).transpose(2, 3)

    x = F.embedding(ids, model.embed).expand(spec.lanes, -1, -1, -1)
    outputs: list[Tensor] = []
    for step in lane_table(spec).steps:
        w = {n: getattr(model, n)[step.layer] for n in STACKED}
        if step.kind == "attention":
            read = normed(x, w["attn_norm"], eps)
            q, k, v = (heads(read, w[n]) for n in ("wq", "wk", "wv"))  # [B, L, heads, T, h]
            k, v = (t.repeat_interleave(q.shape[2] // k.shape[2], 2) for t in (k, v))
            shape = q.shape
            q, k, v = (t.flatten(1, 2) for t in (turn(q), turn(k), v))
            mixed = attend(q, k, v, masks[spec.windows[step.layer]]).view(shape).transpose(2, 3).flatten(-2)
            outputs.append(torch.einsum("blto,ldo->lbtd", mixed, w["wo"]))
        else:
            read = normed(x, w["ffn_norm"], eps)
            gate, up = (torch.einsum("lbtd,lfd->lbtf", read, w[n]) for n in ("w1", "w3"))
            outputs.append(torch.einsum("lbtf,ldf->lbtd", F.silu(gate) * up, w["w2"]))
        for landing in step.landings:
            o = outputs[landing.source]
            x = x + landing.own * o + landing.others * (o.sum(0, keepdim=True) - o)
    if spec.head == "sum":
        return normed(x.sum(0), model.norm, eps) @ model.output_weight().T
    read = normed(x, model.norm, eps)
    if spec.head == "replicate":
        return read.mean(0) @ model.output_weight().T
    rows = model.output_weight().view(spec.lanes, -1, spec.dim)
    return torch.einsum("lbtd,lvd->btlv", read, rows).flatten(-2)


@pytest.mark.parametrize("changes", MODES, ids=str)
def test_loss_and_gradients_are_those_of_streams_that_are_kept(
    changes: dict[str, Any], rng: np.random.Generator
) -> None:
    spec = replace(SHAPE, **changes)
    g = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    model = LaneModel(spec, int(rng.integers(1 << 31)))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=g) * 0.1)
    ids = torch.randint(1, 64, (2, 24), generator=g)
    starts = torch.zeros_like(ids, dtype=torch.bool)
    starts[0, [7, 15]] = True
    layout = Layout.of(ids, starts, 0)
    masks = dense_masks(layout, spec.windows)
    targets, weights = torch.randint(1, 64, ids.shape, generator=g), torch.rand(ids.shape, generator=g)

    total, losses, right = model.loss(ids, layout.place, targets, weights, dict(masks))
    torch.autograd.backward(total)
    ours = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    logits = plain_logits(model, ids, layout.place, masks)
    plain = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    torch.autograd.backward((plain * weights).sum())

    torch.testing.assert_close(losses, plain.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(total.detach(), (plain * weights).sum().detach(), rtol=1e-5, atol=1e-5)
    top = logits.topk(2, -1).values
    clear = top[..., 0] - top[..., 1] > 1e-3  # no tie that rounding could break
    assert torch.equal(right[clear], (logits.argmax(-1) == targets)[clear])
    for name, p in model.named_parameters():
        mine, theirs = ours[name], p.grad
        assert mine is not None and theirs is not None
        assert (mine - theirs).norm() < 1e-4 * theirs.norm(), name


@pytest.fixture(scope="module")
def fused() -> ModuleType:
    pytest.importorskip("triton", reason="the kernels need the extra cuda")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("interprets what a card would run")
    from training import fused

    return fused


def _random(rng: np.random.Generator, dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(dtype)


KINDS = [(torch.float32, 1e-5), (torch.float16, 4e-3)]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("columns, dim", [(64, 128), (192, 256)])
@pytest.mark.parametrize("dtype, tolerance", KINDS)
def test_the_kernel_of_the_streams_makes_what_the_operations_do(
    dtype: torch.dtype, tolerance: float, columns: int, dim: int, apart: bool, fused: ModuleType,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    n, lanes = int(rng.integers(1, 300)), 3
    z, w = _random(rng, dtype, n, lanes, columns), _random(rng, dtype, lanes, dim, columns) * columns**-0.5
    before, s = _random(rng, dtype, n, *((lanes,) if apart else ()), dim), _random(rng, dtype, n, dim)
    results = [ops.streams(before, s, z, w, lanes, 1e-5) for ops in (fused.FusedOperations(), Operations())]
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype, tolerance", KINDS)
def test_the_kernel_of_the_gradients_makes_what_the_operations_do(
    dtype: torch.dtype, tolerance: float, fused: ModuleType, rng: np.random.Generator
) -> None:
    n, lanes, dim, columns = int(rng.integers(1, 300)), 3, 128, 128
    draw, w = _random(rng, dtype, n, lanes, columns), _random(rng, dtype, lanes, columns, dim) * columns**-0.5
    later, x = (_random(rng, dtype, n, lanes, dim) for _ in range(2))
    factor, dfactor = _random(rng, torch.float32, 2, n, lanes, 1)
    results = [
        ops.gradients(draw, w, later, x, factor, dfactor) for ops in (fused.FusedOperations(), Operations())
    ]
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype, tolerance", KINDS)
def test_the_kernels_of_rotation_and_mlp_give_the_gradients_of_what_they_stand_for(
    dtype: torch.dtype, tolerance: float, fused: ModuleType, rng: np.random.Generator
) -> None:
    batch, length, lanes, width = int(rng.integers(1, 4)), int(rng.integers(1, 60)), 3, 16
    count = batch * length
    raw, factor = _random(rng, dtype, count, lanes, 3 * width), _random(rng, torch.float32, count, lanes, 1)
    angles = _random(rng, torch.float32, batch, length, 1, width // 2)
    grads = [_random(rng, dtype, batch, length, lanes, width).transpose(1, 2) for _ in range(3)]
    if rng.random() < 0.5:
        grads[1] = grads[1].contiguous()
    out, dhidden = _random(rng, dtype, count, lanes, 2 * width), _random(rng, dtype, count, lanes, width)
    cases: list[tuple[Any, Any, Tensor, tuple[Any, ...], list[Tensor]]] = [
        (turned, fused.fused_turn(turned), raw, (angles.cos(), angles.sin(), 1, width), grads),
        (mlp_core, fused.fused_mlp(mlp_core), out, (), [dhidden]),
    ]
    for plain, kernels, given, rest, upstream in cases:
        found = []
        for function in (plain, kernels):
            leaves = [given.clone().requires_grad_(), factor.clone().requires_grad_()]
            made = function(*leaves, *rest)
            torch.autograd.backward(made if isinstance(made, tuple) else (made,), upstream)
            found.append([leaf.grad for leaf in leaves])
        for got, want in zip(*reversed(found), strict=True):
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * 4)


def test_a_model_of_wide_lanes_learns_the_same_through_the_kernels(
    fused: ModuleType, rng: np.random.Generator
) -> None:
    spec = replace(
        SHAPE, dim=128, lanes=2, n_heads=2, n_kv_heads=2, head_dim=64, ffn_dim=128, n_layers=5, windows=()
    )
    seed = int(rng.integers(1 << 31))
    ids = torch.from_numpy(rng.integers(1, 64, (1, 20)))
    layout = Layout.of(ids, torch.zeros_like(ids, dtype=torch.bool), 0)
    gradients = []
    for operations in (Operations(), fused.FusedOperations()):
        model = LaneModel(spec, seed)
        model._operations = operations
        if isinstance(operations, fused.FusedOperations):
            model._turn, model._mlp = fused.fused_turn(model._turn), fused.fused_mlp(model._mlp)
        masks = dict(dense_masks(layout, spec.windows))
        total, _, _ = model.loss(ids, layout.place, ids, torch.ones(ids.shape), masks)
        torch.autograd.backward(total)
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    for name, want in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], want, rtol=1e-3, atol=1e-4)


def test_the_kernels_fit_on_a_card_twice_a_multiprocessor(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="the kernels need the extra cuda")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    child = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("fused_builds.py"))]
    ran = subprocess.run(child, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    products = ["streams_kernel"] * 3 + ["gradients_kernel"] * 2
    assert [one["kernel"] for one in found] == [*products, "mlp_gradients_kernel", "turn_gradients_kernel"]
    for one in found:
        assert one["tensor_cores"] == (one["kernel"] in products), one
        assert one["stack"] <= (128 if one["kernel"] in products else 0), one
        assert one["registers"] <= 65536 // 2 and one["shared"] <= 232448 // 2, one


def test_nano_is_one_stream_until_layer_two_has_landed() -> None:
    plan = moves(lane_table(NANO))
    assert len(plan) == 2 * NANO.n_layers + 1
    assert [bool(move.private) for move in plan] == [False] * 5 + [True] * 16
    assert plan[12].private == ((11, 1.0), (7, -1.0)) and plan[12].sums == ((7, 1.0),)


@pytest.mark.parametrize("changes", [{"delay": 0}, {"residual": "ladder", "delay": 0}, {"lanes": 1}], ids=str)
def test_equal_lanes_are_one_stream_throughout(changes: dict[str, Any]) -> None:
    assert not any(move.private for move in moves(lane_table(replace(NANO, **changes))))


def test_lanes_that_never_hear_each_other_have_no_sums() -> None:
    spec = replace(NANO, delay=0, comm_attention=False, comm_mlp=False)
    assert not any(move.sums for move in moves(lane_table(spec)))
