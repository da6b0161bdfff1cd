"""What Linux offers a process to confine itself: namespaces, Landlock, seccomp. Knows system calls; no tools.

Called in a child between fork and exec. Everything raises OSError where the kernel refuses or is too old:
what was asked for and cannot be had must not be taken for granted.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")

_NEW_USER, _NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_SET_DEATH_SIGNAL, _SET_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_SECCOMP = {"x86_64": 317, "aarch64": 277}
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


# A filter's instructions, and the fields of what it judges: number of the call, architecture, first argument.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FLAGS = 0, 4, 16
_ALLOWED, _ASK = 0x7FFF0000, 0x7FC00000
_REFUSED, _UNKNOWN = 0x00050000 | errno.EACCES, 0x00050000 | errno.ENOSYS
_X32 = 0x40000000  # where x86_64's other numbers for the same calls begin
_NEW_LISTENER, _THREAD = 8, 0x10000
# Machine: its architecture, and the numbers there of socket and io_uring_setup, which makes sockets too.
_SOCKETS = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
# Machine: each architecture that it runs, and the numbers there of clone, clone3 and older forks.
_FORKS = {
    "x86_64": ((0xC000003E, 56, 435, (57, 58)), (0x40000003, 120, 435, (2, 190))),
    "aarch64": ((0xC00000B7, 220, 435, ()), (0x40000028, 120, 435, (2, 190))),
}
_Steps = list[tuple[int, int, int, int]]


def no_sockets() -> None:
    """From now on this process and what it starts can open no socket, of whatever kind; pairs remain. A name
    space hides the network, this also the sockets of other programs in the file system."""
    architecture, *calls = _of_this_machine(_SOCKETS)
    _filter(
        [
            (_LOAD, 0, 0, _ARCHITECTURE),  # calls of another have other numbers
            (_IF_EQUAL, 1, 0, architecture),
            (_RETURN, 0, 0, _REFUSED),
            (_LOAD, 0, 0, _NUMBER),
            *_return_if(_IF_AT_LEAST, _X32, _REFUSED),
            *(step for call in calls for step in _return_if(_IF_EQUAL, call, _REFUSED)),
            (_RETURN, 0, 0, _ALLOWED),
        ]
    )


def asks_before_forks() -> int:
    """From now on this process, and what it starts, waits for an answer before it starts a process; threads
    are free. Returns the descriptor that `fork_asked` and `allow_fork` take, to be used by another process:
    when the last copy of it is closed no process can be started any more."""
    steps: _Steps = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for architecture, clone, clone3, forks in _of_this_machine(_FORKS):
        calls: _Steps = [
            (_LOAD, 0, 0, _NUMBER),
            *_return_if(_IF_AT_LEAST, _X32, _UNKNOWN),
            *_return_if(_IF_EQUAL, clone3, _UNKNOWN),  # its flags are in memory; libraries take clone then
            *(step for fork in forks for step in _return_if(_IF_EQUAL, fork, _ASK)),
            (_IF_EQUAL, 1, 0, clone),
            (_RETURN, 0, 0, _ALLOWED),
            (_LOAD, 0, 0, _FLAGS),
            *_return_if(_IF_BITS, _THREAD, _ALLOWED),
            (_RETURN, 0, 0, _ASK),
        ]
        steps += [(_IF_EQUAL, 0, len(calls), architecture), *calls]
    return _filter([*steps, (_RETURN, 0, 0, _ALLOWED)], _NEW_LISTENER)


def fork_asked(listener: int) -> int | None:
    """The next question, by its number; None where the process that asked has ended. Waits for one."""
    question = bytearray(80)  # struct seccomp_notif, which must come as zeros
    try:
        fcntl.ioctl(listener, 0xC0502100, question)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    return int(struct.unpack_from("=Q", question)[0])


def allow_fork(listener: int, question: int) -> None:
    """Let the process that asked go on."""
    answer = struct.pack("=QqiI", question, 0, 0, 1)  # struct seccomp_notif_resp: the call is made
    with suppress(FileNotFoundError):  # it has ended meanwhile
        fcntl.ioctl(listener, 0xC0182101, answer)


def _of_this_machine(table: Mapping[str, tuple[_T, ...]]) -> tuple[_T, ...]:
    machine = platform.machine()
    if machine not in table:
        raise OSError(errno.ENOSYS, f"no filter is known for {machine}")
    return table[machine]


def _return_if(test: int, value: int, action: int) -> _Steps:
    return [(test, 0, 1, value), (_RETURN, 0, 0, action)]


def _filter(steps: _Steps, flags: int = 0) -> int:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = _libc()
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    call = _SECCOMP[platform.machine()]
    return _checked(libc.syscall(call, 1, ctypes.c_ulong(flags), program), "seccomp")


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
