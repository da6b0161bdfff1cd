"""The body of a chat completion request as our values, or an error that names the field. Knows no HTTP."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kogagent.engine.sampling import SamplingParams
from kogagent.loop.protocols import ToolChoice
from kogagent.serve.fields import Fields, RequestError, kind_of, one_of
from kogagent.types import (
    AssistantMessage,
    JSONValue,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)

MAX_CALLS = 8
_SEEDS = 1 << 64
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_ARGUMENTS: Mapping[str, JSONValue] = {"type": "object", "properties": {}}

# Fields of OpenAI's that change an answer and are not supported, with what they say when they change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "logit_bias": ({},),
    "top_logprobs": (0,),
    "store": (False,),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "reasoning_effort": ("none",),
    "audio": (),
    "prediction": (),
    "functions": (),
    "function_call": (),
    "web_search_options": (),
}
# What to do in place of some of them.
_INSTEAD: Mapping[str, str] = {
    "n": "Send the request once for each answer.",
    "top_logprobs": "Leave it out: logprobs=true gives those of the chosen tokens.",
    "functions": "Pass tools.",
    "function_call": "Pass tool_choice.",
}
# Names of whoever asks, and what a stored answer is found by: they change no answer of OpenAI's either.
_LABELS: Mapping[str, type] = {
    "user": str,
    "safety_identifier": str,
    "prompt_cache_key": str,
    "metadata": dict,
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request, checked. max_tokens None: all that fit; max_calls: calls a turn may make."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    tool_choice: ToolChoice
    max_calls: int
    output_schema: Mapping[str, JSONValue] | None
    sampling: SamplingParams
    stop: tuple[str, ...]
    max_tokens: int | None
    logprobs: bool
    stream: bool
    include_usage: bool


def read(body: object, *, model: str, temperature: float) -> ChatRequest:
    """The request of a parsed body. model: the one there is; temperature: when none is named.

    Raises RequestError naming the field: unknown, unsupported, of the wrong type or out of range.
    """
    fields = Fields(body, "")
    asked = fields.take("model", str)
    if asked != model:
        raise RequestError(
            f"there is no model {asked!r} here; there is {model!r}",
            param="model", code="model_not_found", status=404,
        )  # fmt: skip
    for name, values in _NEUTRAL.items():
        fields.neutral(name, *values, instead=_INSTEAD.get(name, "Leave it out."))
    for name, kind in _LABELS.items():
        fields.take(name, kind, None)
    tools = _tools(fields.take("tools", list, []))
    stream = fields.take("stream", bool, False)
    request = ChatRequest(
        messages=_messages(fields.take("messages", list)),
        tools=tools,
        tool_choice=_tool_choice(fields.take_any("tool_choice"), tools),
        max_calls=MAX_CALLS if fields.take("parallel_tool_calls", bool, True) else 1,
        output_schema=_output_schema(fields.take_any("response_format")),
        sampling=_sampling(fields, temperature),
        stop=_stop(fields.take_any("stop")),
        max_tokens=_max_tokens(fields),
        logprobs=fields.take("logprobs", bool, False),
        stream=stream,
        include_usage=_include_usage(fields.take_any("stream_options"), stream),
    )
    fields.end()
    if request.logprobs and request.tools:
        raise RequestError(
            "logprobs are given for text alone. Leave out tools or logprobs.", param="logprobs"
        )
    return request


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _messages(value: list[Any]) -> tuple[Message, ...]:
    if not value:
        raise RequestError("messages is empty. Pass at least one.", param="messages")
    out: list[Message] = []
    unanswered: dict[str, str] = {}  # the last turn's calls: id to name
    for number, one in enumerate(value):
        path = f"messages[{number}]"
        fields = Fields(one, path)
        role = one_of(
            fields.take("role", str), ("system", "developer", "user", "assistant", "tool"), f"{path}.role"
        )
        if unanswered and role != "tool":
            raise RequestError(
                f"{path} must be the result of the call {next(iter(unanswered))!r}: each call of an "
                "assistant is followed by a message of role 'tool'.",
                param=path,
            )
        fields.neutral("name")
        if role == "assistant":
            said = _assistant(fields)
            out.append(said)
            unanswered = {call.id: call.name for call in said.calls}
        elif role == "tool":
            id = fields.take("tool_call_id", str)
            if id not in unanswered:
                raise RequestError(
                    f"{path}.tool_call_id={id!r} answers no call of the assistant's message before it.",
                    param=f"{path}.tool_call_id",
                )
            text = _text(fields.take_any("content"), f"{path}.content")
            out.append(ToolMessage(ToolResult(id, unanswered.pop(id), text)))
        else:
            text = _text(fields.take_any("content"), f"{path}.content")
            out.append(UserMessage(text) if role == "user" else SystemMessage(text))
        fields.end()
    if unanswered:
        raise RequestError(
            f"the call {next(iter(unanswered))!r} has no result: add a message of role 'tool'.",
            param="messages",
        )
    return tuple(out)


def _assistant(fields: Fields) -> AssistantMessage:
    """What clients send back of an answer, its empty fields included."""
    for name in ("refusal", "audio", "function_call"):
        fields.neutral(name)
    fields.neutral("annotations", [])
    content = fields.take_any("content")
    calls = tuple(
        _call(Fields(one, f"{fields.at('tool_calls')}[{number}]"))
        for number, one in enumerate(fields.take("tool_calls", list, []))
    )
    if content is None and not calls:
        raise RequestError(
            f"{fields.at('content')} is missing: an assistant's message has content or tool_calls",
            param=fields.at("content"),
        )
    if len({call.id for call in calls}) < len(calls):
        raise RequestError(
            f"{fields.at('tool_calls')} has two calls of one id", param=fields.at("tool_calls")
        )
    return AssistantMessage("" if content is None else _text(content, fields.at("content")), calls=calls)


def _call(fields: Fields) -> ToolCall:
    id = fields.take("id", str)
    one_of(fields.take("type", str), ("function",), fields.at("type"))
    function = Fields(fields.take("function", dict), fields.at("function"))
    fields.end()
    call = ToolCall(id, function.take("name", str), function.take("arguments", str))
    function.end()
    return call


def _text(content: object, path: str) -> str:
    """Content as one text: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(
            f"{path} must be a string or a list of text parts, not {kind_of(content)}", param=path
        )
    out = []
    for number, part in enumerate(content):
        fields = Fields(part, f"{path}[{number}]")
        one_of(fields.take("type", str), ("text",), fields.at("type"))
        out.append(fields.take("text", str))
        fields.end()
    return "".join(out)


