"""What happened in a run, kept as plain data. Knows events and their JSON; no model, no page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from kogagent.errors import InputError
from kogagent.loop.observers import RunInfo
from kogagent.observe.events import as_json
from kogagent.types import AgentEvent

_DELTAS = ("observe_delta", "plan_delta", "text_delta", "call_delta")


class RunTrace:
    """One run as a list of JSON objects, as `kogagent run --json` writes them: `event` names the kind, `t` is
    seconds since the run began. Deltas that follow each other are kept as one.

    An Agent makes it through a Trace; `RunTrace.from_lines` reads what `to_lines` or the command line wrote.
    """

    def __init__(self, events: Iterable[dict[str, Any]] = ()) -> None:
        self.events: list[dict[str, Any]] = list(events)
        self._began = time.perf_counter()

    @classmethod
    def started(cls, run: RunInfo) -> RunTrace:
        """The trace of a run that starts now."""
        first = {
            "event": "run_started",
            "id": run.id,
            "agent": run.agent,
            "model": run.model,
            "question": run.prompt,
            "tools": [tool.name for tool in run.tools],
            "messages": run.messages,
            "t": 0.0,
        }
        return cls([first])

    def event(self, event: AgentEvent) -> None:
        value = as_json(event)
        if self.events and _joined(self.events[-1], value):
            return
        value["t"] = round(event.at - self._began, 6)
        self.events.append(value)

    def ended(self, error: BaseException | None) -> None:
        if error is not None:
            t = round(time.perf_counter() - self._began, 6)
            kind, text = type(error).__name__, str(error)
            self.events.append({"event": "error", "type": kind, "message": text, "t": t})

    def to_lines(self) -> str:
        """JSON lines."""
        return "".join(json.dumps(event, default=str) + "\n" for event in self.events)

    @classmethod
    def from_lines(cls, text: str) -> RunTrace:
        """Raises InputError that names the line that is no event. A last line that was cut is left out."""
        events = []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                if number == text.count("\n") + 1:  # no newline behind it: it was still being written
                    break
                raise InputError(f"line {number} is not valid JSON: {error}") from error
            if not isinstance(value, dict) or not isinstance(value.get("event"), str):
                raise InputError(f"line {number} is no event of a run: {line[:80]!r}")
            events.append(value)
        if not events:
            raise InputError("there is no event in it. Pass what `kogagent run --json` writes.")
        return cls(events)


def _joined(last: dict[str, Any], value: dict[str, Any]) -> bool:
    """Whether a delta went on where the last one ended, and was put behind it."""
    if last["event"] != value["event"] or last.get("call_id") != value.get("call_id"):
        return False
    if value["event"] == "nested":
        return _joined(last["inner"], value["inner"])
    if value["event"] not in _DELTAS:
        return False
    last["text"] += value["text"]
    return True


class Trace:
    """An observer that keeps every run of its agents: `Agent(…, observers=[trace])`, then `trace.runs`.

    limit: runs kept, the newest; None for all.
    """

    def __init__(self, limit: int | None = 100) -> None:
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise InputError(f"Trace limit={limit!r} must be a positive integer or None")
        self.runs: list[RunTrace] = []
        self._limit = limit

    def run_started(self, run: RunInfo) -> RunTrace:
        trace = RunTrace.started(run)
        self.runs.append(trace)
        if self._limit is not None:
            del self.runs[: -self._limit]
        return trace
