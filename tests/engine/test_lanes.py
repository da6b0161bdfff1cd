"""The lane table against loops written by hand, in NumPy FP64, from the equations alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.lanes import Landing, lane_table
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError
from kogagent.spec import LANEFORMER_2B, ModelSpec

Array = npt.NDArray[np.float64]

LANES = 4
SPEC = ModelSpec(
    vocab_size=24,
    dim=20,
    n_layers=5,
    n_heads=8,
    n_kv_heads=4,
    head_dim=6,
    ffn_dim=16,
    context=64,
    lanes=LANES,
)


class Model:
    """One lane's modules in NumPy: what a lane computes from its own stream, nothing of how lanes meet."""

    def __init__(self, spec: ModelSpec, tensors: dict[str, torch.Tensor]) -> None:
        self.spec = spec
        self.w = {name: t.double().numpy() for name, t in tensors.items()}

    def norm(self, x: Array, weight: Array) -> Array:
        out: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.spec.norm_eps) * weight
        return out

    def embed(self, ids: list[int]) -> Array:
        out: Array = self.w["embed"][ids]
        return out

    def turn(self, x: Array) -> Array:
        """Turn interleaved pairs of x [T, h] by the angle of each position."""
        width = x.shape[-1]
        frequencies = self.spec.rope_theta ** (-np.arange(0, width, 2) / width)
        angles = np.arange(len(x))[:, None] * frequencies
        out = np.empty_like(x)
        out[:, 0::2] = x[:, 0::2] * np.cos(angles) - x[:, 1::2] * np.sin(angles)
        out[:, 1::2] = x[:, 0::2] * np.sin(angles) + x[:, 1::2] * np.cos(angles)
        return out

    def attention(self, layer: int, lane: int, stream: Array) -> Array:
        w, spec, p = self.w, self.spec, f"layers.{layer}."
        x = self.norm(stream, w[p + "attn_norm"])
        q, k, v = (x @ w[p + name][lane].T for name in ("wq", "wk", "wv"))
        width, heads = spec.head_dim, spec.n_heads // spec.lanes
        group = spec.n_heads // spec.n_kv_heads
        mixed = []
        for head in range(heads):
            own = slice(head * width, (head + 1) * width)
            shared = slice(head // group * width, (head // group + 1) * width)
            scores = self.turn(q[:, own]) @ self.turn(k[:, shared]).T / math.sqrt(width)
            window = spec.windows[layer] or len(x)
            age = np.arange(len(x))[:, None] - np.arange(len(x))
            scores[(age < 0) | (age >= window)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(weights / weights.sum(-1, keepdims=True) @ v[:, shared])
        out: Array = np.concatenate(mixed, -1) @ w[p + "wo"][lane].T
        return out

    def mlp(self, layer: int, lane: int, stream: Array) -> Array:
        w, p = self.w, f"layers.{layer}."
        x = self.norm(stream, w[p + "ffn_norm"])
        gate, up = x @ w[p + "w1"][lane].T, x @ w[p + "w3"][lane].T
        out: Array = (gate / (1 + np.exp(-gate)) * up) @ w[p + "w2"][lane].T
        return out

    def module(self, kind: int) -> Callable[[int, int, Array], Array]:
        return self.mlp if kind else self.attention

    def head_mean(self, streams: list[Array]) -> Array:
        normed = [self.norm(s, self.w["norm"]) for s in streams]
        out: Array = np.stack(normed).mean(0) @ self.w["head"].T
        return out


def total(parts: list[Array]) -> Array:
    out: Array = np.stack(parts).sum(0)
    return out


def by_hand(
    model: Model, ids: list[int], rule: Callable[[int, int, int, list[list[list[Array]]]], Array]
) -> list[Array]:
    """Run every module of every lane; rule(layer, kind, lane, outputs) is what is added to that lane.

    outputs[kind][layer][lane] holds all outputs so far.
    """
    streams = [model.embed(ids) for _ in range(model.spec.lanes)]
    outputs: list[list[list[Array]]] = [[], []]
    for layer in range(model.spec.n_layers):
        for kind in (0, 1):
            outputs[kind].append([model.module(kind)(layer, i, s) for i, s in enumerate(streams)])
            streams = [s + rule(layer, kind, i, outputs) for i, s in enumerate(streams)]
    return streams


def delayed(delay: int, early: str, resent: bool, comm: tuple[bool, bool]) -> Callable[..., Array]:
    """The equations of delayed tensor parallelism as branches: the table must say the same."""
    root = math.sqrt(LANES)

    def rule(layer: int, kind: int, lane: int, outputs: list[list[list[Array]]]) -> Array:
        own = outputs[kind][layer]
        if layer < delay:
            return total(own) if early == "present" else root * own[lane]
        if not comm[kind]:
            return root * own[lane]
        past = outputs[kind][layer - delay]
        others = total([o for j, o in enumerate(past) if j != lane])
        if layer - delay < delay and early == "present" and not resent:
            others = np.zeros_like(own[lane])
        out: Array = own[lane] + others
        return out

    return rule


def setup(rng: np.random.Generator, **fields: Any) -> tuple[Model, Array, list[int]]:
    """A seeded model, the reference backend's logits of random ids, and the ids."""
    spec = replace(SPEC, windows=(), **fields)
    tensors = random_tensors(spec, int(rng.integers(2**31)))
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, 9)]
    logits = ReferenceBackend(spec, tensors).forward(ids).double().numpy()
    return Model(spec, tensors), logits, ids


