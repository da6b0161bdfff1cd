"""Messages as JSON and back. Knows no transcript.

Two notations: one JSON array of a list of messages, and JSON lines that can be appended to.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from kogagent.errors import InputError
from kogagent.types import (
    AssistantMessage,
    File,
    HandOverMessage,
    JSONValue,
    Message,
    ResultStatus,
    SummaryMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

_STATUSES: tuple[str, ...] = get_args(ResultStatus)


def messages_to_json(messages: Iterable[Message]) -> str:
    """A JSON array of the messages; `messages_from_json` gives back equal ones."""
    return json.dumps([message_to_json(message) for message in messages])


def messages_from_json(text: str) -> tuple[Message, ...]:
    """Raises InputError that names the message and the field that cannot be read."""
    values = parse(text, "the history")
    if not isinstance(values, list):
        raise InputError(f"a history is a JSON array of messages, not {type(values).__name__}")
    return tuple(message_from_json(value, f"message {i}") for i, value in enumerate(values))


def messages_to_lines(messages: Iterable[Message]) -> str:
    """JSON lines, one a message: a file of them can be appended to."""
    return "".join(json.dumps(message_to_json(message)) + "\n" for message in messages)


def messages_from_lines(text: str) -> Iterator[Message]:
    """Raises InputError that names the line. A last line without its newline was cut while it was written,
    and is left out."""
    for number, line in enumerate(text.split("\n")[:-1], 1):
        where = f"line {number}"
        yield message_from_json(parse(line, where), where)


def parse(text: str, where: str) -> Any:
    """A JSON value. Raises InputError."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:  # bytes that are no UTF-8, no text at all, depth
        raise InputError(f"{where} is not valid JSON: {error}") from error


# ── one message ──────────────────────────────────────────────────────────────────────────────


def message_to_json(message: Message) -> dict[str, JSONValue]:
    """Plain data. Fields that are rarely there (`ids`, `files`) are left out where they are empty."""
    if isinstance(message, SystemMessage):
        return {"role": "system", "text": message.text}
    if isinstance(message, UserMessage):
        return {"role": "user", "text": message.text}
    if isinstance(message, ToolMessage):
        result = message.result
        said: dict[str, JSONValue] = {
            "role": "tool",
            "call_id": result.call_id,
            "name": result.name,
            "text": result.text,
            "status": result.status,
        }
        if result.files:
            said["files"] = [_file_to_json(file) for file in result.files]
        return said
    if isinstance(message, AssistantMessage):
        calls = [
            {"id": c.id, "name": c.name, "arguments": c.arguments, "complete": c.complete}
            for c in message.calls
        ]
        said = {"role": "assistant", "text": message.text, "plan": message.plan, "calls": calls}
        if message.ids:
            said["ids"] = list(message.ids)
        return said
    if isinstance(message, SummaryMessage):
        return {"role": "summary", "text": message.text, "kept": message.kept}
    if isinstance(message, HandOverMessage):
        return {"role": "hand_over", "agent": message.agent, "calls": list(message.calls)}
    raise InputError(f"{message!r} is no message. See kogagent.Message.")


def message_from_json(value: Any, where: str) -> Message:
    """The message of plain data. Raises InputError that names the field that cannot be read."""
    role = value.get("role") if isinstance(value, dict) else None
    if role == "system":
        return SystemMessage(**_fields(value, where, text=str))
    if role == "user":
        return UserMessage(**_fields(value, where, text=str))
    if role == "tool":
        return ToolMessage(_result(value, where))
    if role == "assistant":
        fields = _fields(value, where, {"ids": list}, text=str, plan=str, calls=list)
        calls = (
            ToolCall(**_fields(call, f"{where}, call {i}", id=str, name=str, arguments=str, complete=bool))
            for i, call in enumerate(fields.pop("calls"))
        )
        ids = fields.pop("ids", [])
        if any(type(one) is not int or one < 0 for one in ids):
            raise InputError(f"{where} has ids that are no token ids: {ids!r}")
        return AssistantMessage(**fields, calls=tuple(calls), ids=tuple(ids))
    if role == "summary":
        fields = _fields(value, where, text=str, kept=int)
        if isinstance(fields["kept"], bool) or fields["kept"] < 0:
            raise InputError(f"{where} needs 'kept' of an integer >= 0, not {fields['kept']!r}")
        return SummaryMessage(**fields)
    if role == "hand_over":
        fields = _fields(value, where, agent=str, calls=list)
        if not all(isinstance(id, str) for id in fields["calls"]):
            raise InputError(f"{where} has calls that are no ids: {fields['calls']!r}")
        return HandOverMessage(fields["agent"], tuple(fields["calls"]))
    known = "system, user, assistant, tool, summary, hand_over"
    raise InputError(f"{where} has the role {role!r}; known are {known}")


def _result(value: dict[str, Any], where: str) -> ToolResult:
    fields = _fields(value, where, {"files": list}, call_id=str, name=str, text=str, status=str)
    if fields["status"] not in _STATUSES:
        raise InputError(f"{where} has the status {fields['status']!r}; known are {', '.join(_STATUSES)}")
    files = [_file_from_json(one, f"{where}, file {i}") for i, one in enumerate(fields.pop("files", ()))]
    return ToolResult(**fields, files=tuple(files))


def _file_to_json(file: File) -> dict[str, JSONValue]:
    said: dict[str, JSONValue] = {"name": file.name, "media_type": file.media_type}
    if file.data is not None:
        said["data"] = base64.b64encode(file.data).decode("ascii")
    else:
        said["path"] = file.path
    return said


def _file_from_json(value: Any, where: str) -> File:
    fields = _fields(value, where, {"data": str, "path": str}, name=str, media_type=str)
    try:
        if "data" in fields:
            fields["data"] = base64.b64decode(fields["data"], validate=True)
        return File(**fields)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{where} is no file: {error}") from error


def _fields(
    value: Any, where: str, optional: dict[str, type] | None = None, /, **types: type
) -> dict[str, Any]:
    """Exactly these fields of these types, "role" aside; optional ones may be missing."""
    optional = optional or {}
    if not isinstance(value, dict):
        raise InputError(f"{where} is {value!r}, not an object")
    unknown = value.keys() - types.keys() - optional.keys() - {"role"}
    if unknown:
        raise InputError(f"{where} has the unknown field {min(unknown)!r}; known are {', '.join(types)}")
    wanted = types | {name: kind for name, kind in optional.items() if name in value}
    for name, kind in wanted.items():
        if not isinstance(value.get(name), kind):
            raise InputError(f"{where} needs {name!r} of type {kind.__name__}, not {value.get(name)!r}")
    return {name: value[name] for name in wanted}
