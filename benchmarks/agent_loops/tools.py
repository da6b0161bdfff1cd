"""The tools of the loops: small, deterministic, of fixed cost. Knows no model."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kogagent import Tool, tool

DOCUMENTS = Path(__file__).parent / "data" / "documents"
REPOSITORY = Path(__file__).parent / "data" / "repository"
_TEST_SECONDS = 60

Short = Annotated[str, Field(min_length=1, max_length=24)]


async def look(path: Short, pattern: Short, depth: Annotated[int, Field(ge=0, le=9)]) -> list[str]:
    """Look at a folder.

    Args:
        path: the folder
        pattern: names to show
        depth: how many levels
    """
    return [path, "a.txt"]


def look_tools(count: int) -> list[Tool[..., Any]]:
    """`look` and others of the same kind."""
    return [*(tool(look, name=f"look_{n}") for n in range(count - 1)), tool(look)]


def slow_tool(milliseconds: float, sleep: Callable[[float], Awaitable[None]]) -> Tool[..., Any]:
    """A tool that takes its time and no processor."""

    async def fetch(key: str) -> str:
        """Fetch what is stored under a key."""
        await sleep(milliseconds / 1e3)
        return f"value of {key}"

    return tool(fetch)


def hear_tool(tokens: int) -> Callable[[str], list[Tool[..., Any]]]:
    """A tool whose result has about so many tokens, for a tokenizer of common words."""

    def made(salt: str) -> list[Tool[..., Any]]:
        words = [
            "the",
            "pump",
            "of",
            "line",
            "two",
            "was",
            "stopped",
            "and",
            "a",
            "man",
            "from",
            "the",
            "north",
            "hall",
            "came",
            "to",
            "look",
            "at",
            "it",
            "again",
        ]

        async def read_log(day: Annotated[int, Field(ge=1, le=28)]) -> str:
            """Read the log of a day.

            Args:
                day: of the month
            """
            text = [f"log {salt} of day {day}:"]
            text += [words[(day + n * (n % 5 + 1)) % len(words)] for n in range(int(tokens * 0.9))]
            return " ".join(text)

        return [tool(read_log)]

    return made


def repair_tools(salt: str) -> list[Tool[..., Any]]:
    """A copy of a small repository whose test fails, until its third line is right."""
    root = Path(tempfile.mkdtemp(prefix=f"kogagent-{salt}-"))
    for source in sorted(REPOSITORY.iterdir()):
        (root / source.name.removesuffix(".txt")).write_text(
            source.read_text(encoding="utf-8"), encoding="utf-8"
        )
    File = Literal["mean.py", "test_mean.py"]

    @tool
    async def list_files() -> list[str]:
        """List the files of the repository."""
        return sorted(os.listdir(root))

    @tool
    async def read_file(name: File) -> str:
        """Read a file."""
        return (root / name).read_text(encoding="utf-8")

    @tool
    def run_tests() -> str:
        """Run the tests, in a process of their own."""
        command = [sys.executable, "-S", "-E", "test_mean.py"]
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_TEST_SECONDS, check=False
        )
        return "passed" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    @tool
    async def edit_line(
        name: Literal["mean.py"],
        line: Literal[3],
        text: Literal["    return sum(values) / len(values)", "    return sum(values) // len(values)"],
    ) -> str:
        """Put another text in place of a line.

        Args:
            name: the file
            line: its number, from 1
            text: the new line
        """
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        lines[line - 1] = text
        (root / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return "edited"

    return [list_files, read_file, run_tests, edit_line]


def find_tools(salt: str) -> list[Tool[..., Any]]:
    """Words looked for in a folder of documents, and one document read."""
    documents = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.glob("*.txt"))}
    Name = Literal["heron", "kestrel", "merlin", "osprey"]

    @tool
    async def search(words: Short) -> list[str]:
        """Names of the documents that hold any of the words.

        Args:
            words: with spaces between them
        """
        wanted = words.lower().split()
        found = [name for name, text in documents.items() if any(word in text.lower() for word in wanted)]
        return found or [f"nothing found, {salt}"]

    @tool
    async def read_document(name: Name) -> str:
        """Read a document."""
        return documents[name]

    return [search, read_document]
