"""Several devices on one card and on several: bits, faults, the backend. Missing cards are left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from test_cuda_kernel import LANES, SMALL, half_tensors, poisoned_cache

from kogagent.engine.backends.arrangement import arrange, kernel_steps
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.cuda_devices import cut_tensors, spread
from kogagent.errors import DeviceError
from kogagent.kernels.layout import plan
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.segment import Segment, Token
from kogagent.spec import ModelSpec
from kogagent.testing.backends import BACKEND_CHECKS, TINY_LANES, run_check

_replace = dataclasses.replace
PLAIN = _replace(SMALL, name="plain", n_heads=16, n_kv_heads=8, head_dim=32, vocab_size=1000)
CASES = [
    LANES,
    _replace(LANES, name="no delay", delay=0, head="vocab_parallel"),
    _replace(LANES, name="sum, present", head="sum", early="present"),
    PLAIN,
]


def device_lists(lanes: int) -> Iterator[list[int]]:
    """Virtual devices, then as many cards as there are."""
    yield from ([0] * n for n in (2, 4, 8) if lanes % n == 0)
    yield from (list(range(n)) for n in (2, 4, 8) if n <= torch.cuda.device_count() and lanes % n == 0)


LINKED = _replace(LANES, head="vocab_parallel")
SPREAD = [
    *((spec, numbers, ()) for spec in (*CASES[:3], spread(PLAIN, 8)) for numbers in ([0], *device_lists(8))),
    (TINY_LANES, (0, 0), ()),
    *((LINKED, [0] * 4, defines) for defines in ((), ("KOGAGENT_LINK",), ("KOGAGENT_SLACK",))),
]


class Model:
    """A model on cards, or as one kernel that keeps the same lanes apart."""

    def __init__(
        self, spec: ModelSpec, tensors: Mapping[str, torch.Tensor], numbers: Sequence[int], **options: Any
    ) -> None:
        cards = [torch.device("cuda", n) for n in numbers]
        made = arrange(spec, cards)
        if len(cards) == 1:
            card: Any = torch.cuda.get_device_properties(cards[0])
            sms, shared = card.multi_processor_count, card.shared_memory_per_block_optin
            steps, one_stream = kernel_steps(spec, apart=True)
            layout = plan(spec, sms, shared, one_stream=one_stream)
            made = _replace(made, steps=steps, layout=layout, wide=None)
        on_card = {n: t.half().to(cards[0]) for n, t in tensors.items()}
        weights = cut_tensors(spec, made.spec, on_card)
        self.kernel = Monokernel(made.layout, weights, made.steps, wide=made.wide, devices=cards, **options)
        self.caches = [poisoned_cache(spec).to(card) for card in cards]

    def run(self, segment: Segment) -> list[Token]:
        out: list[Token] = []
        self.kernel.launch(segment, self.caches)
        while self.kernel.busy:  # its own deadline ends one that waits in vain
            out += self.kernel.drain()
        return out


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: spec.name)
def test_any_number_of_devices_draws_one_kernels_ids(spec: ModelSpec, rng: np.random.Generator) -> None:
    lanes = spread(spec, 8) if spec.lanes == 1 else spec
    tensors = cut_tensors(spec, lanes, half_tensors(spec, rng))
    ids = rng.integers(0, spec.vocab_size, 13).tolist()
    segments = [
        Segment(ids, 0, max_tokens=60, temperature=0.9, seed=int(rng.integers(2**60))),
        Segment(ids, 0, max_tokens=20, temperature=1.0, top_k=40, min_p=0.02, penalty=1.2, history=ids),
    ]
    one = Model(lanes, tensors, [0])
    want = [one.run(segment) for segment in segments]
    for numbers in device_lists(lanes.lanes):
        several = Model(lanes, tensors, numbers)
        for segment, tokens in zip(segments, want, strict=True):
            got = several.run(segment)
            assert [t.id for t in got] == [t.id for t in tokens], f"devices {numbers}"
            assert [t.logprob for t in got] == pytest.approx([t.logprob for t in tokens], abs=1e-5)
            if len(set(numbers)) == 1:  # as many blocks a lane: the same sums everywhere
                assert got == tokens


def test_a_device_that_stalls_or_never_starts_is_named_and_the_others_are_released(
    rng: np.random.Generator,
) -> None:
    tensors = half_tensors(LANES, rng)
    segment = Segment([1], 0, max_tokens=100)
    stalled = Model(LANES, tensors, [0] * 4, deadline_s=0.2)
    stalled.kernel.ranks[2].tensors["schedule"][0, 1] &= -65536  # a block with no rows to publish
    with pytest.raises(
        DeviceError, match=r"device 2 did not come: it stood in pass|block .* of device 2 stood"
    ):
        stalled.run(segment)
    torch.cuda.synchronize()  # nobody is left spinning
    missing = Model(LANES, tensors, [0] * 4, deadline_s=0.2)
    for program in missing.kernel.ranks[3].programs:
        program.start = lambda name: None  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="device 3 did not come: its kernel never began"):
        missing.run(segment)
    torch.cuda.synchronize()
    assert len(Model(LANES, tensors, [0] * 4).run(segment)) == 100


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_a_backend_of_two_devices_keeps_the_backends_contract(check: object) -> None:
    run_check(check, lambda s, t: CudaBackend(s, t, devices=(0, 0)), TINY_LANES, 2e-2)  # type: ignore[arg-type]


def test_an_emulated_link_changes_no_id_and_a_lane_alone_runs(rng: np.random.Generator) -> None:
    spec = LINKED
    tensors = half_tensors(spec, rng)
    segment = Segment([1], 0, max_tokens=50, temperature=1.0, seed=5)
    want = Model(spec, tensors, [0] * 4).run(segment)
    linked = Model(spec, tensors, [0] * 4, link_ns=5_000)
    assert linked.run(segment) == want
    linked.kernel.set_link(50_000)
    assert linked.run(segment) == want
    watched = Model(spec, tensors, [0] * 4, defines=("KOGAGENT_SLACK",))
    assert watched.run(segment) == want
    assert watched.kernel.slack().sum() > 0
