"""Pre-fill without a card: its passes with the kernels' torch twin against the equations, and each Triton
kernel, run by Triton's interpreter, against that twin."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import weakref
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import prefill_twin
import pytest
import torch

from kogagent.engine.backends.arrangement import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.engine.weights import random_tensors
from kogagent.kernels.layout import plan
from kogagent.kernels.prefill import Prefill, passes, run
from kogagent.kernels.prefill.passes import FULL
from kogagent.kernels.prefill.products import Products
from kogagent.kernels.prefill.run import largest
from kogagent.kernels.rank import rope_table
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

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
    _replace(TINY_LANES, name="sum", head="sum"),
    _replace(TINY_LANES, name="present and resent", early="present", early_resent=True, head="sum"),
    _replace(TINY_LANES, name="mlp kept", comm_mlp=False),
    _replace(TINY_LANES, name="lanes of wide heads with a bias", head_dim=32, qkv_bias=True),
]


def make_prefill(
    spec: ModelSpec,
    tensors: Mapping[str, torch.Tensor],
    buckets: tuple[int, ...],
    kernels: Any,
    capture: bool = False,
) -> Prefill:
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, 40, SHARED, one_stream=one_stream)
    rope = rope_table(spec)
    return Prefill(layout, tensors, steps, rope, capture=capture, buckets=buckets, kernels=kernels)


def poisoned_cache(spec: ModelSpec, capacity: int, dtype: torch.dtype) -> torch.Tensor:
    shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
    return torch.full(shape, float("nan"), dtype=dtype)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).square().mean().sqrt() / want.square().mean().sqrt())


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_prefill_in_chunks_gives_the_equations_logits(
    spec: ModelSpec, dtype: torch.dtype, tolerance: float, rng: np.random.Generator
) -> None:
    tensors = {n: t.to(dtype) for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    ids = rng.integers(0, spec.vocab_size, 30).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    prefill = make_prefill(
        spec, tensors, (3, 7), prefill_twin
    )  # borders fall inside windows, rows are padded
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
    legal = spec.vocab_size - int(rng.integers(0, 20))
    found = prefill.greedy(cache, 20, ids[20:29], legal)
    assert found is not None
    assert found[0] == int(prefill.logits[:legal].argmax())
    assert found[1] == pytest.approx(float(prefill.logits.log_softmax(0)[found[0]]), abs=1e-4)
    chosen = rng.choice(legal, int(rng.integers(1, legal)), replace=False)
    for words in (-(-spec.vocab_size // 32), int(chosen.max()) // 32 + 1):  # of a set that may end before V
        mask = np.zeros(words, np.uint32)
        np.bitwise_or.at(mask, chosen // 32, np.uint32(1) << (chosen % 32).astype(np.uint32))
        found = prefill.greedy(cache, 20, ids[20:29], legal, mask)
        id, logprob = choose(prefill.logits.numpy(), SamplingParams(), 29, mask=mask, legal_ids=legal)
        assert found is not None and found[0] == id and found[1] == pytest.approx(logprob, abs=1e-4)
    assert prefill.greedy(cache, 20, ids[20:29], legal, np.zeros(1, np.uint32)) is None, "nothing is legal"
    assert prefill.greedy(cache, 20, ids[20:29], spec.vocab_size) is not None, "the mask was the last call's"


def test_nothing_is_collected_while_graphs_are_captured(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that failed may hold itself in a cycle; what it has on the card ends a capture as it goes."""

    class Cycle:
        def __init__(self) -> None:
            self.own = self

    class Graph(contextlib.nullcontext[None]):
        def __enter__(self) -> None:
            spent.append(weakref.ref(Cycle()))
            captured.append(1)
            if len(captured) == fails_at:
                raise RuntimeError("the capture failed")

        def __exit__(self, *_: object) -> None:
            assert len([[] for _ in range(10)]) == 10  # each would have the collector look
            assert all(ref() is not None for ref in spent)

    stream = SimpleNamespace(wait_stream=lambda other: None)
    shims = {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "graph_pool_handle": lambda: None,
        "stream": contextlib.nullcontext,
        "CUDAGraph": lambda: None,
        "graph": lambda *_, **__: Graph(),
        "synchronize": lambda: None,
    }
    for name, shim in shims.items():
        monkeypatch.setattr(torch.cuda, name, shim)
    for name in ("body", "last_row"):
        monkeypatch.setattr(passes.Passes, name, lambda *_: None)
    tensors = {n: t.half() for n, t in random_tensors(TINY, int(rng.integers(2**31))).items()}
    before = gc.get_threshold()
    for fails_at in (0, 3):
        spent: list[weakref.ref[Cycle]] = []
        captured: list[int] = []
        gc.set_threshold(1, 1, 1)
        try:
            with pytest.raises(RuntimeError, match="failed") if fails_at else contextlib.nullcontext():
                make_prefill(TINY, tensors, (3, 7), prefill_twin, capture=True)
        finally:
            gc.set_threshold(*before)
        assert len(captured) == (fails_at or 4) and gc.isenabled()


