"""A run inside a call: an agent that is another one's tool. Knows runs by their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kogagent.types import AgentEvent, Nested, RunContext, RunResult, TurnEnd, Usage

if TYPE_CHECKING:
    from kogagent.loop.conversation import Conversation


class _Inside:
    """The sink of a nested run: its events are the outer run's."""

    waited_s = 0.0

    def __init__(self, context: RunContext[Any]) -> None:
        self._context = context
        self.usage = Usage()  # of the turns that have ended

    def put(self, event: AgentEvent) -> bool:
        inner = event
        while isinstance(inner, Nested):
            inner = inner.event
        if isinstance(inner, TurnEnd):
            self.usage += inner.usage
        if self._context._run is not None:
            self._context._run.nested(self._context.call, event)
        return False

    async def drained(self) -> None:
        if self._context._run is not None:
            await self._context._run.drained()


async def run_nested(conversation: Conversation, task: str, context: RunContext[Any]) -> RunResult:
    """A run whose events and tokens belong to the run that the context is of."""
    sink = _Inside(context)
    spent: Usage | None = None
    try:
        async with conversation:
            result = await conversation.drive(sink, task, deps=context.deps)
        spent = result.usage
        return result
    finally:
        if context._run is not None:
            context._run.spent(sink.usage if spent is None else spent)
