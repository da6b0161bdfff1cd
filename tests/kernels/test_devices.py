"""A model over several devices without one: the kernel's source on fibers, tapes, lanes, caches, errors."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from device_machine import Machine

from benchmarks import child
from benchmarks import lanes as bench
from benchmarks.child import run_bounded
from benchmarks.shapes import SHAPES
from kogagent.engine.backends import numbers_of, resolve
from kogagent.engine.backends.arrangement import Arrangement, arrange_for, kernel_steps
from kogagent.engine.backends.cuda_devices import SpreadKV, cut_tensors, spread
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.errors import ConfigError, DeviceError, InputError
from kogagent.kernels import monokernel
from kogagent.kernels.deadline import what_was_missed
from kogagent.kernels.layout import Layout, plan
from kogagent.kernels.monokernel import Monokernel, check_side_by_side
from kogagent.kernels.pack import matrix, pack
from kogagent.kernels.rank import STATUS_WORDS
from kogagent.kernels.segment import Token
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

SHARED = 232448
_replace = dataclasses.replace
FOUR = _replace(
    TINY_LANES,
    name="four lanes",
    lanes=4,
    n_heads=8,
    n_kv_heads=4,
    ffn_dim=96,
    head="vocab_parallel",
    vocab_size=84,
)
CPU = torch.device("cpu")


def half_tensors(spec: ModelSpec, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    return {n: t.half() for n, t in random_tensors(spec, int(rng.integers(2**31))).items()}


def machine(made: Arrangement, tensors: dict[str, torch.Tensor], **options: Any) -> Machine:
    return Machine(made.layout, tensors, made.steps, **options)


def test_a_last_part_smaller_by_a_round_of_the_warps_adds_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces at a pace, with words in several copies: as no small model has them by itself."""
    monkeypatch.setattr(Layout, "replicas", 3)
    spec = _replace(TINY, name="unlike parts", ffn_dim=3104, n_layers=1, windows=(0,))
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, 2, SHARED, one_stream=one_stream)
    down = layout.shapes[3]
    assert (down.tiles, down.part_tiles, down.parts, down.warps) == (97, 49, 2, 8)
    tensors = half_tensors(spec, rng)
    ids = rng.integers(0, spec.vocab_size, 2).tolist()
    it = Machine(layout, tensors, steps, defines=["PACE=50", "POLL_FIRST=20"])
    it.run(ids, 0)
    want = ReferenceBackend(spec, tensors).forward(ids)[-1].numpy()
    np.testing.assert_allclose(it.logits, want, atol=5e-3 * float(np.abs(want).max()))


