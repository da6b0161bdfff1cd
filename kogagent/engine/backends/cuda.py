"""The backend of NVIDIA GPUs: prefill by torch, decode by the resident kernel. Token ids only.

A segment samples, checks stop ids and the grammar, takes forced runs and counts by itself. The host looks for
forced runs ahead of it while it runs, and is asked where it has not come that far. Grammars that only the
host can match guide the segment: each pass streams while the matcher finds the mask of its choice.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import KV, Decode, DecodePlan, DecodeStats, Emitted, TokenMatcher
from kogagent.engine.backends.cuda_devices import SpreadKV, choose_cards, cut_tensors, spread
from kogagent.engine.backends.device_grammar import (
    ANSWER_RUN,
    FREE,
    ILLEGAL,
    LAST,
    Blob,
    Bytes,
    DeviceGrammar,
    plain,
    vocabulary_blob,
)
from kogagent.engine.backends.host import Progress, check_capacity, check_pending, host_room
from kogagent.engine.backends.tensor_kv import TensorKV, own_kv
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.engine.lanes import lane_table
from kogagent.engine.sampling import choose
from kogagent.engine.weights import check_tensors
from kogagent.errors import ConfigError, DeviceError, EngineClosedError, InputError, ModelError, SchemaError
from kogagent.kernels.monokernel import GrammarPlace, Monokernel, Reason, Segment, Token
from kogagent.kernels.pack import Layout
from kogagent.kernels.pack import plan as plan_layout
from kogagent.kernels.params import STEP
from kogagent.kernels.prefill import BUCKETS, Prefill, Wanted
from kogagent.spec import ModelSpec
from kogagent.types import FinishReason

if TYPE_CHECKING:
    from typing import Literal

FEED_ROWS = 16
"""Pending ids up to this many go through the decode kernel, more through prefill."""

_REASONS: dict[Reason, FinishReason] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.CONTEXT: "context",
    Reason.CANCELLED: "cancelled",
}
_POLL_S = 40e-6
_CACHE_SHARE = 0.9  # of the memory that is free once the model is loaded
_KEPT_GRAMMARS = 32
_KEPT_VOCABULARIES = 4


def kernel_steps(spec: ModelSpec, *, apart: bool = False) -> tuple[npt.NDArray[np.void], bool]:
    """The lane table as the kernel reads it [2N], and whether all lanes' streams are one.

    apart: keep a stream for each lane though they are equal, as lanes on several devices need.
    """
    table = lane_table(spec)
    one_stream = table.one_stream and not (apart and spec.lanes > 1)
    out = np.zeros(len(table.steps), dtype=STEP)
    for row, step in zip(out, table.steps, strict=True):
        row["late"] = -1
        for landing in step.landings:
            others = 0.0 if one_stream else landing.others
            if landing.lag == 0:
                row["own"], row["others"] = landing.own, others
            else:
                row["late"], row["late_own"], row["late_others"] = landing.source, landing.own, others
        row["sends"] = (step.sends and not one_stream) or step.last_use > step.module
        row["window"] = spec.windows[step.layer]
    return out, one_stream


def wide_layout(
    spec: ModelSpec,
    sms: int,
    shared_limit: int,
    *,
    one_stream: bool,
    devices: int = 1,
    like: Layout | None = None,
) -> Layout | None:
    """Of the widths that share a pass the widest whose inputs leave room for the ring."""
    for width in (8, 4):
        try:
            return plan_layout(
                spec, sms, shared_limit, one_stream=one_stream, width=width, devices=devices, like=like
            )
        except ConfigError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A model on cards: the lanes it decodes with, their steps, layouts of one row and of several a pass."""

    spec: ModelSpec
    steps: npt.NDArray[np.void]
    layout: Layout
    wide: Layout | None


def arrange(spec: ModelSpec, cards: Sequence[torch.device], splits: int = 0) -> Arrangement:
    """A model over cards; one that is named several times is cut into as many equal parts.

    Sums are those of one kernel of the same lanes on one such card, to the bit, however many cards there are.
    Raises ConfigError for what cannot be dealt evenly or does not fit.
    """
    card: Any = torch.cuda.get_device_properties(cards[0])
    return arrange_for(
        spec,
        len(cards),
        max(cards.count(each) for each in cards),
        card.multi_processor_count,
        card.shared_memory_per_block_optin,
        splits,
    )


