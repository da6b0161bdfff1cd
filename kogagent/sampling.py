"""How a token is drawn, as a value. Knows no logits, no engine: `engine/sampling.py` does what this says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kogagent.errors import InputError, named_fields

_M64 = (1 << 64) - 1


@named_fields
@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a token is drawn. The default is greedy.

    temperature >= 0, 0 is greedy; top_k >= 0, 0 keeps all; 0 < top_p <= 1; 0 <= min_p <= 1;
    repetition_penalty > 0 divides positive and multiplies negative logits of ids in the history;
    seed in 0 .. 2**64-1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        def check(ok: bool, field: str, rule: str) -> None:
            if not ok:
                raise InputError(f"SamplingParams.{field}={getattr(self, field)!r}: {rule}")

        def number(value: object) -> bool:
            return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

        def integer(value: object) -> bool:
            return isinstance(value, int) and not isinstance(value, bool)

        check(number(self.temperature) and self.temperature >= 0, "temperature", "must be a number >= 0")
        check(integer(self.top_k) and self.top_k >= 0, "top_k", "must be an integer >= 0 (0 keeps all)")
        check(number(self.top_p) and 0 < self.top_p <= 1, "top_p", "must lie in (0, 1]")
        check(number(self.min_p) and 0 <= self.min_p <= 1, "min_p", "must lie in [0, 1]")
        check(
            number(self.repetition_penalty) and self.repetition_penalty > 0,
            "repetition_penalty",
            "must be a number > 0 (1 changes nothing)",
        )
        check(integer(self.seed) and 0 <= self.seed <= _M64, "seed", "must be an integer in 0 .. 2**64-1")
