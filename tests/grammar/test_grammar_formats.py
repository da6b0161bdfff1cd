"""Call formats that are no JSON: what the grammar writes, the parser reads back, valid and as meant."""

from __future__ import annotations

import ast
import json
import random
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from grammar_schemas import random_schema
from grammar_vocabularies import byte_vocabulary

from kogagent.chat import TurnParser
from kogagent.engine.grammar import ArgumentKinds, Bounds, Grammar, compile_turn
from kogagent.engine.grammar.tables import begin, make_tables, step
from kogagent.errors import ConfigError, InputError, ModelError, SchemaError
from kogagent.spec import (
    FUNCTION_GEMMA,
    HERMES,
    LFM2,
    LLAMA3_JSON,
    MISTRAL,
    PYTHONIC,
    QWEN3_CODER,
    SMOLLM2,
    CallFormat,
    ObjectStyle,
    ValueStyle,
    Vocabulary,
)
from kogagent.spec.scan import END, SPECIAL
from kogagent.types import CallDelta, CallReady, PlanDelta, TextDelta, ToolCall

PLAIN = byte_vocabulary()
TAGGED = byte_vocabulary(
    *(b"<tool_call>", b"</tool_call>", b"<start_function_call>", b"<end_function_call>", b"<escape>"),
    *(b"<|tool_call_start|>", b"<|tool_call_end|>", b"<think>", b"</think>"),
)
CLOSERS = frozenset(b"\"'}])\n</")
OTHERS = [PYTHONIC, LFM2, QWEN3_CODER, FUNCTION_GEMMA]
ALL = [HERMES, SMOLLM2, MISTRAL, LLAMA3_JSON, *OTHERS]
STYLED = pytest.mark.parametrize("form", OTHERS, ids=lambda form: form.name)
EVERY = pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
BOTH = pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["bytes", "special ids"])

TOOLS: dict[str, Any] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 40},
            "days": {"type": "integer", "minimum": 1},
            "exact": {"type": "boolean"},
            "near": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "properties": {"lat": {"type": "number"}, "by": {"type": "string"}}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city"],
    },
    "ping": {"type": "object"},
}
WEATHER = {
    "at": {"by": "GPS", "lat": 1.5},
    "city": "Oslo",
    "days": 3,
    "exact": True,
    "near": ["a, b", "c"],
    "note": None,
}
WRITTEN = {
    "pythonic": "[weather(city='Oslo', days=3, exact=True, near=['a, b', 'c'], at={'lat': 1.5, 'by': 'GPS'}, "
    "note=None), ping()]",
    "qwen3-coder": "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n"
    "3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=near>\n"
    '["a, b", "c"]\n</parameter>\n<parameter=at>\n{"lat": 1.5, "by": "GPS"}\n</parameter>\n<parameter=note>\n'
    "None\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
    "function-gemma": "<start_function_call>call:weather{at:{by:<escape>GPS<escape>,lat:1.5},"
    "city:<escape>Oslo<escape>,days:3,exact:true,near:[<escape>a, b<escape>,<escape>c<escape>],note:None}"
    "<end_function_call><start_function_call>call:ping{}<end_function_call>",
}
WRITTEN["lfm2"] = "<|tool_call_start|>" + WRITTEN["pythonic"] + "<|tool_call_end|>"


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    names = {vocabulary.tokens[i]: i for i in vocabulary.special}
    data, out, at = text.encode(), [], 0
    while at < len(data):
        name = next((n for n in names if data.startswith(n, at)), data[at : at + 1])
        out.append(names.get(name, data[at]))
        at += len(name)
    return out


