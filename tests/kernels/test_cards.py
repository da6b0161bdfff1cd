"""The host's side of the resident kernel on cards made of fibers: launches, grammars, aborts, faults."""

from __future__ import annotations

import dataclasses
import gc
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import prefill_twin
import pytest
import torch
from card_machine import Cards, cards
from device_machine import Machine
from test_devices import FOUR, half_tensors

from kogagent.engine.backend import DecodePlan, Emitted
from kogagent.engine.backends import cuda
from kogagent.engine.backends.arrangement import arrange_for
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.device_grammar import DeviceGrammar
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.grammar import Grammar, compile_schema
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.errors import DeviceError
from kogagent.kernels import rank
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.prefill import Prefill
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.spec import Vocabulary
from kogagent.testing.backends import BACKEND_CHECKS, TINY_LANES, run_check
from kogagent.testing.toy import finish

__all__ = ["cards"]
SHARED = 232448
long = pytest.mark.skipif(
    "KOGAGENT_MACHINE" not in os.environ, reason="minutes; KOGAGENT_MACHINE=1 --timeout 0 runs it"
)


def numbered(numbers: Sequence[int]) -> list[torch.device]:
    return [torch.device("cpu", n) for n in numbers]


def drawn(
    cards: Cards, kernel: Monokernel, segment: Segment, caches: list[torch.Tensor], **options: Any
) -> list[Token]:
    out: list[Token] = []
    kernel.launch(segment, caches, **options)
    while kernel.busy:
        out += kernel.drain()
        with cards.changed:
            cards.changed.wait(0.01)
    kernel.settle()
    return out


def test_two_cards_draw_the_equations_ids_and_a_launch_refused_or_late_names_its_device(
    cards: Cards, rng: np.random.Generator
) -> None:
    made = arrange_for(FOUR, 2, 2, cards.sms, SHARED)
    tensors = half_tensors(FOUR, rng)
    cards.order = int(rng.integers(2**31))
    two = Monokernel(made.layout, tensors, made.steps, devices=numbered([0, 1]))
    assert cards.peers == {(0, 1), (1, 0)}
    tried = cards.launches.copy()
    assert tried == [(0, "decode", 1), (1, "decode", 1)], "what is loaded late would hold a segment up"
    shape = (FOUR.n_layers, 2, FOUR.n_kv_heads, FOUR.context, FOUR.head_dim)
    caches = [torch.full(shape, float("nan"), dtype=torch.float16) for _ in range(2)]
    sampling = SamplingParams(temperature=0.8, seed=int(rng.integers(2**60)))
    prompt = rng.integers(0, FOUR.vocab_size, 3).tolist()
    segment = Segment(prompt, 0, max_tokens=4, temperature=0.8, seed=sampling.seed)
    tokens = drawn(cards, two, segment, caches, logits=True)
    assert cards.launches == tried * 2
    assert [token.reason for token in tokens] == [Reason.RUNNING] * 3 + [Reason.LENGTH]
    ids = [*prompt, *(token.id for token in tokens)]
    want = ReferenceBackend(FOUR, tensors).forward(ids[:-1]).numpy()
    logits = two.logits()
    assert np.abs(logits - want[-1]).max() < 4e-3 * np.abs(want).max() + 2e-3
    chosen, logprob = choose(logits, sampling, len(ids) - 1, np.zeros(84, np.bool_), None, 84)
    assert tokens[-1].id == chosen and tokens[-1].logprob == pytest.approx(logprob, abs=1e-4)

    lost = Machine(made.layout, tensors, made.steps, deadline_ns=10**6)
    assert lost.run([1], 0, max_tokens=3, stalled=1) == [] and lost.ended
    assert lost.missed().startswith("device 1 did not come: its kernel never began this launch")
    late = Machine(made.layout, tensors, made.steps, deadline_ns=10**6)
    given = late.run(prompt, 0, max_tokens=30, stalled=1, stall_round=300, most=100_000, temperature=0.8,
                     seed=sampling.seed)  # fmt: skip
    assert late.ended  # all but device 1
    assert given == tokens[: len(given)] and len(given) < 4
    assert late.missed().startswith("device 1 did not come: it stood in pass")

    for program in two._programs():
        program.params["deadline_ns"] = 10**6
    cards.refuses = 1
    with pytest.raises(DeviceError, match="did not take its launch: CUDA_ERROR_LAUNCH_FAILED"):
        two.launch(Segment([1], 0), caches)
    assert not two.busy and not any(stream.work or stream.busy for stream in cards.streams)


