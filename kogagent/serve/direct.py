"""A client of an ASGI application in the same process: no socket, streams as they come. Knows no completions.

What httpx's own transport for applications does not do: there an answer is whole before its first byte is
read; here a reader has each piece when it is sent, and a reader that leaves is one who hung up.
"""

from __future__ import annotations

import asyncio
from collections import deque

import httpx2
from starlette.types import ASGIApp, Message, Scope

_AHEAD = 16  # pieces an application may be ahead of its reader


class Direct(httpx2.AsyncBaseTransport):
    """Requests go to `app`. An exception of the application is raised where its answer is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 0),
        }
        answer = _Answer(self._app, scope, await request.aread())
        try:
            start = await answer.start()
        except BaseException:
            await answer.aclose()
            raise
        return httpx2.Response(start["status"], headers=start.get("headers", []), stream=answer)


class _Answer(httpx2.AsyncByteStream):
    """The application at work on one request, and the pieces it has sent: an iterator, closed by `aclose`."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._body: bytes | None = body
        self._start: Message | None = None
        self._pieces: deque[bytes] = deque()
        self._left = asyncio.Event()  # the reader has gone
        self._moved = asyncio.Event()  # something was sent, or the application is done
        self._room = asyncio.Event()
        self._task = asyncio.ensure_future(app(scope, self._receive, self._send))
        self._task.add_done_callback(lambda _: self._moved.set())

    async def start(self) -> Message:
        """The message that starts the answer."""
        while self._start is None:
            await self._wait()
            if self._start is None and self._task.done():
                self._task.result()
                raise RuntimeError("the application ended without an answer")
        return self._start

    def __aiter__(self) -> _Answer:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._task.done():
                self._task.result()
                raise StopAsyncIteration
            await self._wait()
        self._room.set()
        return self._pieces.popleft()

    async def aclose(self) -> None:
        """Hang up, and wait for the application to notice. What it raises then is nobody's."""
        self._left.set()
        self._room.set()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()

    async def _wait(self) -> None:
        self._moved.clear()
        if not self._task.done():
            await self._moved.wait()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message.get("body") and not self._left.is_set():
            while len(self._pieces) >= _AHEAD and not self._left.is_set():
                self._room.clear()
                await self._room.wait()
            self._pieces.append(message["body"])
        self._moved.set()
