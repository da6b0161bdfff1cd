"""What the automaton cannot hold, held by llguidance: the same protocol, nothing loosened, end to end."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from grammar_vocabularies import byte_vocabulary, qwen_like, smollm

from kogagent.chat import TurnParser
from kogagent.engine.grammar import FallbackGrammar, Grammar, compile_schema, compile_turn
from kogagent.engine.grammar.keywords import CARRIED, KEYWORDS
from kogagent.errors import MissingExtraError, ModelError, SchemaError
from kogagent.spec import HERMES, QWEN3_CODER, SMOLLM2, CallFormat, Vocabulary
from kogagent.types import PlanDelta

PLAIN = byte_vocabulary()
TAGGED = byte_vocabulary(b"<tool_call>", b"</tool_call>", b"<think>", b"</think>")
BOTH = pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["bytes", "special ids"])

BEYOND: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "different bounds": (
        {
            "anyOf": [
                {"items": {"type": "integer"}, "maxItems": 2},
                {"items": {"type": "string"}, "maxItems": 3},
            ]
        },
        [[], [1, 2], ["a", "b", "c"]],
        [[1, 2, 3], ["a"] * 4, [1, "a"]],
    ),
    "multipleOf": ({"type": "integer", "multipleOf": 4999}, [0, 4999, 9998], [1, 5000]),
    "pattern": (
        {"type": "string", "pattern": "^(a|b)*a(a|b){14}$"},
        ["a" * 15, "b" + "a" + "b" * 14],
        ["b" * 15, "a" * 14, "ab", "c" * 15],
    ),
}
PAIRS = {
    "anyOf": [
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 2},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    ]
}
REFUSED: Any = {"type": "object", "properties": {"n": PAIRS}, "required": ["n"]}
TOOLS: dict[str, Any] = {"odd": REFUSED, "ping": {"type": "object"}}


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    names = {vocabulary.tokens[i]: i for i in vocabulary.special}
    data, out, at = text.encode(), [], 0
    while at < len(data):
        name = next((n for n in names if data.startswith(n, at)), data[at : at + 1])
        out.append(names.get(name, data[at]))
        at += len(name)
    return out


def whole(grammar: Any, text: str, vocabulary: Vocabulary = PLAIN) -> bool:
    matcher = grammar.start()
    for id in ids_of(text + "<end>", vocabulary):
        run, legal = matcher.forced(), bool(matcher.mask()[id // 32] >> (id % 32) & 1)
        assert not run or legal == (run[0] == id)
        if not legal:
            with pytest.raises(ModelError):
                matcher.advance(id)
            return False
        matcher.advance(id)
    return bool(matcher.finished)


@pytest.mark.parametrize("case", sorted(BEYOND))
def test_what_is_refused_here_is_held_there(case: str) -> None:
    schema, valid, invalid = BEYOND[case]
    with pytest.raises(SchemaError):
        compile_schema(schema, PLAIN)
    grammar = compile_schema(schema, PLAIN, fallback=True)
    assert isinstance(grammar, FallbackGrammar) and "llguidance" in grammar.notes[0]
    assert compile_schema(schema, PLAIN, fallback=True) is grammar
    for value in valid:
        assert whole(grammar, json.dumps(value)), value
    for value in invalid:
        assert not whole(grammar, json.dumps(value)), value


def test_what_the_automaton_holds_stays_with_it() -> None:
    assert isinstance(compile_schema({"type": "integer"}, PLAIN, fallback=True), Grammar)
    assert isinstance(compile_turn({"ping": {"type": "object"}}, PLAIN, fallback=True), Grammar)


@pytest.mark.parametrize("keyword", [k for k, (kind, _) in KEYWORDS.items() if kind != "annotation"])
def test_no_keyword_is_handed_over_that_is_not_enforced_there(keyword: str) -> None:
    """Beside something only the fallback can hold: refused with it too, unless the table says otherwise."""
    values: dict[str, Any] = {
        **dict.fromkeys(("type", "format", "pattern", "$ref", "$anchor"), "x"),
        **{word: [True] for word in ("anyOf", "oneOf", "allOf", "prefixItems", "enum")},
        **dict.fromkeys(("uniqueItems", "nullable"), True),
    }
    schema = {"allOf": [PAIRS, {keyword: values.get(keyword, 3)}]}
    if keyword in CARRIED:
        return
    with pytest.raises(SchemaError):
        compile_schema(schema, PLAIN, fallback=True)


@pytest.mark.parametrize(
    "more",
    [
        {"frob": 1},
        {"minimum": 10**20},
        {"contentEncoding": "base64", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"allOf": [{"items": {"type": "string", "format": "colour"}}]},
        {"minProperties": 2},
    ],
)
def test_what_llguidance_would_pass_over_is_refused(more: Any) -> None:
    with pytest.raises(SchemaError):
        compile_schema({**PAIRS, **more}, PLAIN, fallback=True)


def test_objects_are_closed_there_too_unless_others_hold_beside_them() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "null"}}}
    schema = {"type": "object", "properties": {"n": PAIRS, "o": inner}, "required": ["n"]}
    grammar = compile_schema(schema, PLAIN, fallback=True)
    assert whole(grammar, '{"n": [], "o": {"a": null}}')
    for text in ('{"n": [], "x": 1}', '{"n": [], "o": {"b": 1}}'):
        assert not whole(grammar, text), text
    both = {"allOf": [schema, {"type": "object", "properties": {"m": {"type": "null"}}}]}
    assert whole(compile_schema(both, PLAIN, fallback=True), '{"n": [], "m": null}')


@BOTH
@pytest.mark.parametrize("form", [HERMES, SMOLLM2], ids=lambda form: form.name)
def test_turns_start_and_end_as_ever(form: CallFormat, vocabulary: Vocabulary) -> None:
    def turn(*calls: tuple[str, str]) -> str:
        parts = [form.prefix + name + form.middle + args + form.suffix for name, args in calls]
        return form.begin + form.between.join(parts) + form.end

    odd, ping = ("odd", '{"n": [1, 22]}'), ("ping", "{}")
    auto = compile_turn(TOOLS, vocabulary, form, max_calls=2, fallback=True)
    assert isinstance(auto, FallbackGrammar)
    for text in (
        "",
        "Only text.",
        turn(odd),
        "First.\n" + turn(odd, ping),
        "```\n<tool_call>\n```\n" + turn(ping),
    ):
        if vocabulary is TAGGED and "```" in text:
            continue  # a special id inside a fence is no text
        assert whole(auto, text, vocabulary), text
    for text in (
        turn(odd, ping, ping),
        turn(("odd", '{"n": 5}')),
        turn(odd) + "x",
        turn(("ping", '{"a": 1}')),
    ):
        assert not whole(auto, text, vocabulary), text
    required = compile_turn(TOOLS, vocabulary, form, tool_choice="required", fallback=True)
    assert whole(required, turn(odd), vocabulary) and not whole(required, "text", vocabulary)
    named = compile_turn(TOOLS, vocabulary, form, tool_choice="odd", fallback=True)
    assert whole(named, turn(odd), vocabulary) and not whole(named, turn(ping), vocabulary)
    lead = compile_turn(TOOLS, vocabulary, form, tool_choice="required", lead_text=True, fallback=True)
    assert whole(lead, "Hm. " + turn(odd), vocabulary) and not whole(lead, "Hm. ", vocabulary)


def test_thoughts_come_first_there_too() -> None:
    form = replace(HERMES, think_begin="<think>", think_end="</think>", think_gap="\n\n")
    call = form.begin + form.prefix + "odd" + form.middle + '{"n": []}' + form.suffix + form.end
    for choice in ("auto", "required"):
        grammar = compile_turn(TOOLS, TAGGED, form, tool_choice=choice, fallback=True)
        assert whole(grammar, "<think>so</think>\n\n" + call, TAGGED) and whole(grammar, call, TAGGED)
    parser = TurnParser(form, TAGGED)
    events = [*parser.feed(ids_of("<think>so</think>\n\n" + call, TAGGED)), *parser.finish()]
    assert any(isinstance(event, PlanDelta) for event in events) and parser.calls[0].complete


def test_a_format_that_is_no_json_has_no_fallback() -> None:
    with pytest.raises(SchemaError, match="start alike"):
        compile_turn(TOOLS, PLAIN, QWEN3_CODER, fallback=True)


@pytest.mark.parametrize("source", [smollm, qwen_like])
def test_masks_and_forced_runs_agree_with_advance_on_a_real_vocabulary(
    source: Any, rng: np.random.Generator
) -> None:
    vocabulary, _ = source()
    grammar = compile_turn(TOOLS, vocabulary, tool_choice="odd", max_calls=2, fallback=True)
    for _ in range(3):
        matcher, forced = grammar.start(), 0
        ids: list[int] = []
        while not matcher.finished and len(ids) < 400:
            run = matcher.forced()
            flags = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[: len(vocabulary)]
            legal = np.flatnonzero(flags).tolist()
            assert legal and (not run or legal == [run[0]])
            wrong = next(i for i in rng.integers(len(vocabulary), size=200).tolist() if not flags[i])
            fork = matcher.fork()
            with pytest.raises(ModelError):
                fork.advance(wrong)
            forced += bool(run)
            ends = [i for i in legal if i in vocabulary.end_ids]
            id = run[0] if run else ends[0] if ends else int(rng.choice(legal))
            matcher.advance(id)
            ids.append(id)
        assert matcher.finished and forced > 5
        parser = TurnParser(HERMES, vocabulary)
        parser.feed(ids)
        parser.finish()
        for call in parser.calls:
            assert call.complete and len(json.loads(call.arguments)["n"]) <= 3


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"kogagent\[fallback\]"):
        compile_schema({"title": "no package", **PAIRS}, PLAIN, fallback=True)
