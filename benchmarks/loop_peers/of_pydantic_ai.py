"""pydantic-ai: an Agent on a FunctionModel that gives its usage, so that no tokens are counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks.loop_peers.script import Call, Script, look, names

_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


def say(call: Call | None) -> ModelResponse:
    part = TextPart("done") if call is None else ToolCallPart("look", call[1], call[0])
    return ModelResponse([part], usage=_USAGE)


def prepare(tools: int) -> Callable[[Script[ModelResponse]], Awaitable[int]]:
    playing: Script[ModelResponse]

    async def play(messages: list[Any], info: Any) -> ModelResponse:
        return playing.next_turn()

    agent = Agent(FunctionModel(play), tools=[Tool(look, name=name) for name in names(tools)])

    async def run(script: Script[ModelResponse]) -> int:
        nonlocal playing
        playing = script
        result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
        assert result.output == "done"
        parts = (p for m in result.all_messages() if isinstance(m, ModelRequest) for p in m.parts)
        return sum(isinstance(part, ToolReturnPart) for part in parts)

    return run