def arrange_for(
    spec: ModelSpec, devices: int, parts: int, sms: int, shared: int, splits: int = 0
) -> Arrangement:
    """`arrange` without a card: `parts` of the devices share one of `sms` multiprocessors."""
    lanes = spread(spec, devices)
    steps, one_stream = kernel_steps(lanes, apart=devices > 1)
    like = None if devices == 1 else plan_layout(lanes, sms, shared, one_stream=one_stream)
    own = sms // parts
    layout = plan_layout(lanes, own, shared, one_stream=one_stream, devices=devices, like=like, splits=splits)
    wide = wide_layout(lanes, own, shared, one_stream=one_stream, devices=devices, like=like)
    if wide is not None and (wide.splits, wide.shapes) != (layout.splits, layout.shapes):
        wide = None  # only where splits were asked for
    return Arrangement(lanes, steps, layout, wide)


class _GrammarMemory:
    """A grammar's arrays on the device, brought up to date before each segment; what is learned meanwhile the
    kernel reads from the host's."""

    def __init__(self, grammar: DeviceGrammar, tokens: Blob, vocabulary: list[torch.Tensor]) -> None:
        self.grammar = grammar
        self._tokens, self._vocabulary = tokens, vocabulary
        self._fixed = self._on_devices(grammar.fixed)
        self._learned: list[torch.Tensor] = []
        self._runs, self._version = 0, -1
        self._in_use: Blob | None = None  # the kernel may read it, though the grammar has outgrown it

    def _on_devices(self, blob: Blob) -> list[torch.Tensor]:
        return [torch.from_numpy(blob.bytes.copy()).to(each.device) for each in self._vocabulary]

    def place(self, matcher: Matcher) -> GrammarPlace:
        """Where a matcher without a pending run stands."""
        grammar = self.grammar
        if grammar.version != self._version:
            self._in_use = grammar.learned
            self._learned = self._on_devices(self._in_use)
            self._runs, self._version = grammar.runs, grammar.version
        records = [
            grammar.record(
                fixed.data_ptr(), learned.data_ptr(), vocabulary.data_ptr(), self._tokens, runs=self._runs
            )
            for fixed, learned, vocabulary in zip(self._fixed, self._learned, self._vocabulary, strict=True)
        ]
        return GrammarPlace(np.concatenate(records), grammar.start(matcher))


class _Grammars:
    """The grammars that devices hold, the most recent ones of each vocabulary."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices
        self._vocabularies: OrderedDict[str, tuple[Blob, list[torch.Tensor]] | None] = OrderedDict()
        self._known: OrderedDict[str, _GrammarMemory | None] = OrderedDict()

    def find(self, matcher: TokenMatcher | None) -> _GrammarMemory | None:
        """The memory of a matcher's grammar; None where the host must do the matching."""
        if not isinstance(matcher, Matcher):
            return None
        grammar = matcher.grammar
        if grammar.digest not in self._known:
            self._known[grammar.digest] = self._make(grammar)
            while len(self._known) > _KEPT_GRAMMARS:
                self._known.popitem(last=False)
        self._known.move_to_end(grammar.digest)
        return self._known[grammar.digest]

    def _make(self, grammar: Grammar) -> _GrammarMemory | None:
        vocabulary = grammar.trie.vocabulary
        if vocabulary.digest not in self._vocabularies:
            blob = vocabulary_blob(vocabulary)
            self._vocabularies[vocabulary.digest] = None
            if blob is not None:
                copies = [torch.from_numpy(blob.bytes).to(device) for device in self._devices]
                self._vocabularies[vocabulary.digest] = (blob, copies)
            while len(self._vocabularies) > _KEPT_VOCABULARIES:
                self._vocabularies.popitem(last=False)
        found = self._vocabularies[vocabulary.digest]
        if found is None:
            return None
        try:
            allocate = _pinned if self._devices[0].type == "cuda" else plain
            return _GrammarMemory(DeviceGrammar(grammar, allocate), *found)
        except SchemaError:
            return None


