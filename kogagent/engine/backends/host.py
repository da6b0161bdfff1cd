"""The segment loop of backends that compute on the host: sample, force, stop. Knows no weights, no layers.

One pass of the model covers every pending id, so that a forced run costs no pass of its own: its ids and the
sampled one before it are the rows of the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kogagent.engine.backend import KV, Backend, DecodePlan, DecodeStats, Emitted
from kogagent.engine.sampling import choose
from kogagent.errors import ContextError, InputError
from kogagent.spec import ModelSpec
from kogagent.types import FinishReason

_ROOM_UNKNOWN = 4 << 30


class InHostMemory:
    """A backend whose caches take the host's memory, as they fill."""

    def kv_bytes(self, capacity: int) -> int:
        return 0

    def cache_room(self) -> tuple[int, int]:
        return host_room(), 0


class NeverParked:
    """A cache in the host's memory: it has nowhere else to wait."""

    @property
    def parked(self) -> bool:
        return False

    def park(self) -> bool:
        return False


class HostBackend(Backend, Protocol):
    """A backend whose decode segments are `HostDecode`."""

    def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append ids to the cache and return the logits [V] of the last, FP32."""


class Progress:
    """What one segment has emitted and what is pending; the rules by which it ends, alike on every backend.

    pending: ids the cache does not hold yet; forced_pending: how many of them are forced ids of this segment.
    seen [V]: ids whose repetition is penalised, None when the penalty is 1.
    Raises ContextError when the pending ids do not fit the cache, InputError for a plan that cannot run.
    """

    def __init__(self, kv: KV, ids: Sequence[int], plan: DecodePlan, vocab: int) -> None:
        check_pending(kv, ids, vocab)
        if plan.max_tokens < 1:
            raise InputError(f"max_tokens={plan.max_tokens}: must be at least 1")
        self._kv, self._plan = kv, plan
        self.pending = list(ids)
        self.forced_pending = 0
        self.room = plan.max_tokens
        self.seen: npt.NDArray[np.bool_] | None = None
        if plan.sampling.repetition_penalty != 1.0:
            self.seen = np.zeros(vocab, dtype=np.bool_)
            self.seen[[i for i in plan.history if 0 <= i < vocab]] = True
            self.seen[self.pending] = True
        self.out: list[Emitted] = []
        self.reason: FinishReason | None = None
        self.steps = 0
        self.prefill_s = self.sampled_s = self.forced_s = 0.0

    @property
    def stats(self) -> DecodeStats:
        return DecodeStats(self.prefill_s, self.sampled_s, self.forced_s, self.steps)

    @property
    def is_prompt(self) -> bool:
        """Whether the next pass is a prompt's: the first one, of more than an id to go on from."""
        return self.steps == 0 and len(self.pending) - self.forced_pending > 1

    def took(self, seconds: float, forced: int, *, prompt: bool) -> None:
        """Count a pass over so many forced ids, and what it took."""
        self.steps += 1
        if prompt:
            self.prefill_s += seconds
        else:
            share = forced / (forced + 1)
            self.forced_s += seconds * share
            self.sampled_s += seconds * (1 - share)

    def drain(self) -> list[Emitted]:
        out, self.out = self.out, []
        return out

    def passed(self) -> None:
        """Say that the pending ids have been through the model."""
        self.pending, self.forced_pending = [], 0

    def emit(self, token: int, logprob: float, *, forced: bool) -> None:
        """Count one id: the grammar takes it, it is pending, and it may end the segment."""
        if self._plan.matcher is not None:
            self._plan.matcher.advance(token)
        self.pending.append(token)
        self.forced_pending += forced
        if self.seen is not None:
            self.seen[token] = True
        self.out.append(Emitted(token, logprob, forced))
        self.room -= 1
        if token in self._plan.stop_ids:
            self.reason = "stop"
        elif self.room == 0:
            self.reason = "length"
        elif self._kv.length + len(self.pending) > self._kv.capacity:
            self.reason = "context"

    def take_forced(self) -> None:
        """Emit what the grammar leaves no choice about; end where it allows nothing more."""
        matcher = self._plan.matcher
        if matcher is None:
            return
        while self.reason is None and not matcher.finished:
            run = matcher.forced() if self._plan.force else ()
            if not run:
                break
            for token in run:
                self.emit(token, 0.0, forced=True)
                if self.reason is not None:
                    break
        if self.reason is None and matcher.finished:
            self.reason = "grammar"