def test_engines_capture_in_turns() -> None:
    """Who ended first would wake the collector under the other."""
    turn = run._CAPTURING
    with run._no_collection():
        assert not turn.acquire(blocking=False) and not gc.isenabled()
    assert turn.acquire(blocking=False) and gc.isenabled()
    turn.release()


def test_every_large_product_of_a_body_has_been_chosen(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, rows = TINY_LANES, int(rng.integers(2, 20))
    tensors = {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, 40, SHARED, one_stream=one_stream)
    monkeypatch.setattr(passes, "FEW_ROWS", 0)
    chosen, made = list[Any](), list[Any]()

    def shape(*tensors: torch.Tensor) -> Any:
        return [(t.shape, t.stride(), t.dtype) for t in tensors]

    def choose(_: Any, x: torch.Tensor, matrices: list[torch.Tensor], out: torch.Tensor) -> None:
        chosen.extend(shape(x, w, out) for w in matrices)

    def multiply(_: Any, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
        made.append(shape(x, w, out))

    monkeypatch.setattr(Products, "choose", choose)
    monkeypatch.setattr(Products, "multiply", multiply)
    of = passes.Passes(layout, tensors, steps, rope_table(spec), 20, prefill_twin)
    of.choose_products(rows)
    assert not chosen, "a few small tiles leave nothing to choose"
    monkeypatch.setattr(passes, "LEAST", 0)
    of.choose_products(rows)
    cache = poisoned_cache(spec, spec.context, torch.float16)
    of.inputs[:4] = torch.tensor([cache.data_ptr(), spec.context, 0, rows])
    of.body(rows)
    assert len(made) == 4 * spec.n_layers - 3 and all(one in chosen for one in made)


# ── each kernel against its twin ──


@pytest.fixture(scope="module")
def interpreted() -> ModuleType:
    if torch.cuda.is_available():
        pytest.skip("on a card the kernels themselves are tested in tests/gpu")
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined
    from kogagent.kernels.prefill import device

    return device


LANES, ROWS, DIM, HEADS, REP, H, LAYERS, CAPACITY = 2, 5, 24, 4, 2, 24, 2, 29
_HEADS = (HEADS // LANES, HEADS, REP, H, ROWS)


def _random(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(dtype)


def _same(device: Any, name: str, grid: tuple[int, ...], tensors: list[Any], **options: Any) -> list[Any]:
    """Run a kernel and its twin on equal inputs, compare every tensor afterwards; the kernel's tensors."""
    results = []
    for module in (device, prefill_twin):
        copies = [t.clone() if isinstance(t, torch.Tensor) else t for t in tensors]
        getattr(module, name)[grid](*copies, **options)
        results.append(copies)
    for got, want in zip(*results, strict=True):
        if isinstance(got, torch.Tensor):
            tolerance = 2e-3 if got.dtype != torch.float32 else 1e-5
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    return results[0]


@pytest.mark.parametrize("factored", [False, True])
def test_embedding_kernel_is_its_twin(
    factored: bool, interpreted: ModuleType, rng: np.random.Generator
) -> None:
    ids = torch.from_numpy(rng.integers(0, 11, ROWS))
    tensors = [
        ids,
        _random(rng, 11, DIM).half(),
        torch.zeros(LANES, ROWS, DIM),
        torch.zeros(LANES, ROWS),
        torch.zeros(LANES, ROWS, DIM).half(),
    ]
    numbers = (ROWS, DIM, LANES, 1e-5)
    out = _same(interpreted, "embed_rows", (3, LANES), [*tensors, *numbers], block=32, factored=factored)
    assert all(bool((out[i][:, 3:] == 0).all()) for i in (2, 3, 4)), "rows past the grid were written"


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("together", [1, LANES])
@pytest.mark.parametrize("tail, late_compact", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_landing_kernel_is_its_twin(
    factored: bool,
    together: int,
    tail: bool,
    late_compact: bool,
    weighted: bool,
    interpreted: ModuleType,
    rng: np.random.Generator,
) -> None:
    compact = 1 if tail else ROWS
    late_rows = 1 if late_compact else ROWS
    streams = _random(rng, LANES, ROWS, DIM)
    tensors = [
        torch.tensor([0, 0, 0, 4]),
        streams.half() if factored else streams,
        _random(rng, LANES, ROWS).exp(),
        _random(rng, LANES, compact, DIM).half(),
        _random(rng, LANES, late_rows, DIM).half(),
        torch.zeros(LANES, compact, DIM).half(),
        _random(rng, DIM),
        *rng.standard_normal(4).tolist(),
        1e-5,
        *(ROWS, compact, late_rows, int(late_compact), int(tail), DIM),
    ]
    options = {"lanes": LANES, "together": together, "block": 32, "factored": factored, "weighted": weighted}
    grid = (1 if tail else 3, LANES // together)
    _same(interpreted, "land", grid, tensors, sums=True, has_late=True, late_sums=True, **options)


@pytest.mark.parametrize("has_bias, has_norm, position", [(False, False, 9), (True, True, CAPACITY - 3)])
def test_rope_kernel_is_its_twin_and_appends_real_rows_alone(
    has_bias: bool, has_norm: bool, position: int, interpreted: ModuleType, rng: np.random.Generator
) -> None:
    width = (REP + 2) * H * HEADS // LANES
    table = rope_table(_replace(TINY, head_dim=H, context=CAPACITY))
    rope = torch.cat((table, torch.full_like(table, float("nan"))))[:CAPACITY]  # no row lies past it
    given = (
        _random(rng, LANES, ROWS, width),
        _random(rng, LAYERS, LANES, width),
        _random(rng, LAYERS, 2, H),
        rope,
    )
    caches = []
    for module in (interpreted, prefill_twin):
        cache = torch.full((LAYERS, 2, HEADS, CAPACITY, H), float("nan")).half()
        meta = torch.tensor([cache.data_ptr(), CAPACITY, position, 3])
        queries = torch.zeros(HEADS, ROWS * REP, H).half()
        module.turn_and_append[(4, HEADS)](
            meta,
            *given,
            queries,
            0.3,
            1e-5,
            1,
            *_HEADS,
            vectors=4,
            block=32,
            has_bias=has_bias,
            has_norm=has_norm,
        )
        caches.append((cache, queries))
    (cache, queries), (want, want_queries) = caches
    torch.testing.assert_close(queries, want_queries, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(cache, want, rtol=2e-3, atol=2e-3, equal_nan=True)
    end = position + 3
    assert bool(cache[1, :, :, position:end].isfinite().all()) and bool(cache[1, :, :, end:].isnan().all())
    assert bool(queries.isfinite().all()), "a padding row read past the table"


@pytest.mark.parametrize("has_bias", [False, True])
def test_product_that_turns_and_appends_is_its_twin(
    has_bias: bool, interpreted: ModuleType, rng: np.random.Generator
) -> None:
    columns, width = 40, (REP + 2) * H * HEADS // LANES  # not a multiple of its blocks' rows
    table = rope_table(_replace(TINY, head_dim=H, context=CAPACITY))
    given = (
        _random(rng, LANES, ROWS, columns).half(),
        (_random(rng, LANES, width, columns) / 6).half(),
        _random(rng, LAYERS, LANES, width),
        torch.cat((table, torch.full_like(table, float("nan"))))[:CAPACITY],  # no row lies past it
    )
    position = int(rng.integers(0, CAPACITY - 2))
    results = []
    for module in (interpreted, prefill_twin):
        cache = torch.full((LAYERS, 2, HEADS, CAPACITY, H), float("nan")).half()
        meta = torch.tensor([cache.data_ptr(), CAPACITY, position, 3])
        queries = torch.zeros(HEADS, ROWS * REP, H).half()
        module.multiply_and_turn[(-(-width // 32), LANES)](
            meta,
            *given,
            queries,
            0.3,
            1,
            *(*_HEADS, 4, width, columns),
            has_bias=has_bias,
            block_n=32,
            block_t=16,
            block_k=16,
        )
        results.append((cache, queries))
    (cache, queries), (want, want_queries) = results
    torch.testing.assert_close(queries, want_queries, rtol=4e-3, atol=4e-3)
    torch.testing.assert_close(cache, want, rtol=4e-3, atol=4e-3, equal_nan=True)
    assert bool(queries.isfinite().all()), "a padding row read past the table"
    assert bool((queries.view(HEADS, ROWS, REP, H)[:, 4:] == 0).all()), "rows past the count were written"
    real = cache[1, :, :, position : position + 3]
    assert bool(real.isfinite().all()) and int(cache.isfinite().sum()) == real.numel()


@pytest.mark.parametrize("window", [FULL, 4, 37])
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("tail", [False, True])
def test_attention_kernels_are_their_twin(
    window: int, splits: int, tail: bool, interpreted: ModuleType, rng: np.random.Generator
) -> None:
    capacity = 96  # several blocks of keys between the window's edge and the diagonal, in most draws
    cache = _random(rng, LAYERS, 2, HEADS, capacity, H).half()
    position, real = int(rng.integers(3, 90)), 4
    cache[:, :, :, position + real :] = float("nan")  # never read
    count = 1 if tail else ROWS
    queries = _random(rng, HEADS, ROWS * REP, H).half()
    meta = torch.tensor([cache.data_ptr(), capacity, position, real])
    partial, sums = torch.zeros(splits * HEADS * count * REP * H), torch.zeros(splits * HEADS * count * REP)
    results = []
    for module in (interpreted, prefill_twin):
        mixed = torch.zeros(LANES, ROWS, HEADS // LANES * REP * H).half()
        module.attend[(1, HEADS, splits)](
            *(meta, queries, mixed, partial, sums),
            1,
            *(*_HEADS, count),
            window,
            splits,
            int(tail),
            low=16,
            high=16,
            block_m=16,
            block_n=16,
            whole=splits == 1,
        )
        if splits > 1:
            module.merge_splits[(count * REP, HEADS)](
                partial, sums, mixed, *_HEADS, count, splits, most=8, block=32
            )
        results.append(mixed)
    torch.testing.assert_close(results[0], results[1], rtol=4e-3, atol=4e-3)
    assert float(results[0].abs().max()) > 0.05


def test_gate_kernel_is_its_twin(interpreted: ModuleType, rng: np.random.Generator) -> None:
    tensors = [_random(rng, LANES, ROWS, 2 * 12).half(), torch.zeros(LANES, ROWS, 12).half()]
    _same(interpreted, "gate", (3, 2, LANES), [*tensors, ROWS, 12], block=8)


@pytest.mark.parametrize("gated", [False, True])
def test_product_kernel_is_its_twin(gated: bool, interpreted: ModuleType, rng: np.random.Generator) -> None:
    size, columns = 44, 40  # neither fills its blocks
    out = torch.zeros(LANES, ROWS + 2, size // 2 if gated else size).half()
    tensors = [_random(rng, LANES, ROWS, columns).half(), _random(rng, LANES, size, columns).half(), out]
    got = _same(
        interpreted,
        "multiply_few",
        (3, LANES),
        [*tensors, ROWS, ROWS + 2, 3, size, columns],
        gated=gated,
        block_n=16,
        block_t=16,
        block_k=16,
    )
    assert bool((got[2][:, 3:] == 0).all()), "rows past the count were written"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("legal", [70, 40, 3])
def test_greedy_kernel_is_its_twin(
    legal: int, masked: bool, interpreted: ModuleType, rng: np.random.Generator
) -> None:
    logits = _random(rng, 70)
    logits[[5, 38]] = 9.0  # equals, in two parts and beside a larger id
    bits = torch.from_numpy(rng.integers(-(2**31), 2**31, 3).astype(np.int32))
    bits[0] = -(2**31) if rng.random() < 0.3 else bits[0]
    tensors: list[Any] = [logits, torch.zeros(3, 4), torch.tensor([legal, int(masked)]), bits, 70]
    _same(interpreted, "greedy", (3,), tensors, block=32)
    logits[int(rng.integers(70))] = float("nan")
    interpreted.greedy[(3,)](*tensors, block=32)
    assert bool(tensors[1][:, 0].isnan().any())


def test_the_largest_of_all_parts_is_found_with_its_logprob(rng: np.random.Generator) -> None:
    logits = _random(rng, 3 * 70000) * 3
    legal = int(rng.integers(1, len(logits)))
    first = int(rng.integers(0, legal))
    logits[[first, legal - 1]] = 99.0  # the first of equals, which is in a later part or the same
    out = torch.zeros(3, 4)
    prefill_twin.greedy[(3,)](logits, out, torch.tensor([legal, 0]), out, len(logits), block=70000)
    found = largest(out.tolist())
    assert found is not None and found[0] == first
    assert found[1] == pytest.approx(float(logits.double().log_softmax(0)[first]), abs=1e-5)
    for bad in (float("nan"), float("inf")):
        logits[int(rng.integers(len(logits)))] = bad
        prefill_twin.greedy[(3,)](logits, out, torch.tensor([legal, 0]), out, len(logits), block=70000)
        assert largest(out.tolist()) is None
