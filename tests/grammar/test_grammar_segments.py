"""Segments of the cuda backend without a card: a double of the kernel beside the loop on the host.

The double decides what a token is by the device's own grammar program, compiled for this machine.
"""

from __future__ import annotations

import ctypes
import random
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import grammar_twin
import numpy as np
import pytest
import torch
from grammar_schemas import random_schema
from grammar_vocabularies import byte_vocabulary, smollm

from kogagent.engine.backend import DecodePlan, Emitted, PreparesGrammars
from kogagent.engine.backends import cuda_segment, grammar_memory
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.cuda_segment import CudaDecode
from kogagent.engine.backends.device_grammar import (
    ANSWER_RUN,
    ASK,
    FIRST_RUN,
    FREE,
    ILLEGAL,
    LAST,
    DeviceGrammar,
)
from kogagent.engine.backends.grammar_memory import Grammars
from kogagent.engine.backends.tensor_kv import TensorKV
from kogagent.engine.grammar import (
    Bounds,
    Grammar,
    compile_choices,
    compile_ebnf,
    compile_schema,
    compile_turn,
)
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.errors import ModelError, SchemaError
from kogagent.kernels.params import FRAMES, RUN
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.spec import ModelSpec, Vocabulary
from kogagent.testing.toy import ToyBackend, finish

CPU = torch.device("cpu")


def read(address: int, dtype: Any, first: int, count: int) -> Any:
    size = np.dtype(dtype).itemsize
    raw = (ctypes.c_uint8 * (count * size)).from_address(address + first * size)
    return np.frombuffer(raw, dtype)


