"""The turn parser: what is text and what is a call, wherever tokens end; nothing lost, nothing too early."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kogagent.chat import TurnParser
from kogagent.chat.parser import TurnEvent
from kogagent.engine.grammar.compile import compile_turn
from kogagent.errors import InputError
from kogagent.spec import HERMES, LLAMA3_JSON, MISTRAL, SMOLLM2, CallFormat, Vocabulary
from kogagent.types import CallDelta, CallReady, CallStarted, TextDelta, ToolCall

END, STOP, OPEN, CLOSE = 256, 257, 258, 259
PLAIN = Vocabulary(
    (*(bytes([b]) for b in range(256)), b"<|im_end|>", b"</s>"), frozenset({END, STOP}), (END, STOP)
)
"""Every byte a token, and two end ids."""
TAGGED = Vocabulary(
    (*PLAIN.tokens, b"<tool_call>", b"</tool_call>", b"<think>"), frozenset(range(256, 261)), (END, STOP)
)  # fmt: skip
"""The same with Qwen's tags as special ids."""

ALL = pytest.mark.parametrize("form", [HERMES, SMOLLM2, MISTRAL, LLAMA3_JSON], ids=lambda form: form.name)
WEATHER = ("weather", '{"city": "Ös\\"lo}", "days": [1, {"a": "]"}]}')
ADD = ("add", "{}")


def write(form: CallFormat, *calls: tuple[str, str]) -> str:
    """Calls as the format writes them."""
    body = form.between.join(form.prefix + name + form.middle + args + form.suffix for name, args in calls)
    return form.begin + body + form.end


def spelled(text: str, vocabulary: Vocabulary) -> list[int]:
    """Ids: special names as special ids where the vocabulary has them, else bytes."""
    out: list[int] = []
    at = 0
    while at < len(text):
        for id in sorted(vocabulary.special, key=lambda id: -len(vocabulary.tokens[id])):
            name = vocabulary.tokens[id].decode()
            if text.startswith(name, at):
                out.append(id)
                at += len(name)
                break
        else:
            out += text[at].encode()
            at += 1
    return out


def chunked(raw: bytes, rng: random.Random) -> tuple[Vocabulary, list[int]]:
    """A vocabulary of random pieces of the bytes, and the bytes as its ids."""
    cuts = sorted({0, len(raw), *(rng.randint(0, len(raw)) for _ in range(rng.randint(0, len(raw))))})
    pieces = [raw[a:b] for a, b in pairwise(cuts)]
    tokens = (*PLAIN.tokens, *pieces)
    return Vocabulary(tokens, PLAIN.special, PLAIN.end_ids), list(range(258, len(tokens)))


class Stepwise(TurnParser):
    """Takes every byte by itself, as a parser takes what it cannot take several at once of."""

    def _to(self, step: Any, run: Any = None) -> None:
        super()._to(step)


def run(
    ids: Iterable[int],
    form: CallFormat | None = HERMES,
    vocabulary: Vocabulary = PLAIN,
    kind: type[TurnParser] = TurnParser,
    **options: Any,
) -> list[TurnEvent]:
    """All events of a turn, ids fed one by one."""
    parser = kind(form, vocabulary, **options)
    events = [event for id in ids for event in parser.feed([id])]
    return events + parser.finish()


def merged(events: Sequence[TurnEvent]) -> list[TurnEvent]:
    """The same with neighbouring deltas joined."""
    out: list[TurnEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, CallDelta) and isinstance(last, CallDelta) and last.call_id == event.call_id:
            out[-1] = CallDelta(event.call_id, last.text + event.text)
        else:
            out.append(event)
    return out


def expected(text: str, *calls: tuple[str, str], first: int = 1) -> list[TurnEvent]:
    """The merged events of a text and then calls."""
    out: list[TurnEvent] = [TextDelta(text)] if text else []
    for number, (name, args) in enumerate(calls, first):
        id = f"call_{number:04d}"
        out += [CallStarted(id, name), CallDelta(id, args), CallReady(ToolCall(id, name, args))]
    return out


# ── calls ──


