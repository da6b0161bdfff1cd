"""Daemon threads for blocking functions. Knows an event loop, not what it runs.

Not `asyncio.to_thread`: its threads are joined when the interpreter exits, so that one stuck tool would keep
the process alive. Not one queue for the whole process either: a pool belongs to whoever made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
_IDLE_S = 10.0


@dataclass(frozen=True, slots=True)
class _Job:
    function: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    context: contextvars.Context


class Threads:
    """At most `limit` threads, made when needed, gone when idle; jobs beyond that wait their turn."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._alive = 0
        self._free = 0

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run function() in a thread. Cancelling the future drops a job that waits and abandons one that
        runs: no thread can be stopped from outside. function must not raise."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            start = self._free <= 0 and self._alive < self._limit
            if start:
                self._alive += 1
            else:
                self._free -= 1  # below zero: that many jobs wait for a thread
        self._jobs.put(_Job(function, future, loop, contextvars.copy_context()))
        if start:
            threading.Thread(target=self._work, name="kogagent tool", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._free <= 0:
                        continue  # a job was promised to this thread just now
                    self._free -= 1
                    self._alive -= 1
                return
            if not job.future.cancelled():
                value = job.context.run(job.function)
                with contextlib.suppress(RuntimeError):  # loop closed meanwhile: nobody waits any more
                    job.loop.call_soon_threadsafe(_deliver, job.future, value)
                del value
            del job  # or an idle thread would keep the last result alive
            with self._lock:
                self._free += 1


def _deliver(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
