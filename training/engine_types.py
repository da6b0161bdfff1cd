"""Generated conversations as the package's own messages and tools. Knows both; nothing of tokens."""

from __future__ import annotations

from typing import Any

from kogagent.types import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from kogagent.types import Message as EngineMessage
from training.render import dumps
from training.turns import Message


def tool_specs(tools: list[dict[str, Any]]) -> list[ToolSpec]:
    return [ToolSpec(t["name"], t["description"], t["parameters"]) for t in tools]


def engine_messages(messages: list[Message]) -> list[EngineMessage]:
    """Calls get the ids call_0, call_1…, in order; results follow their calls in order."""
    out: list[EngineMessage] = []
    open_calls: list[ToolCall] = []
    made = 0
    for m in messages:
        if m.role == "system":
            out.append(SystemMessage(m.text))
        elif m.role == "user":
            out.append(UserMessage(m.text))
        elif m.role == "assistant":
            calls = []
            for name, arguments in m.calls:
                calls.append(ToolCall(f"call_{made}", name, dumps(arguments)))
                made += 1
            open_calls = list(calls)
            out.append(AssistantMessage(text=m.text, calls=tuple(calls)))
        else:
            call = open_calls.pop(0)
            out.append(ToolMessage(ToolResult(call.id, call.name, m.text)))
    return out
