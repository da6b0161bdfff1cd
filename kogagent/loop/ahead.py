"""A turn begun on a guess: the model goes on while the tools run. Knows a model's stream, no tools.

The guess is what the results will read. Where it was right, the turn is taken as if it had begun just now;
where it was wrong, it is closed, and nobody has seen any of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from kogagent.loop.cleanup import close
from kogagent.loop.protocols import Model, TurnRequest
from kogagent.types import ModelEvent, ToolResult, Usage


class Ahead:
    """The stream of a turn whose events are kept until somebody wants them."""

    def __init__(self, model: Model, request: TurnRequest, guess: Mapping[str, str]) -> None:
        self.guess = guess  # call id -> text
        self._stream: AsyncIterator[ModelEvent] = model.stream(request)
        self._events: deque[ModelEvent] = deque()
        self._more: asyncio.Future[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._pump())

    def was_right(self, results: Iterable[ToolResult | None]) -> bool:
        """Whether every result reads as it was guessed."""
        return all(
            result is not None and result.status == "ok" and result.text == self.guess.get(result.call_id)
            for result in results
        )

    @property
    def usage(self) -> Usage:
        """Tokens it has cost so far, where the model says."""
        used: Any = getattr(self._stream, "usage", None)
        return used if isinstance(used, Usage) else Usage()

    async def _pump(self) -> None:
        try:
            async for event in self._stream:
                self._events.append(event)
                self._wake()
        finally:
            self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def __aiter__(self) -> Ahead:
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._events:
            if self._task.done():
                self._task.result()  # the model's error, after the events before it
                raise StopAsyncIteration
            self._more = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._more, self._task), return_when=asyncio.FIRST_COMPLETED)
        return self._events.popleft()

    async def aclose(self) -> None:
        """Stop the model at a token border."""
        self._events.clear()
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        with contextlib.suppress(asyncio.CancelledError, Exception):
            self._task.result()  # an error of a turn that nobody wants is nobody's
        await close(self._stream)
