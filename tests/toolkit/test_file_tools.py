"""Files below a root: what the tools do, and that nothing leads out."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from toolkit_calls import Asked

from kogagent import InputError
from kogagent.toolkit import Root, file_tools


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root with a secret beside it."""
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("SECRET")
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (root / "empty.txt").write_text("")
    return root


def every(place: Path) -> Asked:
    return Asked(file_tools(place, write=True, delete=True))


async def test_reading_alone_is_the_default_and_deleting_needs_approval(place: Path) -> None:
    assert [tool.name for tool in file_tools(place)] == ["list_files", "read_file"]
    tools = {tool.name: tool for tool in file_tools(place, write=True, delete=True)}
    assert list(tools) == ["list_files", "read_file", "write_file", "edit_file", "move_file", "delete_file"]
    assert [name for name, tool in tools.items() if tool.needs_approval] == ["delete_file"]
    careful = file_tools(place, write=True, approve_writes=True)
    assert [tool.needs_approval for tool in careful] == [False, False, True, True, True]


async def test_a_folder_is_listed_with_sizes_and_what_is_a_link(place: Path) -> None:
    (place / "link").symlink_to(place.parent / "secret.txt")
    ask = every(place)
    assert await ask("list_files") == "empty.txt  0\nlink  (link, not followed)\nsrc/"
    assert "src/a.py  14" in await ask("list_files", depth=2)
    (place / "bare").mkdir()
    assert await ask("list_files", path="bare") == "[empty]"
    few = Asked(file_tools(place, max_entries=2))
    assert "more than 2" in await few("list_files")


async def test_lines_are_read_by_number(place: Path) -> None:
    ask = every(place)
    assert await ask("read_file", path="src/a.py") == "one\ntwo\nthree"
    told = await ask("read_file", path="src/a.py", start=2, lines=1)
    assert told == "two\n[lines 2 to 2; the file goes on: read on with start=3]"
    assert await ask("read_file", path="src/a.py", start=3) == "three"
    assert await ask("read_file", path="empty.txt") == "[the file is empty]"
    assert "has 3 lines" in await ask.refused("read_file", path="src/a.py", start=9)
    assert await ask("read_file", path=str(place / "src" / "a.py"), lines=3) == "one\ntwo\nthree"


async def test_large_and_odd_files_are_bounded(place: Path) -> None:
    (place / "long").write_text("x" * 3_000_000)
    (place / "many").write_text("line\n" * 100_000)
    (place / "binary").write_bytes(b"a\0b")
    (place / "broken").write_bytes(b"caf\xe9\n")
    ask = every(place)
    assert len(await ask("read_file", path="long")) < 10_000
    assert "read on with start=" in await ask("read_file", path="many", lines=5000)
    assert "no text" in await ask.refused("read_file", path="binary")
    assert await ask("read_file", path="broken") == "caf\ufffd"
    assert "too large" in await ask.refused("edit_file", path="long", old="x", new="y")
    assert "not UTF-8" in await ask.refused("edit_file", path="broken", old="x", new="y")
    assert "too large" in await ask.refused("write_file", path="new", text="é" * (1 << 20) + "x")


async def test_writing_makes_folders_and_overwrites_only_when_asked(place: Path) -> None:
    ask = every(place)
    assert await ask("write_file", path="a/b/c.txt", text="é") == "a/b/c.txt: 2 bytes written"
    assert (place / "a/b/c.txt").read_text() == "é"
    assert "replace=true" in await ask.refused("write_file", path="a/b/c.txt", text="x")
    os.chmod(place / "a/b/c.txt", 0o751)
    await ask("write_file", path="a/b/c.txt", text="x", replace=True)
    assert (place / "a/b/c.txt").read_text() == "x"
    assert (place / "a/b/c.txt").stat().st_mode & 0o777 == 0o751
    assert "folder" in await ask.refused("write_file", path="a/b", text="x", replace=True)
    assert "directory" in await ask.refused("write_file", path="src/a.py/b", text="x")
    assert sorted(os.listdir(place / "a/b")) == ["c.txt"]  # no temporary file is left


