"""Record the turns of a model to a file and play them back without it. Knows no particular model.

The file is JSON lines: a turn's request, then its events. A replay is strict: a request that differs from the
recorded one is an error that names the difference, since an answer to another question proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kogagent.errors import InputError, ModelError
from kogagent.loop.notation import messages_to_json
from kogagent.loop.protocols import ClosingModel, Model, ModelSource, TurnRequest
from kogagent.types import (
    CallDelta,
    CallReady,
    CallStarted,
    JSONValue,
    ModelEvent,
    ObserveDelta,
    PlanDelta,
    TextDelta,
    Timings,
    ToolCall,
    TurnEnd,
    Usage,
    Written,
)

_EVENTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (ObserveDelta, PlanDelta, TextDelta, CallStarted, CallDelta, CallReady, TurnEnd)
}


def request_to_json(request: TurnRequest) -> dict[str, JSONValue]:
    """A request as plain data. How tokens are drawn, whose turn it is and how calls are numbered change no
    answer a recording has."""
    said: dict[str, JSONValue] = {
        "messages": json.loads(messages_to_json(request.messages)),
        "tools": [asdict(tool) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "max_tokens": request.max_tokens,
        "max_calls": request.max_calls,
        "plan_tokens": request.plan_tokens,
        "output_schema": request.output_schema,
    }
    if request.observe_tokens:  # older recordings know no such phase
        said["observe_tokens"] = request.observe_tokens
    return said


def event_to_json(event: ModelEvent) -> dict[str, JSONValue]:
    """An event as plain data; not when it happened, which is another time in each playing."""
    fields = asdict(event)
    del fields["at"]
    return {"event": type(event).__name__, **fields}


def event_from_json(value: dict[str, Any]) -> ModelEvent:
    """Raises InputError for what is no event."""
    fields = dict(value)
    kind = _EVENTS.get(fields.pop("event", ""))
    if kind is None:
        raise InputError(f"{value!r} is no recorded event; known are {', '.join(_EVENTS)}")
    try:
        if kind is CallReady:
            fields["call"] = ToolCall(**fields["call"])
        elif kind is TurnEnd:
            fields["usage"] = Usage(**fields["usage"])
            fields["timings"] = Timings(**fields["timings"])
            fields["written"] = tuple(Written(**token) for token in fields.get("written", ()))
            fields["ids"] = tuple(fields.get("ids", ()))
        event: ModelEvent = kind(**fields)
    except (KeyError, TypeError) as error:
        raise InputError(f"{value!r} is no {kind.__name__}: {error}") from error
    return event


class RecordingModel:
    """A model that writes every whole turn of another to a file: `Agent(RecordingModel(engine, path), …)`.

    An existing file is refused: a recording is made anew, or replayed. Turns left early are not recorded.
    """

    def __init__(self, model: Model | ModelSource, path: str | Path) -> None:
        self._source = model
        self._model = model.as_model() if isinstance(model, ModelSource) else model
        self._path = Path(path)
        if self._path.exists():
            raise InputError(f"{self._path} exists. Delete it to record anew, or play it with ReplayModel.")
        self._path.touch()

    def stream(self, request: TurnRequest) -> _Recorded:
        return _Recorded(self._model.stream(request), request, self._path)

    async def aclose(self) -> None:
        """Close the recorded model, where this made it."""
        if self._model is not self._source and isinstance(self._model, ClosingModel):
            await self._model.aclose()


class _Recorded:
    """A turn that is written down when it has ended."""

    def __init__(self, stream: AsyncIterator[ModelEvent], request: TurnRequest, path: Path) -> None:
        self._stream = stream
        self._lines = [json.dumps({"request": request_to_json(request)})]
        self._path = path

    def __aiter__(self) -> _Recorded:
        return self

    async def __anext__(self) -> ModelEvent:
        event = await anext(self._stream)
        self._lines.append(json.dumps(event_to_json(event)))
        if isinstance(event, TurnEnd):
            with self._path.open("a", encoding="ascii") as file:
                file.write("".join(line + "\n" for line in self._lines))
        return event

    async def aclose(self) -> None:
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


class ReplayModel:
    """A model that plays a recording. Raises InputError for a file that is none, ModelError for a request
    that differs from the recorded one and for a turn too many."""

    def __init__(self, path: str | Path) -> None:
        self._turns: list[tuple[dict[str, Any], list[ModelEvent]]] = []
        try:
            text = Path(path).read_text(encoding="ascii")
        except FileNotFoundError as error:
            raise InputError(f"{path} is not there. Record it: run the agent on a RecordingModel.") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}, is not JSON: {error}") from error
            if isinstance(value, dict) and "request" in value:
                self._turns.append((value["request"], []))
            elif self._turns and isinstance(value, dict):
                self._turns[-1][1].append(event_from_json(value))
            else:
                raise InputError(f"{path}, line {number}, is neither a request nor an event after one")
        self._played = 0

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        if self._played == len(self._turns):
            raise ModelError(f"the recording has {len(self._turns)} turns and was asked for one more")
        recorded, events = self._turns[self._played]
        given = json.loads(json.dumps(request_to_json(request)))
        for difference in _differences(recorded, given, ""):
            raise ModelError(
                f"turn {self._played + 1} asks for something else than was recorded: {difference}. "
                "Record again if the change is meant."
            )
        self._played += 1
        for event in events:
            yield event


def _differences(recorded: Any, given: Any, path: str) -> Iterator[str]:
    """Where two JSON values differ, the first place first."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        for key in (*recorded, *(key for key in given if key not in recorded)):
            yield from _differences(recorded.get(key), given.get(key), f"{path}/{key}")
    elif isinstance(recorded, list) and isinstance(given, list) and len(recorded) == len(given):
        for at, (one, other) in enumerate(zip(recorded, given, strict=True)):
            yield from _differences(one, other, f"{path}/{at}")
    elif isinstance(recorded, list) and isinstance(given, list):
        yield f"{path} has {len(given)} entries, not {len(recorded)}"
    elif recorded != given:
        yield f"{path} is {given!r}, not {recorded!r}"
