"""What Linux offers a process to confine itself: namespaces, Landlock, seccomp. Knows system calls; no tools.

Called in a child between fork and exec. Everything raises OSError where the kernel refuses or is too old:
what was asked for and cannot be had must not be taken for granted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

_NEW_USER, _NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_SET_DEATH_SIGNAL, _SET_SECCOMP, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 22, 36, 38
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
    or descriptors of folders). Paths that are not there are left out. Where the kernel can, its signals and
    abstract sockets too reach nothing but what it starts."""
    libc = _libc()
    version = _checked(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1), "Landlock")
    everything = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", everything, 0, 3) if version >= 6 else struct.pack("=Q", everything)
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


# Architecture: its number in a filter's data, and those of socket and io_uring_setup, which makes them too.
_SYSTEM_CALLS = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000 | errno.EACCES


def no_sockets() -> None:
    """From now on this process and what it starts can open no socket, of whatever kind; pairs remain. A name
    space hides the network, this also the sockets of other programs in the file system."""
    machine = platform.machine()
    if machine not in _SYSTEM_CALLS:
        raise OSError(errno.ENOSYS, f"no filter is known for {machine}")
    architecture, socket, ring = _SYSTEM_CALLS[machine]
    steps = (
        (_LOAD, 0, 0, 4),  # architecture: calls of another have other numbers
        (_IF_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, 0),  # number of the call
        (_IF_AT_LEAST, 3, 0, 0x40000000),  # x32's, which are the same calls by other numbers
        (_IF_EQUAL, 2, 0, socket),
        (_IF_EQUAL, 1, 0, ring),
        (_RETURN, 0, 0, _ALLOWED),
        (_RETURN, 0, 0, _REFUSED),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = _libc()
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _checked(libc.prctl(_SET_SECCOMP, 2, program, 0, 0), "seccomp")


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
