"""One turn of a model, heard to its end. Knows events, no tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from kogagent.errors import ModelError
from kogagent.loop.cleanup import close
from kogagent.loop.setup import Sink
from kogagent.types import (
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    ModelEvent,
    ObserveDelta,
    PlanDelta,
    TextDelta,
    ToolCall,
    TurnEnd,
)
from kogagent.types.quick import maker

_message = maker(AssistantMessage)
_TEXTS = frozenset((TextDelta, PlanDelta, ObserveDelta))
_UNHEARD = frozenset((CallDelta, CallStarted))  # what they say is in CallReady


async def hear(
    stream: AsyncIterator[ModelEvent], sink: Sink, on_call: Callable[[ToolCall], None] | None
) -> tuple[AssistantMessage, TurnEnd]:
    """Pass every event on, and return the whole turn. Text before a call is its plan.

    on_call is told of each call as soon as it is complete. Raises what the model raises, and ModelError for
    one that breaks its contract; the stream is closed then.
    """
    said: list[ModelEvent] = []
    calls: list[ToolCall] = []
    end: TurnEnd | None = None
    put, events = sink.put, aiter(stream)
    try:
        async for event in events:
            kind = type(event)  # looked up: isinstance takes long to say no
            if kind in _UNHEARD:
                pass
            elif kind in _TEXTS:
                said.append(event)
            elif isinstance(event, CallReady):
                call = event.call
                if not (
                    isinstance(call.arguments, str)
                    and isinstance(call.name, str)
                    and isinstance(call.id, str)
                ):
                    raise ModelError(
                        f"the model gave {call!r}: id, name and arguments are texts, the last JSON"
                    )
                if calls:
                    _refuse_twice(calls, call)
                said.append(event)
                calls.append(call)
                if on_call is not None and call.complete:
                    on_call(call)
            elif isinstance(event, TurnEnd):
                end = event
                put(event)
                break
            elif isinstance(event, TextDelta | PlanDelta | ObserveDelta):
                said.append(event)
            elif not isinstance(event, CallDelta | CallStarted):
                raise ModelError(f"the model yielded {event!r}, which is no ModelEvent")
            if put(event):
                await sink.drained()
        async for event in events:
            raise ModelError(f"the model went on after the end of its turn: {event!r}")
    except BaseException:
        await close(stream)
        raise
    if end is None:
        raise ModelError("the model's stream ended without a TurnEnd: the turn may be cut anywhere")
    if end.reason == "cancelled":
        raise ModelError("the model's turn was cancelled, and not by this run. Was the engine closed?")
    if len(said) == len(calls):  # as a rule, where there are calls
        return _message("", "", tuple(calls), end.ids), end
    try:
        text, plan = _texts(said)
    except TypeError:
        raise ModelError(f"the model gave something else than text as text: {said!r}") from None
    return _message(text, plan, tuple(calls), end.ids), end


def _refuse_twice(calls: list[ToolCall], call: ToolCall) -> None:
    for other in calls:
        if call.id == other.id:
            raise ModelError(f"the model gave two calls of one turn the id {call.id!r}")


def _texts(said: list[ModelEvent]) -> tuple[str, str]:
    """(the text of a turn, its plan). Text in front of a call is the plan for it."""
    observed, plan, before, after = list[str](), list[str](), list[str](), list[str]()
    into = before
    for event in said:
        if isinstance(event, TextDelta):  # the most frequent first
            into.append(event.text)
        elif isinstance(event, CallReady):
            into = after
        elif isinstance(event, PlanDelta):
            plan.append(event.text)
        elif isinstance(event, ObserveDelta):
            observed.append(event.text)
    planned, text = "".join(plan), "".join(before)
    if into is after:
        planned, text = planned + text, "".join(after)
    elif planned == text:
        planned = ""  # a plan that was the answer already
    if observed:
        seen = "".join(observed)
        if planned:
            planned = f"{seen}\n{planned}"  # a line each
        elif into is after or seen != text:  # else it was the answer already
            planned = seen
    return text, planned