def test_tapes_of_all_devices_hold_every_matrix_once(rng: np.random.Generator) -> None:
    tensors = half_tensors(FOUR, rng)
    one = arrange_for(FOUR, 1, 1, 20, SHARED).layout
    whole = pack(one, tensors)
    for devices in (2, 4):
        layout = arrange_for(FOUR, devices, devices, 20, SHARED).layout
        assert (layout.blocks, layout.group, layout.tape_bytes) == (one.blocks, one.group, one.tape_bytes)
        parts = [pack(layout, tensors, rank) for rank in range(devices)]
        assert torch.equal(torch.cat(parts), whole)
        cards = arrange_for(FOUR, devices, 1, 20, SHARED).layout  # with a card each
        assert cards.group == min(20 // cards.device_lanes, cards.ffn // 4)
        assert (cards.shapes, cards.splits, cards.stage_bytes) == (one.shapes, one.splits, one.stage_bytes)
        rows = [0] * devices
        for rank in range(devices):
            tape = pack(cards, tensors, rank)
            assert tape.shape[0] == cards.device_blocks
            rows[rank] = int((tape != 0).sum())
        expected = sum(
            int((matrix(cards, tensors, phase, lane).half() != 0).sum())
            for phase in range(4 * FOUR.n_layers + 1)
            for lane in range(FOUR.lanes)
        )
        assert sum(rows) == expected


@pytest.mark.parametrize("name", ["laneformer-2b", "llama-3.2-1b"])
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_known_shapes_fit_on_cards_of_their_own(name: str, devices: int) -> None:
    made = arrange_for(SHAPES[name], devices, 1, 132, SHARED)
    layout = made.layout
    assert layout.device_lanes * layout.group <= 132 and layout.shared_bytes <= SHARED
    assert layout.stages >= 3
    if made.wide is not None:
        assert made.wide.tape_bytes == layout.tape_bytes and made.wide.group == layout.group


def test_a_plain_transformer_is_the_same_cut_into_lanes(rng: np.random.Generator) -> None:
    spec = _replace(TINY, name="plain", n_heads=4, n_kv_heads=2, qkv_bias=True, qk_norm=True)
    tensors = random_tensors(spec, int(rng.integers(2**31)))
    ids = rng.integers(0, spec.vocab_size, 9).tolist()
    cut = spread(spec, 2)
    assert cut.lanes == 2
    want = ReferenceBackend(spec, tensors).forward(ids)
    got = ReferenceBackend(cut, cut_tensors(spec, cut, tensors)).forward(ids)
    assert (got - want).abs().max() < 1e-4 * want.abs().max() + 1e-5


def test_what_cannot_be_dealt_evenly_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"four lanes has 4 lanes: .* to 3 devices"):
        spread(FOUR, 3)
    with pytest.raises(ConfigError, match=r"n_kv_heads=2 cannot be dealt evenly to 4 devices"):
        spread(_replace(TINY, n_heads=4, n_kv_heads=2), 4)
    with pytest.raises(ConfigError, match="an even share each"):
        plan(FOUR, 20, SHARED, one_stream=False, devices=3)
    with pytest.raises(InputError, match=r"device='cpu:1': only 'cuda' takes numbers"):
        resolve("cpu:1")
    with pytest.raises(InputError, match="only 'cuda' takes numbers"):
        resolve("cuda:0,x")
    assert numbers_of("cuda:0,12") == ("cuda", (0, 12)) and numbers_of("cuda") == ("cuda", ())


def test_parts_side_by_side_need_a_hardware_queue_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    check_side_by_side([torch.device("cuda", 0)] * 6)
    with pytest.raises(DeviceError, match="8 virtual devices need 10 hardware queues, this process has 8"):
        check_side_by_side([torch.device("cuda", 0)] * 8)
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    check_side_by_side([torch.device("cuda", 0)] * 8)


def test_a_missed_deadline_names_the_device_that_is_behind() -> None:
    layout = arrange_for(FOUR, 4, 4, 20, SHARED).layout
    phases = 4 * FOUR.n_layers + 1
    status = np.zeros((4, STATUS_WORDS), np.uint32)
    assert what_was_missed(layout, status, 7) == ""
    status[:, 12], words = 7, status[1]  # all give up, device 1 noticed
    words[[2, 3, 9]] = layout.device_blocks + 1, 2 * phases + 5, 7
    words[16:20] = 40, 44, 2 + phases + 3, 44
    said = what_was_missed(layout, status, 7)
    assert said.startswith("device 2 did not come: it stood in pass 1, layer 0, phase down")
    assert "while device 1 waited for it in pass 2, layer 1, phase out" in said
    words[18] = 0
    assert what_was_missed(layout, status, 7).startswith("device 2 did not come: its kernel never began")
    words[16:20] = 44
    assert "block 6 of device 1 stood in pass 2" in what_was_missed(layout, status, 7)
    status[3, 12] = 6
    assert what_was_missed(layout, status, 7).startswith("device 3 did not come: it stood in pass")


