"""A web page as text that a model can read. Knows HTML; no network.

Some pages take Python's parser a very long time: `text_of` reads them in a child that can be ended.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from urllib.parse import urljoin

from kogagent.errors import ToolFailed
from kogagent.toolkit.process import ProcessLimits, child_command, run_process

_SILENT = {"title", "script", "style", "template", "noscript", "svg", "head"}
_BREAKS = {
    "p",
    "div",
    "section",
    "article",
    "br",
    "tr",
    "table",
    "ul",
    "ol",
    "pre",
    "blockquote",
    "header",
    "footer",
}
_HEADS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


async def text_of(html: str, base: str, limits: ProcessLimits) -> str:
    """`plain_text` of a page, in a child. Raises ToolFailed where it takes more than the limits."""
    with tempfile.TemporaryDirectory(prefix="kogagent-", ignore_cleanup_errors=True) as folder:
        cwd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            request = json.dumps({"html": html, "base": base}).encode()
            ended = await run_process(child_command(__name__), cwd=cwd, stdin=request, limits=limits)
        finally:
            os.close(cwd)
    if ended.why != "exit" or ended.code != 0:
        raise ToolFailed(f"{base}: its HTML could not be read within {limits.seconds:g} s. Ask for it raw")
    return ended.output


def main() -> None:
    """In the child: read a request, print the text."""
    asked = json.loads(sys.stdin.read())
    sys.stdout.write(plain_text(asked["html"], asked["base"]))


def plain_text(html: str, base: str = "") -> str:
    """Headings, lists and links in Markdown's manner, everything else as its text."""
    reader = _Reader(base)
    reader.feed(html)
    reader.close()
    text = re.sub(r"[ \t\f\v]+", " ", "".join(reader.out))
    return re.sub(r" ?\n ?", "\n", re.sub(r"\s*\n\s*\n\s*", "\n\n", text)).strip()


class _Reader(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.out: list[str] = []
        self._base = base
        self._silent: list[str] = []  # elements whose text is none, as they opened
        self._links: list[str] = []
        self._pre = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif self._silent:
            self._links += [""] if tag == "a" else []
        elif tag in _HEADS:
            self.out.append(f"\n\n{_HEADS[tag]}")
        elif tag == "li":
            self.out.append("\n- ")
        elif tag in ("td", "th"):
            self.out.append(" ")
        elif tag in _BREAKS:
            self._pre += tag == "pre"
            self.out.append("\n\n" if tag == "p" else "\n")
        elif tag == "a":
            to = dict(attributes).get("href") or ""
            link = urljoin(self._base, to)
            self._links.append(
                link if link.startswith(("http://", "https://")) and not to.startswith("#") else ""
            )
            self.out.append("[" if self._links[-1] else "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif tag == "a" and self._links:
            link = self._links.pop()
            self.out.append(f"]({link})" if link else "")
        elif tag in _BREAKS or tag in _HEADS:
            self._pre = max(self._pre - (tag == "pre"), 0)
            self.out.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.out.append(data if self._pre else re.sub(r"\s+", " ", data))
