"""What Linux offers a process to confine itself: namespaces and Landlock. Knows system calls; no tools.

Called in a child between fork and exec. Everything raises OSError where the kernel refuses or is too old:
what was asked for and cannot be had must not be taken for granted.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

_NEW_USER, _NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_SET_DEATH_SIGNAL, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # execute, write, read, truncate, ioctl


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def die_with_parent(signal: int) -> None:
    """Be sent this signal when the parent ends."""
    _checked(_libc().prctl(_SET_DEATH_SIGNAL, signal, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _checked(_libc().prctl(_SET_SUBREAPER, 1, 0, 0, 0), "prctl")


def new_namespaces(*, pids: bool, network: bool) -> None:
    """Give this process a network without any interface but an unset loopback, and its next child a process
    namespace of its own: when that child ends, the kernel ends whatever it started.

    Without the privilege for it, a user namespace is made first, in which the user stays who it is.
    """
    flags = (_NEW_PIDS if pids else 0) | (_NEW_NET if network else 0)
    libc = _libc()
    if not flags or libc.unshare(flags) == 0:
        return
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(flags | _NEW_USER), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def only_these_files(reading: Sequence[str], writing: Sequence[str | int], devices: Sequence[str]) -> None:
    """From now on this process reads and executes below `reading` alone, and does all below `writing` (paths
    or descriptors of folders). Paths that are not there are left out."""
    libc = _libc()
    version = _checked(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1), "Landlock")
    everything = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    attributes = struct.pack("=Q", everything)
    ruleset = _checked(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "Landlock"
    )
    try:
        for access, paths in ((_READ, reading), (everything, writing), (_OF_FILES & ~1, devices)):
            for path in paths:
                _allow(libc, ruleset, path, access & everything)
        _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str | int, access: int) -> None:
    try:
        fd = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, fd)
        _checked(libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), "Landlock")
    finally:
        os.close(fd)
