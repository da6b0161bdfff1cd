"""What must not hang, leak or go unsaid: aborts at any token, a missed deadline, launches while one runs."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from test_cuda_kernel import SMALL, half_tensors

from kogagent.engine.backend import DecodePlan, Emitted
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.engine import EngineCore
from kogagent.engine.sampling import SamplingParams
from kogagent.errors import DeviceError, EngineClosedError
from kogagent.testing.backends import TINY
from kogagent.testing.toy import finish

CYCLES = 1000
BUILDS = [(SMALL, (0,), False), (TINY, (0,), False)]


def test_a_thousand_aborted_segments_leave_nothing_behind(rng: np.random.Generator) -> None:
    backend = CudaBackend(SMALL, half_tensors(SMALL, rng))
    plan = DecodePlan(SamplingParams(temperature=1.0, seed=int(rng.integers(2**60))), frozenset(), 200)
    prompt = rng.integers(0, SMALL.vocab_size, 5).tolist()
    kv = backend.open_kv(SMALL.context)
    whole = [e.id for e in finish(backend.decode(kv, prompt, plan))]
    assert len(whole) == 200
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for cycle in range(CYCLES):
        kv.rewind(0)
        decode = backend.decode(kv, prompt, plan)
        out: list[Emitted] = []
        stop_at = int(rng.integers(0, 40))
        while len(out) < stop_at:
            decode.wait(1.0)
            out += decode.drain_nowait()
        decode.stop()
        out += finish(decode)
        assert decode.reason == ("cancelled" if len(out) < 200 else "length"), f"cycle {cycle}"
        assert [e.id for e in out] == whole[: len(out)], f"cycle {cycle}: aborting changed the text"
        sequence = [*prompt, *(e.id for e in out)]
        assert kv.length < len(sequence) or not out
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    kv.rewind(0)
    assert [e.id for e in finish(backend.decode(kv, prompt, plan))] == whole
    backend.close()


def test_a_missed_deadline_poisons_the_engine_and_a_new_one_works(rng: np.random.Generator) -> None:
    tensors = half_tensors(TINY, rng)
    made: list[CudaBackend] = []

    def make() -> CudaBackend:
        made.append(CudaBackend(TINY, tensors))
        return made[-1]

    async def tokens(core: EngineCore) -> list[int]:
        session = core.session()
        session.append([3, 1, 4])
        async with session.stream(max_tokens=6) as stream:
            return [e.id async for batch in stream for e in batch]

    first = EngineCore(make)
    want = asyncio.run(tokens(first))
    kernel = made[0].kernel()
    for program in kernel._programs():
        program.params["deadline_ns"] = int(2e8)
    kernel._tensors["schedule"][0, 1] &= -65536  # block 0 has no rows to publish: the others wait in vain
    with pytest.raises(DeviceError, match=r"missed its deadline: block .* waiting for"):
        asyncio.run(tokens(first))
    assert first.closed
    with pytest.raises(EngineClosedError, match="missed its deadline"):
        first.session()
    first.close()
    second = EngineCore(make)
    assert asyncio.run(tokens(second)) == want
    second.close()


def test_prefill_behind_a_running_segment_waits_for_it(rng: np.random.Generator) -> None:
    backend = CudaBackend(SMALL, half_tensors(SMALL, rng))
    ids = rng.integers(0, SMALL.vocab_size, 60).tolist()

    def last() -> np.ndarray[Any, np.dtype[np.float32]]:
        rows = backend.append(backend.open_kv(SMALL.context), ids, logits="last")
        assert rows is not None
        return rows.cpu().numpy()

    want = last()
    decode = backend.decode(
        backend.open_kv(SMALL.context), ids[:3], DecodePlan(SamplingParams(), frozenset(), 150)
    )
    decode.wait(1.0)
    np.testing.assert_array_equal(last(), want)
    assert len(finish(decode)) <= 150 and decode.reason == "length"
    backend.close()
