"""The loop's model made of an engine: events, plans, what a next turn computes, what an early end leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.chat import Chat
from kogagent.engine.engine import EngineCore
from kogagent.engine.sampling import SamplingParams
from kogagent.errors import ContextError, InputError, ModelError, SchemaError
from kogagent.local import Engine, LocalModel
from kogagent.loop.agent import Agent
from kogagent.loop.protocols import ClosingModel, Model, ModelSource, TurnRequest
from kogagent.testing.conformance import check_model
from kogagent.testing.tiny import TINY_CHAT, write_tiny_model
from kogagent.testing.toy import ToyBackend
from kogagent.tokenizer import Tokenizer
from kogagent.types import (
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    Message,
    ModelEvent,
    PlanDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    TurnEnd,
    UserMessage,
)

WEATHER = ToolSpec(
    "weather",
    "The weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["c", "f"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)
PING = ToolSpec("ping", "Ask for a sign of life", {"type": "object", "properties": {}})
TOOLS = (WEATHER, PING)
ASK: tuple[Message, ...] = (SystemMessage("Be brief."), UserMessage("Is it warm in Oslo?"))
PING_CALL = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "unit": "c"}}\n</tool_call>'


class Scripted(ToyBackend):
    """A model that wants to write given turns, byte for byte, whatever it is asked; grammar permitting.

    It finds out which turn it is in by counting the assistant's openings in its ids.
    """

    def __init__(
        self, tokenizer: Tokenizer, turns: Sequence[str], on_pass: Callable[..., None] | None
    ) -> None:
        super().__init__(TINY_CHAT, on_pass=on_pass)
        self.turns = [tokenizer.encode_markup(turn) for turn in turns]
        self._opening = tokenizer.encode_markup("<|im_start|>assistant\n")
        self._end = tokenizer.encode_special("<|im_end|>")

    def expected(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        size = len(self._opening)
        starts = [i + size for i in range(len(ids)) if list(ids[i : i + size]) == self._opening]
        turn = [*self.turns[len(starts) - 1], self._end]
        done = len(ids) - starts[-1]
        row = np.zeros(TINY_CHAT.vocab_size, dtype=np.float32)
        row[turn[done] if done < len(turn) else self._end] = 9.0
        return row


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


class Stage:
    """An engine whose model writes a script."""

    def __init__(
        self, tokenizer: Tokenizer, turns: Sequence[str], on_pass: Callable[..., None] | None = None
    ) -> None:
        self.backend = Scripted(tokenizer, turns, on_pass)
        self.engine = Engine(EngineCore(lambda: self.backend), tokenizer)
        self.model = self.engine.as_model()

    async def turn(self, messages: Sequence[Message], **fields: object) -> list[ModelEvent]:
        return await events_of(self.model, messages, **fields)


@pytest.fixture
async def stage(tokenizer: Tokenizer) -> AsyncIterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(*turns: str, on_pass: Callable[..., None] | None = None) -> Stage:
        made.append(Stage(tokenizer, turns, on_pass))
        return made[-1]

    yield make
    for one in made:
        await one.engine.aclose()


async def events_of(model: LocalModel, messages: Sequence[Message], **fields: object) -> list[ModelEvent]:
    request = replace(TurnRequest(messages, TOOLS), **fields)  # type: ignore[arg-type]
    return [event async for event in model.stream(request)]


def text_of(events: Sequence[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def plan_of(events: Sequence[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, PlanDelta))


def calls_of(events: Sequence[ModelEvent]) -> tuple[ToolCall, ...]:
    return tuple(e.call for e in events if isinstance(e, CallReady))


def end_of(events: Sequence[ModelEvent]) -> TurnEnd:
    assert isinstance(events[-1], TurnEnd) and not any(isinstance(e, TurnEnd) for e in events[:-1])
    return events[-1]


def said(events: Sequence[ModelEvent]) -> AssistantMessage:
    """The message a loop makes of a turn."""
    calls, text, plan = calls_of(events), text_of(events), plan_of(events)
    if not calls:
        return AssistantMessage(text, "" if plan == text else plan)
    return AssistantMessage("", plan_of(events) + text_of(events), calls)


def result_of(call: ToolCall, text: str = "12 degrees") -> ToolMessage:
    return ToolMessage(ToolResult(call.id, call.name, text))


def test_the_engine_is_what_the_loop_asks_for(stage: Callable[..., Stage]) -> None:
    one = stage("")
    assert isinstance(one.engine, ModelSource)
    assert isinstance(one.model, Model) and isinstance(one.model, ClosingModel)


async def test_a_turn_of_text_streams_it_and_ends(stage: Callable[..., Stage]) -> None:
    events = await stage("It is warm. 😀").turn(ASK)
    assert text_of(events) == "It is warm. 😀"
    end = end_of(events)
    assert end.reason == "stop"
    assert end.usage.sampled_tokens == len("It is warm. 😀".encode()) + 1
    t = end.timings
    assert t.wall_s >= t.prefill_s + t.sampled_s + t.forced_s > 0 and t.render_s > 0 and t.tool_s == 0


async def test_a_call_streams_its_arguments_and_costs_no_pass_for_what_is_forced(
    stage: Callable[..., Stage],
) -> None:
    one = stage(CALL)
    events = await one.turn(ASK)
    (call,) = calls_of(events)
    assert call == ToolCall("call_0001", "weather", '{"city": "Oslo", "unit": "c"}')
    kinds = [type(e) for e in events]
    assert kinds.index(CallStarted) < kinds.index(CallDelta) < kinds.index(CallReady)
    assert "".join(e.text for e in events if isinstance(e, CallDelta)) == call.arguments
    end = end_of(events)
    assert end.usage.forced_tokens > 50
    assert end.usage.steps == end.usage.sampled_tokens
    # The prompt is pre-filled to its last chunk; from there on a pass a step, forced ids riding along.
    rows = end.usage.prompt_tokens + end.usage.completion_tokens
    assert len(one.backend.passes) == end.usage.steps + 1
    assert sum(one.backend.passes) in range(rows - 20, rows)  # a forced end is never run


async def test_a_model_that_writes_nonsense_still_makes_a_typed_call(folder: Path) -> None:
    async with Engine.load(folder, device="cpu") as engine:
        for seed in range(3):
            model = engine.model(sampling=SamplingParams(temperature=1.5, seed=seed))
            events = await events_of(model, ASK, tool_choice="required", max_calls=2)
            calls = calls_of(events)
            assert 1 <= len(calls) <= 2
            for call in calls:
                arguments = json.loads(call.arguments)
                if call.name == "weather":
                    assert arguments["unit"] in ("c", "f") and len(arguments["city"]) <= 8
                else:
                    assert call.name == "ping" and arguments == {}
            await model.aclose()


async def test_the_next_turn_computes_only_what_is_new(stage: Callable[..., Stage]) -> None:
    one = stage(CALL, "It is warm.", "You are welcome.")
    events = await one.turn(ASK)
    history: list[Message] = [*ASK, said(events), result_of(calls_of(events)[0])]
    events = await one.turn(history)
    usage = end_of(events).usage
    assert text_of(events) == "It is warm."
    assert usage.prompt_tokens == len(one.engine.chat.render(history, TOOLS))
    # The end of the call's turn, the result, and the opening of this one.
    assert usage.prefilled_tokens < 90 < usage.reused_tokens
    history += [said(events), UserMessage("Thanks")]
    events = await one.turn(history)
    assert text_of(events) == "You are welcome."
    assert end_of(events).usage.prefilled_tokens < 60


async def test_the_last_of_many_turns_computes_no_more_than_the_second(stage: Callable[..., Stage]) -> None:
    one = stage(*[CALL] * 12)
    history: list[Message] = list(ASK)
    ends: list[TurnEnd] = []
    for _ in range(12):
        events = await one.turn(history)
        ends.append(end_of(events))
        history += [said(events), result_of(calls_of(events)[0])]
    for end in ends:
        assert end.usage.reused_tokens + end.usage.prefilled_tokens == end.usage.prompt_tokens
    new = [end.usage.prefilled_tokens for end in ends[1:]]
    assert max(new) - min(new) <= 2, "the number of a call may take another token"
    (kv,) = one.backend.opened
    assert sum(one.backend.passes) == kv.length, "an id went through the model twice"
    assert one.model.counters.reused > 3 * one.model.counters.prefilled


async def test_a_context_without_room_for_a_turn_says_so_before_anything_is_computed(
    stage: Callable[..., Stage],
) -> None:
    one = stage("Warm.")

    def asking(length: int) -> tuple[list[Message], int]:
        """(so long a question, how many tokens the context has left behind it)"""
        ask: list[Message] = [UserMessage("x" * length)]
        return ask, TINY_CHAT.context - len(one.engine.chat.render(ask, TOOLS))

    ask, left = asking(1000 + asking(1000)[1] - 8)  # a token a letter
    assert left == 8
    with pytest.raises(ContextError, match=rf"holds 2048: {left + 1} left are too few for a turn"):
        await one.turn(ask)
    assert one.backend.passes == []
    assert end_of(await one.turn(ask, max_tokens=3, tool_choice="none")).reason in ("stop", "length")


async def test_going_on_gives_the_very_ids_that_rendering_everything_gives(
    stage: Callable[..., Stage],
) -> None:
    for plan_tokens, lead in ((0, ""), (30, "Look it up.\n")):
        one = stage(f"{lead}{CALL}", "Warm.", f"{lead}{CALL}", "Still warm.")
        history: list[Message] = list(ASK)
        for _ in range(4):
            events = await one.turn(history, plan_tokens=plan_tokens)
            assert list(one.model.prompt) == one.engine.chat.render(history, TOOLS)
            history.append(said(events))
            calls = calls_of(events)
            history += [result_of(c) for c in calls] if calls else [UserMessage("And now?")]
        ids = [c.id for m in history if isinstance(m, AssistantMessage) for c in m.calls]
        assert ids == ["call_0001", "call_0002"]


async def test_a_history_whose_beginning_is_gone_gets_no_id_twice(
    stage: Callable[..., Stage], rng: np.random.Generator
) -> None:
    first = int(rng.integers(1, 10_000))
    for ids, wanted in (
        ([f"call_{first:04d}", f"call_{first + 1:04d}"], f"call_{max(first + 2, 3):04d}"),
        (["a", "call_x", "call_" + "9" * int(rng.integers(10, 9_000))], "call_0004"),  # another program's
    ):
        history: list[Message] = list(ASK)
        for id in ids:
            asked = ToolCall(id, "weather", '{"city": "Oslo", "unit": "c"}')
            history += [AssistantMessage(calls=(asked,)), result_of(asked)]
        (made,) = calls_of(await stage(*[CALL] * 4).turn(history))
        assert made.id == wanted


async def test_calls_are_numbered_from_where_a_request_says(
    stage: Callable[..., Stage], rng: np.random.Generator
) -> None:
    least, ids, history, model = (
        int(rng.integers(3, 1000)),
        list[str](),
        list[Message](ASK),
        stage(*[CALL] * 3),
    )
    for first_call in (least, 2, least + 5):  # the second goes on from what the model made itself
        events = await model.turn(history, first_call=first_call)
        (made,) = calls_of(events)
        ids.append(made.id)
        history += [AssistantMessage(calls=(made,)), result_of(made)]
    assert ids == [f"call_{number:04d}" for number in (least, least + 1, least + 5)]


async def test_an_edited_history_is_rendered_anew_and_keeps_the_common_start(
    stage: Callable[..., Stage],
) -> None:
    one = stage("Warm.", "Fine.")
    await one.turn(ASK)
    edited = [*ASK, AssistantMessage("Cold."), UserMessage("Really?")]
    events = await one.turn(edited)
    assert text_of(events) == "Fine."
    usage = end_of(events).usage
    assert usage.prompt_tokens == len(one.engine.chat.render(edited, TOOLS))
    assert usage.reused_tokens >= len(one.engine.chat.render(ASK, TOOLS))


async def test_a_new_conversation_reuses_the_tools_part_of_an_ended_one(stage: Callable[..., Stage]) -> None:
    one = stage("Warm.")
    await one.turn(ASK)
    await one.model.aclose()
    other = one.engine.as_model()
    events = await events_of(other, [ASK[0], UserMessage("Something else?")])
    usage = end_of(events).usage
    assert usage.reused_tokens > usage.prefilled_tokens > 0
    assert text_of(events) == "Warm."


async def test_a_plan_is_its_own_event_and_ends_at_the_line(stage: Callable[..., Stage]) -> None:
    one = stage(f"I look up the weather.\n{CALL}")
    events = await one.turn(ASK, plan_tokens=60)
    assert plan_of(events) == "I look up the weather."
    assert text_of(events) == ""
    assert len(calls_of(events)) == 1
    usage = end_of(events).usage
    assert usage.prompt_tokens == len(one.engine.chat.render(ASK, TOOLS)) + len("\n")


async def test_a_plan_ends_at_its_budget_and_the_act_follows(stage: Callable[..., Stage]) -> None:
    one = stage(f"I look {CALL}")
    events = await one.turn(ASK, plan_tokens=6, tool_choice="required")
    assert plan_of(events) == "I look"
    assert [c.name for c in calls_of(events)] == ["weather"]


async def test_a_plan_ends_at_the_trigger_of_a_call(stage: Callable[..., Stage]) -> None:
    for lead in ("", "Now: "):
        one = stage(f"{lead}{CALL}")
        events = await one.turn(ASK, plan_tokens=60)
        assert plan_of(events) == lead
        assert len(calls_of(events)) == 1


async def test_a_plan_that_ends_the_turn_is_the_answer(stage: Callable[..., Stage]) -> None:
    one = stage("Yes, it is.", "Good.")
    events = await one.turn(ASK, plan_tokens=60)
    assert plan_of(events) == text_of(events) == "Yes, it is."
    assert end_of(events).reason == "stop"
    after = await one.turn([*ASK, said(events), UserMessage("Good?")], plan_tokens=60)
    assert text_of(after) == "Good."
    assert end_of(after).usage.prefilled_tokens < 60


@pytest.mark.parametrize("choice", ["required", "weather", "ping"])
async def test_a_model_that_ends_its_turn_in_the_plan_still_makes_a_required_call(
    stage: Callable[..., Stage], choice: str
) -> None:
    one = stage("Nothing to do.")
    events = await one.turn(ASK, plan_tokens=60, tool_choice=choice)
    assert plan_of(events) == "Nothing to do."
    assert text_of(events) == ""
    calls = calls_of(events)
    assert calls and all(c.complete and (choice == "required" or c.name == choice) for c in calls)
    for call in calls:
        json.loads(call.arguments)


async def test_a_model_that_ends_its_turn_in_the_plan_still_writes_the_asked_object(
    stage: Callable[..., Stage],
) -> None:
    schema = {"type": "object", "properties": {"warm": {"type": "boolean"}}, "required": ["warm"]}
    one = stage("Nothing to do.")
    events = await one.turn(ASK, plan_tokens=60, output_schema=schema, tools=())
    assert plan_of(events) == "Nothing to do."
    assert set(json.loads(text_of(events))) == {"warm"}


async def test_turning_forced_runs_or_the_grammar_off_changes_the_cost_and_not_the_call(
    stage: Callable[..., Stage],
) -> None:
    one = stage(CALL)
    results = []
    for model in (
        one.engine.model(),
        one.engine.model(forced_runs=False),
        one.engine.model(constrained=False),
    ):
        events = await events_of(model, ASK)
        results.append((calls_of(events), end_of(events).usage))
        await model.aclose()
    assert results[0][0] == results[1][0] == results[2][0]
    assert results[0][1].forced_tokens > 0 == results[1][1].forced_tokens == results[2][1].forced_tokens
    assert results[0][1].completion_tokens == results[1][1].completion_tokens
    assert results[0][1].steps < results[1][1].steps


@pytest.mark.parametrize("constrained", [True, False])
async def test_a_repeated_call_ends_a_turn_of_distinct_calls_and_is_not_told(
    stage: Callable[..., Stage], constrained: bool
) -> None:
    rome = CALL.replace("Oslo", "Rome")
    one = stage("\n".join((CALL, rome, CALL, PING_CALL)), "Warm.")
    plain = one.engine.model(constrained=constrained)
    assert [c.name for c in calls_of(await events_of(plain, ASK))] == ["weather"] * 3 + ["ping"]
    model = one.engine.model(constrained=constrained, distinct_calls=True)
    events = await events_of(model, ASK)
    assert [json.loads(c.arguments)["city"] for c in calls_of(events)] == ["Oslo", "Rome"]
    assert sum(isinstance(e, CallStarted) for e in events) == 2 and end_of(events).reason == "stop"
    assert end_of(events).ids == ()  # they would say more than was told
    said = AssistantMessage(calls=tuple(calls_of(events)))
    results = [ToolMessage(ToolResult(c.id, c.name, "9")) for c in said.calls]
    again = await events_of(model, (*ASK, said, *results))
    assert text_of(again) == "Warm." and end_of(again).usage.reused_tokens > 0
    prompt = one.engine.chat.render((*ASK, said, *results), TOOLS)
    assert end_of(again).usage.prompt_tokens == len(prompt)


async def test_a_turn_of_distinct_calls_tells_each_event_of_calls_that_differ(
    stage: Callable[..., Stage],
) -> None:
    one = stage("\n".join((CALL, CALL.replace("Oslo", "Rome"))))
    told = []
    for distinct in (False, True):
        model = one.engine.model(distinct_calls=distinct)
        events = await events_of(model, ASK)
        text = {c.id: "" for c in calls_of(events)}
        for e in events:
            if isinstance(e, CallDelta):
                text[e.call_id] += e.text
        told.append(
            (text, [e for e in events if isinstance(e, CallStarted | CallReady)], end_of(events).reason)
        )
        await model.aclose()
    assert told[0] == told[1] and len(told[0][0]) == 2


async def test_a_model_without_reuse_computes_everything_each_turn(tokenizer: Tokenizer) -> None:
    backend = Scripted(tokenizer, ["Warm.", "Yes."], None)
    async with Engine(EngineCore(lambda: backend), tokenizer) as engine:
        model = engine.model(reuse=False)
        events = await events_of(model, ASK)
        events = await events_of(model, [*ASK, said(events), UserMessage("Sure?")])
        assert end_of(events).usage.reused_tokens == 0
        await model.aclose()


async def test_a_call_cut_by_the_token_limit_says_that_it_is_cut(stage: Callable[..., Stage]) -> None:
    events = await stage(CALL).turn(ASK, max_tokens=60)
    (call,) = calls_of(events)
    assert not call.complete
    assert '{"city": "Oslo", "unit": "c"}'.startswith(call.arguments)
    assert end_of(events).reason == "length"
    assert end_of(events).usage.completion_tokens == 60


async def test_tool_choice_is_enforced_whatever_the_model_wants(stage: Callable[..., Stage]) -> None:
    assert [c.name for c in calls_of(await stage("Warm.").turn(ASK, tool_choice="ping", max_calls=1))] == [
        "ping"
    ]
    events = await stage(CALL).turn(ASK, tool_choice="none", max_tokens=40)
    assert calls_of(events) == ()
    events = await stage("Warm.").turn(ASK, tool_choice="required", max_calls=1, max_tokens=200)
    assert len(calls_of(events)) == 1


async def test_an_output_schema_makes_the_text_json(stage: Callable[..., Stage]) -> None:
    schema = {
        "type": "object",
        "properties": {"warm": {"type": "boolean"}},
        "required": ["warm"],
        "additionalProperties": False,
    }
    events = await stage("Well, it is warm.").turn(ASK, tools=(), output_schema=schema)
    assert isinstance(json.loads(text_of(events))["warm"], bool)
    assert end_of(events).reason == "stop"


async def test_leaving_a_turn_at_any_event_leaves_a_conversation_that_goes_on(
    stage: Callable[..., Stage],
) -> None:
    turn = f"I look.\n{CALL}"
    whole = await stage(turn).turn(ASK, plan_tokens=30)
    for count in range(len(whole) - 1):
        one = stage(turn)
        stream = one.model.stream(TurnRequest(ASK, TOOLS, plan_tokens=30))
        for _ in range(count):  # several deltas may come as one
            await anext(stream, None)
        await stream.aclose()
        await stream.aclose()
        assert await anext(stream, None) is None
        jobs = one.engine._core._worker._queue.jobs
        assert await one.engine._core._worker.call(lambda jobs=jobs: len(jobs)) == 1  # type: ignore[misc]
        again = await one.turn(ASK, plan_tokens=30)
        assert (plan_of(again), calls_of(again)) == (plan_of(whole), calls_of(whole))
        assert end_of(again).usage.prompt_tokens == end_of(whole).usage.prompt_tokens


async def test_a_cancelled_turn_re_raises_and_the_next_one_works(stage: Callable[..., Stage]) -> None:
    whole = await stage(CALL).turn(ASK)
    for turns in range(0, 40, 3):
        one = stage(CALL)
        task = asyncio.ensure_future(one.turn(ASK))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        assert calls_of(await one.turn(ASK)) == calls_of(whole)


async def test_an_error_in_the_middle_is_raised_and_the_next_turn_works(stage: Callable[..., Stage]) -> None:
    broken = True

    def explode(rows: Sequence[int]) -> None:
        if broken and len(one.backend.passes) == 4:
            raise ModelError("NaN planted")

    one = stage("It is warm.", on_pass=explode)
    with pytest.raises(ModelError, match="NaN planted"):
        await one.turn(ASK)
    broken = False
    assert text_of(await one.turn(ASK)) == "It is warm."


async def test_several_models_on_one_engine_do_not_disturb_each_other(stage: Callable[..., Stage]) -> None:
    one = stage(f"I look.\n{CALL}", "It is warm.")

    async def converse(i: int) -> str:
        model = one.engine.as_model()
        history: list[Message] = [SystemMessage(f"You are number {i}."), UserMessage("Is it warm?")]
        events = await events_of(model, history, plan_tokens=20)
        history += [said(events), result_of(calls_of(events)[0], f"{i} degrees")]
        answer = text_of(await events_of(model, history))
        await model.aclose()
        return answer

    assert await asyncio.gather(*(converse(i) for i in range(6))) == ["It is warm."] * 6


async def test_requests_that_make_no_sense_are_refused_by_name_before_any_work(
    stage: Callable[..., Stage],
) -> None:
    one = stage("Warm.")
    for fields, words in (
        ({"messages": ()}, "the list of messages is empty"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"max_calls": 0}, "max_calls=0"),
        ({"plan_tokens": -1}, "plan_tokens=-1"),
        ({"tools": (PING, PING)}, "two tools are named 'ping'"),
        ({"tool_choice": "wether"}, "tool_choice='wether': there is no such tool. Tools: 'ping', 'weather'"),
        ({"tool_choice": "required", "tools": ()}, "tool_choice='required'"),
    ):
        with pytest.raises(InputError, match=words):
            one.model.stream(replace(TurnRequest(ASK, TOOLS), **fields))
    with pytest.raises(ContextError, match=r"tokens, the context holds 2048"):
        await one.turn([UserMessage("x" * 5000)])
    with pytest.raises(SchemaError, match="frob"):
        await one.turn(ASK, tools=(replace(PING, parameters={"type": "object", "frob": 1}),))
    with pytest.raises(InputError, match="lone surrogate"):
        await one.turn([UserMessage("\ud800")])
    assert one.backend.passes == []
    assert text_of(await one.turn(ASK)) == "Warm."


async def test_messages_stream_through_the_template(stage: Callable[..., Stage]) -> None:
    one = stage("It is warm.")
    stream = one.engine.stream(ASK)
    assert await stream.text() == "It is warm."
    assert stream.usage.prompt_tokens == len(Chat(one.engine.tokenizer).render(ASK))
    with pytest.raises(InputError, match="the list of messages is empty"):
        one.engine.stream([])


async def test_it_keeps_the_loops_contract(folder: Path) -> None:
    async with Engine.load(folder, device="cpu", dtype="float32") as engine:
        made: list[LocalModel] = []

        def make() -> LocalModel:
            made.append(engine.model(sampling=SamplingParams(temperature=1.0, seed=len(made))))
            return made[-1]

        await check_model(make, reuses=True)
        for model in made:
            await model.aclose()


async def test_two_agents_share_one_engine(stage: Callable[..., Stage]) -> None:
    one = stage(f"I look.\n{CALL}", "It is warm.")
    asked: list[str] = []

    async def weather(city: str, unit: Literal["c", "f"]) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"12 degrees {unit}"

    agents = [Agent(one.engine, [weather], instructions=f"Be number {i}.", plan=20) for i in range(2)]
    results = await asyncio.gather(*(agent.run("Is it warm in Oslo?") for agent in agents))
    for result in results:
        assert result.output == "It is warm."
        assert result.turns == 2 and result.reason == "finished"
        assert result.usage.reused_tokens > result.usage.forced_tokens > 50
        plans = [m.plan for m in result.messages if isinstance(m, AssistantMessage)]
        assert plans == ["I look.", ""]
    assert asked == ["Oslo", "Oslo"]
    assert one.engine.usage.completion_tokens == sum(r.usage.completion_tokens for r in results)


async def test_an_agent_left_early_leaves_an_idle_engine(stage: Callable[..., Stage]) -> None:
    for _ in range(20):
        one = stage(CALL, "It is warm.")
        async with Agent(one.engine, [weather_of]).stream("Is it warm?") as events:
            async for _event in events:
                break
        jobs = one.engine._core._worker._queue.jobs
        assert await one.engine._core._worker.call(lambda jobs=jobs: len(jobs)) == 1  # type: ignore[misc]


def weather_of(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 12"
