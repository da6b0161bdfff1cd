"""Runs of an agent with scripted models: events, results, budgets, plans, structured output, errors."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, assert_never

import numpy as np
import pytest
from pydantic import BaseModel, Field

from kogagent import (
    Agent,
    AgentEvent,
    AskedAgain,
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    Compacted,
    Compaction,
    Guardrails,
    HandedOff,
    Hooks,
    InputError,
    Limits,
    ModelError,
    Nested,
    ObserveDelta,
    PlanDelta,
    Retry,
    RunContext,
    RunFinished,
    RunResult,
    SamplingParams,
    SchemaError,
    SystemMessage,
    TextDelta,
    Timings,
    Toolbox,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
    Transcript,
    TurnEnd,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    Usage,
    UserMessage,
    messages_from_json,
    messages_to_json,
    tool,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import Case, FunctionModel, ScriptedModel, ScriptedTurn, call
from kogagent.types import ModelEvent


@tool
async def ls(path: str = ".") -> list[str]:
    """List a folder."""
    return ["a.txt", path]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "kogagent.tools")


def tool_texts(result: RunResult) -> list[str]:
    return [m.result.text for m in result.messages if isinstance(m, ToolMessage)]


def statuses(result: RunResult) -> list[str]:
    return [m.result.status for m in result.messages if isinstance(m, ToolMessage)]


async def events_of(agent: Agent, prompt: str = "go", **options: Any) -> list[AgentEvent]:
    async with agent.stream(prompt, **options) as stream:
        return [event async for event in stream]


# ── events and results ───────────────────────────────────────────────────────────────────────


async def test_a_run_calls_a_tool_reads_its_result_and_answers() -> None:
    model = ScriptedModel(call("add", a=1, b=2), "It is 3.")
    result = await Agent(model, [add], instructions="Be brief.").run("1 + 2?")
    assert (result.output, result.turns, result.reason) == ("It is 3.", 2, "finished")
    asked = ToolCall("call_1", "add", '{"a": 1, "b": 2}')
    assert result.messages[:3] == (
        SystemMessage("Be brief."),
        UserMessage("1 + 2?"),
        AssistantMessage("", "", (asked,)),
    )
    assert tool_texts(result) == ["3"] and result.messages[-1] == AssistantMessage("It is 3.")
    assert model.requests[1].messages == result.messages[:-1]
    assert [spec.name for spec in model.requests[0].tools] == ["add"]


async def test_events_come_typed_and_in_order_and_the_union_is_closed() -> None:
    def name(event: AgentEvent) -> str:
        match event:
            case ObserveDelta(text) | PlanDelta(text) | TextDelta(text) | CallDelta(_, text):
                return text
            case CallStarted() | CallReady() | ToolStarted() | ToolFinished() | TurnEnd():
                return type(event).__name__
            case TurnStarted() | TurnFinished() | TurnRetried() | HandedOff():
                return type(event).__name__
            case Compacted() | ToolProgress() | Nested() | AskedAgain() | RunFinished():
                return type(event).__name__
            case _:
                assert_never(event)

    model = ScriptedModel(ScriptedTurn("so", (call("ls"),), plan="look"), "done", delta=2)
    names = [name(event) for event in await events_of(Agent(model, [ls]))]
    assert names == [
        *["TurnStarted", "lo", "ok", "so", "CallStarted", "{}", "CallReady", "TurnEnd"],
        *["ToolStarted", "ToolFinished", "TurnFinished"],
        *["TurnStarted", "do", "ne", "TurnEnd", "TurnFinished", "RunFinished"],
    ]


async def test_argument_deltas_concatenate_to_the_arguments() -> None:
    for size in (1, 3, 1000):
        model = ScriptedModel(call("add", a=10, b=200), "x", delta=size)
        events = await events_of(Agent(model, [add]))
        ready = next(event for event in events if isinstance(event, CallReady))
        assert "".join(e.text for e in events if isinstance(e, CallDelta)) == ready.call.arguments


async def test_run_and_stream_come_to_the_same() -> None:
    def agent() -> Agent:
        return Agent(ScriptedModel(["look", call("ls"), call("add", a=1, b=1)], "done"), [ls, add])

    ran = await agent().run("go")
    events = await events_of(agent())
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert dataclasses.replace(last.result, timings=Timings()) == dataclasses.replace(ran, timings=Timings())


def test_run_sync_works_without_a_loop() -> None:
    assert Agent(ScriptedModel("hi")).run_sync("go").output == "hi"


async def test_run_sync_refuses_to_block_a_running_loop() -> None:
    with pytest.raises(InputError, match=r"await agent\.run"):
        Agent(ScriptedModel("hi")).run_sync("go")


async def test_text_before_a_call_is_kept_as_the_plan() -> None:
    turn = ScriptedTurn("I add. ", (call("add", a=1, b=1),), plan="Think: ")
    result = await Agent(ScriptedModel(turn, ScriptedTurn("2", plan="Now answer.")), [add]).run("go")
    assert isinstance(result.messages[1], AssistantMessage)
    assert (result.messages[1].plan, result.messages[1].text) == ("Think: I add. ", "")
    assert result.messages[-1] == AssistantMessage("2", "Now answer.") and result.output == "2"


@pytest.mark.parametrize(("plan", "tokens"), [(False, 0), (True, 64), (17, 17)])
async def test_the_planning_phase_has_its_own_budget(plan: bool | int, tokens: int) -> None:
    model = ScriptedModel(call("ls"), "done")
    await Agent(model, [ls], plan=plan).run("go")
    assert [request.plan_tokens for request in model.requests] == [tokens, tokens]
    alone = ScriptedModel("done")
    await Agent(alone, plan=plan).run("go")
    assert alone.requests[0].plan_tokens == 0  # nothing to plan without tools


async def test_usage_and_timings_add_up_and_tool_time_is_wall_time() -> None:
    usage, timings = (
        Usage(1, 2, 3, 4, 5),
        Timings(prefill_s=0.25, sampled_s=0.5, render_s=0.125, wall_s=900, tool_s=900),
    )
    model = ScriptedModel(
        ScriptedTurn("", (call("ls"), call("ls", path="x")), usage=usage, timings=timings),
        ScriptedTurn("done", usage=usage, timings=timings),
    )
    result = await Agent(model, [ls]).run("go")
    assert result.usage == usage + usage
    assert (result.timings.prefill_s, result.timings.sampled_s, result.timings.render_s) == (0.5, 1.0, 0.25)
    assert 0 < result.timings.tool_s < result.timings.wall_s < 900


async def test_time_of_parallel_tools_is_counted_once() -> None:
    barrier = asyncio.Barrier(4)

    async def meet(n: int) -> None:
        await barrier.wait()

    calls = [call("meet", n=n) for n in range(4)]
    events = await events_of(Agent(ScriptedModel(calls, "done"), [meet]))
    last = events[-1]
    assert isinstance(last, RunFinished)
    spans = [event.seconds for event in events if isinstance(event, ToolFinished)]
    assert max(spans) <= last.result.timings.tool_s < sum(spans)


async def test_results_enter_the_history_in_the_order_of_the_calls() -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def turn(n: int) -> int:
        if n < 3:
            await gates[n + 1].wait()  # the last call finishes first
        gates[n].set()
        return n

    model = ScriptedModel([call("turn", n=n) for n in range(4)], "done")
    events = await events_of(Agent(model, [turn]))
    assert [e.result.text for e in events if isinstance(e, ToolFinished)] == ["3", "2", "1", "0"]
    last = events[-1]
    assert isinstance(last, RunFinished) and tool_texts(last.result) == ["0", "1", "2", "3"]


async def test_no_more_calls_run_at_once_than_the_limit_allows() -> None:
    running, most = 0, 0

    async def work(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    calls = [call("work", n=n) for n in range(8)]
    await Agent(ScriptedModel(calls, "x"), [work], limits=Limits(parallel_calls=3)).run("go")
    assert most == 3


@pytest.mark.parametrize("given", [None, "Ada"])
async def test_a_tool_that_fails_for_want_of_deps_says_so_to_the_developer(given: str | None) -> None:
    async def shout(context: RunContext[str]) -> str:
        context.deps.upper()
        raise AttributeError("of its own")

    result = await Agent(ScriptedModel(call("shout"), "x"), [shout]).run("go", deps=given)
    error = result.failures[0].error
    assert isinstance(error, AttributeError)
    notes = getattr(error, "__notes__", [])
    assert notes == ([] if given else ["The run was given no deps. Pass deps=… to it."])


async def test_deps_reach_tools_and_instructions() -> None:
    async def who(context: RunContext[str]) -> str:
        return f"{context.deps} in turn {context.turn} after {len(context.messages)} messages"

    model = ScriptedModel(call("who"), "x")
    result = await Agent(model, [who], instructions=lambda deps: f"You serve {deps}.").run("go", deps="Ada")
    assert result.messages[0] == SystemMessage("You serve Ada.")
    assert tool_texts(result) == ["Ada in turn 1 after 3 messages"]


async def test_instructions_are_asked_for_once_a_run_so_that_the_prefix_stays() -> None:
    times = iter(range(100))
    model = ScriptedModel(call("ls"), call("ls", path="x"), "x")
    await Agent(model, [ls], instructions=lambda deps: f"It is {next(times)} o'clock.").run("go")
    assert {request.messages[0] for request in model.requests} == {SystemMessage("It is 0 o'clock.")}


async def test_async_instructions_are_awaited_and_bad_ones_refused() -> None:
    async def instructions(deps: Any) -> str:
        return "async"

    result = await Agent(ScriptedModel("x"), instructions=instructions).run("go")
    assert result.messages[0] == SystemMessage("async")
    with pytest.raises(InputError, match="not text"):
        await Agent(ScriptedModel("x"), instructions=lambda deps: 3).run("go")  # type: ignore[arg-type,return-value]


async def test_tools_are_shown_in_the_same_order_every_turn_and_every_time() -> None:
    def agent(model: ScriptedModel) -> Agent:
        return Agent(model, {ls, add})

    first, second = ScriptedModel(call("ls"), "x"), ScriptedModel("x")
    await agent(first).run("go")
    await agent(second).run("go")
    orders = {tuple(spec.name for spec in r.tools) for r in (*first.requests, *second.requests)}
    assert orders == {("add", "ls")}


# ── history ──────────────────────────────────────────────────────────────────────────────────


async def test_a_run_goes_on_from_a_history_written_as_json() -> None:
    first = await Agent(ScriptedModel(call("ls"), "one"), [ls], instructions="S").run("go")
    history = messages_from_json(messages_to_json(first.messages))
    second = await Agent(ScriptedModel("two"), [ls], instructions="S").run("more", history=history)
    assert second.messages == (*first.messages, UserMessage("more"), AssistantMessage("two"))


async def test_a_transcript_is_appended_to_and_a_list_is_not() -> None:
    transcript = Transcript()
    result = await Agent(ScriptedModel("hi")).run("go", history=transcript)
    assert transcript.messages == result.messages
    messages = list(result.messages)
    await Agent(ScriptedModel("again")).run("more", history=messages)
    assert len(messages) == 2


async def test_requests_extend_each_other_so_that_a_prefix_can_be_reused() -> None:
    model = ScriptedModel(*[call("ls", path=str(n)) for n in range(5)], "x")
    await Agent(model, [ls], instructions="S").run("go")
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert tuple(after.messages)[: len(before.messages)] == tuple(before.messages)


async def test_a_history_alone_can_be_continued() -> None:
    result = await Agent(ScriptedModel("hi")).run(history=[UserMessage("go")])
    assert result.messages == (UserMessage("go"), AssistantMessage("hi"))


# ── calls that cannot be run ─────────────────────────────────────────────────────────────────


async def test_the_run_goes_on_after_an_unknown_tool_bad_arguments_and_a_cut_call() -> None:
    model = ScriptedModel(
        call("lz"),
        call("add", a="one", b=2),
        call("add", '{"a": 1, "b'),
        ScriptedTurn(calls=(ToolCall("", "add", '{"a": 1', complete=False),), reason="length"),
        "sorry",
    )
    result = await Agent(model, [ls, add]).run("go")
    assert statuses(result) == ["unknown_tool", "invalid", "invalid", "truncated"]
    texts = tool_texts(result)
    assert "The tools are: ls, add." in texts[0] and "a: input should be a valid integer" in texts[1]
    assert '{"a": 1' in texts[3]
    assert result.output == "sorry"


@pytest.mark.usefixtures("quiet")
async def test_a_tools_exception_is_text_in_the_history_and_an_exception_in_the_event() -> None:
    @tool
    async def broken() -> None:
        raise TypeError("unsupported operand")

    events = await events_of(Agent(ScriptedModel(call("broken"), "x"), [broken]))
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert finished.result.text == "broken failed with TypeError: unsupported operand"
    assert isinstance(finished.error, TypeError) and finished.error.__traceback__ is not None
    last = events[-1]
    assert isinstance(last, RunFinished) and last.result.failures == (finished,)


@pytest.mark.usefixtures("quiet")
async def test_the_fatal_policy_cancels_the_calls_beside_and_awaits_them() -> None:
    wrote: list[str] = []
    slow_runs, cleaned = asyncio.Event(), asyncio.Event()

    async def bad() -> None:
        await slow_runs.wait()
        raise RuntimeError("fatal")

    async def slow() -> None:
        slow_runs.set()
        try:
            await asyncio.Event().wait()
            wrote.append("file")
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    transcript = Transcript()
    agent = Agent(ScriptedModel([call("slow"), call("bad")]), [bad, slow], on_tool_error="raise")
    with pytest.raises(RuntimeError, match="fatal"):
        await agent.run("go", history=transcript)
    assert cleaned.is_set() and not wrote
    results = [m.result.status for m in transcript.messages if isinstance(m, ToolMessage)]
    assert results == ["cancelled", "failed"]


async def test_the_fatal_policy_spares_what_a_tool_raises_on_purpose() -> None:
    async def picky() -> None:
        raise Retry("not so")

    result = await Agent(ScriptedModel(call("picky"), "x"), [picky], on_tool_error="raise").run("go")
    assert statuses(result) == ["retry"] and result.output == "x"


async def test_a_tool_that_asks_for_retries_too_often_is_given_up_for_the_model() -> None:
    async def picky(n: int) -> None:
        raise Retry("not so")

    model = ScriptedModel(*[call("picky", n=n) for n in range(4)], "x")
    result = await Agent(model, [picky], limits=Limits(tool_retries=2)).run("go")
    assert statuses(result) == ["retry", "retry", "failed", "failed"]
    given_up = "This was attempt 3: stop calling picky and go on without."
    assert tool_texts(result)[1:3] == ["not so. Correct the call and try again.", f"not so.\n{given_up}"]
    assert len(result.failures) == 4


async def test_what_a_tool_says_when_it_is_given_up_is_as_short_as_before_and_as_a_hook_left_it(
    rng: np.random.Generator,
) -> None:
    secret = "".join(rng.choice(list("abcdefgh"), rng.integers(500, 5_000)))

    async def picky(n: int) -> None:
        raise Retry(f"{secret} \ud800")

    def hide(asked: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, text="hidden")

    for hooks in (Hooks(), Hooks(after_call=hide)):
        model = ScriptedModel(call("picky", n=0), call("picky", n=1), "x")
        result = await Agent(model, [picky], limits=Limits(tool_retries=1), hooks=hooks).run("go")
        first, last = tool_texts(result)
        said = first.removesuffix(Retry.advice).rstrip()
        assert last == f"{said}\nThis was attempt 2: stop calling picky and go on without."
        assert secret not in last and "\ud800" not in last


# ── limits ───────────────────────────────────────────────────────────────────────────────────


async def test_a_model_that_repeats_a_call_for_ever_is_told_and_then_stopped() -> None:
    model = ScriptedModel(call("ls"), repeat=True)
    result = await Agent(model, [ls], limits=Limits(repeated_calls=3)).run("go")
    assert result.reason == "repeated_call" and result.turns == 7
    told = ["same call gave the same result" in text for text in tool_texts(result)]
    assert told == [False, False, True, True, True, True, True]


async def test_a_circle_of_several_calls_is_seen_too() -> None:
    model = ScriptedModel(call("ls", path="a"), call("ls", path="b"), repeat=True)
    result = await Agent(model, [ls], limits=Limits(repeated_calls=3)).run("go")
    assert result.reason == "repeated_call" and result.turns < 12


async def test_the_same_call_with_a_new_result_is_no_repetition() -> None:
    count = 0

    async def poll() -> int:
        nonlocal count
        count += 1
        return count

    model = ScriptedModel(*[call("poll") for _ in range(20)], "ready")
    result = await Agent(model, [poll], limits=Limits(repeated_calls=2)).run("go")
    assert result.output == "ready" and tool_texts(result) == [str(n) for n in range(1, 21)]


async def test_the_limit_of_turns_ends_the_run_with_its_name() -> None:
    model = ScriptedModel(*[ScriptedTurn("thinking", (call("ls", path=str(n)),)) for n in range(9)])
    result = await Agent(model, [ls], limits=Limits(max_turns=3)).run("go")
    assert (result.reason, result.turns, len(model.requests)) == ("max_turns", 3, 3)
    assert statuses(result) == ["ok"] * 3


async def test_a_run_may_have_limits_of_its_own_and_the_agent_keeps_its(rng: np.random.Generator) -> None:
    most = int(rng.integers(1, 5))
    own = Limits(max_turns=most)

    def agent() -> Agent[None, str]:
        return Agent(
            FunctionModel(lambda request: call("ls", path=str(len(request.messages)))),
            [ls],
            limits=Limits(max_turns=7),
        )

    async with agent().stream("go", limits=own) as stream:
        assert [event async for event in stream][-1] == RunFinished(stream.result)
    async with agent().conversation() as talk:
        talked = [await talk.run("go", limits=own), await talk.run("go")]
    best = await agent().best_of(2, "go", score=lambda result: result.turns, limits=own)
    runs = [await agent().run("go", limits=own), stream.result, *talked[:1], *best.results]
    runs.append(await asyncio.to_thread(agent().run_sync, "go", limits=own))
    assert [run.turns for run in runs if isinstance(run, RunResult)] == [most] * 6
    assert (talked[1].turns, talked[1].reason) == (7, "max_turns")


async def test_after_the_last_call_allowed_the_model_must_answer() -> None:
    model = ScriptedModel([call("ls", path=str(n)) for n in range(5)], "with what I have")
    result = await Agent(model, [ls], limits=Limits(max_calls=3)).run("go")
    assert statuses(result) == ["ok", "ok", "ok", "denied", "denied"]
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert (result.output, result.reason) == ("with what I have", "max_calls")


async def test_no_more_calls_of_one_turn_run_than_allowed() -> None:
    model = ScriptedModel([call("ls", path=str(n)) for n in range(5)], "x")
    result = await Agent(model, [ls], limits=Limits(turn_calls=2)).run("go")
    assert statuses(result) == ["ok", "ok", "denied", "denied", "denied"]
    assert result.reason == "finished" and model.requests[0].max_calls == 2


async def test_the_limit_of_tokens_shrinks_turns_and_then_ends_the_run() -> None:
    turn = ScriptedTurn("t", (call("ls"),), usage=Usage(sampled_tokens=30, forced_tokens=10))
    model = ScriptedModel(turn, repeat=True)
    limits = Limits(max_tokens=100, turn_tokens=50, repeated_calls=None)
    result = await Agent(model, [ls], limits=limits).run("go")
    assert [request.max_tokens for request in model.requests] == [50, 50, 20]
    assert (result.reason, result.usage.completion_tokens) == ("max_tokens", 120)


async def test_an_answer_cut_by_the_turns_limit_says_so() -> None:
    result = await Agent(ScriptedModel(ScriptedTurn("half an ans", reason="length"))).run("go")
    assert (result.output, result.reason) == ("half an ans", "max_tokens")


async def test_the_limit_of_seconds_cancels_what_runs_and_keeps_the_history_whole(
    pass_time: Callable[[float], None],
) -> None:
    async def forever() -> None:
        pass_time(60)
        await asyncio.Event().wait()

    agent = Agent(ScriptedModel(["wait", call("forever")]), [forever], limits=Limits(max_seconds=60))
    events = await events_of(agent)
    last = events[-1]
    assert isinstance(last, RunFinished) and last.result.reason == "max_seconds"
    assert statuses(last.result) == ["cancelled"]
    assert [e.result.status for e in events if isinstance(e, ToolFinished)] == ["cancelled"]


async def test_the_limit_of_seconds_ends_a_model_that_hangs(pass_time: Callable[[float], None]) -> None:
    async def hang(request: TurnRequest) -> str:
        pass_time(60)
        await asyncio.Event().wait()
        return "never"

    result = await Agent(FunctionModel(hang), limits=Limits(max_seconds=60)).run("go")
    assert (result.reason, result.output) == ("max_seconds", "")


async def test_a_timeout_error_of_the_model_is_not_taken_for_the_limit() -> None:
    def slow(request: TurnRequest) -> str:
        raise TimeoutError("the model's own")

    with pytest.raises(TimeoutError, match="the model's own"):
        await Agent(FunctionModel(slow), limits=Limits(max_seconds=60)).run("go")


@pytest.mark.parametrize("choice", ["required", "ls"])
async def test_a_required_call_is_required_until_one_was_made(choice: str) -> None:
    model = ScriptedModel(call("ls"), "x")
    await Agent(model, [ls, add], tool_choice=choice).run("go")
    assert [request.tool_choice for request in model.requests] == [choice, "auto"]


# ── structured output ────────────────────────────────────────────────────────────────────────


@dataclass
class Blob:
    data: bytes


class Weather(BaseModel):
    city: str
    degrees: Annotated[int, Field(ge=-90, le=60)]
    unit: Literal["c", "f"] = "c"


async def test_the_answer_is_the_output_type() -> None:
    model = ScriptedModel(call("ls"), '{"city": "Oslo", "degrees": 3}')
    result = await Agent(model, [ls], output_type=Weather).run("go")
    assert result.output == Weather(city="Oslo", degrees=3)
    schema = model.requests[0].output_schema
    assert schema is not None and schema["required"] == ["city", "degrees"]
    assert schema["properties"]["degrees"] == {"type": "integer", "minimum": -90, "maximum": 60}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "3", 3),
        (list[int], "[1, 2]", [1, 2]),
        (Literal["yes", "no"], '"no"', "no"),
        (bool, "true", True),
        (Blob, '{"data": "_-8="}', Blob(b"\xff\xef")),
    ],
)
async def test_an_output_type_may_be_any_json_value(kind: Any, text: str, value: Any) -> None:
    result = await Agent(ScriptedModel(text), output_type=kind).run("go")
    assert result.output == value and type(result.output) is type(value)


async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    model = ScriptedModel('{"city": "Oslo", "degrees": 99}', "Oslo, 3", '{"city": "Oslo", "degrees": 3}')
    events = await events_of(Agent(model, output_type=Weather))
    asked = [event.reason for event in events if isinstance(event, AskedAgain)]
    assert "degrees: input should be less than or equal to 60" in asked[0] and "JSON" in asked[1]
    last = events[-1]
    assert isinstance(last, RunFinished) and last.result.output == Weather(city="Oslo", degrees=3)
    assert last.result.messages[2] == UserMessage(asked[0])


async def test_an_answer_that_never_fits_is_the_models_error_after_a_bounded_number_of_attempts() -> None:
    model = ScriptedModel("no", repeat=True)
    transcript = Transcript()
    with pytest.raises(ModelError, match=r"after 3 attempts.*not valid|after 3 attempts"):
        await Agent(model, output_type=Weather, limits=Limits(output_retries=2)).run("go", history=transcript)
    assert len(model.requests) == 3 and transcript.messages[-1] == AssistantMessage("no")


async def test_an_answer_given_up_is_shown_in_the_error_head_and_tail_with_what_may_help(
    rng: np.random.Generator,
) -> None:
    middle = "," * int(rng.integers(1_000, 100_000))
    model = ScriptedModel(f"Oslo{middle}Bergen")
    with pytest.raises(ModelError, match=r"'Oslo,+\.\.\.,+Bergen'.*max_length") as raised:
        await Agent(model, output_type=Weather, limits=Limits(output_retries=0)).run("go")
    assert len(str(raised.value)) < 1_000


async def test_a_limit_leaves_no_half_made_output() -> None:
    model = ScriptedModel(call("ls"), repeat=True)
    result = await Agent(model, [ls], output_type=Weather, limits=Limits(max_turns=2)).run("go")
    assert (result.output, result.reason) == (None, "max_turns")


async def test_an_agent_can_be_a_tool_of_another() -> None:
    inner = Agent(ScriptedModel("42"), name="calculator")
    outer_model = ScriptedModel(call("calculator", task="6 * 7"), "It is 42.")
    outer = Agent(outer_model, [inner.as_tool(description="Calculates.")])
    result = await outer.run("6 * 7?")
    assert tool_texts(result) == ["42"] and result.output == "It is 42."


# ── models that misbehave ────────────────────────────────────────────────────────────────────


class Raw:
    """A model that yields what it is given, and knows whether it was closed."""

    def __init__(self, *events: Any) -> None:
        self.events = events
        self.closed = False

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        try:
            for event in self.events:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.closed = True


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([TextDelta("x")], "without a TurnEnd"),
        ([], "without a TurnEnd"),
        ([TurnEnd("stop"), TextDelta("x")], "went on after the end"),
        ([TurnEnd("cancelled")], "cancelled"),
        (["text"], "no ModelEvent"),
        ([CallReady(ToolCall("1", "ls", {"path": "/"}))], "arguments are texts"),  # type: ignore[arg-type]
        ([CallReady(ToolCall("1", None, "{}"))], "name and arguments are texts"),  # type: ignore[arg-type]
        ([TextDelta(None), TurnEnd("stop")], "something else than text"),  # type: ignore[arg-type]
        ([CallReady(ToolCall("1", "ls", "{}")), CallReady(ToolCall("1", "ls", "{}"))], "two calls.*'1'"),
    ],
)
async def test_a_model_that_breaks_its_contract_is_a_model_error(events: list[Any], words: str) -> None:
    model = Raw(*events)
    with pytest.raises(ModelError, match=words):
        await Agent(model, [ls]).run("go")
    assert model.closed


async def test_a_models_error_reaches_the_caller_after_the_events_before_it() -> None:
    seen: list[AgentEvent] = []
    stream = Agent(Raw(TextDelta("a"), ModelError("NaN"))).stream("go")
    with pytest.raises(ModelError, match="NaN"):
        while True:
            seen.append(await anext(stream))
    assert seen[-1] == TextDelta("a")
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_source_gives_each_run_a_model_of_its_own_and_it_is_closed() -> None:
    made: list[Any] = []

    class Conversation(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    class Source:
        def as_model(self) -> Conversation:
            made.append(Conversation(call("broken") if made else "hi"))
            model: Conversation = made[-1]
            return model

    agent = Agent(Source())
    await agent.run("go")
    with pytest.raises(ModelError):
        await agent.run("go")  # the second script ends early
    assert len(made) == 2 and all(model.closed for model in made)


# ── bad input ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gpt"}, r"'gpt' is no model.*Pass an Engine: Engine\.load\('gpt'\)\."),
        ({"model": 3}, r"3 is no model.*Pass an Engine\.$"),
        ({"model": ScriptedModel}, "class"),
        ({"tools": "ls"}, "list of functions"),
        ({"tools": [ls, ls]}, "two tools"),
        ({"tools": [3]}, r"3 is no function.*cannot be a tool\.$"),
        ({"tools": [Toolbox([ls])]}, "no function"),
        ({"instructions": 3}, "instructions"),
        ({"instructions": lambda: "x"}, r"^instructions: <lambda>\(\) must take the run's deps$"),
        ({"plan": -1}, "plan=-1"),
        ({"plan": "yes"}, "plan='yes'"),
        ({"limits": 5}, "Limits"),
        ({"tool_choice": "lz"}, "'lz'.*ls"),
        ({"tool_choice": "lz", "tools": []}, "'lz' must be one of 'auto', 'none', 'required'$"),
        ({"tool_choice": "required", "tools": []}, "needs tools"),
        ({"on_tool_error": "ignore"}, "'tell' or 'raise'"),
        ({"output_type": asyncio.Event}, r"^the output type 'Event' has a type that no JSON value"),
        ({"output_type": list[complex]}, r"^the output type 'list\[complex\]' has .* number\. Use JSON"),
        (
            {"output_type": Annotated[bytes, Field(max_length=5000)]},
            r"^the output type 'typing\.Annotated.*Check it in a guardrail of the answer and raise Retry",
        ),
        ({"approve": True}, "approve=True"),
        ({"approve": lambda asked: True}, r"^approve: <lambda>\(asked\) must take a call and its context$"),
        ({"observers": 3}, r"observers=3 must be a list\. Write observers=\[…\]"),
        ({"handoffs": Agent(ScriptedModel("x"))}, r"handoffs=<Agent 'agent'.*must be a list"),
        (
            {"tool": [ls]},
            r"^Agent has no option 'tool'\. Did you mean 'tools'\? Its options are: model, tools, ",
        ),
        ({"system_prompt": "You help."}, r"'system_prompt'\. Did you mean 'instructions'\?"),
        ({"result_type": int}, r"'result_type'\. Did you mean 'output_type'\?"),
        ({"max_turns": 3}, r"'max_turns'\. Did you mean 'limits'\?"),
        (
            {"deps_type": int},
            r"'deps_type'\. Its options are",
        ),  # and no word of output_type, which is nearest
    ],
)
def test_an_agent_refuses_what_it_cannot_use_before_any_run(options: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"model": ScriptedModel("x"), "tools": [ls], **options}
    with pytest.raises((InputError, SchemaError), match=words):
        Agent(**arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing to answer"),
        ({"prompt": 3}, "a prompt is text"),
        ({"prompt": "x", "history": "[]"}, "messages_from_json"),
        ({"history": [SystemMessage("s")]}, "nothing to answer"),
        ({"prompt": "x", "history": [{"role": "user"}]}, "no message"),
        ({"prompt": "x", "history": 3}, "history=3 is neither"),
        (
            {"prompt": "x", "history": RunResult("x", (), Usage(), Timings(), 1, "finished")},
            "result.messages",
        ),
        ({"prompt": "x", "sampling": 0.7}, "sampling=0.7 must be a kogagent.SamplingParams"),
        ({"prompt": "x", "limits": 3}, "limits=3 must be a kogagent.Limits"),
        ({"prompt": "x", "max_turns": 3}, r"'max_turns'\. Did you mean 'limits'\?"),
        ({"prompt": "x", "answers": ["1"]}, r"answers=\['1'\] must say"),
        (
            {"prompt": "x", "message_history": []},
            r"has no option 'message_history'\. Did you mean 'history'\?",
        ),
        ({"prompt": "x", "context": 3}, r"has no option 'context'\. Did you mean 'deps'\?"),
    ],
)
async def test_a_run_refuses_a_prompt_or_history_it_cannot_use(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        await Agent(ScriptedModel("x")).run(**options)
    with pytest.raises(InputError, match=words):
        Agent(ScriptedModel("x")).stream(**options)


@pytest.mark.parametrize("kind", [Limits, Hooks, Guardrails, Compaction, SamplingParams, Toolbox, Case])
def test_an_option_that_nothing_has_is_named_with_the_nearest_there_is(kind: Any) -> None:
    name = list(inspect.signature(kind).parameters)[-1]
    with pytest.raises(
        InputError, match=rf"^{kind.__name__} has no option '{name}s'\. Did you mean '{name}'\?"
    ):
        kind(**{f"{name}s": 1})
    with pytest.raises(TypeError, match="positional argument"):
        kind(*range(50))


def test_the_beginning_of_an_options_name_is_enough_to_be_told_it() -> None:
    with pytest.raises(InputError, match=r"'temp'\. Did you mean 'temperature'\?"):
        SamplingParams(temp=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("max_steps", "max_turns"), ("retries", "tool_retries"), ("timeout", "max_seconds")],
)
def test_another_sdks_word_leads_to_the_option_of_what_is_being_made(theirs: str, ours: str) -> None:
    with pytest.raises(InputError, match=rf"'{theirs}'\. Did you mean '{ours}'\?"):
        Limits(**{theirs: 3})
    with pytest.raises(InputError, match=rf"'{theirs}'\. Did you mean 'limits'\?"):
        Agent(ScriptedModel("x"), **{theirs: 3})  # type: ignore[call-overload]


def test_a_wrapper_is_asked_what_it_takes_itself_and_one_that_cannot_tell_is_taken() -> None:
    @functools.wraps(lambda: None)
    def wrapper(*given: Any) -> None: ...

    class Late:
        @property
        def __signature__(self) -> inspect.Signature:
            raise NameError("its annotation names what only a type checker imports")

        def __call__(self, *given: Any) -> None: ...

    hooks: dict[str, Any] = {"before_turn": wrapper, "after_turn": Late()}
    Hooks(**hooks)


@pytest.mark.parametrize("name", inspect.signature(Hooks).parameters)
def test_a_hook_that_cannot_take_what_it_gets_is_refused_at_once(name: str) -> None:
    takes_nothing: Any = lambda: None  # noqa: E731
    takes_any: Any = lambda *given: None  # noqa: E731
    with pytest.raises(InputError, match=rf"^Hooks\.{name}: <lambda>\(\) must take "):
        Hooks(**{name: takes_nothing})
    Hooks(**{name: takes_any})


def test_the_error_of_a_run_without_a_loop_comes_of_nothing_else() -> None:
    with pytest.raises(ModelError, match="asked for one more") as caught:
        Agent(ScriptedModel(call("ls")), [ls]).run_sync("go")
    assert caught.value.__context__ is None


async def test_two_runs_may_not_share_a_transcript() -> None:
    gate = asyncio.Event()

    async def wait(request: TurnRequest) -> str:
        await gate.wait()
        return "x"

    transcript, agent = Transcript(), Agent(FunctionModel(wait))
    first = asyncio.ensure_future(agent.run("go", history=transcript))
    await asyncio.sleep(0)
    with pytest.raises(InputError, match=r"in use.*fork"):
        await agent.run("go", history=transcript)
    gate.set()
    assert (await first).output == "x"
    assert (await agent.run("again", history=transcript)).turns == 1


async def test_a_second_run_does_not_touch_a_transcript_whose_run_is_in_a_tool() -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        started.set()
        await gate.wait()
        return "done"

    transcript, agent = Transcript(), Agent(ScriptedModel(call("wait"), "x"), [wait])
    first = asyncio.ensure_future(agent.run("go", history=transcript))
    await started.wait()
    agent.stream("more", history=transcript)
    with pytest.raises(InputError, match="in use"):
        await agent.run("more", history=transcript)
    gate.set()
    assert tool_texts(await first) == ["done"]


async def test_open_calls_of_a_given_transcript_are_closed_before_the_run() -> None:
    open_call = AssistantMessage("", "", (ToolCall("c", "ls", "{}"),))
    transcript = Transcript([UserMessage("go"), open_call])
    result = await Agent(ScriptedModel("x")).run("more", history=transcript)
    assert statuses(result) == ["cancelled"] and result.messages == transcript.messages


async def test_the_time_a_slow_reader_takes_is_not_the_loops() -> None:
    async with Agent(ScriptedModel(call("ls"), "x"), [ls]).stream("go") as stream:
        async for event in stream:
            if isinstance(event, TurnEnd):
                done_reading = asyncio.Event()
                asyncio.get_running_loop().call_later(0.05, done_reading.set)
                await done_reading.wait()
        timings = stream.result.timings
    assert timings.reader_s > 0.04
    assert 0 < timings.loop_s < timings.wall_s - timings.reader_s - timings.tool_s


async def test_an_agent_asks_for_approval_and_goes_on_when_it_is_denied() -> None:
    @tool(needs_approval=True)
    async def delete(path: str) -> str:
        return "gone"

    model = ScriptedModel([call("delete", path="a"), call("delete", path="b")], "x")
    agent = Agent(model, [delete], approve=lambda call, context: '"a"' in call.arguments)
    assert statuses(await agent.run("go")) == ["ok", "denied"]
    with pytest.raises(InputError, match="needs approval"):
        Agent(ScriptedModel("x"), [delete])
    with pytest.raises(InputError, match="belongs to the Toolbox"):
        Agent(ScriptedModel("x"), agent.toolbox, approve=lambda call, context: True)


async def test_two_hundred_agents_share_one_loop_without_starving_each_other() -> None:
    finished: list[int] = []

    async def one(n: int) -> None:
        model = ScriptedModel(*[call("ls", path=str(i)) for i in range(10)], "done")
        await Agent(model, [ls]).run("go")
        finished.append(n)

    progress: list[int] = []

    async def watch() -> None:
        while len(finished) < 200:
            progress.append(len(finished))
            await asyncio.sleep(0)

    await asyncio.gather(watch(), *(one(n) for n in range(200)))
    assert len(progress) > 10 and len(finished) == 200


async def test_a_model_and_tools_that_never_wait_leave_the_others_their_turns() -> None:
    @tool
    async def tick() -> int:
        ticks.append(len(ticks))
        return ticks[-1]

    ticks, seen = list[int](), list[int]()

    async def look() -> None:
        for _ in range(20):
            seen.append(len(ticks))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await Agent(ScriptedModel(*[call("tick")] * 20, "done"), [tick]).run("go")
    await looking
    assert all(after - before <= 1 for before, after in itertools.pairwise(seen)), seen
