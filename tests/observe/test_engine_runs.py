"""Runs on a real engine: every token is accounted for, every phase has its time."""

from __future__ import annotations

import pytest
from observed_runs import weather

from kogagent import Agent, Engine, Limits, SamplingParams, ToolFinished, TurnEnd, TurnFinished
from kogagent.observe import Trace, html_report
from kogagent.observe.view import of_events
from kogagent.testing import write_tiny_model


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(write_tiny_model(tmp_path_factory.mktemp("tiny")), device="cpu")


@pytest.mark.parametrize("plan", [0, 12])
async def test_tokens_and_phases_of_a_run_add_up(engine: Engine, plan: int) -> None:
    trace = Trace()
    agent = Agent(
        engine,
        [weather],
        tool_choice="weather",
        plan=plan,
        sampling=SamplingParams(temperature=1.0, seed=3),
        limits=Limits(max_turns=3, turn_tokens=300, max_calls=1),
        observers=[trace],
        name="babbler",
    )
    async with agent.stream("Is it warm?") as events:
        seen = [event async for event in events]
    ends = [event for event in seen if isinstance(event, TurnEnd)]
    turns = [event for event in seen if isinstance(event, TurnFinished)]
    assert len(ends) == len(turns) >= 1
    for end, turn in zip(ends, turns, strict=True):
        assert len(end.written) == end.usage.completion_tokens == turn.usage.completion_tokens
        assert sum(token.forced for token in end.written) == end.usage.forced_tokens
        t = turn.timings
        assert t.render_s > 0 and t.sampled_s > 0 and t.parse_s > 0 and t.append_s > 0
        assert t.loop_s >= -1e-9, f"phases are longer than the wall: {t}"
        model = t.engine_s + t.render_s + t.reuse_s + t.parse_s + t.idle_s
        assert model + t.dispatch_s + t.tool_s + t.append_s + t.reader_s + t.loop_s == pytest.approx(t.wall_s)
    (call,) = {event.call for event in seen if isinstance(event, ToolFinished)}
    assert call.arguments in "".join(token.text for token in ends[0].written)
    assert ends[0].usage.forced_tokens > 10
    if len(ends) > 1:
        assert turns[1].usage.reused_tokens >= ends[0].usage.prompt_tokens
    report = of_events(trace.runs[0].events)
    assert [len(turn.tokens) for turn in report.turns] == [len(end.written) for end in ends]
    assert report.model == engine.name and report.agent == "babbler"
    assert sum(share for _, share, *_ in report.shares) == pytest.approx(1.0, abs=1e-6)
    html_report(trace.runs[0]).encode()
