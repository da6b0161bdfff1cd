"""Runs on one history and one model: forks, rewinds, the best of several, turns begun on a guess."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kogagent import (
    Agent,
    AgentEvent,
    AssistantMessage,
    Conversation,
    Hooks,
    InputError,
    Limits,
    RunContext,
    RunResult,
    SamplingParams,
    SessionStore,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    Transcript,
    TurnEnd,
    Usage,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import Model, TurnRequest
from kogagent.testing import FunctionModel, ScriptedModel, ScriptedTurn, call
from kogagent.types import CallReady, CallStarted, ModelEvent


@tool
async def ls(path: str = ".") -> str:
    """List."""
    return f"files of {path}"


def texts(result: RunResult) -> list[str]:
    return [m.text for m in result.messages if isinstance(m, UserMessage | AssistantMessage) and m.text]


# ── conversations ────────────────────────────────────────────────────────────────────────────


class Forking(ScriptedModel):
    """A model of its own for each conversation, which can be split; it knows its relatives."""

    family: list[Forking]

    @classmethod
    def source(cls, *turns: Any) -> Any:
        family: list[Forking] = []

        class Source:
            def as_model(self) -> Model:
                return cls.made(family, turns)

        Source.family = family  # type: ignore[attr-defined]
        return Source()

    @classmethod
    def made(cls, family: list[Forking], turns: Any) -> Forking:
        model = cls(*turns)
        model.family, model.closed, model.forked, model.prefilled = family, 0, 0, 0
        family.append(model)
        return model

    async def fork(self) -> Forking:
        self.forked += 1
        other = self.made(self.family, self._turns)
        other.requests = list(self.requests)
        return other

    async def prefill(self, request: TurnRequest) -> None:
        self.prefilled += 1

    async def aclose(self) -> None:
        self.closed += 1

    closed: int
    forked: int
    prefilled: int


async def test_a_conversation_keeps_its_history_and_its_model() -> None:
    source = Forking.source("one", "two")
    async with Agent(source, instructions="S").conversation() as talk:
        assert (await talk.run("a")).output == "one"
        second = await talk.run("b")
        assert second.output == "two" and texts(second) == ["S", "a", "one", "b", "two"][1:]
        assert len(source.family) == 1 and source.family[0].closed == 0
    assert source.family[0].closed == 1
    await talk.aclose()
    assert source.family[0].closed == 1


async def test_forks_share_the_past_and_nothing_else() -> None:
    source = Forking.source("one", "two", "three")
    async with Agent(source).conversation() as talk:
        await talk.run("a")
        async with await talk.fork() as other:
            assert source.family[0].forked == 1 and len(source.family) == 2
            mine, others = await asyncio.gather(talk.run("b"), other.run("c"))
            assert texts(mine) == ["a", "one", "b", "two"] and texts(others) == ["a", "one", "c", "two"]
        assert [model.closed for model in source.family] == [0, 1]


async def test_a_fork_from_an_earlier_point_and_a_rewind_forget_the_rest() -> None:
    async with Agent(ScriptedModel("one", "two", "three", "four")).conversation() as talk:
        await talk.run("a")
        await talk.run("b")
        async with await talk.fork(messages=2) as other:
            assert texts(await other.run("c")) == ["a", "one", "c", "three"]
        talk.rewind(2)
        assert texts(await talk.run("d")) == ["a", "one", "d", "four"]
        with pytest.raises(InputError, match="4 messages"):
            talk.rewind(5)


async def test_a_run_forks_while_it_goes_on() -> None:
    gate, reached = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reached.set()
        await gate.wait()
        return "slow"

    def say(request: TurnRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return call("slow") if last.text == "go" else f"answer to {last.text}"
        return f"read {last.result.status}" if isinstance(last, ToolMessage) else "?"

    async with Agent(FunctionModel(say), [slow]).stream("go") as run:
        reading = asyncio.ensure_future(read(run))
        await reached.wait()
        async with await run.fork() as branch:
            going_on = await branch.run()
            assert going_on.output == "read cancelled"
            assert (await branch.run("what if?")).output == "answer to what if?"
        gate.set()
        await reading
        assert run.result.output == "read ok"
        async with await run.fork(messages=1) as after:
            assert texts(await after.run("again")) == ["go", "again", "answer to again"]


async def read(run: Any) -> list[AgentEvent]:
    return [event async for event in run]


def test_rewinding_closes_calls_whose_results_are_cut_off_and_writes_it_down(tmp_path: Any) -> None:
    with SessionStore(tmp_path / "s.sqlite") as store:
        transcript = store.open("a")
        transcript.append(UserMessage("x"))
        transcript.append(AssistantMessage("", "", (ToolCall("1", "ls", "{}"), ToolCall("2", "ls", "{}"))))
        transcript.close_calls("done", only="1")
        transcript.close_calls("done")
        transcript.append(AssistantMessage("y"))
        transcript.rewind(3)
        assert [m.result.text[:4] for m in transcript.messages if isinstance(m, ToolMessage)] == [
            "done",
            "Canc",
        ]
        assert store.messages("a") == tuple(transcript.messages)
        transcript.append(UserMessage("z"))
        assert len(store.open("a")) == 5
        transcript.acquire()
        with pytest.raises(InputError, match="in use by a run"):
            transcript.rewind(0)


# ── the best of several ──────────────────────────────────────────────────────────────────────


async def test_the_best_of_several_runs_becomes_the_conversation(tmp_path: Any) -> None:
    def say(request: TurnRequest) -> str:
        assert request.sampling is not None
        return "x" * (5 + int(request.sampling.seed) * 3 % 7)

    with SessionStore(tmp_path / "s.sqlite") as store:
        sampling = SamplingParams(temperature=0.5, seed=10)
        agent = Agent(FunctionModel(say), instructions="S", sampling=sampling)
        async with agent.conversation(store.open("a")) as talk:
            best = await talk.best_of(4, "go", score=lambda result: len(result.output))
            lengths = [len(one.output) for one in best.results if isinstance(one, RunResult)]
            assert lengths == [5 + seed * 3 % 7 for seed in range(10, 14)]
            assert best.scores == tuple(map(float, lengths)) and len(best.best.output) == max(lengths)
            assert tuple(talk.transcript.messages) == best.best.messages == store.messages("a")
            assert len((await talk.run("more")).messages) == 5
    best = await agent.best_of(2, "go", score=score_later)
    assert best.best.output in [one.output for one in best.results if isinstance(one, RunResult)]


async def test_a_score_that_is_no_function_is_refused_before_any_run() -> None:
    model = ScriptedModel("x")
    with pytest.raises(InputError, match="score='length' must be a function"):
        await Agent(model).best_of(2, "go", score="length")  # type: ignore[arg-type]
    assert not model.requests


async def score_later(result: RunResult) -> float:
    await asyncio.sleep(0)
    return -len(result.output)


async def test_the_prompt_is_computed_once_and_the_losers_are_closed() -> None:
    source = Forking.source("one", "two")
    async with Agent(source).conversation() as talk:
        best = await talk.best_of(3, "go", score=lambda result: 1.0)
        first, *branches = source.family
        assert (first.prefilled, first.forked, len(branches)) == (1, 3, 3)
        assert first.closed == 1 and [b.closed for b in branches] == [0, 1, 1], "of equals the first"
        assert best.best is best.results[0]
    assert [b.closed for b in branches] == [1, 1, 1]


async def test_a_run_that_fails_loses_and_where_all_fail_the_first_failure_is_raised() -> None:
    def say(request: TurnRequest) -> str:
        assert request.sampling is not None
        if request.sampling.seed < 2:
            raise ValueError(f"seed {request.sampling.seed}")
        return "fine"

    agent = Agent(FunctionModel(say), sampling=SamplingParams(temperature=1.0))
    best = await agent.best_of(3, "go", score=lambda result: 0.0)
    assert best.best.output == "fine" and best.scores == (None, None, 0.0)
    assert isinstance(best.results[0], ValueError) and best.usage == best.best.usage
    with pytest.raises(ValueError, match="seed 0"):
        await agent.best_of(2, "go", score=lambda result: 0.0)
    for n in (0, 1.5):
        with pytest.raises(InputError, match="number of runs"):
            await agent.best_of(n, "go", score=lambda result: 0.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no number"):
        await agent.best_of(3, "go", score=lambda result: float("nan"))


async def test_cancelling_a_choice_cancels_and_closes_every_run() -> None:
    class Waits(Forking):
        def stream(self, request: TurnRequest) -> Any:
            return FunctionModel(forever).stream(request)

    async def forever(request: TurnRequest) -> str:
        await asyncio.Event().wait()
        return ""

    source = Waits.source("x")
    async with Agent(source).conversation() as talk:
        task = asyncio.ensure_future(talk.best_of(3, "go", score=lambda result: 0.0))
        while len(source.family) < 4:  # noqa: ASYNC110 - the forks are what is waited for
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [model.closed for model in source.family] == [1, 1, 1, 1]


# ── calls begun before they are certain ──────────────────────────────────────────────────────


class Slow:
    """A model that says a call and goes on only when it is told to."""

    def __init__(self, *calls: ToolCall, fail: bool = False) -> None:
        self.calls, self.fail = calls, fail
        self.go_on = asyncio.Event()
        self.asked = 0

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        if self.asked > 1:
            yield TextDelta("done")
            yield TurnEnd("stop")
            return
        for one in self.calls:
            yield CallStarted(one.id, one.name)
            yield CallReady(one)
        await self.go_on.wait()
        if self.fail:
            raise ValueError("the model broke")
        yield TurnEnd("stop")


async def test_a_pure_tool_starts_while_its_turn_is_still_written() -> None:
    model = Slow(ToolCall("1", "peek", "{}"), ToolCall("2", "poke", "{}"))
    ran: list[str] = []

    @tool(pure=True)
    async def peek() -> str:
        ran.append("peek")
        model.go_on.set()  # would never come if it waited for the turn
        return "seen"

    @tool
    async def poke() -> str:
        ran.append("poke")
        return "poked"

    async with Agent(model, [peek, poke]).stream("go") as stream:
        events = [event async for event in stream]
    assert ran == ["peek", "poke"]
    order = [type(e).__name__ for e in events if isinstance(e, ToolStarted | TurnEnd | ToolFinished)]
    assert order[:2] == ["ToolStarted", "TurnEnd"] and sorted(order[2:5]) == [
        *["ToolFinished", "ToolFinished", "ToolStarted"]
    ]
    texts = [m.result.text for m in stream.result.messages if isinstance(m, ToolMessage)]
    assert texts == ["seen", "poked"]


async def test_a_pure_call_of_a_turn_that_fails_is_cancelled_and_awaited() -> None:
    model = Slow(ToolCall("1", "peek", "{}"), fail=True)
    ended = asyncio.Event()

    @tool(pure=True)
    async def peek() -> str:
        model.go_on.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with pytest.raises(ValueError, match="the model broke"):
        await Agent(model, [peek]).run("go")
    assert ended.is_set()


async def test_pure_calls_beyond_the_limit_of_the_turn_are_not_kept() -> None:
    calls = tuple(ToolCall(str(n), "peek", f'{{"n": {n}}}') for n in range(4))
    model = Slow(*calls)
    model.go_on.set()

    @tool(pure=True)
    async def peek(n: int) -> int:
        return n

    result = await Agent(model, [peek], limits=Limits(turn_calls=2)).run("go")
    assert [m.result.status for m in result.messages if isinstance(m, ToolMessage)] == [
        "ok",
        "ok",
        "denied",
        "denied",
    ]


# ── a turn begun on a guess ──────────────────────────────────────────────────────────────────


def predict(asked: ToolCall, context: RunContext[Any]) -> str | None:
    return "files of ." if asked.name == "ls" else None


async def test_the_model_goes_on_from_a_right_guess_while_the_tool_runs() -> None:
    began = asyncio.Event()

    def say(request: TurnRequest) -> Any:
        if len(request.messages) == 1:
            return call("slow_ls")
        began.set()
        return "done"

    async def slow_ls() -> str:
        await began.wait()  # would never come if the model waited for the tool
        return "files of ."

    hooks = Hooks(predict=lambda asked, context: "files of .")
    result = await Agent(FunctionModel(say), [slow_ls], hooks=hooks).run("go")
    assert result.output == "done" and result.turns == 2
    assert [type(m).__name__ for m in result.messages] == [
        *["UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage"]
    ]


async def test_a_wrong_guess_leaves_no_trace_but_its_cost() -> None:
    asked: list[TurnRequest] = []

    def say(request: TurnRequest) -> Any:
        asked.append(request)
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return ScriptedTurn(f"read {last.result.text}", usage=Usage(0, 1, 1, 0, 1))
        return call("ls", path="/tmp")

    events: list[AgentEvent] = []
    async with Agent(FunctionModel(say), [ls], hooks=Hooks(predict=predict)).stream("go") as stream:
        events += [event async for event in stream]
    assert stream.result.output == "read files of /tmp"
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["read files of /tmp"]
    guesses = [r.messages[-1].result.text for r in asked if isinstance(r.messages[-1], ToolMessage)]
    assert guesses[-1] == "files of /tmp" and set(guesses) <= {"files of .", "files of /tmp"}
    assert stream.result.turns == 2


async def test_no_guess_is_made_where_it_could_not_be_used() -> None:
    model = ScriptedModel([call("ls"), call("unknown")], "done")
    result = await Agent(model, [ls], hooks=Hooks(predict=predict)).run("go")
    assert result.output == "done" and len(model.requests) == 2
    with pytest.raises(InputError, match="hook predict gave 7"):
        await Agent(ScriptedModel(call("ls")), [ls], hooks=Hooks(predict=lambda a, c: 7)).run("go")  # type: ignore[arg-type, return-value]


async def test_cancelling_a_run_that_is_ahead_stops_the_guessed_turn_too() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def say(request: TurnRequest) -> Any:
        if len(request.messages) == 1:
            return call("hang")
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def hang() -> None:
        await asyncio.Event().wait()

    hooks = Hooks(predict=lambda asked, context: "x")
    transcript = Transcript()
    task = asyncio.ensure_future(Agent(FunctionModel(say), [hang], hooks=hooks).run("go", history=transcript))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set() and isinstance(transcript.messages[-1], ToolMessage)


def test_conversations_are_made_by_agents() -> None:
    assert isinstance(Agent(ScriptedModel("x")).conversation(), Conversation)
    with pytest.raises(InputError, match="messages_from_json"):
        Agent(ScriptedModel("x")).conversation("[]")  # type: ignore[arg-type]