def whole(grammar: Grammar, text: str, vocabulary: Vocabulary) -> bool:
    matcher = grammar.start()
    for id in ids_of(text + "<end>", vocabulary):
        if not matcher.mask()[id // 32] >> (id % 32) & 1:
            return False
        matcher.advance(id)
    return matcher.finished


def read(
    ids: list[int], form: CallFormat, vocabulary: Vocabulary, tools: Any, rng: random.Random | None = None
) -> TurnParser:
    """A parser that read the ids in pieces, its deltas checked against its calls."""
    parser = TurnParser(form, vocabulary, kinds=ArgumentKinds(tools))
    given: dict[str, str] = {}
    at = 0
    while at < len(ids):
        end = at + (rng.randint(1, 9) if rng else 1)
        for event in parser.feed(ids[at:end]):
            if isinstance(event, CallDelta):
                given[event.call_id] = given.get(event.call_id, "") + event.text
        at = end
    for event in parser.finish():
        if isinstance(event, CallDelta):
            given[event.call_id] = given.get(event.call_id, "") + event.text
    assert given == {call.id: call.arguments for call in parser.calls if call.arguments}
    return parser


@STYLED
@BOTH
def test_a_format_writes_calls_as_its_models_do_and_reads_them(
    form: CallFormat, vocabulary: Vocabulary
) -> None:
    grammar = compile_turn(TOOLS, vocabulary, form)
    text = WRITTEN[form.name]
    lead = "" if form.at_start else "Let me see.\n"
    for turn in (text, lead + text, "Only words, [no] call: {x}"):
        assert whole(grammar, turn, vocabulary), turn
    parser = read(ids_of(lead + text, vocabulary), form, vocabulary, TOOLS)
    assert parser.text == lead
    assert [(call.name, call.complete) for call in parser.calls] == [("weather", True), ("ping", True)]
    assert json.loads(parser.calls[0].arguments) == WEATHER and parser.calls[1].arguments == "{}"
    for wrong in (text + "x", text[:-1], text.replace("days", "day"), text.replace("Oslo", "O" * 41)):
        assert not whole(grammar, wrong, vocabulary), wrong


def test_what_pythonic_writes_is_python() -> None:
    tree = ast.parse(WRITTEN["pythonic"], mode="eval").body
    assert isinstance(tree, ast.List)
    call = tree.elts[0]
    assert isinstance(call, ast.Call)
    assert {k.arg: ast.literal_eval(k.value) for k in call.keywords} == WEATHER


@EVERY
@BOTH
def test_tool_choice_and_the_bound_on_calls_hold(form: CallFormat, vocabulary: Vocabulary) -> None:
    def turn(*names: str) -> str:
        calls = [form.prefix + n + form.middle + form.write_arguments({}) + form.suffix for n in names]
        return form.begin + form.between.join(calls) + form.end

    tools = {"ping": TOOLS["ping"], "pong": TOOLS["ping"]}
    none = compile_turn(tools, vocabulary, form, tool_choice="none")
    assert whole(none, "words", vocabulary) and whole(none, "", vocabulary)
    assert form.at_start or not whole(none, turn("ping"), vocabulary)
    required = compile_turn(tools, vocabulary, form, tool_choice="required", max_calls=2)
    assert whole(required, turn("ping"), vocabulary) and not whole(required, "words", vocabulary)
    if form.parallel:
        assert whole(required, turn("ping", "pong"), vocabulary)
        assert not whole(required, turn("ping", "pong", "ping"), vocabulary)
    named = compile_turn(tools, vocabulary, form, tool_choice="pong")
    assert whole(named, turn("pong"), vocabulary) and not whole(named, turn("ping"), vocabulary)
    auto = compile_turn(tools, vocabulary, form)
    assert whole(auto, "words", vocabulary) and whole(auto, turn("ping"), vocabulary)


@EVERY
@BOTH
def test_thoughts_pass_through(form: CallFormat, vocabulary: Vocabulary) -> None:
    form = replace(form, think_begin="<think>", think_end="</think>", think_gap="\n\n")
    call = form.prefix + "ping" + form.middle + form.write_arguments({}) + form.suffix
    text = f"<think>[ping() ```?</think>\n\n{form.begin}{call}{form.end}"
    for choice in ("auto", "required", "ping"):
        assert whole(compile_turn(TOOLS, vocabulary, form, tool_choice=choice), text, vocabulary)
    parser = TurnParser(form, vocabulary)
    events = [*parser.feed(ids_of(text, vocabulary)), *parser.finish()]
    thought = "".join(event.text for event in events if isinstance(event, PlanDelta))
    assert thought.startswith("[ping() ") and [c.name for c in parser.calls] == ["ping"] and not parser.text


def tool_schema(source: random.Random) -> dict[str, Any]:
    """Arguments of every kind, under names every format can write."""
    names = source.sample(["city", "n", "na", "name", "a", "ab", "x_1", "Z.z", "k-k"], source.randint(0, 5))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: renamed(random_schema(source, 2)) for name in names},
        "required": [name for name in names if source.random() < 0.5],
    }
    if source.random() < 0.3:
        schema["additionalProperties"] = renamed(random_schema(source, 0))
    return schema


