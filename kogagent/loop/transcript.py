"""The history of a conversation: append-only, every call followed by its result. Knows no model.

Two notations: one JSON array of a list of messages, and JSON lines that can be appended to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, get_args, overload

from kogagent.errors import InputError
from kogagent.types import (
    AssistantMessage,
    JSONValue,
    Message,
    ResultStatus,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

_CANCELLED = "Cancelled before it finished. It may have had effects; check before calling it again."


class Messages(Sequence[Message]):
    """A history as it stood at one moment, without a copy: the list behind it only ever grows."""

    __slots__ = ("_list", "_size")

    def __init__(self, messages: list[Message], size: int) -> None:
        self._list = messages
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Message: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Message, ...]: ...

    def __getitem__(self, at: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(at, slice):
            return tuple(self._list[i] for i in range(*at.indices(self._size)))
        if not -self._size <= at < self._size:
            raise IndexError(f"message {at} of {self._size}")
        return self._list[at if at >= 0 else at + self._size]

    def __iter__(self) -> Iterator[Message]:
        for at in range(self._size):
            yield self._list[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"


class Journal(Protocol):
    """Where a transcript is written down as it grows. Both are done when they return."""

    def append(self, at: int, message: Message) -> None:
        """The message at this place, which is the next."""

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Everything anew."""


