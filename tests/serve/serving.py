"""Engines whose model writes a script, and a server on a real socket in the test's own loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import openai
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kogagent.engine.engine import EngineCore
from kogagent.local import Engine
from kogagent.serve import app
from kogagent.testing.tiny import TINY_CHAT
from kogagent.testing.toy import ToyBackend, comes
from kogagent.tokenizer import Tokenizer

NAME = "tiny-chat"


class ScriptedBackend(ToyBackend):
    """A model that wants to write given turns, byte for byte; which one, the count of openings says."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        turns: Sequence[str],
        on_pass: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        super().__init__(TINY_CHAT, on_pass=on_pass)
        self._turns = [tokenizer.encode_markup(turn) for turn in turns]
        self._opening = tokenizer.encode_markup("<|im_start|>assistant\n")
        self._end = tokenizer.encode_special("<|im_end|>")

    def expected(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        size = len(self._opening)
        starts = [i + size for i in range(len(ids)) if list(ids[i : i + size]) == self._opening]
        turn = [*self._turns[len(starts) - 1], self._end]
        done = len(ids) - starts[-1]
        row = np.zeros(TINY_CHAT.vocab_size, dtype=np.float32)
        row[turn[done] if done < len(turn) else self._end] = 60.0
        return row


def scripted_engine(backend: ScriptedBackend, tokenizer: Tokenizer) -> Engine:
    """Whose requests share the device by steps: every step costs the same, however long it took."""
    return Engine(EngineCore(lambda: backend, clock=count().__next__), tokenizer)


def in_step(loop: asyncio.AbstractEventLoop) -> Callable[[Sequence[int]], None]:
    """A hook that lets each pass of the model wait for one round of the loop: neither runs far ahead."""

    def wait(rows: Sequence[int]) -> None:
        went = threading.Event()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).add_done_callback(lambda _: went.set())
        assert comes(went.wait), "the loop stood still"

    return wait


def held(engine: Engine, until: Callable[[Any], bool]) -> None:
    """On the engine's thread: wait until this is true of its queue of work."""
    queue = engine._core._worker._queue
    while True:
        with queue.lock:
            if until(queue):
                return
            queue.asleep = True
        rung = comes(lambda seconds: queue.bell.acquire(timeout=seconds))
        assert rung, "what the model waits for never came"


class Watched:
    """An application whose calls a test can wait for: for the news that a client left, for the end."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner
        self.client_left = asyncio.Event()
        self.over = asyncio.Event()
        self.ended: list[object] = []  # the header x-test of each call, in the order of their ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def listened() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.client_left.set()
            return message

        try:
            await self._inner(scope, listened, send)
        finally:
            self.ended.append(dict(scope["headers"]).get(b"x-test"))
            self.over.set()


@asynccontextmanager
async def listening(application: Any) -> AsyncIterator[str]:
    """The application on a free port of the loopback; yields its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # A connection is never given up under a client that was slow to ask again.
        config = uvicorn.Config(application, log_level="critical", lifespan="off", timeout_keep_alive=600)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def client_of(engine: Engine, **options: Any) -> AsyncIterator[Any]:
    """OpenAI's client at a server of this engine; untyped, so that a test may pass what is wrong."""
    async with listening(app(engine, **options)) as url, to(url) as client:
        yield client


def to(url: str) -> Any:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=None)
