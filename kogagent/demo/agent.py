"""The demo's agent: tools, instructions, limits, and how a small model writes its calls. Knows no weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogagent.demo import museum
from kogagent.demo.examples import worked_examples
from kogagent.loop.agent import Agent
from kogagent.loop.limits import Limits
from kogagent.loop.protocols import Model, ModelSource
from kogagent.spec import CallFormat
from kogagent.tools.tool import tool
from kogagent.types import Message

if TYPE_CHECKING:
    from kogagent.local import Engine

DEFAULT_MODEL = "laneformer-nano"
DEFAULT_QUESTION = "What did the Merlin expedition cost per day?"
INSTRUCTIONS = (
    "You answer questions about a museum. Plan one step, call one tool, read its result, until you can "
    "answer in one sentence. Copy numbers and names from the results."
)
PLAN_TOKENS = 48

NAME_FIRST = CallFormat(
    name="name-first",
    trigger="<tool_call>",
    begin="<tool_call>",
    prefix="",
    middle=" ",
    suffix="",
    between="</tool_call>\n<tool_call>",
    end="</tool_call>",
    signatures=True,
)
"""A call as NAME ARGUMENTS. In JSON the same words stand in front of every name, and a model of 135M
parameters then repeats the name of its last call, whatever it has just planned. Signatures: the pattern of
SQL alone is a quarter of the prompt, and the grammar holds it."""


class _NameFirst:
    """An engine whose runs write calls name first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        return self._engine.name

    def as_model(self) -> Model:
        return self._engine.model(call_format=NAME_FIRST)


def demo_model(engine: Engine) -> ModelSource:
    """The engine as the demo uses it: a model whose template shows calls keeps its format, others write the
    name first."""
    return engine if engine.chat.native_tools else _NameFirst(engine)


def demo_history(engine: Engine, question: str) -> list[Message]:
    """What stands in front of a question: for a general model worked examples, for one that is made for tools
    nothing, since LaneFormer-nano answers fewer of the measured questions with them (docs/demo.md)."""
    return [] if engine.chat.native_tools else worked_examples(question)


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
