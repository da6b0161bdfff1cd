"""The backend of NVIDIA GPUs: prefill by torch, decode by the resident kernel. Token ids only.

Without a grammar a segment is one launch that samples, checks stop ids and counts by itself. With one, each
pass is a launch of its own: the host's matcher gives the mask, the kernel samples under it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import KV, Decode, DecodePlan, DecodeStats, Emitted
from kogagent.engine.backends.host import check_pending
from kogagent.engine.backends.reference import check_capacity, check_rewind
from kogagent.engine.lanes import lane_table
from kogagent.engine.sampling import choose
from kogagent.engine.weights import check_tensors
from kogagent.errors import ConfigError, EngineClosedError, InputError, ModelError
from kogagent.kernels.monokernel import Monokernel, Reason, Segment, Token
from kogagent.kernels.pack import plan as plan_layout
from kogagent.kernels.params import STEP
from kogagent.kernels.prefill import BUCKETS, Prefill, Wanted
from kogagent.spec import ModelSpec
from kogagent.types import FinishReason

if TYPE_CHECKING:
    from typing import Literal

FEED_ROWS = 8
"""Pending ids up to this many go through the decode kernel, more through prefill."""

_REASONS: dict[Reason, FinishReason] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.CONTEXT: "context",
    Reason.CANCELLED: "cancelled",
}
_POLL_S = 40e-6


def kernel_steps(spec: ModelSpec) -> tuple[npt.NDArray[np.void], bool]:
    """The lane table as the kernel reads it [2N], and whether all lanes' streams are one."""
    table = lane_table(spec)
    out = np.zeros(len(table.steps), dtype=STEP)
    for row, step in zip(out, table.steps, strict=True):
        row["late"] = -1
        for landing in step.landings:
            others = 0.0 if table.one_stream else landing.others
            if landing.lag == 0:
                row["own"], row["others"] = landing.own, others
            else:
                row["late"], row["late_own"], row["late_others"] = landing.source, landing.own, others
        row["sends"] = (step.sends and not table.one_stream) or step.last_use > step.module
        row["window"] = spec.windows[step.layer]
    return out, table.one_stream


class CudaKV:
    """Keys and values of one sequence, [N, 2, K, capacity, h] FP16 on the device."""

    def __init__(self, spec: ModelSpec, capacity: int, device: torch.device) -> None:
        self._spec, self._device, self._capacity, self._length = spec, device, capacity, 0
        shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
        self._store: torch.Tensor | None = torch.empty(shape, dtype=torch.float16, device=device)

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self._length = length

    def fork(self) -> CudaKV:
        store = self.store
        other = CudaKV(self._spec, self._capacity, self._device)
        other.store[:, :, :, : self._length] = store[:, :, :, : self._length]
        other._length = self._length
        return other

    def close(self) -> None:
        self._store = None

    @property
    def store(self) -> torch.Tensor:
        """The tensor itself; EngineClosedError after close."""
        if self._store is None:
            raise EngineClosedError("this KV cache is closed. Open a new session.")
        return self._store

    def advance_to(self, length: int) -> None:
        """Say that keys and values of the first `length` ids are here."""
        self._length = length


