"""Turns: when a call starts, what may stand around it, and how many there may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grammar_vocabularies import byte_vocabulary, smollm

from kogagent.engine.grammar import Grammar, compile_turn
from kogagent.errors import InputError, ModelError, SchemaError
from kogagent.spec import HERMES, SMOLLM2, CallFormat, Vocabulary

PLAIN = byte_vocabulary()
TAGGED = byte_vocabulary(b"<tool_call>", b"</tool_call>")
TOOLS: dict[str, Any] = {
    "ping": {"type": "object"},
    "add": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
CALL = '{"name": "add", "arguments": {"a": 1, "b": 22}}'


def taken(grammar: Grammar, text: str, vocabulary: Vocabulary) -> int:
    """How many characters (special names as one) are legal from the start; all of them: the text's length."""
    names = {vocabulary.tokens[i]: i for i in vocabulary.special}
    matcher, data, at = grammar.start(), text.encode(), 0
    while at < len(data):
        name = next((n for n in names if data.startswith(n, at)), None)
        token = names[name] if name else data[at]
        if not matcher.mask()[token // 32] >> (token % 32) & 1:
            return at
        matcher.advance(token)
        at += len(name) if name else 1
    return len(data)


def whole(grammar: Grammar, text: str, vocabulary: Vocabulary = PLAIN) -> bool:
    return taken(grammar, text + "<end>", vocabulary) == len((text + "<end>").encode())


@pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["bytes", "special ids"])
@pytest.mark.parametrize("form", [HERMES, SMOLLM2], ids=lambda form: form.name)
def test_text_then_calls_then_an_end(form: CallFormat, vocabulary: Vocabulary) -> None:
    grammar = compile_turn(TOOLS, vocabulary, form)
    one = form.begin + CALL + form.end
    two = form.begin + CALL + form.between + '{"name": "ping", "arguments": {}}' + form.end
    for text in ("", "Just text. 日本 😊", one, "First this.\n" + one, two):
        assert whole(grammar, text, vocabulary), text
    for text in (form.begin + CALL, one + " more", form.begin, one + one, form.begin + form.end):
        assert not whole(grammar, text, vocabulary), text


def test_the_trigger_is_the_exact_tag_and_not_a_longer_word() -> None:
    grammar = compile_turn(TOOLS, PLAIN)
    for text in ("<tool_calls are fun> and <tool_call", "<tool_callx>", "< tool_call>", "<<tool_cal>"):
        assert whole(grammar, text), text
    assert whole(grammar, "<<tool_call>\n" + CALL + "\n</tool_call>")
    assert taken(grammar, "a <tool_call> b", PLAIN) == len("a <tool_call>")


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_inside_a_code_fence_the_trigger_is_text(fence: str) -> None:
    grammar = compile_turn(TOOLS, PLAIN)
    block = f"{fence}xml\n<tool_call> in a fence\n{fence}\n"
    assert whole(grammar, block + "done")
    assert whole(grammar, "text\n  " + block + "<tool_call>\n" + CALL + "\n</tool_call>")
    assert not whole(grammar, f"not a fence {fence}\n<tool_call> x")


def test_where_the_trigger_is_a_special_id_its_spelled_name_is_text() -> None:
    grammar = compile_turn(TOOLS, TAGGED)
    matcher = grammar.start()
    for byte in b"<tool_call> is a tag":
        matcher.advance(byte)
    matcher.advance(257)
    assert matcher.forced() == (10,)
    for byte in b"\n" + CALL.encode() + b"\n":
        matcher.advance(byte)
    matcher.advance(258)
    matcher.advance(256)
    assert matcher.finished


def test_a_call_that_starts_across_token_borders_is_seen() -> None:
    vocabulary, _ = smollm()
    assert vocabulary.encode is not None
    grammar = compile_turn(TOOLS, vocabulary)
    for pieces in (
        [*"so <", "tool", "_", "call", ">"],
        [*"x <tool_call>"],
        ["<", *"tool", "_", *"call", ">"],
    ):
        matcher = grammar.start()
        for piece in pieces:
            matcher.advance(vocabulary.tokens.index(piece.encode()))
        assert vocabulary.decode(matcher.forced()).startswith(b'\n{"name":')


