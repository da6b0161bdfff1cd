"""Conversations that outgrow their model: what is left out, what stays, and that the numbers are right."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kogagent import (
    Agent,
    AssistantMessage,
    Compacted,
    Compaction,
    ContextError,
    HandOverMessage,
    InputError,
    Limits,
    Message,
    SessionStore,
    SummaryMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    Transcript,
    Usage,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import FunctionModel, MeasuredModel, ScriptedModel, ScriptedTurn, call

FREE = Limits(max_turns=None, max_calls=None, turn_tokens=50, repeated_calls=None)


@tool
async def read(n: int) -> str:
    """Read a page."""
    return f"page {n}: " + "x" * 90


def script(calls: int) -> list[Any]:
    return [*(call("read", n=n) for n in range(calls)), "done"]


async def compacted(
    model: ScriptedModel, compaction: Compaction, prompt: str = "Read all of it."
) -> tuple[list[Compacted], Any]:
    agent = Agent(model, [read], instructions="You read.", limits=FREE, compaction=compaction)
    async with agent.stream(prompt) as stream:
        events = [event async for event in stream]
    return [event for event in events if isinstance(event, Compacted)], stream.result


async def test_a_call_gets_no_id_of_one_that_was_left_out(rng: np.random.Generator) -> None:
    """By models that never read that one: each is a new one, and reads a summary without calls."""
    first = int(rng.integers(1, 10_000))
    asked = ToolCall(f"call_{first:04d}", "read", '{"n": 0}')
    found = ToolMessage(ToolResult(asked.id, "read", "page 0"))
    transcript = Transcript([UserMessage("Read."), AssistantMessage(calls=(asked,)), found])
    function = FunctionModel(lambda request: "x" if len(request.messages) > 2 else call("read", n=1))
    transcript.append(SummaryMessage("[page 0 was read]", 0))
    for model in (ScriptedModel(*script(1)), function):
        await Agent(model, [read]).run("Go on.", history=transcript)
        transcript.append(SummaryMessage("[more was read]", 0))
    made = [one for m in transcript if isinstance(m, AssistantMessage) for one in m.calls]
    assert [one.number for one in made] == [first, first + 1, first + 2]


async def test_the_older_part_is_left_out_and_the_task_stays() -> None:
    model = MeasuredModel(*script(20), context=1000)
    events, result = await compacted(model, Compaction())
    assert result.output == "done" and len(events) >= 2
    for request in model.requests:
        assert model.count(request) + FREE.turn_tokens <= 0.9 * 1000
        assert request.messages[0] == SystemMessage("You read.")
        assert "Read all of it." in "".join(m.text for m in request.messages if isinstance(m, UserMessage))
        check_calls(request.messages)
    assert sum(isinstance(m, ToolMessage) for m in result.messages) == 20, "the record keeps everything"
    assert sum(isinstance(m, SummaryMessage) for m in result.messages) == len(events)


def check_calls(messages: Sequence[Message]) -> None:
    """Every result follows its call."""
    Transcript(messages)


async def test_the_numbers_of_a_compaction_are_the_models_own() -> None:
    model = MeasuredModel(*script(20), context=1000)
    events, _ = await compacted(model, Compaction(to=0.3))
    shortened = [
        after
        for before, after in zip(model.requests, model.requests[1:], strict=False)
        if len(after.messages) <= len(before.messages)
    ]
    assert len(shortened) == len(events)
    for event, request in zip(events, shortened, strict=True):
        assert event.tokens_after == model.count(request) <= 300
        assert event.messages_after == len(request.messages)
        assert event.tokens_before > 0.9 * 1000 - FREE.turn_tokens
        assert event.usage == Usage() and "earlier messages are left out" in event.summary


async def test_a_model_summarises_and_what_that_costs_is_counted() -> None:
    used = Usage(1, 2, 3, 4, 5)

    class Summing(MeasuredModel):
        asked: list[TurnRequest]

        def _play(self, request: TurnRequest) -> Any:
            last = request.messages[-1]
            if isinstance(last, UserMessage) and last.text.startswith("Summarise"):
                self.asked = [*getattr(self, "asked", []), request]
                from kogagent.testing.models import turn_events

                return turn_events(ScriptedTurn("I read some pages.", usage=used), 1)
            return super()._play(request)

    model = Summing(*script(20), context=1200)
    events, result = await compacted(model, Compaction("summarise", summary_tokens=40))
    assert events and len(model.asked) == len(events)
    for event, asked in zip(events, model.asked, strict=True):
        assert event.summary == "I read some pages." and event.usage == used
        assert (asked.tool_choice, asked.max_tokens) == ("none", 40)
        assert asked.tools, "the same tools: the prompt's start stays what it was"
    assert result.usage.steps == 5 * len(events)
    assert any(
        "I read some pages." in m.text for m in model.requests[-1].messages if isinstance(m, UserMessage)
    )


async def test_a_function_may_say_what_stands_for_the_older_part() -> None:
    gone: list[int] = []

    async def forget(messages: Sequence[Message]) -> str:
        gone.append(len(messages))
        return "[pages were read]"

    events, _ = await compacted(MeasuredModel(*script(12), context=800), Compaction(forget))
    assert len(gone) == len(events) > 0 and all(e.summary == "[pages were read]" for e in events)
    with pytest.raises(InputError, match=r"Compaction\.policy gave 7"):
        await compacted(MeasuredModel(*script(12), context=800), Compaction(lambda messages: 7))  # type: ignore[arg-type, return-value]


async def test_a_prompt_the_model_refuses_is_shortened_once() -> None:
    old: list[Message] = [UserMessage("a" * 300), AssistantMessage("b" * 300)]
    history = [*old, UserMessage("c"), AssistantMessage("d")]
    model = MeasuredModel("fine", context=400)
    agent = Agent(model, limits=replace(FREE, turn_tokens=1), compaction=Compaction(context=100_000))
    result = await agent.run("go", history=history)
    assert result.output == "fine" and model.count(model.requests[0]) <= 400
    with pytest.raises(ContextError) as raised:
        await Agent(MeasuredModel("x", context=400)).run("go", history=history)
    assert "Agent(compaction=Compaction())" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(ContextError) as raised:  # nothing can be left out of a single message
        await Agent(MeasuredModel("x", context=10), compaction=Compaction()).run("a" * 50)
    assert not hasattr(raised.value, "__notes__"), "it has been tried"


async def test_a_model_without_counts_goes_by_bytes_and_needs_a_context() -> None:
    events, _ = await compacted(ScriptedModel(*script(30)), Compaction(context=400))
    assert events and all(e.tokens_after <= 200 for e in events)
    with pytest.raises(InputError, match=r"Pass Compaction\(context=…\)"):
        await compacted(ScriptedModel("x"), Compaction())


async def test_a_resumed_session_reads_what_the_run_would_have_read(tmp_path: Any) -> None:
    path = tmp_path / "s.sqlite"
    model = MeasuredModel(*script(20), "more", context=1000)
    with SessionStore(path) as store:
        agent = Agent(model, [read], instructions="You read.", limits=FREE, compaction=Compaction())
        await agent.run("Read all of it.", history=store.open("a"))
        here = store.open("a")
    with SessionStore(path) as store:
        again = store.open("a")
        assert again.view == here.view and len(again.view) < len(again.messages)
        await agent.run("And?", history=again)
    assert model.requests[-1].messages[-1] == UserMessage("And?")
    assert model.count(model.requests[-1]) < 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "shrink"}, "policy='shrink'"),
        ({"at": 0}, "at=0"),
        ({"to": 1.5}, "to=1.5"),
        ({"at": 0.3, "to": 0.5}, "must not be more than at"),
        ({"context": 0}, "context=0"),
        ({"summary_tokens": "x"}, "summary_tokens='x'"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Compaction(**options)


# ── the view of a transcript ─────────────────────────────────────────────────────────────────


def asked(id: str) -> AssistantMessage:
    return AssistantMessage("", "", (ToolCall(id, "t", "{}"),))


def told(id: str, status: Any = "ok") -> ToolMessage:
    return ToolMessage(ToolResult(id, "t", f"{id} {status}", status))


def test_a_summary_stands_for_all_but_the_head_and_what_is_kept() -> None:
    transcript = Transcript(
        [SystemMessage("s"), UserMessage("a"), asked("1"), told("1"), AssistantMessage("b")]
    )
    transcript.append(UserMessage("c"))
    before = transcript.view
    transcript.append(SummaryMessage("so far", 2))
    assert transcript.view == (
        SystemMessage("s"),
        UserMessage("so far"),
        AssistantMessage("b"),
        UserMessage("c"),
    )
    assert len(before) == 6 and len(transcript.messages) == 7, "what was given out stays as it was"
    transcript.append(AssistantMessage("d"))
    transcript.append(SummaryMessage("all", 0))
    assert transcript.view == (SystemMessage("s"), UserMessage("all"))
    transcript.with_system("new")
    assert transcript.view[0] == transcript.messages[0] == SystemMessage("new")
    assert Transcript(transcript.messages).view == transcript.view


def test_a_summary_joins_the_users_words_that_follow_it() -> None:
    transcript = Transcript([UserMessage("a"), AssistantMessage("b"), UserMessage("c")])
    transcript.append(SummaryMessage("so far", 1))
    assert transcript.view == (UserMessage("so far\n\nc"),)


def test_a_summary_that_would_tear_a_turn_apart_is_refused() -> None:
    transcript = Transcript([UserMessage("a"), asked("1"), told("1")])
    for kept, words in ((1, "without the turn that called"), (4, "4 messages of 3"), (-1, "-1 messages")):
        with pytest.raises(InputError, match=words):
            transcript.append(SummaryMessage("x", kept))
    transcript.append(asked("2"))
    with pytest.raises(InputError, match="calls without results"):
        transcript.append(SummaryMessage("x", 0))


def test_any_walk_of_a_transcript_is_what_its_record_says(rng: np.random.Generator) -> None:
    """Append, defer, answer, compact, rewind, fork at random: a transcript read back from its record is
    equal."""
    transcript, number = Transcript([UserMessage("go")]), 0
    for _ in range(200):
        choice = rng.integers(8)
        turn = next((m for m in reversed(transcript.view) if isinstance(m, AssistantMessage)), None)
        if transcript.open_calls:
            status = "deferred" if rng.random() < 0.3 else "ok"
            transcript.append(told(transcript.open_calls[0].id, status))
        elif transcript.awaiting:
            if choice == 0:
                transcript.close_calls()
            else:
                transcript.append(told(transcript.awaiting[-1].id))
        elif choice <= 1:
            number += 2
            ids = (f"c{number}", f"c{number + 1}")
            transcript.append(AssistantMessage("", "", tuple(ToolCall(i, "t", "{}") for i in ids)))
        elif choice == 2:
            transcript.append(AssistantMessage(f"said {number}"))
        elif choice == 3:
            transcript.append(UserMessage(f"asked {number}"))
        elif choice == 4:
            most = len(transcript.view)
            starts = [k for k in range(most + 1) if not k or not isinstance(transcript.view[-k], ToolMessage)]
            transcript.append(SummaryMessage("sum", int(rng.choice(starts))))
        elif choice == 5 and turn is not None:
            hidden = tuple(one.id for one in turn.calls if rng.random() < 0.7)
            transcript.append(HandOverMessage("other", hidden))
        elif choice == 6:
            transcript.rewind(int(rng.integers(1, len(transcript) + 1)))
        else:
            transcript = transcript.fork()
        again = Transcript(transcript.messages)
        assert (again.view, again.next_call) == (transcript.view, transcript.next_call)
        assert (again.open_calls, again.awaiting) == (transcript.open_calls, transcript.awaiting)
        assert not any(isinstance(m, SummaryMessage | HandOverMessage) for m in transcript.view)