@ALL
@pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["plain", "tags"])
def test_text_then_calls(form: CallFormat, vocabulary: Vocabulary) -> None:
    calls = [WEATHER, ADD, WEATHER] if form.parallel else [WEATHER]
    ids = spelled("Let me 👀.\n" + write(form, *calls), vocabulary)
    assert merged(run([*ids, END], form, vocabulary)) == expected("Let me 👀.\n", *calls)
    assert merged(run(ids, form, vocabulary, first_call=7)) == expected("Let me 👀.\n", *calls, first=7)


@ALL
def test_events_do_not_depend_on_where_tokens_end(form: CallFormat, rng: np.random.Generator) -> None:
    made = random.Random(int(rng.integers(1 << 30)))
    text = 'a <tool_ 😀 [TOOL é {"name\n```\n<tool_call>\n```\n'
    calls = [WEATHER, ADD] if form.parallel else [WEATHER]
    raw = (text + write(form, *calls)).encode()
    whole = merged(run([*raw, END], form))
    assert whole == expected(text, *calls)
    for _ in range(150):
        vocabulary, ids = chunked(raw, made)
        events = run(ids, form, vocabulary)
        assert merged(events) == whole
        for event in events:
            if isinstance(event, (TextDelta, CallDelta)):
                assert event.text and "\ufffd" not in event.text


def test_a_batch_of_ids_gives_the_same_events_joined() -> None:
    raw = ("Hm.\n" + write(HERMES, WEATHER, ADD)).encode()
    parser = TurnParser(HERMES, PLAIN)
    events = parser.feed([*raw, END])
    assert events == merged(events) == expected("Hm.\n", WEATHER, ADD)
    assert parser.finish() == [] and parser.finish() == []
    assert parser.text == "Hm.\n" and [c.name for c in parser.calls] == ["weather", "add"]


def test_a_call_is_ready_with_the_last_byte_of_its_arguments() -> None:
    parser = TurnParser(HERMES, PLAIN)
    raw = write(HERMES, WEATHER).encode()
    close = raw.index(b"}}\n") if b"}}\n" in raw else raw.rindex(b"}")
    assert not any(isinstance(e, CallReady) for e in parser.feed(raw[:close]))
    (*_, last) = parser.feed(raw[close : close + 1])
    assert last == CallReady(ToolCall("call_0001", *WEATHER))


def test_empty_arguments_are_one_delta_wherever_tokens_end() -> None:
    deltas = [e for e in run(write(HERMES, ADD).encode()) if isinstance(e, CallDelta)]
    assert deltas == [CallDelta("call_0001", "{}")]


def test_arguments_stream_and_join_to_exactly_their_text() -> None:
    name, args = "f", '{"é😀": "\\u00e9 \\" } ] \\\\", "b": [[], {}, -1.5e3], "c": null}'
    deltas = [e.text for e in run(write(HERMES, (name, args)).encode()) if isinstance(e, CallDelta)]
    assert "".join(deltas) == args and len(deltas) > 20


def test_names_are_read_as_json() -> None:
    (started, *_), name = run(write(HERMES, (r"a\"b\u00e9\\", "{}")).encode()), 'a"bé\\'
    assert started == CallStarted("call_0001", name)


@ALL
def test_white_space_between_the_parts_is_read_with_patience(form: CallFormat) -> None:
    if form is LLAMA3_JSON:
        loose = '{"name": "weather" ,\n "parameters" : ' + WEATHER[1] + "\n}"
    else:
        tag = form.trigger
        loose = write(form, WEATHER).replace(tag, tag + " \n\t").replace('"name": "', ' "name" :  "')
        loose = loose.replace('", "arguments": ', '",\n  "arguments":')
        loose = loose.removesuffix(form.end) + "\n " + form.end
    assert merged(run([*loose.encode(), END], form)) == expected("", WEATHER)


def test_hermes_calls_may_come_one_after_the_other_with_any_gap() -> None:
    one = write(HERMES, WEATHER)
    for gap in ("", "\n", "\n\n  "):
        assert merged(run([*(one + gap + one).encode(), END])) == expected("", WEATHER, WEATHER)


