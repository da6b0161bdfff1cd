"""What mkdocs is told beyond mkdocs.yml: the reference, a page for each part of the package.

Its pages are made when the site is: every public name of kogagent stands on one of them, with its docstring.
A name whose part is not listed in PARTS ends the build.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

PARTS = {
    "agents": ("Agents and runs", ("loop",)),
    "tools": ("Tools", ("tools",)),
    "events": ("Messages, events, results", ("types",)),
    "engine": ("The engine", ("local", "sampling")),
    "errors": ("Errors", ("errors",)),
}
"""Page: (title, packages whose names of `kogagent` stand on it)."""
PACKAGES = {
    "toolkit": "Ready-made tools",
    "observe": "Observing runs",
    "testing": "Tests of your own",
    "serve": "The endpoint",
    "adapters": "Other SDKs",
    "mcp": "The Model Context Protocol",
}
"""Package of names that are imported from it: title."""


def pages() -> dict[str, str]:
    """Address below docs/ to Markdown."""
    home: dict[str, str] = importlib.import_module("kogagent")._HOME
    out = {}
    placed: set[str] = set()
    for page, (title, packages) in PARTS.items():
        names = sorted(name for name, module in home.items() if module.split(".")[0] in packages)
        placed.update(names)
        out[f"reference/{page}.md"] = _page(title, [f"kogagent.{name}" for name in names])
    if missing := sorted(set(home) - placed):
        raise PluginError(f"no page of the reference has {', '.join(missing)}: add their part to PARTS")
    for package, title in PACKAGES.items():
        names = sorted(importlib.import_module(f"kogagent.{package}").__all__)
        out[f"reference/{package}.md"] = _page(title, [f"kogagent.{package}.{name}" for name in names])
    return out


def _page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"


def on_files(files: Files, config: Any) -> Files:
    for address, text in pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link out of docs/, to a file of the repository, becomes its path: the site holds the pages alone."""
    if "/" in page.file.src_uri:
        return markdown
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)\)", r"\1 (`\2`)", markdown)
