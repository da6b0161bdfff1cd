"""The kernel's twin against the equations: every lane arrangement, head and option the kernel knows."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from kogagent.engine.backends.arrangement import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.build import SOURCE
from kogagent.kernels.layout import KEY_BLOCK, plan
from kogagent.kernels.oracle import KeyStage, Oracle, key_stages
from kogagent.kernels.pack import pack
from kogagent.kernels.rank import bias_rows, qk_norm_rows
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


@pytest.mark.parametrize(
    ("spec", "dtype", "tolerance"),
    [
        *((spec, torch.float16, 4e-3) for spec in CASES),
        *((s, torch.bfloat16, 3e-2) for s in (CASES[1], TINY_LANES)),
    ],
    ids=lambda value: value.name if isinstance(value, ModelSpec) else str(value),
)
def test_the_twin_gives_the_equations_logits(
    spec: ModelSpec, dtype: torch.dtype, tolerance: float, rng: np.random.Generator
) -> None:
    tensors = {n: t.to(dtype) for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 20).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    oracle = make_oracle(spec, tensors, sms=int(rng.integers(spec.lanes, 40)))
    kv = torch.full((spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim), float("nan")).to(dtype)
    got = torch.stack([oracle.row(kv, token, i) for i, token in enumerate(ids)])
    error = (got - want).square().mean().sqrt() / want.square().mean().sqrt()
    assert error < tolerance, f"{oracle.layout.blocks} blocks: relative error {error:.2e}"


def test_the_twin_refuses_a_word_that_never_arrives() -> None:
    spec = TINY
    tensors = {n: t.half() for n, t in random_tensors(spec, 1).items()}
    oracle = make_oracle(spec, tensors, sms=7)
    schedule = oracle.layout.schedule
    schedule[:, 2] = np.where(np.arange(len(schedule)) == 0, schedule[:, 2] - 1, schedule[:, 2])
    kv = torch.zeros((spec.n_layers, 2, spec.n_kv_heads, 8, spec.head_dim)).half()
    with pytest.raises(AssertionError, match="did not arrive once"):
        oracle.row(kv, 3, 0)


def test_stages_bring_every_cached_key_that_a_pass_sees_once(rng: np.random.Generator) -> None:
    for _ in range(400):
        at, window = int(rng.integers(0, 700)), int(rng.choice([0, 1, 7, 8, 9, 64, 300]))
        splits, size = 1 << int(rng.integers(0, 6)), 2 * int(rng.integers(1, 7))
        brought = np.zeros(at, dtype=np.int64)
        for split in range(splits):
            stages = key_stages(at, window, split, splits, size)
            for i, stage in enumerate(stages):
                assert stage.start % 2 == 0
                assert stage.start == stages[0].start + i * size
                assert stage.start <= stage.low < stage.high <= stage.start + size
                for place in range(stage.low, stage.high):
                    key = (place * splits + split) * KEY_BLOCK
                    rows = stage.last_rows if place == stage.high - 1 else KEY_BLOCK
                    assert 0 < rows <= KEY_BLOCK
                    brought[key : key + rows] += 1
        first = max(0, at + 1 - window) if window else 0
        assert (brought[first:] == 1).all(), f"at {at}, window {window}, {splits} splits"
        assert brought[: first // KEY_BLOCK * KEY_BLOCK].sum() == 0


_HOST = """
#define __device__
#define __forceinline__ inline
#include "keys.cuh"
extern "C" int stages(int at, int window, int split, int split_log2, int size) {
    return key_run(at, window, split, split_log2, size).stages;
}
extern "C" void stage(int at, int window, int split, int split_log2, int size, int i, int* out) {
    const KeyRun run = key_run(at, window, split, split_log2, size);
    const KeyStage s = key_stage(run, i, at, split, split_log2, size);
    out[0] = s.start, out[1] = s.low, out[2] = s.high, out[3] = s.last_rows;
}
"""


def test_the_devices_own_stages_are_the_twins(tmp_path: Path, rng: np.random.Generator) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler, "this test compiles csrc/keys.cuh for the host: install a C++ compiler"
    (tmp_path / "keys.cpp").write_text(_HOST)
    library = tmp_path / "keys.so"
    command = [compiler, "-shared", "-fPIC", f"-I{SOURCE}", str(tmp_path / "keys.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    device = ctypes.CDLL(str(library))
    out = (ctypes.c_int * 4)()
    for _ in range(2000):
        at, window = int(rng.integers(0, 9000)), int(rng.choice([0, 1, 7, 8, 9, 64, 512]))
        split_log2, size = int(rng.integers(0, 6)), 2 * int(rng.integers(1, 9))
        split = int(rng.integers(0, 1 << split_log2))
        want = key_stages(at, window, split, 1 << split_log2, size)
        assert device.stages(at, window, split, split_log2, size) == len(want)
        for i, stage in enumerate(want):
            device.stage(at, window, split, split_log2, size, i, out)
            assert KeyStage(*out) == stage