def test_a_device_that_hangs_is_named_though_it_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Monokernel.__new__(Monokernel)
    kernel.layout = arrange_for(FOUR, 2, 2, 20, SHARED).layout
    hangs = SimpleNamespace(last=SimpleNamespace(query=lambda: False))
    kernel.ranks = [hangs, hangs]  # type: ignore[list-item]
    kernel._ring_words = [0] * 8
    kernel._status_words = np.zeros((2, STATUS_WORDS), np.uint32)
    kernel._epoch, kernel._read, kernel._running, kernel._missed_at = 7, 0, True, None
    kernel._cared_at = 0.0
    tops: list[int] = []
    monkeypatch.setattr(monokernel, "CARE_S", 0.0)
    monkeypatch.setattr(kernel, "_top_up", lambda: tops.append(1))
    assert kernel.drain() == [] and tops == [1]  # nobody has missed anything
    kernel._status_words[0, 9], kernel._status_words[0, 16:18] = 7, (30, 0)
    assert kernel.drain() == [] and kernel.busy  # the others may still be giving up
    monkeypatch.setattr(monokernel, "GRACE_S", -1.0)
    with pytest.raises(DeviceError, match="device 1 did not come: its kernel never began"):
        kernel.drain()
    assert not kernel.busy


def test_a_cache_on_several_devices_keeps_every_lanes_rows() -> None:
    kv = SpreadKV(FOUR, 12, torch.float16, [CPU, CPU])
    for store in kv.stores:
        store.fill_(0)
    own = (slice(0, 2), slice(2, 4))

    def decode(cache: SpreadKV, rows: int, value: float) -> None:  # each device its own lanes
        for heads, store in zip(own, cache.stores, strict=True):
            store[:, :, heads, cache.length : cache.length + rows] = value
        cache.advance(rows)

    kv.store[:, :, :, :5] = 1.0  # pre-fill on the first device
    kv.scatter(5)
    kv.advance(5)
    assert (kv.stores[1][:, :, 2:, :5] == 1).all() and (kv.stores[1][:, :, :2] == 0).all()
    decode(kv, 3, 2.0)
    fork = kv.fork()
    kv.rewind(6)
    decode(kv, 1, 3.0)
    kv.gather()
    assert (kv.store[:, :, :, 6] == 3).all() and (kv.store[:, :, :, 5] == 2).all()
    assert (kv.store[:, :, :, :5] == 1).all()
    kv.park()
    assert kv.parked and fork.length == 8 and len(kv.memory) == 2
    fork.gather()
    assert (fork.store[:, :, :, 5:8] == 2).all()
    decode(fork, 1, 4.0)
    assert (kv.store[:, :, :, 6] == 3).all() and kv.length == 7
    kv.close()
    fork.gather()
    assert (fork.store[:, :, :, 8] == 4).all() and (fork.store[:, :, :, :5] == 1).all()


def test_a_bounded_command_ends_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    ahead = 0.0
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead))

    def its_time_is_over(text: str) -> None:
        nonlocal ahead
        told.append(text)
        ahead += 3600

    lost = tmp_path / "lost"  # a grandchild in a session of its own keeps the output open
    script = f"setsid sleep 9999 & echo $! > {lost}; echo found 1; sleep 9999"
    why = run_bounded(["sh", "-c", script], 3600, its_time_is_over)
    assert why.startswith("stopped after") and "found 1" in why and told == ["found 1"]
    os.kill(int(lost.read_text()), 9)
    assert "ended with [3]" in run_bounded(["sh", "-c", "echo bad; exit 3"], 3600, told.append)
    show = "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])"
    told.clear()
    assert run_bounded([sys.executable, "-c", show], 3600, told.append, ranks=2) == ""
    assert sorted(told) == ["0 2", "1 2"]


def test_the_lanes_command_runs_the_parts_that_its_cards_allow() -> None:
    assert bench.parts_of(1, virtual=False) == ["cards", "exchange", "alone", "link", "stagger"]
    assert bench.parts_of(2, virtual=False) == [
        *("cards", "exchange", "rates", "bits", "slack", "tensor", "compiled"),
    ]
    assert bench.layouts_of(1, virtual=True)[-1] == [0] * 8 and bench.layouts_of(2, virtual=False) == [[0, 1]]
    assert all(f"part_{name}" in vars(bench) for name in bench.PARTS)
    bins = np.zeros((3, 32), np.int64)
    bins[:, 0], bins[:, 20] = 1, 9
    assert "30 landings; under 2 us or waited for 10.00%; 1%, 50%, 99%: 0, 40, 40 us" in bench.slack_of(bins)
    for devices in (1, 2):
        assert sum(bench.PARTS[part][1] for part in bench.parts_of(devices, virtual=False)) <= 570


