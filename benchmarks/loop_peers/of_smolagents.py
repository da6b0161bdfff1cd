"""smolagents: a ToolCallingAgent. Its tools and models are synchronous, and it answers through a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from smolagents import LogLevel, Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from benchmarks.loop_peers.script import Call, Script, names


class Scripted(Model):  # type: ignore[misc]
    script: Script[ChatMessage]

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        self.seen = messages
        return self.script.next_turn()


class Look(Tool):  # type: ignore[misc]
    name = "look"
    description = "Look at a folder."
    inputs: ClassVar[dict[str, Any]] = {
        "path": {"type": "string", "description": "the folder"},
        "depth": {"type": "integer", "description": "how many levels", "nullable": True},
    }
    output_type = "array"

    def forward(self, path: str, depth: int | None = 1) -> list[str]:
        return [path, "a.txt"]


def say(call: Call | None) -> ChatMessage:
    name = "final_answer" if call is None else "look"
    id, arguments = call or ("call_last", {"answer": "done"})
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessage(MessageRole.ASSISTANT, "", [ChatMessageToolCall(function, id, "function")])


def prepare(tools: int) -> Callable[[Script[ChatMessage]], Awaitable[int]]:
    def named(name: str) -> Tool:
        one = Look()
        one.name = name
        return one

    model = Scripted()
    agent = ToolCallingAgent(
        tools=[named(name) for name in names(tools)], model=model, verbosity_level=LogLevel.OFF
    )

    async def run(script: Script[ChatMessage]) -> int:
        model.script = script
        assert agent.run("go", max_steps=script.turns) == "done"
        return sum(message.role == MessageRole.TOOL_RESPONSE for message in model.seen)

    return run
