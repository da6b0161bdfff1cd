"""How far a call is, told both ways: by servers to a run, by our tools to a client."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp.server
import mcp.types
import numpy as np
import pytest
from test_mcp import connected, over_http

import kogagent.mcp
from kogagent import (
    Agent,
    AgentEvent,
    InputError,
    RunContext,
    ToolCall,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Usage,
    tool,
)
from kogagent.mcp import Progress
from kogagent.mcp.progress import Heard, Told
from kogagent.testing import ScriptedModel, call

HERE = Path(__file__).parent
PROPERTIES: Any = {"steps": {"type": "integer"}, "context": {"type": "string"}}


def working_server() -> mcp.server.Server[Any]:
    """A server made with the SDK alone, whose tool says how far it is."""

    async def list_tools(context: Any, params: Any) -> mcp.types.ListToolsResult:
        schema = {"type": "object", "properties": PROPERTIES, "required": ["steps", "context"]}
        return mcp.types.ListToolsResult(tools=[mcp.types.Tool(name="work", input_schema=schema)])

    async def call_tool(context: Any, params: Any) -> mcp.types.CallToolResult:
        steps, text = params.arguments["steps"], params.arguments["context"]
        for step in range(steps):
            await context.session.report_progress(step + 0.5, *((steps, text) if step % 2 else ()))
        return mcp.types.CallToolResult(content=[mcp.types.TextContent(text=text)])

    return mcp.server.Server("theirs", on_list_tools=list_tools, on_call_tool=call_tool)


async def events_of(agent: Agent) -> list[AgentEvent]:
    async with agent.stream("Go.") as run:
        return [event async for event in run]


def told_of(events: list[AgentEvent], id: str) -> list[Any]:
    """The values a run told of a call; all of them between its start and its end."""
    at = {
        type(e): n
        for n, e in enumerate(events)
        if isinstance(e, ToolStarted | ToolFinished) and e.call.id == id
    }
    found = [(n, e.value) for n, e in enumerate(events) if isinstance(e, ToolProgress) and e.call.id == id]
    assert all(at[ToolStarted] < n < at[ToolFinished] for n, _ in found)
    return [value for _, value in found]


async def test_a_run_tells_what_servers_say_of_their_calls(rng: np.random.Generator) -> None:
    first, second = (int(n) for n in rng.integers(0, 6, 2))
    model = ScriptedModel(
        [call("work", steps=first, context="a"), call("work", steps=second, context="b")], "Done."
    )
    async with over_http(working_server()) as url, connected(url) as server:
        events = await events_of(Agent(model, server.tools))
    for id, steps, text in (("call_1", first, "a"), ("call_2", second, "b")):
        assert told_of(events, id) == [
            Progress(step + 0.5, steps, text) if step % 2 else Progress(step + 0.5) for step in range(steps)
        ]
        (finished,) = [e for e in events if isinstance(e, ToolFinished) and e.call.id == id]
        assert finished.result.text == text


@tool
async def count(upto: int, context: RunContext[Any]) -> int:
    """Count, and say so."""
    for number in range(1, upto + 1):
        context.report(Progress(number, upto, f"{number} of {upto}"))
        await asyncio.sleep(0)
    return upto


@tool
def search(context: RunContext[Any]) -> str:
    """Search, in a thread."""
    for value in (2, "page 1", {"pages": 2}, 7.5, True):
        context.report(value)
    return "found"


@tool
async def broken(context: RunContext[Any]) -> str:
    """Fail on the way."""
    context.report("so far so good")
    raise ValueError("no further")


SEARCHED = [
    Progress(2.0),
    Progress(3.0, None, "page 1"),
    Progress(4.0, None, "{'pages': 2}"),
    Progress(7.5),
    Progress(8.5, None, "True"),
]


async def test_a_client_is_told_what_our_tools_report(rng: np.random.Generator) -> None:
    upto, heard = int(rng.integers(0, 8)), list[Progress]()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(Progress(progress, total, message))

    ours = kogagent.mcp.server([count, search, broken])
    async with mcp.Client(ours) as client:
        await client.call_tool("count", {"upto": upto}, progress_callback=hear)
        assert heard == [Progress(n, upto, f"{n} of {upto}") for n in range(1, upto + 1)]
        heard.clear()
        await client.call_tool("search", {}, progress_callback=hear)
        assert heard == SEARCHED
        heard.clear()
        failed = await client.call_tool("broken", {}, progress_callback=hear)
        assert failed.is_error and heard == [Progress(1.0, None, "so far so good")]
        quiet = await client.call_tool("count", {"upto": 3})  # asks for no progress
        assert not quiet.is_error


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_report_goes_from_our_server_to_our_run(over: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("search"), call("count", upto=3)], "Done.")
    if over == "http":
        async with over_http(kogagent.mcp.server([search, count])) as url, connected(url) as server:
            events = await events_of(Agent(model, server.tools))
    else:
        command = [
            sys.executable,
            "-m",
            "kogagent",
            "mcp-serve",
            "test_mcp_progress:search",
            "test_mcp_progress:count",
        ]
        env = {"PYTHONPATH": f"{HERE.parent.parent}:{HERE}"}
        async with connected(command, env=env) as server:
            events = await events_of(Agent(model, server.tools))
    assert told_of(events, "call_1") == SEARCHED
    assert told_of(events, "call_2") == [Progress(float(n), 3.0, f"{n} of 3") for n in (1, 2, 3)]


class Wordless:
    def __str__(self) -> str:
        raise ValueError("no words")


async def test_a_report_that_cannot_be_said_ends_its_call_and_hangs_nobody() -> None:
    heard: list[Progress] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(Progress(progress, total, message))

    @tool
    async def report(which: int, context: RunContext[Any]) -> str:
        """Report."""
        context.report([Wordless(), 10**400, float("nan"), float("inf")][which])
        return "done"

    async with mcp.Client(kogagent.mcp.server([report])) as client:
        failed = await client.call_tool("report", {"which": 0}, progress_callback=hear)
        assert failed.is_error and "no words" in str(failed.content) and heard == []
        for which in (1, 2, 3):
            assert not (await client.call_tool("report", {"which": which}, progress_callback=hear)).is_error
    assert heard == [Progress(1.0, None, str(value)) for value in (10**400, float("nan"), float("inf"))]


async def test_what_a_tool_reports_is_what_it_was_then() -> None:
    heard: list[str | None] = []

    async def send(done: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with Told(send) as told:
        pages: list[int] = []
        for page in range(3):
            pages.append(page)
            told.progress(ToolCall("call_1", "search", "{}"), pages)
    assert heard == ["[0]", "[0, 1]", "[0, 1, 2]"]


async def test_what_no_progress_can_be_is_refused_where_it_is_made_and_unheard_from_a_server() -> None:
    for done, total, message in (
        (float("nan"), None, None),
        (10**400, None, None),
        (True, None, None),
        ("1", None, None),
        (None, None, None),
        (1, float("inf"), None),
        (1, 2, 3),
    ):
        values: tuple[Any, Any, Any] = (done, total, message)
        with pytest.raises(InputError, match=r"must be a (finite number|text)"):
            Progress(*values)
    port = Port()
    with Heard(RunContext(None, ToolCall("call_1", "work", "{}"), _run=port)) as heard:
        for number in (0.5, float("nan"), 1.5):
            await heard(number, None, None)
    await heard(2.5, None, None)  # too late
    assert port.values == [Progress(0.5), Progress(1.5)]


class Port:
    """A run's, that keeps what it is told."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def progress(self, call: ToolCall, value: Any) -> None:
        self.values.append(value)

    def nested(self, call: ToolCall, event: AgentEvent) -> None:
        raise AssertionError("nothing runs inside")

    def spent(self, usage: Usage) -> None:
        raise AssertionError("nothing was spent")

    async def drained(self) -> None:
        """Nothing waits."""


async def test_a_call_that_is_given_up_sends_no_more() -> None:
    sent: list[float] = []
    held = asyncio.Event()

    async def send(done: float, total: float | None, message: str | None) -> None:
        sent.append(done)
        held.set()
        await asyncio.Event().wait()  # a client that reads nothing

    with pytest.raises(ZeroDivisionError):
        async with Told(send) as told:
            for value in (1, 2):
                told.progress(ToolCall("call_1", "work", "{}"), value)
            await held.wait()
            raise ZeroDivisionError
    assert sent == [1.0]


async def test_a_call_that_is_given_up_is_cancelled_here_too() -> None:
    started, gone = asyncio.Event(), asyncio.Event()

    @tool
    async def hang(context: RunContext[Any]) -> None:
        """Hang."""
        context.report(1)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with mcp.Client(kogagent.mcp.server([hang])) as client:
        asking = asyncio.ensure_future(client.call_tool("hang", {}))
        await started.wait()
        asking.cancel()
        await asyncio.wait((asking,))
        await gone.wait()
