"""The one thread that owns the device. Knows jobs, segments and event loops; no tokens, no sessions.

Every call into a backend is a job of this thread. Jobs take turns, fairly by the time they use
(engine/turns.py), one step at a time; a segment that holds the device (`Decode.resident`) keeps its turn
until it ends or has had enough: then it is stopped at a token border and taken up again in its next turn.
The event loop never waits for the device: a consumer awaits a future, and is woken once for all that has
arrived since it looked.

A DeviceError poisons the worker: its thread ends, and every job, present and future, fails with
EngineClosedError. Any other error belongs to the job that raised it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kogagent import forks
from kogagent.engine.backend import Decode
from kogagent.engine.segment import GoOn, Segment, Steps, settled, wake
from kogagent.engine.turns import Account, Turns
from kogagent.errors import DeviceError, EngineClosedError, InputError

T = TypeVar("T")

_DOZE_S, _NAP_S = 2e-3, 1e-4
"""After a segment that held the device the thread dozes for so long before it sleeps, in naps of so long: the
next turn of a loop often comes within a millisecond, and a processor that has slept is woken late, in a
virtual machine by 50 to 200 µs."""


class _Job(Protocol):
    resident: bool

    @property
    def account(self) -> Account: ...

    def give_way(self) -> None:
        """Give up the device at the next token border, for a while; it holds it and others wait."""

    def step(self) -> bool:
        """Do one step on the worker's thread; True when it was the last."""

    def fail(self, error: BaseException) -> None: ...

    def stop(self, refusal: EngineClosedError | None = None) -> None:
        """End at the next border. refusal: what is told to whoever waits for it and did not ask for the
        end."""


