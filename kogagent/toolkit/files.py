"""Tools for the files below a root: list, read, write, edit, move, delete. Knows text; no models.

Text is UTF-8. What cannot be done is said to the model: a Retry where other arguments may help.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from kogagent.errors import InputError, Retry, ToolFailed
from kogagent.toolkit.root import Root
from kogagent.tools.tool import Tool

_SCAN_BYTES = 64 << 20  # of a file that is read from a late line
_LINE_CHARS = 2000
_NEAR_CHARS, _NEAR_TEXT = 200, 200_000  # of a line, of a file that is searched for one like another

PathText = Annotated[str, Field(description="Path relative to the folder.", min_length=1, max_length=1024)]


def file_tools(
    root: str | Path | Root,
    *,
    write: bool = False,
    delete: bool = False,
    approve_writes: bool = False,
    max_entries: int = 500,
    max_read_chars: int = 16_000,
    max_file_bytes: int = 2 << 20,
) -> tuple[Tool[..., Any], ...]:
    """`list_files` and `read_file` below a root; with write `write_file`, `edit_file` and `move_file`; with
    delete `delete_file`, which needs approval.

    approve_writes: the writing tools need approval too. max_file_bytes bounds what is written or edited.
    No link is followed and nothing outside the root is touched; see Root. Raises InputError.
    """
    for name, value in (
        ("max_entries", max_entries),
        ("max_read_chars", max_read_chars),
        ("max_file_bytes", max_file_bytes),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"file_tools {name}={value!r} must be a positive integer")
    files = _Files(as_root(root), max_entries, max_read_chars, max_file_bytes)
    tools: list[Tool[..., Any]] = [
        Tool(files.list_files),
        Tool(files.read_file, max_result_chars=2 * max_read_chars),
    ]
    if write:
        changes = (files.write_file, files.edit_file, files.move_file)
        tools += [Tool(change, needs_approval=approve_writes) for change in changes]
    if delete:
        tools.append(Tool(files.delete_file, needs_approval=True))
    return tuple(tools)


def as_root(root: str | Path | Root) -> Root:
    return root if isinstance(root, Root) else Root(root)


class _Files:
    """The tools, bound to their root and limits."""

    def __init__(self, root: Root, max_entries: int, max_read_chars: int, max_file_bytes: int) -> None:
        self._root = root
        self._max_entries = max_entries
        self._max_read_chars = max_read_chars
        self._max_file_bytes = max_file_bytes

    def list_files(self, path: PathText = ".", depth: Annotated[int, Field(ge=1, le=8)] = 1) -> str:
        """List a folder: folders end in "/", files have their size in bytes.

        Args:
            path: the folder
            depth: how many levels
        """
        lines = []
        for number, entry in enumerate(self._root.walk(path, depth=depth)):
            if number == self._max_entries:
                lines.append(f"[… more than {self._max_entries}: list a folder inside, or fewer levels]")
                break
            ending = {"folder": "/", "file": f"  {entry.bytes}", "link": "  (link, not followed)"}
            lines.append(entry.path + ending.get(entry.kind, "  (no file)"))
        return "\n".join(lines) or "[empty]"

    def read_file(
        self,
        path: PathText,
        start: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=5000)] = 500,
    ) -> str:
        """Read lines of a text file.

        Args:
            path: the file
            start: the first line, counted from 1
            lines: how many lines at most
        """
        with self._root.reading(path) as file:
            return self._lines(file, path, start, lines)

    def _lines(self, file: BinaryIO, path: str, start: int, wanted: int) -> str:
        shown: list[str] = []
        number = chars = scanned = 0
        for number, raw in enumerate(_bounded_lines(file), 1):
            scanned += len(raw)
            if b"\0" in raw:
                raise ToolFailed(f"{path!r} is no text: it has a zero byte in line {number}")
            if number < start:
                if scanned > _SCAN_BYTES:
                    raise ToolFailed(
                        f"line {start} lies beyond the first {_SCAN_BYTES >> 20} MiB of {path!r}"
                    )
                continue
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            text = (
                text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}[… {len(raw)} bytes in this line]"
            )
            chars += len(text) + 1
            if len(shown) == wanted or chars > self._max_read_chars:
                shown.append(
                    f"[lines {start} to {number - 1}; the file goes on: read on with start={number}]"
                )
                break
            shown.append(text)
        else:
            if start > max(number, 1):
                raise Retry(f"{path!r} has {number} lines, there is no line {start}")
            if not number:
                return "[the file is empty]"
        return "\n".join(shown)

    def write_file(self, path: PathText, text: str, replace: bool = False) -> str:
        """Write a text file, making folders where they are missing.

        Args:
            path: the file
            text: all of its content
            replace: whether a file that exists is overwritten
        """
        data = text.encode()
        self._fits(path, len(data))
        try:
            self._root.write(path, data, replace=replace)
        except Retry as error:
            if replace or "exists" not in str(error):
                raise
            raise Retry(f"{error}. Pass replace=true to overwrite it, or use edit_file") from error
        return f"{path}: {len(data)} bytes written"

    def edit_file(
        self,
        path: PathText,
        old: Annotated[str, Field(min_length=1)],
        new: str,
        times: Annotated[int, Field(ge=1)] = 1,
    ) -> str:
        """Replace an exact piece of a text file. It must occur exactly as often as you say.

        Args:
            path: the file
            old: the piece as it stands in the file, white space and all
            new: what stands there afterwards
            times: how often the piece occurs, each time replaced
        """
        with self._root.reading(path) as file:
            data = file.read(self._max_file_bytes + 1)
        self._fits(path, len(data))
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{path!r} is not UTF-8 text") from error
        if "\r\n" in text and old not in text:  # a model writes plain newlines
            old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
        found = text.count(old)
        if not found:
            raise Retry(_not_found(text, old, path))
        if found != times:
            often = f"the piece occurs {found} times in {path!r}, not {times}"
            raise Retry(f"{often}. Add lines around it, or pass times={found}")
        changed = text.replace(old, new).encode()
        self._fits(path, len(changed))
        self._root.write(path, changed, replace=True)
        return f"{path}: {times} replaced, {len(changed)} bytes"

    def move_file(self, source: PathText, target: PathText) -> str:
        """Move or rename a file or folder. Nothing is overwritten.

        Args:
            source: what to move
            target: its new path
        """
        self._root.move(source, target)
        return f"{source} is now {target}"

    def delete_file(self, path: PathText) -> str:
        """Delete a file or an empty folder.

        Args:
            path: what to delete
        """
        self._root.delete(path)
        return f"{path} is deleted"

    def _fits(self, path: str, size: int) -> None:
        if size > self._max_file_bytes:
            raise ToolFailed(f"{path!r} is too large: at most {self._max_file_bytes} bytes can be written")


def _bounded_lines(file: BinaryIO) -> Any:
    """Lines, those without an end in pieces of 1 MiB: no file fills the memory."""
    return iter(lambda: file.readline(1 << 20), b"")


def _not_found(text: str, old: str, path: str) -> str:
    """Where the nearest line is, since most misses are a matter of white space."""
    first = next((line for line in old.splitlines() if line.strip()), old)[:_NEAR_CHARS]
    lines = [line[:_NEAR_CHARS] for line in text[:_NEAR_TEXT].splitlines()[:2000]]  # comparing takes its time
    close = difflib.get_close_matches(first, lines, n=1, cutoff=0.6)
    hint = f" The nearest line is {lines.index(close[0]) + 1}: {close[0]!r}" if close else ""
    return f"the piece does not occur in {path!r}.{hint} Copy it exactly as read_file shows it"
