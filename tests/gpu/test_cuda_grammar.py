"""The grammar on a card: the kernel's segments against the host's, forced runs, draws under a mask."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from grammar_schemas import random_schema

from kogagent.engine.backend import DecodePlan, Emitted, TokenMatcher
from kogagent.engine.backends.arrangement import kernel_steps, wide_layout
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.backends.cuda_segment import forced_ids
from kogagent.engine.backends.device_grammar import ANSWER_RUN, FREE, DeviceGrammar
from kogagent.engine.grammar import Bounds, Grammar, compile_regex, compile_schema, compile_turn
from kogagent.engine.grammar.matcher import Matcher
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import random_tensors
from kogagent.errors import ModelError, SchemaError
from kogagent.kernels.layout import plan as plan_layout
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.segment import GrammarPlace, Reason, Segment, Token
from kogagent.spec import ModelSpec, Vocabulary

TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3},
        },
        "required": ["city", "unit"],
    },
    "ping": {"type": "object", "properties": {}},
}
RUNS = {Reason.ASKED: Reason.RUNNING}
WORDS = (
    '{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius", "days": 3, "tags": ["a"]}} '
    '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call> fahrenheit true false null kind the of'
)


def made_vocabulary(size: int = 700) -> Vocabulary:
    """A byte-level BPE trained on what calls are made of, an end id behind it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    rand = random.Random(3)
    words = WORDS.split(" ")
    lines = [WORDS] * 40 + [" ".join(rand.choice(words) for _ in range(12)) for _ in range(400)]
    tokenizer.train_from_iterator(lines, trainer)
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(b): b for b in shown}
    alphabet |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}
    count = tokenizer.get_vocab_size()
    tokens = [bytes(alphabet[c] for c in tokenizer.id_to_token(i)) for i in range(count)]

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return Vocabulary((*tokens, b"<end>"), frozenset({count}), (count,), encode)


SPEC = ModelSpec(
    name="grammar",
    vocab_size=1003,
    dim=384,
    n_layers=3,
    n_heads=32,
    n_kv_heads=16,
    head_dim=96,
    ffn_dim=1536,
    context=512,
    lanes=8,
    delay=2,
    windows=(40, 0, 0),
)
PLAIN = replace(SPEC, name="plain", lanes=1, delay=0, n_heads=8, n_kv_heads=4, head_dim=64)
BUILDS = [(SPEC, (0,), False), (PLAIN, (0,), False)]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return made_vocabulary()


@pytest.fixture(scope="module")
def backends() -> Iterator[dict[str, CudaBackend]]:
    yield {
        spec.name: CudaBackend(spec, {n: t.half() for n, t in random_tensors(spec, 11).items()})
        for spec in (SPEC, PLAIN)
    }


class OnHost:
    """A matcher that the device does not know."""

    def __init__(self, matcher: TokenMatcher) -> None:
        self._matcher = matcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)


def decode(
    backend: CudaBackend,
    ids: Sequence[int],
    grammar: Grammar,
    *,
    host: bool,
    capacity: int = 512,
    limit: int = 200,
    stop: frozenset[int] = frozenset(),
    **sampling: Any,
) -> tuple[list[Emitted], str | None]:
    matcher: Any = OnHost(grammar.start()) if host else grammar.start()
    plan = DecodePlan(
        SamplingParams(**sampling), stop, limit, history=tuple(ids), matcher=matcher, legal_ids=1000
    )
    kv = backend.open_kv(capacity)
    segment = backend.decode(kv, ids, plan)
    assert segment.resident
    out: list[Emitted] = []
    while segment.reason is None:
        segment.wait(5.0)
        out += segment.drain_nowait()
    out += segment.drain_nowait()
    return out, segment.reason


