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
_HEARD = frozenset((TextDelta, CallReady))
_UNHEARD = frozenset((CallDelta, CallStarted))  # what they say is in CallReady


async def hear(
    stream: AsyncIterator[ModelEvent], sink: Sink, on_call: Callable[[ToolCall], None] | None
) -> tuple[AssistantMessage, TurnEnd]:
    """Pass every event on, and return the whole turn. Text before a call is its plan.

    on_call is told of each call as soon as it is complete. Raises what the model raises, and ModelError for
    one that breaks its contract; the stream is closed then.
    """
    said = _Said()
    end: TurnEnd | None = None
    try:
        async for event in stream:
            if end is not None:
                raise ModelError(f"the model went on after the end of its turn: {event!r}")
            kind = type(event)  # looked up: isinstance takes long to say no
            if kind in _UNHEARD:
                pass
            elif kind in _HEARD or not isinstance(event, TurnEnd):
                said.add(event)
                if on_call is not None and isinstance(event, CallReady) and event.call.complete:
                    on_call(event.call)
            else:
                end = event
            if sink.put(event):
                await sink.drained()
    except BaseException:
        await close(stream)
        raise
    if end is None:
        raise ModelError("the model's stream ended without a TurnEnd: the turn may be cut anywhere")
    if end.reason == "cancelled":
        raise ModelError("the model's turn was cancelled, and not by this run. Was the engine closed?")
    return said.message(end.ids), end


class _Said:
    """What a model has said in a turn so far."""

    __slots__ = ("_after", "_before", "_calls", "_observed", "_plan")

    def __init__(self) -> None:
        self._observed: list[str] = []
        self._plan: list[str] = []
        self._before: list[str] = []
        self._after: list[str] = []
        self._calls: list[ToolCall] = []

    def add(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):  # the most frequent first
            (self._after if self._calls else self._before).append(event.text)
        elif isinstance(event, CallReady):
            for other in self._calls:
                if event.call.id == other.id:
                    raise ModelError(f"the model gave two calls of one turn the id {event.call.id!r}")
            self._calls.append(event.call)
        elif isinstance(event, PlanDelta):
            self._plan.append(event.text)
        elif isinstance(event, ObserveDelta):
            self._observed.append(event.text)
        elif not isinstance(event, CallDelta | CallStarted):
            raise ModelError(f"the model yielded {event!r}, which is no ModelEvent")

    def message(self, ids: tuple[int, ...]) -> AssistantMessage:
        """The turn. Text in front of a call is the plan for it."""
        plan, text = "".join(self._plan), "".join(self._before)
        if self._calls:
            plan, text = plan + text, "".join(self._after)
        elif plan == text:
            plan = ""  # a plan that was the answer already
        if self._observed:
            observed = "".join(self._observed)
            if plan:
                plan = f"{observed}\n{plan}"  # a line each
            elif self._calls or observed != text:  # else it was the answer already
                plan = observed
        return _message(text, plan, tuple(self._calls), ids)
