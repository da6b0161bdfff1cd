"""A program run with limits, from the event loop. Knows processes; no tools, no models."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from kogagent.errors import InputError, ToolFailed

_PACKAGES = str(Path(__file__).resolve().parents[2])
_GRACE_S = 10.0  # for a supervisor to clean up
TOOL_PATIENCE_S = 4 * _GRACE_S
"""How much longer than its program a tool may take: what ends the program says more, and comes first."""
# Of /proc only what is about the machine: below the numbers stand other programs' environments and memory.
_READS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/sys/devices/system/cpu", "/proc/self"),
    *(
        f"/proc/{name}"
        for name in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems")
    ),
    *("/proc/sys/kernel", "/proc/sys/vm", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/nsswitch.conf", "/etc/localtime"),
    *("/etc/alternatives", "/etc/ssl", "/etc/ca-certificates", "/etc/gitconfig", "/etc/mime.types"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How much a program may take; what goes beyond is ended with everything it started.

    seconds: wall time, and four times as much of a CPU's. memory_bytes: address space of each process.
    processes: at once, the program included. output_bytes: written to its output. file_bytes: size of any
    file it writes. open_files: at once.
    """

    seconds: float = 30.0
    memory_bytes: int = 2 << 30
    processes: int = 32
    output_bytes: int = 1 << 20
    file_bytes: int = 64 << 20
    open_files: int = 256

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.name != "seconds"
            kind = int if whole else (int, float)
            if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < math.inf:
                rule = "a positive integer" if whole else "a number of seconds > 0"
                raise InputError(f"ProcessLimits.{field.name}={value!r} must be {rule}")


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a program may touch. network: the network at all. files: None for all the user may; else the
    working directory and a temporary one to write, the system's programs and these paths to read."""

    network: bool = True
    files: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if sys.platform != "linux" and not (self.network and self.files is None):
            raise InputError("only Linux can confine a program. Pass network=True and confine=False.")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program came to. code is its exit code, negative or above 128 for a signal, None where it was
    stopped; why says by whom: itself, or the limit that it ran into."""

    why: Literal["exit", "time", "processes", "output"]
    code: int | None
    output: str
    errors: str


def child_command(module: str) -> tuple[str, ...]:
    """A Python child that runs `main()` of one of our modules: isolated, and started fast."""
    code = f"import sys; sys.path.append({_PACKAGES!r}); from {module} import main; main()"
    return (sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", code)


async def run_process(
    argv: Sequence[str],
    *,
    cwd: int,
    limits: ProcessLimits,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    confinement: Confinement | None = None,
    writable: Sequence[int] = (),
    merge_errors: bool = False,
) -> Ended:
    """Run a program to its end, or to a limit's. Cancelling it ends the program with all it started.

    cwd: descriptor of its directory; writable: of others it may write below where it is confined. env is its
    whole environment besides PATH, HOME, TMPDIR and the language: nothing is inherited. Raises ToolFailed
    where it cannot be started as asked.
    """
    scratch = tempfile.mkdtemp(prefix="kogagent-")
    try:
        confined = reading = None
        confinement = Confinement() if confinement is None else confinement
        if confinement.files is not None:
            reading = [*_READS, *confinement.files]
            confined = {"reading": reading, "writing": [scratch, cwd, *writable], "devices": _DEVICES}
        asked = {
            "argv": list(argv),
            "env": {**_environment(scratch, reading), **(env or {})},
            "network": confinement.network,
            "confine": confined,
            **{field.name: getattr(limits, field.name) for field in fields(limits)},
        }
        return await _supervised(asked, (cwd, *writable), stdin, limits, merge_errors)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


def _environment(scratch: str, reading: Sequence[str] | None) -> dict[str, str]:
    places = os.environ.get("PATH", os.defpath).split(":")
    if reading is not None:  # a program that cannot be run hides the one behind it
        places = [place for place in places if any(f"{place}/".startswith(f"{top}/") for top in reading)]
    return {
        "PATH": ":".join(places),
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }


async def _supervised(
    asked: dict[str, Any], folders: tuple[int, ...], stdin: bytes, limits: ProcessLimits, merge_errors: bool
) -> Ended:
    async with contextlib.AsyncExitStack() as stack:
        said, say = _pipe(stack)
        watch, control = _pipe(stack)
        asked |= {"folders": folders, "status": say.number, "control": watch.number}
        process = await asyncio.create_subprocess_exec(
            *child_command("kogagent.toolkit.supervise"),
            json.dumps(asked),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if merge_errors else asyncio.subprocess.PIPE,
            pass_fds=(*folders, say.number, watch.number),
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        say.close()
        watch.close()
        stack.push_async_callback(_gone, process)
        stack.callback(control.close)
        taken = _Taken(limits.output_bytes)
        reading = asyncio.ensure_future(taken.all(process, stdin))
        stack.callback(reading.cancel)
        # The supervisor keeps the time limit; this one is for a supervisor that was stopped itself.
        await asyncio.wait(
            (reading, taken.full), timeout=limits.seconds + _GRACE_S, return_when="FIRST_COMPLETED"
        )
        over = taken.full.done()
        control.close()  # a program that still runs is ended, and the supervisor says how it went
        await asyncio.wait((reading,), timeout=_GRACE_S)
        status = said.json()
    said_why = status.get("why")
    if said_why == "refused":
        raise ToolFailed(f"not run: {status['text']}")
    if over:
        return Ended("output", None, *taken.texts())
    if said_why == "exit":
        return Ended("exit", int(status["code"]), *taken.texts())
    return Ended("processes" if said_why == "processes" else "time", None, *taken.texts())


class _Taken:
    """What a program has written so far, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = limit
        self._output: list[bytes] = []
        self._errors: list[bytes] = []

    async def all(self, process: asyncio.subprocess.Process, stdin: bytes) -> None:
        """Until every pipe is closed and the process has ended."""
        assert process.stdin is not None and process.stdout is not None
        jobs = [_feed(process.stdin, stdin), self._take(process.stdout, self._output)]
        if process.stderr is not None:
            jobs.append(self._take(process.stderr, self._errors))
        await asyncio.gather(*jobs)
        await process.wait()

    async def _take(self, stream: asyncio.StreamReader, kept: list[bytes]) -> None:
        while data := await stream.read(1 << 16):
            kept.append(data[: max(self._left, 0)])
            self._left -= len(data)
            if self._left < 0 and not self.full.done():
                self.full.set_result(None)

    def texts(self) -> tuple[str, str]:
        output, errors = (b"".join(kept).decode("utf-8", "replace") for kept in (self._output, self._errors))
        return output, errors


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a program need not read it
        stream.write(data)
        await stream.drain()
    stream.close()


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Wait for a supervisor that was told to end; what does not within its time is killed, and with it, by
    the death signal it set, what it runs."""
    try:
        await asyncio.wait_for(process.wait(), _GRACE_S)
    except TimeoutError:
        process.kill()
    except asyncio.CancelledError:
        process.kill()
        raise


class _End:
    """One end of a pipe, closed once."""

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def json(self) -> dict[str, Any]:
        """What has been written to it; {} for nothing."""
        os.set_blocking(self.number, False)
        try:
            return dict(json.loads(os.read(self.number, 1 << 16)))
        except (BlockingIOError, ValueError):
            return {}


def _pipe(stack: contextlib.AsyncExitStack) -> tuple[_End, _End]:
    """(the end to read, the end to write)."""
    read, write = (_End(fd) for fd in os.pipe())
    stack.callback(read.close)
    stack.callback(write.close)
    return read, write