# ── tools and formats ────────────────────────────────────────────────────────────────────────


def _tools(value: list[Any]) -> tuple[ToolSpec, ...]:
    out: list[ToolSpec] = []
    for number, one in enumerate(value):
        fields = Fields(one, f"tools[{number}]")
        one_of(fields.take("type", str), ("function",), fields.at("type"))
        function = Fields(fields.take("function", dict), fields.at("function"))
        fields.end()
        name = function.take("name", str)
        if not _NAME.fullmatch(name) or name in ("auto", "none", "required"):
            raise RequestError(
                f"{function.at('name')}={name!r}: must be 1 to 64 letters, digits, '_' or '-', and none of "
                "'auto', 'none' and 'required'",
                param=function.at("name"),
            )
        if name in (tool.name for tool in out):
            raise RequestError(f"two tools are named {name!r}: rename one of them", param=function.at("name"))
        description = function.take("description", str, "")
        parameters = function.take("parameters", dict, {}) or _NO_ARGUMENTS
        function.take("strict", bool, None)  # every schema is enforced, asked or not
        function.end()
        out.append(ToolSpec(name, description, parameters))
    return tuple(out)


def _tool_choice(value: object, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    if value is None:
        return "auto" if tools else "none"
    if isinstance(value, str):
        if one_of(value, ("auto", "none", "required"), "tool_choice") == "required" and not tools:
            raise RequestError("tool_choice='required' needs tools to choose from", param="tool_choice")
        return value if tools else "none"
    fields = Fields(value, "tool_choice")
    one_of(fields.take("type", str), ("function",), "tool_choice.type")
    function = Fields(fields.take("function", dict), "tool_choice.function")
    fields.end()
    name = function.take("name", str)
    function.end()
    if name not in (tool.name for tool in tools):
        known = ", ".join(repr(tool.name) for tool in tools) or "none"
        raise RequestError(
            f"tool_choice names {name!r}, and there is no such tool. Tools: {known}", param="tool_choice"
        )
    return name


def _output_schema(value: object) -> Mapping[str, JSONValue] | None:
    if value is None:
        return None
    fields = Fields(value, "response_format")
    kind = one_of(fields.take("type", str), ("text", "json_object", "json_schema"), "response_format.type")
    if kind != "json_schema":
        fields.end()
        return {"type": "object"} if kind == "json_object" else None
    inner = Fields(fields.take("json_schema", dict), "response_format.json_schema")
    fields.end()
    inner.take("name", str)
    inner.take("description", str, None)
    inner.take("strict", bool, None)  # enforced in any case
    schema = inner.take("schema", dict)
    inner.end()
    return schema


# ── sampling and limits ──────────────────────────────────────────────────────────────────────


def _sampling(fields: Fields, temperature: float) -> SamplingParams:
    warmth = fields.take("temperature", float, temperature)
    if not 0 <= warmth <= 2:
        raise RequestError(f"temperature={warmth!r}: must lie in 0 .. 2", param="temperature")
    top_p = fields.take("top_p", float, 1.0)
    if not 0 < top_p <= 1:
        raise RequestError(f"top_p={top_p!r}: must be above 0 and at most 1", param="top_p")
    seed = fields.take("seed", int, None)
    if seed is None:
        seed = secrets.randbits(64)
    elif not -_SEEDS // 2 <= seed < _SEEDS:
        raise RequestError(f"seed={seed!r}: must be an integer of 64 bits", param="seed")
    return SamplingParams(temperature=warmth, top_p=top_p, seed=seed % _SEEDS)


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise RequestError("stop must be a non-empty string, or a list of them", param="stop")
    return tuple(texts)


def _max_tokens(fields: Fields) -> int | None:
    given = {
        name: value
        for name in ("max_completion_tokens", "max_tokens")
        if (value := fields.take(name, int, None)) is not None
    }
    for name, value in given.items():
        if value < 1:
            raise RequestError(f"{name}={value!r}: must be at least 1", param=name)
    if len(set(given.values())) > 1:
        raise RequestError(
            "max_tokens and max_completion_tokens differ: give one of them", param="max_tokens"
        )
    return next(iter(given.values()), None)


def _include_usage(value: object, stream: bool) -> bool:
    if value is None:
        return False
    if not stream:
        raise RequestError("stream_options is for streams: pass stream=true", param="stream_options")
    fields = Fields(value, "stream_options")
    fields.neutral("include_obfuscation", False)
    include = fields.take("include_usage", bool, False)
    fields.end()
    return include
