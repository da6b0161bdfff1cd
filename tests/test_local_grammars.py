"""Grammars through the public engine on random weights: typed answers, every call format, the fallback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from kogagent import Agent
from kogagent.chat import partial_json
from kogagent.engine.grammar import FallbackGrammar, compile_schema
from kogagent.engine.sampling import SamplingParams
from kogagent.errors import SchemaError
from kogagent.local import Engine, JsonSchema
from kogagent.loop.protocols import TurnRequest
from kogagent.spec import (
    FUNCTION_GEMMA,
    HERMES,
    LFM2,
    LLAMA3_JSON,
    MISTRAL,
    PYTHONIC,
    QWEN3_CODER,
    SMOLLM2,
    CallFormat,
)
from kogagent.testing.tiny import write_tiny_model
from kogagent.types import CallDelta, CallReady, ToolCall, ToolSpec, UserMessage

PAIRS: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"enum": [1, 22, 333]}, "maxItems": 2},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    ]
}
"""Alternatives that no automaton of bounded memory keeps apart."""


class Person(BaseModel):
    name: str = Field(max_length=6)
    age: int = Field(ge=0, le=99)
    role: Literal["cook", "guest"] | None = None


@dataclass
class Point:
    x: int
    tags: list[Literal["a", "b"]]


class Options(TypedDict, total=False):
    level: Literal[1, 2, 3]
    on: bool


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.load(folder, device="cpu", dtype="float32") as engine:
        yield engine


@pytest.mark.parametrize("device", ["cpu", "reference"])
async def test_a_schema_only_the_fallback_holds_is_held_on_every_host_backend(
    folder: Path, device: str
) -> None:
    with Engine.load(folder, device=device) as engine:
        with pytest.raises(SchemaError, match="start alike"):
            await engine.stream("Pairs: ", grammar=PAIRS).text()
        assert isinstance(compile_schema(PAIRS, engine.tokenizer.vocabulary, fallback=True), FallbackGrammar)
        for seed in range(3):
            sampling = SamplingParams(temperature=2.0, seed=seed)
            stream = engine.stream("Pairs: ", sampling=sampling, grammar=JsonSchema(PAIRS, fallback=True))
            value = json.loads(await stream.text())
            assert stream.reason == "stop" and isinstance(value, list)
            whole = all(type(item) is int for item in value) and len(value) <= 2
            assert whole or (all(type(item) is bool for item in value) and len(value) <= 3)


async def calls_of(model: Any, spec: ToolSpec, **fields: Any) -> list[ToolCall]:
    """The calls of one turn; what was streamed of each is its arguments, growing as JSON."""
    request = TurnRequest(messages=[UserMessage("Go.")], tools=[spec], **fields)
    given: dict[str, str] = {}
    calls = []
    async for event in model.stream(request):
        if isinstance(event, CallDelta):
            given[event.call_id] = given.get(event.call_id, "") + event.text
            partial_json(given[event.call_id])
        elif isinstance(event, CallReady):
            calls.append(event.call)
    await model.aclose()
    assert [given[call.id] for call in calls] == [call.arguments for call in calls]
    return calls


async def test_a_tool_that_needs_the_fallback_is_called_with_valid_arguments(engine: Engine) -> None:
    schema = {"type": "object", "properties": {"pairs": PAIRS}, "required": ["pairs"]}
    for seed in range(3):
        model = engine.model(fallback=True, sampling=SamplingParams(temperature=1.0, seed=seed))
        calls = await calls_of(model, ToolSpec("take", "", schema), tool_choice="take", max_calls=1)
        assert len(calls) == 1 and calls[0].complete
        jsonschema.validate(json.loads(calls[0].arguments), schema)
    with pytest.raises(SchemaError, match="tool 'take'"):
        await calls_of(engine.model(), ToolSpec("take", "", schema), tool_choice="take")


@pytest.mark.parametrize(
    "form",
    [HERMES, SMOLLM2, MISTRAL, LLAMA3_JSON, PYTHONIC, LFM2, QWEN3_CODER, FUNCTION_GEMMA],
    ids=lambda form: form.name,
)
async def test_every_format_makes_typed_calls_that_stream_as_json(engine: Engine, form: CallFormat) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 5},
            "unit": {"enum": ["c", "f", None]},
            "days": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": 7},
                "maxItems": 2,
            },
            "at": {
                "type": "object",
                "properties": {"lat": {"type": "boolean"}, "by": {"type": "string", "maxLength": 3}},
                "required": ["lat", "by"],
            },
        },
        "required": ["city", "unit", "days", "at"],
    }
    spec = ToolSpec("weather", "", schema)
    for seed in range(2):
        for choice in ("required", "weather"):
            sampling = SamplingParams(temperature=1.5, seed=seed)
            model = engine.model(sampling=sampling, call_format=form)
            calls = await calls_of(model, spec, tool_choice=choice, max_calls=2)
            assert 1 <= len(calls) <= (2 if form.parallel else 1)
            for call in calls:
                assert call.complete and call.name == "weather"
                jsonschema.validate(json.loads(call.arguments), schema)


@pytest.mark.parametrize("kind", [Person, Point, Options, list[Point], int, Literal["yes", "no"]])
async def test_an_answer_of_a_type_is_a_value_of_that_type(engine: Engine, kind: Any) -> None:
    for seed in range(2):
        model = engine.model(sampling=SamplingParams(temperature=1.5, seed=seed))
        result = await Agent(model, output_type=kind).run("Who?")
        TypeAdapter(kind).validate_python(result.output, strict=True)
