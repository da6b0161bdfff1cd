"""The agent-loop benchmark measures what it says. Nothing here is timed."""

from __future__ import annotations

import pytest

from benchmarks.agent_loops.__main__ import REPEATS
from benchmarks.agent_loops.loops import QUESTIONS, Loop, Task, scripted_loops
from benchmarks.agent_loops.measure import measure, timed
from kogagent import Agent, Limits, Message, ToolMessage, tool
from kogagent.testing import ScriptedModel, call


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    return f"waited {seconds}"


async def test_every_turn_is_timed_once_and_the_phases_make_up_the_run() -> None:
    run = await timed(
        Task(Agent(ScriptedModel(call("wait", seconds=1), call("wait", seconds=2), "done"), [wait]), "go")
    )
    assert len(run.turn_s) == 3 and all(seconds > 0 for seconds in run.turn_s)
    assert sum(run.phase_s.values()) == pytest.approx(run.wall_s)
    assert run.phase_s["tool"] > 0 and run.phase_s["prefill"] == 0


async def test_a_run_without_calls_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="no call"):
        await timed(Task(Agent(ScriptedModel("done"), [wait]), "go"))


async def test_a_run_that_stops_at_a_limit_counts_and_says_so() -> None:
    model = ScriptedModel(call("wait", seconds=1), call("wait", seconds=2))
    run = await timed(Task(Agent(model, [wait], limits=Limits(max_turns=2)), "go"))
    assert run.stopped and len(run.turn_s) == 2


async def test_a_loop_gives_one_record_a_metric_from_fresh_tasks() -> None:
    loop = next(loop for loop in scripted_loops() if loop.name == "scripted/20 turns/8 tools")
    asked: list[Task] = []

    def task() -> Task:
        asked.append(loop.tasks())
        return asked[-1]

    records = {record.metric: record for record in await measure(Loop("x", "scripted", task), repeats=5)}
    assert {"turns_s", "p50_ms", "p99_ms", "tool_ms", "loop_ms"} <= set(records)
    assert all(record.repeats == 5 for record in records.values())
    assert records["turns_s"].note == "20 turns a run"
    assert records["p50_ms"].value <= records["p99_ms"].value
    results = [await _results(one) for one in (loop.tasks(), loop.tasks())]
    assert len(asked) == 6 and not set(results[0]) & set(results[1]), "no input is measured twice"


async def _results(task: Task) -> list[str]:
    messages: tuple[Message, ...] = (await task.agent.run(task.prompt)).messages
    return [message.result.text for message in messages if isinstance(message, ToolMessage)]


def test_the_demo_loop_has_a_question_for_the_warm_up_and_each_repeat() -> None:
    assert len(set(QUESTIONS)) == 1 + REPEATS
