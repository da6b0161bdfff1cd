"""The device's one thread: turns, wake-ups, cancellation, poison. Gates instead of sleeps."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import count

import anyio
import numpy as np
import pytest

from kogagent.engine.backend import Decode, DecodePlan, DecodeStats, Emitted
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.segment import Segment, Steps
from kogagent.engine.worker import Worker
from kogagent.errors import DeviceError, EngineClosedError, InputError, ModelError
from kogagent.testing.toy import ToyBackend, comes
from kogagent.types import FinishReason


class Gate:
    """A point the worker waits at until the test opens it, and which tells the test it was reached."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert comes(self._open.wait), "the test never opened the gate"

    def open(self) -> None:
        self._open.set()

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(comes, self.reached.wait), "the worker never came to the gate"


class FakeDecode:
    """Emits 0, 1, 2… one a wait, up to `count`; `on_wait` runs first."""

    def __init__(
        self, count: int, *, resident: bool = False, on_wait: Callable[[int], None] | None = None
    ) -> None:
        self.resident = resident
        self.waits = self.settled = 0
        self._count, self._on_wait = count, on_wait
        self._out: list[Emitted] = []
        self._stop = threading.Event()
        self.reason: FinishReason | None = None

    def drain_nowait(self) -> list[Emitted]:
        out, self._out = self._out, []
        return out

    def wait(self, seconds: float) -> None:
        if self.reason is not None:
            return
        if self._stop.is_set():
            self.reason = "cancelled"
            return
        if self._on_wait is not None:
            self._on_wait(self.waits)
        self._out.append(Emitted(self.waits, 0.0, False))
        self.waits += 1
        if self.waits == self._count:
            self.reason = "length"

    def stop(self) -> None:
        self._stop.set()

    def settle(self) -> None:
        assert self.reason is not None
        self.settled += 1

    @property
    def stats(self) -> DecodeStats:
        return DecodeStats(0.0, 0.0, 0.0, self.waits)


def start(decode: Decode) -> Steps[Decode]:
    return decode
    yield


async def take_all(segment: Segment) -> list[int]:
    out: list[int] = []
    while batch := await segment.next_batch():
        out += [e.id for e in batch]
    return out


@pytest.fixture
def worker() -> Worker:
    return Worker(clock=count().__next__)  # every step costs the same


async def test_jobs_run_on_one_thread_that_is_not_the_loops(worker: Worker) -> None:
    names = await asyncio.gather(*(worker.call(threading.get_ident) for _ in range(20)))
    assert len(set(names)) == 1 and names[0] != threading.get_ident()


async def test_a_call_returns_its_value_and_raises_its_error_and_the_worker_goes_on(worker: Worker) -> None:
    def fail() -> None:
        raise ZeroDivisionError("planted")

    assert await worker.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError, match="planted"):
        await worker.call(fail)
    with pytest.raises(ZeroDivisionError, match="planted"):
        await asyncio.to_thread(worker.call_blocking, fail)
    assert await worker.call(lambda: 8) == 8
    assert await asyncio.to_thread(worker.call_blocking, lambda: 9) == 9


async def test_a_segment_hands_over_everything_in_order_and_then_its_reason(worker: Worker) -> None:
    segment = worker.segment(start(FakeDecode(100)))
    assert await take_all(segment) == list(range(100))
    assert segment.reason == "length"
    assert segment.stats.steps == 100
    assert await segment.next_batch() == []


