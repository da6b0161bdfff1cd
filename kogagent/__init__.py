"""Agent runtime with an in-process latency engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.errors import (
        ConfigError,
        ContextError,
        Deferred,
        DeviceError,
        EngineClosedError,
        GuardrailError,
        InputError,
        KogagentError,
        MissingExtraError,
        ModelError,
        Retry,
        SchemaError,
        ToolError,
        ToolFailed,
    )
    from kogagent.local import Choices, Ebnf, Engine, JsonSchema, Regex
    from kogagent.loop.agent import Agent
    from kogagent.loop.compaction import Compaction
    from kogagent.loop.conversation import BestOf, Conversation
    from kogagent.loop.guardrails import Guardrails
    from kogagent.loop.handoff import Handoff
    from kogagent.loop.hooks import Hooks
    from kogagent.loop.limits import Limits
    from kogagent.loop.notation import messages_from_json, messages_to_json
    from kogagent.loop.observers import Observer, RunInfo, RunObserver
    from kogagent.loop.protocols import Model, ModelSource, TurnRequest
    from kogagent.loop.sessions import SessionStore
    from kogagent.loop.stream import AgentStream
    from kogagent.loop.transcript import Transcript
    from kogagent.sampling import SamplingParams
    from kogagent.tools.tool import Tool, tool
    from kogagent.tools.toolbox import Toolbox
    from kogagent.types import (
        AgentEvent,
        Answer,
        Approved,
        AskedAgain,
        AssistantMessage,
        CallDelta,
        CallReady,
        CallStarted,
        Compacted,
        Denied,
        Event,
        File,
        HandedOff,
        HandOverMessage,
        Message,
        ModelEvent,
        Nested,
        ObserveDelta,
        PlanDelta,
        RunContext,
        RunFinished,
        RunResult,
        SummaryMessage,
        Supplied,
        SystemMessage,
        TextDelta,
        Timings,
        ToolCall,
        ToolFinished,
        ToolMessage,
        ToolProgress,
        ToolResult,
        ToolSpec,
        ToolStarted,
        TurnEnd,
        TurnFinished,
        TurnRetried,
        TurnStarted,
        Usage,
        UserMessage,
        Written,
    )

# Where each public name lives. Nothing is imported before it is asked for: the package must load in
# milliseconds and without torch, whatever its parts need.
_NAMES_OF = {
    "errors": "ConfigError ContextError Deferred DeviceError EngineClosedError GuardrailError InputError "
    "KogagentError MissingExtraError ModelError Retry SchemaError ToolError ToolFailed",
    "local": "Choices Ebnf Engine JsonSchema Regex",
    "loop.agent": "Agent",
    "loop.compaction": "Compaction",
    "loop.conversation": "BestOf Conversation",
    "loop.guardrails": "Guardrails",
    "loop.handoff": "Handoff",
    "loop.hooks": "Hooks",
    "loop.limits": "Limits",
    "loop.observers": "Observer RunInfo RunObserver",
    "loop.notation": "messages_from_json messages_to_json",
    "loop.protocols": "Model ModelSource TurnRequest",
    "loop.sessions": "SessionStore",
    "loop.stream": "AgentStream",
    "loop.transcript": "Transcript",
    "sampling": "SamplingParams",
    "tools.tool": "Tool tool",
    "tools.toolbox": "Toolbox",
    "types": "AgentEvent Answer Approved AskedAgain AssistantMessage CallDelta CallReady CallStarted "
    "Compacted Denied Event File HandOverMessage HandedOff Message ModelEvent Nested ObserveDelta PlanDelta "
    "RunContext RunFinished RunResult SummaryMessage Supplied SystemMessage TextDelta Timings "
    "ToolCall ToolFinished ToolMessage ToolProgress ToolResult ToolSpec ToolStarted TurnEnd "
    "TurnFinished TurnRetried TurnStarted Usage UserMessage Written",
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentStream",
    "Answer",
    "Approved",
    "AskedAgain",
    "AssistantMessage",
    "BestOf",
    "CallDelta",
    "CallReady",
    "CallStarted",
    "Choices",
    "Compacted",
    "Compaction",
    "ConfigError",
    "ContextError",
    "Conversation",
    "Deferred",
    "Denied",
    "DeviceError",
    "Ebnf",
    "Engine",
    "EngineClosedError",
    "Event",
    "File",
    "GuardrailError",
    "Guardrails",
    "HandOverMessage",
    "HandedOff",
    "Handoff",
    "Hooks",
    "InputError",
    "JsonSchema",
    "KogagentError",
    "Limits",
    "Message",
    "MissingExtraError",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelSource",
    "Nested",
    "ObserveDelta",
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
    "SummaryMessage",
    "Supplied",
    "SystemMessage",
    "TextDelta",
    "Timings",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolFailed",
    "ToolFinished",
    "ToolMessage",
    "ToolProgress",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "Toolbox",
    "Transcript",
    "TurnEnd",
    "TurnFinished",
    "TurnRequest",
    "TurnRetried",
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