def renamed(schema: Any) -> Any:
    """The schema with names that need no quotes."""
    if isinstance(schema, list):
        return [renamed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: renamed(part) for key, part in schema.items()}
    if isinstance(out.get("properties"), dict):
        out["properties"] = {plain(name): part for name, part in out["properties"].items()}
    if "maxLength" in out:
        out["maxLength"] = min(out["maxLength"], 30)  # a random walk finds the end of a bare text late
    if isinstance(out.get("required"), list):
        out["required"] = list(dict.fromkeys(map(plain, out["required"])))
    return out


def plain(name: str) -> str:
    return "n" + "".join(c for c in name if c.isascii() and c.isalnum())


def walk(grammar: Grammar, source: random.Random, patience: int) -> list[int]:
    """A random complete turn, as symbols; the device's tables are walked beside it."""
    automaton = grammar.automaton
    tables = make_tables(automaton)
    at = begin(tables)
    state, frame = automaton.start, automaton.frames
    out: list[int] = []
    while state != 1:
        legal = sorted(automaton.legal(state, frame))
        assert legal, bytes(s for s in out if s < END)
        closing = [s for s in legal if s >= END or s in CLOSERS]
        symbol = source.choice(
            closing if len(out) > patience and closing and source.random() < 0.9 else legal
        )
        after = automaton.step(state, frame, symbol)
        assert after is not None and step(tables, at, symbol)
        out.append(symbol)
        state, frame = after
        assert len(out) < 60_000
    return out


@EVERY
def test_random_turns_are_read_as_valid_arguments(form: CallFormat, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    seen = {"turns": 0, "refused": 0, "calls": 0}
    for number in range(14):
        source = random.Random(f"{seed}/{number}")
        vocabulary = source.choice([PLAIN, TAGGED])
        tools = {name: tool_schema(source) for name in source.sample(["get", "get_it", "z.a"], 2)}
        try:
            grammar = compile_turn(
                tools,
                vocabulary,
                form,
                tool_choice="required",
                max_calls=3,
                bounds=Bounds(string=30, items=4),
            )
        except SchemaError:
            seen["refused"] += 1
            continue
        symbols = walk(grammar, source, source.choice([0, 40, 200]))
        ids = [256 if s == END else s - SPECIAL if s >= SPECIAL else s for s in symbols]
        parser = read(ids, form, vocabulary, tools, source)
        text = bytes(s for s in symbols if s < 256)
        assert parser.calls and not parser.text, (seed, number, text)
        seen["turns"] += 1
        for call in parser.calls:
            assert call.complete, (seed, number, text, call)
            value = json.loads(call.arguments)
            jsonschema.Draft202012Validator(tools[call.name]).validate(value)
            seen["calls"] += 1
        matcher = grammar.start()
        for id in ids:
            matcher.advance(id)
        assert matcher.finished
    assert seen["turns"] > 2, seen


ODD = [
    "it's",
    'say "x"',
    "a\\b",
    "line\nbreak\n",
    "</parameter>",
    "a, b=1)",
    "]",
    "<function=x>",
    "日本 😊",
    "\x01\t",
    "{}",
    "",
]


@STYLED
def test_arguments_may_hold_the_delimiters(form: CallFormat) -> None:
    """Everything but what closes a string where a format has no escapes: a text is what it was."""
    tools = {
        "say": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "string"}}},
        }
    }
    grammar = compile_turn(tools, TAGGED, form, tool_choice="required")
    for text in ODD:
        call = (
            form.prefix
            + "say"
            + form.middle
            + form.write_arguments({"a": text, "b": [text, "x"]})
            + form.suffix
        )
        turn = form.begin + call + form.end
        assert whole(grammar, turn, TAGGED), turn
        parser = read(ids_of(turn, TAGGED), form, TAGGED, tools)
        assert json.loads(parser.calls[0].arguments) == {"a": text, "b": [text, "x"]}


