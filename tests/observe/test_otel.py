"""Spans and metrics of runs, by the names of the GenAI conventions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from observed_runs import script, slow, weather
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kogagent import Agent, Usage
from kogagent.observe import OpenTelemetry
from kogagent.testing import ScriptedModel, ScriptedTurn, call


@dataclass
class Collected:
    tracers: TracerProvider
    meters: MeterProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def observer(self, *, content: bool = False) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, content=content)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    @property
    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def collected() -> Iterator[Collected]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider(metric_readers=[reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    yield Collected(tracers, meters, exporter, reader)
    tracers.shutdown()
    meters.shutdown()


async def test_a_run_is_a_span_with_its_turns_and_calls_below(collected: Collected) -> None:
    agent = Agent(script(), [weather, slow], observers=[collected.observer()], name="helper")
    await agent.run("Is it warm?")
    (run,) = collected.named("invoke_agent helper")
    chats = collected.named("chat ScriptedModel")
    calls = [*collected.named("execute_tool weather"), *collected.named("execute_tool slow")]
    assert len(collected.spans) == 7 == 1 + len(chats) + len(calls)
    for span in (*chats, *calls):
        assert span.parent is not None and span.parent.span_id == run.context.span_id
        times = (run.start_time, span.start_time, span.end_time, run.end_time)
        assert None not in times and list(times) == sorted(t for t in times if t is not None)
    assert run.attributes is not None
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["gen_ai.agent.name"] == "helper"
    assert run.attributes["gen_ai.usage.input_tokens"] == 409
    assert run.attributes["gen_ai.usage.output_tokens"] == 41
    first = chats[0].attributes
    assert first is not None
    assert first["gen_ai.operation.name"] == "chat" and first["gen_ai.provider.name"] == "kogagent"
    assert first["gen_ai.request.model"] == "ScriptedModel"
    assert first["gen_ai.usage.input_tokens"] == 100 and first["gen_ai.usage.output_tokens"] == 26
    assert (
        first["gen_ai.response.finish_reasons"] == ("tool_call",)
        and first["kogagent.usage.forced_tokens"] == 20
    )
    assert chats[1].attributes is not None and chats[2].attributes is not None
    assert chats[2].attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert chats[1].attributes["gen_ai.usage.cache_read.input_tokens"] == 130
    tool = calls[0].attributes
    assert tool is not None
    assert tool["gen_ai.operation.name"] == "execute_tool" and tool["gen_ai.tool.name"] == "weather"
    assert tool["gen_ai.tool.call.id"] == "call_1" and tool["gen_ai.tool.type"] == "function"
    assert tool["gen_ai.tool.description"] == "Tell the weather of a city."


async def test_names_are_those_of_the_conventions(collected: Collected) -> None:
    """Every gen_ai name that is used is one that the conventions' package knows."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    await Agent(script(), [weather, slow], observers=[collected.observer(content=True)]).run("go")
    known = {v for v in vars(gen_ai_attributes).values() if isinstance(v, str)}
    used = {name for span in collected.spans for name in span.attributes or {} if name.startswith("gen_ai.")}
    assert len(used) > 12 and used <= known
    metrics = {name for name in collected.metrics if name.startswith("gen_ai.")}
    assert metrics <= {v for v in vars(gen_ai_metrics).values() if isinstance(v, str)} and len(metrics) == 4


async def test_failures_are_marked_with_their_type(collected: Collected) -> None:
    observer = collected.observer()
    await Agent(script(), [weather, slow], observers=[observer]).run("go")
    good, bad = collected.named("execute_tool weather")
    assert good.status.status_code is StatusCode.UNSET
    assert bad.attributes is not None and bad.attributes["error.type"] == "KeyError"
    assert bad.status.status_code is StatusCode.ERROR and bad.events[0].name == "exception"
    with pytest.raises(ValueError, match="broken"):
        await Agent(
            ScriptedModel(ScriptedTurn(error=ValueError("broken"))), observers=[observer], name="x"
        ).run("go")
    (run,) = collected.named("invoke_agent x")
    assert run.attributes is not None and run.attributes["error.type"] == "ValueError"
    assert [span.name for span in collected.spans[-2:]] == ["chat ScriptedModel", "invoke_agent x"]
    (raised,) = run.events
    assert raised.attributes is not None and raised.attributes["exception.message"] == "broken"


async def test_each_turn_names_the_agent_that_takes_it(collected: Collected) -> None:
    second = Agent(ScriptedModel("done"), name="second")
    front = Agent(
        ScriptedModel(call("transfer_to_second")),
        handoffs=[second],
        observers=[collected.observer()],
        name="front",
    )
    await front.run("go")
    chats = [span.attributes or {} for span in collected.named("chat ScriptedModel")]
    assert [chat["gen_ai.agent.name"] for chat in chats] == ["front", "second"]


