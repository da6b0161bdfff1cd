"""Calls that may not run side by side. Knows event loops, not what runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from types import TracebackType


class Group:
    """At most `limit` holders at once, first come first served, over all event loops and threads.

    Not an asyncio.Semaphore: that belongs to one event loop, and a toolbox may serve several.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._lock:
            if self._free > 0 and not self._waiting:
                self._free -= 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                waiting = turn in self._waiting
                if waiting:
                    self._waiting.remove(turn)
            if not waiting:  # the turn came together with the cancellation: pass it on
                self._release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    return
                turn = self._waiting.popleft()
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
                turn.get_loop().call_soon_threadsafe(self._give, turn)
                return

    def _give(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():  # else it was cancelled, and has passed its turn on by itself
            turn.set_result(None)
