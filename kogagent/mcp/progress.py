"""How far a call is, as MCP says it and as a run tells it. Knows the two, and no tools."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from kogagent.errors import InputError
from kogagent.types import AgentEvent, RunContext, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Progress:
    """The value of a `ToolProgress` that a server told, and what a tool of ours may `report` to a client.

    done grows from one to the next, towards total where that is known, in the tool's own unit; message is for
    people. Raises InputError for numbers that are not finite and for a message that is no text.
    """

    done: float
    total: float | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("done", self.done), ("total", self.total)):
            if not _is_finite(value) and (name, value) != ("total", None):
                raise InputError(f"{name}={value!r} must be a finite number")
        if not isinstance(self.message, str | None):
            raise InputError(f"message={self.message!r} must be a text")


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


class Heard:
    """What a server tells of one call, reported to the run until the block is left."""

    def __init__(self, context: RunContext[Any]) -> None:
        self._context: RunContext[Any] | None = context

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._context is not None:
            with contextlib.suppress(InputError):  # NaN, say: a server's mistake is no reason to end the call
                self._context.report(Progress(progress, total, message))

    def __enter__(self) -> Heard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context = None


Send = Callable[[float, float | None, str | None], Awaitable[None]]


class Told:
    """A run's port for a tool that a client has called: what it reports is sent, in order, before the block
    is left. A finite number is progress; anything else counts one further, with its text, as it is when it is
    reported, as the message. What making that text raises, `progress` raises."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: asyncio.Queue[Progress | str] = asyncio.Queue()
        self._done = 0.0

    def progress(self, call: ToolCall, value: Any) -> None:
        told: Progress | str
        if isinstance(value, Progress):
            told = value
        else:
            told = Progress(float(value)) if _is_finite(value) else str(value)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._reports.put_nowait, told)

    def nested(self, call: ToolCall, event: AgentEvent) -> None:
        """What runs inside the call is nobody's to see."""

    def spent(self, usage: Usage) -> None:
        """Nobody counts."""

    async def drained(self) -> None:
        await self._reports.join()

    async def __aenter__(self) -> Told:
        self._sending = self._loop.create_task(self._send_all())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await asyncio.sleep(0)  # what other threads have reported is in the queue after this
                await self._reports.join()
        finally:
            self._sending.cancel()
            await asyncio.wait((self._sending,))

    async def _send_all(self) -> None:
        while True:
            told = await self._reports.get()
            if isinstance(told, str):
                told = Progress(self._done + 1, None, told)
            self._done = told.done
            with contextlib.suppress(Exception):  # a client that has gone, or wants none: the call goes on
                await self._send(told.done, told.total, told.message)
            self._reports.task_done()
