"""The engine as its users inside the package see it: open sessions, count, close. Token ids only."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from kogagent.engine.backend import Backend, PreparesGrammars, TokenGrammar
from kogagent.engine.counters import Counters, Meter
from kogagent.engine.kv import Caches, CacheUse
from kogagent.engine.prefixes import KeepsRows, Prefixes
from kogagent.engine.session import Session
from kogagent.engine.worker import Worker
from kogagent.errors import InputError
from kogagent.spec import ModelSpec


class EngineCore:
    """A loaded model, the thread that owns it, and the caches of past sessions.

    make_backend runs on that thread; what it raises is raised here. kept_caches: so many caches of closed
    sessions are kept for prefix reuse. cache_bytes: what all caches may take, by default what the backend
    finds free; host_cache_bytes: how much of the host's memory those may take that a device has no room for.
    clock: seconds, by which sessions share the device. prefixes: beginnings of prompts on disk, for a backend
    that has KeepsRows.
    """

    def __init__(
        self,
        make_backend: Callable[[], Backend],
        *,
        kept_caches: int = 8,
        cache_bytes: int | None = None,
        host_cache_bytes: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        prefixes: Prefixes | None = None,
    ) -> None:
        limits = {
            "kept_caches": kept_caches,
            "cache_bytes": cache_bytes,
            "host_cache_bytes": host_cache_bytes,
        }
        for name, value in limits.items():
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{name}={value!r}: must be an integer >= 0")
        self._worker = Worker(clock=clock)
        try:
            self._backend = self._worker.call_blocking(make_backend)
            self._caches = self._worker.call_blocking(
                lambda: Caches(self._backend, kept_caches, cache_bytes, host_cache_bytes, prefixes)
            )
        except BaseException:
            self._worker.close()
            raise
        self._meter = Meter()
        caches, backend = self._caches, self._backend

        def end() -> None:
            caches.clear()
            backend.close()

        self._worker.at_end(end)

    @property
    def spec(self) -> ModelSpec:
        return self._backend.spec

    @property
    def backend_name(self) -> str:
        return self._backend.name

    @property
    def dtype(self) -> str:
        """The type of the weights."""
        return self._backend.dtype

    @property
    def keeps_rows(self) -> bool:
        """Whether a session's border is of use here."""
        return isinstance(self._backend, KeepsRows)

    @property
    def prepares_grammars(self) -> bool:
        """Whether `prepare` does anything."""
        return isinstance(self._backend, PreparesGrammars)

    def prepare(self, grammar: TokenGrammar) -> None:
        """Make what the device needs of a grammar before a segment follows it. From any thread; some
        milliseconds."""
        self.check_open()
        if isinstance(self._backend, PreparesGrammars):
            self._backend.prepare(grammar)

    @property
    def counters(self) -> Counters:
        """Of all streams of all sessions that have ended."""
        return self._meter.total

    async def caches(self) -> CacheUse:
        """What the caches hold now, and what making room has cost since the engine was loaded."""
        return await self._worker.call(lambda: self._caches.use)

    @property
    def closed(self) -> bool:
        """Closed by its owner or by a device error."""
        return self._worker.closed

    def check_open(self) -> None:
        """Raise EngineClosedError when closed, saying by what."""
        self._worker.check_open()

    def session(self, context: int | None = None, *, reuse: bool = True, priority: int = 0) -> Session:
        """A new conversation with room for `context` ids, by default all of the model's context.

        reuse: take over the cache of a closed session that starts alike, and leave one behind. priority: see
        Session. Takes no memory before its first stream. Raises InputError for a context the model has not.
        """
        self._worker.check_open()
        most = self.spec.context
        if context is None:
            context = most
        if type(context) is not int or not 1 <= context <= most:
            raise InputError(f"context={context!r}: must be an integer in 1 .. {most}, the model's context")
        return Session(
            self._worker, self._backend, self._caches, self._meter, context, reuse=reuse, priority=priority
        )

    def close(self) -> None:
        """Stop what runs at its next token border and give the device back. Idempotent; blocks
        for that step."""
        self._worker.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._worker.aclose()

    def __enter__(self) -> EngineCore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> EngineCore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
