"""A model whose device takes no time: what a turn costs the host. Knows the engine's seam, no weights.

Everything else of a turn is real: agent, loop, template, tokenizer, grammar, session, the worker's thread,
parser, tools. The backend decodes as the CUDA one does, under the same rules (`Progress`), a prompt at once
and then a choice at a time with the ids it forces; what it chooses is the next id of a call that is written
beforehand, of about sixty tokens. An id that the grammar or its forced runs would not have written is an
error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kogagent.chat.guard import Guard
from kogagent.chat.inputs import written_calls
from kogagent.engine.backend import KV, Decode, DecodePlan, Emitted
from kogagent.engine.backends.host import (
    InHostMemory,
    KeepsProgress,
    NeverParked,
    Progress,
    check_capacity,
    check_rewind,
    fork_length,
)
from kogagent.engine.engine import EngineCore
from kogagent.engine.weights import read_spec
from kogagent.local import Engine
from kogagent.local.names import NANO, find_model
from kogagent.spec import ModelSpec
from kogagent.testing import call
from kogagent.tokenizer import Tokenizer

_CHARS = 20  # of each text argument: a call has some sixty tokens


class InstantKV(NeverParked):
    """A cache that holds a number."""

    def __init__(self, capacity: int, length: int = 0) -> None:
        self.capacity, self.length = capacity, length

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self.length = length

    def fork(self, length: int | None = None) -> InstantKV:
        return InstantKV(self.capacity, fork_length(self, length))

    @property
    def memory(self) -> Mapping[Hashable, int]:
        return {}

    def growth(self, length: int) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to give back."""


class InstantDecode(KeepsProgress):
    """One segment: the prompt's pass and its choice in the first `wait`, all others in the second."""

    resident = True

    def __init__(
        self,
        kv: InstantKV,
        ids: Sequence[int],
        plan: DecodePlan,
        vocab: int,
        script: Sequence[int],
    ) -> None:
        self._kv, self._plan, self._script = kv, plan, script
        self._progress = Progress(kv, ids, plan, vocab)
        self._begun = self._stopped = False
        self._written = 0

    def stop(self) -> None:
        self._stopped = True

    def drain_nowait(self) -> list[Emitted]:
        out = self._progress.drain()
        for one in out:
            wanted, self._written = self._script[self._written], self._written + 1
            if one.id != wanted:
                raise AssertionError(f"id {one.id} was forced where the script has {wanted}")
        return out

    def settle(self) -> None:
        """What takes no time leaves nothing behind."""

    def wait(self, seconds: float) -> None:
        progress = self._progress
        if progress.reason is None and self._stopped:
            progress.reason = "cancelled"
        if not self._begun:
            self._begun = True
            progress.take_forced()
            self._pass()
            return
        while progress.reason is None:
            self._pass()

    def _pass(self) -> None:
        """Run the pending ids, take the script's next, and what is forced behind it."""
        progress = self._progress
        if progress.reason is not None:
            return
        forced, prompt = progress.forced_pending, progress.is_prompt
        progress.took(0.0, forced, prompt=prompt)
        self._kv.length += len(progress.pending)
        progress.passed()
        progress.emit(self._script[self._written + len(progress.out)], -0.5, forced=False)
        progress.take_forced()


class InstantBackend(InHostMemory):
    """scripts: what each segment says, the next one first."""

    prefill_chunk = 2048  # the CUDA backend's
    name, dtype = "instant", "none"

    def __init__(self, spec: ModelSpec, scripts: deque[Sequence[int]]) -> None:
        self.spec, self._scripts = spec, scripts

    def rehearse(self) -> None:
        """Do with the scripts what is none of a turn's work."""

    def seconds(self, turns: int, passes: int) -> float:
        """The device's own time in so many turns, their prompts' passes among the passes."""
        return 0.0

    def open_kv(self, capacity: int) -> KV:
        check_capacity(self.spec, capacity)
        return InstantKV(capacity)

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        assert isinstance(kv, InstantKV)
        kv.length += len(ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        assert isinstance(kv, InstantKV)
        return InstantDecode(kv, ids, plan, self.spec.vocab_size, self._scripts.popleft())

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        raise NotImplementedError("a model without weights has no logits")

    def close(self) -> None:
        """There is nothing to give back."""


class Instant:
    """nano's tokenizer, template and shape, or another model's, on a device that takes no time, or on what
    `make` makes of shape and scripts."""

    def __init__(
        self,
        make: Callable[[ModelSpec, deque[Sequence[int]]], InstantBackend] = InstantBackend,
        model: str | Path = NANO,
    ) -> None:
        path = find_model(model)
        tokenizer, spec = Tokenizer.load(path), read_spec(path)
        self._scripts: deque[Sequence[int]] = deque()
        self._tokenizer, self._rng = tokenizer, np.random.default_rng()
        self.backend = make(spec, self._scripts)
        self.engine = Engine(EngineCore(lambda: self.backend), tokenizer)

    def write(self, turns: int) -> list[str]:
        """What the next turns say, a call of `look` each with texts that nobody has seen; their arguments."""
        self._scripts.clear()
        calls = [
            call("look", path=self._text(), pattern=self._text(), depth=int(self._rng.integers(10)))
            for _ in range(turns)
        ]
        guard, tokenizer = Guard(self._tokenizer.control_names), self._tokenizer
        for one in calls:
            said = written_calls([one], self.engine.chat.format, guard)
            self._scripts.append((*tokenizer.encode_markup(said), tokenizer.end_ids[0]))
        self.backend.rehearse()
        return [one.arguments for one in calls]

    def _text(self) -> str:
        return "".join(map(chr, self._rng.integers(ord("a"), ord("z") + 1, _CHARS)))
