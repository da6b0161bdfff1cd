"""A run as it happens, for a terminal, a pipe or a machine. Knows events, no model.

One view a run: `show(event)` for each event, `error(error)` when the run failed. What a model writes is shown
as it comes and never interpreted as markup or control codes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.text import Text

from kogagent.cli.events import as_json
from kogagent.cli.phases import phases, table
from kogagent.errors import KogagentError
from kogagent.types import (
    AgentEvent,
    AskedAgain,
    CallDelta,
    CallReady,
    CallStarted,
    PlanDelta,
    RunFinished,
    RunResult,
    TextDelta,
    ToolFinished,
    TurnEnd,
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {
    "plan": "dim italic",
    "call": "cyan",
    "result": "green",
    "failed": "red",
    "note": "dim",
    "text": "bold",
}


class View(Protocol):
    """What shows a run."""

    def question(self, text: str, model: str) -> None: ...

    def show(self, event: AgentEvent) -> None: ...

    def error(self, error: KogagentError) -> None: ...


def open_view(*, as_json: bool, out: TextIO | None = None) -> View:
    """The view for where output goes: JSON lines when asked for, else text, styled on a terminal only."""
    out = sys.stdout if out is None else out
    if as_json:
        return JsonView(out)
    return TextView(Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True))


def report(error: KogagentError) -> None:
    """One line on the error stream: what is wrong and what to do, no traceback."""
    print(f"kogagent: {_one_line(str(error))}", file=sys.stderr)  # noqa: T201


class TextView:
    """Tokens as they come, calls and results on lines of their own, at the end a table of phases."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._calls = 0
        self._plan = ""  # of the running turn
        self._open = ""  # the kind of text the cursor stands behind, "" at the start of a line

    def question(self, text: str, model: str) -> None:
        self._line(f"? {text}", "text")
        self._line(f"  model: {model}", "note")

    def show(self, event: AgentEvent) -> None:
        match event:
            case PlanDelta(text):
                self._plan += text
                self._stream("plan", text)
            case TextDelta(text) if text == self._plan:
                pass  # the plan was the answer: it is on the screen already
            case TextDelta(text):
                self._stream("text", text)
            case CallStarted(_, name):
                self._end_line()
                self._stream("call", f"→ {name} ")
            case CallDelta(_, text):
                self._stream("call", text)
            case CallReady(call):
                self._calls += 1
                if not call.complete:
                    self._stream("failed", " (cut off)")
                self._end_line()
            case ToolFinished(_, result):
                style = "failed" if result.is_error else "result"
                for number, line in enumerate(result.text.splitlines() or [""]):
                    self._line(("← " if number == 0 else "  ") + line, style)
            case AskedAgain(reason):
                self._line(f"! {reason}", "failed")
            case TurnEnd():
                self._plan = ""
                self._end_line()
            case RunFinished(result):
                self._end_line()
                self._summary(result)
            case _:
                pass  # ToolStarted: the call is on the screen already

    def error(self, error: KogagentError) -> None:
        self._end_line()
        report(error)

    def _summary(self, result: RunResult) -> None:
        if result.reason != "finished":
            self._line(f"! stopped: {result.reason}", "failed")
        self._console.print()
        for number, row in enumerate(table(phases(result.usage, result.timings))):
            self._line(row, "note" if number else "text")
        self._line(f"{result.turns} turns, {self._calls} calls", "note")

    def _stream(self, kind: str, text: str) -> None:
        if self._open and self._open != kind and kind != "failed":
            self._end_line()
        if not self._open and kind != "call":
            text = text.lstrip("\n")
        if not text:
            return
        self._console.print(Text(_clean(text), _STYLES[kind]), end="")
        self._flush()
        self._open = "" if text.endswith("\n") else kind

    def _end_line(self) -> None:
        if self._open:
            self._console.print()
            self._flush()
            self._open = ""

    def _line(self, text: str, kind: str) -> None:
        self._end_line()
        self._console.print(Text(_clean(text), _STYLES[kind]))

    def _flush(self) -> None:
        self._console.file.flush()


class JsonView:
    """One JSON object a line: the event, its fields, and `t`, seconds since the view was opened."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._start = time.perf_counter()

    def question(self, text: str, model: str) -> None:
        self._write({"event": "run_started", "question": text, "model": model})

    def show(self, event: AgentEvent) -> None:
        self._write(as_json(event))

    def error(self, error: KogagentError) -> None:
        self._write({"event": "error", "type": type(error).__name__, "message": str(error)})
        report(error)

    def _write(self, value: dict[str, object]) -> None:
        value["t"] = round(time.perf_counter() - self._start, 6)
        self._out.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
        self._out.flush()


def _clean(text: str) -> str:
    """Without control codes: a model or a tool must not move the cursor or change a terminal's title."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())
