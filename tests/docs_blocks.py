"""The Python blocks of README and docs. Knows pages; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ONE_PROGRAM = "<!-- blocks run as one program -->"  # else each block stands for itself


@dataclass(frozen=True, slots=True)
class Program:
    """Blocks of a page that run one after the other; where is the page and, of a lone block, its line."""

    where: str
    blocks: Sequence[str]
    source: str
    """All of them, each line where it stands in the page."""


def programs() -> list[Program]:
    """Of every page, in order."""
    found = []
    for page in PAGES:
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
        blocks = list(BLOCK.finditer(text))
        if blocks and ONE_PROGRAM in text:
            found.append(_program(name, text, blocks))
        else:
            found += [_program(f"{name}:{_line(text, one)}", text, [one]) for one in blocks]
    return found


def _line(text: str, block: re.Match[str]) -> int:
    return text.count("\n", 0, block.start()) + 1


def _program(where: str, text: str, blocks: Sequence[re.Match[str]]) -> Program:
    source = ""
    for one in blocks:
        source += "\n" * (_line(text, one) - source.count("\n")) + one.group(1)
    return Program(where, [one.group(1) for one in blocks], source)
