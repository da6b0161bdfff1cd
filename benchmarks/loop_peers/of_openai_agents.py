"""openai-agents: an Agent on a Model of ours, without tracing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import agents
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.loop_peers.script import Call, Script, look, names


class Scripted(agents.Model):
    script: Script[agents.ModelResponse]

    async def get_response(
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> agents.ModelResponse:
        self.seen = input
        return self.script.next_turn()

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("the script is asked for whole turns")


def say(call: Call | None) -> agents.ModelResponse:
    item: Any
    if call is None:
        text = ResponseOutputText(annotations=[], text="done", type="output_text")
        item = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
    else:
        item = ResponseFunctionToolCall(
            arguments=json.dumps(call[1]), call_id=call[0], name="look", type="function_call"
        )
    return agents.ModelResponse([item], agents.Usage(requests=1), None)


def prepare(tools: int) -> Callable[[Script[agents.ModelResponse]], Awaitable[int]]:
    agents.set_tracing_disabled(True)
    model = Scripted()
    agent = agents.Agent(
        name="looker",
        model=model,
        tools=[agents.function_tool(look, name_override=name) for name in names(tools)],
    )

    async def run(script: Script[agents.ModelResponse]) -> int:
        model.script = script
        result = await agents.Runner.run(agent, "go", max_turns=script.turns)
        assert result.final_output == "done"
        return sum(item.get("type") == "function_call_output" for item in model.seen)

    return run
