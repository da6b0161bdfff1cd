"""The tables of docs/grammar.md, made from what the code does. Knows Markdown."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from kogagent.engine.grammar.formats import FORMATS, HINTS, NUMBER_FORMATS
from kogagent.engine.grammar.keywords import CARRIED, KEYWORDS
from kogagent.engine.grammar.shapes import Bounds


def keyword_table() -> str:
    """Every keyword and what becomes of it."""
    rows = []
    for word, (kind, how) in KEYWORDS.items():
        beyond = "" if kind == "annotation" else "fallback" if word in CARRIED else "refused"
        rows.append(f"| `{word}` | {kind} | {how} | {beyond} |")
    return "\n".join(["| keyword | is | how far | beyond that |", "|---|---|---|---|", *rows])


def format_table() -> str:
    """Every format, with its expression or its bounds."""
    rows = [f"| `{name}` | string |" for name in sorted(FORMATS)]
    rows += [f"| `{name}` | string, any: a hint |" for name in sorted(HINTS)]
    for name, bounds in sorted(NUMBER_FORMATS.items()):
        limits = f"{bounds[0]} to {bounds[1]}" if bounds else "no bounds of its own"
        rows.append(f"| `{name}` | number, {limits} |")
    return "\n".join(["| format | of |", "|---|---|", *rows])


def bounds_table() -> str:
    """Every default bound."""
    rows = [f"| `{f.name}` | {f.default} |" for f in fields(Bounds)]
    return "\n".join(["| bound | default |", "|---|---|", *rows])


TABLES = {"keywords": keyword_table, "formats": format_table, "bounds": bounds_table}


def filled(page: str) -> str:
    """A page with what stands between `<!-- table NAME -->` and `<!-- end -->` made anew."""
    for name, table in TABLES.items():
        before, begin, rest = page.partition(f"<!-- table {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not begin or not end:
            raise ValueError(f"the page has no place for the table {name!r}")
        page = f"{before}{begin}{table()}\n{end}{after}"
    return page


def main(path: Path) -> None:
    """Make the tables of a page anew, in place."""
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
