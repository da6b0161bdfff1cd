"""What a tool is given and gives back, and what a caller says of a call that waits. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar

from kogagent.types.accounting import Usage
from kogagent.types.messages import Message, ToolCall, ToolResult
from kogagent.types.quick import quick

if TYPE_CHECKING:
    from kogagent.types.events import AgentEvent

Deps = TypeVar("Deps", default=Any)


@quick
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
    _run: RunPort | None = field(default=None, compare=False, repr=False)

    def report(self, value: Any) -> None:
        """Say how far the tool is: a ToolProgress event of the run, or what an MCP client is told. From any
        thread."""
        if self._run is not None:
            self._run.progress(self.call, value)


class RunPort(Protocol):
    """What a tool's context can do to the run."""

    def progress(self, call: ToolCall, value: Any) -> None:
        """Tell whoever reads the run. From any thread."""

    def nested(self, call: ToolCall, event: AgentEvent) -> None:
        """Tell of an event of a run inside the call."""

    def spent(self, usage: Usage) -> None:
        """Count tokens that the call cost."""

    async def drained(self) -> None:
        """Wait until whoever reads the run has taken every event and wants more."""


@quick
@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """One call done: the result the model reads, and what only the developer sees.

    started and ended are `time.perf_counter()` around the tool's own code, equal when it never ran. error is
    the exception it raised, with its traceback; bug says that it was none of those a tool raises on purpose.
    max_tokens: the tool's own bound of its result's text, None where the run's holds.
    """

    result: ToolResult
    started: float = 0.0
    ended: float = 0.0
    error: BaseException | None = field(default=None, compare=False)
    bug: bool = False
    max_tokens: int | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started


# ── what a caller says of a call that waits ──────────────────────────────────────────────────


@quick
@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run."""


@quick
@dataclass(frozen=True, slots=True)
class Denied:
    """The call may not run; reason is told to the model."""

    reason: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Supplied:
    """The call was done elsewhere; value is its result, as a tool would have returned it."""

    value: Any


Answer: TypeAlias = Approved | Denied | Supplied
"""What becomes of a deferred call: `agent.run(history=…, answers={call_id: Approved()})`."""
