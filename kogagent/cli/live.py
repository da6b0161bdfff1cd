"""A run as it happens, for a terminal, a pipe or a machine. Knows events, no model.

One view a run: `show(event)` for each event, `error(error)` when the run failed. What a model writes is shown
as it comes and never interpreted as markup or control codes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from typing import Protocol, TextIO, assert_never

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kogagent.errors import KogagentError
from kogagent.observe.events import as_json
from kogagent.observe.phases import Phase, duration, phases, table
from kogagent.types import (
    AgentEvent,
    AskedAgain,
    CallDelta,
    CallReady,
    CallStarted,
    Compacted,
    HandedOff,
    Nested,
    ObserveDelta,
    PlanDelta,
    RunFinished,
    RunResult,
    TextDelta,
    Timings,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnd,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    Usage,
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


# The colours of the HTML report, middle tones that stand out on black and on white.
_COLOURS = {
    "pre-fill": "#8b6fe0",
    "reuse": "#a999e0",
    "sampled": "#3f87ec",
    "forced": "#dd9a1c",
    "render": "#14a090",
    "parse": "#4fb3a8",
    "dispatch": "#d6609a",
    "tool": "#36a859",
    "append": "#6fbf85",
    "idle": "#97a3b0",
    "loop": "#7a8794",
    "reader": "#a8b2bc",
}


class View(Protocol):
    """What shows a run."""

    def question(self, text: str, model: str) -> None: ...

    def show(self, event: AgentEvent) -> None: ...

    def ask(self, text: str) -> None:
        """A question whose answer is typed behind it, and ends with the line."""

    def error(self, error: KogagentError) -> None: ...

    def close(self) -> None:
        """The command ends, however: leave the terminal as it was."""


def open_view(*, as_json: bool, out: TextIO | None = None, timings: bool = True) -> View:
    """The view for where output goes: JSON lines when asked for, else text, styled on a terminal only.
    timings: text tells what turns and runs took."""
    out = sys.stdout if out is None else out
    if as_json:
        return JsonView(out)
    console = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return TextView(console, timings=timings)


def report(error: KogagentError) -> None:
    """One line on the error stream: what is wrong and what to do, no traceback."""
    print(f"kogagent: {_one_line(str(error))}", file=sys.stderr)  # noqa: T201


def ask(question: str) -> None:
    """A question on the error stream, space for space; what is typed stands behind it."""
    print(" ".join(_clean(question).splitlines()), end=" ", file=sys.stderr, flush=True)  # noqa: T201


class TextView:
    """Tokens as they come, calls and results on lines of their own, at the end a table of phases.

    On a terminal a line that is gone again says what is waited for: a model that reads, a tool that runs.
    waiting=False leaves it out, for a terminal that is recorded. timings=False leaves out what each turn and
    the whole run took.
    """

    def __init__(self, console: Console, *, waiting: bool = True, timings: bool = True) -> None:
        self._console, self._timings = console, timings
        self._shows_waiting = waiting and console.is_terminal
        self._waiting: Status | None = None
        self._running: dict[str, str] = {}  # calls, by id
        self._calls = 0
        self._plan = ""  # of the running turn
        self._open = ""  # the kind of text the cursor stands behind, "" at the start of a line

    def question(self, text: str, model: str) -> None:
        self._line(f"? {text}", "text")
        self._line(f"  model: {model}", "note")

    def show(self, event: AgentEvent) -> None:
        match event:
            case TurnStarted(turn):
                self._wait(f"turn {turn}: the model reads")
            case ObserveDelta(text):
                self._stream("plan", text)
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
            case ToolStarted(call):
                self._running[call.id] = call.name
                self._wait_for_tools()
            case ToolProgress(call, value):
                self._line(f"… {call.name}: {value}", "note")
                self._wait_for_tools()
            case ToolFinished(call, result):
                self._running.pop(call.id, None)
                style = "failed" if result.is_error else "result"
                for number, line in enumerate(result.text.splitlines() or [""]):
                    self._line(("← " if number == 0 else "  ") + line, style)
                self._wait_for_tools()
            case AskedAgain(reason):
                self._line(f"! {reason}", "failed")
            case TurnRetried(error, attempt):
                self._line(f"! {type(error).__name__}: {error} (asked again, {attempt})", "failed")
            case HandedOff(_, source, target):
                self._line(f"⇒ {source} hands over to {target}", "note")
            case Compacted():
                told = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
                self._line(f"⇣ history shortened from {told}", "note")
            case TurnEnd():
                self._plan = ""
                self._end_line()
            case TurnFinished(turn, usage, timings):
                if self._timings:
                    self._line(_cost(turn, usage, timings), "note")
            case RunFinished(result):
                self._end_line()
                self._summary(result)
            case Nested():
                pass  # of an agent that is a tool: its result is shown
            case _:
                assert_never(event)

    def ask(self, text: str) -> None:
        self._end_line()
        ask(text)

    def error(self, error: KogagentError) -> None:
        self._end_line()
        report(error)

    def close(self) -> None:
        self._end_line()

    def _summary(self, result: RunResult) -> None:
        if result.reason != "finished":
            self._line(f"! stopped: {result.reason}", "failed")
        for pending in result.pending:
            self._line(f"  waits for an answer: {pending.name} {pending.arguments}", "note")
        if self._timings:
            self._costs(result)

    def _costs(self, result: RunResult) -> None:
        self._console.print()
        *rows, whole = phases(result.usage, result.timings)
        spent = [row for row in rows if row.seconds]
        if self._console.is_terminal:
            self._console.print(_bar(spent, min(self._console.width, 100)))
        for number, line in enumerate(table([*spent, whole])):
            phase = spent[number - 1].name if 0 < number <= len(spent) else ""
            text = Text(line, "" if phase else "bold")
            if self._console.is_terminal:
                text = Text.assemble(("■ ", _COLOURS[phase]) if phase else "  ", text)
            self._console.print(text)
        self._line(f"{result.turns} turns, {self._calls} calls", "note")

    def _wait(self, text: str) -> None:
        """Say what is waited for, where a line can be taken back."""
        if self._shows_waiting and not self._open:
            self._stop_waiting()
            self._waiting = self._console.status(Text(text, _STYLES["note"]), spinner="dots")
            self._waiting.start()

    def _wait_for_tools(self) -> None:
        if self._running:
            self._wait(", ".join(self._running.values()))

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _stream(self, kind: str, text: str) -> None:
        if self._open and self._open != kind and kind != "failed":
            self._end_line()
        if not self._open and kind != "call":
            text = text.lstrip("\n")
        if not text:
            return
        self._stop_waiting()
        self._console.print(Text(_clean(text), _STYLES[kind]), end="")
        self._flush()
        self._open = "" if text.endswith("\n") else kind

    def _end_line(self) -> None:
        self._stop_waiting()
        if self._open:
            self._console.print()
            self._flush()
            self._open = ""

    def _line(self, text: str, kind: str) -> None:
        self._end_line()
        self._console.print(Text(_clean(text), _STYLES[kind]))

    def _flush(self) -> None:
        self._console.file.flush()


def _cost(turn: int, usage: Usage, timings: Timings) -> str:
    """What a turn took, in one line."""
    said = [f"turn {turn}: {duration(timings.wall_s)}"]
    if usage.prompt_tokens:
        said.append(f"{usage.prefilled_tokens:,} tokens read, {usage.reused_tokens:,} reused")
    if usage.completion_tokens:
        said.append(f"{usage.sampled_tokens:,} sampled, {usage.forced_tokens:,} forced")
    return "  " + ", ".join(said)


def _bar(rows: Sequence[Phase], width: int) -> Text:
    """The phases as one line, each as wide as its share."""
    total = sum(row.seconds for row in rows)
    bar, at, done = Text(), 0, 0.0
    for row in rows:
        done += row.seconds
        end = round(width * done / total)
        bar.append(" " * (end - at), f"on {_COLOURS[row.name]}")
        at = end
    return bar


class JsonView:
    """One JSON object a line: the event, its fields, and `t`, seconds from opening the view to when it
    happened."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._start = time.perf_counter()

    def question(self, text: str, model: str) -> None:
        self._write({"event": "run_started", "question": text, "model": model})

    def show(self, event: AgentEvent) -> None:
        self._write(as_json(event), event.at)

    def ask(self, text: str) -> None:
        ask(text)

    def error(self, error: KogagentError) -> None:
        self._write({"event": "error", "type": type(error).__name__, "message": str(error)})
        report(error)

    def close(self) -> None:
        pass

    def _write(self, value: dict[str, object], at: float | None = None) -> None:
        value["t"] = round((time.perf_counter() if at is None else at) - self._start, 6)
        self._out.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
        self._out.flush()


def _clean(text: str) -> str:
    """Without control codes: a model or a tool must not move the cursor or change a terminal's title."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())
