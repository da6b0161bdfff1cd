"""LangGraph: its prebuilt agent on a chat model of ours, without tracing or checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import create_react_agent

from benchmarks.loop_peers.script import Call, Script, look, names


class Scripted(BaseChatModel):  # type: ignore[misc]
    script: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        return self.script.next_turn()

    async def _agenerate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def say(call: Call | None) -> ChatResult:
    if call is None:
        said = AIMessage("done")
    else:
        said = AIMessage("", tool_calls=[{"name": "look", "args": call[1], "id": call[0]}])
    return ChatResult(generations=[ChatGeneration(message=said)])


def prepare(tools: int) -> Callable[[Script[ChatResult]], Awaitable[int]]:
    model = Scripted()
    offered = [StructuredTool.from_function(coroutine=look, name=name) for name in names(tools)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its new home is the package langchain; the agent is the same
        agent = create_react_agent(model, offered)

    async def run(script: Script[ChatResult]) -> int:
        model.script = script
        limit = {"recursion_limit": 2 * script.turns + 1}
        state = await agent.ainvoke({"messages": [("user", "go")]}, config=limit)
        messages = state["messages"]
        assert messages[-1].content == "done"
        return sum(isinstance(message, ToolMessage) for message in messages)

    return run
