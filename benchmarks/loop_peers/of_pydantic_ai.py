"""pydantic-ai: an Agent on a FunctionModel that gives its usage, so that no tokens are counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks.loop_peers.script import Script, look, names

_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


def prepare(tools: int) -> Callable[[Script], Awaitable[int]]:
    playing: Script

    async def say(messages: list[Any], info: Any) -> ModelResponse:
        call = playing.next_call()
        if call is None:
            return ModelResponse([TextPart("done")], usage=_USAGE)
        return ModelResponse([ToolCallPart("look", call[1], call[0])], usage=_USAGE)

    agent = Agent(FunctionModel(say), tools=[Tool(look, name=name) for name in names(tools)])

    async def run(script: Script) -> int:
        nonlocal playing
        playing = script
        result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
        assert result.output == "done"
        parts = (p for m in result.all_messages() if isinstance(m, ModelRequest) for p in m.parts)
        return sum(isinstance(part, ToolReturnPart) for part in parts)

    return run
