"""Faults users of other engines reported, each as the kind it is: `FAULTS` says where each is tested."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammar_schemas import random_walk
from grammar_vocabularies import byte_vocabulary, smollm

from kogagent.engine.grammar import Bounds, Grammar, compile_schema, compile_turn
from kogagent.engine.grammar.automaton import END, FINISHED
from kogagent.engine.grammar.tables import make_tables
from kogagent.errors import SchemaError
from kogagent.spec import Vocabulary

V = byte_vocabulary()

_HERE, _TURN, _PARSER = "grammar/test_grammar_reports", "grammar/test_grammar_turn", "text/test_turn_parser"
FAULTS: dict[str, list[tuple[str, str]]] = {
    "endless white space until the token limit": [(_HERE, "no_endless_whitespace")],
    "schema {}: endless digits": [(_HERE, "free_form_values_end_whatever_the_model_prefers")],
    "a pattern makes maxLength vanish": [
        (_HERE, "a_pattern_and_lengths_hold_together"),
        (_HERE, "a_pattern_that_no_length_allows_is_an_error_naming_both"),
    ],
    "a large maxLength makes masks slow": [(_HERE, "cost_does_not_grow_with_maxlength")],
    "a tool without parameters breaks all tools": [
        (_HERE, "a_tool_without_parameters_takes_the_empty_object_and_breaks_no_other")
    ],
    "100 KB of tools refused or slow": [
        (_HERE, "100_kilobytes_of_tools_compile"),
        (_HERE, "too_many_tools_are_an_error_that_names_the_limit"),
    ],
    "a bad pattern generates without constraint": [(_HERE, "a_bad_pattern_fails_before_any_token")],
    "a free-form object can only be {}": [(_HERE, "a_free_form_object_can_hold_something_and_ends")],
    "anyOf null or boolean accepts nulltrue": [(_HERE, "alternatives_never_run_into_each_other")],
    "8 optional properties blow up": [(_HERE, "optional_properties_cost_linearly")],
    "a backslash before any character": [(_HERE, "a_backslash_stands_only_before_an_escape")],
    "no escaped quote in strings": [(_HERE, "a_quote_can_be_written_in_strings_enums_and_names")],
    "a row of logits wider than the tokenizer": [
        (_HERE, "a_row_of_logits_wider_than_the_tokenizer_has_no_legal_padding"),
        ("engine/test_sampling", "legal_mask_reads_bits_and_stops_at_either_end"),
    ],
    "the last } lost in the stream": [
        (_PARSER, "events_do_not_depend_on_where_tokens_end"),
        (_PARSER, "a_batch_of_ids_gives_the_same_events_joined"),
        (_PARSER, "arguments_stream_and_join_to_exactly_their_text"),
    ],
    "empty arguments never streamed": [(_PARSER, "empty_arguments_are_one_delta_wherever_tokens_end")],
    "the trigger fires inside a word": [
        (_TURN, "the_trigger_is_the_exact_tag_and_not_a_longer_word"),
        (_TURN, "inside_a_code_fence_the_trigger_is_text"),
        (_PARSER, "what_looks_like_a_call_and_is_none_is_text"),
        (_PARSER, "no_call_starts_inside_a_code_fence"),
    ],
    "a second end token printed": [
        (_PARSER, "end_ids_are_never_shown_and_end_the_turn"),
        (_TURN, "every_end_id_is_legal_where_the_text_is_complete_and_nowhere_else"),
    ],
    "forcing changes the answer": [
        ("grammar/test_grammar_forced", "greedy_text_is_the_same_with_and_without_forced_runs"),
        ("grammar/test_grammar_forced", "forced_runs_of_whole_turns_are_canonical"),
    ],
    "an emoji split over two tokens": [
        ("test_token_text", "an_emoji_over_two_tokens_comes_with_the_second"),
        ("text/test_tokenizer", "no_code_point_is_split_wherever_ids_end"),
    ],
    "an array without maxItems runs to the limit": [
        (_HERE, "an_array_without_maxitems_has_a_bound_that_is_reported")
    ],
}
"""What users reported -> (module below tests/, test without `test_`)."""


def test_every_reported_fault_has_its_tests() -> None:
    root = Path(__file__).resolve().parents[1]
    for fault, places in FAULTS.items():
        for module, name in places:
            assert f"def test_{name}(" in (root / f"{module}.py").read_text(), (fault, name)


def accepts(grammar: Grammar, text: str | bytes) -> bool:
    state, frame = grammar.automaton.start, grammar.automaton.frames
    for symbol in (*(text.encode() if isinstance(text, str) else text), END):
        after = grammar.automaton.step(state, frame, symbol)
        if after is None:
            return False
        state, frame = after
    return state == FINISHED


def stubborn(grammar: Grammar, wish: bytes, limit: int) -> bytes:
    """The text of a model that takes the first legal of its wishes, else the lowest legal byte."""
    matcher, text = grammar.start(), bytearray()
    while not matcher.finished and len(text) < limit:
        flags = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
        token = next((b for b in wish if flags[b]), int(flags.argmax()))
        matcher.advance(token)
        if token < 256:
            text.append(token)
    assert matcher.finished, f"still writing after {limit} bytes: {bytes(text[-60:])!r}"
    return bytes(text)


@pytest.mark.parametrize("space", [b" ", b"\n", b"\t", b"\r"])
def test_no_endless_whitespace(space: bytes) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 9},
            "b": {"type": "array", "items": {}, "maxItems": 2},
        },
        "required": ["a", "b"],
    }
    text = stubborn(compile_schema(schema, V, bounds=Bounds(string=20)), space + b'"', 400)
    json.loads(text)
    assert not accepts(compile_schema({"type": "array", "items": {"type": "integer"}}, V), "[1,  2]")


@pytest.mark.parametrize("wish", [b"7", b"0", b"-9", b"1.5e", b"[", b"{", b'"a', b"t"])
@pytest.mark.parametrize("schema", [{}, {"type": "number"}, {"type": "object", "additionalProperties": True}])
def test_free_form_values_end_whatever_the_model_prefers(wish: bytes, schema: Any) -> None:
    small = Bounds(string=50, items=3, properties=3, key=8, depth=3, digits=17)
    text = stubborn(compile_schema(schema, V, bounds=small), wish, 60_000)
    assert json.loads(text) is not ...
    assert (
        max(
            (len(run) for run in "".join(c if c.isdigit() else " " for c in text.decode()).split()), default=0
        )
        <= 17
    )


@pytest.mark.parametrize(("low", "high"), [(None, 3), (2, None), (2, 3), (3, 3), (0, 100_000)])
def test_a_pattern_and_lengths_hold_together(low: int | None, high: int | None) -> None:
    schema: dict[str, Any] = {"type": "string", "pattern": "^[a-z]+$"}
    schema |= {"minLength": low} if low is not None else {}
    schema |= {"maxLength": high} if high is not None else {}
    grammar = compile_schema(schema, V)
    for n in range(1, 7):
        assert accepts(grammar, json.dumps("a" * n)) == ((low or 1) <= n <= (high or 10**6)), n
    assert not accepts(grammar, '"aB"')


def test_a_pattern_that_no_length_allows_is_an_error_naming_both() -> None:
    with pytest.raises(SchemaError, match="pattern with minLength 0 and maxLength 3") as caught:
        compile_schema({"type": "string", "pattern": "^.{5}$", "maxLength": 3}, V)
    assert caught.value.keyword == "pattern"


def test_cost_does_not_grow_with_maxlength() -> None:
    vocabulary, _ = smollm()
    assert vocabulary.encode is not None
    (quote,) = vocabulary.encode('"')
    letter = vocabulary.encode("word")[0]
    kept = []
    for most in (300, 100_000, 4_000_000_000):
        grammar = compile_schema({"type": "string", "maxLength": most, "pattern": "^[a-z]*$"}, vocabulary)
        matcher = grammar.start()
        matcher.advance(quote)
        for _ in range(50):
            matcher.mask()
            matcher.advance(letter)
        kept.append((len(grammar.automaton.rows), len(grammar._known)))
    assert kept[0] == kept[1] == kept[2]


def test_a_tool_without_parameters_takes_the_empty_object_and_breaks_no_other() -> None:
    add = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    bare: list[Any] = [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {},
        {"type": "object", "required": []},
    ]
    for ping in bare:
        grammar = compile_turn({"ping": ping, "add": add}, V, tool_choice="required", max_calls=1)
        call = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
        assert accepts(grammar, call % ("ping", "{}"))
        assert accepts(grammar, call % ("add", '{"a": 3}'))
        assert not accepts(grammar, call % ("ping", '{"a": 3}'))
        assert not accepts(grammar, call % ("add", "{}"))


def test_a_tool_that_only_says_what_becomes_of_the_rest_is_open() -> None:
    rest = {"type": "object", "unevaluatedProperties": {"type": "null"}}
    grammar = compile_turn({"note": rest}, V, tool_choice="required", max_calls=1)
    call = '<tool_call>\n{"name": "note", "arguments": %s}\n</tool_call>'
    assert accepts(grammar, call % "{}") and accepts(grammar, call % '{"x": null}')
    assert not accepts(grammar, call % '{"x": 1}')


def test_100_kilobytes_of_tools_compile() -> None:
    text = "A long description of what this parameter is for. " * 6
    tools = {
        f"tool_{i}": {
            "type": "object",
            "properties": {
                f"parameter_{j}": {"type": kind, "description": text}
                for j, kind in enumerate(["string", "integer", "boolean", "number"])
            },
            "required": ["parameter_0"],
        }
        for i in range(60)
    }
    assert len(json.dumps(tools)) > 80_000
    grammar = compile_turn(tools, V)
    assert len(grammar.automaton.rows) < 8000


def test_too_many_tools_are_an_error_that_names_the_limit() -> None:
    tools = {f"tool_{i}": {"type": "object", "properties": {f"{i}" * 300: {}}} for i in range(400)}
    with pytest.raises(SchemaError, match="more than 100000 states"):
        compile_turn(tools, V)
    with pytest.raises(SchemaError, match="device table holds 16384"):
        make_tables(compile_turn(dict(list(tools.items())[:60]), V).automaton)


@pytest.mark.parametrize(
    "pattern",
    [
        "a\\",
        "[a-",
        "(a",
        "a)",
        "*a",
        "a{2,1}",
        "\\q",
        "(?=a)",
        "(a)\\1",
        "\\bword",
        "[z-a]",
        "\\u12",
        "a**",
        "(?m)a",
        "a(?i)b",
        "(?=a)b",
        "^(?!a)b|c",
        "^a(?=b)",
    ],
)
def test_a_bad_pattern_fails_before_any_token(pattern: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_turn(
            {"t": {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}}, V
        )
    problem = caught.value
    assert (problem.tool, problem.path, problem.keyword) == ("t", "/properties/a", "pattern")
    assert repr(pattern) in str(problem)


@pytest.mark.parametrize(
    "free", [{}, True, {"type": "object"}, {"type": "object", "additionalProperties": True}]
)
def test_a_free_form_object_can_hold_something_and_ends(free: Any) -> None:
    grammar = compile_schema({"type": "object", "properties": {"opts": free}}, V)
    for value in ({}, {"x": 1}, {"a": {"b": [None, "c"]}}):
        assert accepts(grammar, json.dumps({"opts": value}))
    deep: Any = 1
    for _ in range(12):
        deep = {"x": deep}
    assert not accepts(grammar, json.dumps({"opts": deep}))


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_alternatives_never_run_into_each_other(word: str) -> None:
    grammar = compile_schema({word: [{"type": "null"}, {"type": "boolean"}, {"const": "nulltrue"}]}, V)
    for text in ("null", "true", "false", '"nulltrue"'):
        assert accepts(grammar, text)
    for text in ("nulltrue", "nul", "truefalse", "nullnull", "tru"):
        assert not accepts(grammar, text)


def test_optional_properties_cost_linearly() -> None:
    def size(n: int) -> int:
        schema = {"type": "object", "properties": {f"property_{i}": {"type": "string"} for i in range(n)}}
        return len(compile_schema(schema, V).automaton.rows)

    base, ten, twenty, forty = size(1), size(10), size(20), size(40)
    assert forty - twenty <= 2.3 * (twenty - ten) and twenty - base < 1200
    grammar = compile_schema(
        {"type": "object", "properties": {f"p{i}": {"type": "null"} for i in range(20)}}, V
    )
    rng = random.Random(20)
    for _ in range(50):
        some = {f"p{i}": None for i in range(20) if rng.random() < 0.4}
        assert accepts(grammar, json.dumps(some))
    assert not accepts(grammar, '{"p1": null, "p0": null}')


def test_a_backslash_stands_only_before_an_escape() -> None:
    grammar = compile_schema({"type": "string", "maxLength": 20}, V)
    for text in ('"日本\\n"', '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"', '"\\ud83d\\ude0a"'):
        assert accepts(grammar, text)
        json.loads(text)
    for byte in range(256):
        if byte not in b'"\\/bfnrtu':
            assert not accepts(grammar, b'"a\\' + bytes([byte]) + b'"'), byte
    for text in ('"\\ud83d"', '"\\ude0a"', '"\\ud83dx"', '"\\u12"', '"\n"', '"\t"'):
        assert not accepts(grammar, text)


def test_a_quote_can_be_written_in_strings_enums_and_names() -> None:
    schema = {
        "type": "object",
        "properties": {'the "key"': {"enum": ['("Net Equity")', "back\\slash"]}, "free": {"type": "string"}},
        "required": ['the "key"', "free"],
    }
    grammar = compile_schema(schema, V)
    assert accepts(grammar, json.dumps({'the "key"': '("Net Equity")', "free": 'say "x"'}))


def test_a_row_of_logits_wider_than_the_tokenizer_has_no_legal_padding() -> None:
    tokens = (*(bytes([i]) for i in range(256)), b"<end>")
    vocabulary = Vocabulary(tokens, frozenset({256}), (256,))
    for grammar in (
        compile_turn({}, vocabulary),
        compile_schema({}, vocabulary),
        compile_schema(True, vocabulary),
    ):
        flags = np.unpackbits(grammar.start().mask().view(np.uint8), bitorder="little")
        assert len(flags) >= 257 and not flags[257:].any()


def test_an_array_without_maxitems_has_a_bound_that_is_reported() -> None:
    grammar = compile_schema(
        {"type": "array", "items": {"type": "string"}}, V, bounds=Bounds(items=5, string=7)
    )
    assert any("maxItems" in note and "5" in note for note in grammar.notes)
    assert any("maxLength" in note and "7" in note for note in grammar.notes)
    assert accepts(grammar, json.dumps(["aaaaaaa"] * 5))
    assert not accepts(grammar, json.dumps(["a"] * 6)) and not accepts(grammar, json.dumps(["a" * 8]))


def test_notes_name_the_tool_and_path_and_are_silent_where_nothing_bites() -> None:
    tool = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "null"}}}}
    assert compile_turn({"t": tool}, V).notes == ("t: /properties/a: no maxItems; at most 64 items",)
    bounded = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    assert compile_turn({"t": bounded}, V).notes == ()


def test_bytes_the_vocabulary_cannot_spell_never_lead_into_a_dead_end(rng: np.random.Generator) -> None:
    """A tokenizer without tokens for some bytes: walks must still always come to an end."""
    missing = {0xF1, 0xF3, 0x80, ord("~"), ord("7")}
    tokens = (*(bytes([i]) for i in range(256) if i not in missing), b"<end>", "é7".encode())
    vocabulary = Vocabulary(tokens, frozenset({251}), (251,))
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 30}, "n": {"type": "integer"}},
    }
    grammar = compile_schema({**schema, "required": ["a", "n"]}, vocabulary)
    walk = random.Random(int(rng.integers(2**32)))
    for _ in range(50):
        text = random_walk(grammar.automaton, walk)
        assert not missing & set(text)
        json.loads(text)
    with pytest.raises(SchemaError, match="0x37"):
        compile_schema({"const": 7}, vocabulary)


def test_deep_and_recursive_schemas_compile_in_bounded_time() -> None:
    nested: Any = {"type": "null"}
    for _ in range(40):
        nested = {"type": "object", "properties": {"child": nested, "other": {"type": "integer"}}}
    grammar = compile_schema(nested, V)
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                    "link": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["value", "children"],
            }
        },
    }
    branching = compile_schema(tree, V)
    assert len(grammar.automaton.rows) < 4000 and len(branching.automaton.rows) < 4000
    assert accepts(branching, '{"value": 1, "children": [{"value": 2, "children": [], "link": null}]}')
    assert any("recursion is cut" in note for note in branching.notes)


def test_a_large_float_constant_is_written_as_its_schema_reads() -> None:
    for value, text in (
        (1e300, "1" + "0" * 300),
        (-1e22, "-1" + "0" * 22),
        (3.0, "3"),
        ([1e25], "[1" + "0" * 25 + "]"),
    ):
        grammar = compile_schema({"const": value}, byte_vocabulary(), bounds=Bounds())
        matcher = grammar.start()
        for byte in text.encode():
            assert matcher.forced() in ((byte,), ()), text
            matcher.advance(byte)
        matcher.advance(256)
        assert matcher.finished
