"""How much a run may do. Knows numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from kogagent.errors import InputError, named_fields
from kogagent.types import StopReason


@named_fields
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; None is no bound.

    max_turns: model turns. max_calls: tool calls run; once used up, the model must answer without tools.
    max_tokens: tokens the model writes. max_seconds: wall time; what runs then is cancelled. turn_tokens:
    tokens of one turn. turn_calls: calls of one turn. parallel_calls: calls that run at once.
    repeated_calls: after so many calls in a row that brought nothing new (same tool, arguments and result
    as an earlier one) the model is told so, after twice as many the run stops. tool_retries: how often in a
    row a tool may raise Retry before the model is told to stop trying. output_retries: how often an answer
    that does not fit the output type, or does not pass a guardrail, is asked for again. model_retries: how
    often in a row the hook on_error may have a failed turn made again. result_tokens: longer results keep
    head and tail, in tokens of the model where it counts them, by four bytes a token where not; None: as
    the toolbox does.
    """

    max_turns: int | None = 32
    max_calls: int | None = 128
    max_tokens: int | None = None
    max_seconds: float | None = None
    turn_tokens: int = 1024
    turn_calls: int = 8
    parallel_calls: int = 8
    repeated_calls: int | None = 3
    tool_retries: int | None = 3
    output_retries: int = 2
    model_retries: int = 3
    result_tokens: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and "None" in str(field.type):
                continue
            least = 0 if field.name in ("output_retries", "model_retries", "max_calls") else 1
            if field.name == "max_seconds":
                good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
                rule = "must be a number of seconds > 0, or None"
            else:
                good = isinstance(value, int) and not isinstance(value, bool) and value >= least
                rule = f"must be an integer >= {least}" + (", or None" if "None" in str(field.type) else "")
            if not good:
                raise InputError(f"Limits.{field.name}={value!r} {rule}")

    def reached(self, turns: int, tokens: int) -> StopReason | None:
        """The limit that forbids another turn."""
        if self.max_turns is not None and turns >= self.max_turns:
            return "max_turns"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return "max_tokens"
        return None

    def next_turn_tokens(self, tokens: int) -> int:
        """Tokens the next turn may write when so many are written."""
        return (
            self.turn_tokens if self.max_tokens is None else min(self.turn_tokens, self.max_tokens - tokens)
        )
