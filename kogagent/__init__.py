"""Agent runtime with an in-process latency engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.engine.sampling import SamplingParams
    from kogagent.errors import (
        ConfigError,
        ContextError,
        DeviceError,
        EngineClosedError,
        InputError,
        KogagentError,
        MissingExtraError,
        ModelError,
        Retry,
        SchemaError,
        ToolError,
        ToolFailed,
    )
    from kogagent.local import Choices, Ebnf, Engine, Regex
    from kogagent.loop.agent import Agent
    from kogagent.loop.hooks import Hooks
    from kogagent.loop.limits import Limits
    from kogagent.loop.observers import Observer, RunInfo, RunObserver
    from kogagent.loop.sessions import SessionStore
    from kogagent.loop.stream import AgentStream
    from kogagent.loop.transcript import Transcript, messages_from_json, messages_to_json
    from kogagent.tools.tool import Tool, tool
    from kogagent.tools.toolbox import Toolbox
    from kogagent.types import (
        AgentEvent,
        AskedAgain,
        AssistantMessage,
        CallDelta,
        CallReady,
        CallStarted,
        Message,
        ModelEvent,
        PlanDelta,
        RunContext,
        RunFinished,
        RunResult,
        SystemMessage,
        TextDelta,
        Timings,
        ToolCall,
        ToolFinished,
        ToolMessage,
        ToolResult,
        ToolSpec,
        ToolStarted,
        TurnEnd,
        TurnFinished,
        TurnStarted,
        Usage,
        UserMessage,
        Written,
    )

# Where each public name lives. Nothing is imported before it is asked for: the package must load in
# milliseconds and without torch, whatever its parts need.
_NAMES_OF = {
    "engine.sampling": "SamplingParams",
    "errors": "ConfigError ContextError DeviceError EngineClosedError InputError KogagentError "
    "MissingExtraError ModelError Retry SchemaError ToolError ToolFailed",
    "local": "Choices Ebnf Engine Regex",
    "loop.agent": "Agent",
    "loop.hooks": "Hooks",
    "loop.limits": "Limits",
    "loop.observers": "Observer RunInfo RunObserver",
    "loop.sessions": "SessionStore",
    "loop.stream": "AgentStream",
    "loop.transcript": "Transcript messages_from_json messages_to_json",
    "tools.tool": "Tool tool",
    "tools.toolbox": "Toolbox",
    "types": "AgentEvent AskedAgain AssistantMessage CallDelta CallReady CallStarted Message ModelEvent "
    "PlanDelta RunContext RunFinished RunResult SystemMessage TextDelta Timings ToolCall ToolFinished "
    "ToolMessage ToolResult ToolSpec ToolStarted TurnEnd TurnFinished "
    "TurnStarted Usage UserMessage Written",
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentStream",
    "AskedAgain",
    "AssistantMessage",
    "CallDelta",
    "CallReady",
    "CallStarted",
    "Choices",
    "ConfigError",
    "ContextError",
    "DeviceError",
    "Ebnf",
    "Engine",
    "EngineClosedError",
    "Hooks",
    "InputError",
    "KogagentError",
    "Limits",
    "Message",
    "MissingExtraError",
    "ModelError",
    "ModelEvent",
    "Observer",
    "PlanDelta",
    "Regex",
    "Retry",
    "RunContext",
    "RunFinished",
    "RunInfo",
    "RunObserver",
    "RunResult",
    "SamplingParams",
    "SchemaError",
    "SessionStore",
    "SystemMessage",
    "TextDelta",
    "Timings",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolFailed",
    "ToolFinished",
    "ToolMessage",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "Toolbox",
    "Transcript",
    "TurnEnd",
    "TurnFinished",
    "TurnStarted",
    "Usage",
    "UserMessage",
    "Written",
    "messages_from_json",
    "messages_to_json",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("kogagent")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
