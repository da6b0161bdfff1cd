"""Messages, tool specs, events: frozen values in closed unions. Knows no model, no device, no tokens.

Every value here is plain data: it can be compared, hashed where its fields allow, written as JSON
and read back. Identity, storage and behaviour live elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

Deps = TypeVar("Deps")

JSONValue: TypeAlias = Any
"""A value `json.dumps` accepts: None, bool, int, float, str, list or dict of the same."""


# ── tools ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of one tool.

    `parameters` is a JSON Schema of type object; property order is the order in which arguments
    are written.
    """

    name: str
    description: str
    parameters: Mapping[str, JSONValue]


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


ResultStatus: TypeAlias = Literal[
    "ok", "retry", "failed", "invalid", "unknown_tool", "timeout", "cancelled", "truncated", "denied"
]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of one call: the text the model reads, and whose it is.

    `status` tells a developer what happened; a model sees `text` alone.
    """

    call_id: str
    name: str
    text: str
    status: ResultStatus = "ok"

    @property
    def is_error(self) -> bool:
        return self.status != "ok"


# ── messages ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SystemMessage:
    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One model turn: the plan it stated (text before its calls), its calls, or its answer."""

    text: str = ""
    plan: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call, as the model reads it."""

    result: ToolResult


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


# ── accounting ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; they add.

    prompt = reused + prefilled; completion = sampled + forced. `steps` counts passes of the model
    while decoding: a forced run of several tokens costs one.
    """

    reused_tokens: int = 0
    prefilled_tokens: int = 0
    sampled_tokens: int = 0
    forced_tokens: int = 0
    steps: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.reused_tokens + self.prefilled_tokens

    @property
    def completion_tokens(self) -> int:
        return self.sampled_tokens + self.forced_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.reused_tokens + other.reused_tokens,
            self.prefilled_tokens + other.prefilled_tokens,
            self.sampled_tokens + other.sampled_tokens,
            self.forced_tokens + other.forced_tokens,
            self.steps + other.steps,
        )


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds a turn or a run spent in each phase; they add.

    prefill, sampled and forced are time inside the engine; reuse is finding and keeping what is in the cache;
    render is template, tokenizer and grammar; parse is reading what the model wrote;
    idle is waiting for the engine while it did none of these. dispatch is validating, asking for approval,
    hooks, starting calls and joining them; tool is the wall time in which at least one tool ran; append is
    writing the history; reader is time a run waited for whoever reads its events; wall is the whole. What is
    left is `loop_s`.
    """

    prefill_s: float = 0.0
    sampled_s: float = 0.0
    forced_s: float = 0.0
    render_s: float = 0.0
    tool_s: float = 0.0
    wall_s: float = 0.0
    reader_s: float = 0.0
    reuse_s: float = 0.0
    parse_s: float = 0.0
    idle_s: float = 0.0
    dispatch_s: float = 0.0
    append_s: float = 0.0

    @property
    def engine_s(self) -> float:
        """Time on the device."""
        return self.prefill_s + self.sampled_s + self.forced_s

    @property
    def loop_s(self) -> float:
        """Wall time in no other phase: the SDK's own."""
        model = self.engine_s + self.reuse_s + self.render_s + self.parse_s + self.idle_s
        return self.wall_s - model - self.dispatch_s - self.tool_s - self.append_s - self.reader_s

    def fitted(self) -> Timings:
        """The phases made to sum to no more than the wall. What went on while the device worked is counted
        once, as the device's: reader, idle and parse give way, in this order."""
        fitted = self
        for name in ("reader_s", "idle_s", "parse_s"):
            over = -fitted.loop_s
            if over <= 0:
                break
            fitted = replace(fitted, **{name: max(getattr(fitted, name) - over, 0.0)})
        return fitted

    def __add__(self, other: Timings) -> Timings:
        return Timings(
            self.prefill_s + other.prefill_s,
            self.sampled_s + other.sampled_s,
            self.forced_s + other.forced_s,
            self.render_s + other.render_s,
            self.tool_s + other.tool_s,
            self.wall_s + other.wall_s,
            self.reader_s + other.reader_s,
            self.reuse_s + other.reuse_s,
            self.parse_s + other.parse_s,
            self.idle_s + other.idle_s,
            self.dispatch_s + other.dispatch_s,
            self.append_s + other.append_s,
        )


