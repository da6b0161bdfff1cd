"""A process that measures beside us: it cannot break what is ours, nor outlive its time. Knows no benchmark.

The child writes "peer: ready" when it is, then answers every line on its input with one line "peer: …"
(`answer_lines` does both), so that it takes turns with what the parent measures.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
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


def answer_lines(answer: Callable[[str], str]) -> None:
    """The child's side: say that it is ready, then answer until the parent is gone."""
    print(f"{_MARK}ready", flush=True)
    for line in sys.stdin:
        print(f"{_MARK}{answer(line.strip())}", flush=True)
