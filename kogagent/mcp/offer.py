"""Tools of ours as an MCP server. Knows the SDK's server; no models, no agents."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types import Tool as OfferedTool

from kogagent.errors import InputError
from kogagent.mcp.progress import Told
from kogagent.tools.toolbox import Approve, Toolbox
from kogagent.types import RunContext, ToolCall


def server(
    tools: Iterable[Any],
    *,
    name: str = "kogagent",
    instructions: str = "",
    deps: Any = None,
    approve: Approve | None = None,
    timeout: float = 120.0,
) -> Server[Any]:
    """An MCP server that offers functions, Tools and toolkits.

    Its `streamable_http_app()` is an ASGI application; `kogagent mcp-serve` speaks over standard streams.
    deps is what a tool's RunContext holds. approve is asked before each call of a tool that needs approval;
    without it such a tool is refused here. timeout: seconds a call may take where the tool sets none.
    Arguments are validated; a tool that fails is a result that says so. Raises InputError and SchemaError as
    Toolbox does.
    """
    toolbox = Toolbox(tools, approve=approve, timeout=timeout)
    if not toolbox.specs:
        raise InputError("there are no tools to offer. Pass at least one.")
    offered = [
        OfferedTool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters))
        for spec in toolbox.specs
    ]
    numbers = itertools.count(1)

    async def list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=offered)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        call = ToolCall(f"call_{next(numbers)}", params.name, json.dumps(params.arguments or {}))
        async with Told(context.session.report_progress) as told:
            outcome = await toolbox.call(call, RunContext(deps, call, _run=told))
        if outcome.result.status == "unknown_tool":
            raise MCPError(INVALID_PARAMS, outcome.result.text)
        return CallToolResult(
            content=[TextContent(text=outcome.result.text)], is_error=outcome.result.is_error
        )

    return Server(name, instructions=instructions or None, on_list_tools=list_tools, on_call_tool=call_tool)


def serve_stdio(one: Server[Any]) -> None:
    """Speak the protocol over this process's standard streams until the client closes them. Blocks.

    What tools print goes to the error stream: the output is the protocol's.
    """

    async def run() -> None:
        async with stdio_server() as (read, write):
            with redirect_stdout(sys.stderr):
                await one.run(read, write, one.create_initialization_options())

    asyncio.run(run())