async def test_an_edit_replaces_an_exact_piece_as_often_as_it_was_said(place: Path) -> None:
    ask = every(place)
    await ask("edit_file", path="src/a.py", old="two\n", new="2\n")
    assert (place / "src/a.py").read_text() == "one\n2\nthree\n"
    assert "occurs 3 times" in await ask.refused("edit_file", path="src/a.py", old="e", new="E")
    assert "does not occur" in await ask.refused("edit_file", path="src/a.py", old="four", new="4")
    assert "nearest line is 3: 'three'" in await ask.refused(
        "edit_file", path="src/a.py", old="threee", new="4"
    )
    (place / "dos.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    await ask("edit_file", path="dos.txt", old="a\nb\n", new="x\n")
    assert (place / "dos.txt").read_bytes() == b"x\r\nc\r\n"


async def test_moving_overwrites_nothing_and_deleting_takes_one_thing(place: Path) -> None:
    ask = every(place)
    assert await ask("move_file", source="src/a.py", target="lib/b.py") == "src/a.py is now lib/b.py"
    assert "exists" in await ask.refused("move_file", source="lib/b.py", target="empty.txt")
    assert "no 'gone'" in await ask.refused("move_file", source="gone", target="x")
    await ask("move_file", source="lib", target="moved")
    assert "not empty" in await ask.refused("delete_file", path="moved")
    await ask("delete_file", path="moved/b.py")
    await ask("delete_file", path="moved")
    assert "no 'moved'" in await ask.refused("delete_file", path="moved")
    for bad in (".", "/", "src/.."):
        await ask.refused("delete_file", path=bad)


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "link", "dir/key", "src/../dir/key"],
)
async def test_no_path_leads_out(place: Path, path: str) -> None:
    (place / "link").symlink_to(place.parent / "secret.txt")
    (place / "dir").symlink_to(place.parent / "outside")
    ask = every(place)
    before = sorted(str(p) for p in place.parent.rglob("*"))
    assert "SECRET" not in await ask.refused("read_file", path=path)
    await ask.refused("write_file", path=path, text="x", replace=True)
    await ask.refused("edit_file", path=path, old="SECRET", new="x")
    await ask.refused("move_file", source=path, target="stolen")
    await ask.refused("move_file", source="src/a.py", target=path) if path != "link" else None
    assert (place.parent / "secret.txt").read_text() == "SECRET"
    assert (place.parent / "outside/key").read_text() == "SECRET"
    assert sorted(str(p) for p in place.parent.rglob("*")) == before


async def test_a_name_with_a_zero_byte_a_deep_path_and_an_excluded_one_are_refused(place: Path) -> None:
    ask = every(place)
    assert "no path" in await ask.refused("read_file", path="a\0b")
    assert "deep" in await ask.refused("write_file", path="d/" * 100 + "x", text="")
    (place / ".git").mkdir()
    (place / ".git/config").write_text("x")
    assert "off limits" in await ask.refused("write_file", path=".git/hooks/pre-commit", text="rm -rf /")
    assert "off limits" in await ask.refused("read_file", path=".git/config")
    assert ".git" not in await ask("list_files", depth=3)
    open_root = Asked(file_tools(Root(place, exclude=())))
    assert await open_root("read_file", path=".git/config") == "x"


async def test_dots_are_taken_by_name_so_that_a_link_before_them_means_nothing(place: Path) -> None:
    (place / "up").symlink_to(place.parent / "outside")
    ask = every(place)
    assert await ask("read_file", path="up/../src/a.py") == "one\ntwo\nthree"
    assert "no such file" in await ask.refused("read_file", path="up/../secret.txt")


async def test_a_pipe_or_device_never_blocks(place: Path) -> None:
    os.mkfifo(place / "pipe")
    ask = every(place)
    assert "no regular file" in await ask.refused("read_file", path="pipe")
    assert "pipe" in await ask("list_files")
    assert "other" in await ask.refused("write_file", path="pipe", text="x", replace=True)
    assert "a folder" in await ask.refused("read_file", path="src")


async def test_swapping_a_folder_for_a_link_meanwhile_gains_nothing(
    place: Path, rng: np.random.Generator
) -> None:
    """A thief exchanges a folder and a link to the outside as fast as it can while the tools work."""
    (place / "swap").mkdir()
    (place / "swap" / "key").write_text("harmless")
    (place / "other").symlink_to(place.parent / "outside")
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    if exchange is None:
        pytest.skip("exchanging two names in one step needs Linux")
    names = [os.fsencode(place / name) for name in ("swap", "other")]
    stop = threading.Event()

    def thief() -> None:
        while not stop.is_set():
            assert exchange(-100, names[0], -100, names[1], 2) == 0

    thread = threading.Thread(target=thief)
    thread.start()
    ask = every(place)
    statuses: set[str] = set()
    try:
        rounds = 0
        while rounds < 300 or len(statuses) < 2:  # it proves nothing before both have been seen
            rounds += 1
            result = await ask.result("read_file", path="swap/key")
            assert "SECRET" not in result.text
            statuses.add(result.status)
            name = f"swap/{rng.integers(1 << 30)}"
            await ask.result("write_file", path=name, text="planted")
            await ask.result("edit_file", path="swap/key", old="harmless", new="harmless")
            listed = await ask.result("list_files", path="swap")
            assert "SECRET" not in listed.text
    finally:
        stop.set()
        thread.join()
    assert sorted(os.listdir(place.parent / "outside")) == ["key"]
    assert (place.parent / "outside/key").read_text() == "SECRET"


async def test_a_root_stays_the_same_folder_when_its_name_is_taken(place: Path) -> None:
    ask = every(place)
    os.rename(place, place.parent / "moved")
    os.symlink(place.parent / "outside", place)
    assert await ask("read_file", path="src/a.py") == "one\ntwo\nthree"
    assert "no such file" in await ask.refused("read_file", path="key")


def test_what_is_no_root_or_no_limit_is_refused(place: Path) -> None:
    for bad in (place / "none", place / "src/a.py"):
        with pytest.raises(InputError, match="cannot be a root"):
            file_tools(bad)
    with pytest.raises(InputError, match="max_entries=0"):
        file_tools(place, max_entries=0)
    with pytest.raises(InputError, match="exclude"):
        Root(place, exclude=".git")
