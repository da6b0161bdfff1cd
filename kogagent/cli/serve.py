"""The commands that serve: an engine over HTTP, tools over MCP. Knows sockets and exit codes; no requests."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kogagent.cli.options import Device, Dtype, KeepPrompts, Model
from kogagent.errors import InputError, KogagentError, MissingExtraError

if TYPE_CHECKING:
    from kogagent.local import Engine


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("serve")(serve)
    app.command("mcp-serve")(mcp_serve)


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 for a free one.", min=0, max=65535)
    ] = 8000,
    name: Annotated[str, typer.Option(help="What clients call the model.")] = "",
    device: Device = "auto",
    dtype: Dtype = "auto",
    temperature: Annotated[float, typer.Option(help="Of requests that name none.")] = 1.0,
    max_running: Annotated[int, typer.Option(help="Requests that generate at once; more wait.")] = 4,
    keep_prompts: KeepPrompts = False,
) -> None:
    """Answer OpenAI-compatible chat completions with a model, until interrupted."""
    from kogagent.cli import loading
    from kogagent.cli.commands import BAD_INPUT, FAILED
    from kogagent.cli.live import report

    try:
        for package in ("starlette", "uvicorn"):
            _need("kogagent serve", package, "server")
        with (
            _listener(host, port) as listener,
            loading.load_engine(model, device, dtype, keep_prompts=keep_prompts) as engine,
        ):
            _serve(engine, listener, name or Path(model).stem, temperature, max_running)
    except InputError as error:
        report(error)
        raise typer.Exit(BAD_INPUT) from None
    except KogagentError as error:
        report(error)
        raise typer.Exit(FAILED) from None


def mcp_serve(
    tools: Annotated[list[str], typer.Argument(help="module:function, module:object or module.")],
    name: Annotated[str, typer.Option(help="What the server is called.")] = "kogagent",
) -> None:
    """Offer tools to an MCP client over standard input and output, until it closes them."""
    from contextlib import redirect_stdout

    from kogagent.cli import loading
    from kogagent.cli.commands import BAD_INPUT
    from kogagent.cli.live import report

    try:
        _need("kogagent mcp-serve", "mcp", "mcp")
        from kogagent.mcp.offer import serve_stdio, server

        with redirect_stdout(sys.stderr):  # what a module prints when it is imported is no protocol
            found = loading.load_tools(tools, option="the argument")
        serve_stdio(server(found, name=name))
    except InputError as error:
        report(error)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        return


def _serve(engine: Engine, listener: socket.socket, name: str, temperature: float, max_running: int) -> None:
    import uvicorn

    from kogagent.serve import app

    application = app(engine, name=name, temperature=temperature, max_running=max_running)
    # A client that does not read its answer must not keep the server from ending.
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=5))
    address = listener.getsockname()
    where = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    print(f"{name} on {engine.backend_name}: http://{where}/v1", file=sys.stderr, flush=True)  # noqa: T201
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn has shut down in order and passes it on
        return


def _listener(host: str, port: int) -> socket.socket:
    """Listening before the model is loaded: a port that is taken is found out at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}. Choose another with --host and --port."
        ) from error


def _need(command: str, package: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingExtraError(command, package, extra)
