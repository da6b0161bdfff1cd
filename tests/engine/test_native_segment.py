"""Segments inside the CPU program against the host's: grammar, forced runs, sampling, ends, cancelling."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.engine.backend import KV, DecodePlan, Emitted
from kogagent.engine.backends.host import HostDecode
from kogagent.engine.backends.native import NativeBackend
from kogagent.engine.backends.native_grammar import NativeGrammar, NativeWalk
from kogagent.engine.backends.native_segment import NativeDecode
from kogagent.engine.grammar import Bounds, compile_choices, compile_regex, compile_schema
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.engine.sampling import SamplingParams, choose
from kogagent.engine.weights import random_tensors
from kogagent.errors import ModelError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec, Vocabulary
from kogagent.testing.toy import finish

pytestmark = pytest.mark.skipif(library.missing() is not None, reason="the native backend was not built")

WORDS = (
    b"re",
    b"ed",
    b'":',
    b'{"',
    b'"}',
    b"tru",
    b"true",
    b"fal",
    b"lse",
    b"12",
    b"name",
    b"aa",
    b"aaaa",
    b"\xc3\xa9",
)
TOKENS = (*(bytes([i]) for i in range(256)), b"<end>", b"<call>", *WORDS, b"")
SPELLED: dict[bytes, int] = {token: i for i, token in enumerate(TOKENS) if token and i not in (256, 257)}
SPEC = ModelSpec(
    vocab_size=len(TOKENS) + 9,  # wider than the vocabulary
    dim=32,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    ffn_dim=48,
    context=400,
)


def encode(text: str) -> list[int]:
    """Greedy, longest token first: a tokenizer whose borders matter."""
    data, out = text.encode(), []
    while data:
        size = next(n for n in range(min(4, len(data)), 0, -1) if data[:n] in SPELLED)
        out.append(SPELLED[data[:size]])
        data = data[size:]
    return out


VOCABULARIES = {
    "bytes": Vocabulary(TOKENS, frozenset({256, 257}), (256,)),
    "with a tokenizer": Vocabulary(TOKENS, frozenset({256, 257}), (256,), encode),
}


def random_grammar(source: random.Random, vocabulary: Vocabulary) -> Grammar:
    kinds: list[Any] = [
        {"type": "string", "minLength": source.randrange(3), "maxLength": source.randrange(3, 40)},
        {"type": "integer", "minimum": -5, "maximum": source.randrange(1, 5000)},
        {"enum": ["red", "green", "name", 12, True, None]},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": source.randrange(2, 30)},
        {"type": "number"},
    ]
    match source.randrange(4):
        case 0:
            return compile_regex(
                source.choice(["(ab|a*c){2,5}d", "[a-z]{3,60}", "é{1,9}x?", "a{40,80}"]), vocabulary
            )
        case 1:
            return compile_choices(source.sample(["true", "tree", "red", "reed", "aaaaa"], 3), vocabulary)
        case _:
            names = source.sample(["name", "a", "colour", "é"], source.randrange(1, 4))
            properties = {name: source.choice(kinds) for name in names}
            schema = {"type": "object", "properties": properties, "required": names[:1]}
            return compile_schema(schema, vocabulary, bounds=Bounds(string=60))


def random_sampling(source: random.Random) -> SamplingParams:
    return SamplingParams(
        temperature=source.choice([0.0, 0.7, 1.5]),
        top_k=source.choice([0, 0, 1, 5, 40]),
        top_p=source.choice([1.0, 0.3, 0.9]),
        min_p=source.choice([0.0, 0.05]),
        repetition_penalty=source.choice([1.0, 1.3, 0.8]),
        seed=source.randrange(2**64),
    )


@pytest.fixture(scope="module")
def backend() -> NativeBackend:
    return NativeBackend(SPEC, random_tensors(SPEC, 5), "float32", threads=2)


def both(
    backend: NativeBackend, ids: list[int], plan: DecodePlan, capacity: int
) -> tuple[list[Emitted], list[Emitted], KV, KV, Any, Any]:
    matcher = plan.matcher
    twin = None if matcher is None else matcher.fork()
    left, right = backend.open_kv(capacity), backend.open_kv(capacity)
    native = backend.decode(left, ids, plan)
    assert isinstance(native, NativeDecode)
    host = HostDecode(backend, right, ids, replace(plan, matcher=twin))
    return finish(native), finish(host), left, right, native, (host, twin)


@pytest.mark.parametrize("spelling", VOCABULARIES)
def test_segments_equal_the_host_s_token_for_token(
    rng: np.random.Generator, backend: NativeBackend, spelling: str
) -> None:
    seed = int(rng.integers(2**32))
    ends: set[str] = set()
    forced = number = 0
    while number < 70 or forced < 30 or not ends >= {"length", "context", "stop"}:  # all are met
        number += 1
        source = random.Random(f"{seed}/{number}")
        grammar = random_grammar(source, VOCABULARIES[spelling]) if source.random() < 0.8 else None
        ids = [source.randrange(SPEC.vocab_size) for _ in range(source.randrange(1, 12))]
        matcher = None if grammar is None else grammar.start()
        plan = DecodePlan(
            random_sampling(source),
            frozenset({256}) if source.random() < 0.5 else frozenset(),
            source.choice([1, 7, 60, 300]),
            tuple(ids[:3]),
            matcher,
            source.random() < 0.8,
            source.choice([0, len(TOKENS)]),
        )
        got, wanted, left, right, native, (host, twin) = both(backend, ids, plan, source.choice([30, 300]))
        where = (seed, number)
        assert [(e.id, e.forced) for e in got] == [(e.id, e.forced) for e in wanted], where
        np.testing.assert_allclose([e.logprob for e in got], [e.logprob for e in wanted], atol=2e-5)
        assert native.reason == host.reason, where
        assert native.stats.steps == host.stats.steps, where
        assert left.length == right.length, where
        if twin is not None:
            assert isinstance(plan.matcher, Matcher)
            assert plan.matcher.place == twin.place, where
            np.testing.assert_array_equal(plan.matcher.mask(), twin.mask())
        ends.add(str(native.reason))
        forced += sum(e.forced for e in got)


def test_a_segment_goes_on_where_the_last_one_stopped(
    rng: np.random.Generator, backend: NativeBackend
) -> None:
    """Cut at every token, runs included; the walk is handed over through the matcher."""
    seed = int(rng.integers(2**32))
    for number in range(12):
        source = random.Random(f"{seed}/{number}")
        grammar = random_grammar(source, VOCABULARIES["with a tokenizer"])
        sampling = replace(random_sampling(source), repetition_penalty=1.0)
        plan = DecodePlan(sampling, frozenset(), 40, (), grammar.start())
        whole = backend.decode(backend.open_kv(300), [5], plan)
        wanted = [e.id for e in finish(whole)]
        kv, matcher, ids = backend.open_kv(300), grammar.start(), [5]
        while len(ids) <= len(wanted):
            plan = DecodePlan(sampling, frozenset(), source.randrange(1, 4), (), matcher)
            part = backend.decode(kv, ids[kv.length :], plan)
            ids += [e.id for e in finish(part)]
            if part.reason == "grammar":
                break
        assert ids[1 : 1 + len(wanted)] == wanted, (seed, number)


def test_what_is_known_is_found_again_and_asked_once(
    rng: np.random.Generator, backend: NativeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = compile_schema(
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 20}, VOCABULARIES["bytes"]
    )
    asked = 0
    learn = NativeGrammar.learn

    def counting(self: NativeGrammar, walk: NativeWalk) -> None:
        nonlocal asked
        asked += 1
        learn(self, walk)

    monkeypatch.setattr(NativeGrammar, "learn", counting)
    plan = DecodePlan(SamplingParams(temperature=1.0, seed=int(rng.integers(2**32))), frozenset(), 100)
    first = finish(backend.decode(backend.open_kv(300), [3], replace(plan, matcher=grammar.start())))
    before = asked
    assert 0 < before <= 2 * len(first)
    again = finish(backend.decode(backend.open_kv(300), [3], replace(plan, matcher=grammar.start())))
    assert [e.id for e in again] == [e.id for e in first]
    assert asked == before


def test_the_walk_steps_and_refuses_as_the_host_s_matcher(rng: np.random.Generator) -> None:
    c = library.load()
    seed = int(rng.integers(2**32))
    legal = illegal = 0
    for number in range(50):
        source = random.Random(f"{seed}/{number}")
        grammar = random_grammar(source, VOCABULARIES["bytes"])
        native = NativeGrammar(grammar)
        matcher = grammar.start()
        for _ in range(60):
            token = source.randrange(len(TOKENS) + 3)
            choices = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
            if not len(choices):
                break
            if source.random() < 0.7:
                token = int(source.choice(list(choices)))
            walk = NativeWalk(native, matcher)
            ok = bool(c.kog_step(native.handle, walk.at, token))
            try:
                matcher.advance(token)
            except ModelError:
                # A pending run forbids what the automaton would read: only the automaton is asked here.
                assert not ok or matcher.forced(), (seed, number)
                illegal += 1
                continue
            assert ok, (seed, number)
            assert walk.configuration() == matcher.place[:2], (seed, number)
            legal += 1
        native.close()
    assert legal > 150 and illegal > 50, (seed, legal, illegal)


def test_it_draws_what_the_host_draws(rng: np.random.Generator) -> None:
    c = library.load()
    seed = int(rng.integers(2**32))
    for number in range(400):
        source = random.Random(f"{seed}/{number}")
        vocab = source.choice([5, 83, 3000, 20_000])
        logits = rng.normal(0, source.choice([0.01, 1, 6]), vocab).astype(np.float32)
        if source.random() < 0.3:
            logits = np.round(logits)  # equals
        if source.random() < 0.2:
            logits[rng.integers(0, vocab, vocab // 2)] = -np.inf
            logits[0] = 1.0
        sampling = random_sampling(source)
        seen = rng.random(vocab) < 0.3
        mask: npt.NDArray[np.uint32] | None = None
        if source.random() < 0.5:
            mask = np.packbits(rng.random((vocab + 31) // 32 * 32) < 0.5, bitorder="little").view("<u4")
            mask[0] |= 1
        legal = source.choice([0, vocab // 2 + 1])
        penalty = sampling.repetition_penalty
        try:
            wanted = choose(logits, sampling, number, seen if penalty != 1.0 else None, mask, legal)[0]
        except ModelError:
            wanted = vocab
        plan = library.Segment(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            min_p_log=np.log(sampling.min_p) if sampling.min_p else -np.inf,
            penalty=penalty,
            top_k=sampling.top_k,
            seed=sampling.seed,
            legal=legal or vocab,
            logits=logits.ctypes.data,
            seen=seen.ctypes.data if penalty != 1.0 else None,
        )
        words = (None, 0) if mask is None else (mask.ctypes.data, len(mask))
        assert c.kog_draw(ctypes.byref(plan), vocab, number, *words) == wanted, (seed, number)


def test_a_grammar_that_allows_nothing_the_model_may_say_is_an_error(backend: NativeBackend) -> None:
    grammar = compile_choices(["éa", "éb"], VOCABULARIES["bytes"])
    plan = DecodePlan(SamplingParams(), frozenset(), 5, (), grammar.start(), False, 60)
    kv = backend.open_kv(20)
    with pytest.raises(ModelError, match="no id is legal"):
        finish(backend.decode(kv, [1, 2], plan))
    assert kv.length == 2


@pytest.mark.parametrize(("patient", "wanted"), [(False, [4, 8, 16, 32, 32]), (True, [50] * 5)])
def test_a_patient_reader_s_segment_is_interrupted_less(
    backend: NativeBackend, monkeypatch: pytest.MonkeyPatch, patient: bool, wanted: list[int]
) -> None:
    asked: list[int] = []
    plan = DecodePlan(SamplingParams(), frozenset(), 100, patient=patient)
    decode = backend.decode(backend.open_kv(300), [3], plan)

    def run(_kv: KV, _begin: int, segment: library.Segment) -> int:
        asked.append(round(segment.seconds * 1e3))
        return library.GOES_ON

    monkeypatch.setattr(backend, "run_segment", run)
    for _ in wanted:
        decode.wait(0.1)
    assert asked == wanted
