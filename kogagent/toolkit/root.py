"""A directory that nothing leads out of. Knows paths and file descriptors; no tools, no models.

Every path is walked from the root's own descriptor, a component at a time, and no link is ever followed: what
is checked is what is opened, so that swapping a directory for a link in between gains nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kogagent.errors import InputError, Retry, ToolFailed

_MAX_DEPTH = 64
_MAX_LENGTH = 4096
_MAX_NAMES = 100_000  # of one folder: more are not looked at


@dataclass(frozen=True, slots=True)
class Entry:
    """Something below a root. path is relative to it, with "/"; kind is "file", "folder", "link" or "other";
    bytes is the size of a file."""

    path: str
    kind: str
    bytes: int = 0


class Root:
    """A directory as the only place there is.

    exclude: patterns of names that do not exist here, neither to read nor to write; `.git` by default, since
    its hooks are programs. Made once, it stays the same directory even when its path is renamed. Raises
    InputError for what is no directory, and where the system cannot open relative to a directory.
    """

    def __init__(self, path: str | Path, *, exclude: Sequence[str] = (".git",)) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise InputError("files under a root need a POSIX system: there is no openat here")
        if isinstance(exclude, str):
            raise InputError(f"exclude={exclude!r} must be a list of patterns")
        try:
            self.fd = os.open(path, _FOLDER & ~os.O_NOFOLLOW)
            self.path = Path(path).resolve(strict=True)  # to be shown, and to know absolute paths by
        except OSError as error:
            raise InputError(
                f"{str(path)!r} cannot be a root: {error.strerror}. Pass a directory."
            ) from error
        self.exclude = tuple(exclude)
        weakref.finalize(self, os.close, self.fd)

    # ── paths ──

    def parts(self, path: str) -> tuple[str, ...]:
        """The components of a path inside the root. Raises Retry for one outside it, or excluded."""
        if "\0" in path or len(path) > _MAX_LENGTH:
            raise Retry(f"{path[:80]!r} is no path")
        if os.path.isabs(path):
            top = str(self.path)
            if path != top and not path.startswith(top.rstrip("/") + "/"):
                raise Retry(f"{path!r} lies outside the folder. Use a path relative to it")
            path = path[len(top) :]
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                if not parts:
                    raise Retry(f"{path!r} leads out of the folder. Use a path inside it")
                parts.pop()  # exact, since no component may be a link
            elif part not in ("", "."):
                parts.append(part)
        if len(parts) > _MAX_DEPTH:
            raise Retry(f"{path[:80]!r} is more than {_MAX_DEPTH} folders deep")
        for part in parts:
            if self.excluded(part):
                raise Retry(f"{path!r}: {part!r} is off limits")
        return tuple(parts)

    def excluded(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)

    # ── opening ──

    @contextlib.contextmanager
    def folder(self, path: str, *, create: bool = False) -> Iterator[int]:
        """The descriptor of a folder, for as long as the block lasts."""
        with self._folder(self.parts(path), create) as fd:
            yield fd

    @contextlib.contextmanager
    def parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder something is in, its name there)."""
        *above, name = self.parts(path) or ("",)
        if not name:
            raise Retry("the folder itself cannot be written, moved or deleted. Name something inside it")
        with self._folder(tuple(above), create) as fd:
            yield fd, name

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[BinaryIO]:
        """A regular file, open to read. A pipe or device is refused, and opening one never waits."""
        with self.parent(path) as (fd, name), open_file(fd, name, path) as file:
            yield file

    @contextlib.contextmanager
    def _folder(self, parts: Sequence[str], create: bool) -> Iterator[int]:
        fd = os.dup(self.fd)
        try:
            for at, name in enumerate(parts):
                inner = _open_folder(fd, name, "/".join(parts[: at + 1]), create)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    # ── looking and changing ──

    def kind(self, path: str) -> str:
        """The kind of an Entry, "" for nothing."""
        if not self.parts(path):
            return "folder"
        with self.parent(path) as (fd, name):
            return _kind_at(fd, name)

    def walk(self, path: str = ".", *, depth: int = _MAX_DEPTH) -> Iterator[Entry]:
        """What is below a folder, in order of name, a folder before its content; links are named, not
        followed. What disappears meanwhile, or may not be read, is passed over."""
        parts = self.parts(path)
        with self._folder(parts, create=False) as fd:
            yield from self._walk(fd, "".join(part + "/" for part in parts), min(depth, _MAX_DEPTH))

    def _walk(self, fd: int, prefix: str, depth: int) -> Iterator[Entry]:
        with os.scandir(fd) as found:
            names = sorted(entry.name for entry in islice(found, _MAX_NAMES))
        for name in names:
            if self.excluded(name):
                continue
            try:
                about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            kind = _kind(about.st_mode)
            yield Entry(prefix + name, kind, about.st_size if kind == "file" else 0)
            if kind == "folder" and depth > 1:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=fd)
                except OSError:
                    continue
                try:
                    yield from self._walk(inner, f"{prefix}{name}/", depth - 1)
                finally:
                    os.close(inner)

    def write(self, path: str, data: bytes, *, replace: bool) -> None:
        """Write a file in one step: a reader sees all of it or what was there. Makes missing folders.

        Without replace, raises Retry where something is; with it, a file keeps its mode and anything else is
        refused.
        """
        with self.parent(path, create=True) as (fd, name):
            kind = _kind_at(fd, name)
            if kind and (not replace or kind != "file"):
                raise Retry(f"{path!r} exists: it is a {kind}" + ("" if kind == "file" else ", no file"))
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode & 0o777 if kind else 0o666
            temporary = f".{secrets.token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(temporary, flags, mode, dir_fd=fd), "wb") as file:
                    file.write(data)
                    if kind:
                        os.fchmod(file.fileno(), mode)
                _place(fd, temporary, fd, name, replace=replace)
            except OSError as error:
                raise _failed(error, path) from error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=fd)

    def move(self, source: str, target: str) -> None:
        """Rename within the root. Raises Retry where something is already."""
        with self.parent(source) as (fd, name), self.parent(target, create=True) as (to, new):
            kind = _kind_at(fd, name)
            if kind not in ("file", "folder"):
                raise Retry(f"{source!r} is a {kind}: not moved" if kind else f"there is no {source!r}")
            if _kind_at(to, new):
                raise Retry(f"{target!r} exists. Choose another name")
            try:
                if kind == "file":
                    _place(fd, name, to, new, replace=False)
                else:
                    os.rename(name, new, src_dir_fd=fd, dst_dir_fd=to)
            except OSError as error:
                raise _failed(error, target) from error

    def delete(self, path: str) -> None:
        """Delete a file, an empty folder or a link itself."""
        with self.parent(path) as (fd, name):
            kind = _kind_at(fd, name)
            if not kind:
                raise Retry(f"there is no {path!r}")
            try:
                if kind == "folder":
                    os.rmdir(name, dir_fd=fd)
                else:
                    os.unlink(name, dir_fd=fd)
            except OSError as error:
                raise _failed(error, path) from error