class _Queue:
    """What the thread and its clients share. The thread holds this and no Worker, so that a forgotten engine
    can be collected."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()  # a session that is collected may submit in the middle of a submit
        self.bell = threading.Lock()  # what the thread waits for; whoever wakes it lets go of it
        self.bell.acquire()
        self.doze_until = 0.0  # by `time.perf_counter`
        self.asleep = False  # the thread waits for the bell, or is about to, and nobody has rung
        self.limit = limit
        self.clock = clock
        self.inbox: deque[_Job] = deque()
        self.jobs: set[_Job] = set()  # submitted, not ended
        self.current: _Job | None = None
        self.closing = False
        self.forked = False
        self.failure: DeviceError | None = None
        self.at_end: Callable[[], None] | None = None
        forks.leave_to_parent(self)

    def submit(self, job: _Job) -> None:
        with self.lock:
            if self.closing:
                raise self.refusal()
            if len(self.jobs) >= self.limit:
                raise InputError(
                    f"{len(self.jobs)} jobs already wait for the engine. Run fewer sessions at a time."
                )
            self.jobs.add(job)
            self.inbox.append(job)
            self._wake()

    def withdraw(self, job: _Job) -> bool:
        """Take back a job the thread is not in the middle of; it will not be touched again. False for one
        that is in its step or holds the device: it ends by itself after `stop`."""
        with self.lock:
            if job is self.current or job.resident:
                return False
            self.jobs.discard(job)
            return True

    def refusal(self) -> EngineClosedError:
        if self.forked:
            return EngineClosedError(
                "the engine was loaded before this process was forked, and its thread is in the parent. "
                "Load one in each process."
            )
        if self.failure is None:
            return EngineClosedError("the engine is closed. Load a new one.")
        error = EngineClosedError(
            f"an earlier device error closed the engine: {self.failure}. Load a new one."
        )
        error.__cause__ = self.failure
        return error

    def close(self, failure: DeviceError | None = None) -> None:
        with self.lock:
            self.closing = True
            self.failure = self.failure or failure
            for job in self.jobs:
                if job is self.current or job.resident:
                    job.stop(self.refusal())
            self._wake()

    def leave_to_parent(self) -> None:
        """Closed: this process was forked, and has no thread that would run anything."""
        self.lock = threading.RLock()  # a thread that is not here may hold the other
        self.jobs, self.current = set(), None
        self.closing = self.forked = True

    def wait(self) -> None:
        """The thread's: until there is something in the inbox, or the queue is closed. Dozes first, where
        it is told to."""
        while True:
            with self.lock:
                self.asleep = True  # before the look: who comes between the two rings
                if self.inbox or self.closing:
                    self.asleep = False
                    return
            self.bell.acquire(timeout=_NAP_S if time.perf_counter() < self.doze_until else -1)

    def _wake(self) -> None:
        if self.asleep:
            self.asleep = False
            if self.bell.locked():
                self.bell.release()


def _serve(queue: _Queue) -> None:
    """The thread: run jobs in turn until closed, then fail what is left."""
    ready: Turns[_Job] = Turns()
    while _serve_one(queue, ready):
        pass
    with queue.lock:
        left = [job for job in ready if job in queue.jobs]
    for job in left:
        # A running segment holds the device: it was told to stop, let it. It says itself how it ended.
        ended = False
        while job.resident and queue.failure is None and not ended:
            ended = _step(queue, job)
        if not ended:
            job.fail(queue.refusal())
    queue.jobs.clear()
    if queue.at_end is not None:
        try:
            queue.at_end()
        except DeviceError as error:  # what a broken device says to its own closing adds nothing
            queue.failure = queue.failure or error


def _serve_one(queue: _Queue, ready: Turns[_Job]) -> bool:
    """Do one step of the next job; False when the queue is closed. Holds no job while it waits."""
    if not ready:
        queue.wait()
    with queue.lock:
        _let_in(queue, ready)
        if queue.closing:
            return False
        job = ready.next()
        if job not in queue.jobs:  # withdrawn
            return True
        queue.current = job
    ended = _charged_step(queue, ready, job)
    while not ended and job.resident:  # it holds the device: others may only ask it to give way
        with queue.lock:
            if queue.closing:
                break
            _let_in(queue, ready)
        if ready.wants(job):
            job.give_way()
        ended = _charged_step(queue, ready, job)
    if job.resident:
        queue.doze_until = time.perf_counter() + _DOZE_S
    if not ended:
        ready.wait(job)
    with queue.lock:
        queue.current = None
    return True


def _let_in(queue: _Queue, ready: Turns[_Job]) -> None:
    for job in queue.inbox:
        ready.come(job)
    queue.inbox.clear()


def _charged_step(queue: _Queue, ready: Turns[_Job], job: _Job) -> bool:
    began = queue.clock()
    ended = _step(queue, job)
    ready.ran(job, queue.clock() - began)
    return ended


def _step(queue: _Queue, job: _Job) -> bool:
    try:
        ended = job.step()
    except BaseException as error:
        if isinstance(error, DeviceError) and not isinstance(error, EngineClosedError):
            queue.close(error)
        job.fail(error)
        ended = True
    if ended:
        with queue.lock:
            queue.jobs.discard(job)
    return ended


def _shut_down(queue: _Queue, thread: threading.Thread) -> None:
    queue.close()
    if thread is not threading.current_thread():
        thread.join()


class _Call(Generic[T]):
    """A job whose result one coroutine awaits."""

    resident = False

    def __init__(self, steps: Steps[T], account: Account) -> None:
        self._steps = steps
        self.account = account
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._stopping = False
        self._result: list[T] = []
        self._error: BaseException | None = None

    def step(self) -> bool:
        try:
            if not self._stopping:
                next(self._steps)
                return False
        except StopIteration as end:
            self._result.append(end.value)
        wake(self._loop, self.ended)
        return True

    def fail(self, error: BaseException) -> None:
        self._error = error
        wake(self._loop, self.ended)

    def stop(self, refusal: EngineClosedError | None = None) -> None:
        """End at the next step border, without a result."""
        self._error = self._error or refusal
        self._stopping = True

    def give_way(self) -> None:
        """It holds nothing."""

    def result(self) -> T:
        if self._result:  # it came before the end it was asked for
            return self._result[0]
        assert self._error is not None
        raise self._error


class _BlockingCall(Generic[T]):
    """A job whose result one thread waits for."""

    resident = False

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.account = Account()
        self._ended = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def step(self) -> bool:
        self._result.append(self._function())
        self._ended.set()
        return True

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._ended.set()

    def stop(self, refusal: EngineClosedError | None = None) -> None:
        """It is one step, and ends with it."""

    def give_way(self) -> None:
        """It holds nothing."""

    def result(self) -> T:
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result[0]


class Worker:
    """The thread and its queue. `inbox` bounds the jobs that may wait: more are refused with InputError.
    clock: seconds, by which jobs are charged."""

    def __init__(
        self,
        *,
        name: str = "kogagent-engine",
        inbox: int = 1024,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._queue = _Queue(inbox, clock)
        self._thread = threading.Thread(target=_serve, args=(self._queue,), name=name, daemon=True)
        self._thread.start()
        # Also runs at interpreter exit, so that no device call is cut off in the middle.
        self._shut_down = weakref.finalize(self, _shut_down, self._queue, self._thread)

    @property
    def closed(self) -> bool:
        return self._queue.closing

    def check_open(self) -> None:
        """Raise EngineClosedError when closed, saying by what."""
        if self._queue.closing:
            raise self._queue.refusal()

    def at_end(self, function: Callable[[], None]) -> None:
        """Have the thread call this as its last act."""
        self._queue.at_end = function

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and return what it returns."""

        def steps() -> Steps[T]:
            return function()
            yield

        return await self.call_in_steps(steps())

    async def call_in_steps(self, steps: Steps[T], account: Account | None = None) -> T:
        """Run work in steps on the thread. Cancelled, it ends at the next step border, then re-raises."""
        job = _Call(steps, Account() if account is None else account)
        self._queue.submit(job)
        try:
            await asyncio.wait([job.ended])
        except asyncio.CancelledError:
            job.stop()
            if not self._queue.withdraw(job):
                await settled(job.ended)
            raise
        return job.result()

    def call_blocking(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and block this one. Not for an event loop's thread."""
        job = _BlockingCall(function)
        self._queue.submit(job)
        return job.result()

    def post(self, function: Callable[[], None]) -> None:
        """Have the thread run a function in its turn; nobody waits, an error it raises is lost."""
        self._queue.submit(_BlockingCall(function))

    def segment(
        self,
        start: Steps[Decode],
        go_on: GoOn | None = None,
        account: Account | None = None,
        *,
        patient: bool = False,
    ) -> Segment:
        """Queue a decode segment; returns at once."""
        return Segment(self._queue, start, go_on, account, patient=patient)

    def close(self) -> None:
        """End the current step, fail all other jobs with EngineClosedError, end the thread. Idempotent;
        blocks for that one step."""
        self._shut_down()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await asyncio.to_thread(self._shut_down)