def test_text_after_calls_is_text_and_more_calls_are_calls() -> None:
    raw = (write(HERMES, ADD) + "\nand so\n" + write(HERMES, WEATHER)).encode()
    first, second = expected("", ADD), expected("", WEATHER, first=2)
    assert merged(run([*raw, END])) == [*first, TextDelta("\nand so\n"), *second]


def test_white_space_behind_the_calls_is_not_shown() -> None:
    assert merged(run([*(write(HERMES, ADD) + "\n").encode(), END])) == expected("", ADD)


# ── text ──


def test_text_is_held_back_only_while_it_could_become_the_trigger() -> None:
    parser = TurnParser(HERMES, PLAIN)
    shown = [parser.feed([byte]) for byte in b"a <tool <tool_calls"]
    texts = ["".join(e.text for e in events if isinstance(e, TextDelta)) for events in shown]
    assert texts == [
        "a",
        " ",
        "",
        "",
        "",
        "",
        "",
        "<tool ",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "<tool_calls",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_calls are fun>",
        "the tag <tool_call > and <tool_cal> and < tool_call>",
        "<tool_call>",
        "<tool_call>\n",
        "<tool_call>{}",
        '<tool_call>\n{"nam": "x"}',
        '<tool_call>\n{"name": "x\ny", "arguments": {}}',
        "<tool_call><tool_call>",
        "<tool_call> <tool_call> is a tag 😀",
        "<<tool_call",
        "<tool_call>\n{<|tool",
    ],
)
def test_what_looks_like_a_call_and_is_none_is_text(text: str) -> None:
    assert merged(run([*text.encode(), END])) == expected(text)


def test_a_call_after_a_false_start_is_found() -> None:
    for start in ("<tool_", "<tool_call>", '<tool_call>\n{"x', "<tool_call>\n{"):
        raw = (start + write(HERMES, WEATHER)).encode()
        assert merged(run([*raw, END])) == expected(start, WEATHER), start


FENCED = [
    ("```\n{}\n```\n", False), ("~~~\n{}\n~~~\n", False), ("   ```py\n{}\n", False), ("```\n```\n{}", True),
    ("    ```\n{}", True), ("a ```\n{}", True), ("``\n{}", True), ("```{}", False), ("```\n~~~\n{}", False),
    ("```\n ```x\n{}", True), ("é```\n{}", True), ("\n\n```\n\n{}", False), ("```\na\n  ```\n{}", True),
    ("````\n{}", False), ("```\n`` `\n{}", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fires"), FENCED)
@pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["plain", "tags"])
def test_no_call_starts_inside_a_code_fence(text: str, fires: bool, vocabulary: Vocabulary) -> None:
    events = run(spelled(text.replace("{}", write(HERMES, ADD)), vocabulary), HERMES, vocabulary)
    assert any(isinstance(e, CallReady) for e in events) == fires


def test_fences_are_those_of_the_grammar(rng: np.random.Generator) -> None:
    """The grammar lets a turn end in free text, and not behind a trigger that counts."""
    tools = {"add": {"type": "object", "properties": {}}}
    pieces = ["`", "``", "```", "~~~", "~", " ", "   ", "\n", "\n", "a", "é", "<tool", "_call"]
    for vocabulary in (PLAIN, TAGGED):
        trigger = spelled("<tool_call>", vocabulary)
        grammar: Any = compile_turn(tools, vocabulary, HERMES)
        fired = 0
        for _ in range(300):
            text = "".join(rng.choice(pieces) for _ in range(int(rng.integers(0, 12))))
            matcher = grammar.start()
            for byte in text.encode():
                matcher.advance(byte)
            parser = TurnParser(HERMES, vocabulary)
            parser.feed(text.encode())
            parser.feed(trigger)
            fires = any(isinstance(e, CallReady) for e in parser.finish())
            if legal(matcher, trigger[0]):
                for id in trigger:
                    matcher.advance(id)
                assert legal(matcher, END) == (not fires), text
            else:
                assert not fires, text
            fired += fires
        assert 20 < fired < 290


def legal_ids(matcher: Any, size: int) -> npt.NDArray[np.intp]:
    return np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[:size])


def legal(matcher: Any, id: int) -> bool:
    return id in legal_ids(matcher, id + 1)