async def test_the_loop_is_woken_once_for_all_that_arrived(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    wakes = 0
    schedule = loop.call_soon_threadsafe

    def counted(*args: object, **kwargs: object) -> asyncio.Handle:
        nonlocal wakes
        wakes += 1
        return schedule(*args, **kwargs)  # type: ignore[arg-type]

    gate, done = Gate(), threading.Event()

    def pause(index: int) -> None:
        if index == 0:
            gate()
        if index == 499:
            done.set()

    segment = worker.segment(start(FakeDecode(500, on_wait=pause)))
    await gate.until_reached()
    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    first = asyncio.ensure_future(segment.next_batch())
    await asyncio.sleep(0)  # the consumer waits now
    gate.open()
    assert comes(done.wait)  # the loop looks away, on purpose, until all 500 were emitted
    assert wakes == 1
    assert len(await first) >= 499
    assert await take_all(segment) is not None
    assert wakes <= 3


async def test_a_patient_reader_beside_the_model_is_woken_for_the_end_alone_until_it_looks_itself(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = {1: Gate(), 4: Gate()}

    def on_wait(at: int) -> None:
        if at in gates:
            gates[at]()

    monkeypatch.setattr("kogagent.engine.segment._APART_S", math.inf)
    segment = worker.segment(start(FakeDecode(6, on_wait=on_wait)), patient=True)
    assert [e.id for e in await segment.next_batch()] == [0]
    rest = asyncio.ensure_future(segment.next_batch())
    await asyncio.sleep(0)  # the reader waits
    gates[1].open()
    await gates[4].until_reached()
    assert not rest.done()  # three ids have come meanwhile
    gates[4].open()
    assert [e.id for e in await rest] == [1, 2, 3, 4, 5]

    monkeypatch.setattr("kogagent.engine.segment._APART_S", 0.001)
    gates[1], gates[4] = Gate(), Gate()
    segment = worker.segment(start(FakeDecode(6, on_wait=on_wait)), patient=True)
    assert [e.id for e in await segment.next_batch()] == [0]
    gates[1].open()
    seen: list[int] = []
    while len(seen) < 3:  # while the model is held in its fifth pass
        seen += [e.id for e in await segment.next_batch()]
    gates[4].open()
    assert seen + await take_all(segment) == [1, 2, 3, 4, 5]


async def test_the_event_loop_runs_while_the_device_works(worker: Worker) -> None:
    gate = Gate()
    job = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    turns = 0
    for _ in range(1000):  # were the loop blocked, the gate could never be opened
        await asyncio.sleep(0)
        turns += 1
    gate.open()
    await job
    assert turns == 1000


async def test_segments_take_turns_step_by_step_in_the_order_they_came(worker: Worker) -> None:
    order: list[str] = []
    gate = Gate()
    blocked = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    segments = [
        worker.segment(start(FakeDecode(4, on_wait=lambda _, name=name: order.append(name))))  # type: ignore[misc]
        for name in "abc"
    ]
    gate.open()
    await blocked
    results = await asyncio.gather(*map(take_all, segments))
    assert results == [[0, 1, 2, 3]] * 3
    assert order == list("abcabcabcabc")


async def test_a_call_gets_its_turn_while_a_segment_runs(worker: Worker) -> None:
    gate = Gate()
    segment = worker.segment(start(FakeDecode(10**9, on_wait=lambda i: gate() if i == 3 else None)))
    await gate.until_reached()
    call = asyncio.ensure_future(worker.call(lambda: "served"))
    await asyncio.sleep(0)
    gate.open()
    assert await call == "served"
    assert segment.reason is None
    await segment.aclose()


async def test_a_resident_segment_keeps_the_device_until_it_ends(worker: Worker) -> None:
    events: list[str] = []
    gate = Gate()

    def step(index: int) -> None:
        if index == 2:
            gate()
        events.append("step")

    segment = worker.segment(start(FakeDecode(6, resident=True, on_wait=step)))
    await gate.until_reached()
    call = asyncio.ensure_future(worker.call(lambda: events.append("call")))
    await asyncio.sleep(0)
    gate.open()
    await call
    assert events == ["step"] * 6 + ["call"]
    assert await take_all(segment) == list(range(6))


@pytest.mark.parametrize("resident", [False, True])
async def test_what_an_ended_segment_left_on_the_device_is_waited_for_while_its_reader_goes_on(
    worker: Worker, rng: np.random.Generator, resident: bool
) -> None:
    gate, held = Gate(), Gate()

    class Leaves(FakeDecode):
        def settle(self) -> None:
            held()
            super().settle()

    ids = int(rng.integers(1, 9))
    decode = Leaves(ids, resident=resident)
    segment = worker.segment(start(decode))
    assert await take_all(segment) == list(range(ids)) and segment.reason == "length"
    await held.until_reached()
    call = asyncio.ensure_future(worker.call(lambda: decode.settled))
    await asyncio.sleep(0)
    assert decode.settled == 0 and not call.done()
    held.open()
    assert await call == 1, "another job came to the backend first"

    decode = Leaves(10**9, resident=resident, on_wait=lambda i: gate() if i == ids else None)
    segment = worker.segment(start(decode))
    await gate.until_reached()
    segment.stop()
    gate.open()
    await take_all(segment)
    assert await worker.call(lambda: decode.settled) == 1


async def test_an_end_that_comes_while_ids_are_taken_is_told_with_them(worker: Worker) -> None:
    class Late(FakeDecode):
        def wait(self, seconds: float) -> None:
            self.waits += 1

        def drain_nowait(self) -> list[Emitted]:
            self.reason = "stop"
            return [Emitted(7, 0.0, False)]

    decode = Late(1, resident=True)
    segment = worker.segment(start(decode))
    assert await take_all(segment) == [7] and segment.reason == "stop"
    assert await worker.call(lambda: decode.waits) == 1, "the end took another step"


async def test_a_device_that_fails_behind_a_segments_last_id_closes_the_engine(worker: Worker) -> None:
    gate = Gate()

    class Fails(FakeDecode):
        def settle(self) -> None:
            gate()
            raise DeviceError("the kernel is gone")

    segment = worker.segment(start(Fails(3, resident=True)))
    assert await take_all(segment) == [0, 1, 2]
    gate.open()
    with pytest.raises(EngineClosedError, match="the kernel is gone"):
        await worker.call(lambda: 1)
    assert segment.reason == "length"


async def test_the_thread_dozes_behind_a_segment_that_held_the_device_and_then_sleeps(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kogagent.engine.worker._DOZE_S", 1e9)
    queue, naps, sleeps = worker._queue, threading.Event(), threading.Event()

    class Bell:
        def __init__(self, bell: threading.Lock) -> None:
            self._bell = bell
            self.locked, self.release = bell.locked, bell.release

        def acquire(self, timeout: float = -1) -> bool:
            (sleeps if timeout < 0 else naps).set()
            return self._bell.acquire(timeout=timeout)

    await worker.call(lambda: setattr(queue, "bell", Bell(queue.bell)))
    await take_all(worker.segment(start(FakeDecode(2))))
    assert await asyncio.to_thread(comes, sleeps.wait) and not naps.is_set()
    await take_all(worker.segment(start(FakeDecode(2, resident=True))))
    assert await asyncio.to_thread(comes, naps.wait), "the thread does not doze"
    assert await worker.call(lambda: 7) == 7
    sleeps.clear()
    queue.doze_until = 0.0
    assert await asyncio.to_thread(comes, sleeps.wait), "the thread never sleeps"
    assert await worker.call(lambda: 8) == 8


@pytest.mark.parametrize("resident", [False, True])
async def test_closing_a_segment_ends_it_within_one_step(worker: Worker, resident: bool) -> None:
    gate = Gate()
    decode = FakeDecode(10**9, resident=resident, on_wait=lambda i: gate() if i == 5 else None)
    segment = worker.segment(start(decode))
    await gate.until_reached()
    closing = asyncio.ensure_future(segment.aclose())
    await asyncio.sleep(0)
    assert not closing.done(), "the worker is still inside its step"
    gate.open()
    await closing
    assert decode.waits <= 6
    assert segment.reason == "cancelled"
    assert await segment.next_batch() == []
    await segment.aclose()
    assert await worker.call(lambda: 1) == 1
    assert decode.waits <= 6, "it went on after its end"


async def test_closing_a_segment_that_waits_for_its_turn_does_not_wait_for_the_turn(worker: Worker) -> None:
    gate = Gate()
    call = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    decode = FakeDecode(5)
    segment = worker.segment(start(decode))
    await segment.aclose()  # would hang were it to wait for the gate
    assert segment.reason == "cancelled"
    gate.open()
    await call
    await worker.call(lambda: None)
    assert decode.waits == 0


async def test_a_cancelled_consumer_can_close_and_the_cancellation_is_kept(worker: Worker) -> None:
    gate = Gate()
    decode = FakeDecode(10**9, on_wait=lambda i: gate() if i == 5 else None)
    segment = worker.segment(start(decode))
    closed = False

    async def consume() -> None:
        nonlocal closed
        try:
            await take_all(segment)
        finally:
            await segment.aclose()
            closed = True

    task = asyncio.ensure_future(consume())
    await gate.until_reached()
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()  # again, while it closes
    await asyncio.sleep(0)
    assert not task.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert segment.reason == "cancelled"
    # The second cancellation interrupts what follows the bounded wait, never the wait itself.
    assert decode.waits <= 6
    assert not closed


async def test_a_cancelled_close_waits_for_the_end_and_not_for_the_next_token(worker: Worker) -> None:
    """A token between the request to stop and the end wakes the one who closes; it must wait on."""
    gates = {5: Gate(), 6: Gate()}

    def held(i: int) -> None:
        if i in gates:
            gates[i]()
        if i == 6:
            FakeDecode.stop(decode)

    decode = FakeDecode(10**9, on_wait=held)
    decode.stop = lambda: None  # type: ignore[method-assign]
    segment = worker.segment(start(decode))

    async def consume() -> None:
        try:
            await take_all(segment)
        finally:
            await segment.aclose()

    task = asyncio.ensure_future(consume())
    await gates[5].until_reached()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    gates[5].open()
    await gates[6].until_reached()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done(), "the worker is still inside the segment"
    gates[6].open()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert segment.reason == "cancelled"


async def test_a_cancel_scope_ends_a_stream_and_does_not_swallow_anything(worker: Worker) -> None:
    decode = FakeDecode(10**9)
    segment = worker.segment(start(decode))
    with anyio.CancelScope() as scope:
        try:
            while await segment.next_batch():
                scope.cancel()
        finally:
            await segment.aclose()
    assert scope.cancelled_caught
    assert segment.reason == "cancelled"
    assert await worker.call(lambda: 5) == 5


async def test_closing_from_another_task_ends_a_consumer_that_waits(worker: Worker) -> None:
    gate = Gate()
    segment = worker.segment(start(FakeDecode(10**9, on_wait=lambda i: gate() if i == 0 else None)))
    consumer = asyncio.ensure_future(segment.next_batch())
    await gate.until_reached()
    closing = asyncio.ensure_future(segment.aclose())
    await asyncio.sleep(0)
    gate.open()
    await closing
    await consumer
    assert segment.reason == "cancelled"


async def test_a_cancelled_call_that_has_not_started_never_runs(worker: Worker) -> None:
    gate = Gate()
    blocker = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    ran: list[int] = []
    call = asyncio.ensure_future(worker.call(lambda: ran.append(1)))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.open()
    await blocker
    await worker.call(lambda: None)
    assert ran == []


async def test_a_cancelled_call_in_steps_ends_at_the_next_border(worker: Worker) -> None:
    gate = Gate()
    ran: list[int] = []

    def steps() -> Steps[None]:
        for i in range(5):
            if i == 2:
                gate()
            ran.append(i)
            yield

    call = asyncio.ensure_future(worker.call_in_steps(steps()))
    await gate.until_reached()
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ran == [0, 1, 2]


async def test_preparation_takes_turns_too(worker: Worker) -> None:
    order: list[str] = []

    def prepared(name: str) -> Steps[Decode]:
        for _ in range(3):
            order.append(name)
            yield
        return FakeDecode(1)

    gate = Gate()
    blocked = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    segments = [worker.segment(prepared(name)) for name in "ab"]
    gate.open()
    await blocked
    await asyncio.gather(*map(take_all, segments))
    assert order == list("ababab")


@pytest.mark.parametrize("error", [ModelError("planted"), InputError("planted"), RuntimeError("planted")])
async def test_an_error_in_a_segment_comes_after_what_was_emitted_and_harms_nobody_else(
    worker: Worker, error: Exception
) -> None:
    def explode(index: int) -> None:
        if index == 3:
            raise error

    gate = Gate()
    blocked = asyncio.ensure_future(worker.call(gate))
    await gate.until_reached()
    bad = worker.segment(start(FakeDecode(10, on_wait=explode)))
    good = worker.segment(start(FakeDecode(10)))
    gate.open()
    await blocked
    assert await take_all(good) == list(range(10))
    assert [e.id for e in await bad.next_batch()] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(type(error), match="planted"):
            await bad.next_batch()
    assert bad.reason is None
    await bad.aclose()


async def test_a_device_error_poisons_the_worker(worker: Worker) -> None:
    ended: list[str] = []
    worker.at_end(lambda: ended.append(threading.current_thread().name))

    def explode(index: int) -> None:
        if index == 3:
            gate()
            raise DeviceError("SM 7 missed its deadline")

    gate = Gate()
    bad = worker.segment(start(FakeDecode(10, on_wait=explode)))
    await gate.until_reached()
    waiting = worker.segment(start(FakeDecode(10)))
    call = asyncio.ensure_future(worker.call(lambda: 1))
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(DeviceError, match="SM 7") as raised:
        await take_all(bad)
    assert not isinstance(raised.value, EngineClosedError)
    for victim in (take_all(waiting), call, worker.call(lambda: 2)):
        with pytest.raises(EngineClosedError, match="earlier device error closed the engine: SM 7") as later:
            await victim
        assert later.value.__cause__ is raised.value
    with pytest.raises(EngineClosedError, match="SM 7"):
        worker.segment(start(FakeDecode(1)))
    assert worker.closed
    await worker.aclose()
    assert ended == ["kogagent-engine"]


async def test_a_device_too_broken_to_be_drained_still_fails_its_reader(worker: Worker) -> None:
    class Dead(FakeDecode):
        def drain_nowait(self) -> list[Emitted]:
            raise DeviceError("the ring is gone")

        def wait(self, seconds: float) -> None:
            raise DeviceError("the kernel is gone")

    with pytest.raises(DeviceError, match="the kernel is gone"):
        await take_all(worker.segment(start(Dead(3))))
    with pytest.raises(EngineClosedError, match="the kernel is gone"):
        await worker.call(lambda: 1)


async def test_a_segment_of_a_closed_backend_is_closed_without_asking_it(worker: Worker) -> None:
    closed = threading.Event()
    worker.at_end(closed.set)

    class Dead(FakeDecode):
        def wait(self, seconds: float) -> None:
            raise DeviceError("the kernel is gone")

        def stop(self) -> None:
            if closed.is_set():
                raise EngineClosedError("this backend is closed")

    segment = worker.segment(start(Dead(3)))
    assert await asyncio.to_thread(comes, closed.wait)
    with pytest.raises(DeviceError, match="the kernel is gone"):
        await segment.next_batch()
    segment.stop()
    await segment.aclose()


async def test_close_fails_what_waits_and_ends_the_thread(worker: Worker) -> None:
    gate = Gate()
    running = worker.segment(start(FakeDecode(10**9, on_wait=lambda i: gate() if i == 1 else None)))
    await gate.until_reached()
    waiting = asyncio.ensure_future(worker.call(lambda: 1))
    await asyncio.sleep(0)
    worker._queue.close()  # the part of closing that does not wait
    gate.open()
    await worker.aclose()
    with pytest.raises(EngineClosedError, match="the engine is closed"):
        await waiting
    with pytest.raises(EngineClosedError, match="the engine is closed"):
        await take_all(running)
    with pytest.raises(EngineClosedError):
        await worker.call(lambda: 1)
    worker.close()
    await worker.aclose()


@pytest.mark.parametrize("resident", [False, True])
async def test_a_reader_that_close_cuts_off_is_told_so_and_one_that_left_is_not(resident: bool) -> None:
    """The Decode sees the request to stop in the very step that close comes in: its text is no whole one."""

    class Steps(FakeDecode):
        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            super().wait(seconds)

    for leaves in (False, True):
        worker, gate = Worker(clock=count().__next__), Gate()

        def at_four(i: int, gate: Gate = gate) -> None:
            if i == 4:
                gate()

        decode = Steps(10**9, resident=resident, on_wait=at_four)
        segment = worker.segment(start(decode))
        await gate.until_reached()
        if leaves:
            segment.stop()
        worker._queue.close()  # the part of closing that does not wait
        gate.open()
        if leaves:
            await segment.aclose()
            assert segment.reason == "cancelled"
        else:
            with pytest.raises(EngineClosedError, match="the engine is closed"):
                await take_all(segment)
            assert segment.reason is None
        await worker.aclose()


async def test_a_call_that_close_overtakes_before_its_first_step_is_told_so() -> None:
    made: list[Worker] = []

    def clock() -> float:  # read between the choice of a job and its step
        made[0]._queue.close()
        return 0.0

    worker = Worker(clock=clock)
    made.append(worker)
    with pytest.raises(EngineClosedError, match="the engine is closed"):
        await worker.call(lambda: 1)
    await worker.aclose()


async def test_close_lets_a_resident_segment_leave_the_device_first(worker: Worker) -> None:
    gate = Gate()
    decode = FakeDecode(10**9, resident=True, on_wait=lambda i: gate() if i == 4 else None)
    segment = worker.segment(start(decode))
    reasons: list[FinishReason | None] = []
    worker.at_end(lambda: reasons.append(decode.reason))
    await gate.until_reached()
    worker._queue.close()  # the part of closing that does not wait
    gate.open()
    await worker.aclose()
    assert reasons == ["cancelled"], "the backend was closed under a running segment"
    with pytest.raises(EngineClosedError):
        await take_all(segment)


async def test_a_resident_segment_that_comes_to_its_end_while_the_engine_closes_is_whole(
    worker: Worker,
) -> None:
    """Its last ids were under way when it was told to stop; nobody has read them before the thread ends."""

    class Unstoppable(FakeDecode):
        def stop(self) -> None:
            """Too late."""

    gate = Gate()
    segment = worker.segment(
        start(Unstoppable(6, resident=True, on_wait=lambda i: gate() if i == 3 else None))
    )
    await gate.until_reached()
    worker._queue.close()
    gate.open()
    await worker.aclose()
    assert await take_all(segment) == list(range(6))
    assert segment.reason == "length"


async def test_more_jobs_than_the_inbox_holds_are_refused_and_the_rest_served() -> None:
    worker = Worker(inbox=3)
    gate = Gate()
    jobs = [asyncio.ensure_future(worker.call(gate))]
    await gate.until_reached()
    jobs += [asyncio.ensure_future(worker.call(lambda: None)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(InputError, match="3 jobs already wait"):
        await worker.call(lambda: None)
    gate.open()
    await asyncio.gather(*jobs)
    await worker.call(lambda: None)


async def test_a_forgotten_worker_ends_its_thread() -> None:
    worker = Worker(name="forgotten")
    thread = worker._thread
    await worker.call(lambda: None)
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    assert gone() is None

    def ended(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    assert await asyncio.to_thread(comes, ended)


def test_a_loop_that_ended_does_not_take_the_worker_with_it() -> None:
    worker = Worker()
    gate = Gate()

    async def leave() -> None:
        segment = worker.segment(start(FakeDecode(50, on_wait=lambda i: gate() if i == 1 else None)))
        await segment.next_batch()
        waiting = asyncio.ensure_future(segment.next_batch())
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    gate.open()
    assert worker.call_blocking(lambda: 3) == 3
    worker.close()


async def test_a_toy_backend_runs_through_the_thread(worker: Worker) -> None:
    backend = ToyBackend()
    plan = DecodePlan(SamplingParams(), frozenset(), 6)
    kv = await worker.call(lambda: backend.open_kv(40))

    def begin() -> Steps[Decode]:
        yield
        return backend.decode(kv, [3, 4], plan)

    assert await take_all(worker.segment(begin())) == backend.greedy([3, 4], 6)


FORKS = """
import asyncio, os
from kogagent.engine.worker import Worker
from kogagent.errors import EngineClosedError

worker = Worker()
held = worker._queue.lock
held.acquire()  # as a thread might that does not come along
child = os.fork()
if child == 0:
    try:
        asyncio.run(worker.call(lambda: 1))
    except EngineClosedError as error:
        print(error, flush=True)
    worker.close()
    os._exit(7)
held.release()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(asyncio.run(worker.call(lambda: "the parent goes on")))
worker.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no forking")
def test_a_forked_child_is_refused_at_once_and_the_parent_goes_on() -> None:
    # In a process of its own: pytest's has other threads, beside which nobody should fork.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    refused, went_on = done.stdout.splitlines()
    assert "forked" in refused and "Load one in each process" in refused
    assert went_on == "the parent goes on"
