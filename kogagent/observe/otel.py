"""Runs as OpenTelemetry spans and metrics, by the GenAI semantic conventions. Knows events; no model.

Spans are `invoke_agent NAME`, below it `chat MODEL` for each turn and `execute_tool NAME` for each call. A
tool runs with its span as the current one, so that what it does itself is found below it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextvars import Token
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kogagent.errors import MissingExtraError, named_options
from kogagent.loop.notation import message_to_json
from kogagent.loop.observers import RunInfo
from kogagent.observe.phases import phases
from kogagent.types import (
    AgentEvent,
    AskedAgain,
    AssistantMessage,
    CallReady,
    CallStarted,
    Compacted,
    Event,
    HandedOff,
    Message,
    ObserveDelta,
    PlanDelta,
    RunFinished,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnd,
    TurnFinished,
    TurnRetried,
    TurnStarted,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_FINISHED = {"stop": "stop", "stop_text": "stop", "length": "length", "context": "length"}


class OpenTelemetry:
    """An observer that makes spans and metrics: `Agent(…, observers=[OpenTelemetry()])`.

    tracer_provider and meter_provider are the global ones by default. content: also record what was said,
    asked and answered; off by default, since it may be private. Raises MissingExtraError without the extra
    `otel`.
    """

    @named_options
    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise MissingExtraError("OpenTelemetry", "opentelemetry-api", "otel") from error
        self._tracer = trace.get_tracer("kogagent", tracer_provider=tracer_provider)
        self._instruments = _Instruments(metrics.get_meter("kogagent", meter_provider=meter_provider))
        self._content = content

    def run_started(self, run: RunInfo) -> _Run:
        return _Run(run, self._tracer, self._instruments, self._content)


class _Instruments:
    """The metrics."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, told: str, bounds: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=told, explicit_bucket_boundaries_advisory=bounds
            )

        self.tokens = histogram("gen_ai.client.token.usage", "{token}", "Tokens of a turn.", _TOKENS)
        self.duration = histogram("gen_ai.client.operation.duration", "s", "Of an operation.", _SECONDS)
        self.first = histogram("gen_ai.server.time_to_first_token", "s", "From the request on.", _SECONDS)
        self.each = histogram("gen_ai.server.time_per_output_token", "s", "After the first.", _SECONDS)
        self.phase = histogram("kogagent.turn.phase.duration", "s", "Of a phase of a turn.", _SECONDS)
        self.saved = meter.create_counter(
            "kogagent.tokens.saved", unit="{token}", description="Tokens that cost no pass: reused, forced."
        )


