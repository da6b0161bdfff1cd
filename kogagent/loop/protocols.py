"""What the loop needs from a model and from tools. Knows no tokens, no device."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from kogagent.sampling import SamplingParams
from kogagent.types import JSONValue, Message, ModelEvent, RunContext, ToolCall, ToolOutcome, ToolSpec
from kogagent.types.quick import quick

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""auto: text or calls; none: text only; required: at least one call; else the one tool to call."""


@quick
@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One model turn, wholly described.

    observe_tokens, plan_tokens: 0 for no such phase, else the budget of a short text phase before the act:
    first what the results before it come to, then what to do. A plan that ends the turn is its answer: the
    same text follows as TextDelta. output_schema: when set, the turn's text is JSON of this schema (unless
    the model calls a tool). sampling: how tokens are drawn, None as the model does by itself. priority:
    whose turn it is when several ask for one engine, see Agent. first_call: for a model that numbers its
    calls, where the turn's may begin: behind those of messages too that a compaction or a hand-over left out.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = "auto"
    max_tokens: int = 1024
    max_calls: int = 8
    plan_tokens: int = 0
    output_schema: Mapping[str, JSONValue] | None = None
    observe_tokens: int = 0
    sampling: SamplingParams | None = None
    priority: int = 0
    first_call: int = 1


@runtime_checkable
class Model(Protocol):
    """A source of turns: the engine, a scripted model, a remote one.

    `stream` yields events of one turn; the last is TurnEnd. The iterator has `aclose()`, which stops
    generation at a token border; it is called whenever the turn is left early. Messages are never changed.
    The same list with messages appended means the same conversation: a model that caches may reuse its
    prefix.
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


@runtime_checkable
class ForkingModel(Protocol):
    """A model whose conversation can be split in two without computing its past again."""

    async def fork(self) -> Model:
        """A model that goes on from the same past, by itself. Whoever forks closes the fork."""

    async def prefill(self, request: TurnRequest) -> None:
        """Compute the prompt of this turn now, so that forks share it."""


@runtime_checkable
class MeasuringModel(Protocol):
    """A model that knows its tokens."""

    @property
    def context(self) -> int:
        """The most tokens a prompt and its turn may have together."""

    def count(self, request: TurnRequest) -> int:
        """Tokens of the prompt of this turn, exactly. Takes time in proportion to the history."""

    def clip(self, text: str, tokens: int) -> str:
        """The text, or its head and tail in at most so many tokens with a line that says what is missing."""


class Tools(Protocol):
    """The tools of an agent."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """In a fixed order: it is part of the prompt prefix."""

    @property
    def has_pure(self) -> bool:
        """Whether there is a tool for which `is_pure` holds."""

    def is_pure(self, name: str) -> bool:
        """Whether a call of this tool has no effects, so that it may run before it is certain to be
        wanted."""

    async def call(self, call: ToolCall, context: RunContext[Any], *, approved: bool = False) -> ToolOutcome:
        """Validate, ask for permission unless approved, run, time-limit. Never raises for what a tool does,
        except cancellation and KeyboardInterrupt; what a tool started has ended, or been given up on, when
        this returns or raises."""

    def supplied(self, call: ToolCall, value: Any) -> ToolOutcome:
        """The outcome of a call whose tool is taken to have returned this value."""
