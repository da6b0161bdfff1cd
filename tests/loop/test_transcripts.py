"""Histories: append-only, every call followed by its result, exact as JSON."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogagent import (
    AssistantMessage,
    HandOverMessage,
    InputError,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    Transcript,
    UserMessage,
    messages_from_json,
    messages_to_json,
)
from kogagent.types import ResultStatus

CALLS = tuple(ToolCall(f"c{i}", "ls", "{}") for i in range(3))


def result(call: ToolCall, text: str = "ok") -> ToolMessage:
    return ToolMessage(ToolResult(call.id, call.name, text))


texts = st.text(st.characters())  # lone surrogates, controls, newlines: all of it
calls = st.builds(ToolCall, texts, texts, texts, st.booleans())
messages = st.lists(
    st.one_of(
        st.builds(SystemMessage, texts),
        st.builds(UserMessage, texts),
        st.builds(AssistantMessage, texts, texts, st.lists(calls, max_size=3).map(tuple)),
        st.builds(HandOverMessage, texts, st.lists(texts, max_size=3).map(tuple)),
        st.builds(
            ToolMessage, st.builds(ToolResult, texts, texts, texts, st.sampled_from(get_args(ResultStatus)))
        ),
    )
)


@given(messages)
def test_json_gives_back_equal_messages(history: list[Message]) -> None:
    text = messages_to_json(history)
    assert messages_from_json(text) == tuple(history)
    assert text.isascii() and isinstance(json.loads(text), list)


def test_json_lines_give_back_the_transcript_and_can_be_appended_to() -> None:
    transcript = Transcript([UserMessage("a\nb"), AssistantMessage("", "", CALLS[:1]), result(CALLS[0])])
    lines = transcript.to_lines()
    assert len(lines.splitlines()) == 3
    assert Transcript.from_lines(lines).messages == transcript.messages
    more = lines + Transcript([UserMessage("next")]).to_lines()
    assert Transcript.from_lines(more).messages == (*transcript.messages, UserMessage("next"))


def test_json_lines_cut_at_any_byte_give_a_consistent_prefix() -> None:
    history: list[Message] = [
        UserMessage("go"),
        AssistantMessage("", "p", CALLS),
        *map(result, CALLS),
        AssistantMessage("done"),
    ]
    text = Transcript(history).to_lines()
    for cut in range(len(text) + 1):
        back = Transcript.from_lines(text[:cut])
        whole = text[:cut].count("\n")
        assert back.messages[:whole] == tuple(history[:whole])
        assert not back.open_calls
        assert all(
            m.result.status == "cancelled" for m in back.messages[whole:] if isinstance(m, ToolMessage)
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        (b'["\xff"]', "not valid JSON.*utf-8"),
        (None, "not valid JSON"),
        ("{}", "array"),
        ("[3]", "message 0 has the role None"),
        ('[{"role": "user", "text": "a"}, {"role": "robot"}]', "message 1 has the role 'robot'"),
        ('[{"role": "user"}]', "message 0 needs 'text' of type str"),
        ('[{"role": "user", "text": 3}]', "message 0 needs 'text' of type str, not 3"),
        ('[{"role": "user", "text": "a", "id": 1}]', "message 0 has the unknown field 'id'"),
        ('[{"role": "assistant", "text": "", "plan": "", "calls": [{"id": "1"}]}]', "call 0 needs 'name'"),
        (
            '[{"role": "tool", "call_id": "1", "name": "n", "text": "", "status": "fine"}]',
            "message 0 has the status 'fine'",
        ),
        ('[{"role": "hand_over", "agent": "b"}]', "message 0 needs 'calls' of type list"),
        (
            '[{"role": "hand_over", "agent": "b", "calls": [1]}]',
            r"message 0 has calls that are no ids: \[1\]",
        ),
    ],
)
def test_bad_json_is_refused_by_message_and_field(text: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        messages_from_json(text)


def test_a_message_that_cannot_follow_is_refused() -> None:
    transcript = Transcript([UserMessage("go"), AssistantMessage("", "", CALLS[:2])])
    with pytest.raises(InputError, match=r"calls without results: 'c0', 'c1'"):
        transcript.append(UserMessage("next"))
    with pytest.raises(InputError, match="'c2'"):
        transcript.append(result(CALLS[2]))
    transcript.append(result(CALLS[1]))
    with pytest.raises(InputError, match="'c1'"):
        transcript.append(result(CALLS[1]))
    transcript.append(result(CALLS[0]))
    transcript.append(UserMessage("next"))
    with pytest.raises(InputError, match="two calls of one id"):
        transcript.append(AssistantMessage("", "", (CALLS[0], CALLS[0])))
    with pytest.raises(InputError, match="no message"):
        transcript.append("text")  # type: ignore[arg-type]
    assert len(transcript) == 5


def test_a_hand_over_hides_calls_of_the_last_turn_until_it_is_rewound() -> None:
    told: list[Message] = [UserMessage("a"), AssistantMessage(calls=CALLS), *map(result, CALLS)]
    for hidden in ((), CALLS[1:2], CALLS[:2], CALLS):
        transcript = Transcript(told)
        transcript.append(HandOverMessage("other", tuple(call.id for call in hidden)))
        left = [call for call in CALLS if call not in hidden]
        turn = [AssistantMessage(calls=tuple(left))] if left else []
        assert transcript.view == [UserMessage("a"), *turn, *map(result, left)]
        assert transcript.messages[:5] == tuple(told) and transcript.fork().view == transcript.view
        transcript.rewind(5)
        assert transcript.view == told
    for messages in ((), told):
        with pytest.raises(InputError, match=r"hides calls \('x',\); the last turn has"):
            Transcript([*messages, HandOverMessage("other", ("x",))])
    for said in ((), (UserMessage("a"),), (UserMessage("a"), AssistantMessage("answer"))):
        assert Transcript([*said, HandOverMessage("other", ())]).view == list(said)


def test_a_history_cut_anywhere_is_repaired() -> None:
    history: list[Message] = [
        UserMessage("a"),
        AssistantMessage("", "", CALLS),
        result(CALLS[1]),
        UserMessage("b"),
    ]
    repaired = Transcript.repaired(history)
    statuses = {m.result.call_id: m.result.status for m in repaired.messages if isinstance(m, ToolMessage)}
    assert statuses == {"c0": "cancelled", "c1": "ok", "c2": "cancelled"}
    assert repaired.messages[-1] == UserMessage("b")
    assert Transcript.repaired(repaired.messages).messages == repaired.messages


def test_a_view_does_not_grow_with_the_transcript() -> None:
    transcript = Transcript([UserMessage("a")])
    view = transcript.messages
    transcript.append(AssistantMessage("b"))
    transcript.with_system("s")
    assert list(view) == [UserMessage("a")] and len(view) == 1
    assert view[-1] == UserMessage("a") and view[0:5] == (UserMessage("a"),)
    with pytest.raises(IndexError):
        view[1]
    assert transcript.messages == (SystemMessage("s"), UserMessage("a"), AssistantMessage("b"))


def test_a_transcript_is_iterated_as_it_stands() -> None:
    transcript = Transcript([UserMessage("a")])
    for message in transcript:
        transcript.append(AssistantMessage(f"{message} again"))
    assert len(transcript) == 2 and tuple(transcript) == transcript.messages


def test_a_fork_goes_its_own_way() -> None:
    transcript = Transcript([UserMessage("a")])
    fork = transcript.fork()
    fork.append(AssistantMessage("b"))
    assert len(transcript) == 1 and len(fork) == 2


def test_the_same_system_text_changes_nothing_and_another_replaces_it() -> None:
    transcript = Transcript([SystemMessage("s"), UserMessage("a")])
    transcript.with_system("s")
    assert transcript.messages == (SystemMessage("s"), UserMessage("a"))
    transcript.with_system("t")
    assert transcript.messages == (SystemMessage("t"), UserMessage("a"))
