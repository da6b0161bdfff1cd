"""The routes: bodies in, answers and event streams out, an eye on whether the client is still there."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Coroutine
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kogagent.errors import InputError, KogagentError
from kogagent.local import Engine
from kogagent.serve.answer import Answer, JSONObject, error_body, error_of
from kogagent.serve.fields import RequestError
from kogagent.serve.metrics import CONTENT_TYPE, Metrics, Watch
from kogagent.serve.request import ChatRequest, read
from kogagent.serve.turn import open_turn

MAX_BODY = 16 << 20
_log = logging.getLogger("kogagent.serve")


def build(engine: Engine, *, name: str, temperature: float, max_running: int) -> Starlette:
    """The application of `kogagent.serve.app`, options checked."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name={name!r}: must be a non-empty string")
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise InputError(f"temperature={temperature!r}: must lie in 0 .. 2")
    if type(max_running) is not int or max_running < 1:
        raise InputError(f"max_running={max_running!r}: must be an integer >= 1")
    _ = engine.chat  # a model without a template can answer nobody
    metrics = Metrics(engine, name)
    about = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "kogagent"}

    async def models(request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [about]})

    async def model(request: Request) -> JSONResponse:
        asked = request.path_params["name"]
        if asked != name:
            missing = RequestError(
                f"there is no model {asked!r} here; there is {name!r}", code="model_not_found", status=404
            )
            return _error(missing)
        return JSONResponse(about)

    async def health(request: Request) -> JSONResponse:
        if engine.closed:
            return JSONResponse({"status": "closed"}, 503)
        return JSONResponse({"status": "ok"})

    async def numbers(request: Request) -> Response:
        return Response(await metrics.page(), media_type=CONTENT_TYPE)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", numbers),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route(
                "/v1/chat/completions",
                _Completions(engine, name, float(temperature), max_running, metrics),
                methods=["POST"],
            ),
        ],
        exception_handlers={HTTPException: _http_error},
    )


class _Completions:
    """POST /v1/chat/completions, as an ASGI application."""

    def __init__(
        self, engine: Engine, name: str, temperature: float, max_running: int, metrics: Metrics
    ) -> None:
        self._engine, self._name, self._temperature = engine, name, temperature
        self._metrics = metrics
        self._running = asyncio.Semaphore(max_running)  # first come, first served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._metrics.request() as watch:
            try:
                body = await _body(Request(scope, receive))
                request = read(body, model=self._name, temperature=self._temperature)
            except ClientDisconnect:
                return
            except InputError as error:
                watch.end("refused")
                await _error(error)(scope, receive, send)
                return
            await _while_connected(receive, self._answer(request, watch, scope, receive, send))

    async def _answer(
        self, request: ChatRequest, watch: Watch, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = Answer(self._name, logprobs=request.logprobs, include_usage=request.include_usage)
        events = _EventStream(send)
        watch.waits()
        try:
            async with self._running, open_turn(self._engine, request) as turn:
                watch.runs()
                if not request.stream:
                    whole = answer.completion([event async for event in turn])
                else:
                    async for event in turn:
                        watch.saw(event)
                        # With the first event it is certain that there is an answer, and no error instead.
                        if not events.started:
                            await events.start()
                            await events.write(answer.first_chunk())
                        for chunk in answer.chunks(event):
                            await events.write(chunk)
        except Exception as error:
            if not isinstance(error, KogagentError):
                _log.exception("a request failed")
            status, told = error_of(error, request.tools)
            watch.end("refused" if status < 500 else "failed")
            if not events.started:
                await JSONResponse(told, status)(scope, receive, send)
                return
            await events.write(told)
        else:
            watch.end("finished")
            if not request.stream:
                await JSONResponse(whole)(scope, receive, send)
                return
        await events.end()


class _EventStream:
    """Server-sent events, each a JSON object."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def start(self) -> None:
        self.started = True
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, value: JSONObject) -> None:
        await self._body(json.dumps(value, ensure_ascii=False, separators=(",", ":")), more=True)

    async def end(self) -> None:
        await self._body("[DONE]", more=False)

    async def _body(self, data: str, *, more: bool) -> None:
        body = f"data: {data}\n\n".encode()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, or as much of it as is done when the client leaves."""
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        task.cancel()
        await asyncio.wait((task, left))
    if not task.cancelled():
        task.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> object:
    """The parsed body. Raises RequestError for what is no JSON, or too much of it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Also what keeps web pages out: a browser sends this type to another origin only after asking.
        raise RequestError(f"content-type {kind!r}: must be application/json", status=415)
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_BODY:
            raise RequestError(f"the body is longer than {MAX_BODY} bytes", status=413)
    try:
        return json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no valid JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _error(error: InputError) -> JSONResponse:
    status, body = error_of(error)
    return JSONResponse(body, status)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    """Starlette's own: no such route, another method."""
    assert isinstance(error, HTTPException)
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    there = ", ".join(f"{min(route.methods or ())} {route.path_format}" for route in routes)
    told = error_body(
        f"{request.method} {request.url.path}: {error.detail}; there is {there}", kind="invalid_request_error"
    )
    return JSONResponse(told, error.status_code, error.headers)
