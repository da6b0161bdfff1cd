"""The public engine on a real model: sensible text, a grammar-proved call, a second turn that reuses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kogagent.local import Engine
from kogagent.loop.protocols import TurnRequest
from kogagent.types import (
    AssistantMessage,
    CallReady,
    Message,
    SystemMessage,
    TextDelta,
    ToolMessage,
    ToolResult,
    ToolSpec,
    TurnEnd,
    UserMessage,
)

WEATHER = ToolSpec(
    "weather",
    "The current weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["c", "f"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("smollm2-135m", device="cpu") as engine:
        yield engine


async def test_it_knows_the_capital_of_france(engine: Engine) -> None:
    stream = engine.stream([UserMessage("What is the capital of France?")], max_tokens=20)
    assert "Paris" in await stream.text()
    assert stream.reason == "stop"


async def test_a_call_is_made_for_the_right_city_and_its_result_is_read(engine: Engine) -> None:
    model = engine.as_model()
    messages: list[Message] = [
        SystemMessage("You are a helpful assistant."),
        UserMessage("What is the weather in Oslo in celsius?"),
    ]
    request = TurnRequest(messages, [WEATHER], tool_choice="required", max_calls=1, max_tokens=100)
    events = [event async for event in model.stream(request)]
    call = next(event.call for event in events if isinstance(event, CallReady))
    assert json.loads(call.arguments) == {"city": "Oslo", "unit": "c"}
    first = events[-1]
    assert isinstance(first, TurnEnd) and first.reason == "stop"
    assert first.usage.forced_tokens > 2 * first.usage.sampled_tokens

    result = ToolMessage(ToolResult(call.id, call.name, "12 degrees, sunny"))
    messages += [AssistantMessage(calls=(call,)), result]
    events = [event async for event in model.stream(TurnRequest(messages, [WEATHER], max_tokens=40))]
    assert "12 degrees" in "".join(event.text for event in events if isinstance(event, TextDelta))
    second = events[-1]
    assert isinstance(second, TurnEnd)
    assert second.usage.reused_tokens >= first.usage.prompt_tokens
    assert second.usage.prefilled_tokens < 50
    await model.aclose()
