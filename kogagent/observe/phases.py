"""Where the time of a run went, as a table of numbers. Knows no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kogagent.types import Timings, Usage


@dataclass(frozen=True, slots=True)
class Phase:
    """One row: seconds, and the tokens they bought where there were any."""

    name: str
    seconds: float
    tokens: int | None = None
    note: str = ""

    @property
    def tokens_per_second(self) -> float | None:
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


def phases(usage: Usage, timings: Timings) -> tuple[Phase, ...]:
    """The phases in the order of a turn, then the whole; all rows but the last sum to the last."""
    reused = f"{usage.reused_tokens:,} reused" if usage.reused_tokens else ""
    if usage.restored_tokens:
        reused += f", {usage.restored_tokens:,} from disk"
    steps = f"{usage.steps:,} steps" if usage.steps else ""
    return (
        Phase("pre-fill", timings.prefill_s, usage.prefilled_tokens),
        Phase("reuse", timings.reuse_s, note=reused),
        Phase("sampled", timings.sampled_s, usage.sampled_tokens, steps),
        Phase("forced", timings.forced_s, usage.forced_tokens),
        Phase("render", timings.render_s),
        Phase("parse", timings.parse_s),
        Phase("dispatch", timings.dispatch_s),
        Phase("tool", timings.tool_s),
        Phase("append", timings.append_s),
        Phase("idle", timings.idle_s),
        Phase("loop", timings.loop_s),
        Phase("reader", timings.reader_s),  # whoever reads the events: here, printing them
        Phase("whole run", timings.wall_s, usage.completion_tokens),
    )


def table(rows: Sequence[Phase]) -> list[str]:
    """The lines of a table with its header, columns aligned."""
    lines = [("phase", "time", "tokens", "tok/s", ""), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if 0 < place < 4 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cells(phase: Phase) -> tuple[str, str, str, str, str]:
    """A row as text: phase, time, tokens, tokens a second, note."""
    rate = phase.tokens_per_second
    return (
        phase.name,
        duration(phase.seconds),
        "" if phase.tokens is None else f"{phase.tokens:,}",
        "" if rate is None else f"{rate:,.0f}",
        phase.note,
    )


def duration(seconds: float) -> str:
    """With the unit that keeps the number readable."""
    if abs(seconds) >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:.0f} µs"
