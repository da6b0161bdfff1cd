"""What the endpoint refuses, in OpenAI's shape; a client that leaves, a device that dies, a full house."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import httpx2
import openai
import pytest
from serving import NAME, ScriptedBackend, Watched, client_of, held, in_step, listening, scripted_engine, to

from kogagent.errors import DeviceError, InputError
from kogagent.serve import app
from kogagent.serve.fields import RequestError
from kogagent.serve.request import read
from kogagent.testing.tiny import write_tiny_model
from kogagent.testing.toy import comes
from kogagent.tokenizer import Tokenizer

ASK: Any = [{"role": "user", "content": "Hi"}]
LONG = "word " * 80
CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
OTHER = {"role": "tool", "tool_call_id": "b", "content": ""}
THERE = "GET /health, GET /metrics, GET /v1/models, GET /v1/models/{name}, POST /v1/chat/completions"
IMAGE = [{"type": "image_url", "image_url": {"url": "x"}}]


def tool(parameters: Any = None, name: str = "f", **fields: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": name, "parameters": parameters, **fields}}]


def format_of(schema: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(write_tiny_model(tmp_path_factory.mktemp("tiny")))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 4}, "top_k"),
    ({"n": 2}, "n"),
    ({"n": True}, "n"),
    ({"frequency_penalty": 0.5}, "frequency_penalty"),
    ({"logit_bias": {"1": 2}}, "logit_bias"),
    ({"logprobs": True, "top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "tools": tool()}, "logprobs"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"seed": 2**64}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
    ({"stop": ["a", ""]}, "stop"),
    ({"stop": 3}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
    ({"messages": []}, "messages"),
    ({"messages": ["Hi"]}, "messages[0]"),
    ({"messages": None}, "messages"),
    ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "Hi", "name": "Ada"}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": IMAGE}]}, "messages[0].content[0].type"),
    ({"messages": [*ASK, {"role": "assistant"}]}, "messages[1].content"),
    ({"messages": [*ASK, CALLED]}, "messages"),
    ({"messages": [*ASK, CALLED, *ASK]}, "messages[2]"),
    ({"messages": [*ASK, CALLED, OTHER]}, "messages[2].tool_call_id"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": tool(name="no name")}, "tools[0].function.name"),
    ({"tools": tool(name="none")}, "tools[0].function.name"),
    ({"tools": [*tool(), *tool()]}, "tools[1].function.name"),
    ({"tools": tool(returns="text")}, "tools[0].function.returns"),
    ({"tools": [*tool(name="g"), *tool({"type": "object", "frob": {}})]}, "tools[1].function.parameters"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": tool(), "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": format_of({"type": "string", "frob": 1})}, "response_format.json_schema.schema"),
    ({"response_format": format_of({"not": 3}), "logprobs": True}, "response_format.json_schema.schema"),
]  # fmt: skip


async def test_a_bad_field_is_a_400_that_names_it(tokenizer: Tokenizer) -> None:
    async with (
        scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer) as engine,
        client_of(engine) as client,
    ):
        for fields, param in BAD:
            for stream in (
                (False, True) if "stream" not in fields and "stream_options" not in fields else (False,)
            ):
                body = {"model": NAME, "messages": ASK, **({"stream": True} if stream else {}), **fields}
                with pytest.raises(openai.BadRequestError) as raised:
                    await client.post("/chat/completions", body=body, cast_to=object)
                error: Any = raised.value.body
                assert error["param"] == param, (fields, error)
                assert error["type"] == "invalid_request_error" and error["message"]
        assert engine.usage.prompt_tokens == 0, "a refused request was run"
        answer = await client.chat.completions.create(
            model=NAME, messages=ASK, n=1, presence_penalty=0, logit_bias={}, user="ada", stop=None,
            store=False, metadata={"batch": "7"}, tool_choice="auto", response_format={"type": "text"},
        )  # fmt: skip
        assert answer.choices[0].message.content == "Hello.", "what changes nothing is no error"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n": 3}, "any value but 1. Send the request once for each answer"),
        ({"logprobs": True, "top_logprobs": 2}, "logprobs=true gives those of the chosen"),
        ({"functions": [{"name": "weather"}]}, "functions is not supported here. Pass tools."),
        ({"function_call": "auto"}, "Pass tool_choice."),
        ({"store": True}, "any value but False. Leave it out."),
        ({"metadata": ["batch 7"]}, "metadata must be an object, not a list"),
    ],
)
def test_what_is_not_supported_says_what_to_do_instead(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as raised:
        read({"model": NAME, "messages": ASK, **fields}, model=NAME, temperature=1.0)
    assert words in str(raised.value)


async def test_a_prompt_that_does_not_fit_has_its_own_code(tokenizer: Tokenizer) -> None:
    async with (
        scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer) as engine,
        client_of(engine) as client,
    ):
        for fields in ({}, {"stream": True}, {"logprobs": True}):
            with pytest.raises(openai.BadRequestError, match="the context holds 2048") as raised:
                await client.chat.completions.create(
                    model=NAME, messages=[{"role": "user", "content": "x" * 3000}], **fields
                )
            assert raised.value.code == "context_length_exceeded"
            assert "session" not in str(raised.value), "a client has none"


async def test_what_is_no_request_is_told_in_the_same_shape(tokenizer: Tokenizer) -> None:
    async with (
        scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer) as engine,
        listening(app(engine)) as url,
        httpx2.AsyncClient(base_url=url, headers={"content-type": "application/json"}, timeout=None) as http,
    ):
        path = "/v1/chat/completions"
        answers = [
            (400, "no valid JSON", await http.post(path, content=b"{")),
            (400, "NaN", await http.post(path, content=b'{"temperature": NaN}')),
            (400, "no valid JSON", await http.post(path, content=b"[" * 200_000)),
            (400, "no valid JSON", await http.post(path, content=b'{"x": "\xff"}')),
            (400, "an object", await http.post(path, content=b"[]")),
            (400, "model is missing", await http.post(path, content=b"{}")),
            (413, "longer", await http.post(path, content=b" " * (16 * 2**20 + 1))),
            (
                415,
                "application/json",
                await http.post(path, content=b"{}", headers={"content-type": "text/plain"}),
            ),
            (404, "/v1/embeddings", await http.post("/v1/embeddings", content=b"{}")),
            # what a client asks whose base URL lacks /v1, or that speaks the newer protocol
            (404, f"there is {THERE}", await http.post("/chat/completions", content=b"{}")),
            (404, f"there is {THERE}", await http.post("/v1/responses", content=b"{}")),
            (405, f"GET {path}: Method Not Allowed; there is {THERE}", await http.get(path)),
        ]
        for status, words, answer in answers:
            assert answer.status_code == status, answer.text
            error = answer.json()["error"]
            assert words in error["message"] and error["type"] == "invalid_request_error"


async def test_a_closed_engine_is_a_503(tokenizer: Tokenizer) -> None:
    engine = scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer)
    async with client_of(engine) as client:
        await engine.aclose()
        for fields in ({}, {"stream": True}, {"logprobs": True}):
            with pytest.raises(openai.InternalServerError) as raised:
                await client.chat.completions.create(model=NAME, messages=ASK, **fields)
            assert raised.value.status_code == 503 and raised.value.code == "engine_unavailable"


async def test_a_device_that_fails_on_the_way_ends_the_stream_with_an_error(tokenizer: Tokenizer) -> None:
    passes = 0

    def fail(rows: Sequence[int]) -> None:
        nonlocal passes
        passes += 1
        if passes > 20:
            raise DeviceError("the kernel missed its deadline")

    async with (
        scripted_engine(ScriptedBackend(tokenizer, [LONG], fail), tokenizer) as engine,
        client_of(engine) as client,
    ):
        text = ""
        with pytest.raises(openai.APIError, match="missed its deadline"):
            async for chunk in await client.chat.completions.create(model=NAME, messages=ASK, stream=True):
                text += chunk.choices[0].delta.content or ""
        assert text and LONG.startswith(text)


async def test_an_engine_that_is_closed_on_the_way_ends_the_stream_with_an_error(
    tokenizer: Tokenizer,
) -> None:
    step, read = in_step(asyncio.get_running_loop()), threading.Event()

    def hold(rows: Sequence[int]) -> None:
        step(rows)
        if read.is_set():
            held(engine, lambda queue: queue.closing)

    engine = scripted_engine(ScriptedBackend(tokenizer, [LONG], hold), tokenizer)
    async with client_of(engine) as client:
        stream = await client.chat.completions.create(model=NAME, messages=ASK, stream=True)
        await anext(aiter(stream))
        read.set()
        closing = asyncio.ensure_future(engine.aclose())
        with pytest.raises(openai.APIError, match="clos"):
            await _text(stream)
        await closing


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_stops_its_generation(tokenizer: Tokenizer, stream: bool) -> None:
    started, open_gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    step = in_step(loop)

    def gate(rows: Sequence[int]) -> None:
        if len(backend.passes) >= 10:
            loop.call_soon_threadsafe(started.set)
            assert comes(open_gate.wait)
            step(rows)

    backend = ScriptedBackend(tokenizer, [LONG, "Hello."], gate)
    async with scripted_engine(backend, tokenizer) as engine:
        watched = Watched(app(engine, max_running=1))
        async with listening(watched) as url, to(url) as client:
            asking = asyncio.ensure_future(
                client.chat.completions.create(model=NAME, messages=ASK, stream=stream)
            )
            await started.wait()
            if stream:
                await (await asking).close()
            else:
                asking.cancel()
                await asyncio.wait((asking,))
            await watched.client_left.wait()
            open_gate.set()
            await watched.over.wait()
            assert len(backend.passes) < 200 < len(LONG), "it went on for nobody"
            # The engine, and the only place in line, are free for the next.
            after = [*ASK, {"role": "assistant", "content": "?"}, *ASK]
            answer = await client.chat.completions.create(model=NAME, messages=after)
            assert answer.choices[0].message.content == "Hello."


@pytest.mark.parametrize(("max_running", "order"), [(1, [b"long", b"short"]), (2, [b"short", b"long"])])
async def test_requests_take_turns_or_wait_in_line(
    tokenizer: Tokenizer, max_running: int, order: list[bytes]
) -> None:
    step, met = in_step(asyncio.get_running_loop()), max_running == 1

    def hold(rows: Sequence[int]) -> None:
        nonlocal met
        step(rows)
        if not met and len(backend.passes) >= 10:
            held(engine, lambda queue: len(queue.jobs) == 2)  # both, which may run at once
            met = True

    backend = ScriptedBackend(tokenizer, [LONG, "Hello."], hold)
    async with scripted_engine(backend, tokenizer) as engine:
        watched = Watched(app(engine, max_running=max_running))
        async with listening(watched) as url, to(url) as client:
            long = await client.chat.completions.create(
                model=NAME, messages=ASK, stream=True, extra_headers={"x-test": "long"}
            )
            after = [*ASK, {"role": "assistant", "content": "?"}, *ASK]
            short, text = await asyncio.gather(
                client.chat.completions.create(model=NAME, messages=after, extra_headers={"x-test": "short"}),
                _text(long),
            )
            assert short.choices[0].message.content == "Hello." and text == LONG
        assert watched.ended == order


async def _text(stream: Any) -> str:
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_the_options_of_the_application_are_checked(tokenizer: Tokenizer) -> None:
    async with scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer) as engine:
        options: Any
        for options in ({"name": ""}, {"temperature": 9}, {"max_running": 0}):
            with pytest.raises(InputError, match=next(iter(options))):
                app(engine, **options)


async def test_health_is_told_until_the_engine_is_closed(tokenizer: Tokenizer) -> None:
    engine = scripted_engine(ScriptedBackend(tokenizer, ["Hello."]), tokenizer)
    async with listening(app(engine)) as url, httpx2.AsyncClient(base_url=url, timeout=None) as http:
        told = await http.get("/health")
        assert (told.status_code, told.json()) == (200, {"status": "ok"})
        assert (await http.post("/health")).status_code == 405
        await engine.aclose()
        told = await http.get("/health")
        assert (told.status_code, told.json()) == (503, {"status": "closed"})
