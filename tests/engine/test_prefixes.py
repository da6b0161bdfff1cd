"""Beginnings of prompts on disk: the same bits with and without, and nothing of what is not to be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.disk_cache import DiskCache
from kogagent.engine.backend import Backend, Emitted
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.backends.native import NativeBackend
from kogagent.engine.counters import Counters
from kogagent.engine.engine import EngineCore
from kogagent.engine.prefixes import KeepsRows, Prefixes, pass_end
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import random_tensors
from kogagent.errors import InputError
from kogagent.kernels.cpu import library
from kogagent.testing.toy import TINY, ToyBackend

SPEC = replace(TINY, context=2000, windows=(300, 0, 40))
WEIGHTS = random_tensors(SPEC, seed=3)
Make: TypeAlias = Callable[[], Backend]

needs_native = pytest.mark.skipif(library.missing() is not None, reason="the CPU program was not built")
MAKES: dict[str, Make] = {
    "int8": lambda: NativeBackend(SPEC, WEIGHTS, "int8"),
    "float32": lambda: NativeBackend(SPEC, WEIGHTS, "float32"),
    "torch": lambda: CpuBackend(SPEC, WEIGHTS),
}


@pytest.fixture(
    params=[pytest.param("int8", marks=needs_native), pytest.param("float32", marks=needs_native), "torch"]
)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "kept", limit=1 << 30)


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return [int(i) for i in rng.integers(0, SPEC.vocab_size, 700)]


async def _answer(
    core: EngineCore, ids: Sequence[int], border: int, *, context: int | None = None, reuse: bool = True
) -> tuple[list[Emitted], Counters]:
    """What a new conversation with this prompt says, with its logprobs, and what it took."""
    async with core.session(context, reuse=reuse) as session:
        session.append(ids)
        session.border = border
        out: list[Emitted] = []
        async for batch in session.stream(max_tokens=12, sampling=SamplingParams(temperature=0.7, seed=5)):
            out += batch
        return out, session.counters


async def _fresh(
    make: Make, ids: Sequence[int], border: int, disk: DiskCache | None = None, model: str = "m"
) -> tuple[list[Emitted], Counters]:
    """The same of an engine made for it."""
    prefixes = None if disk is None else Prefixes(disk, model)
    async with EngineCore(make, prefixes=prefixes) as core:
        return await _answer(core, ids, border)


@pytest.mark.parametrize("border", [600, 512, 699, 64])
async def test_the_same_bits_with_and_without(
    make: Make, disk: DiskCache, prompt: list[int], border: int
) -> None:
    without, counted = await _fresh(make, prompt, border)
    assert (counted.reused, counted.prefilled, counted.restored) == (0, 700, 0)
    first, counted = await _fresh(make, prompt, border, disk)
    assert (counted.reused, counted.prefilled, counted.restored) == (0, 700, 0)
    later, counted = await _fresh(make, prompt, border, disk)
    assert (counted.reused, counted.prefilled, counted.restored) == (border, 700 - border, border)
    assert without == first == later
    assert len(disk.entries()) == 1  # what was found is not written again


async def test_another_prompt_takes_what_it_has_in_common_up_to_where_its_own_passes_end(
    make: Make, disk: DiskCache, prompt: list[int], rng: np.random.Generator
) -> None:
    await _fresh(make, prompt, 600, disk)

    def other(shared: int) -> list[int]:
        return [
            *prompt[:shared],
            (prompt[shared] + 1) % SPEC.vocab_size,
            *prompt[: int(rng.integers(100, 400))],
        ]

    for shared, border, restored in ((600, 600, 600), (590, 590, 512), (650, 601, 512), (511, 600, 256)):
        ids = other(shared)
        found, counted = await _fresh(make, ids, border, disk)
        assert counted.restored == restored
        assert found == (await _fresh(make, ids, border))[0]
    ids = other(255)
    assert (await _fresh(make, ids, 255, disk))[1].restored == 0
    assert len(disk.entries()) == 5  # each border whose ids were not there yet


async def test_what_is_damaged_or_anothers_is_computed(
    make: Make, disk: DiskCache, prompt: list[int], rng: np.random.Generator
) -> None:
    wanted, _ = await _fresh(make, prompt, 600, disk)
    (entry,) = disk.entries("prompt")
    whole = entry.path.read_bytes()
    ids = whole.index(np.array(prompt[:600], np.uint32).tobytes())
    for place in (ids + int(rng.integers(2400)), 4096 + int(rng.integers(600)), 60):  # ids, rows, header
        data = bytearray(whole)
        data[place] ^= 1
        entry.path.write_bytes(data)
        found, counted = await _fresh(make, prompt, 600, disk)
        assert (found, counted.restored) == (wanted, 0)
        assert entry.path.read_bytes() == whole  # made anew
    entry.path.write_bytes(whole[:-5000])
    assert (await _fresh(make, prompt, 600, disk))[1].restored == 0
    assert (await _fresh(make, prompt, 600, disk, model="another"))[1].restored == 0
    assert (await _fresh(make, prompt, 600, disk))[1].restored == 600


@needs_native
async def test_each_type_has_its_own(disk: DiskCache, prompt: list[int]) -> None:
    for one in MAKES.values():
        assert (await _fresh(one, prompt, 600, disk))[1].restored == 0
    for one in MAKES.values():
        assert (await _fresh(one, prompt, 600, disk))[1].restored == 600


async def test_a_cache_of_another_capacity_takes_it(make: Make, disk: DiskCache, prompt: list[int]) -> None:
    wanted, _ = await _fresh(make, prompt, 600, disk)
    async with EngineCore(make, prefixes=Prefixes(disk, "m")) as core:
        found, counted = await _answer(core, prompt, 600, context=901)
    assert (found, counted.restored) == (wanted, 600)


async def test_what_memory_holds_comes_first_and_is_not_written(
    make: Make, disk: DiskCache, prompt: list[int]
) -> None:
    async with EngineCore(make, prefixes=Prefixes(disk, "m")) as core:
        await _answer(core, prompt[:400], 0)
        _, counted = await _answer(core, prompt, 600)
        assert counted.reused >= 399
        assert disk.entries() == []  # not computed in the pieces of a fresh start
        other = [*prompt[:100], *prompt[::-1]]
        _, counted = await _answer(core, other, 600)  # what it shares with those is little
        assert (counted.reused, counted.restored) == (0, 0)
        assert len(disk.entries()) == 1
        _, counted = await _answer(core, other[:650], 600)
        assert (counted.reused, counted.restored) == (649, 0)
    async with EngineCore(make, prefixes=Prefixes(disk, "m")) as core:
        _, counted = await _answer(core, other, 600, reuse=False)
        assert (counted.reused, counted.restored) == (0, 0)
        assert len(disk.entries()) == 1
        _, counted = await _answer(core, other, 600)
        assert counted.restored == 600
        _, counted = await _answer(core, [*other[:600], (other[600] + 1) % SPEC.vocab_size, 2, 3], 600)
        assert (counted.reused, counted.restored) == (600, 0)  # in memory by now


async def test_a_conversation_that_was_cut_before_its_border_leaves_no_file(
    make: Make, disk: DiskCache, prompt: list[int]
) -> None:
    async with EngineCore(make, prefixes=Prefixes(disk, "m")) as core, core.session() as session:
        session.append(prompt)
        session.border = 600
        session.rewind(599)
        assert session.border == 0
        session.append(prompt[:300])
        await session.prefill()
        assert disk.entries() == []
        with pytest.raises(InputError, match="border=900: the session has 899 ids"):
            session.border = 900


async def test_prefilling_ahead_keeps_it_too(make: Make, disk: DiskCache, prompt: list[int]) -> None:
    async with EngineCore(make, prefixes=Prefixes(disk, "m")) as core, core.session() as session:
        session.append(prompt)
        session.border = 600
        await session.prefill()
    assert (await _fresh(make, prompt, 600, disk))[1].restored == 600


async def test_short_beginnings_and_backends_that_cannot_keep_leave_no_file(
    make: Make, disk: DiskCache, prompt: list[int]
) -> None:
    await _fresh(make, prompt, 63, disk)
    await _fresh(lambda: ToyBackend(spec=SPEC), prompt, 600, disk)
    assert disk.entries() == []


def test_rows_hold_nothing_of_later_ids(make: Make, prompt: list[int], rng: np.random.Generator) -> None:
    backend = make()
    assert isinstance(backend, KeepsRows)

    def rows(length: int, end: int) -> list[npt.NDArray[Any]]:
        """Of `length` ids in a cache that has held `end`."""
        kv = backend.open_kv(200)
        backend.prefill(kv, prompt[:100])
        kv.rewind(50)
        backend.prefill(kv, prompt[50:end])
        return [row.copy() for row in backend.rows(kv, length)]

    def bits(rows: Sequence[npt.NDArray[Any]]) -> list[bytes]:
        return [row.tobytes() for row in rows]

    for length in (1, 16, int(rng.integers(2, 50))):
        assert bits(rows(length, 100)) == bits(rows(length, 180))
    whole = rows(90, 100)
    kv = backend.open_kv(200)
    for wrong in ([row.astype(np.float64) for row in whole], [row[1:] for row in whole], whole[:-1]):
        with pytest.raises(InputError, match="these rows"):
            backend.restore(kv, wrong, 90)
    assert kv.length == 0
    for length in (90, 80, 47, 16, 3):
        kv = backend.open_kv(100)
        backend.restore(kv, whole, length)
        assert bits(backend.rows(kv, length)) == bits(rows(length, 100))
    backend.close()


def test_passes_end_at_chunks_and_the_border(rng: np.random.Generator) -> None:
    for _ in range(50):
        length, chunk = (int(n) for n in rng.integers((2, 1), (900, 300)))
        border = int(rng.integers(length))
        at, ends = 0, []
        while at < length - 1:
            at = pass_end(at, length, border, chunk)
            ends.append(at)
        assert ends == sorted(
            {*range(chunk, length, chunk), length - 1, *([border] if border else [])} - {length}
        )
