"""Tool specs, calls, results, messages: plain values. Knows no model, no device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from kogagent.types.quick import quick

JSONValue: TypeAlias = Any
"""A value `json.dumps` accepts: None, bool, int, float, str, list or dict of the same."""


@quick
@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of one tool.

    `parameters` is a JSON Schema of type object; property order is the order in which arguments
    are written.
    """

    name: str
    description: str
    parameters: Mapping[str, JSONValue]


@quick
@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call a model asked for. `arguments` is the exact JSON text it wrote.

    `complete` is False when generation ended inside the call (token limit, cancellation); then
    `arguments` holds the cut text and must never be run.
    """

    id: str
    name: str
    arguments: str
    complete: bool = True

    @property
    def number(self) -> int:
        """The number in an id as our models give them, "call_7" say; 0 for any other id."""
        number = self.id.removeprefix("call_")
        ours = number != self.id and number.isascii() and number.isdecimal() and len(number) < 10
        return int(number) if ours else 0


ResultStatus: TypeAlias = Literal[
    "ok",
    "retry",
    "failed",
    "invalid",
    "unknown_tool",
    "timeout",
    "cancelled",
    "truncated",
    "denied",
    "deferred",
]
"""What became of a call. deferred: its result comes later, and the conversation waits for it."""


@quick
@dataclass(frozen=True, slots=True)
class File:
    """A file a tool gives back, whole in `data` or by its `path`; exactly one of the two.

    The model reads its name, type and size, and a text file's text. The developer finds it in
    `ToolResult.files`. path may be given as a Path and is kept as text. Raises ValueError, TypeError for
    what is no file.
    """

    name: str
    media_type: str = "application/octet-stream"
    data: bytes | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.path is None):
            raise ValueError(
                f"File({self.name!r}) needs its content as data=… or its place as path=…, not both"
            )
        if not isinstance(self.name, str) or not isinstance(self.media_type, str):
            raise TypeError(f"File({self.name!r}, {self.media_type!r}): its name and media type are texts")
        if self.data is not None and not isinstance(self.data, bytes):
            raise TypeError(
                f"File({self.name!r}): data must be bytes, not {type(self.data).__name__}. Encode it."
            )
        if self.path is not None and type(self.path) is not str:
            object.__setattr__(self, "path", os.fsdecode(self.path))  # TypeError for what is no path


@quick
@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of one call: the text the model reads, and whose it is.

    `status` tells a developer what happened, `files` are what the tool gave besides; a model sees `text`
    alone.
    """

    call_id: str
    name: str
    text: str
    status: ResultStatus = "ok"
    files: tuple[File, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.status != "ok"


@quick
@dataclass(frozen=True, slots=True)
class SystemMessage:
    text: str


@quick
@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str


@quick
@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One model turn: the plan it stated (text before its calls), its calls, or its answer.

    ids are the token ids the model wrote the turn in, where it told them: a model that reads the message back
    knows its very tokens. Two messages that say the same are equal, whatever their ids.
    """

    text: str = ""
    plan: str = ""
    calls: tuple[ToolCall, ...] = ()
    ids: tuple[int, ...] = field(default=(), compare=False, repr=False)


@quick
@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call, as the model reads it."""

    result: ToolResult


@quick
@dataclass(frozen=True, slots=True)
class SummaryMessage:
    """Where a transcript was compacted: from here on the model reads `text`, as a user's message, in place of
    all it read before but the system message and the last `kept` messages.

    Part of the record alone: a model is never shown one.
    """

    text: str
    kept: int


@quick
@dataclass(frozen=True, slots=True)
class HandOverMessage:
    """Where another agent took a conversation over: from here on the model reads neither these calls of the
    last turn, by their ids, nor their results, and no turn of which no other call is left.

    agent: the one that goes on. Part of the record alone: a model is never shown one.
    """

    agent: str
    calls: tuple[str, ...]

    @property
    def text(self) -> str:
        """What happened, for who reads the record."""
        return f"{self.agent} goes on from here."


Message: TypeAlias = (
    SystemMessage | UserMessage | AssistantMessage | ToolMessage | SummaryMessage | HandOverMessage
)
