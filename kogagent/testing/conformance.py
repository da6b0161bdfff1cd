"""What holds a model to `loop/protocols.py`. Knows no particular model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import jsonschema

from kogagent.errors import InputError
from kogagent.loop.protocols import Model, TurnRequest
from kogagent.types import (
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    FinishReason,
    ModelEvent,
    ObserveDelta,
    PlanDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    TurnEnd,
    UserMessage,
)

TOOLS = (
    ToolSpec(
        "weather",
        "Tell the weather of a city.",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 12},
                "unit": {"type": "string", "enum": ["c", "f"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    ),
    ToolSpec(
        "ping", "See whether it answers.", {"type": "object", "properties": {}, "additionalProperties": False}
    ),
)
"""Two tools: one with arguments, one without."""

OUTPUT = {
    "type": "object",
    "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["sum"],
    "additionalProperties": False,
}
_ASK = TurnRequest(
    (SystemMessage("You help."), UserMessage("How warm is it in Oslo?")), max_tokens=200, max_calls=2
)


@dataclass(frozen=True, slots=True)
class _Turn:
    text: str
    calls: tuple[ToolCall, ...]
    end: TurnEnd


async def check_model(make: Callable[[], Model], *, reuses: bool = False) -> None:
    """Hold a model to the protocol: `await check_model(lambda: my_model)`.

    make gives a model for a fresh conversation; it is called several times. reuses: the model counts tokens
    and must show that a conversation that goes on reuses its prefix. Raises AssertionError that says what is
    broken. No turn asks for more than 200 tokens.
    """
    await _free_text(make())
    await _calls(make)
    await _output(make())
    await _planning(make)
    await _budget(make())
    await _bad_requests(make())
    await _leaving_early(make())
    await _going_on(make(), reuses)


async def _free_text(model: Model) -> None:
    turn = await _play(model, _ASK)
    _require(not turn.calls, "without tools a turn has no calls", turn)
    turn = await _play(model, replace(_ASK, tools=TOOLS, tool_choice="none"))
    _require(not turn.calls, "tool_choice='none' allows no calls", turn)
    _require(min(*_counts(turn.end), 0) >= 0, "usage and timings are never negative", turn.end)


async def _calls(make: Callable[[], Model]) -> None:
    for choice in ("required", "weather", "ping"):
        turn = await _play(make(), replace(_ASK, tools=TOOLS, tool_choice=choice))
        _require(len(turn.calls) >= 1, f"tool_choice={choice!r} demands a call", turn)
        names = {"weather", "ping"} if choice == "required" else {choice}
        for call in turn.calls:
            _require(call.name in names, f"tool_choice={choice!r} allows {sorted(names)}", call)
    asked = replace(_ASK, tools=TOOLS, tool_choice="required", max_calls=1, first_call=41)
    turn = await _play(make(), asked)
    _require(len(turn.calls) == 1, "max_calls=1 allows one call", turn)
    numbers = [call.number for call in turn.calls]
    _require(not 0 < min(numbers) < 41, "calls that are numbered are so from first_call=41", turn)


async def _output(model: Model) -> None:
    messages = (UserMessage('What is 1 + 2? Answer like {"sum": 7}.'),)
    turn = await _play(model, replace(_ASK, messages=messages, output_schema=OUTPUT))
    _require(not turn.calls, "without tools a turn has no calls", turn)
    if turn.end.reason not in ("length", "context"):
        jsonschema.validate(_json(turn.text, "the text of a turn with output_schema"), OUTPUT)


async def _planning(make: Callable[[], Model]) -> None:
    """A plan comes before the act, and changes nothing of what the act must be."""
    request = replace(_ASK, plan_tokens=12, max_tokens=200)
    for observe in (0, 12):
        asked = replace(request, tools=TOOLS, tool_choice="weather", observe_tokens=observe)
        turn = await _play(make(), asked)
        _require(len(turn.calls) >= 1, "a required call is required after a plan too", turn)
    turn = await _play(make(), replace(request, output_schema=OUTPUT, observe_tokens=12))
    if turn.end.reason not in ("length", "context"):
        jsonschema.validate(_json(turn.text, "the text of a turn with output_schema after a plan"), OUTPUT)


async def _budget(model: Model) -> None:
    turn = await _play(model, replace(_ASK, max_tokens=3))
    used = turn.end.usage.completion_tokens
    _require(used <= 3, "a turn stays within max_tokens=3", turn.end)


async def _bad_requests(model: Model) -> None:
    for problem, request in (
        ("an empty list of messages", replace(_ASK, messages=())),
        ("a tool_choice that names no tool", replace(_ASK, tools=TOOLS, tool_choice="wether")),
        ("tool_choice='required' without tools", replace(_ASK, tool_choice="required")),
    ):
        try:
            stream = model.stream(request)
            async for event in stream:
                raise AssertionError(f"check_model: {problem} must be an InputError, and gave {event!r}")
        except InputError:
            continue
        raise AssertionError(f"check_model: {problem} must be an InputError before the first event")
    await _play(model, _ASK)  # still usable


async def _leaving_early(model: Model) -> None:
    for _ in range(3):
        stream = model.stream(_ASK)
        await anext(stream)
        await _close(stream)
        await _close(stream)
        try:
            event = await anext(stream)
        except StopAsyncIteration:
            continue
        raise AssertionError(f"check_model: a closed turn yields nothing more, not {event!r}")
    await _close(model.stream(_ASK))  # never started
    await _play(model, _ASK)


async def _going_on(model: Model, reuses: bool) -> None:
    first = await _play(model, replace(_ASK, tools=TOOLS, tool_choice="required", max_calls=1))
    call = first.calls[0]
    told = ToolMessage(ToolResult(call.id, call.name, "It is 3 degrees."))
    messages = (*_ASK.messages, AssistantMessage(first.text, "", first.calls), told)
    second = await _play(model, replace(_ASK, messages=messages, tools=TOOLS, tool_choice="none"))
    if reuses:
        _require(
            second.end.usage.reused_tokens >= first.end.usage.prompt_tokens,
            f"the second turn reuses at least the first's prompt of {first.end.usage.prompt_tokens} tokens",
            second.end.usage,
        )


async def _play(model: Model, request: TurnRequest) -> _Turn:
    """One turn to its end, every rule of its events checked."""
    messages = list(request.messages)
    texts: list[str] = []
    plans: list[str] = []
    opened: dict[str, str] = {}
    written: dict[str, str] = {}
    calls: list[ToolCall] = []
    end: TurnEnd | None = None
    stream = model.stream(replace(request, messages=messages))
    async for event in stream:
        _require(end is None, "nothing follows TurnEnd", event)
        _require(isinstance(event, get_args(ModelEvent)), "a model yields ModelEvents", event)
        if isinstance(event, ObserveDelta | PlanDelta | TextDelta | CallDelta):
            _require(event.text.encode("utf-8", "strict") != b"", "a delta holds whole code points", event)
        if isinstance(event, TextDelta):
            texts.append(event.text)
        elif isinstance(event, PlanDelta):
            plans.append(event.text)
        elif isinstance(event, CallStarted):
            _require(event.call_id not in opened, "each call of a turn has an id of its own", event)
            opened[event.call_id], written[event.call_id] = event.name, ""
        elif isinstance(event, CallDelta):
            _require(event.call_id in opened, "CallDelta follows its CallStarted", event)
            written[event.call_id] += event.text
        elif isinstance(event, CallReady):
            call = event.call
            _require(opened.get(call.id) == call.name, "CallReady follows a CallStarted of its name", event)
            _require(
                written[call.id] == call.arguments,
                f"deltas concatenate to the arguments, not to {written[call.id]!r}",
                call,
            )
            _require(call.id not in (other.id for other in calls), "a call is ready once", event)
            calls.append(call)
        elif isinstance(event, TurnEnd):
            end = event
    _require(end is not None, "a turn ends with TurnEnd", None)
    assert end is not None
    _require(end.reason in get_args(FinishReason), "a turn's reason is a FinishReason", end)
    _require(
        opened.keys() == {call.id for call in calls},
        "every call that starts becomes ready, cut or not",
        opened,
    )
    _require(messages == list(request.messages), "a model never changes its messages", messages)
    for call in calls:
        if call.complete:
            _arguments(call, request)
    return _Turn("".join(texts), tuple(calls), end)


def _arguments(call: ToolCall, request: TurnRequest) -> None:
    schemas = {tool.name: tool.parameters for tool in request.tools}
    _require(call.name in schemas, "a model calls tools it was shown", call)
    values = _json(call.arguments, f"the arguments of {call.name!r}")
    try:
        jsonschema.validate(values, dict(schemas[call.name]))
    except jsonschema.ValidationError as error:
        raise AssertionError(f"check_model: complete arguments fit their schema: {error.message}") from error


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AssertionError(f"check_model: {what} must be JSON, and is {text!r}: {error}") from error


def _counts(end: TurnEnd) -> tuple[float, ...]:
    usage, timings = end.usage, end.timings
    return (
        usage.reused_tokens,
        usage.prefilled_tokens,
        usage.sampled_tokens,
        usage.forced_tokens,
        usage.steps,
        timings.prefill_s,
        timings.sampled_s,
        timings.forced_s,
        timings.render_s,
    )


async def _close(stream: AsyncIterator[ModelEvent]) -> None:
    close = getattr(stream, "aclose", None)
    _require(close is not None, "a turn has aclose()", stream)
    assert close is not None
    await close()


def _require(holds: bool, rule: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"check_model: {rule}; found {found!r}")
