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
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.spec import ModelSpec

_Due: TypeAlias = Sequence[tuple[float, Token]]
_Said: TypeAlias = tuple[Sequence[int], _Due]  # the places of the choices, the end behind them; all ids


class ClockedKV(InstantKV):
    """A cache that holds a number, as the CUDA backend's segment asks for it."""

    stores: tuple[()] = ()

    def advance(self, count: int) -> None:
        self.length += count

    def fork(self, length: int | None = None) -> ClockedKV:
        other = super().fork(length)
        return ClockedKV(other.capacity, other.length)


class ClockedKernel:
    """The monokernel as a segment sees it. tokens: those of the next segment's script, and when each would be
    due, in seconds from a launch that says all of them; begin: the place of the first that it says."""

    def __init__(self) -> None:
        self.tokens: _Due = ()
        self.begin = 0
        self._due: deque[tuple[float, Token]] = deque()
        self._start = 0.0  # when a launch that says everything would have been

    def launch(self, segment: Segment, stores: Sequence[Any]) -> float:
        self._due = deque(self.tokens[self.begin :])
        said = self.tokens[self.begin - 1][0] if self.begin else 0.0
        launched = time.perf_counter()
        self._start = launched - said
        return launched

    def drain(self) -> list[Token]:
        now, out = time.perf_counter() - self._start, list[Token]()
        while self._due and self._due[0][0] <= now:
            out.append(self._due.popleft()[1])
        return out

    def settle(self) -> None:
        """A clock leaves nothing behind."""

    def stop(self) -> None:
        self._due.clear()
        self._due.append((0.0, Token(0, 0.0, Reason.CANCELLED)))

    def at(self, place: int) -> Token:
        """What the script has there."""
        return self.tokens[place][1]


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
        self._choices, self._clocked.tokens = self._said.get(script) or self._walked(script)
        self._chosen, self._clocked.begin = 0, self._choices[0]
        return CudaDecode(cast(Any, self), cast(Any, kv), ids, plan)

    def rehearse(self) -> None:
        """Find what the grammar forces of the scripts, once the first run has shown it."""
        if self._start is not None:
            self._said = {script: self._walked(script) for script in self._scripts}

    def seconds(self, turns: int, passes: int) -> float:
        return turns * self._prefill_s + (passes - turns) * self._pass_s

    def _walked(self, script: Sequence[int]) -> _Said:
        """What the grammar leaves to be chosen of a script, and the script as the kernel says it."""
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
        choices = [*(at for at, no_choice in enumerate(forced) if not no_choice), end]
        tokens, due = list[tuple[float, Token]](), 0.0
        for at in range(end):
            due += 0.0 if forced[at] else self._pass_s
            reason = Reason.STOP if at == end - 1 else Reason.RUNNING
            tokens.append((due, Token(script[at], -0.5, reason, forced[at])))
        return choices, tokens

    def greedy(
        self, kv: ClockedKV, ids: Sequence[int], legal: int, mask: npt.NDArray[np.uint32] | None
    ) -> tuple[int, float]:
        """The script's next choice: the kernel, or what is asked next, goes on behind it and its run."""
        time.sleep(self._prefill_s)
        kv.advance(len(ids))
        choice = self._clocked.at(self._choices[self._chosen])
        self._chosen += 1
        self._clocked.begin = self._choices[self._chosen]
        return choice.id, choice.logprob
