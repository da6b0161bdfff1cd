"""Files that are made once and found again, in the user's cache folder. Knows bytes and names, no meaning.

A file appears by one rename. It begins with a header (magic, length, SHA-256, JSON) that says how long it is,
where each part lies and what its numbers sum to: one that is cut off, changed or half written is removed and
made anew, never used. All of it is the user's alone: the folder has mode 0700, files 0600, and a file
that belongs to somebody else, or that others could write to, is passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogagent.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

FOLDER, LIMIT = "KOGAGENT_CACHE", "KOGAGENT_CACHE_BYTES"
"""Environment: where the files lie, and how many bytes they may take, 0 for none at all."""
SUFFIX = ".kept"
_MAGIC = b"KOGKEPT1"
_LARGEST = 16 << 30  # all files together, unless LIMIT says otherwise
_HEADER = 64 << 20  # bytes; what claims more is damaged
_PAGE = 4096
_BLOCK = 8192  # words of a checksum's block
_ABANDONED_S = 3600.0  # a file still being written after so long never will be


def cache_folder() -> Path:
    """Where this user's files lie: KOGAGENT_CACHE, else kogagent in XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")  # a relative one is to be ignored, says its specification
    return (Path(home) if home and os.path.isabs(home) else Path.home() / ".cache") / "kogagent"


