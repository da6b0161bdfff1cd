"""Beginnings of prompts whose keys and values are kept on disk. Knows ids and files; no text, no layout.

What comes out of a pass depends, in its last bits, on how many ids it runs. So a prompt that begins with one
of these is computed in the same pieces whether or not it was found: passes end at multiples of the backend's
chunk and at the prompt's border, and what is taken from a file ends there too. Then keys, values and text
are the same bits with and without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kogagent.disk_cache import Damaged, DiskCache, Found
from kogagent.engine.backend import KV, Backend
from kogagent.errors import InputError

KIND = "prompt"
LEAST = 64
"""Ids that are worth a file."""


@runtime_checkable
class KeepsRows(Protocol):
    """What a backend can besides, whose caches may leave the process and come back."""

    @property
    def kept_as(self) -> str:
        """Names all that decides the bits of its caches but the checkpoint and the ids: program, types,
        threads."""

    def rows(self, kv: KV, length: int) -> Sequence[npt.NDArray[Any]]:
        """Keys and values of the first `length` ids and of no others. In the cache's own memory: to be copied
        before the next pass, while it is open."""

    def restore(self, kv: KV, rows: Sequence[npt.NDArray[Any]], length: int) -> None:
        """Fill an empty cache with the first `length` ids of what `rows` gave for as many or more. Raises
        InputError where they are not of this layout."""


@dataclass(frozen=True, slots=True)
class Held:
    """A beginning that is on disk: its first `length` ids are of use."""

    length: int
    found: Found


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Where beginnings of prompts are kept. model: names the checkpoint, as `weights.identity` does."""

    disk: DiskCache
    model: str

    def of(self, backend: Backend) -> PrefixFiles | None:
        """Those that a backend can use; None for one that cannot."""
        return PrefixFiles(self, backend) if isinstance(backend, KeepsRows) else None


class PrefixFiles:
    """The beginnings of one model's prompts on one backend."""

    def __init__(self, kept: Prefixes, backend: KeepsRows) -> None:
        self._disk, self._backend = kept.disk, backend
        self._group = hashlib.sha256(f"{kept.model} {backend.kept_as}".encode()).hexdigest()[:32]

    def find(self, ids: Sequence[int], border: int, chunk: int) -> Held | None:
        """The longest beginning of ids there is. border: where, beside multiples of `chunk`, a pass over ids
        ends."""
        best: Held | None = None
        if len(ids) < LEAST:
            return None
        wanted = np.asarray(ids, np.uint32)
        for found in self._disk.find_all(KIND, self._group):
            try:
                held = found.peek("ids")
            except Damaged:
                self._disk.drop(found)
                continue
            most = min(len(held), len(wanted))
            differ = np.flatnonzero(held[:most] != wanted[:most])
            shared = int(differ[0]) if len(differ) else most
            length = shared if shared == len(held) == border else shared // chunk * chunk
            if length >= (LEAST if best is None else best.length + 1):
                best = Held(length, found)
        return best

    def restore(self, kv: KV, held: Held) -> bool:
        """Fill an empty cache; False where the file proved damaged. Then the cache is still empty."""
        try:
            rows = [held.found.part(f"rows{i}") for i in range(held.found.meta["parts"])]
            self._backend.restore(kv, rows, held.length)
        except (Damaged, InputError, KeyError, TypeError):
            self._disk.drop(held.found)
            return False
        self._disk.touch(held.found)
        return True

    def keep(self, kv: KV, ids: Sequence[int]) -> None:
        """Write the beginning that these ids are, which kv holds; nothing for a short one."""
        if len(ids) < LEAST:
            return
        rows = self._backend.rows(kv, len(ids))
        parts: dict[str, npt.NDArray[Any]] = {f"rows{i}": array for i, array in enumerate(rows)}
        parts["ids"] = np.asarray(ids, np.uint32)
        key = f"{self._group}-{hashlib.sha256(parts['ids'].tobytes()).hexdigest()[:32]}"
        self._disk.put(KIND, key, {"parts": len(rows)}, parts)


def pass_end(at: int, length: int, border: int, chunk: int) -> int:
    """Where the pass ends that begins at `at`, of a prompt of so many ids; one id at least is left."""
    end = (at // chunk + 1) * chunk
    return min(end if at >= border else min(end, border), length - 1)
