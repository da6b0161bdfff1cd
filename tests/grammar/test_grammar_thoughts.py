"""Thoughts a turn opens with: nothing in them is a call, they are bounded, the parser reads the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from grammar_vocabularies import byte_vocabulary

from kogagent.chat import TurnParser
from kogagent.chat.formats import same_calls, written_format
from kogagent.engine.grammar import Bounds, Grammar, Matcher, compile_turn
from kogagent.engine.grammar.automaton import END, SPECIAL
from kogagent.engine.grammar.tables import begin, make_tables, step
from kogagent.errors import ConfigError, InputError, ModelError
from kogagent.spec import HERMES, SMOLLM2, CallFormat, Vocabulary
from kogagent.types import CallReady, PlanDelta, TextDelta

PLAIN = byte_vocabulary()
TAGGED = byte_vocabulary(b"<tool_call>", b"</tool_call>", b"<think>", b"</think>")
BOTH = pytest.mark.parametrize("vocabulary", [PLAIN, TAGGED], ids=["bytes", "special ids"])
QWEN3 = written_format("… <tool_call> … <think> … </think> …")
TOOLS: dict[str, Any] = {
    "add": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
}
CALL = HERMES.begin + '{"name": "add", "arguments": {"a": 7}}' + HERMES.end


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    names = {vocabulary.tokens[i]: i for i in vocabulary.special}
    data, out, at = text.encode(), [], 0
    while at < len(data):
        name = next((n for n in names if data.startswith(n, at)), data[at : at + 1])
        out.append(names.get(name, data[at]))
        at += len(name)
    return out


def at(grammar: Grammar, text: str, vocabulary: Vocabulary) -> Matcher | None:
    """The matcher behind a text; None where the text is illegal, masks asked on the way."""
    matcher = grammar.start()
    for id in ids_of(text, vocabulary):
        legal = bool(matcher.mask()[id // 32] >> (id % 32) & 1)
        try:
            matcher.advance(id)
        except ModelError:
            assert not legal
            return None
        assert legal
    return matcher


def whole(grammar: Grammar, text: str, vocabulary: Vocabulary) -> bool:
    matcher = at(grammar, text + "<end>", vocabulary)
    return matcher is not None and matcher.finished


def read(
    ids: list[int], vocabulary: Vocabulary, form: CallFormat = QWEN3, **options: Any
) -> tuple[str, str, int]:
    """Thoughts, text and number of calls as the turn parser reads them, ids one by one."""
    parser = TurnParser(form, vocabulary, **options)
    events = [e for id in ids for e in parser.feed([id])] + parser.finish()
    thoughts = "".join(e.text for e in events if isinstance(e, PlanDelta))
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert text == parser.text
    return thoughts, text, sum(isinstance(e, CallReady) for e in events)


@BOTH
def test_a_turn_may_open_with_thoughts_and_then_be_what_it_could_be(vocabulary: Vocabulary) -> None:
    thoughts = "<think>\nOK. 日本 😊 <thin <</think\n```\n</think>\n\n"
    auto = compile_turn(TOOLS, vocabulary, QWEN3)
    required = compile_turn(TOOLS, vocabulary, QWEN3, tool_choice="required")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    answer = compile_turn({}, vocabulary, QWEN3, output_schema=schema)
    none = compile_turn(TOOLS, vocabulary, QWEN3, tool_choice="none")
    for opening in ("", thoughts):
        for grammar, rest in (
            (auto, "text"),
            (auto, CALL),
            (auto, f"text {CALL}"),
            (required, CALL),
            (answer, '{"a": 1}'),
            (none, "text"),
        ):
            assert whole(grammar, opening + rest, vocabulary), (opening, rest)
    assert not whole(required, thoughts + "text", vocabulary)
    assert not whole(auto, "<think>never closed", vocabulary)
    assert not whole(auto, thoughts.rstrip("\n") + "text", vocabulary)  # the gap is fixed


def test_a_tag_inside_thoughts_starts_no_call() -> None:
    text = f"<think>perhaps {CALL}?</think>\n\nNo."
    assert whole(compile_turn(TOOLS, PLAIN, QWEN3), text, PLAIN)
    assert read(ids_of(text, PLAIN), PLAIN) == (f"perhaps {CALL}?", "No.", 0)
    assert at(compile_turn(TOOLS, TAGGED, QWEN3), "<think>perhaps <tool_call>", TAGGED) is None


@BOTH
def test_the_gap_behind_thoughts_is_forced(vocabulary: Vocabulary) -> None:
    matcher = at(compile_turn(TOOLS, vocabulary, QWEN3, tool_choice="add"), "<think>x</think>", vocabulary)
    assert matcher is not None
    run: list[int] = []
    while forced := matcher.forced():
        run += forced
        for id in forced:
            matcher.advance(id)
    assert run == ids_of("\n\n" + HERMES.begin + '{"name": "add", "arguments": {"a": ', vocabulary)


@BOTH
@pytest.mark.parametrize("filler", ["a", "é", "😊", "<", "</thin", "\n"])
def test_thoughts_are_bounded_and_can_always_be_closed(vocabulary: Vocabulary, filler: str) -> None:
    grammar = compile_turn(TOOLS, vocabulary, QWEN3, bounds=Bounds(thoughts=20))
    assert "thoughts: at most 20 code points" in grammar.notes
    matcher = at(grammar, "<think>", vocabulary)
    assert matcher is not None
    written = 0
    while not matcher.forced() and written < 1000:
        for byte in filler.encode():
            if matcher.forced() or not matcher.mask()[byte // 32] >> (byte % 32) & 1:
                break
            matcher.advance(byte)
            written += 1
        else:
            continue
        break
    assert written < 1000
    close = ids_of("</think>\n\n", vocabulary)
    rest: list[int] = []
    while matcher.forced():
        rest += matcher.forced()
        for id in matcher.forced():
            matcher.advance(id)
    assert rest and close[-len(rest) :] == rest[-len(close) :]
    matcher.advance(ord("T"))


def test_thoughts_are_read_as_plan_and_the_blanks_behind_them_are_dropped() -> None:
    for vocabulary in (PLAIN, TAGGED):
        text = "<think>\nfirst 日本\n</think>\n\nThe answer."
        assert read(ids_of(text, vocabulary), vocabulary) == ("\nfirst 日本\n", "The answer.", 0)
        assert read(ids_of(text, vocabulary), vocabulary, calls=False) == ("\nfirst 日本\n", "The answer.", 0)
        assert read(ids_of("<think>a</think>" + CALL, vocabulary), vocabulary) == ("a", "", 1)
        assert read(ids_of("<think>cut <", vocabulary), vocabulary) == ("cut <", "", 0)
        assert read(ids_of("text <think>", vocabulary), vocabulary)[0] == ""
    for text in ("<thin", "<thinking aloud", " \n", "", "<tool"):
        assert read(ids_of(text, PLAIN), PLAIN) == ("", text, 0)
        assert read([*ids_of(text, PLAIN), 256], PLAIN) == ("", text, 0)
    assert read(ids_of("<think>a</think>", PLAIN), PLAIN, HERMES) == ("", "<think>a</think>", 0)


@BOTH
def test_random_turns_are_read_as_the_grammar_wrote_them(
    vocabulary: Vocabulary, rng: np.random.Generator
) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    grammar = compile_turn(TOOLS, vocabulary, QWEN3, max_calls=2, bounds=Bounds(thoughts=40))
    automaton = grammar.automaton
    tables = make_tables(automaton)
    thought = 0
    for _ in range(60):
        here = begin(tables)
        state, frame = automaton.start, automaton.frames
        script = list(
            ids_of(
                rand.choice(
                    ["", "<think>", "<think></", "<think>x<tool_call>\n"][: 3 + (vocabulary is PLAIN)]
                ),
                vocabulary,
            )
        )
        ids: list[int] = []
        while state != 1:
            legal = sorted(automaton.legal(state, frame))
            assert legal
            if script:
                id = script.pop(0)
                symbol = id if id < 256 else SPECIAL + id
            elif len(ids) > 60 and END in legal:
                symbol = END
            else:
                close = [s for s in legal if s < 128 and chr(s) in '<>/think"}'] or legal
                symbol = rand.choice(close if rand.random() < 0.7 else legal)
            after = automaton.step(state, frame, symbol)
            assert after is not None and step(tables, here, symbol)
            state, frame = after
            ids.append(symbol if symbol < END else 256 if symbol == END else symbol - SPECIAL)
            assert len(ids) < 5000
        shown = (
            "".join(vocabulary.tokens[i].decode("latin-1") for i in ids if i != 256)
            .encode("latin-1")
            .decode()
        )
        thoughts, _, _ = read(ids, vocabulary)
        if shown.startswith("<think>") and (vocabulary is PLAIN or ids[0] == TAGGED.tokens.index(b"<think>")):
            inside, _, rest = shown.removeprefix("<think>").partition("</think>")
            assert thoughts == inside
            assert rest.startswith("\n\n")
            thought += 1
        else:
            assert thoughts == ""
    assert thought > 10


def test_a_template_that_knows_thoughts_gives_a_format_that_does() -> None:
    assert (QWEN3.think_begin, QWEN3.think_end, QWEN3.think_gap) == ("<think>", "</think>", "\n\n")
    assert same_calls(QWEN3, HERMES) and QWEN3 != HERMES and not same_calls(QWEN3, SMOLLM2)
    assert written_format("<|im_start|>") == HERMES


def test_a_format_with_half_a_tag_is_refused() -> None:
    with pytest.raises(ConfigError, match="think_begin and think_end go together"):
        replace(HERMES, think_begin="<think>")
    with pytest.raises(ConfigError, match="must be ASCII"):
        replace(HERMES, think_begin="<think>", think_end="◁/think▷")
    with pytest.raises(InputError, match="think_end must be text or one special id"):
        compile_turn(TOOLS, TAGGED, replace(QWEN3, think_end="</think>\n"))
    with pytest.raises(InputError, match="what comes first starts like"):
        compile_turn({}, PLAIN, replace(QWEN3, think_begin='{"a":'), output_schema={"type": "object"})