def assert_close(found: Array, wanted: Array) -> None:
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < 1e-5, f"relative error {error:.2e}"


@pytest.mark.parametrize("delay", [1, 2, 5])
@pytest.mark.parametrize(("early", "resent"), [("none", False), ("present", False), ("present", True)])
def test_each_early_mode_equals_a_loop_written_by_hand(
    rng: np.random.Generator, delay: int, early: Any, resent: bool
) -> None:
    model, logits, ids = setup(rng, delay=delay, early=early, early_resent=resent)
    streams = by_hand(model, ids, delayed(delay, early, resent, (True, True)))
    assert_close(logits, model.head_mean(streams))


@pytest.mark.parametrize("comm", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("delay", [0, 2])
def test_a_kind_that_is_never_sent_is_scaled_instead(
    rng: np.random.Generator, delay: int, comm: tuple[bool, bool]
) -> None:
    model, logits, ids = setup(rng, delay=delay, comm_attention=comm[0], comm_mlp=comm[1])

    def rule(layer: int, kind: int, lane: int, outputs: Any) -> Array:
        if delay == 0 and comm[kind]:
            return total(outputs[kind][layer])
        return delayed(delay, "none", False, comm)(layer, kind, lane, outputs)

    assert_close(logits, model.head_mean(by_hand(model, ids, rule)))


def test_no_delay_equals_tensor_parallelism(rng: np.random.Generator) -> None:
    model, logits, ids = setup(rng, delay=0)
    streams = by_hand(model, ids, lambda layer, kind, lane, outputs: total(outputs[kind][layer]))
    assert_close(logits, model.head_mean(streams))


def test_no_delay_equals_the_same_weights_as_one_lane(rng: np.random.Generator) -> None:
    """What tensor parallelism is for: the split changes nothing."""
    spec = replace(SPEC, delay=0)
    tensors = random_tensors(spec, int(rng.integers(2**31)))
    whole = {}
    for name, shape in replace(spec, lanes=1).tensors().items():
        t = tensors[name]
        if name.endswith((".wo", ".w2")):  # each lane has columns of the full matrix
            t = t.permute(1, 0, 2)
        whole[name] = t.reshape(shape)
    ids = [int(i) for i in rng.integers(0, spec.vocab_size, 9)]
    split = ReferenceBackend(spec, tensors).forward(ids).double().numpy()
    one = ReferenceBackend(replace(spec, lanes=1), whole).forward(ids).double().numpy()
    assert_close(split, one)


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("early", ["none", "present"])
def test_one_lane_equals_an_ordinary_transformer_whatever_the_delay(
    rng: np.random.Generator, delay: int, early: Any
) -> None:
    model, logits, ids = setup(rng, lanes=1, delay=delay, early=early)
    x = model.embed(ids)
    for layer in range(model.spec.n_layers):
        x = x + model.attention(layer, 0, x)
        x = x + model.mlp(layer, 0, x)
    assert_close(logits, model.norm(x, model.w["norm"]) @ model.w["head"].T)


@pytest.mark.parametrize("lanes", [1, LANES])
def test_ladder_residual_reads_the_stream_before_the_last_sum(rng: np.random.Generator, lanes: int) -> None:
    model, logits, ids = setup(rng, lanes=lanes, residual="ladder")
    before = after = model.embed(ids)  # without and with the output of the module before
    for layer in range(model.spec.n_layers):
        for kind in (0, 1):
            out = total([model.module(kind)(layer, lane, before) for lane in range(lanes)])
            before, after = after, after + out
    assert_close(logits, model.norm(after, model.w["norm"]) @ model.w["head"].T)


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("head", ["replicate", "vocab_parallel", "sum"])
def test_each_head_reads_the_streams_as_its_name_says(
    rng: np.random.Generator, head: Any, delay: int
) -> None:
    model, logits, ids = setup(rng, delay=delay, head=head)
    rule = delayed(delay, "none", False, (True, True))
    streams = by_hand(model, ids, rule)
    w, rows = model.w, model.spec.vocab_size // LANES
    if head == "replicate":
        wanted = model.head_mean(streams)
    elif head == "sum":
        wanted = model.norm(total(streams), w["norm"]) @ w["head"].T
    else:
        normed = [model.norm(s, w["norm"]) for s in streams]
        parts = [n @ w["head"][i * rows : (i + 1) * rows].T for i, n in enumerate(normed)]
        wanted = np.concatenate(parts, -1)
    assert_close(logits, wanted)


def test_the_variants_differ(rng: np.random.Generator) -> None:
    """The loops above would prove nothing if every variant gave the same logits."""
    seed = int(rng.integers(2**31))
    ids = [int(i) for i in rng.integers(0, SPEC.vocab_size, 9)]
    variants: list[dict[str, Any]] = [
        {},
        {"delay": 1},
        {"delay": 2},
        {"delay": 2, "early": "present"},
        {"delay": 2, "early": "present", "early_resent": True},
        {"delay": 2, "comm_attention": False},
        {"delay": 2, "comm_mlp": False},
        {"residual": "ladder"},
        {"delay": 2, "head": "sum"},
        {"delay": 2, "head": "vocab_parallel"},
    ]
    found = []
    for fields in variants:
        spec = replace(SPEC, **fields)
        found.append(ReferenceBackend(spec, random_tensors(spec, seed)).forward(ids))
    for i, a in enumerate(found):
        for j, b in enumerate(found[:i]):
            assert (a - b).abs().max() > 1e-3, f"{variants[i]} and {variants[j]} gave the same logits"


def test_the_published_model_waits_for_no_lane() -> None:
    table = lane_table(LANEFORMER_2B)
    assert [s.module for s in table.steps] == list(range(30))
    assert not any(step.blocking for step in table.steps)
    assert not table.one_stream
    root = math.sqrt(8)
    assert table.steps[0].landings == (Landing(0, root, 0.0, 0),)
    assert table.steps[3].landings == (Landing(3, root, 0.0, 0),)
    assert table.steps[4].landings == (Landing(4, 1.0, 0.0, 0), Landing(0, 0.0, 1.0, 4))
    assert table.steps[29].landings == (Landing(29, 1.0, 0.0, 0), Landing(25, 0.0, 1.0, 4))
    assert [s.module for s in table.steps if not s.sends] == [26, 27, 28, 29]  # the last two layers
    assert table.steps[0].last_use == 4 and table.steps[29].last_use == 29
    assert [s.kind for s in table.steps[:3]] == ["attention", "mlp", "attention"]


def test_only_plain_sums_block() -> None:
    assert all(step.blocking for step in lane_table(replace(SPEC, delay=0)).steps)
    present = lane_table(replace(SPEC, delay=2, early="present"))
    assert [step.blocking for step in present.steps] == [True] * 4 + [False] * 6
    ladder = lane_table(replace(SPEC, residual="ladder"))
    assert [step.blocking for step in ladder.steps] == [False] * 9 + [True]  # the head waits
    alone = lane_table(replace(SPEC, lanes=1, delay=0))
    assert not any(step.blocking or step.sends for step in alone.steps) and alone.one_stream


def test_equal_streams_are_told_from_different_ones() -> None:
    assert lane_table(replace(SPEC, delay=0)).one_stream
    assert lane_table(replace(SPEC, residual="ladder")).one_stream
    assert not lane_table(replace(SPEC, delay=1)).one_stream
    assert not lane_table(replace(SPEC, delay=0, comm_mlp=False)).one_stream


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"delay": 6}, "delay"),
        ({"residual": "ladder", "delay": 1}, "ladder"),
        ({"residual": "ladder", "comm_mlp": False}, "comm_mlp"),
        ({"early_resent": True}, "early_resent"),
        ({"lanes": 3}, "n_heads"),
        ({"head": "vocab_parallel", "vocab_size": 25}, "vocab_parallel"),
    ],
)
def test_lanes_that_do_not_fit_together_are_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(SPEC, **fields)
