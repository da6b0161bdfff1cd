"""What a run needs from its agent and its reader. Knows no particular of either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kogagent.loop.guardrails import Guardrails
from kogagent.loop.hooks import Hooks
from kogagent.loop.limits import Limits
from kogagent.loop.protocols import Model, ToolChoice, Tools
from kogagent.loop.step import Check
from kogagent.loop.transcript import Transcript
from kogagent.sampling import SamplingParams
from kogagent.types import AgentEvent, JSONValue
from kogagent.types.quick import quick

if TYPE_CHECKING:
    from kogagent.loop.compaction import Compaction


class Sink(Protocol):
    """Where the events of a run go."""

    @property
    def waited_s(self) -> float:
        """Seconds the run has waited for whoever reads."""

    def put(self, event: AgentEvent) -> bool:
        """Take an event. True where it is time for the run to wait for `drained`."""

    async def drained(self) -> None:
        """Wait until every event is taken and another is asked for."""


class Successor(Protocol):
    """An agent that can go on with a conversation."""

    async def enter(self, transcript: Transcript, deps: Any) -> Setup:
        """Make the conversation its own."""


@quick
@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run needs of one agent, checked.

    check and output_schema are None where any text is an answer. on_tool_error "raise": an exception of a
    tool that it did not raise on purpose cancels the calls beside it and ends the run. handoffs: the agent
    that goes on after a call of that name.
    """

    model: Model
    tools: Tools
    limits: Limits
    name: str = "agent"
    tool_choice: ToolChoice = "auto"
    plan_tokens: int = 0
    observe_tokens: int = 0
    output_schema: Mapping[str, JSONValue] | None = None
    check: Check | None = None
    on_tool_error: Literal["tell", "raise"] = "tell"
    hooks: Hooks = field(default_factory=Hooks)
    guardrails: Guardrails = field(default_factory=Guardrails)
    compaction: Compaction | None = None
    handoffs: Mapping[str, Successor] = field(default_factory=dict)
    sampling: SamplingParams | None = None
    priority: int = 0