@cache
def sources(*places: Path) -> str:
    """Names the text of Python files, those of a folder where a place is one: what was made by others is made
    anew. Files that are not there, in an archive say, are left out."""
    files = [file for place in places for file in (sorted(place.glob("*.py")) if place.is_dir() else [place])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the cache. used: when it was last asked for, seconds since the epoch."""

    path: Path
    size: int
    used: float

    @property
    def kind(self) -> str:
        return self.path.name.partition("-")[0]


class Found:
    """A file whose header is whole. meta: what was put with it."""

    def __init__(self, path: Path, data: mmap.mmap, header: Mapping[str, Any]) -> None:
        self.path, self._data, self._header = path, data, header
        self.meta: dict[str, Any] = header["meta"]

    def part(self, name: str) -> npt.NDArray[Any]:
        """One part, read-only and in the file's own memory. Raises Damaged where its numbers are not those
        that were written."""
        if name not in self._sound:
            raise Damaged(f"{self.path}: its part {name!r} is damaged")
        return self._array(name)

    @cached_property
    def _sound(self) -> frozenset[str]:
        parts = self._header["parts"]
        return frozenset(name for name in parts if _sum(self._array(name)) == parts[name]["sum"])

    def peek(self, name: str) -> npt.NDArray[Any]:
        """One small part, checked alone. Raises Damaged."""
        array = self._array(name)
        if _sum(array) != self._header["parts"][name]["sum"]:
            raise Damaged(f"{self.path}: its part {name!r} is damaged")
        return array

    def _array(self, name: str) -> npt.NDArray[Any]:
        import numpy as np

        try:
            told = self._header["parts"][name]
        except KeyError:
            raise Damaged(f"{self.path}: has no part {name!r}") from None
        count = int(np.prod(told["shape"], dtype=np.int64))
        return np.frombuffer(self._data, told["dtype"], count, told["start"]).reshape(told["shape"])


class Damaged(Exception):
    """A file that is not what was written. Not seen outside the package: what it held is made anew."""


class DiskCache:
    """The files of one folder, at most `limit` bytes together; those longest not asked for go first.

    folder: by default `cache_folder()`. limit: by default KOGAGENT_CACHE_BYTES, else 16 GiB or half of what
    the disk could give, whichever is less; 0 keeps nothing and finds nothing. Raises InputError for a limit
    that is no number of bytes. Safe to use from several processes at once.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = cache_folder() if folder is None else folder
        self._limit = _named_limit() if limit is None else limit
        if self._limit is not None and (type(self._limit) is not int or self._limit < 0):
            raise InputError(f"limit={limit!r}: must be an integer >= 0, of bytes")

    @property
    def on(self) -> bool:
        return self._limit != 0

    @property
    def limit(self) -> int:
        """Bytes that all files together may take."""
        if self._limit is not None:
            return self._limit
        return min(_LARGEST, (_free(self.folder) + sum(entry.size for entry in self.entries())) // 2)

    def find(self, kind: str, key: str) -> Found | None:
        """The file of this key, header and parts as they were written; None where there is none. A damaged
        one is removed."""
        path = self._path(kind, key)
        found = self._open(path, key)
        if found is None:
            return None
        if len(found._sound) < len(found._header["parts"]):
            self._remove(path)
            return None
        self.touch(found)
        return found

    def find_all(self, kind: str, group: str) -> Iterator[Found]:
        """The files whose keys begin with `group`, those asked for last first; only their headers have been
        looked at."""
        entries = sorted(self.entries(kind), key=lambda entry: entry.used, reverse=True)
        for entry in entries:
            if entry.path.name.startswith(f"{kind}-{group}"):
                found = self._open(entry.path, None)
                if found is not None:
                    yield found

    def touch(self, found: Found) -> None:
        """Say that a file was of use: the others go before it."""
        with contextlib.suppress(OSError):
            os.utime(found.path)

    def drop(self, found: Found) -> None:
        """Remove a file that is damaged."""
        self._remove(found.path)

    def put(
        self, kind: str, key: str, meta: Mapping[str, Any], parts: Mapping[str, npt.NDArray[Any]]
    ) -> Path | None:
        """Write a file, in place of an older one of this key; None where it is not to be had: no room, too
        large for the limit, a folder that cannot be written to. Keys are for file names."""
        if not self.on:
            return None
        header, size = _plan(key, meta, parts)
        try:
            if size > self.limit or size > _free(self.folder):
                return None
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(size)
            path = self._path(kind, key)
            descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")  # of mode 0600
            try:
                with os.fdopen(descriptor, "r+b") as file:
                    _write(file, header, size, parts)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except (OSError, ValueError):  # ValueError: no memory to map the file
            return None
        return path

    def entries(self, kind: str = "") -> list[Entry]:
        """Every file there is, in no order; of one kind where that is given."""
        out = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob(f"{kind}-*{SUFFIX}" if kind else f"*{SUFFIX}"):
                with contextlib.suppress(OSError):  # gone meanwhile
                    found = path.stat()
                    out.append(Entry(path, found.st_size, found.st_mtime))
        return out

    def clear(self) -> int:
        """Remove every file; how many bytes that freed."""
        freed = 0
        for entry in self.entries():
            self._remove(entry.path)
            freed += 0 if entry.path.exists() else entry.size
        self._sweep(0.0)
        return freed

    # ── inside ──

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / f"{kind}-{key}{SUFFIX}"

    def _open(self, path: Path, key: str | None) -> Found | None:
        if not self.on:
            return None
        try:
            with path.open("rb") as file:
                told = os.fstat(file.fileno())
                if hasattr(os, "geteuid") and (told.st_uid != os.geteuid() or told.st_mode & 0o022):
                    return None
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):  # ValueError: it is empty
            self._remove(path)
            return None
        try:
            header = _header(data, key)
        except Damaged:
            data.close()
            self._remove(path)
            return None
        return Found(path, data, header)

    def _make_room(self, size: int) -> None:
        self._sweep(_ABANDONED_S)
        limit, entries = self.limit, sorted(self.entries(), key=lambda entry: entry.used)
        held = sum(entry.size for entry in entries)
        for entry in entries:
            if held + size <= limit:
                return
            self._remove(entry.path)
            held -= entry.size

    def _sweep(self, age: float) -> None:
        """Remove what writers that were ended left behind."""
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*.tmp"):
                with contextlib.suppress(OSError):
                    if path.is_file() and time.time() - path.stat().st_mtime >= age:
                        path.unlink()

    @staticmethod
    def _remove(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()


def _named_limit() -> int | None:
    text = os.environ.get(LIMIT, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InputError(f"{LIMIT}={text!r}: must be a number of bytes, 0 for no cache on disk")
    return int(text)


def _free(folder: Path) -> int:
    """Bytes that the folder's disk has left."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return 0


def _plan(
    key: str, meta: Mapping[str, Any], parts: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, Any], int]:
    """The header without its sums, and the file's size."""
    told: dict[str, Any] = {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "start": 0, "sum": "0" * 16}
        for name, array in parts.items()
    }
    # Places are numbers of as many digits as the largest will have: the header's length follows from nothing.
    room = len(_encoded({"key": key, "meta": meta, "parts": told, "size": 0})) + 24 * (len(parts) + 1)
    at = _up(len(_MAGIC) + 8 + 32 + room)
    for name, array in parts.items():
        told[name]["start"] = at
        at = _up(at + array.nbytes)
    return {"key": key, "meta": dict(meta), "parts": told, "size": at}, at


def _write(file: Any, header: dict[str, Any], size: int, parts: Mapping[str, npt.NDArray[Any]]) -> None:
    import numpy as np

    file.truncate(size)
    for name, array in parts.items():
        file.seek(header["parts"][name]["start"])
        for piece in array if array.ndim > 1 else (array,):  # one by one: a strided array is copied in pieces
            file.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
    file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for told in header["parts"].values():
            count = int(np.prod(told["shape"], dtype=np.int64))
            array = np.frombuffer(data, told["dtype"], count, told["start"])
            told["sum"] = _sum(array)
            del array  # a mapping that is looked at cannot be closed
    text = _encoded(header)
    file.seek(0)
    file.write(_MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text)


def _header(data: mmap.mmap, key: str | None) -> dict[str, Any]:
    """The header of a file. Raises Damaged."""
    start = len(_MAGIC) + 8 + 32
    if len(data) < start or data[: len(_MAGIC)] != _MAGIC:
        raise Damaged("not a file of this cache")
    length = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 8], "little")
    text = data[start : start + length] if length <= _HEADER else b""
    if len(text) != length or hashlib.sha256(text).digest() != data[start - 32 : start]:
        raise Damaged("the header is not what was written")
    header: dict[str, Any] = json.loads(text)
    if header["size"] != len(data) or (key is not None and header["key"] != key):
        raise Damaged("the file is cut off, or another's")
    return header


def _encoded(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()


def _up(n: int) -> int:
    return -(-n // _PAGE) * _PAGE


def _sum(array: npt.NDArray[Any]) -> str:
    """A number of 64 bits from every byte and its block, as fast as memory is read: sums of blocks, each
    times an odd number of its own. Finds what a disk or a lost write does to a file; no forger."""
    import numpy as np

    data = array.reshape(-1).view(np.uint8)
    words = data[: len(data) // 8 * 8].view(np.uint64)
    blocks = words[: len(words) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).sum(1, dtype=np.uint64)
    rest = np.zeros(8, np.uint8)
    rest[: len(data) % 8] = data[len(words) * 8 :]
    last = words[len(blocks) * _BLOCK :].sum(dtype=np.uint64)
    sums = np.concatenate([blocks, [last], rest.view(np.uint64), [np.uint64(len(data))]]).astype(np.uint64)
    weights = np.arange(1, len(sums) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    return f"{int((sums * weights).sum(dtype=np.uint64)):016x}"