_FOLDER = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FILE = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)


def open_file(fd: int, name: str, path: str) -> BinaryIO:
    """A regular file in an open folder. path is what messages call it."""
    try:
        file = os.open(name, _FILE, dir_fd=fd)
    except OSError as error:
        raise _failed(error, path) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Retry(
            f"{path!r} is a folder" if _kind_at(fd, name) == "folder" else f"{path!r} is no regular file"
        )
    return os.fdopen(file, "rb")


def _open_folder(fd: int, name: str, path: str, create: bool) -> int:
    for attempt in (1, 2):
        try:
            return os.open(name, _FOLDER, dir_fd=fd)
        except FileNotFoundError as error:
            if not create or attempt == 2:
                raise _failed(error, path) from error
        except OSError as error:
            if _kind_at(fd, name) == "link":
                raise Retry(f"{path!r} is a link, and links are not followed") from error
            raise _failed(error, path) from error
        try:
            with contextlib.suppress(FileExistsError):  # another made it meanwhile
                os.mkdir(name, dir_fd=fd)
        except OSError as error:
            raise _failed(error, path) from error
    raise AssertionError("unreachable")


def _place(fd: int, name: str, to: int, new: str, *, replace: bool) -> None:
    """Give a file its new name; without replace, never over something that appeared meanwhile."""
    if replace:
        os.replace(name, new, src_dir_fd=fd, dst_dir_fd=to)
        return
    os.link(name, new, src_dir_fd=fd, dst_dir_fd=to, follow_symlinks=False)
    os.unlink(name, dir_fd=fd)


def _kind_at(fd: int, name: str) -> str:
    try:
        return _kind(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        return ""


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _failed(error: OSError, path: str) -> Retry | ToolFailed:
    """What the system said, for a model: something to correct, or nothing it could do about."""
    if error.errno == errno.ELOOP:
        return Retry(f"{path!r} is a link, and links are not followed")
    if error.errno in (
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.EINVAL,
    ):
        return Retry(f"{path!r}: {(error.strerror or str(error)).lower()}")
    return ToolFailed(f"{path!r}: {(error.strerror or str(error)).lower()}")