@ALL
@pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["plain", "tags"])
def test_every_turn_the_grammar_allows_is_read_as_its_calls(
    form: CallFormat, vocabulary: Vocabulary, rng: np.random.Generator
) -> None:
    """Random walks through the grammar: every call is complete, of a known tool, and valid JSON."""
    tools: dict[str, Any] = {
        "weather": {
            "type": "object", "required": ["city"],
            "properties": {
                "city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "maximum": 9},
            },
        },
        "add": {"type": "object", "properties": {"ok": {"enum": ["}", '"', "é", None, True]}}},
    }  # fmt: skip
    grammar: Any = compile_turn(tools, vocabulary, form, tool_choice="required", max_calls=3)
    for _ in range(25):
        matcher = grammar.start()
        ids: list[int] = []
        while not matcher.finished and len(ids) < 2000:
            id = int(rng.choice(legal_ids(matcher, len(vocabulary))))
            matcher.advance(id)
            ids.append(id)
        events = merged(run(ids, form, vocabulary))
        calls = [e.call for e in events if isinstance(e, CallReady)]
        assert calls and all(call.complete for call in calls)
        assert events == expected("", *((call.name, call.arguments) for call in calls))
        for call in calls:
            assert call.name in tools and isinstance(json.loads(call.arguments), dict)
        written = write(form, *((call.name, call.arguments) for call in calls))
        assert spelled(written, vocabulary) == [id for id in ids if id not in vocabulary.end_ids]


# ── special ids ──


def test_end_ids_are_never_shown_and_end_the_turn() -> None:
    for end in (END, STOP):
        assert run([*b"yes", end, *b" no", end]) == [TextDelta("y"), TextDelta("e"), TextDelta("s")]


def test_special_ids_are_no_text() -> None:
    assert merged(run([260, *b"a", 260, CLOSE, *b"b"], HERMES, TAGGED)) == expected("ab")


def test_where_the_trigger_is_a_special_id_its_name_in_bytes_is_text() -> None:
    text = write(HERMES, WEATHER)
    assert merged(run([*text.encode(), END], HERMES, TAGGED)) == expected(text)
    assert merged(run([OPEN, *b"\nno call", END], HERMES, TAGGED)) == expected("\nno call")


def test_without_a_format_everything_is_text() -> None:
    text = "```\n" + write(HERMES, WEATHER)
    assert merged(run([*text.encode(), END], None)) == expected(text)
    assert merged(run([OPEN, *b"a"], None, TAGGED)) == expected("a")


def test_one_space_at_the_start_is_the_tokenizers_where_it_says_so() -> None:
    assert merged(run(b"  a b", strip_space=True)) == expected(" a b")
    assert merged(run(b"a b", strip_space=True)) == expected("a b")
    assert merged(run(b" a b")) == expected(" a b")
    assert merged(run(b" " + write(HERMES, ADD).encode(), strip_space=True)) == expected("", ADD)


def test_a_character_that_never_ends_is_replaced_at_the_end_or_before_a_call() -> None:
    assert merged(run([*b"a", 0xF0, 0x9F])) == expected("a\ufffd")
    assert merged(run([*b"a", 0xC3, *write(HERMES, ADD).encode()])) == expected("a\ufffd", ADD)


# ── cut turns ──


@ALL
def test_a_turn_cut_anywhere_never_gives_a_call_that_was_not_closed(form: CallFormat) -> None:
    calls = [WEATHER, ADD] if form.parallel else [WEATHER]
    text = "Hm. "
    raw = (text + write(form, *calls)).encode()
    for size in range(len(raw)):
        events = merged(run(raw[:size], form))
        ready = [e.call for e in events if isinstance(e, CallReady)]
        started = [e for e in events if isinstance(e, CallStarted)]
        assert (
            [call.id for call in ready]
            == [e.call_id for e in started]
            == ["call_0001", "call_0002"][: len(ready)]
        )
        for call, whole in zip(ready, calls, strict=False):
            deltas = "".join(e.text for e in events if isinstance(e, CallDelta) and e.call_id == call.id)
            assert deltas == call.arguments
            if call.complete:
                assert (call.name, call.arguments) == whole
            else:
                assert call is ready[-1]
                assert whole[0].startswith(call.name)
                assert whole[1].encode().startswith(call.arguments.rstrip("\ufffd").encode())
        shown = "".join(e.text for e in events if isinstance(e, TextDelta))
        assert shown == raw[: min(size, len(text) + len(form.trigger) - 1)].decode()[: len(shown)]
        assert len(shown) <= len(text) or not ready