def grammars(vocabulary: Vocabulary, rand: random.Random, count: int) -> Iterator[Grammar]:
    yield compile_turn(TOOLS, vocabulary, tool_choice="required", max_calls=2, bounds=Bounds(string=10))
    yield compile_turn(TOOLS, vocabulary, bounds=Bounds(string=10))
    yield compile_regex(r"[a-c]{2,5}(celsius|fahrenheit)[0-9]{3}", vocabulary)
    while count:
        try:
            yield compile_schema(random_schema(rand), vocabulary, bounds=Bounds(string=20))
        except SchemaError:
            continue
        count -= 1


@pytest.mark.parametrize("name", ["grammar", "plain"])
def test_the_kernel_writes_what_the_hosts_matcher_makes_it_write(
    name: str, backends: dict[str, CudaBackend], vocabulary: Vocabulary, rng: np.random.Generator
) -> None:
    backend, rand = backends[name], random.Random(int(rng.integers(2**32)))
    forced = total = 0
    for grammar in grammars(vocabulary, rand, 25):
        ids = rng.integers(0, 1000, rand.choice([1, 2, 5, 30])).tolist()
        sampling: dict[str, Any] = rand.choice(
            [
                {},
                {"temperature": 1.0},
                {"temperature": 1.5, "top_k": 20, "top_p": 0.9},
                {"temperature": 0.7, "repetition_penalty": 1.3},
            ]
        )
        sampling |= {"seed": int(rng.integers(2**40))} if sampling else {}
        limit = rand.choice([3, 40, 200])
        stop = frozenset(rng.integers(0, 1000, 3).tolist()) if rand.random() < 0.3 else frozenset[int]()
        capacity = len(ids) + rand.choice([2, 30, 300])
        want = decode(backend, ids, grammar, host=True, capacity=capacity, limit=limit, stop=stop, **sampling)
        for _ in range(2):  # where runs are unknown, and where they are known
            got = decode(
                backend, ids, grammar, host=False, capacity=capacity, limit=limit, stop=stop, **sampling
            )
            assert [(e.id, e.forced) for e in got[0]] == [(e.id, e.forced) for e in want[0]]
            assert [e.logprob for e in got[0]] == [e.logprob for e in want[0]]
            assert got[1] == want[1]
        forced += sum(e.forced for e in want[0])
        total += len(want[0])
    assert forced > total // 10


def pair(spec: ModelSpec, wide: bool) -> tuple[Monokernel, torch.Tensor]:
    tensors = {n: t.half().cuda() for n, t in random_tensors(spec, 5).items()}
    steps, one_stream = kernel_steps(spec)
    card: Any = torch.cuda.get_device_properties(0)
    sms, shared = card.multi_processor_count, card.shared_memory_per_block_optin
    layout = plan_layout(spec, sms, shared, one_stream=one_stream)
    other = wide_layout(spec, sms, shared, one_stream=one_stream) if wide else None
    shape = (spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim)
    kv = torch.full(shape, float("nan"), dtype=torch.float16, device="cuda")
    return Monokernel(layout, tensors, steps, wide=other), kv


class Placed:
    """A grammar put on the card by hand."""

    def __init__(self, grammar: Grammar) -> None:
        from kogagent.engine.backends.grammar_memory import Grammars

        memory = Grammars([torch.device("cuda", 0)]).find(grammar.start())
        assert memory is not None
        self.memory, self.device = memory, memory.grammar

    def learn_all(self, ids: Sequence[int]) -> None:
        matcher = self.device.grammar.start()
        for token in ids:
            matcher.advance(token)
            if not matcher.finished:
                self.device.learn(matcher)

    def at(self, matcher: Matcher) -> GrammarPlace:
        return self.memory.place(matcher)


def finish(kernel: Monokernel) -> list[Token]:
    out: list[Token] = []
    while kernel.busy:
        out += kernel.drain()
    return out


