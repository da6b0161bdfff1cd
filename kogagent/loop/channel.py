"""Events on their way from a run to whoever reads them. Knows no model, no tools.

Deltas may run a little ahead of the reader. A tool must not: the run waits, before it starts one, until the
reader has taken every event before it and asked for the next. So no side effect happens unseen, and leaving
the stream early means that nothing more is done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kogagent.types import AgentEvent

_AHEAD = 256  # events


class Nobody:
    """The end of a run that nobody watches."""

    full = False
    waited_s = 0.0

    def put(self, event: AgentEvent) -> None:
        pass

    async def drained(self) -> None:
        pass


class Channel:
    """One reader, one run."""

    def __init__(self) -> None:
        self._events: deque[AgentEvent] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self.waited_s = 0.0  # the run, for its reader
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    @property
    def full(self) -> bool:
        """Time for the run to wait for the reader."""
        return len(self._events) >= _AHEAD

    def put(self, event: AgentEvent) -> None:
        if not self._closed:
            self._events.append(event)
            self._wake_reader()

    def close(self) -> None:
        """The reader wants no more."""
        self._closed = True
        self._events.clear()
        self._wake_reader()

    async def drained(self) -> None:
        """Wait until every event is taken and the reader waits for another."""
        started = time.perf_counter()
        while self._events or self._reader is None:
            writer = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer
        self.waited_s += time.perf_counter() - started

    def end(self, error: BaseException | None = None) -> None:
        """No event follows; an error is raised once, after the events before it were taken."""
        self._ended = True
        self._error = error
        self._wake_reader()

    async def get(self) -> AgentEvent:
        """The next event. Raises the run's error, StopAsyncIteration after the end."""
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            if self._ended:
                error, self._error = self._error, None
                raise error if error is not None else StopAsyncIteration
            if self._reader is not None:
                raise RuntimeError("another task is reading this stream; a stream has one reader")
            self._reader = asyncio.get_running_loop().create_future()
            for writer in self._writers:
                if not writer.done():
                    writer.set_result(None)
            self._writers.clear()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._events.popleft()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
