"""Tools of an MCP server as tools of ours. Knows the SDK's client; no models, no agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Literal, TypeAlias

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from mcp.types import Tool as OfferedTool

from kogagent.engine.grammar import compile_turn
from kogagent.errors import InputError, SchemaError, ToolFailed, named_options
from kogagent.mcp.progress import Heard
from kogagent.spec import Vocabulary
from kogagent.tools.tool import Tool
from kogagent.types import RunContext

Unsupported: TypeAlias = Literal["error", "skip"]

_PAGES = 100
# Any vocabulary will do to ask which schemas a grammar can enforce: one token a byte.
_BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), b"<end>"), frozenset({256}), (256,))


@named_options
def connect(
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    only: Sequence[str] | None = None,
    unsupported: Unsupported = "error",
    needs_approval: bool = False,
    timeout: float = 30.0,
) -> Connection:
    """A connection to an MCP server, made by `async with`; its `tools` go into `Agent(tools=…)`.

    server: a command as a list, started and spoken to over its standard streams, or the URL of a server that
    speaks streamable HTTP. env, added to a few harmless variables, and cwd are for a command, headers for a
    URL. prefix: put before each tool's name. only: the tools to take, by the server's names. unsupported:
    what to do with a tool whose name or schema no grammar can enforce; "skip" leaves it out and lists it in
    `skipped`. needs_approval: each call is asked about before it runs. timeout: seconds to connect, and to
    list the tools; calls have the agent's limits. Raises InputError for an option.
    """
    if isinstance(server, str):
        if not server.startswith(("http://", "https://")):
            raise InputError(f"server={server!r} is no URL. Pass a command as a list: {server.split()}.")
        if env is not None or cwd is not None:
            raise InputError("env and cwd are for a command, and the server is a URL")
    else:
        server = list(server)
        if not server or not all(isinstance(part, str) and part for part in server):
            raise InputError(f"server={server!r}: a command is a list of non-empty strings")
        if headers is not None:
            raise InputError("headers are for a URL, and the server is a command")
    if unsupported not in ("error", "skip"):
        raise InputError(f"unsupported={unsupported!r}: must be 'error' or 'skip'")
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise InputError(f"timeout={timeout!r}: must be a number of seconds > 0")
    source = _Source(server, env, cwd, headers)
    return Connection(
        source, prefix, None if only is None else frozenset(only), unsupported, needs_approval, timeout
    )


class _Source:
    """Where a server is, and a client for it."""

    def __init__(
        self,
        server: str | list[str],
        env: Mapping[str, str] | None,
        cwd: str | Path | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._server, self._env, self._cwd, self._headers = server, env, cwd, headers
        self.name = server if isinstance(server, str) else " ".join(server)

    async def open(self, stack: AsyncExitStack) -> Client:
        if isinstance(self._server, str):
            patience = httpx2.Timeout(
                30, read=300
            )  # what the SDK recommends: an answer may be long in coming
            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers=dict(self._headers or {}), timeout=patience)
            )
            client = Client(streamable_http_client(self._server, http_client=http))
        else:
            command, *args = self._server
            env = None if self._env is None else dict(self._env)
            client = Client(StdioServerParameters(command=command, args=args, env=env, cwd=self._cwd))
        return await stack.enter_async_context(client)


class Connection:
    """One server, connected from `async with` to its end. Made by `connect`.

    The tools are those that were listed when it was connected; they work until the block is left.
    """

    def __init__(
        self,
        source: _Source,
        prefix: str,
        only: frozenset[str] | None,
        unsupported: Unsupported,
        needs_approval: bool,
        timeout: float,
    ) -> None:
        self._source, self._prefix, self._only = source, prefix, only
        self._unsupported, self._needs_approval, self._timeout = unsupported, needs_approval, timeout
        self._stack: AsyncExitStack | None = None
        self._client: Client | None = None
        self._tools: tuple[Tool[..., Any], ...] = ()
        self._skipped: dict[str, str] = {}

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The server's tools, in its order."""
        self._connected()
        return self._tools

    @property
    def skipped(self) -> Mapping[str, str]:
        """Name and reason of each tool that was left out because no grammar can enforce it."""
        return MappingProxyType(self._skipped)

    @property
    def instructions(self) -> str:
        """What the server says of its use, "" for nothing."""
        return self._connected().instructions or ""

    async def __aenter__(self) -> Connection:
        """Raises InputError when the server cannot be reached or does not speak the protocol, SchemaError
        naming a tool that cannot be used."""
        if self._stack is not None:
            raise InputError(f"the connection to {self._source.name} is open. Make another.")
        stack = AsyncExitStack()
        try:
            self._client = await self._open(stack)
            self._tools = self._usable(await self._list(self._client))
        except BaseException:
            self._client = None
            await stack.aclose()  # as after a good end: a task group would wrap the error in a group
            raise
        self._stack = stack
        return self

    async def _open(self, stack: AsyncExitStack) -> Client:
        async with self._reaching():
            return await self._source.open(stack)

    async def _list(self, client: Client) -> list[OfferedTool]:
        async with self._reaching():
            return await _listed(client)

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        """Bound the time, and say of a server that cannot be reached which and why."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError as error:
            raise self._failed(f"it did not answer within {self._timeout:g} s") from error
        except Exception as error:
            if (reason := _reason(error)) is None:
                raise
            raise self._failed(reason) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._stack, self._client = self._stack, None, None
        if stack is not None:
            await stack.__aexit__(kind, error, trace)

    def _connected(self) -> Client:
        if self._client is None:
            raise InputError(
                f"there is no connection to {self._source.name}. Use it inside its `async with`."
            )
        return self._client

    def _failed(self, reason: str) -> InputError:
        return InputError(
            f"cannot connect to the MCP server {self._source.name}: {reason}. Check that it runs."
        )

    def _usable(self, offered: Sequence[OfferedTool]) -> tuple[Tool[..., Any], ...]:
        names = [one.name for one in offered]
        if self._only is not None and (missing := sorted(self._only - set(names))):
            raise InputError(
                f"only={missing}: the server has no such tools. It has {', '.join(names) or 'none'}."
            )
        found: list[Tool[..., Any]] = []
        self._skipped = {}
        for one in offered:
            if self._only is not None and one.name not in self._only:
                continue
            try:
                found.append(self._tool(one))
            except SchemaError as error:
                if self._unsupported == "error":
                    raise SchemaError(
                        f"{error}. Leave it out with only=…, or skip all such tools with unsupported='skip'.",
                        tool=error.tool,
                        path=error.path,
                        keyword=error.keyword,
                    ) from error
                self._skipped[one.name] = str(error)
        return tuple(found)

    def _tool(self, offered: OfferedTool) -> Tool[..., Any]:
        async def call(context: RunContext[Any], /, **arguments: Any) -> str:
            return await self._call(offered.name, arguments, context)

        name = self._prefix + offered.name
        tool = Tool.of_schema(
            call,
            name=name,
            description=offered.description or offered.title or "",
            parameters=offered.input_schema,
            place=f"MCP server {self._source.name}",
            context=True,
            needs_approval=self._needs_approval,
        )
        compile_turn({name: offered.input_schema}, _BYTES, tool_choice=name, max_calls=1)
        return tool

    async def _call(self, name: str, arguments: dict[str, Any], context: RunContext[Any]) -> str:
        try:
            with Heard(context) as heard:
                result = await self._connected().call_tool(name, arguments, progress_callback=heard)
        except MCPError as error:
            raise ToolFailed(error.message) from error
        text = text_of(result)
        if result.is_error:
            raise ToolFailed(text)
        return text


async def _listed(client: Client) -> list[OfferedTool]:
    """All pages of the server's tools."""
    found: list[OfferedTool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise InputError(f"the list of its tools has no end: {len(found)} tools on {_PAGES} pages")


def text_of(result: CallToolResult) -> str:
    """A result as a model reads it: its texts; of anything else, what it is."""
    parts: list[str] = []
    for block in result.content:
        match block:
            case TextContent(text=text):
                parts.append(text)
            case EmbeddedResource(resource=TextResourceContents(text=text)):
                parts.append(text)
            case EmbeddedResource(resource=resource):
                parts.append(f"[{resource.mime_type or 'data'} at {resource.uri}, not shown]")
            case ResourceLink(uri=uri, name=name):
                parts.append(f"[{name}: {uri}]")
            case _:  # images and sounds
                parts.append(f"[{block.mime_type}, not shown]")
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _reason(error: BaseException) -> str | None:
    """Why a server could not be reached, in words; None for what is no such reason."""
    if isinstance(error, ExceptionGroup):
        return next((reason for inner in error.exceptions if (reason := _reason(inner))), None)
    if isinstance(error, MCPError):
        return error.message.rstrip(".")
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, httpx2.HTTPError | InputError):
        return str(error).rstrip(".") or type(error).__name__
    return None
