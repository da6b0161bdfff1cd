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

    It also knows the caches that open sessions hold: they end with the engine, whoever still has them.
    """

    def __init__(self, backend: Backend, size: int) -> None:
        self._backend = backend
        self._size = size
        self._kept: list[tuple[tuple[int, ...], KV]] = []
        self._lent: dict[int, KV] = {}  # by identity

    def take(self, ids: Sequence[int], capacity: int, *, reuse: bool = True) -> KV:
        """A cache of this capacity holding a prefix of ids: the longest on the shelf, or an empty one."""
        kv = self._reused(ids, capacity) if reuse else None
        return self.lend(self._backend.open_kv(capacity) if kv is None else kv)

    def lend(self, kv: KV) -> KV:
        """Take note of a cache that a session holds now."""
        self._lent[id(kv)] = kv
        return kv

    def _reused(self, ids: Sequence[int], capacity: int) -> KV | None:
        best, length = -1, 0
        for i, (held, kv) in enumerate(self._kept):
            shared = common_prefix(held, ids) if kv.capacity == capacity else 0
            if shared >= max(length, 1):  # of equals the newest
                best, length = i, shared
        if best < 0:
            return None
        kv = self._kept.pop(best)[1]
        kv.rewind(min(length, kv.length))
        return kv

    def put(self, kv: KV, ids: Sequence[int]) -> None:
        """Keep a cache whose first ids are `ids`; the oldest makes room."""
        self._lent.pop(id(kv), None)
        length = min(kv.length, len(ids))
        if length == 0 or self._size == 0:
            kv.close()
            return
        kv.rewind(length)
        self._kept.append((tuple(ids[:length]), kv))
        while len(self._kept) > self._size:
            self._kept.pop(0)[1].close()

    def clear(self) -> None:
        """Give all memory back, that of caches in use too."""
        for kv in (*(kv for _, kv in self._kept), *self._lent.values()):
            kv.close()
        self._kept.clear()
        self._lent.clear()
