"""The Model Context Protocol, both ways, through the official SDK. Knows tools and messages; no models.

Needs the extra `mcp`; importing this module does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kogagent.errors import MissingExtraError

if TYPE_CHECKING:
    from kogagent.mcp.connection import Connection, connect
    from kogagent.mcp.offer import server
    from kogagent.mcp.progress import Progress

__all__ = ["Connection", "Progress", "connect", "server"]

_HOMES = {"Connection": "connection", "Progress": "progress", "connect": "connection", "server": "offer"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        import mcp  # noqa: F401 - to say what is missing before anything else is looked at
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"kogagent.mcp.{name}", "mcp", "mcp") from error
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
