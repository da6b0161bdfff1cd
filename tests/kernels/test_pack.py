"""Tapes: every weight lies where the kernel looks for it, once, and comes back as it went in."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from kogagent.engine.backends.arrangement import kernel_steps
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError
from kogagent.kernels.layout import DIRECT_PIECES, KEY_BLOCK, kind_of, plan
from kogagent.kernels.pack import from_tiles, matrix, pack, to_tiles, unpack
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

SHARED = 232448
CASES = [
    TINY,
    dataclasses.replace(TINY, name="tied, odd columns", dim=40, ffn_dim=36, tied_head=True),
    TINY_LANES,
    dataclasses.replace(TINY_LANES, name="vocab_parallel", head="vocab_parallel", vocab_size=82),
    dataclasses.replace(TINY_LANES, name="one stream of two lanes", delay=0),
]


def test_a_lane_of_a_warp_finds_its_operand_in_its_own_sixteen_bytes() -> None:
    rows, columns = 16, 64
    numbered = torch.arange(rows * columns, dtype=torch.float32).view(rows, columns).half()
    tiles = to_tiles(numbered)
    for unit in range(2):
        for tile in range(2):
            for lane in range(32):
                g, t = divmod(lane, 4)
                words = tiles[unit, tile].view(32, 4, 2)[lane]  # a0..a3, two halves each
                row = numbered[unit * 8 + g, tile * 32 : tile * 32 + 32]
                # a0: row g, first half; a1: row g+8 is row g's second half; a2, a3: the pair after
                for register, column in enumerate((4 * t, 16 + 4 * t, 4 * t + 2, 16 + 4 * t + 2)):
                    assert torch.equal(words[register], row[column : column + 2])


def test_tiles_go_back_to_the_matrix_whatever_its_size(rng: np.random.Generator) -> None:
    for _ in range(20):
        rows, columns = (int(n) for n in rng.integers(1, 100, 2))
        values = torch.from_numpy(rng.normal(size=(rows, columns))).half()
        assert torch.equal(from_tiles(to_tiles(values), rows, columns), values)


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_every_matrix_comes_back_from_the_tapes(spec: ModelSpec, rng: np.random.Generator) -> None:
    tensors = {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    _, one_stream = kernel_steps(spec)
    layout = plan(spec, int(rng.integers(spec.lanes, 60)), SHARED, one_stream=one_stream)
    tapes = pack(layout, tensors)
    for phase in range(4 * spec.n_layers + 1):
        for lane in range(layout.lanes):
            want = matrix(layout, tensors, phase, lane).half()
            assert torch.equal(unpack(layout, tapes, phase, lane), want), f"phase {phase} lane {lane}"


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_every_row_has_one_block_and_every_block_hidden_rows(
    spec: ModelSpec, rng: np.random.Generator
) -> None:
    _, one_stream = kernel_steps(spec)
    layout = plan(spec, int(rng.integers(spec.lanes, 140)), SHARED, one_stream=one_stream)
    for phase in range(4 * spec.n_layers + 1):
        kind = kind_of(phase, spec)
        groups = [list(range(layout.blocks))]
        if kind < 4 or not layout.head_grid:
            groups = [list(range(i * layout.group, (i + 1) * layout.group)) for i in range(layout.lanes)]
        ranges = list(layout.ranges(phase))
        for blocks in groups:
            units = [u for block in blocks for u in range(ranges[block][1], sum(ranges[block][1:]))]
            assert units == list(range(-(-layout.rows(kind) // 8)))
        if kind == 2:  # what keeps blocks within a layer of each other
            assert all(count > 0 for _, _, count in ranges)


def test_a_folded_weight_past_half_precision_is_refused_by_name() -> None:
    tensors = {n: t.half() for n, t in random_tensors(TINY, 3).items()}
    tensors["layers.1.ffn_norm"] = torch.full((TINY.dim,), 60000.0).half()
    tensors["layers.1.w3"][0, 5, 7] = 2.0
    layout = plan(TINY, 12, SHARED, one_stream=True)
    with pytest.raises(ConfigError, match=r"layer 1: gate_up weights leave FP16's range"):
        pack(layout, tensors)


def test_keys_fit_a_stage_and_splits_the_merge(rng: np.random.Generator) -> None:
    for _ in range(60):
        kv_heads, h = int(rng.integers(1, 20)), 8 * int(rng.integers(1, 33))
        most = max(1, min(11, 24_000 // (kv_heads * h)))  # attention's inputs must leave room for weights
        heads = kv_heads * int(rng.integers(1, most + 1))
        spec = dataclasses.replace(TINY, n_heads=heads, n_kv_heads=kv_heads, head_dim=h, ffn_dim=512)
        layout = plan(spec, int(rng.integers(1, 140)), SHARED, one_stream=True)
        assert layout.stage_chunks >= 2 and layout.stage_chunks % 2 == 0
        assert layout.stage_chunks * 2 * KEY_BLOCK * h * 2 <= layout.stage_bytes
        assert layout.splits * kv_heads <= max(layout.group, kv_heads)
        assert layout.direct_combine == (heads * h // 4 * max(layout.splits // 4, 1) <= DIRECT_PIECES)
        ends = [at for name, at in layout.offsets.items() if name != "ring"]
        assert layout.offsets["ring"] > max(ends)
        assert layout.shared_bytes == layout.offsets["ring"] + layout.stages * layout.stage_bytes
