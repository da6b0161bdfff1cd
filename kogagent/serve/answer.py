"""A turn's events as chat completions and chunks of them, errors as OpenAI's. Knows shapes; runs nothing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from kogagent.errors import ContextError, DeviceError, InputError, SchemaError
from kogagent.local import Token
from kogagent.serve.fields import RequestError
from kogagent.serve.turn import Ended, Event, Said
from kogagent.types import CallDelta, CallReady, CallStarted, ToolSpec, Usage

JSONObject = dict[str, Any]


class Answer:
    """The one answer to a request, whole or in chunks."""

    def __init__(self, model: str, *, logprobs: bool, include_usage: bool) -> None:
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}
        self._logprobs = logprobs
        self._include_usage = include_usage
        self._calls: dict[str, int] = {}  # id to place

    def completion(self, events: Sequence[Event]) -> JSONObject:
        """All events as one `chat.completion`."""
        end = events[-1]
        assert isinstance(end, Ended)
        text = "".join(event.text for event in events if isinstance(event, Said))
        calls = [
            {
                "id": event.call.id,
                "type": "function",
                "function": {"name": event.call.name, "arguments": event.call.arguments},
            }
            for event in events
            if isinstance(event, CallReady)
        ]
        message: JSONObject = {
            "role": "assistant",
            "content": text if text or not calls else None,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = calls
        tokens = [token for event in events if isinstance(event, Said) for token in event.tokens]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": self._with_logprobs(tokens),
            "finish_reason": end.reason,
        }
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage_of(end.usage)}

    def first_chunk(self) -> JSONObject:
        return self._chunk({"role": "assistant", "content": ""})

    def chunks(self, event: Event) -> Iterable[JSONObject]:
        """The chunks of one event: one, none where it adds nothing, two at an end that tells usage."""
        match event:
            case Said(text, tokens):
                return [self._chunk({"content": text}, tokens=tokens)]
            case CallStarted(id, name):
                self._calls[id] = len(self._calls)
                function = {"name": name, "arguments": ""}
                return [self._chunk(self._call(id, {"id": id, "type": "function", "function": function}))]
            case CallDelta(id, text):
                return [self._chunk(self._call(id, {"function": {"arguments": text}}))]
            case CallReady():
                return []
            case Ended(reason, usage):
                last = [self._chunk({}, reason=reason)]
                if self._include_usage:
                    last.append({**self._chunk({}), "choices": [], "usage": usage_of(usage)})
                return last
            case _:
                assert_never(event)

    def _call(self, id: str, more: JSONObject) -> JSONObject:
        return {"tool_calls": [{"index": self._calls[id], **more}]}

    def _chunk(
        self, delta: JSONObject, *, tokens: Sequence[Token] = (), reason: str | None = None
    ) -> JSONObject:
        logprobs = self._with_logprobs(tokens) if tokens else None
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._include_usage else chunk

    def _with_logprobs(self, tokens: Sequence[Token]) -> JSONObject | None:
        if not self._logprobs:
            return None
        content = [
            {"token": one.text, "logprob": one.logprob, "bytes": list(one.bytes), "top_logprobs": []}
            for one in tokens
        ]
        return {"content": content, "refusal": None}


def usage_of(usage: Usage) -> JSONObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


def error_of(error: Exception, tools: Sequence[ToolSpec] = ()) -> tuple[int, JSONObject]:
    """(HTTP status, body) of an error: the caller's 4xx, the device's 503, everything else 500."""
    param = code = None
    status, kind = 400, "invalid_request_error"
    match error:
        case RequestError():
            status, param, code = error.status, error.param, error.code
        case ContextError():
            param, code = "messages", "context_length_exceeded"
        case SchemaError():
            places = {tool.name: f"tools[{number}].function.parameters" for number, tool in enumerate(tools)}
            param = places.get(error.tool, "response_format.json_schema.schema")
        case InputError():
            pass
        case DeviceError():
            status, kind, code = 503, "server_error", "engine_unavailable"
        case _:
            status, kind = 500, "server_error"
    return status, error_body(_message(error), kind=kind, param=param, code=code)


def error_body(message: str, *, kind: str, param: str | None = None, code: str | None = None) -> JSONObject:
    """OpenAI's shape of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _message(error: Exception) -> str:
    from kogagent.errors import KogagentError

    # What a bug says may hold anything; the log has it.
    return str(error) if isinstance(error, KogagentError) else "internal error; the server's log has more"
