"""Caches between sessions: who may reuse whose prefix. Knows ids and caches; no segments, no text.

All of it runs on the worker's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from kogagent.engine.backend import KV, Backend


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two sequences share from the start."""
    end = min(len(a), len(b))
    if list(a[:end]) == list(b[:end]):  # the usual case, at the speed of a comparison of lists
        return end
    return next(i for i in range(end) if a[i] != b[i])


class Shelf:
    """The caches of closed sessions, newest last, kept so that the next conversation with the same start
    does not compute it again. At most `size` of them; a cache that finds no place gives its memory back.
    """

    def __init__(self, backend: Backend, size: int) -> None:
        self._backend = backend
        self._size = size
        self._kept: list[tuple[tuple[int, ...], KV]] = []

    def take(self, ids: Sequence[int], capacity: int) -> KV:
        """A cache of this capacity holding a prefix of ids: the longest on the shelf, or an empty one."""
        best, length = -1, 0
        for i, (held, kv) in enumerate(self._kept):
            shared = common_prefix(held, ids) if kv.capacity == capacity else 0
            if shared >= max(length, 1):  # of equals the newest
                best, length = i, shared
        if best < 0:
            return self._backend.open_kv(capacity)
        kv = self._kept.pop(best)[1]
        kv.rewind(min(length, kv.length))
        return kv

    def put(self, kv: KV, ids: Sequence[int]) -> None:
        """Keep a cache whose first ids are `ids`; the oldest makes room."""
        length = min(kv.length, len(ids))
        if length == 0 or self._size == 0:
            kv.close()
            return
        kv.rewind(length)
        self._kept.append((tuple(ids[:length]), kv))
        while len(self._kept) > self._size:
            self._kept.pop(0)[1].close()

    def clear(self) -> None:
        """Give all memory back."""
        for _, kv in self._kept:
            kv.close()
        self._kept.clear()
