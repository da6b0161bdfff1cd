"""Other SDKs' loops on our engine: the turns that ours made, asked for by theirs. Knows no other program."""

from __future__ import annotations

import json
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.agent_loops.loops import INSTRUCTIONS
from benchmarks.child import Child

if TYPE_CHECKING:
    import openai

    from benchmarks.agent_loops.peers import Played


async def pydantic_ai_loop(client: openai.AsyncOpenAI, name: str, played: Played) -> float:
    """Seconds of the same turns under pydantic-ai: it ends when its limit of requests is reached."""
    import pydantic_ai
    from pydantic_ai.exceptions import UsageLimitExceeded
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    tools = [
        pydantic_ai.Tool.from_schema(t.function, t.name, t.spec.description, dict(t.spec.parameters))
        for t in played.tools
    ]
    settings: Any = {
        "temperature": 0.0,
        "max_tokens": 256,
        "parallel_tool_calls": False,
        # Its own tool_choice refuses to force a call in every turn: an agent of it must be able to end.
        "extra_body": {"tool_choice": {"type": "function", "function": {"name": "look"}}},
    }
    async with client:
        model = OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
        agent = pydantic_ai.Agent(model, instructions=INSTRUCTIONS, tools=tools, model_settings=settings)
        start = perf_counter()
        try:
            await agent.run(played.prompt, usage_limits=UsageLimits(request_limit=len(played.calls)))
        except UsageLimitExceeded:
            return perf_counter() - start
    raise ValueError("pydantic-ai ended its run before its limit: not the same run")


def smolagents_command(python: str) -> list[str]:
    """What starts smolagents in a Python that has it; it answers `smolagents_loop`."""
    return [python, "-m", "benchmarks.agent_loops.smolagents_loop"]


def smolagents_loop(child: Child, url: str, played: Played, seconds: float) -> float:
    """Seconds of as many turns under smolagents, over our endpoint."""
    asked = {
        "url": url,
        "prompt": played.prompt,
        "instructions": INSTRUCTIONS,
        "turns": len(played.calls),
    }
    return float(child.ask(json.dumps(asked), seconds))
