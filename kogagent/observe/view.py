"""A run as a page shows it: turns, calls, phases, shares of the whole. Knows events as JSON; no HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from kogagent.errors import InputError
from kogagent.loop.notation import message_to_json
from kogagent.observe.phases import duration, phases
from kogagent.types import AssistantMessage, Message, RunResult, Timings, ToolMessage, Usage

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ud800-\udfff"
_TURNING = "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069"
_HIDDEN = re.compile(f"[{_CONTROL}{_TURNING}]")
_IN_MODEL = ("render", "reuse", "pre-fill", "sampled", "forced", "parse", "idle")
_KINDS = ("sampled", "forced", "special")


@dataclass(slots=True)
class Bar:
    """A piece of a row: from and width as shares of the whole, 0 to 1."""

    phase: str
    start: float
    width: float
    told: str


@dataclass(slots=True)
class Row:
    """A line of the timeline."""

    label: str
    bars: list[Bar]
    told: str


@dataclass(slots=True)
class Call:
    """One call. started and ended are seconds since the run began, None where nobody took the time."""

    id: str
    name: str
    arguments: str
    complete: bool = True
    status: str = "not run"
    text: str = ""
    error: str = ""
    seconds: float | None = None
    started: float | None = None
    ended: float | None = None
    progress: list[str] = field(default_factory=list)
    inside: Report | None = None


@dataclass(slots=True)
class Turn:
    """One turn of the model with the calls it made."""

    number: int
    agent: str = ""
    observed: str = ""
    plan: str = ""
    text: str = ""
    reason: str = ""
    tokens: list[tuple[str, str]] = field(default_factory=list)  # text, kind
    calls: list[Call] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: Timings = field(default_factory=Timings)
    timings: Timings = field(default_factory=Timings)
    started: float | None = None
    said: float | None = None  # when the model had ended
    ended: float | None = None


@dataclass(slots=True)
class Report:
    """Everything a page shows. items are texts of the user and of the system, and turns, in order."""

    agent: str = ""
    model: str = ""
    question: str = ""
    items: list[tuple[str, str] | Turn] = field(default_factory=list)
    outcome: str = "running"
    error: str = ""
    output: str = ""
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    rows: list[Row] = field(default_factory=list)
    span_s: float = 0.0  # from the first event to the last: the length of the rows

    @property
    def turns(self) -> list[Turn]:
        return [item for item in self.items if isinstance(item, Turn)]

    @property
    def calls(self) -> int:
        return sum(len(turn.calls) for turn in self.turns)

    @property
    def shares(self) -> list[tuple[str, float, str, str, str]]:
        """(phase, share of the wall, time, tokens, note) of each phase that took time; they sum to 1."""
        *rows, whole = phases(self.usage, self.timings)
        out = []
        for row in rows:
            if row.seconds > 0:
                share = row.seconds / whole.seconds if whole.seconds > 0 else 0.0
                tokens = "" if row.tokens is None else f"{row.tokens:,}"
                out.append((row.name, share, duration(row.seconds), tokens, row.note))
        return out


def of_events(events: Iterable[dict[str, Any]]) -> Report:
    """The report of a run's events. Kinds it does not know are passed over: a newer version wrote them."""
    builder = _Builder()
    for event in events:
        try:
            builder.take(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            kind = event.get("event")
            raise InputError(f"an event of the kind {kind!r} cannot be read: {error!r}") from error
    return builder.done()


def of_messages(messages: Sequence[Message], result: RunResult | None = None) -> Report:
    """The report of a history: what was said and done, and of a result also what each turn cost."""
    events: list[dict[str, Any]] = []
    costs = list(result.per_turn) if result is not None else []
    said = sum(isinstance(message, AssistantMessage) for message in messages)
    number = 0
    for message in messages:
        value = message_to_json(message)
        if isinstance(message, AssistantMessage):
            if number:
                events.append({"event": "turn_finished"})
            number += 1
            events.append({"event": "turn_started", "turn": number})
            events.append({"event": "plan_delta", "text": message.plan})
            events.append({"event": "text_delta", "text": message.text})
            for call in message.calls:
                fields_ = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
                events.append({"event": "call_ready", **fields_, "complete": call.complete})
        elif isinstance(message, ToolMessage):
            one = message.result
            told = {"call_id": one.call_id, "status": one.status, "text": one.text}
            events.append({"event": "tool_finished", **told})
        else:
            events.append({"event": "message", "role": value["role"], "text": message.text})
    report = of_events(events)
    if result is not None:
        # The turns of the run are the last of the history.
        for turn, cost in zip(report.turns[said - len(costs) :], costs, strict=False):
            turn.usage, turn.timings, turn.agent = cost.usage, cost.timings, cost.agent
        report.usage, report.timings, report.outcome = result.usage, result.timings, result.reason
        report.output, report.agent = _shown(result.output), result.agent
    else:
        report.outcome = "history"
    return report


class _Builder:
    """Takes events in their order."""

    def __init__(self) -> None:
        self._report = Report()
        self._turn: Turn | None = None
        self._calls: dict[str, Call] = {}  # the last of each id: it may come again in another turn
        self._inside: dict[int, tuple[Call, list[dict[str, Any]]]] = {}  # by the call's identity
        self._began: float | None = None
        self._last = 0.0

    def take(self, event: dict[str, Any]) -> None:
        at = None if event.get("t") is None else float(event["t"])
        if at is not None:
            self._began = at if self._began is None else self._began  # a model may have been loaded before
            at -= self._began
            self._last = max(self._last, at)
        handler = getattr(self, f"_{event['event']}", None)
        if handler is not None:
            handler(event, at)

    def done(self) -> Report:
        report = self._report
        for call, events in self._inside.values():
            call.inside = of_events(events)
        if report.timings.wall_s == 0:
            for turn in report.turns:
                report.timings += turn.timings
                report.usage += turn.usage
        report.span_s = max(report.timings.wall_s, self._last)
        if report.span_s > 0:
            report.rows = [row for turn in report.turns for row in _rows(turn, report.span_s)]
        return report

    # ── one for each kind ──

    def _run_started(self, event: dict[str, Any], at: float | None) -> None:
        self._report.agent = str(event.get("agent") or "")
        self._report.model = str(event.get("model") or "")
        question = str(event.get("question") or "")
        self._report.question = self._report.question or question
        if question:
            self._report.items.append(("user", question))

    def _message(self, event: dict[str, Any], at: float | None) -> None:
        self._report.items.append((event["role"], event["text"]))
        if event["role"] == "user" and not self._report.question:
            self._report.question = event["text"]

    def _turn_started(self, event: dict[str, Any], at: float | None) -> None:
        self._turn = Turn(int(event["turn"]), str(event.get("agent") or ""), started=at)
        self._report.items.append(self._turn)

    def _now(self) -> Turn:
        if self._turn is None:  # calls of an earlier run that were waiting
            self._turn = Turn(0)
            self._report.items.append(self._turn)
        return self._turn

    def _observe_delta(self, event: dict[str, Any], at: float | None) -> None:
        self._now().observed += event["text"]

    def _plan_delta(self, event: dict[str, Any], at: float | None) -> None:
        self._now().plan += event["text"]

    def _text_delta(self, event: dict[str, Any], at: float | None) -> None:
        self._now().text += event["text"]

    def _call_ready(self, event: dict[str, Any], at: float | None) -> None:
        call = self._calls.get(event["call_id"])
        if call is None or call.status != "running":  # else it began while its turn was still being written
            call = self._new_call(event)
        call.complete = bool(event.get("complete", True))

    def _new_call(self, event: dict[str, Any]) -> Call:
        call = Call(event["call_id"], event["name"], _pretty(event["arguments"]))
        self._calls[call.id] = call
        self._now().calls.append(call)
        return call

    def _turn_end(self, event: dict[str, Any], at: float | None) -> None:
        turn = self._now()
        turn.reason, turn.said = event["reason"], at
        turn.usage, turn.model = _of(Usage, event["usage"]), _of(Timings, event["timings"])
        written = event.get("written") or ()
        turn.tokens = [(text, kind if kind in _KINDS else "sampled") for text, kind in written]
        if turn.plan == turn.text:
            turn.plan = ""  # a plan that was the answer

    def _tool_started(self, event: dict[str, Any], at: float | None) -> None:
        call = self._calls.get(event["call_id"])
        if call is None or call.status not in ("not run", "deferred"):
            call = self._new_call(event)
        call.started, call.status = at, "running"

    def _tool_progress(self, event: dict[str, Any], at: float | None) -> None:
        if event["call_id"] in self._calls:
            self._calls[event["call_id"]].progress.append(_shown(event["value"]))

    def _tool_finished(self, event: dict[str, Any], at: float | None) -> None:
        call = self._calls.get(event["call_id"])
        if call is not None:
            call.status, call.text, call.error = event["status"], event["text"], event.get("error") or ""
            call.seconds, call.ended = event.get("seconds"), at

    def _turn_finished(self, event: dict[str, Any], at: float | None) -> None:
        turn = self._now()
        turn.ended = at
        if "timings" in event:
            turn.usage, turn.timings = _of(Usage, event["usage"]), _of(Timings, event["timings"])

    def _turn_retried(self, event: dict[str, Any], at: float | None) -> None:
        self._now().notes.append(f"The model failed and was asked again: {event['error']}")

    def _handed_off(self, event: dict[str, Any], at: float | None) -> None:
        self._now().notes.append(f"{event['source']} handed over to {event['target']}")

    def _compacted(self, event: dict[str, Any], at: float | None) -> None:
        counts = f"{event['tokens_before']:,} to {event['tokens_after']:,} tokens"
        self._now().notes.append(f"The history was shortened from {counts}. {event['summary']}".strip())

    def _asked_again(self, event: dict[str, Any], at: float | None) -> None:
        self._now().notes.append(f"Asked again: {event['reason']}")

    def _nested(self, event: dict[str, Any], at: float | None) -> None:
        inner = {"t": event.get("t"), **event["inner"]}
        call = self._calls.get(event["call_id"])
        if call is not None:
            self._inside.setdefault(id(call), (call, []))[1].append(inner)

    def _error(self, event: dict[str, Any], at: float | None) -> None:
        self._report.outcome = "failed"
        self._report.error = f"{event['type']}: {event['message']}".rstrip(": ")

    def _run_finished(self, event: dict[str, Any], at: float | None) -> None:
        report = self._report
        report.outcome, report.output = event["reason"], _shown(event["output"])
        report.usage += _of(Usage, event["usage"])  # of all, where a conversation is several runs
        report.timings += _of(Timings, event["timings"])


def _of(kind: Any, values: dict[str, Any]) -> Any:
    """Usage or Timings from their fields; those of another version are left out."""
    return kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})