class KeepsProgress:
    """What a segment tells of its Progress."""

    _progress: Progress

    @property
    def reason(self) -> FinishReason | None:
        return self._progress.reason

    def settle(self) -> None:
        """What has ended here holds nothing any more."""

    @property
    def stats(self) -> DecodeStats:
        return self._progress.stats


class HostDecode(KeepsProgress):
    """One segment, computed step by step inside `wait`. Every step but a last one of forced ids is one pass.

    Raises what `Progress` raises.
    """

    resident = False

    def __init__(self, backend: HostBackend, kv: KV, ids: Sequence[int], plan: DecodePlan) -> None:
        self._backend, self._kv, self._plan = backend, kv, plan
        self._progress = Progress(kv, ids, plan, backend.spec.vocab_size)
        self._stop = threading.Event()
        self._first = True

    def drain_nowait(self) -> list[Emitted]:
        return self._progress.drain()

    def stop(self) -> None:
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """One step: at most one pass of the model, whatever `seconds` says."""
        progress = self._progress
        if progress.reason is not None:
            return
        if self._stop.is_set():
            progress.reason = "cancelled"
            return
        if self._first:
            self._first = False
            self._take_forced()  # a run that opens the segment shares the first pass with the prompt
            if progress.reason is not None:
                return
        self._pass()
        if progress.reason is None:
            self._take_forced()

    def _pass(self) -> None:
        """Run the pending ids and sample one."""
        progress = self._progress
        forced, is_prompt = progress.forced_pending, progress.is_prompt
        started = time.perf_counter()
        logits = self._backend.last_logits(self._kv, progress.pending)
        matcher = self._plan.matcher
        token, logprob = choose(
            logits,
            self._plan.sampling,
            self._kv.length,
            progress.seen,
            None if matcher is None else matcher.mask(),
            self._plan.legal_ids,
        )
        progress.passed()
        progress.emit(token, logprob, forced=False)
        progress.took(time.perf_counter() - started, forced, prompt=is_prompt)

    def _take_forced(self) -> None:
        started = time.perf_counter()
        self._progress.take_forced()
        self._progress.forced_s += time.perf_counter() - started


def host_room() -> int:
    """Bytes of this machine's memory that caches may take unless told otherwise: half of what is free now."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 512 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # a system that does not say
        return _ROOM_UNKNOWN


def check_pending(kv: KV, ids: Sequence[int], vocab_size: int) -> None:
    """Refuse, before any work, ids that cannot be decoded: none, unknown ones, more than fit the cache."""
    if not ids:
        raise InputError("decode needs at least one pending id: append the prompt first")
    if min(ids) < 0 or max(ids) >= vocab_size:
        wrong = next(i for i in ids if not 0 <= i < vocab_size)
        raise InputError(f"token id {wrong} lies outside the model's vocabulary of {vocab_size}")
    if kv.length + len(ids) > kv.capacity:
        raise ContextError(
            f"{len(ids)} ids after the {kv.length} already there do not fit a context of {kv.capacity}. "
            "Shorten the prompt or rewind the session."
        )


def check_capacity(spec: ModelSpec, capacity: int) -> None:
    """Refuse a cache no sequence can have. Raises InputError, ContextError past the model's context."""
    if capacity < 1:
        raise InputError(f"capacity={capacity}: must be at least 1")
    if capacity > spec.context:
        raise ContextError(
            f"capacity={capacity} exceeds the model's context of {spec.context}. Ask for at most that."
        )


def check_rewind(kv: KV, length: int) -> None:
    """Refuse to rewind to what is not there. Raises InputError."""
    if not 0 <= length <= kv.length:
        raise InputError(f"cannot rewind to length {length}: the cache holds {kv.length} ids")


def fork_length(kv: KV, length: int | None) -> int:
    """How many ids a fork gets. Raises InputError for more than there are."""
    if length is None:
        return kv.length
    if not 0 <= length <= kv.length:
        raise InputError(f"cannot fork the first {length} ids: the cache holds {kv.length}")
    return length