def test_a_bare_string_ends_at_its_whole_closing_tag_and_lengths_are_its_own() -> None:
    tools = {
        "t": {"type": "object", "properties": {"s": {"type": "string", "minLength": 2, "maxLength": 16}}}
    }
    grammar = compile_turn(tools, PLAIN, QWEN3_CODER, tool_choice="required")

    def turn(text: str) -> str:
        return QWEN3_CODER.begin + "<function=t>" + QWEN3_CODER.write_arguments({"s": text}) + QWEN3_CODER.end

    for text in ("ab", "\n\n", "x\n</parameter>ab", "é" * 16, "\n</parameter", "</parameter>\n"):
        assert whole(grammar, turn(text), PLAIN), text
        parser = read(ids_of(turn(text), PLAIN), QWEN3_CODER, PLAIN, tools)
        assert json.loads(parser.calls[0].arguments) == {"s": text}
    for text in ("", "a", "é" * 17, "\n</parameter>", "\n</parameter>\nx" + "y" * 4):
        assert not whole(grammar, turn(text), PLAIN), text


def test_text_without_quotes_is_read_by_its_schema() -> None:
    kinds: dict[str, Any] = {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "u": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "n": {"type": ["string", "integer"]},
        "x": {},
        "e": {"enum": ["5", "low"]},
        "o": {"type": "object"},
    }
    tools = {"t": {"type": "object", "properties": kinds}}
    for name, text, value in [
        ("s", "5", "5"), ("s", "null", "null"), ("s", '{"a": 1}', '{"a": 1}'), ("i", "5", 5),
        ("u", "None", None), ("u", "5", "5"), ("n", "5", 5), ("n", "5.5", "5.5"), ("n", "five", "five"),
        ("x", "[1, 2]", [1, 2]),
        ("x", "true", True), ("x", "[1, 2", "[1, 2"), ("e", "5", "5"), ("o", '{"a": [1]}', {"a": [1]}),
    ]:  # fmt: skip
        turn = (
            f"<tool_call>\n<function=t>\n<parameter={name}>\n{text}\n</parameter>\n</function>\n</tool_call>"
        )
        parser = read(ids_of(turn, PLAIN), QWEN3_CODER, PLAIN, tools)
        assert json.loads(parser.calls[0].arguments) == {name: value}, (name, text)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}, "anyOf"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "anyOf"),
        ({"enum": ["5", 5]}, "anyOf"),
        ({"type": ["string", "object"]}, "anyOf"),
    ],
)
def test_a_text_that_could_be_two_values_is_refused(schema: Any, keyword: str) -> None:
    tools = {"t": {"type": "object", "properties": {"a": schema}}}
    with pytest.raises(SchemaError, match="writes strings bare") as caught:
        compile_turn(tools, PLAIN, QWEN3_CODER)
    assert (caught.value.tool, caught.value.path[:13], caught.value.keyword) == (
        "t",
        "/properties/a",
        keyword,
    )


@STYLED
def test_names_a_format_cannot_write_are_refused(form: CallFormat) -> None:
    with pytest.raises(SchemaError, match="cannot write the tool's name"):
        compile_turn({"a tool": {"type": "object"}}, PLAIN, form)
    tools = {"t": {"type": "object", "properties": {"a b": {"type": "null"}}}}
    with pytest.raises(SchemaError, match="cannot write the name 'a b'"):
        compile_turn(tools, PLAIN, form)


def test_an_enumerated_text_that_would_close_its_string_is_refused() -> None:
    tools = {"t": {"type": "object", "properties": {"a": {"enum": ["x", "<escape>"]}}}}
    with pytest.raises(SchemaError, match="closes a string"):
        compile_turn(tools, PLAIN, FUNCTION_GEMMA)


@pytest.mark.parametrize(
    "text",
    [
        '[weather(city="it\'s", days = 3 ,exact=true)]',
        "[weather( city='it\\'s', days=3, exact=True )]",
        "[weather(city='\\x69t\\u0027s', days=3, exact=True)]",
    ],
)
def test_python_is_read_with_patience(text: str) -> None:
    parser = read(ids_of(text, PLAIN), PYTHONIC, PLAIN, TOOLS)
    assert json.loads(parser.calls[0].arguments) == {"city": "it's", "days": 3, "exact": True}