def test_what_a_spent_engine_has_loaded_goes_when_the_next_one_loads(
    cards: Cards, rng: np.random.Generator
) -> None:
    """Not whenever the collector finds it: that may be while a segment runs."""
    made = arrange_for(FOUR, 2, 2, cards.sms, SHARED)
    tensors = half_tensors(FOUR, rng)

    def load() -> Monokernel:
        return Monokernel(made.layout, tensors, made.steps, devices=numbered([0, 1]))

    kernel: Any = load()
    kernel.itself = kernel
    loaded = [program._code for program in kernel._programs()]
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None and all(len(code) == 2 for code in loaded)
    load()
    assert not any(loaded)


def test_what_another_thread_has_freed_meanwhile_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(list[Any]):
        def __bool__(self) -> bool:
            return True  # as it was a moment ago

    monkeypatch.setattr(rank, "_spent", Taken())
    rank._unload_spent()


# ── the whole backend, minutes ──


@pytest.fixture
def over(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CudaBackend]:
    """A backend over cards of these numbers."""
    monkeypatch.setattr(cuda, "choose_cards", lambda numbers: numbered(numbers or [0]))
    monkeypatch.setattr(
        cuda,
        "Prefill",
        lambda *given, capture, **options: Prefill(*given, capture=False, kernels=prefill_twin, **options),
    )
    return CudaBackend


@long
@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_a_backend_of_two_cards_keeps_the_backends_contract(
    check: object, over: Callable[..., CudaBackend]
) -> None:
    run_check(check, lambda s, t: over(s, t, devices=(0, 1)), TINY_LANES, 2e-2)  # type: ignore[arg-type]


PIECES = ['{"', '":', '":"', '","', '"}', "city", "unit", "days", "oslo", "cel", "sius", "fahren", "heit"]
# Its longest text fits, spelled byte by byte.
WORDED = dataclasses.replace(FOUR, name="four lanes and words", vocab_size=304, context=80)


def vocabulary() -> Vocabulary:
    """Every byte, pieces and an end; texts are cut into the longest pieces."""
    places = {piece: 256 + i for i, piece in enumerate(PIECES)}

    def encode(text: str) -> list[int]:
        ids: list[int] = []
        while text:
            piece = next((text[:n] for n in range(6, 1, -1) if text[:n] in places), "")
            ids += [places[piece]] if piece else text[0].encode()
            text = text[len(piece) or 1 :]
        return ids

    tokens = (*(bytes([i]) for i in range(256)), *(piece.encode() for piece in PIECES), b"<end>")
    return Vocabulary(tokens, frozenset(), (len(tokens) - 1,), encode)


