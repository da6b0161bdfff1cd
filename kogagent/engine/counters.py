"""What was done and how long it took, as numbers that add. Knows no engine."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kogagent.types.quick import maker, quick


@quick
@dataclass(frozen=True, slots=True)
class Counters:
    """What a stream, a session or an engine has done; they add. Seconds are time on the worker's thread.

    reused + prefilled ids are prompts, sampled + forced ids were emitted and taken, steps are passes of the
    model while decoding. restored: of the reused ids, those that came from the disk. reuse_s:
    finding a cache and cutting it to what it shares with the prompt.
    """

    reused: int = 0
    prefilled: int = 0
    sampled: int = 0
    forced: int = 0
    steps: int = 0
    prefill_s: float = 0.0
    sampled_s: float = 0.0
    forced_s: float = 0.0
    reuse_s: float = 0.0
    restored: int = 0

    def __add__(self, other: Counters) -> Counters:
        return _counters(
            self.reused + other.reused,
            self.prefilled + other.prefilled,
            self.sampled + other.sampled,
            self.forced + other.forced,
            self.steps + other.steps,
            self.prefill_s + other.prefill_s,
            self.sampled_s + other.sampled_s,
            self.forced_s + other.forced_s,
            self.reuse_s + other.reuse_s,
            self.restored + other.restored,
        )


_counters = maker(Counters)


class Meter:
    """A running sum of Counters; any thread may add."""

    def __init__(self) -> None:
        self.total = Counters()
        self._lock = threading.Lock()

    def add(self, counters: Counters) -> None:
        with self._lock:
            self.total += counters
