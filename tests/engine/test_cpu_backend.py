"""The incremental CPU backend against the reference: caches, chunks, windows, lanes, rounding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kogagent.engine.backends import cpu
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.backends.tensor_kv import TensorKV
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError, ContextError, EngineClosedError, InputError
from kogagent.spec import ModelSpec

PLAIN = ModelSpec(
    vocab_size=60,
    dim=48,
    n_layers=4,
    n_heads=8,
    n_kv_heads=4,
    head_dim=12,
    ffn_dim=64,
    context=600,
)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias, norms, tied": {"qkv_bias": True, "qk_norm": True, "tied_head": True},
    "windows": {"windows": (3, 0, 1, 8)},
    "tensor parallel": {"lanes": 4},
    "delayed": {"lanes": 4, "delay": 2, "windows": (5, 5, 0, 0)},
    "delayed, bias, norms": {"lanes": 4, "delay": 1, "qkv_bias": True, "qk_norm": True},
    "early sums": {"lanes": 2, "delay": 1, "early": "present"},
    "early sums, sent again": {"lanes": 4, "delay": 2, "early": "present", "early_resent": True},
    "attention kept": {"lanes": 4, "delay": 1, "comm_attention": False},
    "nothing sent": {"lanes": 4, "comm_attention": False, "comm_mlp": False},
    "ladder": {"lanes": 4, "residual": "ladder"},
    "ladder of one lane": {"residual": "ladder"},
    "vocabulary split": {"lanes": 4, "delay": 2, "head": "vocab_parallel"},
    "vocabulary split, equal streams": {"lanes": 4, "head": "vocab_parallel"},
    "summed head": {"lanes": 4, "delay": 2, "head": "sum"},
    "summed head, equal streams": {"lanes": 4, "head": "sum"},
}
TOLERANCE = {"float32": 3e-6, "float16": 5e-3, "bfloat16": 4e-2}  # relative to the largest logit


def error(found: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> float:
    assert found.shape == wanted.shape and found.dtype == np.float32
    assert np.isfinite(found).all()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def model(rng: np.random.Generator, **fields: Any) -> tuple[ModelSpec, dict[str, torch.Tensor]]:
    spec = replace(PLAIN, **{"windows": (), **fields})
    return spec, random_tensors(spec, int(rng.integers(2**31)))


def tokens(rng: np.random.Generator, count: int) -> list[int]:
    return [int(i) for i in rng.integers(0, PLAIN.vocab_size, count)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_computes_what_the_reference_computes(rng: np.random.Generator, variant: str, dtype: Any) -> None:
    spec, tensors = model(rng, **VARIANTS[variant])
    ids = tokens(rng, 24)
    wanted = ReferenceBackend(spec, tensors).forward(ids).numpy()
    backend = CpuBackend(spec, tensors, dtype)
    at_once = backend.logits(backend.open_kv(40), ids)
    assert error(at_once, wanted) < TOLERANCE[dtype]

    kv = backend.open_kv(40)
    steps = np.stack([backend.last_logits(kv, [i]) for i in ids])
    assert error(steps, wanted) < TOLERANCE[dtype]

    kv = backend.open_kv(40)  # rows of every sort: few, many, one
    cuts = [0, 2, 3, 6, 17, 24]
    parts = [backend.logits(kv, ids[a:b]) for a, b in pairwise(cuts)]
    assert error(np.concatenate(parts), wanted) < TOLERANCE[dtype]
    assert kv.length == 24


@pytest.mark.parametrize("position", [511, 512, 513])
def test_step_by_step_equals_prefill_at_the_window_s_edges(rng: np.random.Generator, position: int) -> None:
    spec, tensors = model(rng, n_layers=2, windows=(512, 0))
    ids = tokens(rng, position + 1)
    wanted = ReferenceBackend(spec, tensors).forward(ids)[-1].numpy()
    backend = CpuBackend(spec, tensors, "float32")
    kv = backend.open_kv(600)
    backend.prefill(kv, ids[:-1])
    assert error(backend.last_logits(kv, ids[-1:]), wanted) < TOLERANCE["float32"]
    at_once = backend.last_logits(backend.open_kv(600), ids)
    assert error(at_once, wanted) < TOLERANCE["float32"]


@pytest.mark.parametrize("window", [0, 9])
def test_a_long_prefill_in_chunks_equals_one_pass(rng: np.random.Generator, window: int) -> None:
    spec, tensors = model(rng, windows=(window,) * 4)
    ids = tokens(rng, 2 * cpu._CHUNK + 3)
    wanted = ReferenceBackend(spec, tensors).forward(ids).numpy()
    backend = CpuBackend(spec, tensors, "float32")
    assert error(backend.logits(backend.open_kv(600), ids), wanted) < TOLERANCE["float32"]
    kv = backend.open_kv(600)
    assert error(backend.last_logits(kv, ids), wanted[-1]) < TOLERANCE["float32"]
    assert kv.length == len(ids)


def test_memory_beyond_the_length_is_never_read(rng: np.random.Generator) -> None:
    spec, tensors = model(rng, windows=(3, 0, 4, 0))
    ids = tokens(rng, 12)
    backend = CpuBackend(spec, tensors, "float32")
    kv = backend.open_kv(16)
    poison(kv)
    clean = backend.logits(kv, ids)
    assert np.isfinite(clean).all()
    kv.rewind(5)
    poison(kv)
    again = backend.logits(kv, ids[5:])
    np.testing.assert_allclose(again, clean[5:], rtol=0, atol=1e-5)
    fork = kv.fork()
    poison(fork)
    more = tokens(rng, 2)
    np.testing.assert_array_equal(backend.logits(fork, more), backend.logits(kv, more))


def poison(kv: TensorKV) -> None:
    kv.store[:, :, :, kv.length :] = torch.nan


def test_forks_share_nothing(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    backend = CpuBackend(spec, tensors, "float32")
    ids, left, right = tokens(rng, 6), tokens(rng, 4), tokens(rng, 4)
    kv = backend.open_kv(16)
    backend.prefill(kv, ids)
    fork = kv.fork()
    a = [backend.logits(kv, left[:2])]  # each writes where the other has read or will read
    b = [backend.logits(fork, right[:2])]
    a.append(backend.logits(kv, left[2:]))
    kv.close()
    b.append(backend.logits(fork, right[2:]))
    assert (
        error(np.concatenate(a), backend.logits(backend.open_kv(16), ids + left)[6:]) < TOLERANCE["float32"]
    )
    assert (
        error(np.concatenate(b), backend.logits(backend.open_kv(16), ids + right)[6:]) < TOLERANCE["float32"]
    )


def test_the_same_pass_gives_the_same_bits(rng: np.random.Generator) -> None:
    spec, tensors = model(rng, lanes=4, delay=2)
    ids = tokens(rng, 9)
    backend = CpuBackend(spec, tensors)
    first = backend.logits(backend.open_kv(16), ids)
    np.testing.assert_array_equal(first, backend.logits(backend.open_kv(16), ids))


def test_what_cannot_be_run_is_refused_before_any_work(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    backend = CpuBackend(spec, tensors)
    with pytest.raises(InputError, match="capacity=0"):
        backend.open_kv(0)
    with pytest.raises(ContextError, match="context of 600"):
        backend.open_kv(601)
    kv = backend.open_kv(4)
    backend.prefill(kv, [])
    with pytest.raises(InputError, match="60"):
        backend.prefill(kv, [1, 60])
    with pytest.raises(ContextError, match="5 ids"):
        backend.last_logits(kv, [1] * 5)
    with pytest.raises(InputError, match="length 1"):
        kv.rewind(1)
    with pytest.raises(InputError, match="another backend"):
        backend.prefill(ReferenceBackend(spec, tensors).open_kv(4), [1])
    assert kv.length == 0
    kv.close()
    kv.close()
    with pytest.raises(EngineClosedError, match="cache is closed"):
        backend.prefill(kv, [1])
    backend.close()
    backend.close()
    with pytest.raises(EngineClosedError, match="backend is closed"):
        backend.open_kv(4)
    with pytest.raises(InputError, match="'int8'"):
        CpuBackend(spec, tensors, "int8")  # type: ignore[arg-type]


def test_weights_beyond_half_precision_are_named(rng: np.random.Generator) -> None:
    spec, tensors = model(rng)
    tensors["layers.2.w2"][0, 0, 0] = 70000.0
    with pytest.raises(ConfigError, match=r"'layers\.2\.w2'.*float32"):
        CpuBackend(spec, tensors, "float16")
    CpuBackend(spec, tensors, "float32")
    CpuBackend(spec, tensors, "bfloat16")


def test_a_pass_that_fails_leaves_whole_steps(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure inside the second chunk keeps the first and counts nothing of the second."""
    spec, tensors = model(rng)
    backend = CpuBackend(spec, tensors, "float32")
    kv = backend.open_kv(600)
    ids = tokens(rng, cpu._CHUNK + 5)
    whole = backend._pass

    def failing(store: torch.Tensor, position: int, part: Any) -> torch.Tensor:
        if position:
            raise MemoryError
        return whole(store, position, part)

    monkeypatch.setattr(backend, "_pass", failing)
    with pytest.raises(MemoryError):
        backend.prefill(kv, ids)
    assert kv.length == cpu._CHUNK
    monkeypatch.undo()
    rest = backend.last_logits(kv, ids[cpu._CHUNK :])
    assert error(rest, backend.last_logits(backend.open_kv(600), ids)) < TOLERANCE["float32"]