def test_no_more_calls_than_the_limit_and_the_last_one_still_ends() -> None:
    grammar = compile_turn(TOOLS, PLAIN, max_calls=3)
    calls = [CALL] * 4
    assert whole(grammar, HERMES.begin + HERMES.between.join(calls[:3]) + HERMES.end)
    assert not whole(grammar, HERMES.begin + HERMES.between.join(calls) + HERMES.end)
    matcher = grammar.start()
    for byte in (HERMES.begin + HERMES.between.join(calls[:3])).encode():
        matcher.advance(byte)
    rest = bytearray()
    while not matcher.finished:
        (token,) = matcher.forced()
        rest += bytes([token]) if token < 256 else b"<end>"
        matcher.advance(token)
    assert rest.decode() == HERMES.end + "<end>"


def test_tool_choice_decides_what_a_turn_may_be() -> None:
    call = HERMES.begin + CALL + HERMES.end
    ping = HERMES.begin + '{"name": "ping", "arguments": {}}' + HERMES.end
    none = compile_turn(TOOLS, PLAIN, tool_choice="none")
    assert whole(none, "text") and not whole(none, call) and not whole(none, "x <tool_call> y")
    required = compile_turn(TOOLS, PLAIN, tool_choice="required")
    assert whole(required, call) and whole(required, ping) and taken(required, "text", PLAIN) == 0
    lead = compile_turn(TOOLS, PLAIN, tool_choice="required", lead_text=True)
    assert whole(lead, "I think. " + call) and not whole(lead, "I think. ")
    one = compile_turn(TOOLS, PLAIN, tool_choice="ping")
    assert whole(one, ping) and not whole(one, call)
    with pytest.raises(InputError, match="tool_choice 'pong' names no tool; there are add, ping"):
        compile_turn(TOOLS, PLAIN, tool_choice="pong")
    with pytest.raises(InputError, match="needs at least one tool"):
        compile_turn({}, PLAIN, tool_choice="required")


def test_an_output_schema_allows_its_json_or_a_call() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    grammar = compile_turn(TOOLS, PLAIN, output_schema=schema)
    assert whole(grammar, '{"answer": 4}') and whole(grammar, HERMES.begin + CALL + HERMES.end)
    assert taken(grammar, "text", PLAIN) == 0
    alone = compile_turn({}, PLAIN, output_schema=schema)
    assert whole(alone, '{"answer": 4}') and not whole(alone, HERMES.begin)


def test_every_end_id_is_legal_where_the_text_is_complete_and_nowhere_else(rng: np.random.Generator) -> None:
    tokens = (*(bytes([i]) for i in range(256)), b"<end>", b"<eot>", b"<pad>")
    vocabulary = Vocabulary(tokens, frozenset({256, 257, 258}), (256, 257))
    grammar = compile_turn(TOOLS, vocabulary)
    matcher = grammar.start()
    text = "日本 ok".encode()
    for at in range(len(text) + 1):
        flags = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
        inside = at < len(text) and 0x80 <= text[at] < 0xC0
        assert flags[256] == flags[257] == (not inside)
        assert flags[258:].sum() == 0
        if at < len(text):
            matcher.advance(text[at])
    for end in (256, 257):
        other = matcher.fork()
        other.advance(end)
        assert other.finished and not other.mask().any()


def test_an_illegal_id_is_refused_and_leaves_the_walk_where_it_was() -> None:
    matcher = compile_turn(TOOLS, PLAIN, tool_choice="add").start()
    for token in (0xFF, 256, 999, -1):
        with pytest.raises(ModelError, match="not legal here"):
            matcher.advance(token)
    for byte in (HERMES.begin + CALL).encode():
        matcher.advance(byte)


def test_names_are_any_json_string_and_must_differ() -> None:
    names = ['say "hi"', "größe", "a", "ab", "a b/c"]
    grammar = compile_turn({name: {"type": "object"} for name in names}, PLAIN)
    for text in ('say \\"hi\\"', "größe", "a", "ab", "a b/c"):
        assert whole(grammar, HERMES.begin + '{"name": "' + text + '", "arguments": {}}' + HERMES.end), text
    with pytest.raises(SchemaError, match="lone surrogate"):
        compile_turn({"\ud800": {"type": "object"}}, PLAIN)
    with pytest.raises(SchemaError, match="non-empty"):
        compile_turn({"": {"type": "object"}}, PLAIN)


def test_equal_inputs_share_one_compiled_grammar_and_order_of_properties_matters() -> None:
    first = compile_turn(TOOLS, PLAIN)
    assert compile_turn(dict(TOOLS), PLAIN) is first
    turned = {
        "type": "object",
        "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}},
        "required": ["a"],
    }
    other = compile_turn({**TOOLS, "add": turned}, PLAIN)
    assert other is not first and other.digest != first.digest
    assert compile_turn(TOOLS, TAGGED).digest != first.digest
