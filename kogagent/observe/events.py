"""An event of a run as one JSON object. Knows the event types, no terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, assert_never

from kogagent.observe.phases import phases
from kogagent.types import (
    AgentEvent,
    AskedAgain,
    CallDelta,
    CallReady,
    CallStarted,
    Compacted,
    HandedOff,
    Nested,
    ObserveDelta,
    PlanDelta,
    RunFinished,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnd,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    Written,
)


def as_json(event: AgentEvent) -> dict[str, Any]:
    """`event` names the kind; the other keys are its fields as plain values. When it was is `event.at`."""
    match event:
        case ObserveDelta(text):
            return {"event": "observe_delta", "text": text}
        case PlanDelta(text):
            return {"event": "plan_delta", "text": text}
        case TextDelta(text):
            return {"event": "text_delta", "text": text}
        case CallStarted(call_id, name):
            return {"event": "call_started", "call_id": call_id, "name": name}
        case CallDelta(call_id, text):
            return {"event": "call_delta", "call_id": call_id, "text": text}
        case CallReady(call):
            return {"event": "call_ready", **_call(call), "complete": call.complete}
        case ToolStarted(call):
            return {"event": "tool_started", **_call(call)}
        case ToolFinished(call, result, seconds, error):
            return {
                "event": "tool_finished",
                **_call(call),
                "status": result.status,
                "text": result.text,
                "seconds": seconds,
                "error": None if error is None else f"{type(error).__name__}: {error}",
            }
        case AskedAgain(reason):
            return {"event": "asked_again", "reason": reason}
        case TurnStarted(turn, messages, agent):
            return {"event": "turn_started", "turn": turn, "messages": len(messages), "agent": agent}
        case TurnFinished(turn, usage, timings, agent):
            return {
                "event": "turn_finished",
                "turn": turn,
                "agent": agent,
                "usage": asdict(usage),
                "timings": asdict(timings),
            }
        case TurnRetried(error, attempt):
            return {"event": "turn_retried", "error": f"{type(error).__name__}: {error}", "attempt": attempt}
        case ToolProgress(call, value):
            return {"event": "tool_progress", **_call(call), "value": value}
        case HandedOff(call, source, target):
            return {"event": "handed_off", **_call(call), "source": source, "target": target}
        case Compacted():
            return {
                "event": "compacted",
                "messages_before": event.messages_before,
                "messages_after": event.messages_after,
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
                "summary": event.summary,
                "usage": asdict(event.usage),
            }
        case Nested(call_id, inner):
            return {"event": "nested", "call_id": call_id, "inner": as_json(inner)}  # at the same time
        case TurnEnd(reason, usage, timings, written):
            return {
                "event": "turn_end",
                "reason": reason,
                "usage": asdict(usage),
                "timings": asdict(timings),
                "written": [[token.text, _kind(token)] for token in written],
            }
        case RunFinished(result):
            return {
                "event": "run_finished",
                "output": result.output,
                "reason": result.reason,
                "turns": result.turns,
                "usage": asdict(result.usage),
                "timings": asdict(result.timings),
                "phases": [
                    {
                        "phase": phase.name,
                        "seconds": phase.seconds,
                        "tokens": phase.tokens,
                        "tokens_per_second": phase.tokens_per_second,
                    }
                    for phase in phases(result.usage, result.timings)
                ],
            }
        case _:
            assert_never(event)


def _kind(token: Written) -> str:
    return "special" if token.special else "forced" if token.forced else "sampled"


def _call(call: ToolCall) -> dict[str, Any]:
    return {"call_id": call.id, "name": call.name, "arguments": call.arguments}
