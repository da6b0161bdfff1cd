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
import weakref
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


class _Pool:
    """What the threads share: it outlives their owner by as long as the last of them runs."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()  # None: there will be no more
        self.lock = threading.Lock()
        self.alive = 0
        self.free = 0

    def work(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_S)
            except queue.Empty:
                with self.lock:
                    if self.free <= 0:
                        continue  # a job was promised to this thread just now
                    self.free -= 1
                    self.alive -= 1
                return
            if job is None:
                self.jobs.put(None)  # for the next thread
                return
            if not job.future.cancelled():
                value = job.context.run(job.function)
                with contextlib.suppress(RuntimeError):  # loop closed meanwhile: nobody waits any more
                    job.loop.call_soon_threadsafe(_deliver, job.future, value)
                del value
            del job  # or an idle thread would keep the last result alive
            with self.lock:
                self.free += 1


class Threads:
    """At most `limit` threads, made when needed; gone when idle, and when this object is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool = _Pool()
        # No lock there: it may be called in the middle of anything. One agent a request is common, and
        # threads that wait for jobs of agents long gone would be hundreds.
        weakref.finalize(self, self._pool.jobs.put, None).atexit = False

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run function() in a thread. Cancelling the future drops a job that waits and abandons one that
        runs: no thread can be stopped from outside. function must not raise."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        pool = self._pool
        with pool.lock:
            start = pool.free <= 0 and pool.alive < self._limit
            if start:
                pool.alive += 1
            else:
                pool.free -= 1  # below zero: that many jobs wait for a thread
        pool.jobs.put(_Job(function, future, loop, contextvars.copy_context()))
        if start:
            threading.Thread(target=pool.work, name="kogagent tool", daemon=True).start()
        return future


def _deliver(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
