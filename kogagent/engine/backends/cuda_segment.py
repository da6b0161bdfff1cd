"""One segment on NVIDIA GPUs, from its pending ids to its last token. Token ids only.

The kernel samples, checks stop ids and the grammar, takes forced runs and counts by itself. The host looks
for forced runs ahead of it while it runs, and is asked where it has not come that far. Grammars that only the
host can match guide the segment: each pass streams while the matcher finds the mask of its choice.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import DecodePlan, Emitted, TokenMatcher
from kogagent.engine.backends.device_grammar import ANSWER_RUN, FREE, ILLEGAL, LAST
from kogagent.engine.backends.grammar_memory import GrammarMemory
from kogagent.engine.backends.host import KeepsProgress, Progress
from kogagent.engine.backends.tensor_kv import TensorKV
from kogagent.engine.grammar.matcher import Matcher
from kogagent.engine.sampling import choose
from kogagent.errors import DeviceError, ModelError
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.types import FinishReason

if TYPE_CHECKING:
    from kogagent.engine.backends.cuda import CudaBackend

FEED_ROWS = 8
"""Pending ids up to this many go through the decode kernel, in one pass, more through prefill. On an H200, 2B
behind 2,000 ids: with 8 ids the kernel gives the first token 0.3 ms later and eight tokens 0.2 ms sooner;
with 12, whose second pass costs 1.3 ms, both later."""

_REASONS: dict[Reason, FinishReason] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.CONTEXT: "context",
    Reason.CANCELLED: "cancelled",
}
_POLL_S = 40e-6
_SET_TIMER_SLACK = 29  # of Linux' prctl


class CudaDecode(KeepsProgress):
    """One segment, resident; guided by the host where only it can match the grammar."""

    resident = True

    def __init__(self, backend: CudaBackend, kv: TensorKV, ids: Sequence[int], plan: DecodePlan) -> None:
        self._backend, self._kv, self._plan = backend, kv, plan
        self._progress = Progress(kv, ids, plan, backend.spec.vocab_size)
        self._memory: GrammarMemory | None = None  # of the launch, where the device matches the grammar
        self._guided = False
        self._led = False  # the next choice is no choice: it leads a forced run
        self._stopped = False
        self._launched = self._first = self._is_prompt = False
        self._began = 0.0

    def stop(self) -> None:
        self._stopped = True
        if self._launched:
            self._backend.kernel().stop()

    def drain_nowait(self) -> list[Emitted]:
        if self._launched:
            self._take(self._backend.kernel().drain())
        return self._progress.drain()

    def wait(self, seconds: float) -> None:
        progress = self._progress
        if not self._launched and not self._start():
            return
        until = time.perf_counter() + seconds
        kernel = self._backend.kernel()
        while True:
            self._take(kernel.drain())
            if progress.out or progress.reason is not None or time.perf_counter() >= until:
                return
            # Zero lets other threads in: they would wait for the interpreter as long as we look ahead.
            ahead = self._memory is not None and self._memory.look_ahead()
            time.sleep(0 if ahead else _POLL_S)

    def settle(self) -> None:
        self._backend.kernel().settle()

    # ── a launch ──

    def _start(self) -> bool:
        """Launch what is pending, unless the segment has ended or ends here, or has an id to be handed over
        first: to a patient reader the kernel goes on ahead."""
        progress, plan = self._progress, self._plan
        self.settle()  # where only a launch has ended, what it left behind reads the grammar and the cache
        while True:
            if progress.reason is None and self._stopped:
                progress.reason = "cancelled"
            if progress.reason is None and not self._first:
                self._first = True
                progress.take_forced()  # a run that opens the segment shares the first pass with the prompt
            if progress.reason is not None:
                return False
            self._is_prompt = progress.is_prompt
            if len(progress.pending) <= FEED_ROWS or plan.sampling.temperature > 0.0:
                break
            self._draw_by_prefill()
            if not plan.patient:
                return False
        self._launch()
        if self._stopped:
            self._backend.kernel().stop()
        return True

    def _draw_by_prefill(self) -> None:
        """The largest logit behind a long prompt: pre-fill finds it at once. Drawing would cost the host more
        than a pass of the kernel."""
        kv, progress, plan = self._kv, self._progress, self._plan
        mask: npt.NDArray[np.uint32] | None = None if plan.matcher is None else plan.matcher.mask()
        self._began = time.perf_counter()
        found = None
        if plan.sampling.repetition_penalty == 1.0:
            found = self._backend.greedy(kv, progress.pending, plan.legal_ids, mask)
        else:
            self._backend.append(kv, progress.pending, logits="last")
        if found is None:
            logits = self._backend.last_logits
            found = choose(logits, plan.sampling, kv.length, progress.seen, mask, plan.legal_ids)
        self._passed(in_cache=True)
        progress.emit(*found, forced=False)
        if progress.reason is None:
            progress.take_forced()

    def _launch(self) -> None:
        """Start the kernel over the pending ids; long runs go through prefill first, and meanwhile the host
        prepares the grammar."""
        kv, plan, sampling, progress = self._kv, self._plan, self._plan.sampling, self._progress
        ids, ended = progress.pending, None
        if len(ids) > FEED_ROWS:
            self._began = time.perf_counter()
            self._backend.append(kv, ids[:-1])
            ended = _queue_end()
            ids = progress.pending = ids[-1:]
        matcher, memory = plan.matcher, None
        if matcher is not None and plan.force:
            memory = self._backend.grammars.find(matcher)
        self._memory, self._guided = memory, matcher is not None and memory is None
        place = None
        if memory is not None:
            assert isinstance(matcher, Matcher)
            memory.grammar.turn_to(matcher)
            while ended is not None and not ended() and memory.grammar.look_ahead():
                time.sleep(0)
            place = memory.place(matcher)
        if ended is not None:
            _synchronize()
        began = self._backend.kernel().launch(
            Segment(
                pending=ids,
                position=kv.length,
                max_tokens=progress.room,
                stop_ids=sorted(i for i in plan.stop_ids if 0 <= i < self._backend.spec.vocab_size),
                legal_ids=plan.legal_ids,
                seed=sampling.seed,
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
                min_p=sampling.min_p,
                penalty=sampling.repetition_penalty,
                history=[] if progress.seen is None else np.flatnonzero(progress.seen).tolist(),
                grammar=place,
                guided=self._guided,
            ),
            kv.stores,  # not kept: a cache that waits may have to give its memory up
        )
        self._launched = True
        if ended is None:
            self._began = began  # until then the device had nothing to do: the time was ours
        if self._guided:
            self._guide()

    def _guide(self) -> None:
        """Say what the next choice may be. Its pass has begun: a forced run's first id is the choice."""
        matcher, kernel = self._plan.matcher, self._backend.kernel()
        assert matcher is not None
        if matcher.finished:
            kernel.answer(ILLEGAL)  # ends the segment
            return
        ids, last = forced_ids(matcher.fork()) if self._plan.force else ([], False)
        self._led = bool(ids)
        if not ids:
            kernel.answer(FREE, mask=matcher.mask())
            return
        first, *rest = ids
        mask = np.zeros(first // 32 + 1, np.uint32)
        mask[first // 32] = np.uint32(1 << first % 32)
        kernel.answer(ANSWER_RUN if rest else LAST if last else FREE, rest, last=last, mask=mask)

    @property
    def _rows(self) -> int:
        """Ids in the cache once the pending ones have passed: the position of what is drawn then."""
        return self._kv.length + len(self._progress.pending)

    def _take(self, tokens: list[Token]) -> None:
        """Account for what the kernel has said, and say what it waits for."""
        progress, matcher, reason = self._progress, self._plan.matcher, Reason.RUNNING
        for token in tokens:
            reason = token.reason
            if reason in (Reason.NOT_A_NUMBER, Reason.NO_LEGAL_ID):
                self._refuse(token)
            if reason is Reason.CANCELLED:  # the pending ids stay pending, though they have passed
                finished = self._guided and matcher is not None and matcher.finished
                progress.reason = "grammar" if finished else "cancelled"
            else:
                if not token.forced:
                    self._passed()
                led, self._led = self._led, False
                progress.emit(token.id, 0.0 if led else token.logprob, forced=token.forced or led)
            if reason not in (Reason.RUNNING, Reason.ASKED):
                self._launched = False
                self._end(reason)
        if not tokens or not self._launched:
            return
        if self._guided:
            self._guide()
        elif self._memory is not None:
            assert isinstance(matcher, Matcher)
            if reason is Reason.ASKED:
                self._answer(matcher, self._memory)
            self._memory.grammar.turn_to(matcher)

    def _answer(self, matcher: Matcher, memory: GrammarMemory) -> None:
        """Say what is forced where the kernel waits: by its number where the device can hold it."""
        found = memory.grammar.learn(matcher)
        if found is None:
            ids, last = forced_ids(matcher.fork())
            self._backend.kernel().answer(ANSWER_RUN if ids else FREE, ids, last=last)
        else:
            memory.shown()
            self._backend.kernel().answer(found)

    def _passed(self, *, in_cache: bool = False) -> None:
        """The pending ids have passed, and one more was drawn. in_cache: the cache counts them already."""
        now, progress = time.perf_counter(), self._progress
        elapsed, self._began = now - self._began, now
        progress.took(elapsed, progress.forced_pending, prompt=self._is_prompt)
        self._is_prompt = False
        if not in_cache:
            self._kv.advance(len(progress.pending))
        progress.passed()

    def _end(self, reason: Reason) -> None:
        """Go on where only the launch has ended; hold what the kernel says to the segment's own rules."""
        progress = self._progress
        if not self._guided and progress.reason != (
            None if reason is Reason.COMPLETE else _REASONS.get(reason)
        ):
            raise DeviceError(f"the kernel ended with {reason.name}, the host with {progress.reason!r}")
        progress.take_forced()

    def _refuse(self, token: Token) -> None:
        self.settle()
        at = self._rows
        if token.reason is Reason.NOT_A_NUMBER:
            raise ModelError(
                f"the logits at position {at} are NaN or infinite. The weights hold NaN or overflow: "
                "check the checkpoint, or load it with dtype='bfloat16'."
            )
        raise ModelError(f"no id is legal at position {at}: the grammar or legal_ids allow nothing here")


def forced_ids(walk: TokenMatcher) -> tuple[list[int], bool]:
    """All ids that are forced from where a walk stands, which takes them, and whether the text ends there."""
    ids: list[int] = []
    while not walk.finished:
        run = walk.forced()
        if not run:
            break
        for token in run:
            walk.advance(token)
        ids += run
    return ids, walk.finished


def sleep_exactly() -> None:
    """Have this thread's sleeps end when they are over. Linux adds up to 50 µs to each, so that a look at the
    kernel every 40 µs came every 105; elsewhere nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # a system without it
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def _synchronize() -> None:
    torch.cuda.current_stream().synchronize()


def _queue_end() -> Callable[[], bool]:
    """Asks whether what is queued on the device now has ended."""
    event: Any = torch.cuda.Event(enable_timing=False)  # type: ignore[no-untyped-call]
    event.record()
    ended: Callable[[], bool] = event.query
    return ended
