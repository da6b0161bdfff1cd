"""What the plain view prints of a turn's events."""

from __future__ import annotations

import io

from kogagent.cli.live import open_view
from kogagent.types import AgentEvent, PlanDelta, TextDelta, TurnEnd


def printed(*events: AgentEvent) -> str:
    out = io.StringIO()
    view = open_view(as_json=False, out=out)
    for event in events:
        view.show(event)
    return out.getvalue()


def test_a_plan_that_was_the_answer_is_printed_once() -> None:
    answer = (PlanDelta("Yes, "), PlanDelta("warm."), TextDelta("Yes, warm."), TurnEnd("stop"))
    assert printed(*answer) == "Yes, warm.\n"
    assert printed(*answer, *answer) == "Yes, warm.\nYes, warm.\n"


def test_an_answer_after_a_plan_is_printed_below_it() -> None:
    events = (PlanDelta("I look."), TextDelta("Yes, "), TextDelta("warm."), TurnEnd("stop"))
    assert printed(*events) == "I look.\nYes, warm.\n"
