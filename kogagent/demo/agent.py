"""The demo's agent: tools, instructions, limits. Knows no particular model."""

from __future__ import annotations

from kogagent.demo import museum
from kogagent.loop.agent import Agent
from kogagent.loop.limits import Limits
from kogagent.loop.protocols import Model, ModelSource
from kogagent.tools.tool import tool

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_QUESTION = (
    "How many fossils did the Kestrel expedition find, and how high was its base camp in metres?"
)
INSTRUCTIONS = (
    "You answer questions about a museum. Plan one step, call one tool, read its result. Then answer in one "
    "sentence. Copy numbers and names from the results."
)
PLAN_TOKENS = 32


def museum_agent(model: Model | ModelSource) -> Agent:
    """An agent that answers from the museum's files and database. The first turn must call a tool: a model
    asked for facts it cannot know shall look before it speaks."""
    return Agent(
        model,
        [tool(function) for function in museum.TOOLS],
        instructions=INSTRUCTIONS,
        plan=PLAN_TOKENS,
        tool_choice="required",
        limits=Limits(max_turns=8, turn_tokens=160, turn_calls=1),
    )
