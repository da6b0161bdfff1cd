"""A decode segment inside the CPU program: what goes in, what comes out, when Python is asked. No weights.

The program runs, masks, draws, takes forced runs and ends by itself. It returns when tokens are to be handed
over, soon at first and at the rate of a film later, since a reader waits for them; and where it meets a
configuration of the grammar for the first time.
"""

from __future__ import annotations

import ctypes
import math
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kogagent.engine.backend import KV, DecodePlan, DecodeStats, Emitted
from kogagent.engine.backends.host import check_pending
from kogagent.engine.backends.native_grammar import NativeGrammar, NativeWalk
from kogagent.engine.grammar.matcher import Matcher
from kogagent.engine.sampling import choose
from kogagent.errors import InputError, ModelError
from kogagent.kernels.cpu import library
from kogagent.types import FinishReason

if TYPE_CHECKING:
    from kogagent.engine.backends.native import NativeBackend

_FIRST_S, _MOST_S, _PATIENT_S = 0.004, 0.032, 0.05
"""Seconds after which tokens are handed over, at first and at most; to a patient reader. Every time costs a
third of a millisecond of cores that compute."""

_REASONS: dict[int, FinishReason] = {
    library.STOP: "stop",
    library.LENGTH: "length",
    library.CONTEXT: "context",
    library.CANCELLED: "cancelled",
    library.GRAMMAR: "grammar",
}


class NativeDecode:
    """One segment. grammar: the plan's matcher's, None without one.

    Raises ContextError when the pending ids do not fit the cache, InputError for a plan that cannot run.
    """

    resident = False

    def __init__(
        self,
        backend: NativeBackend,
        kv: KV,
        ids: Sequence[int],
        plan: DecodePlan,
        grammar: NativeGrammar | None = None,
    ) -> None:
        vocab = backend.spec.vocab_size
        check_pending(kv, ids, vocab)
        if plan.max_tokens < 1:
            raise InputError(f"max_tokens={plan.max_tokens}: must be at least 1")
        self._backend, self._kv, self._plan, self._grammar = backend, kv, plan, grammar
        self._begin = kv.length
        room = min(plan.max_tokens, kv.capacity - kv.length - len(ids) + 1)
        # No NumPy where plain arrays do: behind a pass its code, as all else, comes from memory.
        self._ids = array("I", ids)
        self._ids.frombytes(bytes(4 * room))
        self._logprobs = array("f", bytes(4 * len(self._ids)))
        self._forced = array("B", bytes(len(self._ids)))
        self._logits = np.zeros(vocab, np.float32)
        self._stops = backend.stops(plan.stop_ids)
        self._stop = ctypes.c_uint8(0)
        sampling = plan.sampling
        self._seen: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = None
        if sampling.repetition_penalty != 1.0:
            self._seen = np.zeros(vocab, np.uint8)
            self._seen[[i for i in plan.history if 0 <= i < vocab]] = 1
            self._seen[list(ids)] = 1
        self._walk: NativeWalk | None = None
        if grammar is not None:
            assert isinstance(plan.matcher, Matcher)
            self._walk = NativeWalk(grammar, plan.matcher)
        self._taken = len(ids)  # ids that have been drained, the pending ones included
        self._reason: FinishReason | None = None
        self._together_s, self._most_s = (_PATIENT_S,) * 2 if plan.patient else (_FIRST_S, _MOST_S)
        self._asked_forced_s = self._asked_sampled_s = 0.0  # the host's grammar
        self._segment = library.Segment(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            min_p_log=math.log(sampling.min_p) if sampling.min_p > 0 else -math.inf,
            penalty=sampling.repetition_penalty,
            top_k=sampling.top_k,
            seed=sampling.seed,
            legal=min(plan.legal_ids, vocab) if plan.legal_ids else vocab,
            force=plan.force,
            stops=self._stops.buffer_info()[0],
            stop=ctypes.addressof(self._stop),
            seen=None if self._seen is None else self._seen.ctypes.data,
            grammar=None if grammar is None else grammar.handle,
            walk=None if self._walk is None else self._walk.at,
            ids=self._ids.buffer_info()[0],
            logprobs=self._logprobs.buffer_info()[0],
            forced=self._forced.buffer_info()[0],
            logits=self._logits.ctypes.data,
            prompt=len(ids),
            most=len(self._ids),
            filled=len(ids),
        )

    def drain_nowait(self) -> list[Emitted]:
        new = slice(self._taken, self._segment.filled)
        self._taken = self._segment.filled
        columns = self._ids[new], self._logprobs[new], self._forced[new]
        return [Emitted(i, p, bool(f)) for i, p, f in zip(*columns, strict=True)]

    def stop(self) -> None:
        self._stop.value = 1

    def settle(self) -> None:
        """What has ended here holds nothing any more."""

    @property
    def reason(self) -> FinishReason | None:
        return self._reason

    @property
    def stats(self) -> DecodeStats:
        s = self._segment
        forced, sampled = s.forced_s + self._asked_forced_s, s.sampled_s + self._asked_sampled_s
        return DecodeStats(s.prefill_s, sampled, forced, s.passes)

    def wait(self, seconds: float) -> None:
        """At least one token; more of them while all together take no longer than a reader would notice."""
        if self._reason is not None:
            return
        segment = self._segment
        segment.seconds = min(seconds, self._together_s)
        self._together_s = min(2 * self._together_s, self._most_s)
        while True:
            before = segment.ran
            try:
                why = self._backend.run_segment(self._kv, self._begin, segment)
            finally:
                self._backend.advance(self._kv, segment.ran - before)
            if why != library.UNKNOWN:
                break
            self._ask()
        if self._walk is not None and (why in _REASONS or why == library.BROKEN):
            assert isinstance(self._plan.matcher, Matcher)
            self._walk.put(self._plan.matcher)
        if why == library.BROKEN:
            self._refuse()
        if why == library.ILLEGAL:
            raise ModelError("an id is not legal here; the grammar's mask or run was not applied")
        if why == library.LENGTH and segment.filled - segment.prompt < self._plan.max_tokens:
            why = library.CONTEXT
        self._reason = _REASONS.get(why)

    def _ask(self) -> None:
        """Let the host's grammar say what the program does not know yet."""
        assert self._grammar is not None and self._walk is not None
        started = time.perf_counter()
        is_mask = bool(self._segment.opened)
        self._grammar.learn(self._walk)
        if is_mask:
            self._asked_sampled_s += time.perf_counter() - started
        else:
            self._asked_forced_s += time.perf_counter() - started

    def _refuse(self) -> None:
        """Say as the host does what is wrong with the last logits."""
        plan, position = self._plan, self._begin + self._segment.ran
        seen = None if self._seen is None else self._seen.astype(np.bool_)
        mask = None if plan.matcher is None else plan.matcher.mask()
        choose(self._logits, plan.sampling, position, seen, mask, plan.legal_ids)
        raise ModelError(f"the logits at position {position} are not numbers")
