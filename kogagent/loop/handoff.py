"""Handing a conversation to another agent, as a tool the model calls. Knows agents by name only."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kogagent.errors import InputError, named_fields
from kogagent.loop.transcript import Transcript
from kogagent.types import AssistantMessage, HandOverMessage, SummaryMessage, UserMessage

if TYPE_CHECKING:
    from kogagent.loop.agent import Agent
    from kogagent.tools.tool import Tool


@named_fields
@dataclass(frozen=True, slots=True)
class Handoff:
    """Another agent that may take a conversation over.

    name, description: of the tool by which the model does it; without, they are made of the agent's.
    history: "all" lets the next agent read everything but the hand-off's call, "task" the user's last message
    and the reason of the hand-off alone.

    A model that reads the call and its result may take them for an answer to what was asked. So it is in the
    record alone, and the next agent goes on from what was before. Only an agent that gets the conversation
    back in the same run reads the call and its reason: else it would hand over again.

    The run goes on under the first agent's limits, with the next agent's instructions, tools, model and
    rules. A next agent without instructions keeps those of the one before.
    """

    agent: Agent
    name: str = ""
    description: str = ""
    history: Literal["all", "task"] = "all"

    def __post_init__(self) -> None:
        from kogagent.loop.agent import Agent

        if not isinstance(self.agent, Agent):
            raise InputError(f"Handoff({self.agent!r}): it takes an Agent")
        if self.history not in ("all", "task"):
            raise InputError(f"Handoff.history={self.history!r} must be 'all' or 'task'")

    def prepare(self, transcript: Transcript, handoffs: Container[str], *, back: bool) -> None:
        """Leave to the next agent what it is to read. handoffs: names of the calls by which the agent before
        may hand over; back: the next agent has had the conversation in this run."""
        if transcript.awaiting:
            return  # the turn's other calls have their results to come: it has to stay
        view = transcript.view
        turn = next(m for m in reversed(view) if isinstance(m, AssistantMessage))
        if self.history == "all":
            if not back:
                calls = tuple(call.id for call in turn.calls if call.name in handoffs)
                transcript.post(HandOverMessage(self.agent.name, calls))
            return
        task = next((m.text for m in reversed(view) if isinstance(m, UserMessage)), "")
        reasons = [call.arguments for call in turn.calls if call.name == self.tool_name]
        told = f"{task}\n\n[Handed over: {reasons[0]}]" if reasons and reasons[0] != "{}" else task
        transcript.post(SummaryMessage(told, 0))

    @property
    def tool_name(self) -> str:
        return self.name or "transfer_to_" + re.sub(r"\W+", "_", self.agent.name).strip("_")


def handoff_tool(handoff: Handoff) -> Tool[..., Any]:
    """What the model calls. That it was called is all: the run does the rest."""
    from kogagent.tools.tool import Tool

    async def hand_over(reason: str = "") -> str:
        return HandOverMessage(handoff.agent.name, ()).text

    description = handoff.description or _described(handoff.agent)
    return Tool(hand_over, name=handoff.tool_name, description=description)


def _described(agent: Agent) -> str:
    """What the agent is for, then how it is reached: small models go by how a description begins."""
    said = agent.description
    if not said:
        return f"Hand the conversation over to {agent.name}."
    return f"{said if said[-1] in '.!?…' else said + '.'} Hands the conversation over to {agent.name}."
