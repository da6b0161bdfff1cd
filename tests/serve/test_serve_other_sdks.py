"""Agents of other SDKs on an engine, with tools, whole and streamed: over a socket, and in this process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import agents
import openai
import pydantic
import pydantic_ai
import pytest
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from serving import NAME, ScriptedBackend, client_of, in_step, scripted_engine

from kogagent.adapters import openai_agents_model, pydantic_ai_model
from kogagent.errors import MissingExtraError
from kogagent.local import Engine
from kogagent.serve import client
from kogagent.testing.tiny import write_tiny_model
from kogagent.tokenizer import Tokenizer

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
WAYS = ("socket", "process")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(write_tiny_model(tmp_path_factory.mktemp("tiny")))


@asynccontextmanager
async def engine_of(tokenizer: Tokenizer, *turns: str, **options: Any) -> AsyncIterator[Engine]:
    async with scripted_engine(ScriptedBackend(tokenizer, turns, **options), tokenizer) as engine:
        yield engine


@asynccontextmanager
async def agents_model(engine: Engine, way: str) -> AsyncIterator[agents.Model]:
    if way == "process":
        yield openai_agents_model(engine)
    else:
        async with client_of(engine) as to:
            yield agents.OpenAIChatCompletionsModel(model=NAME, openai_client=to)


@asynccontextmanager
async def pydantic_model(engine: Engine, way: str) -> AsyncIterator[OpenAIChatModel]:
    if way == "process":
        yield pydantic_ai_model(engine)
    else:
        async with client_of(engine) as to:
            yield OpenAIChatModel(NAME, provider=OpenAIProvider(openai_client=to))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_openai_agent_calls_its_tool_and_answers(
    tokenizer: Tokenizer, stream: bool, way: str
) -> None:
    asked: list[str] = []

    @agents.function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "12 degrees"

    agents.set_tracing_disabled(True)
    async with engine_of(tokenizer, CALL, "It is warm.") as engine, agents_model(engine, way) as model:
        agent = agents.Agent(
            name="forecaster",
            instructions="Be brief.",
            model=model,
            tools=[weather],
            model_settings=agents.ModelSettings(include_usage=True),
        )
        if stream:
            running = agents.Runner.run_streamed(agent, "Is it warm in Oslo?")
            text = ""
            async for event in running.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    text += event.data.delta
            assert text == running.final_output == "It is warm."
            usage = running.context_wrapper.usage
        else:
            result = await agents.Runner.run(agent, "Is it warm in Oslo?")
            assert result.final_output == "It is warm."
            usage = result.context_wrapper.usage
        assert asked == ["Oslo"] and usage.requests == 2
        assert usage.input_tokens_details.cached_tokens > 200 and usage.output_tokens > len("It is warm.")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_pydantic_ai_agent_calls_its_tool_and_answers(
    tokenizer: Tokenizer, stream: bool, way: str
) -> None:
    asked: list[str] = []
    async with engine_of(tokenizer, CALL, "It is warm.") as engine, pydantic_model(engine, way) as model:
        agent = pydantic_ai.Agent(model, instructions="Be brief.")

        @agent.tool_plain
        def weather(city: str) -> str:
            """The weather of a city."""
            asked.append(city)
            return "12 degrees"

        if stream:
            text = ""
            async with agent.iter("Is it warm in Oslo?") as run:
                async for node in run:
                    if pydantic_ai.Agent.is_model_request_node(node):
                        async with node.stream(run.ctx) as events:
                            async for event in events:
                                match event:
                                    case PartStartEvent(part=TextPart(content=piece)):
                                        text += piece
                                    case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                                        text += piece
            result: Any = run.result
            assert text == "It is warm."
        else:
            result = await agent.run("Is it warm in Oslo?")
        assert result.output == "It is warm." and asked == ["Oslo"]
        usage = result.usage
        assert usage.requests == 2 and usage.cache_read_tokens > 200


class City(pydantic.BaseModel):
    name: str
    people: int


async def test_a_pydantic_ai_output_type_is_enforced_by_the_grammar(tokenizer: Tokenizer) -> None:
    # The model wants to write prose; the grammar lets through what City can be read from.
    async with engine_of(tokenizer, '{"name": "Oslo", "people": 717710}') as engine:
        agent = pydantic_ai.Agent(pydantic_ai_model(engine), output_type=pydantic_ai.NativeOutput(City))
        assert (await agent.run("Which is Norway's capital?")).output == City(name="Oslo", people=717710)


async def test_an_in_process_stream_comes_piece_by_piece_and_ends_with_its_reader(
    tokenizer: Tokenizer,
) -> None:
    passes: list[int] = []
    step = in_step(asyncio.get_running_loop())

    def on_pass(rows: Any) -> None:
        passes.append(len(rows))
        step(rows)

    async with (
        engine_of(tokenizer, "It is warm. " * 40, on_pass=on_pass) as engine,
        client(engine) as direct,
    ):
        messages: Any = [{"role": "user", "content": "Is it warm in Oslo?"}]
        stream = await direct.chat.completions.create(model=NAME, messages=messages, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        assert len(passes) < 400, "the first piece was read before the last was written"
        await stream.close()
        done = len(passes)
        answer = await direct.chat.completions.create(model=NAME, messages=messages, max_tokens=3)
        assert answer.usage is not None and answer.usage.completion_tokens == 3
        assert len(passes) <= done + 8, "the abandoned answer was not written on"


async def test_an_in_process_client_tells_errors_as_a_server_does(tokenizer: Tokenizer) -> None:
    async with engine_of(tokenizer, "Hello.") as engine, client(engine, name="mine") as direct:
        with pytest.raises(openai.NotFoundError, match="there is 'mine'"):
            await direct.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "Hi"}])
        assert [model.id async for model in direct.models.list()] == ["mine"]


def test_an_sdk_that_is_missing_is_named_with_its_extra(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer)
    for package, make, extra in (
        ("openai", client, "openai"),
        ("agents", openai_agents_model, "openai-agents"),
        ("pydantic_ai.models.openai", pydantic_ai_model, "pydantic-ai"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(MissingExtraError, match=rf"kogagent\[{extra}\]"):
                make(engine)
    engine.close()
