"""Those who watch runs from outside. Knows values only; nothing an observer does reaches a run."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kogagent.loop.setup import Sink
from kogagent.types import AgentEvent, ToolSpec

_log = logging.getLogger("kogagent.loop")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run when it starts.

    agent and model are names; prompt is None where the history goes on by itself; messages counts the
    history before the prompt. id is random.
    """

    agent: str
    model: str
    prompt: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    messages: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(8))


class RunObserver(Protocol):
    """Watches one run. Called in the run's own task, between its steps: it must not block."""

    def event(self, event: AgentEvent) -> None:
        """Every event, when it happens: a reader of a stream may see it later."""

    def ended(self, error: BaseException | None) -> None:
        """Once, at the end: what the run raised (CancelledError too), or None after its RunFinished."""


@runtime_checkable
class Observer(Protocol):
    """Watches the runs of an agent: `Agent(…, observers=[one])`. An observer that raises is logged and sees
    no more of that run; the run goes on."""

    def run_started(self, run: RunInfo) -> RunObserver | None:
        """Who watches this run, None for nobody. Any number of runs may go on at once."""


class Watched:
    """A sink that shows observers each event on its way to the reader."""

    def __init__(self, sink: Sink, observers: Sequence[Observer], run: RunInfo) -> None:
        self._sink = sink
        self._watching: list[RunObserver] = []
        for observer in observers:
            try:
                watching = observer.run_started(run)
            except Exception:
                _log.exception("observer %r failed at the start of a run", observer)
                continue
            if watching is not None:
                self._watching.append(watching)

    @property
    def waited_s(self) -> float:
        return self._sink.waited_s

    def put(self, event: AgentEvent) -> bool:
        for watching in tuple(self._watching):
            try:
                watching.event(event)
            except Exception:
                _log.exception("observer %r failed and sees no more of this run", watching)
                self._watching.remove(watching)
        return self._sink.put(event)

    async def drained(self) -> None:
        await self._sink.drained()

    def ended(self, error: BaseException | None) -> None:
        """Tell all of them, the last opened first: spans nest."""
        for watching in reversed(self._watching):
            try:
                watching.ended(error)
            except Exception:
                _log.exception("observer %r failed at the end of a run", watching)
        self._watching.clear()