class Transcript:
    """A history that a run appends to. Pass one to `Agent.run(history=…)` to keep the conversation, whatever
    happens to the run: it is consistent after every append, and a cancelled call has a result that says so.

    messages given here must be consistent; `Transcript.repaired` takes a history cut anywhere. journal is
    told of every message after these, before the transcript shows it.
    """

    def __init__(self, messages: Iterable[Message] = (), *, journal: Journal | None = None) -> None:
        self._messages: list[Message] = []
        self._open: dict[str, ToolCall] = {}
        self._in_use = False
        self._journal: Journal | None = None
        for message in messages:
            self.append(message)
        self._journal = journal

    @classmethod
    def repaired(cls, messages: Iterable[Message]) -> Transcript:
        """A transcript of messages of which some calls may have no result: each gets a "cancelled" one."""
        transcript = cls()
        for message in messages:
            if not isinstance(message, ToolMessage):
                transcript.close_calls()
            transcript.append(message)
        transcript.close_calls()
        return transcript

    @property
    def messages(self) -> Messages:
        """The history as it stands now."""
        return Messages(self._messages, len(self._messages))

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn that have no result yet."""
        return tuple(self._open.values())

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: Message) -> None:
        """Raises InputError for a message that cannot follow."""
        opened = self._open
        if isinstance(message, ToolMessage):
            if message.result.call_id not in self._open:
                raise InputError(
                    f"message {len(self)} is the result of call {message.result.call_id!r}, "
                    "which no open call of the last turn has as its id"
                )
            opened = {i: call for i, call in self._open.items() if i != message.result.call_id}
        elif not isinstance(message, SystemMessage | UserMessage | AssistantMessage):
            raise InputError(
                f"message {len(self)} is {message!r}, which is no message. See kogagent.Message."
            )
        elif self._open:
            raise InputError(
                f"message {len(self)} follows calls without results: {', '.join(map(repr, self._open))}. "
                "Append a ToolMessage for each first, or use Transcript.repaired."
            )
        elif isinstance(message, AssistantMessage) and message.calls:
            opened = {call.id: call for call in message.calls}
            if len(opened) < len(message.calls):
                raise InputError(f"message {len(self)} has two calls of one id; each needs its own")
        if self._journal is not None:
            self._journal.append(len(self._messages), message)
        self._messages.append(message)
        self._open = opened

    def close_calls(self, text: str = _CANCELLED, *, only: str | None = None) -> tuple[ToolResult, ...]:
        """Give every open call, or the one of this id, a "cancelled" result; returns them."""
        results = tuple(
            ToolResult(call.id, call.name, text, "cancelled")
            for call in self._open.values()
            if only in (None, call.id)
        )
        for result in results:
            self.append(ToolMessage(result))
        return results

    def fork(self) -> Transcript:
        """An independent transcript of the same messages."""
        return Transcript(self._messages)

    def with_system(self, text: str) -> None:
        """Set the system message. The same text changes nothing; another one starts a new prompt prefix."""
        if self._messages and isinstance(self._messages[0], SystemMessage):
            if self._messages[0].text == text:
                return
            messages: list[Message] = [SystemMessage(text), *self._messages[1:]]
        elif self._messages:
            messages = [SystemMessage(text), *self._messages]
        else:
            self.append(SystemMessage(text))
            return
        if self._journal is not None:
            self._journal.rewrite(messages)
        self._messages = messages  # a new list: views keep the old one

    def acquire(self) -> None:
        """Taken by a run. Raises InputError when another run holds it: two would mix their turns."""
        if self._in_use:
            raise InputError("this transcript is in use by a run. Wait for it, or pass transcript.fork().")
        self._in_use = True

    def release(self) -> None:
        self._in_use = False

    def to_lines(self) -> str:
        """JSON lines, one a message: a file of them can be appended to."""
        return "".join(json.dumps(message_to_json(message)) + "\n" for message in self._messages)

    @classmethod
    def from_lines(cls, text: str) -> Transcript:
        """Read JSON lines, repairing calls that have no result. Raises InputError that names the line.

        A last line without its newline was cut while it was written, and is left out.
        """
        lines = text.split("\n")[:-1]
        return cls.repaired(
            message_from_json(_parse(line, f"line {n}"), f"line {n}") for n, line in enumerate(lines, 1)
        )


def messages_to_json(messages: Iterable[Message]) -> str:
    """A JSON array of the messages; `messages_from_json` gives back equal ones."""
    return json.dumps([message_to_json(message) for message in messages])


def messages_from_json(text: str) -> tuple[Message, ...]:
    """Raises InputError that names the message and the field that cannot be read."""
    values = _parse(text, "the history")
    if not isinstance(values, list):
        raise InputError(f"a history is a JSON array of messages, not {type(values).__name__}")
    return tuple(message_from_json(value, f"message {i}") for i, value in enumerate(values))


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:  # bytes that are no UTF-8, no text at all, depth
        raise InputError(f"{where} is not valid JSON: {error}") from error


def message_to_json(message: Message) -> dict[str, JSONValue]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "text": message.text}
    if isinstance(message, UserMessage):
        return {"role": "user", "text": message.text}
    if isinstance(message, ToolMessage):
        result = message.result
        return {
            "role": "tool",
            "call_id": result.call_id,
            "name": result.name,
            "text": result.text,
            "status": result.status,
        }
    if isinstance(message, AssistantMessage):
        calls = [
            {"id": c.id, "name": c.name, "arguments": c.arguments, "complete": c.complete}
            for c in message.calls
        ]
        return {"role": "assistant", "text": message.text, "plan": message.plan, "calls": calls}
    raise InputError(f"{message!r} is no message. See kogagent.Message.")


_STATUSES: tuple[str, ...] = get_args(ResultStatus)


def message_from_json(value: Any, where: str) -> Message:
    role = value.get("role") if isinstance(value, dict) else None
    if role == "system":
        return SystemMessage(**_fields(value, where, text=str))
    if role == "user":
        return UserMessage(**_fields(value, where, text=str))
    if role == "tool":
        fields = _fields(value, where, call_id=str, name=str, text=str, status=str)
        if fields["status"] not in _STATUSES:
            raise InputError(f"{where} has the status {fields['status']!r}; known are {', '.join(_STATUSES)}")
        return ToolMessage(ToolResult(**fields))
    if role == "assistant":
        fields = _fields(value, where, text=str, plan=str, calls=list)
        calls = (
            ToolCall(**_fields(call, f"{where}, call {i}", id=str, name=str, arguments=str, complete=bool))
            for i, call in enumerate(fields.pop("calls"))
        )
        return AssistantMessage(**fields, calls=tuple(calls))
    raise InputError(f"{where} has the role {role!r}; known are system, user, assistant, tool")


def _fields(value: Any, where: str, **types: type) -> dict[str, Any]:
    """Exactly these fields of these types, "role" aside."""
    if not isinstance(value, dict):
        raise InputError(f"{where} is {value!r}, not an object")
    unknown = value.keys() - types.keys() - {"role"}
    if unknown:
        raise InputError(f"{where} has the unknown field {min(unknown)!r}; known are {', '.join(types)}")
    for name, kind in types.items():
        if not isinstance(value.get(name), kind):
            raise InputError(f"{where} needs {name!r} of type {kind.__name__}, not {value.get(name)!r}")
    return {name: value[name] for name in types}
