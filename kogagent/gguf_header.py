"""The header of a GGUF file: its keys, and where each tensor lies. Knows no meaning of a key.

Written here rather than taken from the package `gguf`, which spends two seconds on a vocabulary of 49,152
tokens and is an optional dependency.
"""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kogagent.errors import ConfigError

# GGUF value types 0..12: (struct letter, bytes); 8 is a string, 9 an array.
_SCALARS = {
    0: ("B", 1), 1: ("b", 1), 2: ("H", 2), 3: ("h", 2), 4: ("I", 4), 5: ("i", 4), 6: ("f", 4),
    7: ("?", 1), 10: ("Q", 8), 11: ("q", 8), 12: ("d", 8),
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")  # of a string, in front of it
_KEEP_ALL_UP_TO = 1 << 28  # elements of one array; a larger count is a damaged file, not a vocabulary


_MAX_DIMS = 4
_ALIGNMENT = 32  # where general.alignment says nothing else


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where one tensor lies. shape: as the file has it, the row first; kind: GGML's number of its type;
    start: bytes from the start of the file."""

    shape: tuple[int, ...]
    kind: int
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """Everything in front of the data. metadata: arrays are lists; size: bytes of the whole file."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorPlace]
    size: int


def read_header(path: Path) -> Header:
    """Read a file up to its data.

    The header read last is kept: a model's tokenizer and its weights both ask for it. Raises ConfigError for
    what is no GGUF file of version 2 or 3, or ends inside its header.
    """
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file. Pass a directory or a .gguf file.") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    with _ONE_AT_A_TIME:
        return _read(path, found.st_ino, found.st_mtime_ns, found.st_size)


_ONE_AT_A_TIME = threading.Lock()  # who comes second finds it read


@lru_cache(maxsize=1)
def _read(path: Path, *identity: int) -> Header:
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _Reader(data, path).read()
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        if isinstance(error, ConfigError):
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{path}: cannot be read as a GGUF file ({error})")


class _Reader:
    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self._at = 0

    def read(self) -> Header:
        if self._data[:4] != b"GGUF":
            raise ConfigError(f"{self._path}: does not start with 'GGUF': not a GGUF file")
        self._at = 4
        version = self._scalar("I", 4)
        if version not in (2, 3):
            raise ConfigError(
                f"{self._path}: GGUF version {version} is not supported (2 and 3, little-endian, are). "
                "Convert the model again with a current llama.cpp."
            )
        tensors, keys = self._scalar("Q", 8), self._scalar("Q", 8)
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = self._string()
            if key in metadata:
                raise ConfigError(f"{self._path}: the key {key!r} is there twice: the file is damaged")
            metadata[key] = self._value(self._scalar("I", 4), key)
        places = [self._place() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1:
            raise ConfigError(f"{self._path}: general.alignment={alignment!r} must be a positive integer")
        data = -(-self._at // alignment) * alignment
        found = {name: TensorPlace(shape, kind, data + offset) for name, shape, kind, offset in places}
        if len(found) < len(places):
            raise ConfigError(f"{self._path}: two tensors have one name: the file is damaged")
        return Header(metadata, found, len(self._data))

    def _place(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dims = self._string(), self._scalar("I", 4)
        if dims > _MAX_DIMS:
            raise ConfigError(f"{self._path}: {name!r} claims {dims} dimensions: the file is damaged")
        shape = tuple(self._scalar("Q", 8) for _ in range(dims))
        return name, shape, self._scalar("I", 4), self._scalar("Q", 8)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ConfigError(
                f"{self._path}: the file ends inside its header: it is truncated. Download it again."
            )
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def _scalar(self, letter: str, size: int) -> Any:
        return struct.unpack("<" + letter, self._take(size))[0]

    def _string(self) -> str:
        piece = self._take(self._scalar("Q", 8))
        try:
            return str(piece, "utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self._path}: a string in the metadata is not UTF-8 ({error})") from error

    def _strings(self, count: int) -> list[str]:
        """What `count` calls of _string give, several times as fast: a vocabulary has 100,000 of them."""
        data, at, out = self._data, self._at, list[str]()
        try:
            for _ in range(count):
                start = at + _LENGTH.size
                end = start + _LENGTH.unpack_from(data, at)[0]
                piece = data[start:end]
                if len(piece) < end - start:
                    break
                out.append(piece.decode())
                at = end
        except (struct.error, UnicodeDecodeError):
            pass
        self._at = at
        while len(out) < count:
            out.append(self._string())  # it is wrong, and says how
        return out

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._scalar("I", 4), self._scalar("Q", 8)
            if count > _KEEP_ALL_UP_TO:
                raise ConfigError(f"{self._path}: {key!r} claims {count} elements: the file is damaged")
            if inner in _SCALARS:
                letter, size = _SCALARS[inner]
                return list(struct.unpack(f"<{count}{letter}", self._take(count * size)))
            if inner == _STRING:
                return self._strings(count)
            return [self._value(inner, key) for _ in range(count)]
        if kind not in _SCALARS:
            raise ConfigError(f"{self._path}: {key!r} has the unknown value type {kind}")
        return self._scalar(*_SCALARS[kind])
