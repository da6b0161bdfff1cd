"""Host memory that forks share page by page until they differ. Knows rows; no keys, no values, no layout.

Where the system has it, the memory is a file without a name, and the processor's page tables do the sharing:
a fork is one more mapping of the file, and the system copies a page when a fork writes into it. Elsewhere,
and where no file can be had, it is plain memory and a fork starts empty.

A cache grows at its end. The mapping that made the file, its owner, goes on writing into it: what it writes
past the end of its forks is nothing to them. The others write into pages of their own. An owner that is about
to write over rows that a fork still reads gives the file up first and writes into pages of its own as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.errors import InputError

_READ_WRITE = 1 | 2
_SHARED, _PRIVATE, _FIXED, _UNRESERVED = 0x01, 0x02, 0x10, 0x4000
_FAILED = ctypes.c_void_p(-1).value


class _File:
    """Memory without a name. readers: of each mapping but the owner's, the rows it reads from here."""

    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("kogagent-cache", os.MFD_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self.fd)
        os.ftruncate(self.fd, size)
        self.readers: dict[int, int] = {}
        self.written = 0  # rows that any of its mappings has written


class Pages:
    """Zeroed memory of so many bytes for rows that are appended, forgotten from the end and forked.

    Raises InputError where the system gives no room for them.
    """

    def __init__(self, size: int, *, file: bool = True, _of: _File | None = None) -> None:
        self._size = size
        self._file = _of
        self._plain: npt.NDArray[np.uint8] | None = None
        self._owner = _of is None
        self._own_from = 0  # where it is not the owner: its rows from here on are not the file's
        self._written = 0
        if _of is None and file and _libc is not None:
            with contextlib.suppress(OSError):  # no files left to open, or none allowed: plain memory then
                self._file = _File(size)
        if self._file is None:
            self._plain = np.zeros(size, np.uint8)  # pages are the system's to give when they are touched
            self.address = int(self._plain.ctypes.data)
        else:
            self.address = _map(None, size, _SHARED if self._owner else _PRIVATE, self._file.fd)
            self._end = weakref.finalize(self, _leave, self._file, id(self), self.address, size)
            self._end.atexit = False  # a pass may still be on its way then

    def array(self, shape: Sequence[int], dtype: Any, offset: int = 0) -> npt.NDArray[Any]:
        """A view of the bytes from `offset` on. Not to be used once these pages are closed."""
        if self._plain is not None:
            memory: Any = self._plain
        else:
            memory = (ctypes.c_char * self._size).from_address(self.address)
        count = int(np.prod(shape))
        return np.frombuffer(memory, dtype, count, offset).reshape(shape)

    def fork(self, length: int) -> tuple[Pages, int]:
        """Pages that hold the first `length` rows too, and the first of those rows that the caller must still
        copy: those that are not in what both share."""
        if self._file is None:
            return Pages(self._size, file=False), 0
        shared = length if self._owner else min(self._own_from, length)
        if 2 * shared < length:
            # Most of it is to be copied, now and for each later fork of this one. A file of the fork's own
            # costs a copy of the rest too, and then its forks, the newest of equals, share all of it.
            return Pages(self._size), 0
        other = Pages(self._size, _of=self._file)
        other._own_from = shared
        self._file.readers[id(other)] = shared
        return other, shared

    def write(self, row: int) -> None:
        """Say that rows from `row` on are about to be written. The address stays what it is."""
        file = self._file
        if file is None:
            return
        if self._owner:
            if max(file.readers.values(), default=0) <= row:
                return
            # Others read what would be written over: from now on this is one of them.
            self._owner, self._own_from, self._written = False, row, row
            _map(self.address, self._size, _PRIVATE | _FIXED, file.fd)
        self._own_from = min(self._own_from, row)
        file.readers[id(self)] = self._own_from

    def wrote(self, end: int) -> None:
        """Say that the rows up to `end` have been written."""
        self._written = max(self._written, end)
        if self._file is not None:  # a fork's first write into a page takes one of the file too
            self._file.written = max(self._file.written, end)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """What these pages hold: (what it is, rows) each; a file is the same for all that share it."""
        if self._file is None:
            return ((id(self), self._written),)
        file = (id(self._file), self._file.written)
        return (file,) if self._owner else (file, (id(self), max(self._written - self._own_from, 0)))

    @property
    def written(self) -> int:
        """Rows that have memory."""
        return self._written

    def close(self) -> None:
        """Give the memory back, but what others share. Idempotent."""
        if self._file is not None:
            self._end()
        self._file = self._plain = None
        self._written = 0


def _load() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


_libc = _load()


def _map(address: int | None, size: int, how: int, fd: int) -> int:
    assert _libc is not None
    found: int | None = _libc.mmap(address, size, _READ_WRITE, how | _UNRESERVED, fd, 0)
    if found is None or found == _FAILED:
        code = ctypes.get_errno()
        raise InputError(
            f"the system has no room for a cache of {size / 1e9:.1f} GB ({os.strerror(code)}). "
            "Close sessions, or open them with less context."
        )
    return found


def _leave(file: _File, reader: int, address: int, size: int) -> None:
    assert _libc is not None
    file.readers.pop(reader, None)
    _libc.munmap(address, size)
