"""What the plain view prints of a turn's events."""

from __future__ import annotations

import io

from rich.console import Console

from kogagent.cli.live import TextView, open_view
from kogagent.types import (
    AgentEvent,
    Compacted,
    HandedOff,
    Nested,
    ObserveDelta,
    PlanDelta,
    RunFinished,
    RunResult,
    TextDelta,
    Timings,
    ToolCall,
    ToolProgress,
    TurnEnd,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    Usage,
)


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


def test_what_else_happens_in_a_run_has_a_line() -> None:
    said = printed(
        ObserveDelta("So it is 3."),
        ToolProgress(ToolCall("1", "dig", "{}"), {"metres": 2}),
        TurnRetried(ValueError("busy"), 1),
        HandedOff(ToolCall("2", "to_b", "{}"), "a", "b"),
        Compacted(10, 4, 2000, 300, "they dug"),
        Nested("1", TextDelta("unseen")),
        TurnFinished(2, Usage(10, 20, 3, 4, 5), Timings(wall_s=0.5)),
    )
    assert said.splitlines() == [
        "So it is 3.",
        "… dig: {'metres': 2}",
        "! ValueError: busy (asked again, 1)",
        "⇒ a hands over to b",
        "⇣ history shortened from 2,000 to 300 tokens",
        "  turn 2: 500.0 ms, 20 tokens read, 10 reused, 3 sampled, 4 forced",
    ]


def test_a_terminal_shows_the_phases_as_a_bar_and_what_is_waited_for() -> None:
    out = io.StringIO()
    view = TextView(Console(file=out, force_terminal=True, width=60, color_system="truecolor"))
    timings = Timings(sampled_s=0.75, tool_s=0.25, wall_s=1.0)
    view.show(TurnStarted(1))
    view.show(TextDelta("It is."))
    view.show(RunFinished(RunResult("It is.", (), Usage(), timings, 1, "finished")))
    view.close()
    shown = out.getvalue()
    assert "turn 1: the model reads" in shown and "\x1b[?25h" in shown  # and the cursor is back
    assert " " * 45 in shown and " " * 15 in shown  # shares of 60 columns
    assert "pre-fill" not in shown  # no time was spent there


def test_nothing_printed_moves_the_cursor() -> None:
    assert "\x1b" not in printed(
        ToolProgress(ToolCall("1", "dig\x1b[2J", "{}"), "\x1b]0;owned\x07"),
        TurnRetried(ValueError("\x1b[1m"), 1),
    )
