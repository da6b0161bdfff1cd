"""What a model yields in a turn and a run as a whole. Knows messages and numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from kogagent.types.accounting import FinishReason, Timings, Usage
from kogagent.types.messages import Message, ToolCall, ToolResult
from kogagent.types.quick import quick

Out = TypeVar("Out", covariant=True, default=Any)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. at: when, by `time.perf_counter()`; equality does not look at it."""

    at: float = field(default_factory=time.perf_counter, compare=False, repr=False)


@quick
@dataclass(frozen=True, slots=True)
class Written:
    """One token of a turn: the text it adds, "" while a character is incomplete, a special token's name.

    forced: the grammar left no choice, and the model no pass. special: it is no text of the turn.
    """

    text: str
    forced: bool = False
    special: bool = False


@quick
@dataclass(frozen=True, slots=True)
class ObserveDelta(Event):
    """Text of the observing phase, what the model makes of the results before it, as it comes."""

    text: str


@quick
@dataclass(frozen=True, slots=True)
class PlanDelta(Event):
    """Text of the planning phase, as it comes."""

    text: str


@quick
@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """Text of the turn, as it comes. Never splits a code point."""

    text: str


@quick
@dataclass(frozen=True, slots=True)
class CallStarted(Event):
    """The model has committed to a call of this tool; arguments follow."""

    call_id: str
    name: str


@quick
@dataclass(frozen=True, slots=True)
class CallDelta(Event):
    """More argument text. The deltas of a call concatenate to exactly `ToolCall.arguments`."""

    call_id: str
    text: str


@quick
@dataclass(frozen=True, slots=True)
class CallReady(Event):
    """The call is complete (or cut: `call.complete` says)."""

    call: ToolCall


@quick
@dataclass(frozen=True, slots=True)
class TurnEnd(Event):
    """Last event of a model turn. written is the turn token by token, ids are the ids of its text as the
    model's cache knows it, where the model counts tokens."""

    reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    written: tuple[Written, ...] = field(default=(), repr=False)
    ids: tuple[int, ...] = field(default=(), compare=False, repr=False)


ModelEvent: TypeAlias = ObserveDelta | PlanDelta | TextDelta | CallStarted | CallDelta | CallReady | TurnEnd


@quick
@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    call: ToolCall


@quick
@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """A call's result, in the order of finishing. `error` is the exception a tool raised, with its
    traceback, for the developer; the model never sees it."""

    call: ToolCall
    result: ToolResult
    seconds: float
    error: BaseException | None = field(default=None, compare=False)


StopReason: TypeAlias = Literal[
    "finished", "deferred", "max_turns", "max_calls", "max_tokens", "max_seconds", "repeated_call"
]
"""Why a run ended: an answer, calls whose results come later, or the limit that was reached."""


@quick
@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """A model is about to be asked: turns count from 1, messages is what it is shown, agent the name of whose
    turn it is."""

    turn: int
    messages: Sequence[Message] = field(default=(), repr=False)
    agent: str = ""


@quick
@dataclass(frozen=True, slots=True)
class TurnFinished(Event):
    """A turn is over: the model has spoken and its calls have run. The phases sum to the turn's wall time,
    and turns follow each other without a gap."""

    turn: int
    usage: Usage
    timings: Timings = field(compare=False)
    agent: str = ""


@quick
@dataclass(frozen=True, slots=True)
class TurnRetried(Event):
    """The model failed and is asked again, as the hook on_error said. attempt counts failures in a row."""

    error: BaseException = field(compare=False)
    attempt: int


@quick
@dataclass(frozen=True, slots=True)
class HandedOff(Event):
    """Another agent goes on with the conversation: `source` called for `target`, by their names."""

    call: ToolCall
    source: str
    target: str


@quick
@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """What the model reads was shortened; the record keeps everything.

    messages and tokens: how many the model would have read, and how many it reads now. tokens are exact where
    the model counts them. usage: what summarising cost.
    """

    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    summary: str
    usage: Usage = field(default_factory=Usage)


@quick
@dataclass(frozen=True, slots=True)
class ToolProgress(Event):
    """What a running tool said by `RunContext.report`."""

    call: ToolCall
    value: Any


@quick
@dataclass(frozen=True, slots=True)
class Nested(Event):
    """An event of a run inside the call `call_id`: of an agent that is this agent's tool."""

    call_id: str
    event: AgentEvent


@quick
@dataclass(frozen=True, slots=True)
class AskedAgain(Event):
    """The model's answer could not be used and it was told so: `reason` is the message it reads next."""

    reason: str


@quick
@dataclass(frozen=True, slots=True)
class RunResult(Generic[Out]):
    """What a run came to. `output` is the answer text, or the validated object when the agent has an
    output type. `messages` is the whole history, each call followed by its result.

    `reason` other than "finished" names the limit that ended the run; `output` is then the text of the last
    turn, or None where an output type asked for more. `failures` holds each call whose tool raised,
    `pending` each call that waits for its result, `per_turn` what each turn cost. `agent` is the name of the
    one that ended the run, after a hand-off another than began it. `usage` includes agents run as tools.
    """

    output: Out
    messages: tuple[Message, ...]
    usage: Usage
    timings: Timings
    turns: int
    reason: StopReason
    failures: tuple[ToolFinished, ...] = ()
    pending: tuple[ToolCall, ...] = ()
    per_turn: tuple[TurnFinished, ...] = ()
    agent: str = ""


@quick
@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """Last event of a run."""

    result: RunResult[Any]


AgentEvent: TypeAlias = (
    ModelEvent
    | TurnStarted
    | TurnFinished
    | TurnRetried
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | HandedOff
    | Compacted
    | Nested
    | AskedAgain
    | RunFinished
)