class CudaBackend:
    """A model on the current CUDA device. dtype "auto" is float16.

    Raises ConfigError when tensors do not fit the spec, the kernel or FP16; InputError for another dtype.
    """

    prefill_chunk = BUCKETS[-1]

    def __init__(
        self,
        spec: ModelSpec,
        tensors: Mapping[str, torch.Tensor],
        dtype: Literal["auto", "float16"] = "auto",
    ) -> None:
        if dtype not in ("auto", "float16"):
            raise InputError(f"dtype={dtype!r}: the cuda backend holds float16 weights; use dtype='float16'")
        check_tensors(spec, tensors)
        self._spec = spec
        self._device = torch.device("cuda", torch.cuda.current_device())
        weights = {name: _to_half(name, tensor, self._device) for name, tensor in tensors.items()}
        steps, one_stream = kernel_steps(spec)
        card: Any = torch.cuda.get_device_properties(self._device)
        layout = plan_layout(
            spec, card.multi_processor_count, card.shared_memory_per_block_optin, one_stream=one_stream
        )
        self._kernel: Monokernel | None = Monokernel(layout, weights, steps, max_pending=FEED_ROWS)
        self._prefill = Prefill(layout, weights, steps, self._kernel.rope, capture=True)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "cuda"

    def open_kv(self, capacity: int) -> CudaKV:
        self.kernel()
        check_capacity(self._spec, capacity)
        return CudaKV(self._spec, capacity, self._device)

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        self.kernel()
        if ids:
            self.append(kv, ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self.kernel()
        return CudaDecode(self, _own(kv), ids, plan)

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
        own = _own(kv)
        store = own.store
        check_pending(own, ids, self._spec.vocab_size)
        out = self._prefill.run(store, own.length, ids, logits=logits)
        own.advance_to(own.length + len(ids))
        return out

    def greedy(self, kv: KV, ids: Sequence[int], legal_ids: int) -> tuple[int, float] | None:
        """Prefill, and the id with the largest logit, with its logprob; None where logits are not finite."""
        own = _own(kv)
        check_pending(own, ids, self._spec.vocab_size)
        legal = min(legal_ids or self._spec.vocab_size, self._spec.vocab_size)
        found = self._prefill.greedy(own.store, own.length, ids, legal)
        own.advance_to(own.length + len(ids))
        return found

    @property
    def last_logits(self) -> npt.NDArray[np.float32]:
        """Logits [V] of the last `greedy` or `append` that wanted them."""
        values: npt.NDArray[np.float32] = self._prefill.logits.cpu().numpy()
        return values


class CudaDecode:
    """One segment. Resident when no grammar asks the host between tokens."""

    def __init__(self, backend: CudaBackend, kv: CudaKV, ids: Sequence[int], plan: DecodePlan) -> None:
        store = kv.store
        check_pending(kv, ids, backend.spec.vocab_size)
        if plan.max_tokens < 1:
            raise InputError(f"max_tokens={plan.max_tokens}: must be at least 1")
        self._backend, self._kv, self._plan, self._store = backend, kv, plan, store
        self._pending = list(ids)
        self._history = [i for i in plan.history if 0 <= i < backend.spec.vocab_size]
        self._history += self._pending
        self._room = plan.max_tokens
        self._new_pending = 0
        self._out: list[Emitted] = []
        self._stop = threading.Event()
        self._reason: FinishReason | None = None
        self._prefill_s = self._sampled_s = self._forced_s = 0.0
        self._steps = 0
        self._launched = self._first = False
        self._rows = 0  # ids in the cache once the running launch has sampled its first token
        self._drawn = 0  # tokens of the running launch
        self._began = 0.0

    @property
    def resident(self) -> bool:
        return self._plan.matcher is None

    @property
    def reason(self) -> FinishReason | None:
        return self._reason

    @property
    def stats(self) -> DecodeStats:
        return DecodeStats(self._prefill_s, self._sampled_s, self._forced_s, self._steps)

    def stop(self) -> None:
        self._stop.set()
        if self._launched and self._plan.matcher is None:
            self._backend.kernel().stop()

    def drain_nowait(self) -> list[Emitted]:
        if self._launched and self._plan.matcher is None:
            self._take(self._backend.kernel().drain())
        out, self._out = self._out, []
        return out

    def wait(self, seconds: float) -> None:
        if self._reason is not None:
            return
        if self._plan.matcher is not None:
            self._step()
            return
        if not self._launched:
            if self._stop.is_set():
                self._reason = "cancelled"
                return
            if self._draws_by_prefill():
                self._first_token()
                return
            self._launch(self._room, None)
            if self._stop.is_set():
                self._backend.kernel().stop()
        kernel = self._backend.kernel()
        until = time.perf_counter() + seconds
        while True:
            self._take(kernel.drain())
            if self._out or self._reason is not None or time.perf_counter() >= until:
                return
            time.sleep(_POLL_S)

    # ── the first token of a long prompt ──

    def _draws_by_prefill(self) -> bool:
        """Whether pre-fill gives the next token too. Drawing costs the host more than a pass of the kernel;
        the largest logit it finds at once."""
        return len(self._pending) > FEED_ROWS and self._plan.sampling.temperature == 0.0

    def _draw_by_prefill(self, mask: npt.NDArray[np.uint32] | None) -> tuple[int, float]:
        """Pending ids into the cache; the id that follows them, and its logprob."""
        kv, plan = self._kv, self._plan
        if mask is None and plan.sampling.repetition_penalty == 1.0:
            found = self._backend.greedy(kv, self._pending, plan.legal_ids)
            if found is not None:
                return found
            logits = self._backend.last_logits
        else:
            rows = self._backend.append(kv, self._pending, logits="last")
            assert rows is not None
            logits = rows.cpu().numpy()
        seen = np.zeros(self._backend.spec.vocab_size, dtype=np.bool_)
        seen[self._history] = True
        return choose(logits, plan.sampling, kv.length, seen, mask, plan.legal_ids)

    def _first_token(self) -> None:
        """The first token of a resident segment, before its launch."""
        self._began = time.perf_counter()
        token, logprob = self._draw_by_prefill(None)
        self._prefill_s += time.perf_counter() - self._began
        self._steps += 1
        self._pending, self._history = [token], [*self._history, token]
        self._out.append(Emitted(token, logprob, False))
        self._room -= 1
        if token in self._plan.stop_ids:
            self._reason = "stop"
        elif self._room == 0:
            self._reason = "length"
        elif self._kv.length == self._kv.capacity:
            self._reason = "context"

    # ── a launch ──

    def _launch(self, max_tokens: int, mask: npt.NDArray[np.uint32] | None) -> None:
        """Start the kernel over the pending ids; long runs go through prefill first."""
        kv, plan, sampling = self._kv, self._plan, self._plan.sampling
        self._began = time.perf_counter()
        if len(self._pending) > FEED_ROWS:
            self._backend.append(kv, self._pending[:-1])
            torch.cuda.current_stream().synchronize()
            self._pending = self._pending[-1:]
        self._rows, self._drawn = kv.length + len(self._pending), 0
        self._backend.kernel().launch(
            Segment(
                pending=self._pending,
                position=kv.length,
                max_tokens=max_tokens,
                stop_ids=sorted(i for i in plan.stop_ids if 0 <= i < self._backend.spec.vocab_size),
                legal_ids=plan.legal_ids,
                seed=sampling.seed,
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
                min_p=sampling.min_p,
                penalty=sampling.repetition_penalty,
                history=self._history,
                mask=mask,
            ),
            self._store,
        )
        self._launched = True

    def _take(self, tokens: list[Token]) -> None:
        """Account for the tokens of a resident segment."""
        for token in tokens:
            now = time.perf_counter()
            if self._steps == 0 and self._rows - self._kv.length > 1:
                self._prefill_s += now - self._began
            else:
                self._sampled_s += now - self._began
            self._began = now
            self._refuse(token)
            if token.reason is Reason.CANCELLED:
                # The newest id has been through the model, but nothing was drawn after it: it stays pending.
                self._kv.advance_to(self._rows + self._drawn - 1)
                self._reason = "cancelled"
                return
            self._kv.advance_to(self._rows + self._drawn)
            self._drawn += 1
            self._steps += 1
            self._out.append(Emitted(token.id, token.logprob, False))
            if token.reason is not Reason.RUNNING:
                self._reason = _REASONS[token.reason]

    def _refuse(self, token: Token) -> None:
        at = self._rows + (self._drawn if self._plan.matcher is None else 0)
        if token.reason is Reason.NOT_A_NUMBER:
            raise ModelError(
                f"the logits at position {at} are NaN or infinite. The weights hold NaN or overflow in FP16: "
                "check the checkpoint, or load it with device='cpu', dtype='float32'."
            )
        if token.reason is Reason.NO_LEGAL_ID:
            raise ModelError(f"no id is legal at position {at}: the grammar or legal_ids allow nothing here")

    # ── under a grammar: one launch a pass ──

    def _step(self) -> None:
        if self._stop.is_set():
            self._reason = "cancelled"
            return
        if not self._first:
            self._first = True
            self._take_forced()
            if self._reason is not None:
                return
        matcher = self._plan.matcher
        assert matcher is not None
        forced, prompt = self._new_pending, self._steps == 0 and len(self._pending) - self._new_pending > 1
        started = time.perf_counter()
        mask = np.ascontiguousarray(matcher.mask(), dtype=np.uint32)
        if not mask.any():
            raise ModelError(f"no id is legal at position {self._kv.length}: the grammar allows nothing here")
        if self._draws_by_prefill():
            chosen, logprob = self._draw_by_prefill(mask)
        else:
            chosen, logprob = self._draw_by_kernel(mask)
        elapsed = time.perf_counter() - started
        if prompt:
            self._prefill_s += elapsed
        else:
            self._forced_s += elapsed * forced / (forced + 1)
            self._sampled_s += elapsed / (forced + 1)
        self._steps += 1
        self._pending, self._new_pending = [], 0
        self._emit(chosen, logprob, forced=False)
        if self._reason is None:
            self._take_forced()

    def _draw_by_kernel(self, mask: npt.NDArray[np.uint32]) -> tuple[int, float]:
        """The same as `_draw_by_prefill`, in one launch."""
        self._launch(1, mask)
        kernel = self._backend.kernel()
        tokens = kernel.drain()
        while not tokens:
            time.sleep(_POLL_S)
            tokens = kernel.drain()
        self._refuse(tokens[0])
        self._kv.advance_to(self._rows)
        return tokens[0].id, tokens[0].logprob

    def _take_forced(self) -> None:
        """Emit what the grammar leaves no choice about; end where it allows nothing more."""
        matcher = self._plan.matcher
        assert matcher is not None
        while self._reason is None and not matcher.finished:
            run = matcher.forced() if self._plan.force else ()
            if not run:
                return
            for token in run:
                self._emit(token, 0.0, forced=True)
                if self._reason is not None:
                    return
        if self._reason is None:
            self._reason = "grammar"

    def _emit(self, token: int, logprob: float, *, forced: bool) -> None:
        assert self._plan.matcher is not None
        self._plan.matcher.advance(token)
        self._pending.append(token)
        self._history.append(token)
        self._new_pending += forced
        self._out.append(Emitted(token, logprob, forced))
        self._room -= 1
        if token in self._plan.stop_ids:
            self._reason = "stop"
        elif self._room == 0:
            self._reason = "length"
        elif self._kv.length + len(self._pending) > self._kv.capacity:
            self._reason = "context"


def _own(kv: KV) -> CudaKV:
    if not isinstance(kv, CudaKV):
        raise InputError(f"a {type(kv).__name__} belongs to another backend; use open_kv of this one")
    return kv


def _to_half(name: str, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    half = tensor.detach().to(device).half().contiguous()
    if not bool(torch.isfinite(half).all()) and bool(torch.isfinite(tensor).all()):
        raise ConfigError(
            f"tensor {name!r} has weights beyond FP16's range. Load with device='cpu', dtype='float32'."
        )
    return half
