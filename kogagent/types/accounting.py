"""What was used and how long it took: numbers that add. Knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar

from kogagent.types.quick import quick

T = TypeVar("T")


@cache
def _numbers(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(field.name for field in fields(kind)))


def _total(kind: Callable[..., T], parts: Sequence[T]) -> T:
    """Field by field."""
    return kind(*map(sum, zip(*map(_numbers(kind), parts), strict=True)))


@quick
@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; they add.

    prompt = reused + prefilled; completion = sampled + forced. `steps` counts passes of the model
    while decoding: a forced run of several tokens costs one. `restored` are those of the reused that came
    from the cache on disk.
    """

    reused_tokens: int = 0
    prefilled_tokens: int = 0
    sampled_tokens: int = 0
    forced_tokens: int = 0
    steps: int = 0
    restored_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.reused_tokens + self.prefilled_tokens

    @property
    def completion_tokens(self) -> int:
        return self.sampled_tokens + self.forced_tokens

    @staticmethod
    def total(parts: Sequence[Usage]) -> Usage:
        """All of them together, where adding them up would make a value for each."""
        return _total(Usage, parts)

    def __add__(self, other: Usage) -> Usage:
        return Usage.total((self, other))


@quick
@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds a turn or a run spent in each phase; they add.

    prefill, sampled and forced are time inside the engine; reuse is finding and keeping what is in the cache;
    render is template, tokenizer and grammar; parse is reading what the model wrote;
    idle is waiting for the engine while it did none of these. dispatch is validating, asking for approval,
    hooks, starting calls and joining them; tool is the wall time in which at least one tool ran; append is
    writing the history; reader is time a run waited for whoever reads its events; wall is the whole. What is
    left is `loop_s`.
    """

    prefill_s: float = 0.0
    sampled_s: float = 0.0
    forced_s: float = 0.0
    render_s: float = 0.0
    tool_s: float = 0.0
    wall_s: float = 0.0
    reader_s: float = 0.0
    reuse_s: float = 0.0
    parse_s: float = 0.0
    idle_s: float = 0.0
    dispatch_s: float = 0.0
    append_s: float = 0.0

    @property
    def engine_s(self) -> float:
        """Time on the device."""
        return self.prefill_s + self.sampled_s + self.forced_s

    @property
    def loop_s(self) -> float:
        """Wall time in no other phase: the SDK's own."""
        return self._rest()

    def _rest(self) -> float:
        model = self.prefill_s + self.sampled_s + self.forced_s + self.reuse_s + self.render_s
        model += self.parse_s + self.idle_s
        return self.wall_s - model - self.dispatch_s - self.tool_s - self.append_s - self.reader_s

    @property
    def phases(self) -> dict[str, float]:
        """Every phase by its name, in the order of a turn; they sum to wall_s."""
        return {
            "render": self.render_s,
            "reuse": self.reuse_s,
            "prefill": self.prefill_s,
            "sampled": self.sampled_s,
            "forced": self.forced_s,
            "parse": self.parse_s,
            "idle": self.idle_s,
            "dispatch": self.dispatch_s,
            "tool": self.tool_s,
            "append": self.append_s,
            "reader": self.reader_s,
            "loop": self.loop_s,
        }

    def fitted(self) -> Timings:
        """The phases made to sum to no more than the wall. What went on while the device worked is counted
        once, as the device's: reader, idle and parse give way, in this order."""
        if self._rest() >= 0:
            return self
        fitted = self
        for name in ("reader_s", "idle_s", "parse_s"):
            over = -fitted.loop_s
            if over <= 0:
                break
            fitted = replace(fitted, **{name: max(getattr(fitted, name) - over, 0.0)})
        return fitted

    @staticmethod
    def total(parts: Sequence[Timings]) -> Timings:
        """All of them together, where adding them up would make a value for each."""
        return _total(Timings, parts)

    def __add__(self, other: Timings) -> Timings:
        return Timings.total((self, other))


FinishReason: TypeAlias = Literal["stop", "stop_text", "length", "context", "grammar", "cancelled"]
"""Why a segment ended: an end id, a stop string, the token limit, a full context, a grammar that
allows nothing more, or the caller."""
