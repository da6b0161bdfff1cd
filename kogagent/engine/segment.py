"""One decode segment between the worker's thread and the event loop that reads it. Knows no other job."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, TypeVar

import anyio

from kogagent.engine.backend import Decode, DecodeStats, Emitted
from kogagent.engine.turns import Account
from kogagent.errors import EngineClosedError
from kogagent.types import FinishReason

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work in steps, run on the worker's thread; other jobs may run at each `yield`."""
GoOn: TypeAlias = Callable[[list[Emitted]], Decode]
"""Takes up a segment that was stopped after these ids; on the worker's thread."""

_WAIT_S = 0.1  # how long one `Decode.wait` may go without a token before the worker looks at its inbox
_APART_S = 0.05
"""How long a patient reader that was given tokens leaves the processor to the model, where they share one: a
wake-up costs a third of a millisecond in which nothing is computed."""
_NO_STATS = DecodeStats(0.0, 0.0, 0.0, 0)


class JobQueue(Protocol):
    """Where a segment waits for its turn."""

    def submit(self, job: Segment) -> None: ...

    def withdraw(self, job: Segment) -> bool:
        """Take it back, unless the thread is in the middle of it."""


def wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Resolve a future of another thread's event loop."""

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    try:
        loop.call_soon_threadsafe(resolve)
    except RuntimeError:  # that loop is closed: nobody waits any more
        return


async def settled(future: asyncio.Future[None]) -> None:
    """Wait for a future whatever cancellation comes meanwhile, then re-raise that cancellation."""
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


