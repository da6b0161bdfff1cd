"""A model on a card that is a clock: what a turn on a GPU costs beside the device. Knows the CUDA backend's
segment and the kernel it asks for; no weights, no card.

The segment, its looks at the ring, the grammar's memory and every hand-over are those of a GPU
(`CudaDecode`). Pre-fill is a sleep, and the kernel is a list of the ids that a script says, each due so many
passes after the launch. What a driver takes to queue either is not in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.agent_loops.instant import InstantBackend, InstantKV
from kogagent.engine.backend import KV, Decode, DecodePlan, TokenMatcher
from kogagent.engine.backends.cuda_segment import CudaDecode, forced_ids, sleep_exactly
from kogagent.engine.backends.grammar_memory import Grammars
from kogagent.kernels.monokernel import Reason, Segment, Token
from kogagent.spec import ModelSpec

_Said: TypeAlias = tuple[int, Sequence[tuple[float, Token]]]


class ClockedKV(InstantKV):
    """A cache that holds a number, as the CUDA backend's segment asks for it."""

    stores: tuple[()] = ()

    def advance(self, count: int) -> None:
        self.length += count

    def fork(self, length: int | None = None) -> ClockedKV:
        other = super().fork(length)
        return ClockedKV(other.capacity, other.length)


class ClockedKernel:
    """The monokernel as a segment sees it. tokens: those of the next segment, and when each is due, in
    seconds from the launch."""

    def __init__(self) -> None:
        self.tokens: Sequence[tuple[float, Token]] = ()
        self._due: deque[tuple[float, Token]] = deque()
        self._launched = 0.0

    def launch(self, segment: Segment, stores: Sequence[Any]) -> float:
        self._due = deque(self.tokens)
        self._launched = time.perf_counter()
        return self._launched

    def drain(self) -> list[Token]:
        now, out = time.perf_counter() - self._launched, list[Token]()
        while self._due and self._due[0][0] <= now:
            out.append(self._due.popleft()[1])
        return out

    def settle(self) -> None:
        """A clock leaves nothing behind."""

    def stop(self) -> None:
        self._due.clear()
        self._due.append((0.0, Token(0, 0.0, Reason.CANCELLED)))


class ClockedBackend(InstantBackend):
    """pass_s, prefill_s: seconds of a pass of the kernel and of a prompt's, about nano's on an H200."""

    name = "clocked"

    def __init__(
        self,
        spec: ModelSpec,
        scripts: deque[Sequence[int]],
        pass_s: float = 1.5e-4,
        prefill_s: float = 5e-4,
    ) -> None:
        super().__init__(spec, scripts)
        self._pass_s, self._prefill_s, self._clocked = pass_s, prefill_s, ClockedKernel()
        self.grammars = Grammars([torch.device("cpu")])
        self._said: dict[Sequence[int], _Said] = {}
        self._start: TokenMatcher | None = None

    def open_kv(self, capacity: int) -> KV:
        return ClockedKV(capacity)

    def kernel(self) -> ClockedKernel:
        return self._clocked

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        script = self._scripts.popleft()
        if self._start is None:
            assert plan.matcher is not None
            sleep_exactly()  # the engine's thread, as the CUDA backend has it
            self._start = plan.matcher.fork()
        self._choice, self._clocked.tokens = self._said.get(script) or self._walked(script)
        return CudaDecode(cast(Any, self), cast(Any, kv), ids, plan)

    def rehearse(self) -> None:
        """Find what the grammar forces of the scripts, once the first run has shown it."""
        if self._start is not None:
            self._said = {script: self._walked(script) for script in self._scripts}

    def seconds(self, turns: int, passes: int) -> float:
        return turns * self._prefill_s + (passes - turns) * self._pass_s

    def _walked(self, script: Sequence[int]) -> _Said:
        """What pre-fill chooses of a script, and what the kernel says behind that and the run it leads, if
        anything: it begins with the second choice."""
        assert self._start is not None
        matcher, forced = self._start.fork(), list[bool]()
        while len(forced) < len(script):
            walk = matcher.fork()
            run, _ = forced_ids(walk)
            if tuple(run) != tuple(script[len(forced) : len(forced) + len(run)]):
                raise AssertionError(f"the grammar forces {run}, which the script does not say")
            if run:
                matcher = walk
            else:
                matcher.advance(script[len(forced)])
            forced += [True] * len(run) or [False]
        end = len(script)
        choice, begin, *_ = (*(at for at, no_choice in enumerate(forced) if not no_choice), end, end)
        tokens, due = list[tuple[float, Token]](), 0.0
        for at in range(begin, end):
            due += 0.0 if forced[at] else self._pass_s
            reason = Reason.STOP if at == end - 1 else Reason.RUNNING
            tokens.append((due, Token(script[at], -0.5, reason, forced[at])))
        return script[min(choice, end - 1)], tokens  # which nobody asks for where there is no choice

    def greedy(
        self, kv: ClockedKV, ids: Sequence[int], legal: int, mask: npt.NDArray[np.uint32] | None
    ) -> tuple[int, float]:
        time.sleep(self._prefill_s)
        kv.advance(len(ids))
        return self._choice, -0.5
