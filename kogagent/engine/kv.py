"""Caches in memory: who may reuse whose prefix, who makes room. Knows ids and caches; no segments, no text.

All of it runs on the worker's thread.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from kogagent.engine.backend import KV, Backend, Decode
from kogagent.engine.prefixes import Held, Prefixes
from kogagent.errors import InputError


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two sequences share from the start."""
    low, high = 0, min(len(a), len(b))
    if tuple(a[:high]) == tuple(b[:high]):  # the usual case, at the speed of a comparison of tuples
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if tuple(a[low:middle]) == tuple(b[low:middle]):
            low = middle
        else:
            high = middle
    return low


class Lease:
    """A session's claim on a cache. kv: None before it has one, and after it had to give it up to others;
    then it computes its ids anew. decode: what runs on it: until that has a reason to end, it stays. even:
    whether all of it was computed in pieces that end where prefixes.py says; restored: how much of it came
    from the disk."""

    __slots__ = ("decode", "even", "kv", "restored", "used")

    def __init__(self) -> None:
        self.kv: KV | None = None
        self.decode: Decode | None = None
        self.used = self.restored = 0
        self.even = False

    @property
    def busy(self) -> bool:
        return self.decode is not None and self.decode.reason is None


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What an engine's caches hold, and what was done to make room since it was loaded.

    in_use: caches of open sessions; kept: of closed ones; parked: those of both that wait in the host's
    memory. bytes against `limit`, parked_bytes against `parked_limit`; a part that forks share counts once.
    dropped: caches given up for room, their ids to be computed again; moved_out, moved_in: times a cache went
    to the host's memory and came back.
    """

    in_use: int = 0
    kept: int = 0
    parked: int = 0
    bytes: int = 0
    parked_bytes: int = 0
    limit: int = 0
    parked_limit: int = 0
    dropped: int = 0
    moved_out: int = 0
    moved_in: int = 0


class Caches:
    """All caches of an engine, under a limit of bytes.

    Those of closed sessions are kept, newest last, so that the next conversation with the same start does not
    compute it again: at most `kept` of them. Where memory is short, these go first, the oldest before the
    others, then those of sessions that wait, the least recently used first: to the host's memory, where the
    backend has one apart and it has room, else for good. The limit is kept when a segment starts.
    """

    def __init__(
        self,
        backend: Backend,
        kept: int,
        limit: int | None = None,
        parked: int | None = None,
        prefixes: Prefixes | None = None,
    ) -> None:
        room = backend.cache_room()
        self._disk = None if prefixes is None else prefixes.of(backend)
        self._backend, self._size = backend, kept
        self._limit = room[0] if limit is None else limit
        self._parked_limit = room[1] if parked is None else parked
        self._kept: list[tuple[tuple[int, ...], Lease]] = []
        self._lent: dict[int, Lease] = {}  # by identity: what open sessions hold ends with the engine
        self._clock = self._dropped = self._out = self._in = 0

    # ── sessions ──

    def take(
        self, lease: Lease, ids: Sequence[int], capacity: int, *, reuse: bool = True, border: int = 0
    ) -> None:
        """Give the lease a cache of this capacity that holds a prefix of ids: the longest there is, in memory
        or on disk, or an empty one. border: as `Prefixes.find` has it. Raises InputError where even then
        there is no room."""
        best, length = self._longest(ids, capacity) if reuse else (-1, 0)
        held = None
        if self._disk is not None and reuse and length < border:
            held = self._disk.find(ids, border, self._backend.prefill_chunk)
            if held is None and length < border // 4:
                best = -1  # computed from its beginning on, the prompt's can be kept
            elif held is not None and held.length >= length:
                best = -1
        lease.even, lease.restored = best < 0, 0
        if best >= 0:
            lease.kv = self._reused(best, length)
        else:
            self._make_room(self._backend.kv_bytes(capacity), lease, capacity)
            lease.kv = self._backend.open_kv(capacity)
            if held is not None:
                self._restore(lease, held)
        self.lend(lease)

    def reached(self, lease: Lease, ids: Sequence[int]) -> None:
        """Say that the lease's cache holds these ids, up to the border: if it was computed from its beginning
        on, it is kept on disk."""
        if self._disk is not None and lease.even and lease.restored < len(ids) and lease.kv is not None:
            self._disk.keep(lease.kv, ids)

    def _restore(self, lease: Lease, held: Held) -> None:
        kv = lease.kv
        assert kv is not None and self._disk is not None
        self._make_room(kv.growth(held.length), lease, held.length)
        if self._disk.restore(kv, held):
            lease.restored = held.length

    def lend(self, lease: Lease) -> None:
        """Take note of a cache that a session holds now."""
        self._lent[id(lease)] = lease
        self._touch(lease)

    def ready(self, lease: Lease, length: int) -> None:
        """Have the lease's cache where passes can use it, with room to grow to so many ids."""
        kv = lease.kv
        assert kv is not None
        self._touch(lease)
        self._make_room(kv.growth(length), lease, length)
        self._in += kv.parked

    def put(self, lease: Lease, ids: Sequence[int]) -> None:
        """Take a cache back whose first ids are `ids`, and keep it; the oldest makes room."""
        self._lent.pop(id(lease), None)
        kv, lease.kv = lease.kv, None
        if kv is None:
            return
        length = min(kv.length, len(ids))
        if length == 0 or self._size == 0:
            kv.close()
            return
        kv.rewind(length)
        kept = Lease()
        kept.kv = kv
        self._touch(kept)
        self._kept.append((tuple(ids[:length]), kept))
        while len(self._kept) > self._size:
            _close(self._kept.pop(0)[1])

    def clear(self) -> None:
        """Give all memory back, that of caches in use too."""
        for lease in (*(lease for _, lease in self._kept), *self._lent.values()):
            if lease.kv is not None:
                lease.kv.close()  # an open session keeps it, closed: it ends with the engine
        self._kept.clear()
        self._lent.clear()

    def _longest(self, ids: Sequence[int], capacity: int) -> tuple[int, int]:
        """The number of the kept cache that shares most with ids, -1 where none does, and how much."""
        best, length = -1, 0
        for i, (held, lease) in enumerate(self._kept):
            shared = common_prefix(held, ids) if lease.kv is not None and lease.kv.capacity == capacity else 0
            if shared >= max(length, 1):  # of equals the newest
                best, length = i, shared
        return best, length

    def _reused(self, best: int, length: int) -> KV:
        held, lease = self._kept[best]
        kv = lease.kv
        assert kv is not None
        if length < len(held):  # another conversation with the same start: it may go on as well
            return kv.fork(min(length, kv.length))
        del self._kept[best]
        kv.rewind(min(length, kv.length))
        return kv

    # ── memory ──

    @property
    def use(self) -> CacheUse:
        lent = [lease.kv for lease in self._lent.values() if lease.kv is not None]
        kept = [lease.kv for _, lease in self._kept if lease.kv is not None]
        return CacheUse(
            in_use=len(lent),
            kept=len(kept),
            parked=sum(kv.parked for kv in (*lent, *kept)),
            bytes=_bytes(kv for kv in (*lent, *kept) if not kv.parked),
            parked_bytes=_bytes(kv for kv in (*lent, *kept) if kv.parked),
            limit=self._limit,
            parked_limit=self._parked_limit,
            dropped=self._dropped,
            moved_out=self._out,
            moved_in=self._in,
        )

    def _touch(self, lease: Lease) -> None:
        self._clock += 1
        lease.used = self._clock

    def _all(self) -> list[Lease]:
        """Every lease with a cache, in the order in which they would make room."""
        lent = sorted(self._lent.values(), key=lambda lease: lease.used)
        return [lease for lease in (*(kept for _, kept in self._kept), *lent) if lease.kv is not None]

    def _make_room(self, need: int, keep: Lease, tokens: int) -> None:
        if need == 0:
            return
        leases = self._all()
        while True:
            held = _bytes(one.kv for one in leases if one.kv is not None and not one.kv.parked)
            if held + need <= self._limit:
                return
            staying = {part for one in leases if one is keep or one.busy for part in _parts(one)}
            victim = next(
                (one for one in leases if not (one is keep or one.busy) and self._frees(one, staying)), None
            )
            if victim is None:
                raise InputError(
                    f"no room for a cache of {tokens} tokens: it takes {need / 1e6:,.1f} MB more, and "
                    f"{held / 1e6:,.1f} of {self._limit / 1e6:,.1f} MB are held by sessions that run. Open "
                    "them with less context, run fewer at a time, or load the engine with more cache_bytes."
                )
            self._evict(victim, keep)
            leases = [one for one in leases if one.kv is not None]

    def _frees(self, lease: Lease, staying: set[Hashable]) -> bool:
        kv = lease.kv
        return (
            kv is not None
            and not kv.parked
            and any(size and part not in staying for part, size in kv.memory.items())
        )

    def _evict(self, lease: Lease, keep: Lease) -> None:
        kv = lease.kv
        assert kv is not None
        size = _bytes([kv])
        if size > self._parked_limit or not kv.park():
            self._drop(lease)
            return
        self._out += 1
        parked = [one for one in self._all() if one.kv is not None and one.kv.parked]
        for one in parked:
            if _bytes(other.kv for other in parked if other.kv is not None) <= self._parked_limit:
                break
            if one is not lease and one is not keep:  # whose cache is about to come back
                self._drop(one)

    def _drop(self, lease: Lease) -> None:
        self._dropped += 1
        self._lent.pop(id(lease), None)
        self._kept = [(ids, kept) for ids, kept in self._kept if kept is not lease]
        _close(lease)


def _close(lease: Lease) -> None:
    kv, lease.kv = lease.kv, None
    if kv is not None:
        kv.close()


def _parts(lease: Lease) -> Iterable[Hashable]:
    return () if lease.kv is None else lease.kv.memory


def _bytes(caches: Iterable[KV]) -> int:
    """What they hold together; a part that several share counts once."""
    parts: dict[Hashable, int] = {}
    for kv in caches:
        parts.update(kv.memory)
    return sum(parts.values())