class Segment:
    """A decode segment as its one consumer sees it, from the event loop it was made in.

    `start` runs on the worker's thread: any preparation in steps, then the Decode. go_on: makes the Decode
    anew after the segment has given way; without it, it never does. patient: the consumer will not end it for
    what it reads, and may be told of ids some time after they came.
    """

    resident = False

    def __init__(
        self,
        queue: JobQueue,
        start: Steps[Decode],
        go_on: GoOn | None = None,
        account: Account | None = None,
        *,
        patient: bool = False,
    ) -> None:
        self._queue = queue
        self.account = Account() if account is None else account
        self._start: Steps[Decode] | None = start
        self._go_on = go_on
        self._patient = patient
        self._gave_way = False  # the Decode was stopped for others, not for good
        self._emitted: list[Emitted] = []  # of a resident segment, all so far
        self._spent = _NO_STATS  # by Decodes that gave way
        self._decode: Decode | None = None
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()  # guards what follows: written by the worker, read by the loop
        self._batch: list[Emitted] = []
        self._error: BaseException | None = None
        self._ended = False
        self._stopping = False
        self._refusal: EngineClosedError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._looks_itself = False  # the reader, at `_look_at`: only the end is worth waking it before
        self._look_at = 0.0  # loop time
        self._reason: FinishReason | None = None
        queue.submit(self)

    # ── the worker's side ──

    def step(self) -> bool:
        if self._decode is None and not self._prepare():
            return self._ended
        decode = self._decode
        assert decode is not None
        decode.wait(_WAIT_S)
        batch = decode.drain_nowait()
        reason = decode.reason  # behind the ids, the last of which may only just have come
        ended = reason is not None
        if self.resident and self._go_on is not None:
            self._emitted += batch
        if reason == "cancelled" and self._gave_way:
            reason = self._let_go()
        if batch or reason is not None:
            self._post(batch, reason, None)
        if ended:
            decode.settle()  # the reader goes on meanwhile
        return reason is not None

    def give_way(self) -> None:
        if self._go_on is not None and self._decode is not None:
            self._gave_way = True
            self._decode.stop()

    def _let_go(self) -> FinishReason | None:
        """The Decode has ended for the sake of others: another goes on in the next turn."""
        with self._lock:
            self._gave_way = False
            if self._stopping:
                return "cancelled"
            assert self._decode is not None and self._go_on is not None
            self._spent = _sum(self._spent, self._decode.stats)
            self._decode, self.resident = None, False
            self._start = _again(self._go_on, self._emitted)
        return None

    def _prepare(self) -> bool:
        """A step of what comes before the Decode; whether there is one now."""
        if self._stopping:
            self._post([], "cancelled", None)
            return False
        assert self._start is not None
        try:
            next(self._start)
        except StopIteration as end:
            decode: Decode = end.value
            self._start = None
            with self._lock:
                self._decode = decode
                self.resident = decode.resident
                if self._stopping:
                    decode.stop()
        return self._decode is not None

    def fail(self, error: BaseException) -> None:
        batch: list[Emitted] = []
        with contextlib.suppress(Exception):  # a broken device may break here too; `error` is the one to tell
            batch = [] if self._decode is None else self._decode.drain_nowait()
        self._post(batch, None, error)

    def _post(self, batch: list[Emitted], reason: FinishReason | None, error: BaseException | None) -> None:
        with self._lock:
            if reason == "cancelled" and self._refusal is not None:  # not by its reader, who has half a text
                reason, error = None, self._refusal
            self._batch += batch
            # What fails behind the last id leaves the reason to whoever has that already.
            self._reason, self._error = reason or self._reason, error
            self._ended = reason is not None or error is not None
            if self._looks_itself and not self._ended:
                return
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:  # the consumer, or whoever closes it; nobody when the loop is busy elsewhere
            wake(self._loop, waiter)

    # ── the consumer's side ──

    async def next_batch(self) -> list[Emitted]:
        """What has been emitted since the last call, at least one id; empty when the segment has ended.

        Raises the segment's error once everything emitted before it was handed over.
        """
        while True:
            with self._lock:
                batch, self._batch = self._batch, []
                if batch:
                    self._look_at = self._loop.time() + _APART_S
                    return batch
                if self._error is not None:
                    raise self._error
                if self._ended:
                    return []
                waiter = self._wait()
                beside = self._patient and not self.resident
                self._looks_itself = beside and self._loop.time() < self._look_at
            timer = self._loop.call_at(self._look_at, self._look) if self._looks_itself else None
            try:
                await waiter
            finally:
                if timer is not None:
                    timer.cancel()

    def _look(self) -> None:
        """Hand over what has come, and be woken for what comes from now on."""
        with self._lock:
            self._looks_itself = False
            if not self._batch:
                return
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def stop(self, refusal: EngineClosedError | None = None) -> None:
        """Ask for the end at the next token border. From any thread. refusal: for the reader, where it is not
        the one that asks."""
        with self._lock:
            if not self._stopping:
                self._refusal = refusal
            self._stopping = True
            if self._decode is not None and not self._ended:  # what a dead engine leaves may be closed
                self._decode.stop()

    async def aclose(self) -> None:
        """Stop, and wait until the worker has let go: at most one step. What was emitted but not taken is
        dropped. Cancellation waits for that and is raised then."""
        self.stop()
        if self._queue.withdraw(self) and not self._ended:
            self._post([], "cancelled", None)
        cancelled: asyncio.CancelledError | None = None
        while True:
            with self._lock:
                self._batch = []
                if self._ended:
                    break
                waiter = self._wait()
            try:
                await settled(waiter)
            except asyncio.CancelledError as error:  # what came may have been a token, not the end
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _wait(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    @property
    def reason(self) -> FinishReason | None:
        """Why it ended; None while it runs and after an error."""
        return self._reason

    @property
    def stats(self) -> DecodeStats:
        return self._spent if self._decode is None else _sum(self._spent, self._decode.stats)


def _again(go_on: GoOn, emitted: list[Emitted]) -> Steps[Decode]:
    return go_on(emitted)
    yield


def _sum(a: DecodeStats, b: DecodeStats) -> DecodeStats:
    return DecodeStats(
        a.prefill_s + b.prefill_s, a.sampled_s + b.sampled_s, a.forced_s + b.forced_s, a.steps + b.steps
    )
