"""What happened in a run, kept and read back."""

from __future__ import annotations

import asyncio

import pytest
from observed_runs import script, slow, watched, weather

from kogagent import Agent, InputError
from kogagent.observe import RunTrace, Trace
from kogagent.testing import ScriptedModel, call


async def test_a_trace_holds_the_run_in_order_and_reads_back() -> None:
    trace = await watched()
    kinds = [event["event"] for event in trace.events]
    assert kinds[0] == "run_started" and kinds[-1] == "run_finished"
    assert kinds.count("turn_finished") == 3 and kinds.count("tool_finished") == 3
    times = [event["t"] for event in trace.events]
    assert times == sorted(times) and times[0] == 0
    assert RunTrace.from_lines(trace.to_lines()).events == trace.events


async def test_deltas_that_follow_each_other_are_one_event() -> None:
    trace = Trace()
    inner = Agent(ScriptedModel("an inner answer", delta=1), name="inner")
    model = ScriptedModel(call("inner", task="do"), "an outer answer", delta=1)
    await Agent(model, [inner.as_tool(description="Ask it.")], observers=[trace]).run("go")
    events = trace.runs[0].events
    assert [e["text"] for e in events if e["event"] == "text_delta"] == ["an outer answer"]
    assert [e["text"] for e in events if e["event"] == "call_delta"] == ['{"task": "do"}']
    inside = [e["inner"] for e in events if e["event"] == "nested"]
    assert [e["text"] for e in inside if e["event"] == "text_delta"] == ["an inner answer"]


async def test_a_run_that_fails_says_so_at_its_end() -> None:
    trace = Trace()
    with pytest.raises(KeyError):
        agent = Agent(script(), [weather, slow], observers=[trace], on_tool_error="raise")
        await agent.run("go")
    last = trace.runs[0].events[-1]
    assert (last["event"], last["type"]) == ("error", "KeyError")


async def test_the_newest_runs_are_kept() -> None:
    trace = Trace(limit=3)
    agents = [Agent(ScriptedModel(str(n)), observers=[trace]) for n in range(10)]
    await asyncio.gather(*(agent.run(str(n)) for n, agent in enumerate(agents)))
    assert [run.events[0]["question"] for run in trace.runs] == ["7", "8", "9"]
    with pytest.raises(InputError, match="limit=0"):
        Trace(limit=0)


async def test_lines_that_are_no_events_are_named_and_a_cut_last_one_is_left_out() -> None:
    text = (await watched()).to_lines()
    assert RunTrace.from_lines(text[:-20]).events[-1]["event"] == "turn_finished"
    for bad, said in (
        ("{}\n", "line 1"),
        ('{"event": "x"}\nnonsense\n', "line 2"),
        ("", "no event"),
        ("[]\n", "line 1"),
    ):
        with pytest.raises(InputError, match=said):
            RunTrace.from_lines(bad)
