"""Watching runs: events with times, phases that sum to the wall, observers that harm nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from kogagent import (
    Agent,
    AgentEvent,
    InputError,
    Limits,
    Observer,
    RunFinished,
    RunInfo,
    Timings,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    tool,
)
from kogagent.testing import ScriptedModel, ScriptedTurn, call


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Watcher:
    """Keeps everything it is told, run by run."""

    def __init__(self) -> None:
        self.runs: list[RunInfo] = []
        self.events: dict[str, list[AgentEvent]] = {}
        self.ends: dict[str, BaseException | None] = {}

    def run_started(self, run: RunInfo) -> _Watching:
        self.runs.append(run)
        self.events[run.id] = []
        return _Watching(self, run.id)


class _Watching:
    def __init__(self, watcher: Watcher, run: str) -> None:
        self._watcher, self._run = watcher, run

    def event(self, event: AgentEvent) -> None:
        self._watcher.events[self._run].append(event)

    def ended(self, error: BaseException | None) -> None:
        self._watcher.ends[self._run] = error


async def test_an_observer_sees_what_a_reader_sees_and_the_end() -> None:
    watcher = Watcher()
    agent = Agent(
        ScriptedModel(call("add", a=1, b=2), "3"),
        [add],
        observers=[watcher],
        name="adder",
        instructions="Add.",
    )
    async with agent.stream("1 + 2?") as events:
        read = [event async for event in events]
    (run,) = watcher.runs
    assert (run.agent, run.model, run.prompt, run.messages) == ("adder", "ScriptedModel", "1 + 2?", 0)
    assert [spec.name for spec in run.tools] == ["add"]
    assert watcher.events[run.id] == read and watcher.ends == {run.id: None}


async def test_runs_at_once_are_told_apart() -> None:
    watcher = Watcher()
    agents = [Agent(ScriptedModel(f"answer {n}"), observers=[watcher]) for n in range(20)]
    results = await asyncio.gather(*(agent.run(f"question {n}") for n, agent in enumerate(agents)))
    assert len({run.id for run in watcher.runs}) == 20
    for run in watcher.runs:
        assert run.prompt is not None
        last = watcher.events[run.id][-1]
        assert isinstance(last, RunFinished)
        assert last.result.output == results[int(run.prompt.split()[-1])].output


async def test_an_observer_learns_of_a_failure_and_of_a_cancellation() -> None:
    watcher = Watcher()
    broken = Agent(ScriptedModel(ScriptedTurn(error=ValueError("broken"))), observers=[watcher])
    with pytest.raises(ValueError, match="broken"):
        await broken.run("go")
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Agent(ScriptedModel(call("wait"), "x"), [wait], observers=[watcher]).run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ends = [watcher.ends[run.id] for run in watcher.runs]
    assert [type(end) for end in ends] == [ValueError, asyncio.CancelledError]


class _Failing:
    def __init__(self, where: str) -> None:
        self._where, self.seen = where, 0

    def run_started(self, run: RunInfo) -> _Failing | None:
        if self._where == "start":
            raise RuntimeError("start")
        return None if self._where == "nobody" else self

    def event(self, event: AgentEvent) -> None:
        self.seen += 1
        if self._where == "event" and self.seen == 2:
            raise RuntimeError("event")

    def ended(self, error: BaseException | None) -> None:
        if self._where == "end":
            raise RuntimeError("end")


@pytest.mark.parametrize("where", ["start", "event", "end"])
async def test_a_failing_observer_is_logged_and_harms_nothing(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing, watcher = _Failing(where), Watcher()
    agent = Agent(ScriptedModel(call("add", a=1, b=2), "3"), [add], observers=[failing, watcher])
    with caplog.at_level(logging.ERROR, logger="kogagent.loop"):
        result = await agent.run("go")
    assert result.output == "3" and "observer" in caplog.text
    assert isinstance(watcher.events[watcher.runs[0].id][-1], RunFinished)
    if where == "event":
        assert failing.seen == 2  # and no more of this run


async def test_an_observer_may_pass_on_a_run_and_what_is_none_is_refused() -> None:
    assert (await Agent(ScriptedModel("x"), observers=[_Failing("nobody")]).run("go")).output == "x"
    for wrong in (object(), Watcher, print):
        with pytest.raises(InputError, match="no observer"):
            Agent(ScriptedModel("x"), observers=[wrong])  # type: ignore[list-item]
    assert isinstance(Watcher(), Observer)


async def test_events_carry_times_that_never_go_back_and_do_not_count_in_comparisons() -> None:
    agent = Agent(ScriptedModel(ScriptedTurn("so", (call("add", a=1, b=2),)), "3", delta=1), [add])
    async with agent.stream("go") as events:
        times = [event.at async for event in events]
    assert times == sorted(times) and times[0] < times[-1]
    assert TurnEnd("stop", at=1.0) == TurnEnd("stop", at=2.0)


async def test_the_phases_of_turns_sum_to_their_wall_and_the_turns_to_the_run() -> None:
    lies = Timings(prefill_s=1e-9, sampled_s=2e-9, parse_s=50.0, idle_s=70.0, wall_s=9.0)
    model = ScriptedModel(ScriptedTurn("", (call("add", a=1, b=2),) * 3, timings=lies), "3")
    async with Agent(model, [add]).stream("go") as events:
        finished = [event async for event in events if isinstance(event, TurnFinished | RunFinished)]
    *turns, run = finished
    assert isinstance(run, RunFinished)
    summed = Timings()
    for turn in turns:
        assert isinstance(turn, TurnFinished)
        t = turn.timings
        model_s = t.engine_s + t.render_s + t.reuse_s + t.parse_s + t.idle_s
        named = model_s + t.dispatch_s + t.tool_s + t.append_s + t.reader_s
        assert named + t.loop_s == pytest.approx(t.wall_s, abs=1e-12)
        assert t.loop_s >= -1e-12, "more time in phases than went by"
        summed += t
    assert [turn.turn for turn in turns if isinstance(turn, TurnFinished)] == [1, 2]
    total = run.result.timings
    assert (summed.tool_s, summed.append_s, summed.dispatch_s) == (
        total.tool_s,
        total.append_s,
        total.dispatch_s,
    )
    assert total.tool_s > 0 and total.append_s > 0
    assert summed.wall_s <= total.wall_s


async def test_a_turn_says_what_its_model_is_shown() -> None:
    async with Agent(ScriptedModel(call("add", a=1, b=2), "3"), [add]).stream("go") as events:
        started = [event async for event in events if isinstance(event, TurnStarted)]
    assert [(event.turn, len(event.messages)) for event in started] == [(1, 1), (2, 3)]


async def test_tools_of_a_turn_that_ran_out_of_time_count(pass_time: Callable[[float], None]) -> None:
    never, loop = asyncio.Event(), asyncio.get_running_loop()

    async def wait() -> None:
        loop.call_later(0.05, pass_time, 60)  # the limit comes after so much time in the tool, or more
        await never.wait()

    agent = Agent(ScriptedModel([call("wait")] * 2, "x"), [wait], limits=Limits(max_seconds=60))
    result = await agent.run("go")
    assert result.reason == "max_seconds"
    assert result.timings.dispatch_s + result.timings.tool_s > 0.04
