"""Where the time of a run goes: the phases of each turn. Knows clocks and numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from kogagent.types import Timings, TurnEnd, Usage
from kogagent.types.quick import maker

_timings = maker(Timings)
_NOTHING, _NO_TIME = Usage(), Timings()


class Meter:
    """Turns follow each other without a gap: what happens in one is told as it happens, then added up."""

    def __init__(self) -> None:
        self.written = 0  # tokens, by models
        self._ended: list[Timings] = []  # turns
        self._spent: list[Usage] = []
        self._mark = perf_counter()
        self._clear()

    def _clear(self) -> None:
        self._turn_usage = _NOTHING
        self._model = _NO_TIME
        self._reader_s = self._dispatch_s = self._tool_s = 0.0
        self.append_s = 0.0  # seconds the history took in this turn

    def spent(self, usage: Usage) -> None:
        """Tokens of this turn, the model's own or those of something it called."""
        self._turn_usage = usage if self._turn_usage is _NOTHING else self._turn_usage + usage
        self._spent.append(usage)
        self.written += usage.sampled_tokens + usage.forced_tokens  # in every turn: no property's call

    def heard(self, end: TurnEnd, span: float, reader: float, ahead: bool) -> None:
        """The model's part took `span` seconds, in `reader` of which nobody took its events. ahead: it had
        begun before, beside a tool, and only what was left of it took time here."""
        self._reader_s += reader
        timings = _scaled(end.timings, span) if ahead else end.timings
        self._model = timings if self._model is _NO_TIME else self._model + timings
        self.spent(end.usage)

    def acted(self, span: float, tools: Sequence[tuple[float, float]], reader: float, append: float) -> None:
        """Calls took `span` seconds from the first check to the last result in the history; tools are the
        times in which each ran."""
        if len(tools) == 1:
            ((started, ended),) = tools
            tool = ended - started
        else:
            tool = _covered(tools)
        if tool > span:
            tool = span
        self._tool_s += tool
        self.append_s += append
        self._reader_s += reader
        rest = span - tool - append - reader
        if rest > 0:
            self._dispatch_s += rest

    def end_turn(self) -> tuple[Usage, Timings]:
        """What this turn cost; the next begins now."""
        now = perf_counter()
        usage, model = self._turn_usage, self._model
        timings = _timings(
            model.prefill_s,
            model.sampled_s,
            model.forced_s,
            model.render_s,
            self._tool_s,
            now - self._mark,
            self._reader_s,
            model.reuse_s,
            model.parse_s,
            model.idle_s,
            self._dispatch_s,
            self.append_s,
        ).fitted()
        self._mark = now
        self._clear()
        self._ended.append(timings)
        return usage, timings

    def whole(self) -> tuple[Usage, Timings]:
        """Of the run so far; what no turn has counted is the loop's."""
        rest = Timings(wall_s=perf_counter() - self._mark)
        return Usage.total(self._spent), Timings.total([*self._ended, rest])


def _scaled(timings: Timings, span: float) -> Timings:
    """A model's phases that took more than the time there was, made to fit."""
    named = timings.engine_s + timings.reuse_s + timings.render_s + timings.parse_s
    share = min(span / named, 1.0) if named > 0 else 1.0
    return Timings(
        prefill_s=timings.prefill_s * share,
        sampled_s=timings.sampled_s * share,
        forced_s=timings.forced_s * share,
        render_s=timings.render_s * share,
        reuse_s=timings.reuse_s * share,
        parse_s=timings.parse_s * share,
    )


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of intervals: wall time in which at least one tool ran."""
    total, until = 0.0, float("-inf")
    for started, ended in sorted(spans):
        total += max(ended - max(started, until), 0.0)
        until = max(until, ended)
    return total
