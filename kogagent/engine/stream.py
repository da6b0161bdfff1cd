"""Batches of ids as a session's segment emits them. Token ids only."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from kogagent.engine.backend import DecodePlan, Emitted, TokenMatcher
from kogagent.engine.counters import Counters
from kogagent.engine.segment import Segment
from kogagent.types import FinishReason

if TYPE_CHECKING:
    from kogagent.engine.session import Session


class Start:
    """What a job goes out from, and what the worker found and did before the first pass.

    ids, length: the history, of which the job knows the first so many: these are never changed in place, and
    what comes behind them is nothing to it.
    """

    def __init__(self, ids: list[int], true: int, border: int = 0) -> None:
        self.ids, self.length = ids, len(ids)
        self.true = true
        self.border = border if border < self.length else 0
        self.matcher: TokenMatcher | None = None  # where the segment's began, for when it is taken up again
        self.began = False
        self.reused = 0
        self.restored = 0  # of those, from the disk
        self.pending = 0
        self.seconds = 0.0  # of pre-filling
        self.reuse_seconds = 0.0  # of finding a cache and cutting it to what it shares


class SessionStream:
    """Batches of emitted ids, as they come: an async iterator and a context manager.

    An id belongs to the history from the moment its batch is handed over; leaving early stops at a token
    border and forgets what was not handed over. Ends by `reason`.
    """

    def __init__(self, session: Session, plan: DecodePlan) -> None:
        self._session, self._plan = session, plan
        self._started: Start | None = None
        self._segment: Segment | None = None
        self._sampled = self._forced = 0
        self._done = False
        self._reason: FinishReason | None = None
        self._counted: Counters | None = None  # once it has ended

    @property
    def reason(self) -> FinishReason | None:
        """Why it ended; None while it runs and after an error."""
        return self._reason

    @property
    def counters(self) -> Counters:
        """This stream's own."""
        if self._counted is not None:
            return self._counted
        if self._segment is None or self._started is None:
            return Counters()
        stats = self._segment.stats
        return Counters(
            reused=self._started.reused,
            restored=self._started.restored,
            prefilled=self._started.pending,
            sampled=self._sampled,
            forced=self._forced,
            steps=stats.steps,
            prefill_s=self._started.seconds + stats.prefill_s,
            sampled_s=stats.sampled_s,
            forced_s=stats.forced_s,
            reuse_s=self._started.reuse_seconds,
        )

    def __aiter__(self) -> SessionStream:
        return self

    def follow(self, matcher: TokenMatcher) -> None:
        """Walk this grammar; before the first batch is asked for. The matcher is taken over."""
        assert self._segment is None, "the stream has begun"
        self._plan = replace(self._plan, matcher=matcher)

    async def __anext__(self) -> list[Emitted]:
        if self._done:
            raise StopAsyncIteration
        if self._segment is None:
            session = self._session
            session._worker.check_open()
            self._started = Start(session._ids, session._claim(), session._border)
            self._segment = session._worker.segment(
                session._begin(self._plan, self._started),
                partial(session._go_on, self._plan, self._started),
                session._account,
                patient=self._plan.patient,
            )
        try:
            batch = await self._segment.next_batch()
        except BaseException:
            await self.aclose()
            raise
        if not batch:
            self._finish(self._segment.reason)
            raise StopAsyncIteration
        self._session._commit(batch)
        forced = sum([e.forced for e in batch])
        self._forced += forced
        self._sampled += len(batch) - forced
        return batch

    async def aclose(self) -> None:
        """Stop at the next token border and wait for it. Idempotent."""
        if self._done:
            return
        try:
            if self._segment is not None:
                await self._segment.aclose()
        finally:
            self._finish("cancelled" if self._segment is None else self._segment.reason)

    def abandon(self) -> None:
        """Ask for the end and wait for nothing; from any thread."""
        if self._segment is not None:
            self._segment.stop()
        self._finish("cancelled")

    def _finish(self, reason: FinishReason | None) -> None:
        if not self._done:
            self._done = True
            self._reason = reason
            self._counted = self.counters
            self._session._stream_ended(self._counted, self._started)

    async def __aenter__(self) -> SessionStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._done and self._segment is not None:
            warnings.warn(
                "a stream was dropped before its end: use `async with`, or read it to the end",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )
            self.abandon()
