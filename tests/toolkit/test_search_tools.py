"""Finding lines and files below a root, in bounded time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toolkit_calls import Asked

from kogagent.toolkit import search_tools
from kogagent.toolkit.grep import glob_matches

HOUR = 3600.0  # what is not about the time has all it may need


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("needle outside")
    root = tmp_path / "root"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("first\na needle here\nlast\n")
    (root / "src" / "deep" / "b.md").write_text("Needle\n" * 3)
    (root / "bin").write_bytes(b"needle\0")
    (root / "link").symlink_to(tmp_path / "secret.txt")
    return root


async def test_lines_are_found_with_path_and_number(place: Path) -> None:
    ask = Asked(search_tools(place, seconds=HOUR))
    told = await ask("search", pattern="needle")
    assert told.splitlines()[0] == "src/a.py:2: a needle here" and "outside" not in told
    assert "1 files are no text" in told
    assert (await ask("search", pattern="needle", ignore_case=True)).count("src/deep/b.md:") == 3
    assert (await ask("search", pattern="^n.*E$", regex=True, ignore_case=True)).count("b.md") == 3
    around = await ask("search", pattern="needle", path="src/a.py", around=1)
    assert around.splitlines() == ["src/a.py-1- first", "src/a.py:2: a needle here", "src/a.py-3- last"]
    assert "[no match in 1 files]" in await ask("search", pattern="needle", files="deep/*.md", path="src")
    assert "b.md" in await ask("search", pattern="Needle", files="**/*.md")


async def test_matches_are_counted_and_bounded(place: Path) -> None:
    (place / "many").write_text("needle\n" * 1000)
    ask = Asked(search_tools(place, max_matches=5, seconds=HOUR))
    told = await ask("search", pattern="needle", path="many")
    assert told.count("many:") == 5 and "more than 5 matches" in told


async def test_a_pattern_that_takes_for_ever_is_stopped(place: Path) -> None:
    (place / "evil").write_text("a" * 60 + "b\n")
    ask = Asked(search_tools(place, seconds=0.5))
    assert "longer than 0.5 s" in await ask.refused("search", pattern="(a+)+c", regex=True)


async def test_bad_patterns_and_paths_are_told(place: Path) -> None:
    ask = Asked(search_tools(place, seconds=HOUR))
    assert "no regular expression" in await ask.refused("search", pattern="(", regex=True)
    assert "leads out" in await ask.refused("search", pattern="needle", path="..")
    assert "link" in await ask.refused("find_files", glob="*", path="link/x")
    assert "outside" not in (await ask.result("search", pattern="needle", path="link")).text


async def test_files_are_found_by_name(place: Path) -> None:
    ask = Asked(search_tools(place, seconds=HOUR))
    assert await ask("find_files", glob="*.py") == "src/a.py"
    assert await ask("find_files", glob="src/**") == "src/a.py\nsrc/deep/b.md"
    assert await ask("find_files", glob="*.rs") == "[no file matches]"
    os.mkdir(place / ".git")
    (place / ".git" / "x.py").write_text("")
    assert await ask("find_files", glob="**/*.py") == "src/a.py"


@pytest.mark.parametrize(
    ("pattern", "path", "holds"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/test_*", "test_a", True),
        ("**", "a/b", True),
        ("a/**/b/**/c", "a/b/x/b/c", True),
        ("a/**/b", "a/x", False),
        ("**/**/**/**/**/x", "/".join("y" * 60), False),
    ],
)
def test_a_glob(pattern: str, path: str, holds: bool) -> None:
    assert glob_matches(pattern, path) is holds