def test_pythonic_calls_stand_at_the_start_alone() -> None:
    for text in ("See [ping()] there.", "[1] is a footnote", "[see](https://x.y)", " [ping()]", "["):
        parser = TurnParser(PYTHONIC, PLAIN)
        parser.feed([*text.encode(), 256])
        parser.finish()
        assert parser.text == text and not parser.calls
    auto = compile_turn(TOOLS, PLAIN, PYTHONIC)
    assert not whole(auto, "[1] is a footnote", PLAIN) and whole(auto, "See [ping()] there.", PLAIN)


@STYLED
def test_arguments_grow_as_json_while_they_are_written(form: CallFormat) -> None:
    """What is streamed is a beginning of the arguments at every byte, strings character by character."""
    turn = form.begin + form.prefix + "weather" + form.middle + form.write_arguments({"city": "Östersund!"})
    parser = TurnParser(form, TAGGED, kinds=ArgumentKinds(TOOLS))
    shown, pieces = "", 0
    for id in ids_of(turn, TAGGED):
        for event in parser.feed([id]):
            assert not isinstance(event, PlanDelta | TextDelta)
            if isinstance(event, CallDelta):
                shown += event.text
                pieces += 1
                assert '{"city": "Östersund!"}'.startswith(shown)
    assert pieces >= 8
    (ready,) = [e.call for e in parser.finish() if isinstance(e, CallReady)] or parser.calls
    assert ready.arguments == shown == '{"city": "Östersund!"}' and ready.complete


@STYLED
def test_a_call_cut_anywhere_is_no_whole_call(form: CallFormat) -> None:
    text = WRITTEN[form.name]
    data = ids_of(text, PLAIN)
    for cut in range(len(data)):
        parser = read(data[:cut], form, PLAIN, TOOLS)
        for call in parser.calls:
            if call.complete:
                json.loads(call.arguments)
            else:
                assert call is parser.calls[-1]


@STYLED
def test_what_is_no_arguments_makes_an_incomplete_call(form: CallFormat) -> None:
    turn = form.begin + form.prefix + "ping" + form.middle + form.outer.objects.open + "\x02???"
    parser = read([*ids_of(turn, PLAIN), 256], form, PLAIN, TOOLS)
    assert [(c.name, c.complete) for c in parser.calls] == [("ping", False)]


def test_output_schemas_stay_json_beside_a_format_that_is_none() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    grammar = compile_turn(TOOLS, PLAIN, QWEN3_CODER, output_schema=schema)
    assert whole(grammar, '{"answer": "x"}', PLAIN) and whole(grammar, WRITTEN["qwen3-coder"], PLAIN)


def test_formats_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="must start with the trigger"):
        replace(HERMES, begin="x")
    with pytest.raises(ConfigError, match="bare strings need"):
        ValueStyle(string_open="", string_close="", escapes="none")
    with pytest.raises(ConfigError, match="escapes='xml'"):
        ValueStyle(escapes="xml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name_close"):
        ObjectStyle(name_close="")
    with pytest.raises(ConfigError, match="only the members"):
        replace(HERMES, values=QWEN3_CODER.outer)
    mixed = replace(FUNCTION_GEMMA, values=replace(FUNCTION_GEMMA.values, string_close="x<escape>"))
    with pytest.raises(InputError, match="text or start with a special id"):
        compile_turn(TOOLS, TAGGED, mixed)
    with pytest.raises(ModelError):
        compile_turn(TOOLS, PLAIN, PYTHONIC, tool_choice="ping").start().advance(65)


def test_the_same_call_reads_the_same_in_every_format() -> None:
    call = ToolCall("call_0001", "weather", "")
    for form in ALL:
        text = (
            form.begin + form.prefix + call.name + form.middle + form.write_arguments(WEATHER) + form.suffix
        )
        parser = read(ids_of(text + form.end, TAGGED), form, TAGGED, TOOLS)
        assert json.loads(parser.calls[0].arguments) == WEATHER, form.name