class KernelDouble:
    """Says what the kernel would say, a launch's tokens in bursts; the cache holds the ids themselves."""

    def __init__(self, toy: ToyBackend) -> None:
        self._toy = toy
        self._tokens: Iterator[list[Token]] = iter(())
        self._stopped = False
        self._given = 0  # tokens of this segment
        self._answer: tuple[int, int, list[int], bool, Any] | None = None  # of which token, and what
        self.launches: list[Segment] = []
        self.asked = 0
        self.idle = 0  # looks without a token between two passes

    def launch(self, segment: Segment, stores: Sequence[torch.Tensor]) -> float:
        self.launches.append(segment)
        self._stopped, self._given, self._answer = False, 0, None
        (store,) = stores
        self._tokens = self._run(segment, store)
        return time.perf_counter()

    def drain(self) -> list[Token]:
        out = next(self._tokens, [])
        self._given += len(out)
        return out

    def answer(self, verdict: int, ids: Sequence[int] = (), *, last: bool = False, mask: Any = None) -> None:
        self._answer = self._given, verdict, list(ids), last, mask

    def _answered(self, index: int) -> Generator[list[Token], None, Any]:
        while self._answer is None or self._answer[0] != index:
            yield []
        return self._answer

    def stop(self) -> None:
        self._stopped = True

    def settle(self) -> None:
        """It leaves nothing behind."""

    def _run(self, s: Any, store: torch.Tensor) -> Iterator[list[Token]]:
        ids = [int(i) for i in store[0, 0, 0, : s.position, 0]]
        size, capacity = self._toy.spec.vocab_size, store.shape[3]
        params = SamplingParams(s.temperature, s.top_k, s.top_p, s.min_p, s.penalty, s.seed)
        seen = np.zeros(size, np.bool_)
        seen[[*s.history, *s.pending]] = True
        pending, emitted = list(s.pending), 0
        at: Any = None if s.grammar is None else s.grammar.start.copy()
        while True:
            for token in pending:
                store[0, 0, 0, len(ids), 0] = token
                ids.append(token)
            if self._stopped:
                yield [Token(0, 0.0, Reason.CANCELLED)]
                return
            for _ in range(self.idle):
                yield []
            mask: Any = s.mask
            found: Any = None
            said = (yield from self._answered(emitted)) if s.guided else None
            if said is not None and said[1] == ILLEGAL:
                yield [Token(0, 0.0, Reason.CANCELLED)]
                return
            if said is not None:
                mask = np.zeros(-(-size // 32), np.uint32)
                mask[: len(said[4])] = said[4]
            if s.grammar is not None:
                found = grammar_twin.verdicts(s.grammar.tables, at, size)
                mask = np.packbits(found != 0, bitorder="little")
                mask = np.concatenate([mask, np.zeros(-len(mask) % 4, np.uint8)]).view(np.uint32)
            token, logprob = choose(self._toy.expected(ids), params, len(ids), seen, mask, s.legal_ids)
            seen[token] = True
            verdict = FREE if found is None else int(found[token])
            if said is not None:
                verdict = said[1]
            run: list[int] = []
            then = verdict
            lead = [(token, logprob, False)]
            at_end = token in s.stop_ids or emitted + 1 == s.max_tokens or len(ids) + 1 > capacity
            if verdict == ASK and not at_end:
                self.asked += 1
                emitted += 1
                yield [Token(token, logprob, Reason.ASKED)]
                _, verdict, *_ = said = yield from self._answered(emitted)
                lead, then = [], verdict
            if verdict == ANSWER_RUN:
                assert said is not None
                run, then = said[2], LAST if said[3] else FREE
            elif verdict >= FIRST_RUN:
                tables = s.grammar.tables[0]
                runs, run_ids = int(tables["runs"]), int(tables["run_ids"])
                first, count, then, _ = read(runs, RUN, verdict - FIRST_RUN, 1)[0].tolist()
                run = read(run_ids, np.int32, first, count).tolist()
            out = []
            items = [*lead, *((id, 0.0, True) for id in run)]
            for i, (id, value, forced) in enumerate(items, 1 - len(lead)):
                emitted += 1
                reason = Reason.RUNNING
                if id in s.stop_ids:
                    reason = Reason.STOP
                elif emitted == s.max_tokens:
                    reason = Reason.LENGTH
                elif len(ids) + i + 1 > capacity:
                    reason = Reason.CONTEXT
                elif i == len(run) and then == LAST:
                    reason = Reason.COMPLETE
                out.append(Token(id, value, reason, forced))
                if reason is not Reason.RUNNING:
                    break
            yield out
            if out and out[-1].reason is not Reason.RUNNING:
                return
            pending = [token, *run]
            seen[run] = True
            for id in pending if found is not None else ():
                grammar_twin.take(s.grammar.tables, at, id)


class PrefillDouble:
    def __init__(self, toy: ToyBackend) -> None:
        self._toy = toy

    def run(self, store: torch.Tensor, position: int, ids: Sequence[int], *, logits: str) -> torch.Tensor:
        for i, token in enumerate(ids):
            store[0, 0, 0, position + i, 0] = token
        whole = [int(i) for i in store[0, 0, 0, : position + len(ids), 0]]
        self.logits = torch.from_numpy(self._toy.expected(whole))
        return self.logits

    def greedy(
        self, store: torch.Tensor, position: int, ids: Sequence[int], legal: int, mask: Any
    ) -> tuple[int, float] | None:
        logits = self.run(store, position, ids, logits="last").numpy()
        try:
            return choose(logits, SamplingParams(), position, mask=mask, legal_ids=legal)
        except ModelError:
            return None


def spec_of(vocabulary: Vocabulary) -> ModelSpec:
    size = len(vocabulary) + 5
    return ModelSpec(
        vocab_size=size, dim=8, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, ffn_dim=8, context=400
    )


def backend_of(toy: ToyBackend) -> tuple[CudaBackend, KernelDouble]:
    backend: Any = CudaBackend.__new__(CudaBackend)
    backend._spec, backend._device = toy.spec, CPU
    backend._kernel, backend._prefill = KernelDouble(toy), PrefillDouble(toy)
    backend.grammars = Grammars([CPU])
    backend.open_kv = lambda capacity: TensorKV(toy.spec, capacity, torch.float32, CPU)
    return backend, backend._kernel


@pytest.fixture(autouse=True)
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_segment, "_synchronize", lambda: None)
    monkeypatch.setattr(cuda_segment, "_queue_end", lambda: lambda: True)


def plan_of(vocabulary: Vocabulary, rand: random.Random, grammar: Grammar, matcher: Any) -> DecodePlan:
    sampling = rand.choice(
        [
            SamplingParams(),
            SamplingParams(temperature=1.0, seed=rand.randrange(2**60)),
            SamplingParams(temperature=1.5, top_k=9, repetition_penalty=1.4, seed=3),
        ]
    )
    stop = frozenset(rand.sample(range(len(vocabulary)), 3)) if rand.random() < 0.4 else frozenset[int]()
    most, legal, patient = rand.choice([1, 2, 7, 150]), len(vocabulary), rand.random() < 0.5
    return DecodePlan(sampling, stop, most, (5, 6), matcher, legal_ids=legal, patient=patient)


def collect(decode: Any) -> tuple[list[Emitted], Any, int]:
    return finish(decode), decode.reason, decode.stats.steps


@pytest.mark.parametrize("source", [smollm, lambda: (byte_vocabulary(), None)], ids=["smollm", "bytes"])
def test_segments_of_the_kernel_are_those_of_the_host(source: Any, rng: np.random.Generator) -> None:
    vocabulary, _ = source()
    rand = random.Random(int(rng.integers(2**32)))
    toy = ToyBackend(spec_of(vocabulary), seed=rand.randrange(1000))
    backend, kernel = backend_of(toy)
    forced, asked, idle = 0, [0, 0], rand.choice([0, 2])
    turn = 0
    while turn < 6 or not forced:
        turn += 1
        try:
            if turn % 4 == 1:
                tools = {"add": {"type": "object", "properties": {"a": random_schema(rand, 1)}}, "ping": {}}
                grammar = compile_turn(tools, vocabulary, tool_choice="required", bounds=Bounds(string=9))
            else:
                grammar = compile_schema(random_schema(rand, 2), vocabulary, bounds=Bounds(string=20))
        except SchemaError:
            continue
        prompt = rng.integers(0, len(vocabulary), rand.choice([1, 3, 40])).tolist()
        state = rand.getstate()
        capacity = len(prompt) + rand.choice([0, 3, 300])
        want_kv = toy.open_kv(capacity)
        want = collect(toy.decode(want_kv, prompt, plan_of(vocabulary, rand, grammar, grammar.start())))
        for again in range(2):
            rand.setstate(state)
            capacity = len(prompt) + rand.choice([0, 3, 300])
            kv = backend.open_kv(capacity)
            kernel.asked, kernel.idle = 0, idle
            kernel.launches.clear()
            decode = backend.decode(kv, prompt, plan_of(vocabulary, rand, grammar, grammar.start()))
            assert isinstance(decode, CudaDecode) and decode.resident
            got = collect(decode)
            assert got == want and len(kernel.launches) <= 1 + (len(prompt) > cuda_segment.FEED_ROWS)
            assert kv.length == want_kv.length
            assert [int(i) for i in kv.store[0, 0, 0, : kv.length, 0]] == want_kv.ids
            asked[again] += kernel.asked
        forced += sum(e.forced for e in want[0])
    assert asked[0] >= asked[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are not asked")
def test_a_thread_that_sleeps_exactly_has_no_slack_and_others_keep_theirs() -> None:
    prctl, get = ctypes.CDLL(None).prctl, 30  # PR_GET_TIMERSLACK, in nanoseconds
    before, found = prctl(get, 0, 0, 0, 0), list[int]()

    def own() -> None:
        cuda_segment.sleep_exactly()
        found.append(prctl(get, 0, 0, 0, 0))

    thread = threading.Thread(target=own)
    thread.start()
    thread.join()
    assert found == [1] and prctl(get, 0, 0, 0, 0) == before


@pytest.mark.parametrize("idle", [0, 60])
def test_a_run_is_asked_for_once_and_where_the_host_has_time_not_even_that(
    idle: int, rng: np.random.Generator
) -> None:
    vocabulary, _ = smollm()
    toy = ToyBackend(spec_of(vocabulary), seed=int(rng.integers(1000)))
    backend, kernel = backend_of(toy)
    kernel.idle = idle
    sampling = SamplingParams(temperature=1.0, seed=int(rng.integers(2**40)))
    words = [f"{c} is a letter of the alphabet, unlike all digits" for c in "ABC"]
    grammar = compile_choices(words, vocabulary)
    asked = []
    for _ in range(2):
        kernel.asked = 0
        kernel.launches.clear()
        plan = DecodePlan(sampling, frozenset(), 50, matcher=grammar.start())
        out = finish(backend.decode(backend.open_kv(90), [1], plan))
        assert vocabulary.decode([e.id for e in out]).decode() in words
        assert not out[0].forced and all(e.forced for e in out[-5:])
        assert len(kernel.launches) == 1
        asked.append(kernel.asked)
    assert asked == [0 if idle else 1, 0]


def test_a_grammar_that_was_prepared_is_asked_for_nothing(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Made and looked at beforehand, beside a backend that goes on; what the device must not walk is left."""
    vocabulary, _ = smollm()
    toy = ToyBackend(spec_of(vocabulary), seed=int(rng.integers(1000)))
    backend, kernel = backend_of(toy)
    assert isinstance(backend, PreparesGrammars)
    grammar = compile_choices([f"{c} is a letter, unlike all digits" for c in "ABC"], vocabulary)
    made: list[Grammar] = []

    class Counted(DeviceGrammar):
        def __init__(self, grammar: Grammar) -> None:
            made.append(grammar)
            super().__init__(grammar)

    monkeypatch.setattr(grammar_memory, "DeviceGrammar", Counted)
    for _ in range(2):
        thread = threading.Thread(target=backend.prepare, args=(grammar,))
        thread.start()
        thread.join()
    backend.prepare(_Wrapped(grammar))
    deep = compile_ebnf('start: "(" start? ")"', vocabulary, depth=FRAMES + 2)
    backend.prepare(deep)
    assert made == [grammar, deep]
    plan = DecodePlan(SamplingParams(temperature=1.0, seed=3), frozenset(), 50, matcher=grammar.start())
    out = finish(backend.decode(backend.open_kv(90), [1], plan))
    assert all(e.forced for e in out[-5:]) and kernel.asked == 0
    assert backend.grammars.find(deep.start()) is None
    backend.prepare(grammar)
    assert made == [grammar, deep], "what a segment has met is there"


def guided(
    matcher: Any, vocabulary: Vocabulary, rng: np.random.Generator, prompt: Sequence[int], force: bool
) -> list[Emitted]:
    """What a matcher that only the host knows makes of a prompt, alike on the host's loop and the card's."""
    toy = ToyBackend(spec_of(vocabulary), seed=int(rng.integers(1000)))
    backend, kernel = backend_of(toy)
    sampling = SamplingParams(temperature=1.0, seed=int(rng.integers(2**40)))
    outs = []
    for target in (toy, backend):
        plan = DecodePlan(sampling, frozenset(), 60, matcher=matcher.fork(), force=force)
        kv: Any = target.open_kv(90)
        decode: Any = target.decode(kv, prompt, plan)
        outs.append((finish(decode), decode.reason))
    assert decode.resident and len(kernel.launches) == 1 and kernel.launches[0].guided
    ids = [*prompt, *(e.id for e in outs[1][0])]
    assert [int(i) for i in kv.store[0, 0, 0, : kv.length, 0]] == ids[: kv.length]
    assert outs[0] == outs[1]
    return outs[0][0]


@pytest.mark.parametrize("force", [True, False])
def test_a_matcher_the_device_does_not_know_guides_one_launch(force: bool, rng: np.random.Generator) -> None:
    vocabulary, _ = smollm()
    matcher = _Wrapped(compile_schema({"enum": ["celsius", "fahrenheit", "kelvin"]}, vocabulary).start())
    out = guided(matcher, vocabulary, rng, rng.integers(0, 1000, 2 if force else 30).tolist(), force)
    assert any(e.forced for e in out) is force


def test_a_grammar_on_llguidance_guides_one_launch(rng: np.random.Generator) -> None:
    pytest.importorskip("llguidance")
    vocabulary, _ = smollm()
    names = {"anyOf": [{"const": "celsius"}, {"const": "fahrenheit"}]}
    pairs = [{"items": names, "maxItems": 2}, {"items": {"type": "integer", "maximum": 9}, "maxItems": 3}]
    grammar = compile_schema({"anyOf": pairs}, vocabulary, fallback=True)
    assert not isinstance(grammar, Grammar)
    out = guided(grammar.start(), vocabulary, rng, [5, 6, 7], True)
    assert out


class _Wrapped:
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def fork(self) -> _Wrapped:
        return _Wrapped(self._matcher.fork())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)


def test_a_stopped_segment_leaves_what_can_go_on(rng: np.random.Generator) -> None:
    vocabulary, _ = smollm()
    toy = ToyBackend(spec_of(vocabulary), seed=int(rng.integers(1000)))
    backend, _ = backend_of(toy)
    grammar = compile_schema({"type": "array", "items": {"enum": ["celsius", "kelvin"]}}, vocabulary)
    sampling = SamplingParams(temperature=1.0, seed=9)
    prompt = [4, 5, 6]
    want = finish(
        toy.decode(toy.open_kv(300), prompt, DecodePlan(sampling, frozenset(), 99, matcher=grammar.start()))
    )
    kv, matcher = backend.open_kv(300), grammar.start()
    out: list[Emitted] = []
    reason = None
    while reason in (None, "cancelled"):
        pending = [*prompt, *(e.id for e in out)][kv.length :]
        plan = DecodePlan(sampling, frozenset(), 99 - len(out), matcher=matcher.fork())
        decode = backend.decode(kv, pending, plan)
        decode.wait(1.0)
        if rng.random() < 0.6:
            decode.stop()
        fresh = finish(decode)
        reason = decode.reason
        for emitted in fresh:
            matcher.advance(emitted.id)
        out += fresh
    assert [e.id for e in out] == [e.id for e in want]