async def test_content_is_recorded_only_when_asked_for(collected: Collected) -> None:
    await Agent(script(), [weather, slow], observers=[collected.observer()], instructions="Secret.").run(
        "Secret?"
    )
    assert "Secret" not in json.dumps([dict(span.attributes or {}) for span in collected.spans], default=str)
    collected.exporter.clear()
    agent = Agent(
        script(), [weather, slow], observers=[collected.observer(content=True)], instructions="Be brief."
    )
    await agent.run("Is it warm?")
    last = collected.named("chat ScriptedModel")[-1].attributes
    assert last is not None
    assert json.loads(str(last["gen_ai.system_instructions"])) == [{"type": "text", "content": "Be brief."}]
    messages = json.loads(str(last["gen_ai.input.messages"]))
    assert messages[0] == {"role": "user", "parts": [{"type": "text", "content": "Is it warm?"}]}
    assert messages[1]["parts"][1] == {
        "type": "tool_call",
        "id": "call_1",
        "name": "weather",
        "arguments": '{"city": "Oslo"}',
    }
    assert messages[2]["parts"][0]["response"] == "3 degrees in Oslo"
    assert json.loads(str(last["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is cold."}], "finish_reason": "stop"}
    ]
    (run,) = collected.named("invoke_agent agent")
    assert run.attributes is not None
    definitions = json.loads(str(run.attributes["gen_ai.tool.definitions"]))
    assert [one["name"] for one in definitions] == ["weather", "slow"]
    tool = collected.named("execute_tool weather")[0].attributes
    assert tool is not None and tool["gen_ai.tool.call.result"] == "3 degrees in Oslo"


async def test_what_a_tool_does_is_below_its_span_and_the_context_comes_back(collected: Collected) -> None:
    tracer = collected.tracers.get_tracer("test")

    async def work(n: int) -> str:
        with tracer.start_as_current_span(f"work {n}"):
            await asyncio.sleep(0)
        return "done"

    def blocking(n: int) -> str:
        with tracer.start_as_current_span(f"work {n}"):
            return "done"

    model = ScriptedModel(call("work", n=0), [call("work", n=1), call("blocking", n=2)], "x")
    outside = trace.get_current_span()
    await Agent(model, [work, blocking], observers=[collected.observer()]).run("go")
    assert trace.get_current_span() is outside
    for n, name in enumerate(("work", "work", "blocking")):
        (span,) = collected.named(f"work {n}")
        owners = [s for s in collected.named(f"execute_tool {name}") if s.context == span.parent]
        assert len(owners) == 1


async def test_agents_inside_and_beside_each_other_keep_their_spans(collected: Collected) -> None:
    observer = collected.observer()
    inner = Agent(
        ScriptedModel(call("weather", city="Oslo"), "cold"), [weather], observers=[observer], name="inner"
    )
    outer = Agent(
        ScriptedModel(call("inner", task="look"), "done"),
        [inner.as_tool(description="Ask.")],
        observers=[observer],
        name="outer",
    )
    others = [Agent(script(), [weather, slow], observers=[observer], name=f"o{n}") for n in range(10)]
    await asyncio.gather(outer.run("go"), *(other.run("go") for other in others))
    (run,), (tool,), (inside,) = map(
        collected.named, ("invoke_agent outer", "execute_tool inner", "invoke_agent inner")
    )
    assert tool.parent == run.context and inside.parent == tool.context
    for n in range(10):
        (other,) = collected.named(f"invoke_agent o{n}")
        assert other.parent is None
        assert sum(span.parent == other.context for span in collected.spans) == 6


async def test_a_cancelled_run_ends_its_spans(collected: Collected, caplog: pytest.LogCaptureFixture) -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    agent = Agent(ScriptedModel([call("wait"), call("wait")], "x"), [wait], observers=[collected.observer()])
    task = asyncio.create_task(agent.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    names = sorted(span.name for span in collected.spans)
    assert names == ["chat ScriptedModel", "execute_tool wait", "execute_tool wait", "invoke_agent agent"]
    assert "detach" not in caplog.text.lower()


async def test_metrics_count_tokens_time_and_phases(collected: Collected) -> None:
    model = ScriptedModel(
        ScriptedTurn("", (call("weather", city="Oslo"),), usage=Usage(10, 20, 3, 4, 5)),
        ScriptedTurn("x", usage=Usage(30, 5, 6, 0, 6)),
    )
    await Agent(model, [weather], observers=[collected.observer()]).run("go")
    metrics = collected.metrics
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum for point in metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 65, "output": 13}
    operations = {
        point.attributes["gen_ai.operation.name"]: point.count
        for point in metrics["gen_ai.client.operation.duration"]
    }
    assert operations == {"chat": 2, "execute_tool": 1, "invoke_agent": 1}
    saved = {point.attributes["kogagent.saved"]: point.value for point in metrics["kogagent.tokens.saved"]}
    assert saved == {"reused": 40, "forced": 4}
    named = {point.attributes["kogagent.phase"] for point in metrics["kogagent.turn.phase.duration"]}
    assert {"tool", "append"} <= named
    assert "gen_ai.server.time_to_first_token" in metrics
