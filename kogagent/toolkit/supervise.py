"""Runs one program and ends everything it started. Knows processes and limits; no tools. A program itself.

Between a tool and what it runs stands this small process. It outlives neither: when its control pipe
closes, or its time is over, it ends the program with all its descendants, those in sessions of their own
included, and says on its status pipe why.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

_LOOK_S = 0.02
_CLEAN_S = 2.0


def main() -> None:
    """argv[1] is the JSON that `process.run_process` writes."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    os.fchdir(asked["folders"][0])
    own_pids = False
    if sys.platform == "linux":
        from kogagent.toolkit import confine

        confine.adopt_orphans()
        with suppress(OSError):  # without one, killing by search is what is left
            confine.new_namespaces(pids=True, network=not asked["network"])
            own_pids = True
    failed_read, failed_write = os.pipe()  # closed by exec, or tells why there was none
    pid = os.fork()
    if pid == 0:
        os.close(failed_read)
        _child(asked, failed_write, namespaces=own_pids)
    os.close(failed_write)
    with os.fdopen(failed_read, "rb") as pipe:
        failure = pipe.read()
    # What the program inherited must not be held open here: its end is the end of its output.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    ended = _watch(asked, pid)
    _end_all(pid)
    if failure:
        ended = {"why": "refused", "text": failure.decode("utf-8", "replace")}
    _tell(asked, ended)


def _tell(asked: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    with suppress(OSError):
        os.write(asked["status"], json.dumps(ended).encode())


def _watch(asked: Mapping[str, Any], pid: int) -> dict[str, Any]:
    """Wait for the program; why it ended, and its exit code, negative for a signal."""
    deadline = time.monotonic() + asked["seconds"]
    poll = select.poll()
    poll.register(asked["control"], select.POLLIN | select.POLLHUP)
    wait = 0.001
    while True:
        code = _reap(pid)
        if code is not None:
            return {"why": "exit", "code": code}
        if poll.poll(wait * 1000):
            return {"why": "stopped"}
        if time.monotonic() > deadline:
            return {"why": "time"}
        if len(_below(os.getpid())) > asked["processes"] + 1:  # the first in its namespace is ours
            return {"why": "processes"}
        wait = min(2 * wait, _LOOK_S)


def _reap(pid: int) -> int | None:
    """Take every ended child; the exit code of the one that matters, once it has ended."""
    code = None
    with suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                return code
            if ended == pid:
                code = os.waitstatus_to_exitcode(status)
    return code


def _end_all(pid: int) -> None:
    """Kill until nothing is left. In a namespace of their own the first kill ends all."""
    end = time.monotonic() + _CLEAN_S
    while True:
        _reap(pid)
        left = _below(os.getpid())
        if not left or time.monotonic() > end:
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: what is stopped starts nothing
            for one in left:
                with suppress(OSError):
                    os.kill(one, number)
        time.sleep(0.001)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)  # where there is no /proc, its session at least


def _below(pid: int) -> list[int]:
    """All descendants, by /proc; none where there is no such thing."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children: list[int] = []
        with suppress(OSError):  # it has ended meanwhile
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    children += map(int, file.read().split())
        found += children
        waiting += children
    return found


# ── the child ──


def _child(asked: Mapping[str, Any], failed: int, *, namespaces: bool) -> NoReturn:
    """Become the program; in a process namespace of its own, become its first process and start it."""
    code = 127
    try:
        os.set_inheritable(failed, False)
        for fd in (asked["control"], asked["status"]):
            os.close(fd)
        _die_with_parent()
        if namespaces:
            program = os.fork()
            if program:
                os.close(failed)
                _first(program)
            _die_with_parent()
        os.setsid()
        _limit(asked)
        if asked["confine"] is not None:
            from kogagent.toolkit import confine

            files = asked["confine"]
            try:
                confine.only_these_files(files["reading"], files["writing"], files["devices"])
            except OSError as error:
                raise OSError(f"its files cannot be confined ({error})") from error
        if not asked["network"]:
            from kogagent.toolkit import confine

            try:
                confine.no_sockets()
            except OSError as error:
                if not namespaces:
                    raise OSError(f"the network cannot be switched off ({error})") from error
        for fd in asked["folders"]:
            os.set_inheritable(fd, False)
        os.execvpe(asked["argv"][0], asked["argv"], asked["env"])
    except FileNotFoundError:
        os.write(failed, f"there is no program {asked['argv'][0]!r}".encode())
    except BaseException as error:
        os.write(failed, str(error).encode())
    finally:
        os._exit(code)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        from kogagent.toolkit import confine

        confine.die_with_parent(signal.SIGKILL)


def _first(program: int) -> NoReturn:
    """The first process of a namespace: takes orphans until the program ends, and ends all with itself."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == program:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _limit(asked: Mapping[str, Any]) -> None:
    """The system's own limits, for the program and what it starts."""
    seconds = int(asked["seconds"]) + 1
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, 4 * seconds),
        (resource.RLIMIT_FSIZE, asked["file_bytes"]),
        (resource.RLIMIT_NOFILE, asked["open_files"]),
        (resource.RLIMIT_AS, asked["memory_bytes"]),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # a system that does not know this one
            resource.setrlimit(kind, (value, value))
