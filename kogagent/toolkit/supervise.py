"""Runs one program and ends everything it started. Knows processes and limits; no tools. A program itself.

Between a tool and what it runs stands this small process. It outlives neither: when its control pipe
closes, or its time is over, it ends the program with all its descendants, those in sessions of their own
included, and says on its status pipe why.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from kogagent.toolkit import confine

_LOOK_S = 0.02
_CLEAN_S = 2.0


def main() -> None:
    """argv[1] is the JSON that `process.run_process` writes."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    os.fchdir(asked["folders"][0])
    own_pids = False
    if sys.platform == "linux":
        confine.adopt_orphans()
        with suppress(OSError):  # without one, killing by search is what is left
            confine.new_namespaces(pids=True, network=not asked["network"])
            own_pids = True
    failed_read, failed_write = os.pipe()  # closed by exec, or tells why there was none
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.close(failed_read)
        ours.close()
        _child(asked, failed_write, theirs, namespaces=own_pids)
    os.close(failed_write)
    theirs.close()
    with os.fdopen(failed_read, "rb") as pipe:
        failure = pipe.read()
    with ours:
        forks = socket.recv_fds(ours, 1, 1)[1]
    # What the program inherited must not be held open here: its end is the end of its output.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    ended = _watch(asked, pid, asked["processes"] + own_pids, *forks)  # a namespace's first process is ours
    if ended["why"] != "exit":
        os.kill(pid, signal.SIGKILL)  # at once: to look for the others takes the longer the more there are
    _end_all(pid)  # while questions stay without an answer: whoever asks starts nothing more
    if failure:
        ended = {"why": "refused", "text": failure.decode("utf-8", "replace")}
    _tell(asked, ended)


def _tell(asked: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    with suppress(OSError):
        os.write(asked["status"], json.dumps(ended).encode())


def _watch(asked: Mapping[str, Any], pid: int, most: int, forks: int = -1) -> dict[str, Any]:
    """Wait for the program; why it ended, and its exit code, negative for a signal.

    most: processes at once. forks: where it asks before it starts one; -1 for a kernel that cannot have it
    ask. They are counted at every question, before there is another, and now and then.
    """
    deadline = time.monotonic() + asked["seconds"]
    poll = select.poll()
    poll.register(asked["control"], select.POLLIN | select.POLLHUP)
    if forks >= 0:
        poll.register(forks, select.POLLIN)
    wait = 0.001
    while True:
        code = _reap(pid)
        if code is not None:
            return {"why": "exit", "code": code}
        ready = dict(poll.poll(wait * 1000))
        if asked["control"] in ready:
            return {"why": "stopped"}
        if time.monotonic() > deadline:
            return {"why": "time"}
        told = ready.get(forks, 0)
        question = confine.fork_asked(forks) if told & select.POLLIN else None
        if len(_below(os.getpid(), most)) + (question is not None) > most:
            return {"why": "processes"}
        if question is not None:
            confine.allow_fork(forks, question)
        elif told & select.POLLHUP:  # nobody is left who could ask
            poll.unregister(forks)
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


def _below(pid: int, most: float = math.inf) -> list[int]:
    """All descendants, or somewhat more than `most`, by /proc; none where there is no such thing."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) <= most:
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


def _child(asked: Mapping[str, Any], failed: int, supervisor: socket.socket, *, namespaces: bool) -> NoReturn:
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
                supervisor.close()
                _first(program)
            _die_with_parent()
        os.setsid()
        _limit(asked)
        if asked["confine"] is not None:
            files = asked["confine"]
            try:
                confine.only_these_files(files["reading"], files["writing"], files["devices"])
            except OSError as error:
                raise OSError(f"its files cannot be confined ({error})") from error
        if not asked["network"]:
            try:
                confine.no_sockets()
            except OSError as error:
                if not namespaces:
                    raise OSError(f"the network cannot be switched off ({error})") from error
        if sys.platform == "linux":
            with suppress(OSError):  # without it, looking now and then is what is left
                socket.send_fds(supervisor, [b"?"], [confine.asks_before_forks()])
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
