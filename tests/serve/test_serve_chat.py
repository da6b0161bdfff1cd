"""OpenAI's own client against the endpoint over a socket: texts, streams, tools, formats, reuse."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import openai
import pytest
from serving import NAME, ScriptedBackend, client_of, in_step, scripted_engine

from kogagent.errors import MissingExtraError
from kogagent.local import Engine
from kogagent.serve import app
from kogagent.testing.tiny import write_tiny_model
from kogagent.tokenizer import Tokenizer

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["c", "f"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "ping", "strict": True}},
]
ASK: Any = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Is it warm "}, {"type": "text", "text": "in Oslo?"}],
    },
]
ARGUMENTS = '{"city": "Oslo", "unit": "c"}'
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
PING = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'

Connect = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


@pytest.fixture(scope="module")
def babbling(folder: Path) -> Iterator[Engine]:
    with Engine.load(folder, device="cpu") as engine:
        yield engine


@pytest.fixture
async def scripted(tokenizer: Tokenizer) -> AsyncIterator[Connect]:
    """Connect a client to a model that writes these turns."""
    async with AsyncExitStack() as stack:

        async def connect(*turns: str, **options: Any) -> openai.AsyncOpenAI:
            engine = scripted_engine(ScriptedBackend(tokenizer, turns), tokenizer)
            await stack.enter_async_context(engine)
            return await stack.enter_async_context(client_of(engine, **options))

        yield connect


async def streamed(client: openai.AsyncOpenAI, **fields: Any) -> list[Any]:
    stream = await client.chat.completions.create(
        model=NAME, stream=True, stream_options={"include_usage": True}, **fields
    )
    return [chunk async for chunk in stream]


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def calls_of(chunks: list[Any]) -> list[dict[str, str]]:
    """The calls of a stream, put together as clients do."""
    calls: list[dict[str, str]] = []
    for chunk in chunks:
        for delta in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            if delta.index == len(calls):
                calls.append({"id": delta.id, "name": delta.function.name, "arguments": ""})
            calls[delta.index]["arguments"] += delta.function.arguments
    return calls


async def test_the_model_is_listed_and_described(scripted: Connect) -> None:
    client = await scripted("Hello.", name="my/model")
    (model,) = (await client.models.list()).data
    assert model.id == "my/model" and model.owned_by == "kogagent"
    assert (await client.models.retrieve("my/model")) == model
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        await client.models.retrieve("gpt")
    with pytest.raises(openai.NotFoundError, match="there is 'my/model'") as raised:
        await client.chat.completions.create(model=NAME, messages=ASK)
    assert raised.value.code == "model_not_found"


async def test_a_text_comes_whole_with_its_usage(scripted: Connect) -> None:
    client = await scripted("It is warm. 😀")
    answer = await client.chat.completions.create(model=NAME, messages=ASK)
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "It is warm. 😀")
    assert choice.finish_reason == "stop" and choice.message.tool_calls is None and choice.logprobs is None
    assert answer.usage.completion_tokens == len("It is warm. 😀".encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_stream_says_the_same_and_ends_with_its_usage(scripted: Connect) -> None:
    client = await scripted("It is warm. 😀")
    whole = await client.chat.completions.create(model=NAME, messages=ASK)
    chunks = await streamed(client, messages=ASK)
    assert text_of(chunks) == "It is warm. 😀"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == [] and all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1
    without = await client.chat.completions.create(model=NAME, messages=ASK, stream=True)
    assert {len(chunk.choices) async for chunk in without} == {1}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_tools_computes_only_what_is_new(scripted: Connect, stream: bool) -> None:
    client = await scripted(CALL, "It is warm.")
    history = list(ASK)
    if stream:
        chunks = await streamed(client, messages=history, tools=TOOLS)
        (call,) = calls_of(chunks)
        assert chunks[-2].choices[0].finish_reason == "tool_calls" and text_of(chunks) == ""
        function = {"name": call["name"], "arguments": call["arguments"]}
        history += [
            {
                "role": "assistant",
                "tool_calls": [{"id": call["id"], "type": "function", "function": function}],
            }
        ]
    else:
        first = await client.chat.completions.create(model=NAME, messages=history, tools=TOOLS)
        message = first.choices[0].message
        (said,) = message.tool_calls
        call = {"id": said.id, "name": said.function.name, "arguments": said.function.arguments}
        assert first.choices[0].finish_reason == "tool_calls" and message.content is None
        history += [message.model_dump()]  # empty fields and all, as programs do
    assert call["name"] == "weather" and call["arguments"] == ARGUMENTS
    history += [{"role": "tool", "tool_call_id": call["id"], "content": "12 degrees"}]
    second = await client.chat.completions.create(model=NAME, messages=history, tools=TOOLS)
    assert second.choices[0].message.content == "It is warm."
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached > 400 and second.usage.prompt_tokens - cached < 90  # the result, and two turns' markup


async def test_several_calls_of_a_turn_keep_their_order_and_have_ids_of_their_own(scripted: Connect) -> None:
    client = await scripted(f"{CALL}\n{PING}", f"{PING}")
    first = calls_of(await streamed(client, messages=ASK, tools=TOOLS))
    assert [call["name"] for call in first] == ["weather", "ping"]
    answer = await client.chat.completions.create(
        model=NAME, messages=ASK, tools=TOOLS, parallel_tool_calls=False
    )
    second = answer.choices[0].message.tool_calls
    assert [call.function.name for call in second] == ["weather"]
    assert len({*(call["id"] for call in first), *(call.id for call in second)}) == 3


async def test_a_choice_of_tool_is_obeyed_by_a_model_that_writes_nonsense(
    babbling: Engine, rng: np.random.Generator
) -> None:
    async with client_of(babbling) as client:

        async def ask(**fields: Any) -> Any:
            answer = await client.chat.completions.create(
                model=NAME, messages=ASK, tools=TOOLS, seed=int(rng.integers(-(2**40), 2**40)), **fields
            )
            return answer.choices[0]

        choice = await ask(tool_choice="required", temperature=1.5)
        assert choice.finish_reason == "tool_calls" and 1 <= len(choice.message.tool_calls) <= 8
        named: Any = {"type": "function", "function": {"name": "weather"}}
        choice = await ask(tool_choice=named, parallel_tool_calls=False)
        (call,) = choice.message.tool_calls
        assert call.function.name == "weather"
        jsonschema.validate(json.loads(call.function.arguments), WEATHER)
        choice = await ask(tool_choice="none", max_tokens=30)
        assert choice.message.tool_calls is None


async def test_an_answer_has_the_format_that_was_asked_for(
    babbling: Engine, rng: np.random.Generator
) -> None:
    schema: Any = {
        "type": "json_schema",
        "json_schema": {"name": "weather", "schema": WEATHER, "strict": True},
    }
    thing: Any = {"type": "json_object"}
    async with client_of(babbling) as client:
        for seed in map(int, rng.integers(0, 2**63, 3)):
            answer = await client.chat.completions.create(
                model=NAME, messages=ASK, response_format=schema, temperature=1.5, seed=seed
            )
            jsonschema.validate(json.loads(answer.choices[0].message.content or ""), WEATHER)
            free = await client.chat.completions.create(
                model=NAME, messages=ASK, response_format=thing, seed=seed
            )
            if free.choices[0].finish_reason == "stop":
                assert isinstance(json.loads(free.choices[0].message.content or ""), dict)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("Th", "One. Two. "),
        (["zz", "Three", "T"], "One. "),
        (["Three. F"], "One. Two. "),
        ("Four.!", "One. Two. Three. Four."),
    ],
)
async def test_a_text_is_cut_exactly_at_a_stop_string(
    scripted: Connect, stop: str | list[str], expected: str
) -> None:
    client = await scripted("One. Two. Three. Four.")
    answer = await client.chat.completions.create(model=NAME, messages=ASK, stop=stop)
    assert answer.choices[0].message.content == expected and answer.choices[0].finish_reason == "stop"
    chunks = await streamed(client, messages=ASK, stop=stop)
    assert text_of(chunks) == expected
    for usage in (answer.usage, chunks[-1].usage):
        assert usage.prompt_tokens > 20 and usage.completion_tokens > len(expected)


async def test_a_stop_string_ends_the_generation(tokenizer: Tokenizer) -> None:
    backend = ScriptedBackend(tokenizer, ["One. " * 250], in_step(asyncio.get_running_loop()))
    async with scripted_engine(backend, tokenizer) as engine, client_of(engine) as client:
        answer = await client.chat.completions.create(model=NAME, messages=ASK, stop=". O")
        assert answer.choices[0].message.content == "One" and answer.usage is not None
        assert 5 < answer.usage.completion_tokens < 100 and len(backend.passes) < 200


async def test_the_token_limit_ends_with_length(scripted: Connect) -> None:
    client = await scripted("One. Two.", CALL)
    for limit in ({"max_tokens": 4}, {"max_completion_tokens": 4}):
        answer = await client.chat.completions.create(model=NAME, messages=ASK, **limit)
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("One.", "length")
        assert answer.usage.completion_tokens == 4


async def test_the_same_seed_gives_the_same_text(babbling: Engine) -> None:
    letters = {"type": "string", "minLength": 24}  # free text may end at once, and nothing equals nothing
    schema: Any = {"type": "json_schema", "json_schema": {"name": "letters", "schema": letters}}
    async with client_of(babbling, temperature=1.2) as client:

        async def say(**fields: Any) -> str | None:
            answer = await client.chat.completions.create(
                model=NAME, messages=ASK, max_tokens=24, response_format=schema, **fields
            )
            text: str | None = answer.choices[0].message.content
            return text

        first = await say(seed=7)
        assert await say(seed=7) == first
        assert await say(seed=8) != first and await say() != await say()
        greedy = await say(temperature=0, seed=1)
        assert greedy == await say(temperature=0, seed=2) == await say(top_p=1e-6)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_chosen_tokens_have_their_log_probabilities(scripted: Connect, stream: bool) -> None:
    client = await scripted("né")
    fields: Any = {"model": NAME, "messages": ASK, "logprobs": True}
    if stream:
        chunks = await streamed(client, messages=ASK, logprobs=True)
        content = [
            one
            for c in chunks
            if c.choices and c.choices[0].logprobs
            for one in c.choices[0].logprobs.content
        ]
        assert text_of(chunks) == "né" and chunks[-1].usage.completion_tokens == 4
    else:
        answer = await client.chat.completions.create(**fields)
        content = answer.choices[0].logprobs.content
        assert answer.choices[0].message.content == "né"
    assert [bytes(one.bytes) for one in content] == [b"n", b"\xc3", b"\xa9"]
    assert [one.token for one in content] == ["n", "", "é"]
    assert all(math.isclose(one.logprob, 0.0, abs_tol=1e-5) and one.top_logprobs == [] for one in content)


def test_without_starlette_the_error_names_the_extra(
    babbling: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "starlette", None)
    with pytest.raises(MissingExtraError, match=r"starlette.*kogagent\[server\]"):
        app(babbling)
