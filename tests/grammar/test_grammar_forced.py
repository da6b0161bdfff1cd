"""Forced runs: what they force is what the tokenizer writes, and taking them never changes the text."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from grammar_schemas import random_schema, random_walk
from grammar_vocabularies import byte_vocabulary, ids_of, qwen_like, smollm

from kogagent.chat.formats import FORMATS
from kogagent.engine.grammar import Bounds, Grammar, compile_schema, compile_turn
from kogagent.errors import SchemaError
from kogagent.spec import HERMES, SMOLLM2, CallFormat, Vocabulary

TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "unit": {"enum": ["celsius", "fahrenheit", 'the "other"', "größe"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "tags": {"type": "array", "items": {"type": "string"}},
            "near": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
        },
        "required": ["location", "unit"],
    },
    "ping": {"type": "object", "properties": {}},
    "get_time": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
}

VOCABULARIES: list[Callable[[], tuple[Vocabulary, Any]]] = [smollm, qwen_like]


def follow(grammar: Grammar, vocabulary: Vocabulary, ids: list[int]) -> int:
    """Walk a canonical text; every forced run must be what comes next. Counts the forced ids."""
    matcher = grammar.start()
    forced = at = 0
    while at < len(ids):
        run = matcher.forced()
        if run:
            wanted = tuple(ids[at : at + len(run)])
            assert run == wanted, [
                vocabulary.decode(run),
                vocabulary.decode(wanted),
                vocabulary.decode(ids[:at]),
            ]
            for token in run:
                matcher.advance(token)
            forced += len(run)
            at += len(run)
            continue
        mask = matcher.mask()
        assert mask[ids[at] // 32] >> (ids[at] % 32) & 1, (
            vocabulary.decode(ids[:at]),
            vocabulary.tokens[ids[at]],
        )
        matcher.advance(ids[at])
        at += 1
    assert matcher.finished
    return forced


@pytest.mark.parametrize("source", VOCABULARIES)
def test_forced_runs_are_what_the_tokenizer_writes_for_any_continuation(
    source: Callable[[], tuple[Vocabulary, Any]], rng: np.random.Generator
) -> None:
    vocabulary, _ = source()
    assert vocabulary.encode is not None
    rand = random.Random(int(rng.integers(2**32)))
    texts = forced = tokens = 0
    while texts < 36:
        schema = random_schema(rand)
        try:
            grammar = compile_schema(schema, vocabulary, bounds=Bounds(string=40))
        except SchemaError:
            continue
        text = random_walk(grammar.automaton, rand, patience=rand.choice([0, 40])).decode()
        ids = list(vocabulary.encode(text))
        if vocabulary.decode(ids).decode() != text:
            continue  # the tokenizer normalises this text: it cannot be written canonically at all
        texts += 1
        forced += follow(grammar, vocabulary, [*ids, vocabulary.end_ids[0]])
        tokens += len(ids) + 1
    assert forced > tokens // 20


@pytest.mark.parametrize("source", VOCABULARIES)
@pytest.mark.parametrize("form", [HERMES, SMOLLM2], ids=lambda form: form.name)
def test_forced_runs_of_whole_turns_are_canonical(
    source: Callable[[], tuple[Vocabulary, Any]], form: CallFormat, rng: np.random.Generator
) -> None:
    vocabulary, _ = source()
    rand = random.Random(int(rng.integers(2**32)))
    grammar = compile_turn(TOOLS, vocabulary, form)
    arguments = {
        n: compile_schema(s, vocabulary, bounds=Bounds(string=30)).automaton for n, s in TOOLS.items()
    }
    end = vocabulary.tokens[vocabulary.end_ids[0]].decode()
    forced = tokens = 0
    for _ in range(60):
        names = [rand.choice(list(TOOLS)) for _ in range(rand.randint(1, 3))]
        calls = []
        for name in names:
            text = random_walk(arguments[name], rand, patience=30).decode()
            ids = list(vocabulary.encode(text)) if vocabulary.encode else []
            if vocabulary.decode(ids).decode() != text:
                text = json.dumps({"location": "Oslo", "unit": "celsius"}) if name == "get_weather" else "{}"
                text = '{"zone": "CET"}' if name == "get_time" else text
            calls.append(form.prefix + name + form.middle + text + form.suffix)
        lead = rand.choice(["", "Let me look.\n", "```\ncode\n```\n", "1 < 2 "])
        turn = lead + form.begin + form.between.join(calls) + form.end + end
        ids = ids_of(vocabulary, turn)
        forced += follow(grammar, vocabulary, ids)
        tokens += len(ids)
    assert forced > tokens // 4


class PseudoModel:
    """Logits that depend on the ids so far, in no sensible way."""

    def __init__(self, size: int, salt: bytes) -> None:
        self.size, self.salt = size, salt

    def logits(self, ids: list[int]) -> Any:
        digest = hashlib.sha256(self.salt + np.array(ids, np.int64).tobytes()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(self.size)


def decode(grammar: Grammar, model: PseudoModel, *, force: bool, limit: int) -> tuple[list[int], int]:
    ids: list[int] = []
    matcher, steps = grammar.start(), 0
    while not matcher.finished and len(ids) < limit:
        run = matcher.forced() if force else ()
        if not run:
            logits = model.logits(ids)
            legal = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[: model.size]
            run = (int(np.where(legal, logits, -np.inf).argmax()),)
            steps += 1
        for token in run:
            matcher.advance(token)
            ids.append(token)
    return ids, steps


@pytest.mark.parametrize(
    ("source", "form"),
    [(smollm, form) for form in FORMATS] + [(qwen_like, HERMES)],
    ids=lambda part: getattr(part, "name", getattr(part, "__name__", "")),
)
def test_greedy_text_is_the_same_with_and_without_forced_runs(
    source: Callable[[], tuple[Vocabulary, Any]], form: CallFormat, rng: np.random.Generator
) -> None:
    vocabulary, _ = source()
    small = Bounds(string=12, items=3)
    grammar = compile_turn(TOOLS, vocabulary, form, tool_choice="required", max_calls=2, bounds=small)
    saved = 0
    for _ in range(2):
        model = PseudoModel(len(vocabulary), rng.bytes(8))
        free, free_steps = decode(grammar, model, force=False, limit=250)
        forced, forced_steps = decode(grammar, model, force=True, limit=250)
        assert free == forced[: len(free)] and len(forced) >= len(free)
        saved += free_steps - forced_steps
    assert saved > 0


def test_without_a_tokenizer_only_a_single_legal_id_is_forced() -> None:
    vocabulary = byte_vocabulary()
    grammar = compile_schema({"const": {"a": [True, "x"]}}, vocabulary)
    matcher, text = grammar.start(), b""
    while not matcher.finished:
        (token,) = matcher.forced()
        text += vocabulary.tokens[token] if token != 256 else b""
        matcher.advance(token)
    assert text == b'{"a": [true, "x"]}'


def test_an_end_id_alone_is_part_of_the_run_and_ends_the_walk() -> None:
    vocabulary, _ = smollm()
    grammar = compile_schema({"const": "done"}, vocabulary)
    matcher = grammar.start()
    run = matcher.forced()
    assert vocabulary.decode(run) == b'"done"' and run[-1] == vocabulary.end_ids[0]
    for token in run:
        matcher.advance(token)
    assert matcher.finished and matcher.forced() == () and not matcher.mask().any()


def test_a_fork_walks_on_its_own() -> None:
    vocabulary, _ = smollm()
    grammar = compile_turn(TOOLS, vocabulary, tool_choice="ping", max_calls=1)
    matcher = grammar.start()
    first = matcher.forced()
    matcher.advance(first[0])
    fork = matcher.fork()
    assert fork.forced() == matcher.forced() == first[1:]
    for token in fork.forced():
        fork.advance(token)
    assert fork.finished and not matcher.finished
