"""A web page as text that a model can read. Knows HTML; no network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

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
