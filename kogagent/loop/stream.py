"""The events of a run as an iterator that is also a context manager. Knows no model, no tools."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from kogagent.errors import InputError
from kogagent.loop.channel import Channel
from kogagent.loop.cleanup import finish_within
from kogagent.types import AgentEvent, Message, RunResult
from kogagent.types.events import Out

if TYPE_CHECKING:
    from kogagent.loop.conversation import Conversation

_CLOSE_S = 30.0  # what a run stops within is bounded in itself: tools by their grace, a model by its close


class AgentStream(Generic[Out]):
    """The events of one run. Nothing happens before the first is asked for.

        async with agent.stream("…") as events:
            async for event in events: ...

    Leaving the block early cancels the run: the model stops at a token border, tools are cancelled and
    awaited. Run to its end, it needs no block; dropped half-way without one, it warns. One reader at a time.
    """

    def __init__(
        self,
        drive: Callable[[Channel], Coroutine[Any, Any, RunResult[Out]]],
        conversation: Conversation[Any, Out],
    ) -> None:
        self._drive = drive
        self._conversation = conversation
        self._channel = Channel()
        self._task: asyncio.Task[RunResult[Out]] | None = None
        self._closed = False

    @property
    def result(self) -> RunResult[Out]:
        """What the run came to. Raises InputError before it has ended."""
        task = self._task
        if task is None or not task.done():
            raise InputError("the run has no result: read its events to the end first")
        if task.cancelled() or task.exception() is not None:
            raise InputError(
                "the run has no result: it did not come to its end. See messages for what it did."
            )
        return task.result()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history and what the run has added to it so far, also where it was left early or raised: what
        `history=` takes to go on from there. A turn that was left half-way is no message."""
        return tuple(self._conversation.transcript)

    async def fork(self, *, messages: int | None = None) -> Conversation[Any, Out]:
        """A conversation that goes on from what the run has come to, or from its first so many messages;
        the run goes on by itself. See Conversation.fork; close it."""
        return await self._conversation.fork(messages=messages)

    def __aiter__(self) -> AgentStream[Out]:
        return self

    async def __anext__(self) -> AgentEvent:
        events = self._channel.events
        if events:
            return events.popleft()
        if self._task is None:
            if self._closed:
                raise StopAsyncIteration
            self._task = asyncio.get_running_loop().create_task(self._drive(self._channel))
            self._task.add_done_callback(_ender(self._channel))
        try:
            return await self._channel.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def __aenter__(self) -> AgentStream[Out]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the run and wait until everything it started has stopped. Calling it again does nothing."""
        self._closed = True
        self._channel.close()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await finish_within(_ended(self._task), _CLOSE_S)

    def __del__(self) -> None:
        if self._task is not None and not self._task.done():
            warnings.warn(
                "an agent's stream was dropped half-way; its run is cancelled now. "
                "Use `async with agent.stream(…) as events`, or read it to its end.",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing runs any more
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _ender(channel: Channel) -> Callable[[asyncio.Task[RunResult[Any]]], None]:
    """Ends the channel with the run. No reference to the stream: it must be seen when that is dropped."""

    def end(task: asyncio.Task[RunResult[Any]]) -> None:
        channel.end(None if task.cancelled() else task.exception())

    return end


def _ended(task: asyncio.Task[RunResult[Any]]) -> asyncio.Future[None]:
    """Done when the task is, however that ended: who waits to close does not want its error again."""
    ended = task.get_loop().create_future()

    def tell(_: Awaitable[RunResult]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(tell)
    return ended
