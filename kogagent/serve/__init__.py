"""An OpenAI-compatible endpoint for an engine. Knows HTTP and chat completions; no tokens, runs no tools.

Needs the extra `server`; importing this module does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogagent.errors import MissingExtraError

if TYPE_CHECKING:
    import openai
    from starlette.applications import Starlette

    from kogagent.local import Engine

__all__ = ["app", "client"]


def app(
    engine: Engine, *, name: str | None = None, temperature: float = 1.0, max_running: int = 4
) -> Starlette:
    """An ASGI application that answers chat completions with this engine, for uvicorn or to mount.

    name: what clients call the model, by default the name in its files. temperature: of a request that names
    none. max_running: requests that generate at once; more wait in line, in order. The engine stays the
    caller's to close. Raises InputError for an option, ConfigError when the model has no chat template,
    MissingExtraError without starlette.
    """
    try:
        import starlette  # noqa: F401 - to say what is missing before anything else is looked at
    except ModuleNotFoundError as error:
        raise MissingExtraError("kogagent.serve", "starlette", "server") from error
    from kogagent.serve.http import build

    return build(
        engine,
        name=engine.spec.name if name is None else name,
        temperature=temperature,
        max_running=max_running,
    )


def client(
    engine: Engine, *, name: str | None = None, temperature: float = 1.0, max_running: int = 4
) -> openai.AsyncOpenAI:
    """OpenAI's client on this engine, in this process: no server, no socket. Close it, or use `async with`.

    For code that wants such a client, and with it for other SDKs (kogagent.adapters). Options as `app` has
    them, errors too; MissingExtraError without the package openai.
    """
    try:
        import httpx2
        import openai
    except ModuleNotFoundError as error:
        raise MissingExtraError("kogagent.serve.client", error.name or "openai", "openai") from error
    application = app(engine, name=name, temperature=temperature, max_running=max_running)
    from kogagent.serve.direct import Direct

    http = httpx2.AsyncClient(transport=Direct(application), timeout=None)
    # A request to this process is not tried again: what failed once fails again.
    return openai.AsyncOpenAI(
        base_url="http://kogagent.local/v1", api_key="unused", http_client=http, max_retries=0
    )
