"""Leaving a run: early breaks, cancelled tasks, dropped streams. All is over, and the history whole."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from kogagent import (
    Agent,
    AgentStream,
    InputError,
    RunFinished,
    TextDelta,
    Toolbox,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    Transcript,
    TurnEnd,
    TurnStarted,
    UserMessage,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import FunctionModel, ScriptedModel, call
from kogagent.types import ModelEvent


class Endless:
    """Text without end; counts the turns that run."""

    def __init__(self) -> None:
        self.running = 0
        self.started = 0
        self.closed = asyncio.Event()

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        self.running += 1
        self.started += 1
        try:
            while True:
                yield TextDelta("a")
                await asyncio.sleep(0)
        finally:
            self.running -= 1
            self.closed.set()


def other_tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def statuses(transcript: Transcript) -> list[str]:
    return [m.result.status for m in transcript.messages if isinstance(m, ToolMessage)]


class Hanging:
    """A tool that starts and never ends by itself."""

    def __init__(self, on_start: Callable[[], None] = lambda: None) -> None:
        self.started = asyncio.Event()
        self.cleaned = asyncio.Event()
        self._on_start = on_start

    async def hang(self) -> None:
        """Hang."""
        self.started.set()
        self._on_start()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned.set()


# ── lazy start ───────────────────────────────────────────────────────────────────────────────


async def test_nothing_happens_before_the_first_event_is_asked_for() -> None:
    model, transcript = ScriptedModel("x"), Transcript()
    stream = Agent(model).stream("go", history=transcript)
    await asyncio.sleep(0)
    assert not model.requests and len(transcript) == 0 and not other_tasks()
    async with stream:
        pass
    assert not model.requests
    assert [event async for event in stream] == []


async def test_a_stream_that_was_never_started_may_be_dropped() -> None:
    stream = Agent(ScriptedModel("x")).stream("go")
    del stream
    gc.collect()


# ── leaving early ────────────────────────────────────────────────────────────────────────────


async def test_a_hundred_early_breaks_leave_the_model_idle_and_memory_flat() -> None:
    model = Endless()
    agent = Agent(model)

    async def one() -> None:
        async with agent.stream("go") as stream:
            async for event in stream:
                if event == TextDelta("a"):
                    break
        assert model.running == 0 and not other_tasks()

    for _ in range(20):
        await one()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            await one()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert model.started == 120
    assert grown < 50_000


async def test_a_tool_does_not_start_before_the_reader_has_seen_it_announced() -> None:
    ran: list[int] = []

    async def act() -> None:
        ran.append(1)

    async with Agent(ScriptedModel(["text", call("act")], "x"), [act]).stream("go") as stream:
        async for event in stream:
            if isinstance(event, TurnEnd | ToolStarted):
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not ran
            if isinstance(event, ToolStarted):
                break
    assert not ran


async def test_leaving_while_a_tool_runs_cancels_it_and_closes_its_call() -> None:
    tools, transcript = Hanging(), Transcript()
    agent = Agent(ScriptedModel(call("hang")), [tools.hang])
    async with agent.stream("go", history=transcript) as stream:
        async for event in stream:
            if isinstance(event, ToolStarted):
                waiting = asyncio.ensure_future(anext(stream))
                await tools.started.wait()
                await stream.aclose()
                with pytest.raises(StopAsyncIteration):
                    await waiting
    assert tools.cleaned.is_set() and statuses(transcript) == ["cancelled"] and not other_tasks()


async def test_closing_twice_or_after_the_end_does_nothing() -> None:
    stream = Agent(ScriptedModel("x")).stream("go")
    events = [event async for event in stream]
    await stream.aclose()
    await stream.aclose()
    assert isinstance(events[-1], RunFinished) and stream.result is events[-1].result


async def test_an_error_in_the_block_passes_and_the_run_is_stopped() -> None:
    model = Endless()
    with pytest.raises(ZeroDivisionError):
        async with Agent(model).stream("go") as stream:
            async for _ in stream:
                raise ZeroDivisionError
    assert model.running == 0 and not other_tasks()


async def test_there_is_no_result_before_the_end() -> None:
    async with Agent(Endless()).stream("go") as stream:
        with pytest.raises(InputError, match="to the end"):
            _ = stream.result
        await anext(stream)
        with pytest.raises(InputError, match="to the end"):
            _ = stream.result
    with pytest.raises(InputError, match="did not come to its end"):
        _ = stream.result


async def test_a_stream_left_early_tells_what_the_run_did_and_a_run_goes_on_from_it() -> None:
    async def act() -> str:
        return "acted"

    turns = (call("act"), "one two three")
    async with Agent(ScriptedModel(*turns, delta=3), [act]).stream("go") as stream:
        assert list(stream.messages) == []
        async for event in stream:
            if isinstance(event, TurnStarted) and event.turn == 2:
                break
    asked, _, result = stream.messages[:3]
    assert asked == UserMessage("go")
    assert isinstance(result, ToolMessage) and result.result.text == "acted"
    again = await Agent(ScriptedModel("done"), [act]).run(history=stream.messages[:3])
    assert again.messages[:3] == stream.messages[:3] and again.output == "done"


async def test_a_stream_dropped_half_way_warns_and_stops() -> None:
    model = Endless()
    with pytest.warns(ResourceWarning, match="async with"):
        async for _ in Agent(model).stream("go"):
            break
        gc.collect()
    await model.closed.wait()
    await asyncio.gather(*other_tasks(), return_exceptions=True)
    assert model.running == 0


async def test_a_stream_has_one_reader() -> None:
    gate = asyncio.Event()

    async def wait(request: TurnRequest) -> str:
        await gate.wait()
        return "x"

    async with Agent(FunctionModel(wait)).stream("go") as stream:
        while not isinstance(await anext(stream), TurnStarted):
            pass
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await anext(stream)
        gate.set()
        assert await first == TextDelta("x")


async def test_a_reader_may_be_slow_and_deltas_wait_for_it() -> None:
    size = 5000

    class Flood:
        sent = 0

        async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
            for _ in range(size):
                self.sent += 1
                yield TextDelta("a")
            yield TurnEnd("stop")

    flood = Flood()
    async with Agent(flood).stream("go") as stream:
        while await anext(stream) != TextDelta("a"):
            pass
        for _ in range(10):
            await asyncio.sleep(0)
        assert flood.sent < 1000
        rest = [event async for event in stream]
    assert sum(isinstance(event, TextDelta) for event in rest) == size - 1


# ── cancelled tasks ──────────────────────────────────────────────────────────────────────────


async def test_cancelling_a_run_in_a_tool_leaves_a_history_the_next_run_can_use() -> None:
    tools, transcript = Hanging(), Transcript()
    model = ScriptedModel([call("hang"), call("quick")], "ready again")

    async def quick() -> str:
        return "quick"

    agent = Agent(model, [tools.hang, quick])
    task = asyncio.ensure_future(agent.run("go", history=transcript))
    await tools.started.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tools.cleaned.is_set() and statuses(transcript) == ["cancelled", "ok"] and not other_tasks()
    result = await agent.run("and now?", history=transcript)
    assert result.output == "ready again" and UserMessage("and now?") in result.messages
    assert "may have had effects" in next(
        m.result.text for m in model.requests[1].messages if isinstance(m, ToolMessage)
    )


async def test_cancelling_a_reader_cancels_the_run() -> None:
    tools = Hanging()

    async def read() -> None:
        async for _ in Agent(ScriptedModel(call("hang")), [tools.hang]).stream("go"):
            pass

    task = asyncio.ensure_future(read())
    await tools.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tools.cleaned.is_set() and not other_tasks()


async def test_cancelling_a_run_stops_its_model() -> None:
    model, transcript = Endless(), Transcript()
    task = asyncio.ensure_future(Agent(model).run("go", history=transcript))
    while not model.running:  # noqa: ASYNC110 - the model is not ours to signal from
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.running == 0 and transcript.messages == (UserMessage("go"),)


async def test_a_time_limit_around_a_run_is_respected(pass_time: Callable[[float], None]) -> None:
    tools, transcript = Hanging(lambda: pass_time(60)), Transcript()
    agent = Agent(ScriptedModel(call("hang"), "x"), [tools.hang])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await agent.run("go", history=transcript)
    assert statuses(transcript) == ["cancelled"] and not other_tasks()


async def test_an_anyio_scope_around_a_run_is_respected(pass_time: Callable[[float], None]) -> None:
    anyio = pytest.importorskip("anyio")
    tools, transcript = Hanging(lambda: pass_time(60)), Transcript()
    agent = Agent(ScriptedModel(call("hang")), [tools.hang])
    with anyio.move_on_after(60) as scope:
        await agent.run("go", history=transcript)
    assert scope.cancelled_caught and tools.cleaned.is_set()
    assert statuses(transcript) == ["cancelled"] and not other_tasks()


async def test_cancelling_one_of_many_runs_disturbs_no_other() -> None:
    tools = Hanging()
    agent = Agent(ScriptedModel(call("hang"), repeat=True), [tools.hang])
    doomed = [asyncio.ensure_future(agent.run("go")) for _ in range(20)]
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "ok"

    good = [
        asyncio.ensure_future(Agent(ScriptedModel(call("wait"), "fine"), [wait]).run("go")) for _ in range(20)
    ]
    await tools.started.wait()
    for task in doomed:
        task.cancel()
    ended = await asyncio.gather(*doomed, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in ended)
    gate.set()
    assert [(await task).output for task in good] == ["fine"] * 20


async def test_parallel_calls_are_all_cancelled_and_each_has_a_result() -> None:
    tools, release, transcript = Hanging(), threading.Event(), Transcript()

    def block() -> None:
        release.wait()

    async def quick() -> str:
        return "done"

    script = [call("hang"), call("block"), call("quick"), call("nothing")]
    agent = Agent(ScriptedModel(script), [tools.hang, block, quick])
    seen: list[ToolFinished] = []
    quick_done = asyncio.Event()

    async def read() -> None:
        async for event in agent.stream("go", history=transcript):
            if isinstance(event, ToolFinished):
                seen.append(event)
                if len(seen) == 2:
                    quick_done.set()

    task = asyncio.ensure_future(read())
    try:
        await quick_done.wait()
        await tools.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        release.set()
    assert statuses(transcript) == ["cancelled", "cancelled", "ok", "unknown_tool"]
    assert not other_tasks()


async def test_a_model_whose_close_hangs_does_not_hang_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kogagent.loop.cleanup._CLOSE_S", 0.05)
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))

    class Sticky:
        def __init__(self) -> None:
            self.asked = asyncio.Event()

        def stream(self, request: TurnRequest) -> Sticky:
            return self

        def __aiter__(self) -> Sticky:
            return self

        async def __anext__(self) -> ModelEvent:
            self.asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def aclose(self) -> None:
            await asyncio.Event().wait()

    model = Sticky()
    task = asyncio.ensure_future(Agent(model).run("go"))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert any("clean-up" in str(problem["message"]) for problem in problems)


async def test_streams_are_agent_streams() -> None:
    assert isinstance(Agent(ScriptedModel("x")).stream("go"), AgentStream)


async def test_of_two_hundred_runs_any_may_be_cancelled_and_memory_stays_flat(
    rng: np.random.Generator,
) -> None:
    async def look(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def one(name: int) -> str:
        turns = [[call("look", n=n), call("look", n=n + 100)] for n in range(2)]
        result = await Agent(ScriptedModel(*turns, f"done {name}"), tools).run("go")
        return str(result.output)

    tools = Toolbox([look])

    async def crowd(size: int) -> None:
        tasks = [asyncio.ensure_future(one(name)) for name in range(size)]
        gone = {int(name) for name in rng.choice(size, size * 3 // 10, replace=False)}
        for name in gone:
            await asyncio.sleep(0)  # the runs are at a different point for each
            tasks[name].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for name, result in enumerate(done):
            assert result == f"done {name}" or (name in gone and isinstance(result, asyncio.CancelledError))
        assert not other_tasks()

    await crowd(200)
    tracemalloc.start()
    try:
        await crowd(40)  # the last crowd's errors are held for a while: they are part of the start
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2):
            await crowd(40)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 40_000
