"""Waiting for a clean-up to end, for a bounded time, whatever else happens. Knows futures only."""

from __future__ import annotations

import asyncio
import time
from typing import Any

_CLOSE_S = 5.0  # for a model to stop at a token border


async def close(thing: object) -> None:
    """`aclose()` of a thing that has one, within the time a model may take."""
    closing = getattr(thing, "aclose", None)
    if closing is not None:
        await finish_within(asyncio.ensure_future(closing()), _CLOSE_S)


def report(problem: BaseException, **about: Any) -> None:
    """Tell the loop's exception handler of a failure that another error hides."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": "clean-up after a run failed", "exception": problem, **about}
    )


async def finish_within(task: asyncio.Future[Any], limit: float) -> None:
    """Wait for a clean-up, for a bounded time, whatever cancellation arrives meanwhile; then re-raise it.

    A clean-up that fails or hangs is reported to the loop's exception handler: the error that made it
    necessary is the one to raise.
    """
    interrupted: asyncio.CancelledError | None = None
    end = time.monotonic() + limit
    while not task.done() and (left := end - time.monotonic()) > 0:
        try:
            await asyncio.wait((task,), timeout=left)
        except asyncio.CancelledError as error:
            interrupted = error
    if not task.done():
        task.cancel()
        problem: BaseException | None = TimeoutError(f"clean-up went on for {limit:g} s and was abandoned")
    else:
        problem = None if task.cancelled() else task.exception()
    if problem is not None:
        report(problem, future=task)
    if interrupted is not None:
        raise interrupted
