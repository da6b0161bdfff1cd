"""What to do after a model turn, as a value. Pure: knows no model, no tools, no clock."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, TypeAlias

from kogagent.loop.unfinished import ran_on_in
from kogagent.types import AssistantMessage, FinishReason, StopReason, ToolCall
from kogagent.types.quick import maker, quick


@quick
@dataclass(frozen=True, slots=True)
class Act:
    """Run these calls, then give the model another turn."""

    calls: tuple[ToolCall, ...]


@quick
@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    output: Any
    reason: StopReason = "finished"


@quick
@dataclass(frozen=True, slots=True)
class AskAgain:
    """The answer cannot be used; the model is told why and answers again."""

    reason: str


@quick
@dataclass(frozen=True, slots=True)
class GiveUp:
    """The answer cannot be used and has been asked for often enough."""

    reason: str


@quick
@dataclass(frozen=True, slots=True)
class HandOff:
    """Run these calls, the one to another agent among them; then that agent goes on."""

    calls: tuple[ToolCall, ...]
    call: ToolCall


_act = maker(Act)
Step: TypeAlias = Act | HandOff | Finish | AskAgain | GiveUp


@quick
@dataclass(frozen=True, slots=True)
class Valid:
    """An answer as the output type."""

    value: Any


@quick
@dataclass(frozen=True, slots=True)
class Invalid:
    """What is wrong with an answer, in words for the model."""

    problem: str


Check: TypeAlias = Callable[[str], Valid | Invalid]
"""Reads an answer as the output type."""


def decide(
    message: AssistantMessage,
    reason: FinishReason,
    check: Check | None,
    retries_left: int,
    handoffs: Container[str] = (),
) -> Step:
    """The next step after a turn. check is None where any text is an answer; handoffs are the calls that mean
    another agent."""
    if message.calls:
        if handoffs:
            for call in message.calls:
                if call.name in handoffs and call.complete:
                    return HandOff(message.calls, call)
        return _act(message.calls)
    cut = reason in ("length", "context")
    if check is None:
        return Finish(message.text, "max_tokens" if cut else "finished")
    if cut:
        where = ran_on_in(message.text)
        problem = f"The answer was cut off by the token limit{where and f', in {where}'}. Give a shorter one."
    else:
        checked = check(message.text)
        if isinstance(checked, Valid):
            return Finish(checked.value)
        problem = checked.problem
    if retries_left <= 0 or reason == "context":
        return GiveUp(problem)
    return AskAgain(problem)