def _rows(turn: Turn, whole: float) -> list[Row]:
    """A turn's lines: what the model did, in the order of a turn, and each call."""
    rows = []
    label = f"turn {turn.number}" if turn.number else "resumed"
    if turn.started is not None and turn.said is not None:
        span = max(turn.said - turn.started, 0.0)
        taken = [(row.name, row.seconds) for row in phases(turn.usage, turn.model) if row.name in _IN_MODEL]
        taken.sort(key=lambda one: _IN_MODEL.index(one[0]))
        total = sum(seconds for _, seconds in taken)
        scale = min(span / total, 1.0) if total > 0 else 0.0
        bars, at = [], turn.started
        for name, seconds in taken:
            if seconds > 0:
                bars.append(Bar(name, at / whole, seconds * scale / whole, f"{name} {duration(seconds)}"))
                at += seconds * scale
        if span > at - turn.started:
            rest = turn.started + span - at
            bars.append(Bar("loop", at / whole, rest / whole, f"between {duration(rest)}"))
        told = ", ".join(bar.told for bar in bars)
        rows.append(Row(label, bars, f"{label}, the model, {duration(span)}: {told}"))
    for call in turn.calls:
        if call.started is not None and call.ended is not None:
            span = call.ended - call.started
            bar = Bar("tool", call.started / whole, span / whole, f"{call.name} {duration(span)}")
            told = f"{label}, call of {call.name}, {duration(span)}, {call.status}"
            rows.append(Row(call.name, [bar], told))
    return rows


def _pretty(arguments: str) -> str:
    """Arguments as indented JSON, or as they are where they are cut."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else _dumped(value)


def _dumped(value: Any) -> str:
    from pydantic_core import to_jsonable_python

    return json.dumps(
        to_jsonable_python(value, fallback=str, bytes_mode="base64"), indent=2, ensure_ascii=False
    )


def visible(text: str) -> str:
    """Control characters and those that turn the direction of text, as their code points."""
    return _HIDDEN.sub(lambda match: f"⟨{ord(match[0]):04X}⟩", text.replace("\r\n", "\n"))