class _Run:
    """The spans of one run."""

    def __init__(self, run: RunInfo, tracer: Tracer, instruments: _Instruments, content: bool) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer, self._instruments, self._content = tracer, instruments, content
        self._model = run.model
        self._tools = {tool.name: tool for tool in run.tools}
        self._offset_ns = time.time_ns() - int(time.perf_counter() * 1e9)
        self._began = time.perf_counter()
        attributes = self._named("invoke_agent") | {
            "gen_ai.agent.name": run.agent,
            "kogagent.run.id": run.id,
            "kogagent.history.messages": run.messages,
        }
        if content:
            tools = [{"type": "function", **asdict(tool)} for tool in run.tools]
            attributes["gen_ai.tool.definitions"] = json.dumps(tools)
        self._span = tracer.start_span(f"invoke_agent {run.agent}", attributes=attributes)
        self._inside = trace.set_span_in_context(self._span)
        self._entered = self._enter(self._inside)
        self._chat: Span | None = None
        self._turn: TurnStarted | None = None
        self._first: float | None = None  # when the first of the turn came
        self._text, self._asked = "", list[ToolCall]()  # what the turn has said
        self._calls: dict[str, tuple[Span, Token[Context] | None]] = {}
        self._failed = ""

    def _named(self, operation: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "kogagent",
            "gen_ai.request.model": self._model,
        }

    # ── the observer ──

    def event(self, event: AgentEvent) -> None:
        match event:
            case TurnStarted():
                self._turn_started(event)
            case ObserveDelta(text) | PlanDelta(text) | TextDelta(text):
                self._first = event.at if self._first is None else self._first
                if self._content:
                    self._text += text
            case CallStarted():
                self._first = event.at if self._first is None else self._first
            case CallReady(call):
                self._asked.append(call)
            case TurnEnd():
                self._turn_end(event)
            case ToolStarted(call):
                self._tool_started(event, call)
            case ToolFinished():
                self._tool_finished(event)
            case TurnFinished(_, usage, timings):
                *rows, _ = phases(usage, timings)
                for row in rows:
                    if row.seconds > 0:
                        labels = {"kogagent.phase": row.name, "gen_ai.request.model": self._model}
                        self._instruments.phase.record(row.seconds, labels)
            case TurnRetried(error, attempt):
                self._end_chat(type(error).__name__)
                self._told("turn_retried", event, {"attempt": attempt, "error.type": type(error).__name__})
                if self._turn is not None:
                    self._turn_started(self._turn, at=event.at)
            case HandedOff(_, source, target):
                self._told("handed_off", event, {"source": source, "target": target})
            case Compacted():
                counts = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
                self._told("compacted", event, counts)
            case AskedAgain(reason):
                self._told("asked_again", event, {"reason": reason} if self._content else {})
            case RunFinished(result):
                self._span.set_attributes(
                    {
                        "gen_ai.usage.input_tokens": result.usage.prompt_tokens,
                        "gen_ai.usage.output_tokens": result.usage.completion_tokens,
                        "kogagent.run.reason": result.reason,
                        "kogagent.run.turns": result.turns,
                    }
                )
            case _:
                pass

    def ended(self, error: BaseException | None) -> None:
        failed = "" if error is None else type(error).__name__
        for span, _ in self._calls.values():
            self._end(span, failed or "cancelled")
        self._calls.clear()
        self._end_chat(failed)
        if isinstance(error, Exception):  # not that it was cancelled
            self._span.record_exception(error)
        self._end(self._span, failed)
        labels = self._named("invoke_agent") | ({"error.type": failed} if failed else {})
        self._instruments.duration.record(time.perf_counter() - self._began, labels)
        self._leave(self._entered, self._span)

    # ── turns ──

    def _turn_started(self, event: TurnStarted, at: float | None = None) -> None:
        self._turn, self._first = event, None
        self._text, self._asked = "", []
        self._chat = self._tracer.start_span(
            f"chat {self._model}",
            context=self._inside,
            attributes=self._named("chat") | {"kogagent.turn": event.turn, "gen_ai.agent.name": event.agent},
            start_time=self._ns(event.at if at is None else at),
        )
        if self._content:
            system = [m.text for m in event.messages if isinstance(m, SystemMessage)]
            others = [m for m in event.messages if not isinstance(m, SystemMessage)]
            self._chat.set_attribute("gen_ai.system_instructions", _parts(system))
            self._chat.set_attribute("gen_ai.input.messages", json.dumps([_message(m) for m in others]))

    def _turn_end(self, event: TurnEnd) -> None:
        if self._chat is None or self._turn is None:
            return
        usage = event.usage
        reason = "tool_call" if self._asked else _FINISHED.get(event.reason, event.reason)
        if self._content:
            said = _message(AssistantMessage(self._text, "", tuple(self._asked)))
            self._chat.set_attribute(
                "gen_ai.output.messages", json.dumps([{**said, "finish_reason": reason}])
            )
        self._chat.set_attributes(
            {
                "gen_ai.response.model": self._model,
                "gen_ai.response.finish_reasons": [reason],
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.reused_tokens,
                "kogagent.usage.forced_tokens": usage.forced_tokens,
                "kogagent.usage.steps": usage.steps,
            }
        )
        labels = self._named("chat")
        instruments, started = self._instruments, self._turn.at
        instruments.tokens.record(usage.prompt_tokens, labels | {"gen_ai.token.type": "input"})
        instruments.tokens.record(usage.completion_tokens, labels | {"gen_ai.token.type": "output"})
        instruments.duration.record(event.at - started, labels)
        instruments.saved.add(usage.reused_tokens, labels | {"kogagent.saved": "reused"})
        instruments.saved.add(usage.forced_tokens, labels | {"kogagent.saved": "forced"})
        if self._first is not None:
            instruments.first.record(self._first - started, labels)
            if usage.completion_tokens > 1:
                instruments.each.record((event.at - self._first) / (usage.completion_tokens - 1), labels)
        self._end_chat("", event.at)

    def _end_chat(self, failed: str, at: float | None = None) -> None:
        if self._chat is not None:
            self._end(self._chat, failed, at)
            self._chat = None

    # ── calls ──

    def _tool_started(self, event: Event, call: ToolCall) -> None:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if call.name in self._tools:
            attributes["gen_ai.tool.description"] = self._tools[call.name].description
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = call.arguments
        span = self._tracer.start_span(
            f"execute_tool {call.name}",
            context=self._inside,
            attributes=attributes,
            start_time=self._ns(event.at),
        )
        # Only where the run's own span is the current one: else this is not the task that runs the tool.
        entered = None
        if self._trace.get_current_span() is self._span:
            entered = self._enter(self._trace.set_span_in_context(span))
        self._calls[call.id] = (span, entered)

    def _tool_finished(self, event: ToolFinished) -> None:
        if event.call.id not in self._calls:
            return  # one that never started: denied, too many
        span, entered = self._calls.pop(event.call.id)
        result = event.result
        span.set_attribute("kogagent.tool.status", result.status)
        if self._content:
            span.set_attribute("gen_ai.tool.call.result", result.text)
        if event.error is not None:
            span.record_exception(event.error)
        failed = "" if result.status == "ok" else type(event.error).__name__ if event.error else result.status
        self._end(span, failed, event.at)
        labels: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.call.name,
            **({"error.type": failed} if failed else {}),
        }
        self._instruments.duration.record(event.seconds, labels)
        self._leave(entered, span)

    # ── spans ──

    def _told(self, name: str, event: Event, attributes: Mapping[str, Any]) -> None:
        self._span.add_event(f"kogagent.{name}", attributes, timestamp=self._ns(event.at))

    def _end(self, span: Span, failed: str, at: float | None = None) -> None:
        if failed:
            span.set_attribute("error.type", failed)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(None if at is None else self._ns(at))

    def _ns(self, at: float) -> int:
        return int(at * 1e9) + self._offset_ns

    def _enter(self, context: Context) -> Token[Context]:
        from opentelemetry import context as contexts

        return contexts.attach(context)

    def _leave(self, entered: Token[Context] | None, span: Span) -> None:
        """Back to the context before, if this is the task that left it: a token is of no use in another."""
        from opentelemetry import context as contexts

        if entered is not None and self._trace.get_current_span() is span:
            contexts.detach(entered)


def _parts(texts: list[str]) -> str:
    return json.dumps([{"type": "text", "content": text} for text in texts])


def _message(message: Message) -> dict[str, Any]:
    """A message as the conventions write it."""
    value = message_to_json(message)
    role = value["role"]
    if role == "tool":
        part = {"type": "tool_call_response", "id": value["call_id"], "response": value["text"]}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = []
    text = "\n".join(filter(None, (value.get("plan", ""), value["text"])))
    if text:
        parts.append({"type": "text", "content": text})
    for call in value.get("calls", ()):
        part = {key: call[key] for key in ("id", "name", "arguments")}
        parts.append({"type": "tool_call", **part})
    return {"role": role if role in ("user", "assistant") else "user", "parts": parts}
