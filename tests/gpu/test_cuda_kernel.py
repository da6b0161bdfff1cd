"""The resident kernel on a card: against the equations, itself at other widths, and its own promises."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from kogagent.engine.backends.arrangement import kernel_steps
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.engine.weights import random_tensors
from kogagent.errors import ModelError
from kogagent.kernels.layout import plan
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.spec import ModelSpec
from kogagent.testing.backends import BACKEND_CHECKS, TINY, TINY_LANES, run_check

_replace = dataclasses.replace
SMALL = ModelSpec(
    name="small",
    vocab_size=1003,
    dim=576,
    n_layers=3,
    n_heads=9,
    n_kv_heads=3,
    head_dim=64,
    ffn_dim=1536,
    context=256,
    windows=(0, 40, 0),
)
LANES = ModelSpec(
    name="lanes",
    vocab_size=1000,
    dim=384,
    n_layers=5,
    n_heads=32,
    n_kv_heads=16,
    head_dim=96,
    ffn_dim=1536,
    context=256,
    lanes=8,
    delay=2,
    windows=(40, 40, 0, 0, 0),
)
CASES = [
    TINY,
    TINY_LANES,
    SMALL,
    _replace(SMALL, name="bias, norms of q and k, tied", qkv_bias=True, qk_norm=True, tied_head=True),
    _replace(SMALL, name="ladder", residual="ladder"),
    _replace(SMALL, name="many heads a kv head", n_heads=12, n_kv_heads=1, head_dim=48),
    _replace(SMALL, name="wide heads", n_heads=4, n_kv_heads=2, head_dim=256),
    _replace(SMALL, name="parts of unlike size", ffn_dim=3104),
    _replace(SMALL, name="more kv heads than blocks a lane", n_heads=144, n_kv_heads=144, head_dim=8),
    LANES,
    _replace(LANES, name="vocab_parallel", head="vocab_parallel"),
    _replace(LANES, name="sum", head="sum"),
    _replace(LANES, name="present and resent", early="present", early_resent=True),
    _replace(LANES, name="mlp kept", comm_mlp=False),
    _replace(LANES, name="no delay", delay=0),
]
BUILDS = [
    *((spec, (1,), False) for spec in CASES),
    *((spec, (4, 8), False) for spec in (TINY_LANES, CASES[3], LANES)),
    *((spec, (0,), False) for spec in (TINY, TINY_LANES)),
]


def make_kernel(
    spec: ModelSpec, tensors: Mapping[str, torch.Tensor], width: int = 1, stages: int = 0
) -> Monokernel:
    steps, one_stream = kernel_steps(spec)
    card: Any = torch.cuda.get_device_properties(0)
    layout = plan(
        spec,
        card.multi_processor_count,
        card.shared_memory_per_block_optin,
        one_stream=one_stream,
        width=width,
        stages=stages,
    )
    return Monokernel(layout, {n: t.half().cuda() for n, t in tensors.items()}, steps)


def poisoned_cache(spec: ModelSpec) -> torch.Tensor:
    shape = (spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim)
    return torch.full(shape, float("nan"), dtype=torch.float16, device="cuda")


def run(kernel: Monokernel, segment: Segment, kv: torch.Tensor, *, logits: bool = False) -> list[Token]:
    out: list[Token] = []
    kernel.launch(segment, kv, logits=logits)
    while kernel.busy:  # its own deadline ends one that waits in vain, however late the host looks
        out += kernel.drain()
    return out


def half_tensors(spec: ModelSpec, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    return {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_every_position_gives_the_equations_logits(spec: ModelSpec, rng: np.random.Generator) -> None:
    tensors = half_tensors(spec, rng)
    ids = rng.integers(0, spec.vocab_size, 24).tolist()
    want = ReferenceBackend(spec, tensors).forward(ids).numpy().astype(np.float64)
    kernel, kv = make_kernel(spec, tensors), poisoned_cache(spec)
    assert kernel.stream_only(2) > 0  # before any segment: it needs none
    divergence = 0.0
    for i, token in enumerate(ids):
        (chosen,) = run(kernel, Segment([token], i), kv, logits=True)
        got = kernel.logits().astype(np.float64)
        assert np.isfinite(got).all()
        a, b = (x - x.max() - np.log(np.exp(x - x.max()).sum()) for x in (want[i], got))
        divergence += float((np.exp(a) * (a - b)).sum()) / len(ids)
        assert chosen.id == got.argmax()
        assert chosen.logprob == pytest.approx(b.max(), abs=1e-4)
    assert divergence < 5e-6, f"mean KL {divergence:.2e}"


@pytest.mark.parametrize("spec", [TINY_LANES, CASES[3], LANES], ids=lambda spec: spec.name)
def test_widths_ring_depths_and_runs_agree_to_the_bit(spec: ModelSpec, rng: np.random.Generator) -> None:
    tensors = half_tensors(spec, rng)
    ids = rng.integers(0, spec.vocab_size, 19).tolist()
    segment = Segment(ids, 0, max_tokens=12, temperature=0.8, seed=5)
    results, caches = [], []
    for width, stages in ((1, 0), (1, 0), (1, 2), (4, 0), (8, 0)):
        kernel, kv = make_kernel(spec, tensors, width, stages), poisoned_cache(spec)
        results.append(run(kernel, segment, kv))
        caches.append(kv[:, :, :, : len(ids) + 11])
    assert len(results[0]) == 12
    for tokens, kv in zip(results[1:], caches[1:], strict=True):
        assert tokens == results[0]
        assert torch.equal(kv, caches[0])


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=1.0, seed=3),
        SamplingParams(temperature=0.7, top_k=5, seed=2**63 + 1),
        SamplingParams(temperature=1.3, top_p=0.6, seed=9),
        SamplingParams(temperature=1.1, min_p=0.2, repetition_penalty=1.4, seed=1),
        SamplingParams(temperature=0.9, top_k=40, top_p=0.8, min_p=0.01, repetition_penalty=0.8, seed=4),
        SamplingParams(repetition_penalty=1.5),
    ],
)
def test_the_kernel_draws_what_the_host_draws(sampling: SamplingParams, rng: np.random.Generator) -> None:
    spec = SMALL
    kernel, kv = make_kernel(spec, half_tensors(spec, rng)), poisoned_cache(spec)
    mask = rng.integers(0, 2**32, -(-spec.vocab_size // 32), dtype=np.uint32)
    ids = [5]
    for position in range(60):
        masked = mask if position % 2 else None
        segment = Segment(
            [ids[-1]],
            position,
            legal_ids=990,
            seed=sampling.seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            penalty=sampling.repetition_penalty,
            history=ids,
            mask=masked,
        )
        (token,) = run(kernel, segment, kv, logits=True)
        seen = np.zeros(spec.vocab_size, dtype=np.bool_)
        seen[ids] = True
        want, logprob = choose(kernel.logits(), sampling, position + 1, seen, masked, 990)
        assert token.id == want, f"position {position}"
        assert token.logprob == pytest.approx(logprob, abs=1e-4)
        ids.append(token.id)


def test_a_segment_of_the_kernel_remembers_what_it_has_said(rng: np.random.Generator) -> None:
    spec = SMALL
    kernel = make_kernel(spec, half_tensors(spec, rng))
    start = Segment([7], 0, max_tokens=30, temperature=1.0, seed=8, penalty=1.7)
    together = run(kernel, start, poisoned_cache(spec))
    kv, ids = poisoned_cache(spec), [7]
    for position in range(30):
        segment = dataclasses.replace(start, pending=[ids[-1]], position=position, max_tokens=1, history=ids)
        ids.append(run(kernel, segment, kv)[0].id)
    assert [token.id for token in together] == ids[1:]


def test_stop_ids_context_and_stop_end_a_segment(rng: np.random.Generator) -> None:
    spec = SMALL
    kernel, kv = make_kernel(spec, half_tensors(spec, rng)), poisoned_cache(spec)
    free = run(kernel, Segment([3], 0, max_tokens=9, temperature=1.0), kv)
    assert free[-1].reason is Reason.LENGTH
    stopped = run(kernel, Segment([3], 0, max_tokens=9, temperature=1.0, stop_ids=[free[4].id]), kv)
    assert stopped[-1].reason is Reason.STOP
    assert stopped[-1].id == free[4].id
    short = kv[:, :, :, :6].contiguous()
    full = run(kernel, Segment([3], 0, max_tokens=99, temperature=1.0), short)
    assert full[-1].reason is Reason.CONTEXT
    assert len(full) == 6
    ended = Reason.LENGTH
    while ended is Reason.LENGTH:  # a host that was held up asks for the end too late: it asks again
        kernel.launch(Segment([3], 0, max_tokens=250, temperature=1.0), kv)
        kernel.stop()
        out: list[Token] = []
        while kernel.busy:
            out += kernel.drain()
        ended = out[-1].reason
    assert ended is Reason.CANCELLED


def test_nan_in_the_weights_is_an_error_that_names_it_and_a_new_backend_works(
    rng: np.random.Generator,
) -> None:
    from kogagent.engine.backend import DecodePlan

    tensors = half_tensors(TINY, rng)

    def decode(backend: CudaBackend) -> list[int]:
        kv = backend.open_kv(20)
        segment = backend.decode(kv, [1, 2], DecodePlan(SamplingParams(), frozenset(), 5))
        while segment.reason is None:
            segment.wait(1.0)
        return [e.id for e in segment.drain_nowait()]

    good = CudaBackend(TINY, tensors)
    want = decode(good)
    kernel = good.kernel()
    kernel._tape.view(torch.int16)[:] = 0x7E00  # every weight NaN
    with pytest.raises(ModelError, match="NaN"):
        decode(good)
    assert decode(CudaBackend(TINY, tensors)) == want


@pytest.mark.parametrize("spec", [TINY, TINY_LANES], ids=lambda spec: spec.name)
@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_the_cuda_backend_keeps_the_backends_contract(check: object, spec: ModelSpec) -> None:
    run_check(check, lambda s, t: CudaBackend(s, t), spec, 2e-2)  # type: ignore[arg-type]