def test_a_cut_call_keeps_what_came_of_it() -> None:
    raw = write(HERMES, ("weather", '{"city": "Oslo"}')).encode()
    at = raw.index(b"lo")
    (*_, last) = run(raw[:at])
    assert last == CallReady(ToolCall("call_0001", "weather", '{"city": "Os', complete=False))
    (*_, last) = run([*raw[:at], END])
    assert last == CallReady(ToolCall("call_0001", "weather", '{"city": "Os', complete=False))
    (*_, last) = run(raw[: raw.index(b"ther")])
    assert last == CallReady(ToolCall("call_0001", "wea", "", complete=False))


def test_arguments_that_are_no_object_are_a_call_that_never_completes() -> None:
    for args in ("[1]", '"x"', "none", ""):
        raw = ('<tool_call>\n{"name": "f", "arguments": ' + args + "}\n</tool_call>").encode()
        (*_, last) = run([*raw, END])
        assert isinstance(last, CallReady) and not last.call.complete
        assert last.call.arguments.startswith(args)
    (*_, last) = run(b'<tool_call>\n{"name": "f", "args": {}}\n</tool_call>')
    assert isinstance(last, CallReady) and not last.call.complete


def test_a_special_id_inside_arguments_cuts_the_call_and_text_goes_on() -> None:
    ids = [OPEN, *b'\n{"name": "f", "arguments": {"a": 1', CLOSE, *b"sorry", END]
    events = merged(run(ids, HERMES, TAGGED))
    assert events[-2:] == [
        CallReady(ToolCall("call_0001", "f", '{"a": 1', complete=False)),
        TextDelta("sorry"),
    ]


# ── anything ──


@given(data=st.data())
@settings(max_examples=300)
def test_any_ids_at_all_keep_the_rules(data: st.DataObject) -> None:
    """Nothing raises, calls are numbered, deltas make up their calls, no text is lost without a call."""
    form = data.draw(st.sampled_from([HERMES, SMOLLM2, MISTRAL, LLAMA3_JSON]))
    parts = [
        *(form.begin, form.prefix, form.middle, form.suffix, form.between, form.end, form.trigger),
        *("{", "}", '"', "\\", "[", "]", " ", "\n", "```", "~~~", "weather", "é", "😀", "{}", "<", "tool"),
    ]
    raw = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=25))).encode()
    cut = data.draw(st.integers(0, 3))
    raw = raw[: len(raw) - cut] if cut else raw
    vocabulary, ids = chunked(raw, random.Random(data.draw(st.integers(0, 1000))))
    ended = data.draw(st.booleans())
    events = run([*ids, END] if ended else ids, form, vocabulary)
    started = [e.call_id for e in events if isinstance(e, CallStarted)]
    assert started == [f"call_{n:04d}" for n in range(1, len(started) + 1)]
    ready = [e.call for e in events if isinstance(e, CallReady)]
    assert [call.id for call in ready] == started
    for call in ready:
        assert (
            "".join(e.text for e in events if isinstance(e, CallDelta) and e.call_id == call.id)
            == call.arguments
        )
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    if not ready:
        assert text == raw.decode(errors="replace")
    parser = TurnParser(form, vocabulary)
    at_once = parser.feed([*ids, END] if ended else ids) + parser.finish()
    stepwise = run([*raw, END] if ended else raw, form, kind=Stepwise)
    assert merged(stepwise) == merged(events) == merged(at_once)


def test_ids_outside_the_vocabulary_are_refused() -> None:
    for id in (-1, len(PLAIN)):
        with pytest.raises(InputError, match=f"id {id} lies outside the vocabulary of 258"):
            TurnParser(HERMES, PLAIN).feed([id])
