"""MCP both ways, over standard streams and a real socket: the SDK's client at our server, ours at theirs."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp.server
import mcp.types
import pytest
import uvicorn
from offered_tools import forecast, whose
from typer.testing import CliRunner

import kogagent.mcp
from kogagent import Agent, InputError, MissingExtraError, SchemaError, tool
from kogagent.cli.app import app
from kogagent.testing import ScriptedModel, call
from kogagent.types import ToolMessage

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COMMAND = [sys.executable, "-m", "kogagent", "mcp-serve", "offered_tools"]
ENV = {"PYTHONPATH": f"{ROOT}:{HERE}"}


def connected(server: Any, **options: Any) -> kogagent.mcp.Connection:
    """As patient as a busy machine may need."""
    return kogagent.mcp.connect(server, timeout=3600.0, **options)


def results(messages: Any) -> list[tuple[str, str]]:
    return [(one.result.status, one.result.text) for one in messages if isinstance(one, ToolMessage)]


@asynccontextmanager
async def over_http(server: mcp.server.Server[Any]) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            server.streamable_http_app(),
            log_level="critical",
            timeout_graceful_shutdown=5,
            timeout_keep_alive=600,  # never given up under a client that was slow to ask again
        )
        running = uvicorn.Server(config)
        serving = asyncio.ensure_future(running.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            await serving


def their_server(*pages: list[mcp.types.Tool], answer: Any = None) -> mcp.server.Server[Any]:
    """A server made with the SDK alone: tools in pages, one answer to every call."""

    async def list_tools(context: Any, params: Any) -> mcp.types.ListToolsResult:
        at = int(params.cursor) if params is not None and params.cursor else 0
        more = str(at + 1) if at + 1 < len(pages) else None
        return mcp.types.ListToolsResult(tools=pages[at], next_cursor=more)

    async def call_tool(context: Any, params: Any) -> mcp.types.CallToolResult:
        if answer is None:
            raise mcp.MCPError(-32000, "out of order")
        assert isinstance(answer, mcp.types.CallToolResult)
        return answer

    return mcp.server.Server(
        "theirs", on_list_tools=list_tools, on_call_tool=call_tool, instructions="Use me."
    )


def offered(name: str, **properties: Any) -> mcp.types.Tool:
    return mcp.types.Tool(name=name, input_schema={"type": "object", "properties": properties})


async def test_the_sdks_client_uses_our_tools_over_standard_streams() -> None:
    server = mcp.StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=ENV)
    async with mcp.Client(server) as client:
        listed = {one.name: one for one in (await client.list_tools()).tools}
        assert list(listed) == ["forecast", "broken", "whose"]
        assert listed["forecast"].description == "Forecast temperatures."
        assert listed["forecast"].input_schema == forecast.spec.parameters

        async def ask(name: str, **arguments: Any) -> tuple[bool, str]:
            result = await client.call_tool(name, arguments)
            (content,) = result.content
            assert isinstance(content, mcp.types.TextContent)
            return result.is_error, content.text

        assert await ask("forecast", place={"city": "Oslo"}, days=2) == (False, "[4, 4]")
        for arguments, words in (
            ({"place": {"city": "Oslo"}, "days": 9}, "days: input should be less than or equal to 3"),
            ({"place": {"city": "Oslo"}}, "days: field required"),
            ({"place": {"city": "Atlantis"}, "days": 1}, "no such city"),
            ({"place": {"city": "Oslo"}, "days": 1, "unit": "f"}, "Celsius only"),
        ):
            failed, text = await ask("forecast", **arguments)
            assert failed and words in text
        assert await ask("broken") == (True, "broken failed with ZeroDivisionError: of its own")
        assert await ask("whose") == (False, "None whose")
        with pytest.raises(mcp.MCPError, match=r"no tool named 'forecats'.*'forecast'"):
            await client.call_tool("forecats", {})


async def test_an_agent_uses_the_tools_of_a_server_over_standard_streams() -> None:
    async with connected(COMMAND, env=ENV, prefix="met_") as server:
        assert [one.name for one in server.tools] == ["met_forecast", "met_broken", "met_whose"]
        model = ScriptedModel(
            [
                call("met_forecast", place={"city": "Oslo"}, days=2),
                call("met_forecast", place={"city": "Oslo"}, days=7),
                call("met_forecast", place={"city": "Atlantis"}, days=1),
                call("met_broken"),
            ],
            "Four degrees.",
        )
        result = await Agent(model, server.tools).run("How warm is it?")
    (good, invalid, refused, failed) = results(result.messages)
    assert result.output == "Four degrees." and good == ("ok", "[4, 4]")
    assert invalid[0] == "invalid" and "days: 7 is greater than the maximum of 3" in invalid[1], (
        "asked the server"
    )
    assert refused[0] == "failed" and "no such city" in refused[1]
    assert failed[0] == "failed" and "ZeroDivisionError" in failed[1]
    with pytest.raises(InputError, match="Use it inside"):
        _ = server.tools


async def test_our_tools_over_http_know_their_deps() -> None:
    ours = kogagent.mcp.server([forecast, whose], name="met", deps="Ada", instructions="Ask for Oslo.")
    async with (
        over_http(ours) as url,
        connected(url, headers={"x-test": "1"}) as server,
    ):
        assert server.instructions == "Ask for Oslo."
        model = ScriptedModel([call("whose"), call("forecast", place={"city": "Oslo"}, days=1)], "Done.")
        result = await Agent(model, server.tools).run("Whose?")
    assert results(result.messages) == [("ok", "Ada whose"), ("ok", "[4]")]


async def test_all_pages_are_read_and_what_is_no_text_is_named() -> None:
    content: Any = [
        mcp.types.TextContent(text="a"),
        mcp.types.ImageContent(data="AAAA", mime_type="image/png"),
        mcp.types.ResourceLink(uri="file:///b", name="b"),
        mcp.types.EmbeddedResource(resource=mcp.types.TextResourceContents(uri="file:///c", text="c")),
        mcp.types.EmbeddedResource(resource=mcp.types.BlobResourceContents(uri="file:///d", blob="AAAA")),
    ]
    theirs = their_server(
        [offered("one")], [offered("two")], answer=mcp.types.CallToolResult(content=content)
    )
    async with over_http(theirs) as url, connected(url) as server:
        assert [one.name for one in server.tools] == ["one", "two"] and server.instructions == "Use me."
        result = await Agent(ScriptedModel(call("two"), "Done."), server.tools).run("Go.")
        assert results(result.messages) == [
            ("ok", "a\n[image/png, not shown]\n[b: file:///b]\nc\n[data at file:///d, not shown]")
        ]
    structured = mcp.types.CallToolResult(content=[], structured_content={"a": 1})
    theirs = their_server([offered("one")], answer=structured)
    async with over_http(theirs) as url, connected(url) as server:
        result = await Agent(ScriptedModel(call("one"), "Done."), server.tools).run("Go.")
        assert results(result.messages) == [("ok", '{"a": 1}')]


async def test_a_server_that_fails_is_told_to_the_model() -> None:
    async with (
        over_http(their_server([offered("one")])) as url,
        connected(url) as server,
    ):
        result = await Agent(ScriptedModel(call("one"), "Pity."), server.tools).run("Go.")
    assert results(result.messages) == [("failed", "one failed: out of order")]


async def test_a_tool_no_grammar_can_enforce_is_named_or_skipped_on_request() -> None:
    theirs = their_server(
        [
            offered("good", a={"type": "integer"}),
            offered("bad", a={"type": "string", "pattern": r"(a)\1"}),
            offered("odd", a={"type": "strin"}),
            offered("no.name"),
        ]
    )
    async with over_http(theirs) as url:
        with pytest.raises(SchemaError, match=r"'bad'.*'pattern'.*unsupported='skip'") as raised:
            await connected(url).__aenter__()
        assert (raised.value.tool, raised.value.keyword) == ("bad", "pattern")
        async with connected(url, unsupported="skip") as server:
            assert [one.name for one in server.tools] == ["good"]
            assert set(server.skipped) == {"bad", "odd", "no.name"} and "'pattern'" in server.skipped["bad"]
            assert "invalid schema at /properties/a/type" in server.skipped["odd"]
        async with connected(url, only=["good"], needs_approval=True) as server:
            assert [(one.name, one.needs_approval) for one in server.tools] == [("good", True)]
            assert not server.skipped
        with pytest.raises(InputError, match=r"only=\['best'\].*good, bad"):
            await connected(url, only=["best"]).__aenter__()


async def test_a_server_that_cannot_be_reached_is_one_clear_error() -> None:
    with pytest.raises(InputError, match=r"no-such-program: No such file"):
        await kogagent.mcp.connect(["no-such-program"]).__aenter__()
    with pytest.raises(InputError, match="cannot connect"):
        await connected([sys.executable, "-c", "pass"]).__aenter__()
    with socket.socket() as taken:  # nobody else's, and nobody listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        with pytest.raises(InputError, match="cannot connect"):
            await connected(url).__aenter__()
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(InputError, match=r"did not answer within 0\.5 s"):
        await kogagent.mcp.connect(silent, timeout=0.5).__aenter__()


async def test_options_that_make_no_sense_are_refused_at_once() -> None:
    bad: list[tuple[Any, dict[str, Any], str]] = [
        ("uvx server", {}, r"as a list: \['uvx', 'server'\]"),
        ([], {}, "non-empty"),
        ("http://x/mcp", {"env": {}}, "env"),
        (["x"], {"headers": {}}, "headers"),
        (["x"], {"unsupported": "ignore"}, "unsupported"),
        (["x"], {"timeout": 0}, "timeout"),
        (["x"], {"header": {}}, r"^connect has no option 'header'\. Did you mean 'headers'\?"),
    ]
    for server, options, words in bad:
        with pytest.raises(InputError, match=words):
            kogagent.mcp.connect(server, **options)
    with pytest.raises(SchemaError, match="Its `tools` are"):
        Agent(ScriptedModel("x"), [kogagent.mcp.connect(["x"])])
    with pytest.raises(InputError, match="no tools"):
        kogagent.mcp.server([])

    @tool(needs_approval=True)
    def delete(path: str) -> str:
        return path

    with pytest.raises(InputError, match="needs approval"):
        kogagent.mcp.server([delete])


async def test_a_public_server_answers_an_agent() -> None:
    command = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
    async with connected(command) as server:
        assert [one.name for one in server.tools] == ["get_current_time", "convert_time"]
        asked = {"source_timezone": "Europe/Oslo", "time": "16:30", "target_timezone": "Asia/Tokyo"}
        model = ScriptedModel(
            [call("convert_time", **asked), call("convert_time", **{**asked, "time": "99"})], "So."
        )
        good, bad = results((await Agent(model, server.tools).run("When?")).messages)
    assert good[0] == "ok" and '"time_difference": "+' in good[1]
    assert bad[0] == "failed" and "HH:MM" in bad[1]


def test_without_the_sdk_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtraError, match=r"kogagent\[mcp\]"):
        _ = kogagent.mcp.connect
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["mcp-serve", "offered_tools"])
    assert result.exit_code == 2 and "kogagent[mcp]" in result.output


def test_tools_that_are_not_there_are_one_line() -> None:
    result = CliRunner().invoke(app, ["mcp-serve", "no_such_module"])
    assert result.exit_code == 2 and result.output.count("\n") == 1
    assert "the argument 'no_such_module': importing" in result.output  # this command has no --tools