@pytest.mark.skipif("KOGAGENT_MACHINE" not in os.environ, reason="minutes; KOGAGENT_MACHINE=1 runs it")
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "spec",
    [
        FOUR,
        _replace(FOUR, name="blocking", delay=0),
        _replace(FOUR, name="ladder, sum", delay=0, residual="ladder", head="sum"),
        _replace(FOUR, name="replicate, present", head="replicate", early="present"),
        _replace(TINY, name="plain", n_heads=4, n_kv_heads=4, head_dim=8),
    ],
    ids=lambda spec: spec.name,
)
def test_any_number_of_devices_gives_one_kernels_ids(spec: ModelSpec, rng: np.random.Generator) -> None:
    lanes = spread(spec, 4) if spec.lanes == 1 else spec
    tensors = cut_tensors(spec, lanes, half_tensors(spec, rng))
    seed = int(rng.integers(2**31))
    prompt = rng.integers(0, spec.vocab_size, 3).tolist()
    ways: list[dict[str, Any]] = [{"temperature": 0.8}, {"temperature": 0.9, "top_k": 20, "top_p": 0.8}]
    for sampling in ways:
        results: list[list[Token]] = []
        for devices in (1, 2, 4):
            made = arrange_for(lanes, devices, devices, 8, SHARED)
            if devices == 1:
                steps, _ = kernel_steps(lanes, apart=True)
                made = _replace(made, steps=steps, layout=plan(lanes, 8, SHARED, one_stream=False))
            runs = [
                machine(made, tensors).run(prompt, 0, max_tokens=4, order=seed + i, **sampling)
                for i in (0, 1)
            ]
            assert runs[0] == runs[1], "the order of warps changed the result"
            results.append(runs[0])
        assert results[0] == results[1] == results[2] and len(results[0]) == 4


@pytest.mark.skipif("KOGAGENT_MACHINE" not in os.environ, reason="minutes; KOGAGENT_MACHINE=1 runs it")
@pytest.mark.timeout(0)
def test_a_device_alone_runs_as_if_the_others_were_there_and_links_take_time(
    rng: np.random.Generator,
) -> None:
    tensors = half_tensors(FOUR, rng)
    made = arrange_for(FOUR, 4, 1, 4, SHARED)
    alone = machine(made, tensors, alone=True)
    assert len(alone.run([1, 2], 0, max_tokens=5)) == 5
    want = machine(made, tensors).run([1, 2], 0, max_tokens=3)
    rounds = []
    for link_ns in (1000, 20_000):
        linked = machine(made, tensors, link_ns=link_ns, defines=("KOGAGENT_SLACK",))
        assert linked.run([1, 2], 0, max_tokens=3) == want
        rounds.append(linked.rounds)
        assert linked.slack.sum() > 0
    assert rounds[1] > rounds[0]


@pytest.mark.skipif("KOGAGENT_MACHINE" not in os.environ, reason="minutes; KOGAGENT_MACHINE=1 runs it")
@pytest.mark.timeout(0)
def test_several_ids_a_pass_agree_with_one(rng: np.random.Generator) -> None:
    tensors = half_tensors(FOUR, rng)
    made = arrange_for(FOUR, 2, 2, 8, SHARED)
    assert made.wide is not None
    prompt = rng.integers(0, FOUR.vocab_size, 11).tolist()
    results = [
        Machine(layout, tensors, made.steps).run(prompt, 0, max_tokens=3, temperature=0.7)
        for layout in (made.layout, made.wide)
    ]
    assert results[0] == results[1]
