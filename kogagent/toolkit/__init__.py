"""Tools ready to use, each with a root and limits. Knows tools; no model, no loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.toolkit.fetch import fetch_tools
    from kogagent.toolkit.files import file_tools
    from kogagent.toolkit.process import ProcessLimits
    from kogagent.toolkit.python import python_tools
    from kogagent.toolkit.root import Root
    from kogagent.toolkit.search import search_tools
    from kogagent.toolkit.shell import command_tools, shell_tools
    from kogagent.toolkit.sqlite import sqlite_tools

# Lazy: the child processes import this package on their way to one module, and must start fast.
_HOMES = {
    "ProcessLimits": "process",
    "Root": "root",
    "command_tools": "shell",
    "fetch_tools": "fetch",
    "file_tools": "files",
    "python_tools": "python",
    "search_tools": "search",
    "shell_tools": "shell",
    "sqlite_tools": "sqlite",
}

__all__ = [
    "ProcessLimits",
    "Root",
    "command_tools",
    "fetch_tools",
    "file_tools",
    "python_tools",
    "search_tools",
    "shell_tools",
    "sqlite_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
