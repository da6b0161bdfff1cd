"""Caches under a limit: what is reused, who makes room, what it costs those who did; every id counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from kogagent.engine.backend import Backend
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.backends.tensor_kv import TensorKV
from kogagent.engine.engine import EngineCore
from kogagent.engine.kv import Caches, Lease
from kogagent.engine.session import Session
from kogagent.engine.weights import random_tensors
from kogagent.errors import InputError
from kogagent.testing.toy import TINY, TINY_LANES, Brake, ToyBackend

V = TINY.vocab_size
LONG = replace(TINY, context=400)


def new(rng: np.random.Generator, count: int) -> list[int]:
    return [int(i) for i in rng.integers(0, V, count)]


async def generate(session: Session, count: int) -> list[int]:
    return [e.id async for batch in session.stream(max_tokens=count) for e in batch]


# ── whose prefix is reused ──


def filled(backend: ToyBackend, caches: Caches, ids: list[int], capacity: int = 20) -> None:
    lease = Lease()
    lease.kv = backend.open_kv(capacity)
    backend.prefill(lease.kv, ids)
    caches.put(lease, ids)


def length_of(caches: Caches, ids: list[int], capacity: int = 20) -> int:
    lease = Lease()
    caches.take(lease, ids, capacity)
    assert lease.kv is not None
    return lease.kv.length


def test_the_longest_prefix_is_taken_then_the_newest_and_the_oldest_is_forgotten() -> None:
    backend = ToyBackend()
    caches = Caches(backend, 2)
    filled(backend, caches, [1, 2, 3])
    filled(backend, caches, [1, 2, 9, 9])
    assert length_of(caches, [1, 2, 9, 9, 5]) == 4
    filled(backend, caches, [4, 5])
    filled(backend, caches, [6, 7])  # pushes [1, 2, 3] out
    assert backend.opened[0].closed
    assert length_of(caches, [1, 2, 3]) == 0
    assert length_of(caches, [6, 7, 8], 30) == 0, "a cache of another capacity"
    assert length_of(caches, [6, 7, 8]) == 2
    caches.clear()
    assert all(kv.closed for kv in backend.opened), "those in use too"
    filled(backend, none := Caches(backend, 0), [1])
    assert backend.opened[-1].closed and none.use.kept == 0


def test_a_conversation_that_starts_alike_leaves_the_kept_one_whole() -> None:
    backend = ToyBackend()
    caches = Caches(backend, 4)
    filled(backend, caches, [1, 2, 3, 4, 5])
    assert length_of(caches, [1, 2, 3, 9]) == 3
    assert length_of(caches, [1, 2, 8]) == 2
    assert length_of(caches, [1, 2, 3, 4, 5, 6]) == 5, "the first went on from where it was"
    assert caches.use.kept == 0, "and took its cache along"


# ── tensors that forks share ──


def test_a_fork_of_a_tensor_shares_it_until_one_writes_over_the_other(rng: np.random.Generator) -> None:
    backend = CpuBackend(TINY_LANES, random_tensors(TINY_LANES, int(rng.integers(2**31))), "float32")
    ids, rest = new(rng, 12), new(rng, 6)
    want = backend.logits(backend.open_kv(40), [*ids, *rest])

    def logits(kv: TensorKV, after: list[int]) -> None:
        got = backend.logits(kv, after)
        np.testing.assert_allclose(got, want[len(ids) : len(ids) + len(after)], rtol=1e-4, atol=1e-4)

    kv = backend.open_kv(40)
    backend.prefill(kv, ids)
    forks = [kv.fork() for _ in range(3)]
    (part,) = kv.memory
    assert all(list(fork.memory) == [part] for fork in forks)
    logits(kv, rest)  # behind the rows of the others: no copy
    assert list(kv.memory) == [part]
    logits(forks[0], rest)
    assert list(forks[0].memory) != [part], "it wrote where another had"
    kv.close()
    logits(forks[1], rest)
    forks[2].rewind(5)
    backend.prefill(forks[2], list(reversed(rest)))
    forks[1].rewind(len(ids))
    logits(forks[1], rest)
    forks[0].rewind(len(ids))
    assert forks[0].park() and forks[0].parked
    logits(forks[0], rest)
    assert not forks[0].parked


def test_the_last_that_shares_a_tensor_writes_into_it(rng: np.random.Generator) -> None:
    kv = TensorKV(TINY, 20, torch.float32, torch.device("cpu"))
    tensor = kv.store
    kv.advance(4)
    fork = kv.fork()
    kv.close()
    assert fork.store is tensor
    other = fork.fork()
    fork.rewind(2)
    assert fork.store is not tensor, "row 2 is the other's"
    assert other.store is tensor


# ── a limit ──


@asynccontextmanager
async def engine(backend: Backend, **limits: int) -> AsyncIterator[EngineCore]:
    core = EngineCore(lambda: backend, **limits)  # type: ignore[arg-type]
    try:
        yield core
    finally:
        await core.aclose()


@pytest.mark.parametrize("parked", [0, 1000])
async def test_sessions_beyond_the_limit_take_turns_and_count_what_it_costs(
    rng: np.random.Generator, parked: int
) -> None:
    """Four conversations of some 40 ids where 100 have room: two wait elsewhere or are computed anew."""
    backend = ToyBackend(LONG)
    async with engine(backend, cache_bytes=100, host_cache_bytes=parked) as core:
        sessions = [core.session() for _ in range(4)]
        for session in sessions:
            session.append(new(rng, 30))
        asked = 0
        for _ in range(3):
            for session in sessions:
                session.append(new(rng, 3))
                asked += len(session)
                ids = session.ids
                assert await generate(session, 4) == backend.greedy(ids, 4)
                use = await core.caches()
                assert use.bytes <= use.limit + 4, "the limit is kept when a segment starts"
                assert use.parked_bytes <= use.parked_limit
        use, total = await core.caches(), core.counters
        assert total.reused + total.prefilled == asked
        assert sum(backend.passes) == total.prefilled + total.sampled - 12, "each id that was run is counted"
        if parked:
            assert use.dropped == 0 and use.moved_in > 0 and use.moved_out >= use.moved_in
            # What a turn had not computed: 3 new ids, and the last of the turn before.
            assert total.prefilled == sum(33 for _ in sessions) + 2 * 4 * 4
        else:
            assert use.dropped > 0 and use.moved_out == 0
        for session in sessions:
            await session.aclose()


async def test_room_for_parked_caches_has_a_limit_of_its_own(rng: np.random.Generator) -> None:
    backend = ToyBackend(LONG)
    async with engine(backend, cache_bytes=50, host_cache_bytes=90) as core:
        sessions = [core.session() for _ in range(5)]
        for session in sessions:
            session.append(new(rng, 40))
            await generate(session, 1)
        use = await core.caches()
        assert (use.bytes, use.parked, use.parked_bytes, use.dropped) == (40, 2, 80, 2)


async def test_closed_conversations_make_room_before_open_ones(rng: np.random.Generator) -> None:
    backend = ToyBackend(LONG)
    async with engine(backend, cache_bytes=100) as core:
        waiting = core.session()
        waiting.append(new(rng, 40))
        await generate(waiting, 1)
        async with core.session() as closed:
            closed.append(new(rng, 40))
            await generate(closed, 1)
        async with core.session() as third:
            third.append(new(rng, 40))
            await generate(third, 1)
        assert (await core.caches()).dropped == 1
        stream = waiting.stream(max_tokens=1)
        async for _ in stream:
            pass
        assert stream.counters.reused == 40, "it was used earlier, but it is open"


async def test_a_cache_that_can_have_no_room_is_refused_with_the_numbers(rng: np.random.Generator) -> None:
    backend = ToyBackend(LONG)
    async with engine(backend, cache_bytes=10) as core:
        session = core.session()
        session.append(new(rng, 30))
        with pytest.raises(InputError, match=r"no room for a cache of 30 tokens.*cache_bytes"):
            await generate(session, 1)
        session.rewind(8)
        assert len(await generate(session, 1)) == 1, "the engine goes on"
    for name in ("cache_bytes", "host_cache_bytes"):
        with pytest.raises(InputError, match=f"{name}=-1"):
            EngineCore(ToyBackend, **{name: -1})  # type: ignore[arg-type]


async def test_sessions_that_run_keep_their_caches(rng: np.random.Generator) -> None:
    brake = Brake()
    backend = ToyBackend(LONG, on_pass=brake)
    async with engine(backend, cache_bytes=100, host_cache_bytes=0) as core:
        one, other = core.session(), core.session()
        one.append(new(rng, 60))
        other.append(new(rng, 60))
        async with one.stream(max_tokens=300) as stream:
            first = [e.id for e in await anext(stream)]
            refused = asyncio.ensure_future(generate(other, 1))
            await asyncio.sleep(0)  # it asks while the first is half-way, and has its turn once that goes on
            brake.release()
            with pytest.raises(InputError, match="held by sessions that run"):
                await refused
        assert one.ids[60 : 60 + len(first)] == tuple(first)
        assert len(await generate(other, 1)) == 1, "now it waits, and makes room"
        assert (await core.caches()).dropped == 1


@pytest.mark.parametrize("limit", [90, 300])
async def test_whatever_makes_room_a_conversation_says_what_it_would_alone(
    rng: np.random.Generator, limit: int
) -> None:
    backend = ToyBackend(LONG)
    async with engine(backend, cache_bytes=limit, host_cache_bytes=int(rng.integers(0, 120))) as core:
        sessions = [core.session()]
        for _ in range(200):
            at = int(rng.integers(len(sessions)))
            session = sessions[at]
            what = rng.choice(["say", "say", "say", "rewind", "fork", "close", "fill"])
            if what == "rewind":
                session.rewind(int(rng.integers(0, len(session) + 1)))
            elif what == "fork" and len(sessions) < 6:
                sessions.append(await session.fork())
            elif what == "close":
                await session.aclose()
                sessions[at] = core.session()
            elif what == "fill":
                await session.prefill()
            elif len(session) < 70:
                session.append(new(rng, int(rng.integers(1, 6))))
                ids = session.ids
                assert await generate(session, 3) == backend.greedy(ids, 3)
            else:
                session.rewind(5)
        use = await core.caches()
        assert use.in_use <= len(sessions) and use.bytes <= limit + 3


async def test_resident_sessions_of_tensors_come_back_from_the_host_as_they_were(
    rng: np.random.Generator,
) -> None:
    """What a GPU does, with this machine's memory in both places."""
    spec = replace(TINY, context=64)
    tensors = random_tensors(spec, int(rng.integers(2**31)))

    async def say(core: EngineCore, prompts: list[list[int]]) -> list[tuple[int, ...]]:
        sessions = [core.session() for _ in prompts]
        for session, prompt in zip(sessions, prompts, strict=True):
            session.append(prompt)
        for turn in range(3):
            await asyncio.gather(*(generate(session, 2) for session in sessions[turn % 2 :: 2]))
            for session in sessions[turn % 2 :: 2]:
                session.append([turn])
        return [session.ids for session in sessions]

    prompts = [new(rng, 20) for _ in range(4)]
    row = spec.n_layers * 2 * spec.n_kv_heads * spec.head_dim * 4

    async with engine(CpuBackend(spec, tensors, "float32")) as core:
        alone = await say(core, prompts)
        assert (await core.caches()).moved_out == 0
    async with engine(
        CpuBackend(spec, tensors, "float32"), cache_bytes=60 * row, host_cache_bytes=1 << 30
    ) as core:
        assert await say(core, prompts) == alone
        use = await core.caches()
        assert use.moved_out >= use.moved_in > 0 and use.dropped == 0 and use.bytes <= use.limit + 12 * row
        assert core.counters.prefilled == 4 * 20 + 2 * 2, "nothing was computed twice"
