"""Functions that look into a run and may change or stop it. Knows values only."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar, cast

from kogagent.errors import InputError, check_takes, named_fields
from kogagent.loop.protocols import TurnRequest
from kogagent.types import AssistantMessage, RunContext, ToolCall, ToolResult

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

_GIVEN = {
    "before_turn": ("the request of a turn",),
    "after_turn": ("what the model said",),
    "before_call": ("a call", "its context"),
    "after_call": ("a call", "its result"),
    "on_error": ("what the model raised", "its request"),
    "predict": ("a call", "its context"),
}


@named_fields
@dataclass(frozen=True, slots=True)
class Hooks:
    """Each is a function, sync or async, or None. An exception of one ends the run and reaches its caller.

    before_turn: gets the request of a turn, gives the one to make: fewer tools, another budget, a shorter
        history. A tool it takes out cannot be called in that turn.
    after_turn: gets what the model said, before any of it is acted on; raises to stop the run.
    before_call: gets a call and its context; None runs it, a text is what the model reads instead.
    after_call: gets a call and its result, gives the result the model shall read.
    on_error: gets what the model raised and the request it was given; False raises it, True makes the turn
        again (Limits.model_retries times in a row), a text is the answer of the run.
    predict: gets a call and its context; a text is what its result will probably read. The model goes on from
        it while the tool runs. Where the result reads otherwise, what the model wrote meanwhile is thrown
        away: nothing of it was seen or acted on.
    """

    before_turn: Callable[[TurnRequest], MaybeAwaitable[TurnRequest]] | None = None
    after_turn: Callable[[AssistantMessage], MaybeAwaitable[None]] | None = None
    before_call: Callable[[ToolCall, RunContext[Any]], MaybeAwaitable[str | None]] | None = None
    after_call: Callable[[ToolCall, ToolResult], MaybeAwaitable[ToolResult]] | None = None
    on_error: Callable[[Exception, TurnRequest], MaybeAwaitable[bool | str]] | None = None
    predict: Callable[[ToolCall, RunContext[Any]], MaybeAwaitable[str | None]] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            hook = getattr(self, field.name)
            if hook is not None and not callable(hook):
                raise InputError(f"Hooks.{field.name}={hook!r} must be a function or None")
            if hook is not None:
                check_takes(hook, f"Hooks.{field.name}", *_GIVEN[field.name])


async def settled(value: MaybeAwaitable[T], kind: type[T] | tuple[type, ...], hook: str) -> T:
    """What a hook gave, awaited where it must be. Raises InputError for what the loop cannot use."""
    if isinstance(value, kind):  # as a rule, and sooner told than whether it is to be awaited
        return cast(T, value)
    got: Any = await value if inspect.isawaitable(value) else value
    if not isinstance(got, kind):
        raise InputError(f"the hook {hook} gave {got!r}; see kogagent.Hooks for what it must give")
    return cast(T, got)
