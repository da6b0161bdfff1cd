"""Pre-fill on a card: captured graphs against the equations, against decoding, and between segments."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from test_cuda_kernel import CASES, half_tensors, poisoned_cache

from kogagent.engine.backend import DecodePlan
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.kernels.prefill import BUCKETS, passes, products
from kogagent.spec import ModelSpec
from kogagent.testing.toy import finish

FORWARD = [CASES[i] for i in (0, 3, 4, 6, 8, 9, 11, 13)]
"""Enough for every kind of lane table, head, bias, norm and head size."""
LONG = dataclasses.replace(CASES[2], name="long", context=3000, windows=(0, 600, 0))
BUILDS = [(spec, (0,), False) for spec in (*FORWARD, LONG, CASES[2])]


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.cpu() - want).square().mean().sqrt() / want.square().mean().sqrt())


@pytest.mark.parametrize("spec", FORWARD, ids=lambda spec: spec.name)
def test_prefilled_rows_give_the_equations_logits(spec: ModelSpec, rng: np.random.Generator) -> None:
    tensors = half_tensors(spec, rng)
    count = min(spec.context, 150)
    ids = rng.integers(0, spec.vocab_size, count).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids)
    backend = CudaBackend(spec, tensors)
    kv = backend.open_kv(spec.context)
    kv.store.copy_(poisoned_cache(spec))
    for start, end in ((0, 11), (11, count - 9)):  # neither is a bucket
        rows = backend.append(kv, ids[start:end], logits="all")
        assert rows is not None
        assert relative_error(rows, want[start:end]) < 4e-3
    last = backend.append(kv, ids[count - 9 :], logits="last")
    assert last is not None
    assert relative_error(last, want[-1]) < 4e-3
    assert bool(kv.store[:, :, :, :count].isfinite().all())
    assert bool(kv.store[:, :, :, count:].isnan().all()), "rows past the sequence were written"
    backend.close()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_chosen_products_give_torchs_bits(
    dtype: torch.dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, left = products.Products(), list[int]()
    shapes: list[tuple[int, ...]] = [(8, 512, 2048, 3072)]
    shapes += [(int(rng.integers(1, 9)), *(8 * rng.integers(9, 90, 3)).tolist()) for _ in range(8)]
    for i, (lanes, rows, size, columns) in enumerate(shapes):
        room = rows + 8 * int(rng.integers(0, 3))
        x = torch.zeros(lanes, room, columns, dtype=dtype, device="cuda")
        matrices = [torch.randn(lanes, size, columns, device="cuda").to(dtype) for _ in range(3)]
        out = torch.zeros(lanes, room, size, dtype=torch.float32 if i % 2 else dtype, device="cuda")
        with monkeypatch.context() as patched:
            if i == 0:  # whatever the clock says
                patched.setattr(products, "times", lambda ways, *_: [1.0] * len(ways))
            made.choose(x[:, :rows], matrices, out[:, :rows])
        assert not x.any() and not out.any(), "buffers are left as they were made"
        x.normal_()
        for w in matrices:
            out.fill_(float("nan"))
            want = out.clone()
            products.by_torch(x[:, :rows], w, want[:, :rows])
            with monkeypatch.context() as patched:
                patched.setattr(products, "by_torch", lambda x, w, out, i=i: left.append(i))
                made.multiply(x[:, :rows], w, out[:, :rows])
            if i not in left:
                torch.testing.assert_close(out, want, rtol=0, atol=0, equal_nan=True)
    assert 0 not in left, "cuBLASLt has no way with torch's bits"


def test_a_choice_of_products_changes_no_bit(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, ids, found = half_tensors(LONG, rng), rng.integers(0, LONG.vocab_size, 700).tolist(), []
    for least in (0, 1 << 60):  # all are chosen, or none
        monkeypatch.setattr(passes, "LEAST", least)
        monkeypatch.setattr(products, "times", lambda ways, *_: [1.0] * len(ways))
        backend = CudaBackend(LONG, tensors)
        for count in (100, 500, 700):
            kv = backend.open_kv(LONG.context)
            last = backend.append(kv, ids[:count], logits="last")
            assert last is not None
            found.append(last.cpu())
        backend.close()
    for chosen, torchs in zip(found[:3], found[3:], strict=True):
        assert torch.equal(chosen, torchs)


def test_chunks_of_every_bucket_agree(rng: np.random.Generator) -> None:
    """However a long prompt is cut, its last logits are the same up to rounding, and repeat to the bit."""
    backend = CudaBackend(LONG, half_tensors(LONG, rng))
    ids = rng.integers(0, LONG.vocab_size, 2500).tolist()

    def last(cut: int) -> torch.Tensor:
        kv = backend.open_kv(LONG.context)
        kv.store.fill_(float("nan"))
        if cut:
            backend.prefill(kv, ids[:cut])
        out = backend.append(kv, ids[cut:], logits="last")
        assert out is not None
        return out.clone()

    whole = last(0)
    assert torch.equal(last(0), whole)
    for bucket in BUCKETS:
        cut = 2500 - int(rng.integers(bucket // 2 + 1, bucket + 1))
        assert relative_error(last(cut).cpu(), whole.cpu()) < 4e-3, f"{2500 - cut} rows after {cut}"
    backend.close()


def test_the_first_id_of_a_long_prompt_is_the_largest_that_a_bit_set_allows(
    rng: np.random.Generator,
) -> None:
    spec = CASES[2]
    backend = CudaBackend(spec, half_tensors(spec, rng))
    for _ in range(5):
        kv = backend.open_kv(spec.context)
        prompt = rng.integers(0, spec.vocab_size, int(rng.integers(20, 60))).tolist()
        legal = int(rng.integers(spec.vocab_size // 2, spec.vocab_size + 1))
        mask = rng.integers(0, 1 << 32, -(-spec.vocab_size // 32), dtype=np.uint32)
        found = backend.greedy(kv, prompt, legal, mask)
        assert found is not None and kv.length == len(prompt)
        id, logprob = choose(backend.last_logits, SamplingParams(), kv.length, mask=mask, legal_ids=legal)
        assert found[0] == id and found[1] == pytest.approx(logprob, abs=1e-3)
        kv.rewind(0)
        assert backend.greedy(kv, prompt, legal, np.zeros_like(mask)) is None, "nothing is legal"
        kv.rewind(0)
        free = backend.greedy(kv, prompt, legal)
        assert free is not None and free[0] == int(backend.last_logits[:legal].argmax())
    backend.close()


def test_long_and_short_prompts_decode_the_largest_logits(rng: np.random.Generator) -> None:
    """The first token of a long greedy prompt comes from pre-fill, that of a short one from the kernel."""
    spec, count = CASES[2], 20
    tensors = half_tensors(spec, rng)
    backend, reference = CudaBackend(spec, tensors), ReferenceBackend(spec, tensors)
    prompt = rng.integers(0, spec.vocab_size, 40).tolist()
    for cut in (0, 39):
        kv = backend.open_kv(spec.context)
        backend.prefill(kv, prompt[:cut])
        decode = backend.decode(kv, prompt[cut:], DecodePlan(SamplingParams(), frozenset(), count))
        out = finish(decode)
        assert decode.reason == "length" and decode.stats.steps == count
        assert kv.length == len(prompt) + count - 1
        rows = reference.forward([*prompt, *(e.id for e in out)])[len(prompt) - 1 : -1]
        for row, emitted in zip(rows, out, strict=True):
            assert row[emitted.id] >= row.max() - 1e-2 * row.abs().max(), (
                f"id {emitted.id} is not the largest"
            )
            assert emitted.logprob == pytest.approx(float(row.log_softmax(-1)[emitted.id]), abs=0.05)
    backend.close()
