"""Events on their way from a run to whoever reads them. Knows no model, no tools.

Deltas may run a little ahead of the reader. A tool must not: the run waits, before it starts one, until the
reader has taken every event before it and asked for the next. So no side effect happens unseen, and leaving
the stream early means that nothing more is done.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Generator
from time import perf_counter
from typing import Any

from kogagent.types import AgentEvent

_AHEAD = 256  # events


class Nobody:
    """The end of a run that nobody watches."""

    waited_s = 0.0

    def put(self, event: AgentEvent) -> bool:
        return False

    @types.coroutine
    def drained(self) -> Generator[None, None, None]:
        yield  # the event loop gets a pass: a model and tools that never wait would keep it to themselves


class Channel:
    """One reader, one run."""

    def __init__(self) -> None:
        self.events: deque[AgentEvent] = deque()  # not taken yet
        self._reader: asyncio.Future[None] | None = None  # waits for an event, and has not been woken
        self._writers: list[asyncio.Future[None]] = []
        self.waited_s = 0.0  # the run, for its reader
        self._passing = False  # the run gives the event loop one pass, for the reader's sake
        self._asked = False  # the reader does so, for the run's
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def put(self, event: AgentEvent) -> bool:
        """Take an event. True where the reader is so far behind that the run should wait for it."""
        events = self.events
        events.append(event)
        if self._reader is not None:
            self._wake_reader()
        return len(events) >= _AHEAD

    def close(self) -> None:
        """The reader wants no more."""
        self._closed = True
        self.events = deque(maxlen=0)  # which takes everything and keeps nothing
        self._wake_reader()

    @types.coroutine
    def drained(self) -> Generator[Any, None, None]:
        """Wait until every event is taken and the reader waits for another. A generator, since a coroutine
        that gives the event loop one pass would need another below it."""
        if not self.events and (self._reader is not None or self._asked):
            return
        started = perf_counter()
        self._passing = True
        try:
            yield  # a reader that was woken has its turn now, and seldom needs more
        finally:
            self._passing = False
        while self.events or (self._reader is None and not self._asked):
            writer = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            yield from writer
        self.waited_s += perf_counter() - started

    def end(self, error: BaseException | None = None) -> None:
        """No event follows; an error is raised once, after the events before it were taken."""
        self._ended = True
        self._error = error
        self._wake_reader()

    @types.coroutine
    def get(self) -> Generator[Any, None, AgentEvent]:
        """The next event. Raises the run's error, StopAsyncIteration after the end. A generator as `drained`
        is."""
        while not self.events:
            if self._closed:
                raise StopAsyncIteration
            if self._ended:
                error, self._error = self._error, None
                raise error if error is not None else StopAsyncIteration
            if self._reader is not None or self._asked:
                raise RuntimeError("another task is reading this stream; a stream has one reader")
            for writer in self._writers:
                if not writer.done():
                    writer.set_result(None)
            self._writers.clear()
            if self._passing:  # the run waits for this question alone: it may have put more by the next pass
                self._asked = True
                try:
                    yield
                finally:
                    self._asked = False
                continue
            self._reader = waiting = asyncio.get_running_loop().create_future()
            try:
                yield from waiting
            finally:
                if self._reader is waiting:
                    self._reader = None
        return self.events.popleft()

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)
