"""Several conversations on a card with room for one and a half of them: to the host and back; forks."""

from __future__ import annotations

import asyncio

import numpy as np
import torch
from test_cuda_kernel import SMALL, half_tensors

from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.engine import EngineCore
from kogagent.engine.session import Session


async def generate(session: Session, count: int) -> list[int]:
    return [e.id async for batch in session.stream(max_tokens=count) for e in batch]


def test_caches_go_to_the_host_and_come_back_as_they_were(rng: np.random.Generator) -> None:
    tensors = half_tensors(SMALL, rng)
    prompts = [rng.integers(0, SMALL.vocab_size, 60).tolist() for _ in range(4)]

    async def say(core: EngineCore) -> list[tuple[int, ...]]:
        sessions = [core.session() for _ in prompts]
        for session, prompt in zip(sessions, prompts, strict=True):
            session.append(prompt)
        for turn in range(3):
            await asyncio.gather(*(generate(session, 5) for session in sessions))
            for session in sessions:
                session.append([turn])
        return [session.ids for session in sessions]

    async def run() -> None:
        async with EngineCore(lambda: CudaBackend(SMALL, tensors)) as core:
            alone = await say(core)
            assert (await core.caches()).moved_out == 0
            size = core._backend.kv_bytes(SMALL.context)
        async with EngineCore(
            lambda: CudaBackend(SMALL, tensors), cache_bytes=size * 3 // 2, host_cache_bytes=1 << 30
        ) as core:
            assert await say(core) == alone
            use = await core.caches()
            assert use.bytes == size and use.moved_in > 0 and use.dropped == 0
            # Each prompt, then in each later turn the new id and the last of the turn before: nothing twice.
            assert core.counters.prefilled == 4 * 60 + 2 * 4 * 2

    asyncio.run(run())


def test_a_fork_takes_no_memory_before_it_differs(rng: np.random.Generator) -> None:
    async def run() -> None:
        async with EngineCore(lambda: CudaBackend(SMALL, half_tensors(SMALL, rng))) as core:
            session = core.session()
            prompt = rng.integers(0, SMALL.vocab_size, 60).tolist()
            session.append(prompt)
            await generate(session, 3)
            before = torch.cuda.memory_allocated()
            forks = [await session.fork() for _ in range(8)]
            assert torch.cuda.memory_allocated() == before
            expected = await generate(session, 6)
            for fork in forks:
                assert await generate(fork, 6) == expected
            assert torch.cuda.memory_allocated() > before

    asyncio.run(run())