class CudaBackend:
    """A model on the current CUDA device, or over several. dtype "auto" is float16, for BF16 checkpoints too
    unless their weights leave its range; then bfloat16 takes them.

    devices: their numbers; each gets the next of the lanes, a plain transformer is cut into as many lanes. A
    number given twice is a card with two parts side by side. Pre-fill runs on the first. Raises ConfigError
    when tensors do not fit spec, kernel, dtype or the number of devices; InputError for another dtype,
    missing and unequal cards; DeviceError where cards cannot reach each other's memory.
    """

    prefill_chunk = BUCKETS[-1]

    def __init__(
        self,
        spec: ModelSpec,
        tensors: Mapping[str, torch.Tensor],
        dtype: Literal["auto", "float16", "bfloat16"] = "auto",
        devices: Sequence[int] = (),
    ) -> None:
        if dtype not in ("auto", "float16", "bfloat16"):
            raise InputError(f"dtype={dtype!r}: the cuda backend takes 'auto', 'float16' and 'bfloat16'")
        check_tensors(spec, tensors)
        self._spec = spec
        self._cards = choose_cards(devices)
        spread(spec, len(self._cards))  # refuses before any work
        self._device = self._cards[0]
        torch.cuda.set_device(self._device)  # of the thread that owns the backend
        self._half = torch.bfloat16 if dtype == "bfloat16" else torch.float16
        weights = {name: _to_half(name, tensor, self._half, self._device) for name, tensor in tensors.items()}
        made = arrange(spec, self._cards)
        self._kernel: Monokernel | None = Monokernel(
            made.layout,
            cut_tensors(spec, made.spec, weights),
            made.steps,
            wide=made.wide,
            devices=self._cards,
            max_pending=FEED_ROWS,
        )
        self.grammars = _Grammars(self._cards)
        alone = made if len(self._cards) == 1 else arrange(spec, self._cards[:1])
        self._prefill = Prefill(alone.layout, weights, alone.steps, self._kernel.rope, capture=True)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "cuda"

    def open_kv(self, capacity: int) -> TensorKV:
        self.kernel()
        check_capacity(self._spec, capacity)
        if len(self._cards) > 1:
            return SpreadKV(self._spec, capacity, self._half, self._cards)
        return TensorKV(self._spec, capacity, self._half, self._device)

    def kv_bytes(self, capacity: int) -> int:
        spec = self._spec
        return len(self._cards) * 2 * 2 * spec.n_layers * spec.n_kv_heads * capacity * spec.head_dim

    def cache_room(self) -> tuple[int, int]:
        free = sum(torch.cuda.mem_get_info(card)[0] for card in {*self._cards})
        return int(_CACHE_SHARE * free), host_room() // 2

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        self.kernel()
        if ids:
            self.append(kv, ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self.kernel()
        return CudaDecode(self, own_kv(kv, self._device), ids, plan)

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        self.kernel()
        out = self.append(kv, ids, logits="all")
        assert out is not None
        values: npt.NDArray[np.float32] = out.cpu().numpy()
        return values

    def close(self) -> None:
        self._kernel = None

    def kernel(self) -> Monokernel:
        """The resident kernel; EngineClosedError after close."""
        if self._kernel is None:
            raise EngineClosedError("this backend is closed. Load the engine again.")
        return self._kernel

    def append(self, kv: KV, ids: Sequence[int], *, logits: Wanted = "none") -> torch.Tensor | None:
        """Prefill: append ids to the cache. logits as in `Prefill.run`."""
        own = own_kv(kv, self._device)
        check_pending(own, ids, self._spec.vocab_size)
        own.gather()
        out = self._prefill.run(own.store, own.length, ids, logits=logits)
        own.scatter(len(ids))
        own.advance(len(ids))
        return out

    def greedy(self, kv: KV, ids: Sequence[int], legal_ids: int) -> tuple[int, float] | None:
        """Prefill, and the id with the largest logit, with its logprob; None where logits are not finite."""
        own = own_kv(kv, self._device)
        check_pending(own, ids, self._spec.vocab_size)
        legal = min(legal_ids or self._spec.vocab_size, self._spec.vocab_size)
        own.gather()
        found = self._prefill.greedy(own.store, own.length, ids, legal)
        own.scatter(len(ids))
        own.advance(len(ids))
        return found

    @property
    def last_logits(self) -> npt.NDArray[np.float32]:
        """Logits [V] of the last `greedy` or `append` that wanted them."""
        values: npt.NDArray[np.float32] = self._prefill.logits.cpu().numpy()
        return values


class CudaDecode:
    """One segment, resident; guided by the host where only it can match the grammar."""

    resident = True

    def __init__(self, backend: CudaBackend, kv: TensorKV, ids: Sequence[int], plan: DecodePlan) -> None:
        self._backend, self._kv, self._plan = backend, kv, plan
        self._progress = Progress(kv, ids, plan, backend.spec.vocab_size)
        self._grammar: DeviceGrammar | None = None  # of the launch, where the device matches it
        self._guided = False
        self._led = False  # the next choice is no choice: it leads a forced run
        self._stop = threading.Event()
        self._prefill_s = self._sampled_s = self._forced_s = 0.0
        self._steps = 0
        self._launched = self._first = self._is_prompt = False
        self._began = 0.0

    @property
    def reason(self) -> FinishReason | None:
        return self._progress.reason

    @property
    def stats(self) -> DecodeStats:
        return DecodeStats(self._prefill_s, self._sampled_s, self._forced_s, self._steps)

    def stop(self) -> None:
        self._stop.set()
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
            ahead = self._grammar is not None and self._grammar.look_ahead()
            time.sleep(0 if ahead else _POLL_S)

    # ── a launch ──

    def _start(self) -> bool:
        """Launch what is pending, unless the segment has ended or ends here."""
        progress = self._progress
        if progress.reason is None and self._stop.is_set():
            progress.reason = "cancelled"
        if progress.reason is None and not self._first:
            self._first = True
            progress.take_forced()  # a run that opens the segment shares the first pass with the prompt
        if progress.reason is not None:
            return False
        matcher = self._plan.matcher
        self._began = time.perf_counter()
        self._is_prompt = self._steps == 0 and len(progress.pending) - progress.forced_pending > 1
        if len(progress.pending) > FEED_ROWS and self._plan.sampling.temperature == 0.0:
            mask = None if matcher is None else np.ascontiguousarray(matcher.mask(), dtype=np.uint32)
            self._draw_by_prefill(mask)
            return False
        self._launch()
        if self._stop.is_set():
            self._backend.kernel().stop()
        return True

    def _draw_by_prefill(self, mask: npt.NDArray[np.uint32] | None) -> None:
        """The largest logit behind a long prompt: pre-fill finds it at once. Drawing would cost the host more
        than a pass of the kernel."""
        kv, progress, plan = self._kv, self._progress, self._plan
        found = None
        if mask is None and plan.sampling.repetition_penalty == 1.0:
            found = self._backend.greedy(kv, progress.pending, plan.legal_ids)
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
            self._backend.append(kv, ids[:-1])
            ended = _queue_end()
            ids = progress.pending = ids[-1:]
        matcher, memory = plan.matcher, None
        if matcher is not None and plan.force:
            memory = self._backend.grammars.find(matcher)
        self._grammar, self._guided = None, matcher is not None and memory is None
        place = None
        if memory is not None:
            assert isinstance(matcher, Matcher)
            self._grammar = memory.grammar
            self._grammar.turn_to(matcher)
            while ended is not None and not ended() and self._grammar.look_ahead():
                time.sleep(0)
            place = memory.place(matcher)
        if ended is not None:
            _synchronize()
        self._backend.kernel().launch(
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
        if self._guided:
            self._guide()

    def _guide(self) -> None:
        """Say what the next choice may be. Its pass has begun: a forced run's first id is the choice."""
        matcher, kernel = self._plan.matcher, self._backend.kernel()
        assert matcher is not None
        if matcher.finished:
            kernel.answer(ILLEGAL)  # ends the segment
            return
        ids, last = _forced(matcher.fork()) if self._plan.force else ([], False)
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
        elif self._grammar is not None:
            assert isinstance(matcher, Matcher)
            if reason is Reason.ASKED:
                ids, last = _forced(matcher.fork())
                self._backend.kernel().answer(ANSWER_RUN if ids else FREE, ids, last=last)
                self._grammar.learn(matcher)
            self._grammar.turn_to(matcher)

    def _passed(self, *, in_cache: bool = False) -> None:
        """The pending ids have passed, and one more was drawn. in_cache: the cache counts them already."""
        now, progress = time.perf_counter(), self._progress
        elapsed, self._began = now - self._began, now
        forced = progress.forced_pending
        if self._is_prompt:
            self._is_prompt = False
            self._prefill_s += elapsed
        else:
            self._forced_s += elapsed * forced / (forced + 1)
            self._sampled_s += elapsed / (forced + 1)
        self._steps += 1
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
        at = self._rows
        if token.reason is Reason.NOT_A_NUMBER:
            raise ModelError(
                f"the logits at position {at} are NaN or infinite. The weights hold NaN or overflow: "
                "check the checkpoint, or load it with dtype='bfloat16'."
            )
        raise ModelError(f"no id is legal at position {at}: the grammar or legal_ids allow nothing here")


def _forced(walk: TokenMatcher) -> tuple[list[int], bool]:
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


def _synchronize() -> None:
    torch.cuda.current_stream().synchronize()


def _queue_end() -> Callable[[], bool]:
    """Asks whether what is queued on the device now has ended."""
    event: Any = torch.cuda.Event(enable_timing=False)  # type: ignore[no-untyped-call]
    event.record()
    ended: Callable[[], bool] = event.query
    return ended


def _pinned(size: int) -> Bytes:
    """Zeroed memory that the device reads too."""
    return torch.zeros(size, dtype=torch.uint8, pin_memory=True).numpy()


def _to_half(name: str, tensor: torch.Tensor, kind: torch.dtype, device: torch.device) -> torch.Tensor:
    half = tensor.detach().to(device).to(kind).contiguous()
    if not bool(torch.isfinite(half).all()) and bool(torch.isfinite(tensor).all()):
        raise ConfigError(f"tensor {name!r} has weights beyond FP16's range. Load with dtype='bfloat16'.")
    return half