FinishReason: TypeAlias = Literal["stop", "stop_text", "length", "context", "grammar", "cancelled"]
"""Why a segment ended: an end id, a stop string, the token limit, a full context, a grammar that
allows nothing more, or the caller."""


# ── what a model yields in one turn ──────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of every event. at: `time.perf_counter()` when it was made; events that differ in it alone are
    equal."""

    at: float = field(default_factory=time.perf_counter, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Written:
    """One token of a turn: the text it adds, "" while a character is incomplete, a special token's name.

    forced: the grammar left no choice, and the model no pass. special: it is no text of the turn.
    """

    text: str
    forced: bool = False
    special: bool = False


@dataclass(frozen=True, slots=True)
class PlanDelta(Event):
    """Text of the planning phase, as it comes."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """Text of the turn, as it comes. Never splits a code point."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted(Event):
    """The model has committed to a call of this tool; arguments follow."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallDelta(Event):
    """More argument text. The deltas of a call concatenate to exactly `ToolCall.arguments`."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallReady(Event):
    """The call is complete (or cut: `call.complete` says)."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class TurnEnd(Event):
    """Last event of a model turn. written is the turn token by token, where the model counts tokens."""

    reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    written: tuple[Written, ...] = field(default=(), repr=False)


ModelEvent: TypeAlias = PlanDelta | TextDelta | CallStarted | CallDelta | CallReady | TurnEnd


# ── what a tool is given and gives back ──────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Deps]):
    """What a tool may know of the run that calls it: a parameter annotated so is injected, never asked of
    the model.

    deps is what the caller passed to the run; call is the call being run, turn the number of its turn from 1;
    messages is the history up to and including the turn that made the call.
    """

    deps: Deps
    call: ToolCall
    turn: int = 1
    messages: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """One call done: the result the model reads, and what only the developer sees.

    started and ended are `time.perf_counter()` around the tool's own code, equal when it never ran. error is
    the exception it raised, with its traceback; bug says that it was neither Retry nor ToolFailed.
    """

    result: ToolResult
    started: float = 0.0
    ended: float = 0.0
    error: BaseException | None = field(default=None, compare=False)
    bug: bool = False

    @property
    def seconds(self) -> float:
        return self.ended - self.started


# ── what a run yields ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """A model is about to be asked: turns count from 1, messages is what it is shown."""

    turn: int
    messages: Sequence[Message] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """A call's result, in the order of finishing. `error` is the exception a tool raised, with its
    traceback, for the developer; the model never sees it."""

    call: ToolCall
    result: ToolResult
    seconds: float
    error: BaseException | None = field(default=None, compare=False)


StopReason: TypeAlias = Literal[
    "finished", "max_turns", "max_calls", "max_tokens", "max_seconds", "repeated_call"
]


@dataclass(frozen=True, slots=True)
class AskedAgain(Event):
    """The model's answer could not be used and it was told so: `reason` is the message it reads next."""

    reason: str


@dataclass(frozen=True, slots=True)
class TurnFinished(Event):
    """A turn is over: the model has spoken and its calls have run. The phases sum to the turn's wall time."""

    turn: int
    usage: Usage
    timings: Timings


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to. `output` is the answer text, or the validated object when the agent has an
    output type. `messages` is the whole history, each call followed by its result.

    `reason` other than "finished" names the limit that ended the run; `output` is then the text of the last
    turn, or None where an output type asked for more. `failures` holds each call whose tool raised.
    """

    output: Any
    messages: tuple[Message, ...]
    usage: Usage
    timings: Timings
    turns: int
    reason: StopReason
    failures: tuple[ToolFinished, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """Last event of a run."""

    result: RunResult


AgentEvent: TypeAlias = (
    ModelEvent | TurnStarted | ToolStarted | ToolFinished | AskedAgain | TurnFinished | RunFinished
)