class HostMatcher:
    """A matcher that no device knows: the host guides the segment."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def fork(self) -> HostMatcher:
        return HostMatcher(self._own.fork())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


@long
def test_grammars_forced_runs_answers_and_aborts_are_one_cards(
    over: Callable[..., CudaBackend], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    tensors = half_tensors(WORDED, rng)
    schema = {
        "type": "object",
        "properties": {
            "city": {"enum": ["oslo", "paris", "lisboa"]},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 30},
        },
        "required": ["city", "unit", "days"],
    }
    words = vocabulary()
    grammar: Grammar = compile_schema(schema, words)
    prompt = rng.integers(0, WORDED.vocab_size, 5).tolist()
    sampling = SamplingParams(temperature=1.0, seed=int(rng.integers(2**60)))

    def segment(backend: CudaBackend, matcher: Any, stop_at: int = -1) -> tuple[list[Emitted], Any, int]:
        kv = backend.open_kv(WORDED.context)
        plan = DecodePlan(sampling, frozenset(), 60, (), matcher, legal_ids=len(words))
        decode = backend.decode(kv, prompt, plan)
        out: list[Emitted] = []
        while stop_at >= 0 and len(out) < stop_at and decode.reason is None:
            decode.wait(1.0)
            out += decode.drain_nowait()
        if stop_at >= 0:
            decode.stop()
        out += finish(decode)
        kept = kv.length
        return out, decode.reason, kept

    def alike(a: list[Emitted], b: list[Emitted]) -> None:
        assert [(e.id, e.forced) for e in a] == [(e.id, e.forced) for e in b]
        assert [e.logprob for e in a] == pytest.approx([e.logprob for e in b], abs=1e-4)

    one = over(WORDED, tensors)
    want, reason, _ = segment(one, grammar.start())
    assert reason == "grammar" and sum(e.forced for e in want) > 5
    two = over(WORDED, tensors, devices=(0, 1))
    kernel = two.kernel()
    for matcher in (grammar.start(), HostMatcher(grammar.start())):
        got, reason, _ = segment(two, matcher)
        assert reason == "grammar"
        alike(got, want)
    memory = two.grammars.find(grammar.start())
    assert memory is not None
    place = memory.place(grammar.start())
    for record, fixed, learned, words_there in zip(
        place.tables, memory._fixed, memory._learned, memory._vocabulary, strict=True
    ):
        assert int(record["states"]) - fixed.data_ptr() == memory.grammar.fixed.offsets["states"]
        assert int(record["known"]) - learned.data_ptr() == memory.grammar.learned.offsets["known"]
        assert int(record["tokens"]) == words_there.data_ptr() + memory._tokens.offsets["tokens"]
    assert len({int(record["known"]) for record in place.tables}) == len(kernel.ranks)
    part, reason, _ = segment(two, grammar.start(), stop_at=len(want) // 3)
    assert reason == "cancelled" or len(part) == len(want)
    alike(part, want[: len(part)])
    asked: list[int] = []
    answer = kernel.answer

    def answered(verdict: int, *given: Any, **more: Any) -> None:
        asked.append(verdict)
        answer(verdict, *given, **more)

    monkeypatch.setattr(kernel, "answer", answered)
    monkeypatch.setattr(DeviceGrammar, "look_ahead", lambda self: False)
    fresh: Grammar = compile_schema(schema | {"title": "another"}, words)
    got, reason, _ = segment(two, fresh.start())
    alike(got, want)
    assert asked or fresh.digest == grammar.digest


@long
def test_one_of_several_cards_stands_for_all_and_links_and_slack_change_no_id(
    cards: Cards, rng: np.random.Generator
) -> None:
    tensors = half_tensors(FOUR, rng)
    made = arrange_for(FOUR, 4, 1, 4, SHARED)
    shape = (FOUR.n_layers, 2, FOUR.n_kv_heads, FOUR.context, FOUR.head_dim)
    segment = Segment([1, 2], 0, max_tokens=3, temperature=1.0, seed=int(rng.integers(2**60)))

    def cache() -> torch.Tensor:
        return torch.full(shape, float("nan"), dtype=torch.float16)

    cards.alone = True
    alone = Monokernel(made.layout, tensors, made.steps, devices=numbered([0]), alone=True)
    assert len(drawn(cards, alone, segment, [cache()])) == 3
    assert alone.stream_only(2) > 0
    cards.alone = False
    results = []
    options: list[dict[str, Any]] = [{}, {"link_ns": 1000}, {"defines": ("KOGAGENT_SLACK",)}]
    for each in options:
        kernel = Monokernel(made.layout, tensors, made.steps, devices=numbered(range(4)), **each)
        results.append(drawn(cards, kernel, segment, [cache() for _ in range(4)]))
        if not each:
            kernel._tag = (1 << 32) - 10  # tags begin again
            results.append(drawn(cards, kernel, segment, [cache() for _ in range(4)]))
            assert kernel._tag < 1 << 16
        if "link_ns" in each:
            kernel.set_link(20_000)
            results.append(drawn(cards, kernel, segment, [cache() for _ in range(4)]))
        if "defines" in each:
            bins: npt.NDArray[np.int64] = kernel.slack()
            assert bins.shape == (made.layout.blocks, 32) and bins.sum() > 0
    assert all(result == results[0] for result in results)
