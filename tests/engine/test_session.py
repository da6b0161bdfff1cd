"""Histories and caches: what is reused, what is run, what a stream that ends early leaves behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.engine.backend import KV, Decode, DecodePlan
from kogagent.engine.engine import EngineCore
from kogagent.engine.kv import common_prefix
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.session import Session
from kogagent.engine.stream import SessionStream
from kogagent.errors import ContextError, DeviceError, EngineClosedError, InputError, ModelError
from kogagent.testing.toy import TINY, Brake, StepMatcher, ToyBackend, comes

V = TINY.vocab_size
LONG = replace(TINY, context=2000)


class Rig:
    """An engine on a toy backend that a test can look into."""

    def __init__(self, backend: ToyBackend) -> None:
        self.backend = backend
        self.core = EngineCore(lambda: backend)


def release_once_the_stream_was_told_to_stop(brake: Brake) -> None:
    asyncio.get_running_loop().call_soon(brake.release)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig(ToyBackend())
    yield rig
    await rig.core.aclose()


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return [int(i) for i in rng.integers(0, V, 9)]


async def take(stream: SessionStream) -> list[int]:
    return [e.id async for batch in stream for e in batch]


async def generate(session: Session, count: int) -> list[int]:
    return await take(session.stream(max_tokens=count))


async def test_a_stream_continues_the_history_and_joins_it(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    stream = session.stream(max_tokens=5)
    out = await take(stream)
    assert out == rig.backend.greedy(prompt, 5)
    assert session.ids == (*prompt, *out)
    assert len(session) == 14
    assert stream.reason == "length"
    assert (stream.counters.reused, stream.counters.prefilled) == (0, 9)
    assert (stream.counters.sampled, stream.counters.forced, stream.counters.steps) == (5, 0, 5)


async def test_the_next_turn_runs_only_what_is_new(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    first = await generate(session, 5)
    rig.backend.passes.clear()
    session.append([1, 2, 3])
    stream = session.stream(max_tokens=2)
    assert await take(stream) == rig.backend.greedy([*prompt, *first, 1, 2, 3], 2)
    # The newest id of the first turn had not passed through the model.
    assert rig.backend.passes == [4, 1]
    assert (stream.counters.reused, stream.counters.prefilled) == (13, 4)
    total = session.counters
    assert (total.reused, total.prefilled, total.sampled, total.steps) == (13, 13, 7, 7)
    assert rig.core.counters == total


async def test_sync_keeps_the_longest_common_prefix(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    out = await generate(session, 4)
    wanted = [*prompt, *out[:2], (out[2] + 1) % V, 7]
    assert session.sync_to(wanted) == 11
    assert session.ids == tuple(wanted)
    stream = session.stream(max_tokens=3)
    assert await take(stream) == rig.backend.greedy(wanted, 3)
    assert (stream.counters.reused, stream.counters.prefilled) == (11, 2)


async def test_sync_to_the_same_ids_runs_one_row(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    first = await generate(session, 4)
    assert session.sync_to(prompt) == 9
    rig.backend.passes.clear()
    assert await generate(session, 4) == first
    assert rig.backend.passes == [1, 1, 1, 1]


async def test_rewinding_and_going_elsewhere_forgets_the_old_ids(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    await generate(session, 6)
    for length, extra in ((12, [5]), (4, [6, 7]), (5, []), (0, [9])):
        session.rewind(length)
        session.append(extra)
        ids = session.ids
        assert len(ids) == length + len(extra)
        assert await generate(session, 3) == rig.backend.greedy(ids, 3)


async def test_a_fork_shares_the_past_and_not_the_future(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    base = await generate(session, 3)
    fork = await session.fork()
    session.append([1])
    fork.append([2])
    mine, others = await asyncio.gather(generate(session, 5), generate(fork, 5))
    assert mine == rig.backend.greedy([*prompt, *base, 1], 5)
    assert others == rig.backend.greedy([*prompt, *base, 2], 5)
    assert fork.counters.reused == 11


async def test_a_fork_of_a_session_that_never_ran_copies_its_ids(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    fork = await session.fork()
    assert await generate(fork, 2) == rig.backend.greedy(prompt, 2)


async def test_a_fork_after_a_rewind_does_not_bring_the_old_ids_back(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    await generate(session, 6)
    session.rewind(5)
    session.append([1, 1, 1])
    fork = await session.fork()
    assert await generate(fork, 3) == rig.backend.greedy([*prompt[:5], 1, 1, 1], 3)


async def test_a_fork_of_a_session_that_streams_has_what_was_handed_over(
    prompt: list[int], rng: np.random.Generator
) -> None:
    passes = int(rng.integers(1, 6))
    brake = Brake(passes)
    backend = ToyBackend(on_pass=brake)
    async with EngineCore(lambda: backend) as core:
        session = core.session()
        session.append(prompt)
        stream = session.stream(max_tokens=12)
        given = [e.id for e in await anext(stream)]
        asyncio.get_running_loop().call_soon(brake.release)
        fork = await session.fork()  # a job between two steps of the stream
        assert fork.ids == (*prompt, *given)
        rest = await take(stream)
        assert [*given, *rest] == backend.greedy(prompt, 12), "the fork disturbed the stream"
        fork.append([3])
        assert await generate(fork, 4) == backend.greedy([*prompt, *given, 3], 4)
        assert fork.counters.reused >= len(prompt) + len(given) - 1


async def test_a_fork_of_a_stream_that_waits_for_its_turn_does_not_bring_old_ids_back(
    prompt: list[int],
) -> None:
    brake = Brake(100)
    backend = ToyBackend(on_pass=brake)
    async with EngineCore(lambda: backend) as core:
        session = core.session()
        session.append(prompt)
        await generate(session, 6)
        session.rewind(4)
        session.append([1, 1])
        ids = session.ids
        held = threading.Event()
        blocking = asyncio.ensure_future(core._worker.call(lambda: comes(held.wait)))
        await asyncio.sleep(0)
        stream = session.stream(max_tokens=3)
        first = asyncio.ensure_future(anext(stream))
        forking = asyncio.ensure_future(session.fork())
        await asyncio.sleep(0)
        held.set()
        fork = await forking
        assert fork.ids == ids
        assert await generate(fork, 3) == backend.greedy(ids, 3)
        await blocking
        await first
        await stream.aclose()


class Resident(ToyBackend):
    """Holds the device until a segment ends, as a resident kernel does."""

    decodes = 0

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self.decodes += 1
        return _Held(super().decode(kv, ids, plan))


class _Held:
    resident = True

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decode, name)


@pytest.mark.parametrize("temperature", [0.0, 1.3])
async def test_a_resident_segment_gives_way_and_says_the_same_as_alone(
    prompt: list[int], temperature: float
) -> None:
    sampling = SamplingParams(temperature=temperature, seed=11, repetition_penalty=1.2)
    legal = frozenset(range(0, V, 2))
    steps = [legal, frozenset([4]), frozenset([6]), *[legal] * 20]

    async def run(core: EngineCore, start: int) -> list[int]:
        session = core.session()
        session.append([*prompt, start])
        matcher = StepMatcher(steps, V)
        stream = session.stream(sampling=sampling, matcher=matcher, max_tokens=20)
        out = await take(stream)
        assert stream.counters.steps > 0 and session.counters.forced == 2
        await session.aclose()
        return out

    async with EngineCore(lambda: Resident(LONG)) as alone:
        expected = [await run(alone, start) for start in range(3)]
    brake = Brake(0)
    backend = Resident(LONG, on_pass=brake)
    core = EngineCore(lambda: backend, clock=count().__next__)  # a step is more than a slice
    async with core:
        runs = [asyncio.ensure_future(run(core, start)) for start in range(3)]
        await asyncio.sleep(0)  # all want the device before the first has had it
        brake.release()
        assert await asyncio.gather(*runs) == expected
    assert backend.decodes > 2 * 3, "nobody gave way"


async def test_sessions_share_the_device_by_their_priority(prompt: list[int]) -> None:
    order: list[int] = []  # as the device took them: when readers get their ids is another matter
    gate = threading.Event()

    class Ordered(ToyBackend):
        def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
            assert comes(gate.wait), "the test never opened the gate"
            order.append(self._toy(kv).ids[0] if kv.length else ids[0])
            return super().last_logits(kv, ids)

    core = EngineCore(lambda: Ordered(LONG), clock=count().__next__)
    async with core:

        async def run(priority: int) -> None:
            session = core.session(priority=priority)
            session.append([priority, *prompt])
            await generate(session, 60)
            await session.aclose()

        runs = [asyncio.ensure_future(run(priority)) for priority in (0, 2)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*runs)
        early = order[:60]
        assert early.count(2) > 2 * early.count(0) > 0, "four times the share, and nobody starves"
        for wrong in (9, -9, 1.0, True):
            with pytest.raises(InputError, match="priority="):
                core.session(priority=wrong)  # type: ignore[arg-type]


async def test_closing_the_engine_gives_back_the_cache_of_a_session_still_open(prompt: list[int]) -> None:
    backend = ToyBackend()
    core = EngineCore(lambda: backend)
    session, unshared = core.session(), core.session(reuse=False)
    for one in (session, unshared):
        one.append(prompt)
        await generate(one, 2)
    fork = await session.fork()
    await core.aclose()
    assert len(backend.opened) == 2 and all(kv.closed for kv in backend.opened)
    assert fork._lease.kv is not None and getattr(fork._lease.kv, "closed", False)
    await session.aclose()


async def test_leaving_early_commits_exactly_what_was_handed_over(prompt: list[int]) -> None:
    brake = Brake(2)
    rig = Rig(ToyBackend(on_pass=brake))
    session = rig.core.session()
    session.append(prompt)
    taken: list[int] = []
    async with session.stream(max_tokens=30) as stream:
        async for batch in stream:
            taken += [e.id for e in batch]
            release_once_the_stream_was_told_to_stop(brake)
            break
    assert stream.reason == "cancelled"
    assert len(rig.backend.passes) <= 3
    assert session.ids == (*prompt, *taken)
    session.append([3])
    assert await generate(session, 3) == rig.backend.greedy([*prompt, *taken, 3], 3)


async def test_a_hundred_early_exits_leave_an_idle_engine_and_one_cache(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    for _ in range(100):
        async with session.stream() as stream:
            async for _batch in stream:
                break
        passes = len(rig.backend.passes)
        session.rewind(len(prompt))
        await session.prefill()
        assert len(rig.backend.passes) <= passes + 1, "the old stream still ran"
    assert len(rig.backend.opened) == 1
    jobs = rig.core._worker._queue.jobs
    assert await rig.core._worker.call(lambda: len(jobs)) == 1, "more than this very call is left"


async def test_a_thousand_sessions_leave_as_many_caches_as_the_engine_keeps(
    rig: Rig, prompt: list[int]
) -> None:
    for i in range(1000):
        async with rig.core.session() as session:
            session.append([i % V, *prompt])
            await generate(session, 1)
    await rig.core._worker.call(lambda: None)
    assert sum(not kv.closed for kv in rig.backend.opened) <= 8


async def test_a_forgotten_session_leaves_its_cache_like_a_closed_one(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    await generate(session, 1)
    await rig.core._worker.call(lambda: None)  # the thread has let go of the stream's job, which knows it
    del session
    gc.collect()
    other = rig.core.session()
    other.append(prompt)
    stream = other.stream(max_tokens=1)
    await take(stream)
    assert stream.counters.reused == len(prompt) - 1
    assert len(rig.backend.opened) == 1


async def test_a_new_session_takes_over_the_longest_prefix_a_closed_one_left(
    rig: Rig, prompt: list[int]
) -> None:
    for old in ([*prompt, 1, 2, 3], [(prompt[0] + 1) % V, 2]):
        async with rig.core.session() as session:
            session.append(old)
            await generate(session, 3)
    async with rig.core.session() as session:
        wanted = [*prompt, 1, 2, 3, 50, 51]
        session.append(wanted)
        stream = session.stream(max_tokens=3)
        assert await take(stream) == rig.backend.greedy(wanted, 3)
        assert stream.counters.reused >= len(prompt) + 3


async def test_two_sessions_at_once_give_what_each_gives_alone(rig: Rig, rng: np.random.Generator) -> None:
    async def converse(seed: int) -> None:
        local = np.random.default_rng(seed)
        async with rig.core.session() as session:
            for _ in range(4):
                session.append([int(i) for i in local.integers(0, V, 3)])
                before = session.ids
                assert await generate(session, 3) == rig.backend.greedy(before, 3)

    await asyncio.gather(*(converse(int(s)) for s in rng.integers(0, 2**31, 6)))


async def test_a_long_prompt_is_prefilled_in_chunks_between_which_others_get_their_turn(
    rng: np.random.Generator,
) -> None:
    rig = Rig(ToyBackend(LONG))
    ids = [int(i) for i in rng.integers(0, V, 2 * ToyBackend.prefill_chunk + 77)]
    session = rig.core.session()
    session.append(ids)
    stream = session.stream(max_tokens=2)
    assert await take(stream) == rig.backend.greedy(ids, 2)
    assert max(rig.backend.passes) == ToyBackend.prefill_chunk
    assert sum(rig.backend.passes) == len(ids) + 1
    assert stream.counters.prefilled == len(ids)
    assert stream.counters.steps == 2
    await rig.core.aclose()


async def test_cancelling_a_long_prefill_ends_at_a_chunk_and_the_session_goes_on(
    rng: np.random.Generator,
) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hold(rows: Sequence[int]) -> None:
        if len(backend.passes) == 1:
            reached.set()
            assert comes(gate.wait)

    backend = ToyBackend(LONG, on_pass=hold)
    core = EngineCore(lambda: backend)
    ids = [int(i) for i in rng.integers(0, V, 5 * ToyBackend.prefill_chunk)]
    session = core.session()
    session.append(ids)
    task = asyncio.ensure_future(generate(session, 5))
    assert await asyncio.to_thread(comes, reached.wait)
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(backend.passes) == 2
    session.rewind(3)
    session.append([1, 2])
    assert await generate(session, 3) == backend.greedy([*ids[:3], 1, 2], 3)
    await core.aclose()


async def test_prefilling_ahead_leaves_one_row_for_the_stream(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    await session.prefill()  # nothing to do
    session.append(prompt)
    await session.prefill()
    assert rig.backend.passes == [8]
    stream = session.stream(max_tokens=2)
    assert await take(stream) == rig.backend.greedy(prompt, 2)
    assert rig.backend.passes == [8, 1, 1]
    assert (stream.counters.reused, stream.counters.prefilled) == (8, 1)


async def test_forced_ids_are_counted_apart_and_cost_no_pass(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    anything = frozenset(range(V))
    steps = [frozenset([4]), frozenset([5]), anything, frozenset([6]), anything]
    stream = session.stream(matcher=StepMatcher(steps, V))
    out = await take(stream)
    assert out[:2] == [4, 5] and out[3] == 6
    assert stream.reason == "grammar"
    assert (stream.counters.sampled, stream.counters.forced, stream.counters.steps) == (2, 3, 2)


async def test_a_stream_that_is_never_read_runs_nothing(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    stream = session.stream()
    assert stream.counters.steps == 0
    await stream.aclose()
    assert rig.backend.passes == []
    assert await generate(session, 1) == rig.backend.greedy(prompt, 1)


async def test_a_dropped_stream_warns_and_frees_the_session(prompt: list[int]) -> None:
    brake = Brake()
    rig = Rig(ToyBackend(on_pass=brake))
    session = rig.core.session()
    session.append(prompt)
    stream = session.stream()
    first = await anext(stream)
    with pytest.warns(ResourceWarning, match="async with"):
        del stream
        gc.collect()
    brake.release()
    session.append([1])
    ids = [*prompt, *(e.id for e in first), 1]
    assert await generate(session, 2) == rig.backend.greedy(ids, 2)


async def test_a_busy_session_refuses_everything_else(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session()
    session.append(prompt)
    async with session.stream() as stream:
        await anext(stream)
        for attempt in (
            lambda: session.append([1]),
            lambda: session.rewind(0),
            lambda: session.sync_to([1]),
            lambda: session.stream(),
        ):
            with pytest.raises(InputError, match="busy"):
                attempt()
        with pytest.raises(InputError, match="busy"):
            await session.prefill()
    session.rewind(0)


async def test_bad_input_is_refused_by_name_and_changes_nothing(rig: Rig, prompt: list[int]) -> None:
    session = rig.core.session(context=12)
    with pytest.raises(InputError, match="empty"):
        session.stream()
    session.append(prompt)
    with pytest.raises(ContextError, match="13 tokens, the context holds 12"):
        session.append([1, 2, 3, 4])
    with pytest.raises(ContextError, match="20 tokens, the context holds 12"):
        session.sync_to([1] * 20)
    with pytest.raises(InputError, match=f"token id {V} "):
        session.append([1, V])
    with pytest.raises(InputError, match="token id -1 "):
        session.sync_to([-1])
    for ids in ([1.5], ["a"], None):
        with pytest.raises(InputError, match="token ids must be integers"):
            session.append(ids)  # type: ignore[arg-type]
    for length in (10, -1, 1.0):
        with pytest.raises(InputError, match=f"rewind to {length}"):
            session.rewind(length)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"sampling=\{\}: must be a kogagent.SamplingParams"):
        session.stream(sampling={})  # type: ignore[arg-type]
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="max_tokens="):
            session.stream(max_tokens=bad)  # type: ignore[arg-type]
    for context in (0, 41, 1.0):
        with pytest.raises(InputError, match=r"context=.* 1 \.\. 40"):
            rig.core.session(context=context)  # type: ignore[arg-type]
    assert session.ids == tuple(prompt)
    assert await generate(session, 2) == rig.backend.greedy(prompt, 2)


async def test_a_full_context_ends_with_context_and_the_next_turn_is_refused(
    rig: Rig, prompt: list[int]
) -> None:
    session = rig.core.session(context=12)
    session.append(prompt)
    stream = session.stream()
    out = await take(stream)
    assert out == rig.backend.greedy(prompt, 4)
    assert stream.reason == "context"
    with pytest.raises(ContextError, match="13 tokens, the context holds 12"):
        session.stream()
    session.rewind(10)
    assert await generate(session, 1) == rig.backend.greedy([*prompt, out[0]], 1)


async def test_a_model_error_leaves_the_session_usable(prompt: list[int]) -> None:
    def explode(rows: Sequence[int]) -> None:
        if armed and len(backend.passes) == 2:
            raise ModelError("NaN planted")

    armed = True
    backend = ToyBackend(on_pass=explode)
    core = EngineCore(lambda: backend)
    session = core.session()
    session.append(prompt)
    taken: list[int] = []
    stream = session.stream(max_tokens=10)
    with pytest.raises(ModelError, match="NaN planted"):
        async for batch in stream:
            taken += [e.id for e in batch]
    assert taken == backend.greedy(prompt, 2)
    assert stream.reason is None
    armed = False
    assert await generate(session, 3) == backend.greedy([*prompt, *taken], 3)
    await core.aclose()


async def test_a_device_error_closes_the_engine_and_a_new_one_works(prompt: list[int]) -> None:
    def explode(rows: Sequence[int]) -> None:
        raise DeviceError("the kernel died")

    backend = ToyBackend(on_pass=explode)
    core = EngineCore(lambda: backend)
    session = core.session()
    session.append(prompt)
    with pytest.raises(DeviceError, match="the kernel died"):
        await generate(session, 3)
    for attempt in (lambda: session.append([1]), lambda: session.stream(), lambda: core.session()):
        with pytest.raises(EngineClosedError, match="the kernel died"):
            attempt()
    assert core.closed
    await session.aclose()
    await core.aclose()
    fresh = ToyBackend()
    async with EngineCore(lambda: fresh) as second:
        session = second.session()
        session.append(prompt)
        assert await generate(session, 2) == fresh.greedy(prompt, 2)


async def test_a_closed_session_refuses_and_closing_twice_is_fine(prompt: list[int]) -> None:
    brake = Brake()
    rig = Rig(ToyBackend(on_pass=brake))
    session = rig.core.session()
    session.append(prompt)
    stream = session.stream()
    await anext(stream)
    release_once_the_stream_was_told_to_stop(brake)
    await session.aclose()
    await session.aclose()
    assert stream.reason == "cancelled"
    with pytest.raises(EngineClosedError, match="the session is closed"):
        session.append([1])
    with pytest.raises(EngineClosedError, match="the session is closed"):
        await session.fork()


async def test_closing_the_engine_ends_streams_and_gives_caches_back(prompt: list[int]) -> None:
    brake = Brake(2)
    backend = ToyBackend(on_pass=brake)
    core = EngineCore(lambda: backend)
    async with core.session() as old:
        old.append(prompt)
        await generate(old, 1)
    session = core.session()
    session.append([5])
    stream = session.stream()
    await anext(stream)
    core._worker._queue.close()  # the part of closing that does not wait
    brake.release()
    await core.aclose()
    with pytest.raises(EngineClosedError, match="the engine is closed"):
        while True:
            await anext(stream)
    assert any(kv.closed for kv in backend.opened), "the kept cache was not given back"


def test_what_a_backend_raises_while_loading_is_raised_by_the_engine() -> None:
    def broken() -> ToyBackend:
        raise InputError("no such weights")

    with pytest.raises(InputError, match="no such weights"):
        EngineCore(broken)
    with pytest.raises(InputError, match="kept_caches=-1"):
        EngineCore(ToyBackend, kept_caches=-1)


async def test_the_same_seed_gives_the_same_ids_however_the_turn_is_cut(rig: Rig, prompt: list[int]) -> None:
    params = SamplingParams(temperature=1.0, seed=99)

    async def run(pieces: Sequence[int]) -> tuple[int, ...]:
        async with rig.core.session() as session:
            session.append(prompt)
            for piece in pieces:
                await take(session.stream(sampling=params, max_tokens=piece))
            return session.ids

    assert await run([12]) == await run([5, 7]) == await run([1] * 12)


def test_common_prefix_counts_from_the_start(rng: np.random.Generator) -> None:
    for _ in range(200):
        a, b = (rng.integers(0, 3, int(rng.integers(0, 8))).tolist() for _ in range(2))
        expected = 0
        while expected < min(len(a), len(b)) and a[expected] == b[expected]:
            expected += 1
        assert common_prefix(a, b) == expected


async def test_whatever_was_done_before_a_stream_says_what_a_fresh_engine_would(
    rig: Rig, rng: np.random.Generator
) -> None:
    sessions = [rig.core.session()]
    for _ in range(400):
        at = int(rng.integers(len(sessions)))
        session = sessions[at]
        action = rng.choice(
            ["append", "rewind", "sync", "stream", "leave", "cancel", "fork", "close", "fill"]
        )
        room = session.capacity - len(session)
        fresh = rng.integers(0, 3, int(rng.integers(1, 5))).tolist()  # three ids: prefixes meet often
        if action == "append" and room >= len(fresh):
            session.append(fresh)
        elif action == "rewind":
            session.rewind(int(rng.integers(0, len(session) + 1)))
        elif action == "sync":
            session.sync_to((list(session.ids[: int(rng.integers(0, len(session) + 1))]) + fresh)[:40])
        elif action == "fill" and room >= 0:
            await session.prefill()
        elif action == "fork" and len(sessions) < 5:
            sessions.append(await session.fork())
        elif action == "close":
            await session.aclose()
            sessions[at] = rig.core.session()
        elif action in ("stream", "leave", "cancel") and len(session) and room >= 0:
            before = session.ids
            taken: list[int] = []

            async def read(session: Session, most: int, taken: list[int]) -> None:
                async with session.stream(max_tokens=6) as stream:
                    async for batch in stream:
                        taken += [e.id for e in batch]
                        if len(taken) >= most:
                            break

            task = asyncio.ensure_future(read(session, 6 if action == "stream" else 2, taken))
            if action == "cancel":
                for _ in range(int(rng.integers(0, 4))):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert taken == rig.backend.greedy(before, len(taken))
            assert session.ids == (*before, *taken)
            assert not (action == "stream" and len(taken) < min(6, room + 1))
