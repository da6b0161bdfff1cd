"""One conversation: its ids, and the cache that holds a prefix of them. Token ids only.

The ids are the truth; the cache follows. Appending, rewinding and syncing change the ids at once and touch no
device. When a stream starts, the worker rewinds the cache to what is still true and runs what is not in it.
"""

from __future__ import annotations

import contextlib
import operator
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType

from kogagent.engine.backend import KV, Backend, Decode, DecodePlan, Emitted, TokenMatcher
from kogagent.engine.counters import Counters, Meter
from kogagent.engine.kv import Caches, Lease, common_prefix
from kogagent.engine.prefixes import KeepsRows, pass_end
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.segment import Steps
from kogagent.engine.stream import SessionStream, Start
from kogagent.engine.turns import Account
from kogagent.engine.worker import Worker
from kogagent.errors import ContextError, EngineClosedError, InputError

_GREEDY = SamplingParams()


class Session:
    """The token history of one conversation and its claim on a cache. Made by `EngineCore.session`.

    Used by one task at a time, from one event loop at a time; while a stream is open everything but `fork`
    is refused with InputError. After close: EngineClosedError. priority: each step up doubles the session's
    share of the device while others want it too; a session and its forks have one share together.
    """

    def __init__(
        self,
        worker: Worker,
        backend: Backend,
        caches: Caches,
        engine_meter: Meter,
        capacity: int,
        *,
        reuse: bool = True,
        priority: int = 0,
        account: Account | None = None,
    ) -> None:
        self._lease = Lease()  # the worker's
        self._closed = False
        self._worker, self._backend, self._caches = worker, backend, caches
        self._meters = (Meter(), engine_meter)
        self._reuse = reuse
        self._account = Account(priority) if account is None else account
        self._capacity = capacity
        self._ids: list[int] = []
        self._true = 0  # whatever the cache holds up to here is the history's; past it nothing is known
        self._even, self._border = isinstance(backend, KeepsRows), 0
        self._stream: weakref.ref[SessionStream] | None = None  # weak, so that a dropped stream can say so
        self._busy = False

    # ── the history ──

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._ids)

    def ids_from(self, start: int) -> tuple[int, ...]:
        """The ids from a place on."""
        return tuple(self._ids[start:])

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def capacity(self) -> int:
        """The most ids a prompt may have here."""
        return self._capacity

    @property
    def counters(self) -> Counters:
        return self._meters[0].total

    def append(self, ids: Iterable[int]) -> None:
        """Add ids to the history. Raises ContextError with both numbers, InputError for an unknown id; then
        nothing has changed."""
        self._check_idle()
        self._extend(self._checked(ids))

    def rewind(self, length: int) -> None:
        """Forget everything past the first `length` ids."""
        self._check_idle()
        if type(length) is not int or not 0 <= length <= len(self._ids):
            raise InputError(f"rewind to {length!r}: the session has {len(self._ids)} ids")
        self._cut(length)

    def sync_to(self, ids: Sequence[int]) -> int:
        """Make the history equal to ids, keeping the longest common prefix; returns its length."""
        self._check_idle()
        wanted = self._checked(ids)
        if len(wanted) > self._capacity:
            raise self._too_long(len(wanted))
        kept = common_prefix(self._ids, wanted)
        self._cut(kept)
        self._extend(wanted[kept:])
        return kept

    @property
    def priority(self) -> int:
        """The session's share of the device, see the class."""
        return self._account.priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self._account.priority = priority

    @property
    def border(self) -> int:
        """Up to where the history is likely to come again, in other conversations and after a restart: a pass
        ends there, and what it left in the cache may be kept on disk. 0 for nowhere."""
        return self._border

    @border.setter
    def border(self, length: int) -> None:
        if type(length) is not int or not 0 <= length <= len(self._ids):
            raise InputError(f"border={length!r}: the session has {len(self._ids)} ids")
        self._border = length if self._even else 0

    async def fork(self) -> Session:
        """A second session with the same history; each goes its own way. What is in the cache they share
        until they differ.

        May be asked for while a stream is open: the fork then has what was handed over until now.
        """
        self._check_open()
        if self._busy:
            raise InputError("the session is busy: wait for its pre-filling or its fork first")
        child = Session(
            self._worker,
            self._backend,
            self._caches,
            self._meters[1],
            self._capacity,
            reuse=self._reuse,
            account=self._account,
        )
        child._ids, child._true, child._border = list(self._ids), self._true, self._border
        stream = self._open_stream()
        started = None if stream is None else stream._started

        def share() -> None:
            if self._lease.kv is None:
                return
            child._lease.kv = self._lease.kv.fork()
            self._caches.lend(child._lease)
            if started is not None:
                # A job that began has made the cache follow the ids; one that waits has not touched it.
                child._true = len(child._ids) if started.began else started.true

        self._busy = stream is None
        try:
            await self._worker.call(share)
        except BaseException:
            child.close_soon()
            raise
        finally:
            self._busy = False
        return child

    async def prefill(self) -> None:
        """Run all ids but the last now, while there is time, instead of when the next stream starts."""
        self._check_idle()
        if not self._ids:
            return
        started = Start(self._ids, self._claim(), self._border)
        self._busy = True
        try:
            await self._worker.call_in_steps(self._fill(started, keep=1), self._account)
        finally:
            self._busy = False
            self._settle(started)
            # Only the time: the ids count as reused or pre-filled when a stream asks for them.
            self._count(Counters(prefill_s=started.seconds, reuse_s=started.reuse_seconds))

    def stream(
        self,
        *,
        sampling: SamplingParams | None = None,
        stop_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        matcher: TokenMatcher | None = None,
        force: bool = True,
        legal_ids: int = 0,
        patient: bool = False,
    ) -> SessionStream:
        """Continue the history. Nothing runs before the first batch is asked for.

        max_tokens None: to the end of the context. The matcher is taken over. patient: batches may come some
        50 ms late where the reader shares its processors with the model, which is then not interrupted; for
        one that will not leave early. Raises InputError when there is nothing to continue or a value is out
        of range, ContextError when the context is full.
        """
        self._check_idle()
        if not self._ids:
            raise InputError("the session is empty: append a prompt before streaming")
        if len(self._ids) > self._capacity:
            raise self._too_long(len(self._ids))
        params = self.checked(sampling, max_tokens)
        plan = DecodePlan(
            sampling=params,
            stop_ids=frozenset(stop_ids),
            max_tokens=max_tokens if max_tokens is not None else self._capacity + 1,
            history=tuple(self._ids) if params.repetition_penalty != 1.0 else (),
            matcher=matcher,
            force=force,
            legal_ids=legal_ids,
            patient=patient,
        )
        stream = SessionStream(self, plan)
        self._stream = weakref.ref(stream)
        return stream

    @staticmethod
    def checked(sampling: SamplingParams | None, max_tokens: int | None) -> SamplingParams:
        """What `stream` will draw by. Raises InputError for options it will not take."""
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise InputError(f"max_tokens={max_tokens!r}: must be an integer >= 1, or None for all that fit")
        params = sampling if sampling is not None else _GREEDY
        if not isinstance(params, SamplingParams):
            raise InputError(f"sampling={sampling!r}: must be a kogagent.SamplingParams")
        return params

    # ── closing ──

    async def aclose(self) -> None:
        """Stop an open stream, leave the cache to the engine for reuse. Idempotent."""
        stream = self._open_stream()
        if stream is not None:
            await stream.aclose()
        self.close_soon()

    def close_soon(self) -> None:
        """`aclose` without waiting: an open stream is stopped, the cache follows in its turn."""
        if self._closed:
            return
        self._closed = True
        stream = self._open_stream()
        if stream is not None:
            stream.abandon()
        try:
            self._worker.post(self._give_back)
        except (EngineClosedError, InputError):
            self._lease.kv = None  # closed, or too busy to keep anything: it goes with the last reference

    def _give_back(self) -> None:
        self._caches.put(self._lease, self._held)

    @property
    def _held(self) -> list[int]:
        """The ids of the cache that others may reuse."""
        return self._ids[: self._true] if self._reuse else []

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # Forgotten, not closed: jobs hold their session, so none is left that uses its cache.
        if not self._closed and self._lease.kv is not None:
            with contextlib.suppress(EngineClosedError, InputError):
                self._worker.post(partial(self._caches.put, self._lease, self._held))

    # ── inside ──

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosedError("the session is closed. Open a new one.")
        self._worker.check_open()

    def _check_idle(self) -> None:
        self._check_open()
        if self._busy or self._open_stream() is not None:
            raise InputError("the session is busy: finish or close its stream first")

    def _open_stream(self) -> SessionStream | None:
        return None if self._stream is None else self._stream()

    def _checked(self, ids: Iterable[int]) -> list[int]:
        try:
            out = list(map(operator.index, ids))
        except TypeError as error:
            raise InputError(f"token ids must be integers: {error}") from error
        vocab = self._backend.spec.vocab_size
        if out and (min(out) < 0 or max(out) >= vocab):
            wrong = next(i for i in out if not 0 <= i < vocab)
            raise InputError(f"token id {wrong} lies outside the model's vocabulary of {vocab}")
        return out

    def _extend(self, ids: list[int]) -> None:
        if len(self._ids) + len(ids) > self._capacity:
            raise self._too_long(len(self._ids) + len(ids))
        self._ids += ids

    def _too_long(self, length: int) -> ContextError:
        return ContextError(
            f"the prompt has {length} tokens, the context holds {self._capacity}. Shorten it."
        )

    def _cut(self, length: int) -> None:
        if length < len(self._ids):
            self._ids = self._ids[:length]  # a job that was abandoned may still read the old ones
        self._true = min(self._true, length)
        if length < self._border:
            self._border = 0

    def _count(self, counters: Counters) -> None:
        for meter in self._meters:
            meter.add(counters)

    def _claim(self) -> int:
        """How much of the cache is true for a job that starts now."""
        if self._lease.kv is None:
            self._true = len(self._ids)  # it will be filled with these
        return self._true

    def _fill(self, started: Start, keep: int) -> Steps[KV]:
        """On the worker: lease a cache, rewind it to the truth, pre-fill until at most `keep` ids are left.

        Knows the ids as they were when the job was made: the history may be changed once it is abandoned.
        """
        ids, length, border = started.ids, started.length, started.border
        chunk = self._backend.prefill_chunk
        begun = time.perf_counter()
        kv = self._cache(ids, length, border)
        kv.rewind(min(started.true, kv.length, length - 1))
        self._lease.even &= kv.length in (0, self._lease.restored)
        started.began = True
        started.reuse_seconds = time.perf_counter() - begun
        started.reused, started.pending = kv.length, length - kv.length
        started.restored = self._lease.restored if self._lease.even else 0
        while length - kv.length > keep or kv.length < border:
            end = min(kv.length + chunk, length - keep)
            if self._even:
                end = pass_end(kv.length, length, border, chunk)
            begun = time.perf_counter()
            self._backend.prefill(kv, ids[kv.length : end])
            started.seconds += time.perf_counter() - begun
            if end == border:
                self._caches.reached(self._lease, ids[:border])
            yield
            kv = self._cache(ids, length, border)
            if kv.length < started.reused:  # others have needed its room meanwhile
                started.reused, started.pending = kv.length, length - kv.length
        self._lease.even = False  # what follows is cut as it comes
        return kv

    def _cache(self, ids: list[int], length: int, border: int = 0) -> KV:
        """On the worker: this session's cache where passes can use it, for the first so many ids; a new one,
        where it has none (any more), holds a prefix of all of them but the last."""
        if self._lease.kv is None:
            known = ids[: length - 1]
            self._caches.take(self._lease, known, self._capacity, reuse=self._reuse, border=border)
        self._caches.ready(self._lease, length)
        assert self._lease.kv is not None
        return self._lease.kv

    def _begin(self, plan: DecodePlan, started: Start) -> Steps[Decode]:
        """On the worker: all up to a running Decode, which runs the last chunk of the prompt itself."""
        kv = yield from self._fill(started, keep=self._backend.prefill_chunk)
        if plan.matcher is not None:
            started.matcher = plan.matcher.fork()
        return self._decode(kv, started.ids[kv.length : started.length], plan)

    def _decode(self, kv: KV, pending: Sequence[int], plan: DecodePlan) -> Decode:
        self._lease.decode = decode = self._backend.decode(kv, pending, plan)
        return decode

    def _go_on(self, plan: DecodePlan, started: Start, emitted: Sequence[Emitted]) -> Decode:
        """On the worker: a segment that gave the device up after these ids, taken up again. What it emits is
        what it would have emitted then: the draw of an id depends on its place alone."""
        ids = [*started.ids[: started.length], *(one.id for one in emitted)]
        matcher = None if started.matcher is None else started.matcher.fork()
        if matcher is not None:
            for one in emitted:
                matcher.advance(one.id)
        rest = replace(
            plan,
            max_tokens=plan.max_tokens - len(emitted),
            history=tuple(ids) if plan.history else (),
            matcher=matcher,
        )
        kv = self._cache(ids, len(ids))
        return self._decode(kv, ids[kv.length :], rest)

    def _commit(self, batch: Sequence[Emitted]) -> None:
        self._ids += [e.id for e in batch]

    def _stream_ended(self, counters: Counters, started: Start | None) -> None:
        self._stream = None
        self._lease.decode = None
        self._count(counters)
        if started is not None:
            self._settle(started)

    def _settle(self, started: Start) -> None:
        # A job that never began has rewound nothing: the cache may hold what an earlier stream ran too far.
        # One that did has followed the ids; what it ran past those taken is cut off when it is next used.
        if started.began:
            self._true = len(self._ids)
