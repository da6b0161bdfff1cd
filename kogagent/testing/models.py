"""Models that follow a script or a function, for tests without weights. Knows no tokens, no device."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, TypeAlias

from kogagent.errors import ContextError, InputError, ModelError
from kogagent.loop.protocols import TurnRequest
from kogagent.types import (
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    FinishReason,
    JSONValue,
    Message,
    ModelEvent,
    PlanDelta,
    TextDelta,
    Timings,
    ToolCall,
    ToolMessage,
    TurnEnd,
    Usage,
    Written,
)
from kogagent.types.quick import maker

_call, _started, _delta = maker(ToolCall), maker(CallStarted), maker(CallDelta)
_ready, _end = maker(CallReady), maker(TurnEnd)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn to play. `error` is raised after the text and calls, in place of the turn's end."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    plan: str = ""
    reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    error: BaseException | None = None
    written: tuple[Written, ...] = ()


_Events: TypeAlias = Generator[ModelEvent, None, None]
Turn: TypeAlias = "str | ToolCall | ScriptedTurn | Sequence[str | ToolCall]"
"""A turn as short as it can be said: an answer, a call, or texts and calls in a list."""


def call(name: str, arguments: str | None = None, /, **values: JSONValue) -> ToolCall:
    """A call for a script: `call("weather", city="Oslo")`, or with the exact argument text as second
    argument. The model that plays it gives it an id."""
    if arguments is not None and values:
        raise InputError(f"call({name!r}) takes the argument text or values, not both")
    if not isinstance(arguments, str | None):
        raise InputError(
            f"call({name!r}, {arguments!r}): arguments are a text. Write values by name: **values."
        )
    return ToolCall("", name, json.dumps(values) if arguments is None else arguments)


_PARTS = (str, ToolCall)


def as_turn(turn: Turn) -> ScriptedTurn:
    """The short forms of a turn, written out."""
    if isinstance(turn, ScriptedTurn):
        return turn
    if not isinstance(turn, (*_PARTS, Sequence)) or isinstance(turn, bytes):  # a dict has texts in it too
        raise InputError(
            f"{turn!r} is no turn: pass a text, kogagent.testing.call(…), a list of these or a ScriptedTurn. "
            "An answer of a type is its JSON text."
        )
    parts = (turn,) if isinstance(turn, _PARTS) else tuple(turn)
    for part in parts:
        if not isinstance(part, _PARTS):
            raise InputError(f"a turn is made of texts and calls, not {part!r}; see kogagent.testing.call")
    return ScriptedTurn(
        text="".join(p for p in parts if isinstance(p, str)),
        calls=tuple(p for p in parts if isinstance(p, ToolCall)),
    )


def turn_events(turn: ScriptedTurn, first_id: int, delta: int = 0) -> _Events:
    """The events of a turn. Calls without an id get "call_N" from first_id; delta > 0 cuts texts and
    arguments into pieces of so many characters."""
    if turn.plan:
        for piece in _pieces(turn.plan, delta):
            yield PlanDelta(piece)
    if turn.text:
        for piece in _pieces(turn.text, delta):
            yield TextDelta(piece)
    for number, one in enumerate(turn.calls, first_id):
        id, arguments = one.id, one.arguments
        if not id:
            id = f"call_{number}"
            one = _call(id, one.name, arguments, one.complete)
        yield _started(id, one.name)
        if arguments and not delta:
            yield _delta(id, arguments)
        elif delta:
            for piece in _pieces(arguments, delta):
                yield _delta(id, piece)
        yield _ready(one)
    if turn.error is not None:
        raise turn.error
    yield _end(turn.reason, turn.usage, turn.timings, turn.written)


def _pieces(text: str, size: int) -> Sequence[str]:
    """The text cut into pieces of so many characters, 0 for whole."""
    return [text[i : i + size] for i in range(0, len(text), size)] if size else (text,)


class _Playing:
    """The stream of one turn: a hand-written iterator, closed for good by `aclose`."""

    __slots__ = ("_events", "_request", "_start")

    def __init__(
        self, start: Callable[[TurnRequest], _Events | Awaitable[_Events]], request: TurnRequest
    ) -> None:
        self._start: Callable[[TurnRequest], Any] | None = start
        self._request = request
        self._events: Iterable[ModelEvent] = ()

    def __aiter__(self) -> _Playing:
        return self

    async def __anext__(self) -> ModelEvent:
        for event in self._events:
            return event
        start, self._start = self._start, None
        if start is None:
            raise StopAsyncIteration
        started = start(self._request)
        events: Iterator[ModelEvent] = await started if type(started) is CoroutineType else started
        self._events = events
        for event in events:
            return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._start, self._events = None, ()


class ScriptedModel:
    """A model that plays turns in order: `ScriptedModel(call("ls"), "There are two files.")`.

    requests holds every TurnRequest it was given. repeat=True starts over after the last turn; without it a
    turn too many is a ModelError. delta cuts texts and arguments into pieces of so many characters. It obeys
    the script alone: tool_choice, budgets and schemas are for the test to look at in `requests`.
    """

    def __init__(self, *turns: Turn, repeat: bool = False, delta: int = 0) -> None:
        if not turns:
            raise InputError("ScriptedModel needs at least one turn to play")
        self._turns = tuple(map(as_turn, turns))
        self._repeat = repeat
        self._delta = delta
        self._calls = 0
        self.requests: list[TurnRequest] = []

    def stream(self, request: TurnRequest) -> _Playing:
        return _Playing(self._play, request)

    def _play(self, request: TurnRequest) -> _Events:
        if not request.messages:
            raise InputError("a turn needs at least one message")
        turns, requests = self._turns, self.requests
        at = len(requests)
        if at >= len(turns):
            if not self._repeat:
                shown = repr(request.messages[-1])
                raise ModelError(
                    f"the script has {len(turns)} turns and was asked for one more, after "
                    f"{shown if len(shown) <= 300 else shown[:300] + '…'}. Add what the model says to that."
                )
            at %= len(turns)
        requests.append(request)
        turn, first = turns[at], max(self._calls + 1, request.first_call)
        self._calls = first - 1 + len(turn.calls)
        return turn_events(turn, first, self._delta)


class MeasuredModel(ScriptedModel):
    """A scripted model that knows its tokens, a character each: it counts and clips as an engine's does, and
    refuses a prompt of more than `context` of them with ContextError."""

    def __init__(self, *turns: Turn, context: int, repeat: bool = False, delta: int = 0) -> None:
        super().__init__(*turns, repeat=repeat, delta=delta)
        self.context = context

    def count(self, request: TurnRequest) -> int:
        """Characters of the messages."""
        return sum(len(_spelled(message)) for message in request.messages)

    def clip(self, text: str, tokens: int) -> str:
        """Head and tail in so many characters."""
        if len(text) <= tokens:
            return text
        note = f"\n[… {len(text) - tokens} of {len(text)} tokens left out …]\n"
        room = max(tokens - len(note), 0)
        tail = room // 3
        return (text[: room - tail] + note + text[len(text) - tail :])[:tokens]

    def _play(self, request: TurnRequest) -> _Events:
        size = self.count(request)
        if size > self.context:
            raise ContextError(f"the prompt has {size} tokens, the context holds {self.context}")
        return super()._play(request)


def _spelled(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return message.result.text
    if isinstance(message, AssistantMessage):
        return message.plan + message.text + "".join(c.name + c.arguments for c in message.calls)
    return message.text


class FunctionModel:
    """A model that asks a function, sync or async, what to say: `FunctionModel(lambda request: "hello")`."""

    def __init__(self, function: Callable[[TurnRequest], Turn | Awaitable[Turn]], *, delta: int = 0) -> None:
        self._function = function
        self._delta = delta
        self._calls = 0

    def stream(self, request: TurnRequest) -> _Playing:
        return _Playing(self._ask, request)

    async def _ask(self, request: TurnRequest) -> _Events:
        if not request.messages:
            raise InputError("a turn needs at least one message")
        said = self._function(request)
        turn = as_turn(await said if inspect.isawaitable(said) else said)
        first = max(self._calls + 1, request.first_call)
        self._calls = first - 1 + len(turn.calls)
        return turn_events(turn, first, self._delta)