@pytest.mark.parametrize("spec", [SPEC, PLAIN], ids=lambda spec: spec.name)
def test_a_forced_run_in_wide_steps_equals_steps_of_one_row(
    spec: ModelSpec, vocabulary: Vocabulary, backends: dict[str, CudaBackend], rng: np.random.Generator
) -> None:
    grammar = compile_turn(TOOLS, vocabulary, tool_choice="required", bounds=Bounds(string=10))
    matcher = grammar.start()
    opening = matcher.forced()
    assert len(opening) > 3
    for token in opening:
        matcher.advance(token)
    segment = Segment(
        [7, *opening], 0, max_tokens=120, temperature=1.2, seed=int(rng.integers(2**40)), legal_ids=1000
    )
    known, _ = decode(
        backends[spec.name], [7], grammar, host=True, temperature=1.2, seed=segment.seed, limit=140
    )
    placed = Placed(grammar)
    results, caches = [], []
    for wide in (False, True):
        kernel, kv = pair(spec, wide)
        if wide:
            assert kernel.width in (4, 8)
        tokens = finish_with(kernel, segment, placed, matcher, kv)
        if not wide:  # half of the runs are asked for, the other half are known by then
            placed.learn_all([*opening, *(t.id for t in tokens[: len(tokens) // 2])])
            assert [t.id for t in finish_with(kernel, segment, placed, matcher, kv)] == [t.id for t in tokens]
        results.append([replace(t, reason=RUNS.get(t.reason, t.reason)) for t in tokens])
        caches.append(kv[:, :, :, : len(segment.pending) + len(tokens) - 1])
    assert any(t.forced for t in results[0]) and len(results[0]) > 10
    assert results[0] == results[1]
    # bits, since a run that ends the turn need not be stored: its places keep what they held in both
    assert torch.equal(caches[0].view(torch.int16), caches[1].view(torch.int16))
    drawn = max(i for i, t in enumerate(results[0]) if not t.forced)
    assert not caches[0][:, :, :, : len(segment.pending) + drawn].isnan().any()
    assert known


def finish_with(
    kernel: Monokernel, segment: Segment, placed: Placed, matcher: Matcher, kv: torch.Tensor
) -> list[Token]:
    kernel.launch(replace(segment, grammar=placed.at(matcher.fork())), kv)
    out: list[Token] = []
    walk = matcher.fork()
    while kernel.busy:
        for token in kernel.drain():
            out.append(token)
            walk.advance(token.id)
            if token.reason is Reason.ASKED:
                ids, last = forced_ids(walk.fork())
                kernel.answer(ANSWER_RUN if ids else FREE, ids, last=last)
    return out


def test_draws_under_a_mask_have_the_models_probabilities(
    vocabulary: Vocabulary, rng: np.random.Generator
) -> None:
    """Chi-square over many seeds, against the softmax of the legal logits."""
    grammar = compile_regex(r"[ -~]{40}", vocabulary)
    kernel, kv = pair(PLAIN, True)
    placed, matcher = Placed(grammar), grammar.start()
    place = placed.at(matcher)
    finish_logits = Segment([3], 0, temperature=1.0, legal_ids=1000, grammar=place)
    kernel.launch(finish_logits, kv, logits=True)
    finish(kernel)
    logits = kernel.logits().astype(np.float64)
    bits = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
    legal = np.zeros(logits.size, np.bool_)
    legal[: min(bits.size, 1000)] = bits[: min(logits.size, 1000)]
    weight = np.where(legal, np.exp(logits - logits[legal].max()), 0.0)
    wanted = weight / weight.sum()
    draws = 8000
    counts = np.zeros(logits.size)
    first = int(rng.integers(2**40))
    for seed in range(first, first + draws):
        kernel.launch(replace(finish_logits, seed=seed), kv)
        (token,) = finish(kernel)
        counts[token.id] += 1
    assert counts[~legal].sum() == 0
    expected = wanted * draws
    often = expected >= 5
    rest = [counts[~often].sum() - expected[~often].sum()]
    chi = float((((counts - expected) ** 2)[often] / expected[often]).sum())
    if expected[~often].sum() >= 5:
        chi += rest[0] ** 2 / expected[~often].sum()
    freedom = int(often.sum())
    assert abs(chi - freedom) < 6 * np.sqrt(2 * freedom), f"chi-square {chi:.1f} of {freedom}"


def test_a_grammar_segment_stops_when_asked_and_starts_again(
    backends: dict[str, CudaBackend], vocabulary: Vocabulary
) -> None:
    backend = backends["plain"]
    grammar = compile_schema({"type": "array", "items": {"enum": ["celsius", "fahrenheit"]}}, vocabulary)
    ids = [5, 6]
    whole, _ = decode(backend, ids, grammar, host=True, temperature=1.0, seed=4)
    kv = backend.open_kv(512)
    matcher = grammar.start()
    out: list[Emitted] = []
    for _ in range(40):
        pending = [*ids, *(e.id for e in out)][kv.length :]
        plan = DecodePlan(
            SamplingParams(temperature=1.0, seed=4), frozenset(), 200, matcher=matcher.fork(), legal_ids=1000
        )
        segment = backend.decode(kv, pending, plan)
        segment.wait(1.0)
        segment.stop()
        fresh: list[Emitted] = []
        while segment.reason is None:
            segment.wait(1.0)
        fresh += segment.drain_nowait()
        for emitted in fresh:
            matcher.advance(emitted.id)
        out += fresh
        assert kv.length + len([*ids, *(e.id for e in out)][kv.length :]) == len(ids) + len(out)
        if segment.reason != "cancelled":
            break
    assert [e.id for e in out] == [e.id for e in whole][: len(out)]


def test_nan_under_a_grammar_is_an_error(vocabulary: Vocabulary) -> None:
    backend = CudaBackend(PLAIN, {n: t.half() for n, t in random_tensors(PLAIN, 2).items()})
    backend.kernel()._tape.view(torch.int16)[:] = 0x7E00
    grammar = compile_turn(TOOLS, vocabulary, tool_choice="required")
    # a greedy first id would be pre-fill's, which has weights of its own
    with pytest.raises(ModelError, match="NaN"):
        decode(backend, [1], grammar, host=False, temperature=1.0)


def test_a_grammar_too_deep_for_the_device_is_matched_by_the_host(
    backends: dict[str, CudaBackend], vocabulary: Vocabulary
) -> None:
    from kogagent.engine.grammar import compile_ebnf

    grammar = compile_ebnf('start: "(" start? ")"', vocabulary, depth=30)
    with pytest.raises(SchemaError, match="deep"):
        DeviceGrammar(grammar)
    out, _ = decode(backends["plain"], [1], grammar, host=False, limit=40)
    walk = grammar.start()
    for emitted in out:
        walk.advance(emitted.id)


def test_a_grammar_on_llguidance_guides_the_kernel(
    backends: dict[str, CudaBackend], vocabulary: Vocabulary, rng: np.random.Generator
) -> None:
    """Its masks come while the passes stream; a slow host is waited for."""
    pytest.importorskip("llguidance")
    names = {"anyOf": [{"const": "celsius"}, {"const": "fahrenheit"}]}
    pairs = [{"items": names, "maxItems": 2}, {"items": {"type": "integer", "maximum": 9}, "maxItems": 3}]
    grammar: Any = compile_schema({"anyOf": pairs}, vocabulary, fallback=True)
    assert not isinstance(grammar, Grammar)
    for _ in range(6):
        out, reason = decode(
            backends["plain"],
            rng.integers(0, 1000, 20).tolist(),
            grammar,
            host=False,
            temperature=1.0,
            seed=int(rng.integers(2**40)),
        )
        assert reason == "grammar"
        text = b"".join(vocabulary.tokens[e.id] for e in out if e.id not in vocabulary.end_ids)
        value = json.loads(text)
        assert all(v in ("celsius", "fahrenheit") or isinstance(v, int) for v in value)
