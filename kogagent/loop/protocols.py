"""What the loop needs from a model and from tools. Knows no tokens, no device."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from kogagent.types import JSONValue, Message, ModelEvent, RunContext, ToolCall, ToolOutcome, ToolSpec

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""auto: text or calls; none: text only; required: at least one call; else the one tool to call."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One model turn, wholly described.

    plan_tokens: 0 for no planning phase, else the budget of the short text phase before the act. A plan that
    ends the turn is its answer: the same text follows as TextDelta.
    output_schema: when set, the turn's text is JSON of this schema (unless the model calls a tool).
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = "auto"
    max_tokens: int = 1024
    max_calls: int = 8
    plan_tokens: int = 0
    output_schema: Mapping[str, JSONValue] | None = None


@runtime_checkable
class Model(Protocol):
    """A source of turns: the engine, a scripted model, a remote one.

    `stream` yields events of one turn; the last is TurnEnd. The iterator has `aclose()`, which stops
    generation at a token border; it is called whenever the turn is left early. Messages are never changed.
    The same
    list with messages appended means the same conversation: a model that caches may reuse its prefix.
    Raises InputError before the first event, ModelError or DeviceError later.
    """

    def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]: ...


@runtime_checkable
class ModelSource(Protocol):
    """Something that can stand as a model: `Agent(engine)` calls this once a run for a fresh conversation."""

    def as_model(self) -> Model: ...


@runtime_checkable
class ClosingModel(Protocol):
    """A model that holds something for one conversation, a KV lease say. A run that made its model by
    `as_model()` closes it when the run ends."""

    async def aclose(self) -> None: ...


class Tools(Protocol):
    """The tools of an agent."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """In a fixed order: it is part of the prompt prefix."""

    async def call(self, call: ToolCall, context: RunContext[Any]) -> ToolOutcome:
        """Validate, run, time-limit. Never raises for what a tool does, except cancellation and
        KeyboardInterrupt; what a tool started has ended, or been given up on, when this returns or raises."""
