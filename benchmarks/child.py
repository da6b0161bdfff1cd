"""A process that measures beside us: it cannot break what is ours, nor outlive its time. Knows no benchmark.

The child writes "peer: ready" when it is, then answers every line on its input with one line "peer: …"
(`answer_lines` does both), so that it takes turns with what the parent measures.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.common import ROOT

_MARK = "peer: "  # compilers and libraries write to standard output too


class PeerFailed(Exception):
    """A peer did not get ready, or did not answer: why, in its own last words."""


class Child:
    """One process. Raises PeerFailed when it is not ready within `seconds`; `what` names it in errors."""

    def __init__(self, command: Sequence[str], what: str, seconds: float) -> None:
        self.what = what
        try:
            self._process = subprocess.Popen(
                list(command),
                cwd=ROOT,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise PeerFailed(f"{what}: {error}") from error
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._read, self._listen)]
        for reader in self._readers:
            reader.start()
        self._answer("ready", seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                self._lines.put(line.removeprefix(_MARK).strip())
        self._lines.put(None)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = [*self._errors[-4:], line.strip()]

    def _answer(self, to: str, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise PeerFailed(f"{self.what}: no answer to {to!r} in {seconds:.0f} s") from None
        if line is None:
            self.close()
            raise PeerFailed(f"{self.what}: {' | '.join(self._errors[-2:]) or 'it ended'}")
        return line

    def ask(self, line: str, seconds: float = 60.0) -> str:
        """Its answer to one line."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended; its last words come with the answer
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self._answer(line, seconds)

    def close(self) -> None:
        """End the process. Idempotent."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def _end_with_parent() -> None:
    """In a child: be killed when the parent is, which cannot end us then."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_bounded(
    command: Sequence[str], seconds: float, line: Callable[[str], None], *, ranks: int = 0
) -> str:
    """Run a command, or `ranks` copies of it, for at most `seconds`; each line of output as it comes.

    Copies get the variables by which torch.distributed finds itself. Returns "" when all ended well, else why
    not. Never outlasts its time: every process group is killed, and output that a lost grandchild holds open
    is not waited for.
    """
    reading, writing = os.pipe()
    places: list[dict[str, str]] = [{}]
    if ranks:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        places = [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    processes = [
        subprocess.Popen(
            list(command),
            cwd=ROOT,
            env={**os.environ, **place},
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        for place in places
    ]
    os.close(writing)
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with open(reading, encoding="utf-8", errors="replace") as output:
            for text in output:
                lines.put(text.rstrip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    until, last = time.monotonic() + seconds, ""
    try:
        while True:
            try:
                text = lines.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return f"stopped after {seconds:.0f} s; its last line: {last!r}"
            if text is None:
                break
            last = text or last
            line(text)
        try:
            codes = [process.wait(timeout=max(until - time.monotonic(), 1)) for process in processes]
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s: it wrote all and did not end"
        return "" if not any(codes) else f"ended with {codes}: {last!r}"
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answer_lines(answer: Callable[[str], str]) -> None:
    """The child's side: say that it is ready, then answer until the parent is gone."""
    print(f"{_MARK}ready", flush=True)
    for line in sys.stdin:
        print(f"{_MARK}{answer(line.strip())}", flush=True)
