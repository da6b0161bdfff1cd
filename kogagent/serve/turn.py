"""One request run on the engine: texts, calls, an end. Knows the engine and the loop's events; no HTTP."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, Protocol, TypeAlias

from kogagent.errors import EngineClosedError
from kogagent.local import Engine, Token
from kogagent.local.stream import TokenStream, usage_of
from kogagent.loop.protocols import TurnRequest
from kogagent.serve.request import ChatRequest
from kogagent.types import (
    CallDelta,
    CallReady,
    CallStarted,
    FinishReason,
    PlanDelta,
    TextDelta,
    TurnEnd,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Said:
    """More text; the tokens it is made of, where they were asked for."""

    text: str
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event: why, in OpenAI's words, and what it took."""

    reason: Literal["stop", "length", "tool_calls"]
    usage: Usage


Event: TypeAlias = Said | CallStarted | CallDelta | CallReady | Ended


class Turn(Protocol):
    """Events of one request. Leaving the block stops the generation at a token border and gives the cache to
    the engine, for the next request that starts alike."""

    async def __aenter__(self) -> AsyncIterator[Event]: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_turn(engine: Engine, request: ChatRequest) -> Turn:
    """The turn that answers a request; it starts when its first event is asked for."""
    return TokenTurn(engine, request) if request.logprobs else ModelTurn(engine, request)


class ModelTurn:
    """A turn of text and calls."""

    def __init__(self, engine: Engine, request: ChatRequest) -> None:
        self._model = engine.model(sampling=request.sampling, patient=not (request.stop or request.stream))
        self._turn = self._model.stream(
            TurnRequest(
                messages=request.messages,
                tools=request.tools,
                tool_choice=request.tool_choice,
                max_tokens=request.max_tokens or engine.spec.context,
                max_calls=request.max_calls,
                output_schema=request.output_schema,
            )
        )
        self._text = StopText(request.stop)
        self._ids: dict[str, str] = {}
        self._ready: deque[Event] = deque()
        self._done = False

    def __aiter__(self) -> ModelTurn:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            if self._done:
                raise StopAsyncIteration
            await self._more()
        return self._ready.popleft()

    async def _more(self) -> None:
        event = await self._turn.__anext__()
        match event:
            case TextDelta(text) | PlanDelta(text):
                self._say(self._text.feed(text))
                if self._text.stopped:
                    await self._turn.aclose()
                    self._end("stop_text", usage_of(self._model.counters))
            case CallStarted(id):
                self._say(self._text.finish())
                # The model's ids count from the start of the conversation: in one that a client has shortened
                # they would come twice.
                self._ids[id] = f"call_{secrets.token_hex(12)}"
                self._ready.append(replace(event, call_id=self._ids[id]))
            case CallDelta(id):
                self._ready.append(replace(event, call_id=self._ids[id]))
            case CallReady(call):
                self._ready.append(CallReady(replace(call, id=self._ids[call.id])))
            case TurnEnd(reason, usage):
                self._say(self._text.finish())
                self._end(reason, usage)

    def _say(self, text: str) -> None:
        if text:
            self._ready.append(Said(text))

    def _end(self, reason: FinishReason, usage: Usage) -> None:
        self._done = True
        self._ready.append(Ended(_reason(reason, called=bool(self._ids)), usage))

    async def __aenter__(self) -> AsyncIterator[Event]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done = True
        await self._turn.aclose()
        await self._model.aclose()


class TokenTurn:
    """A turn of text alone, token by token with their log-probabilities."""

    def __init__(self, engine: Engine, request: ChatRequest) -> None:
        self._engine, self._request = engine, request
        self._stream: TokenStream | None = None
        self._done = False

    def __aiter__(self) -> TokenTurn:
        return self

    async def __anext__(self) -> Event:
        if self._done:
            raise StopAsyncIteration
        if self._stream is None:
            self._stream = await self._open()
        async for token in self._stream:
            if token.text or token.bytes:  # else a special id: no part of the text
                return Said(token.text, (token,))
        self._done = True
        assert self._stream.reason is not None
        return Ended(_reason(self._stream.reason, called=False), self._stream.usage)

    async def _open(self) -> TokenStream:
        request = self._request
        return self._engine.stream(
            request.messages,
            sampling=request.sampling,
            stop=request.stop,
            grammar=request.output_schema,
            max_tokens=request.max_tokens,
        )

    async def __aenter__(self) -> AsyncIterator[Event]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done = True
        if self._stream is not None:
            await self._stream.aclose()


class StopText:
    """Text on its way out, up to the first stop string. Holds back an end that may become one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """What may be shown now. After a stop string has been found, nothing more comes."""
        if self.stopped:
            return ""
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            return self._give(min(found))
        return self._give(len(self._held) - self._open())

    def finish(self) -> str:
        """What was held back: the text goes on with something else, or ends."""
        return "" if self.stopped else self._give(len(self._held))

    def _open(self) -> int:
        """Length of the longest end that a stop string starts with."""
        most = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(most, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0

    def _give(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        return text


def _reason(reason: FinishReason, *, called: bool) -> Literal["stop", "length", "tool_calls"]:
    if reason == "cancelled":
        raise EngineClosedError("the engine stopped this request: it is closing")
    if reason in ("length", "context"):
        return "length"
    return "tool_calls" if called else "stop"
