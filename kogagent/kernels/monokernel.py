"""One model resident on one card: buffers, launch, token ring, stop, watchdog. Token ids only.

Knows CuPy and torch memory, the layout of pack.py and the words of csrc/hostlink.cuh; no sampling policy, no
grammar, no prefill.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kogagent.errors import DeviceError, MissingExtraError
from kogagent.kernels.build import build
from kogagent.kernels.pack import PHASES, Layout, by_kv_head, kind_of, pack
from kogagent.kernels.params import PARAMS
from kogagent.spec import ModelSpec

if TYPE_CHECKING:
    import torch

THREADS = 384
PROFILE_SLOTS = 24  # of csrc/exchange.cuh
_INPUTS = (
    "the stream",
    "attention from its splits",
    "the stream",
    "hidden values",
    "the head's input or candidates",
)
"""What a block waits for at the start of each kind of phase, unless it is weights or late landings."""


class Reason(enum.IntEnum):
    """Why a segment ended, as the kernel writes it."""

    RUNNING = 0
    STOP = 1
    LENGTH = 2
    CONTEXT = 3
    CANCELLED = 4
    NOT_A_NUMBER = 5
    NO_LEGAL_ID = 6
    FED = 7


@dataclass(frozen=True, slots=True)
class Token:
    """One word pair of the ring. id is meaningless once reason is CANCELLED or later."""

    id: int
    logprob: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class Segment:
    """What one launch does: feed the pending ids, then sample. Fields as in the kernel's Params.

    want_head False: feed only. mask: device tensor of bits or None. seen: whether the penalty needs history.
    """

    pending: Sequence[int]
    position: int
    max_tokens: int = 1
    stop_ids: Sequence[int] = ()
    legal_ids: int = 0
    seed: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    history: Sequence[int] = ()
    mask: npt.NDArray[np.uint32] | None = None
    want_head: bool = True


class Monokernel:
    """A model packed and resident on the current CUDA device.

    tensors: canonical names, FP16 on the device. steps: STEP records of the lane table. One segment at a
    time.
    deadline_s: how long any wait inside the kernel may take before the segment ends with an error.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        max_pending: int = 64,
        deadline_s: float = 4.0,
        profile: bool = False,
    ) -> None:
        import torch

        try:
            import cupy
        except ImportError as error:
            raise MissingExtraError("the cuda backend", "cupy", "cuda") from error
        self.layout, self.spec = layout, layout.spec
        spec, width, lanes = layout.spec, layout.width, layout.lanes
        device = tensors["embed"].device
        self._torch, self._cupy, self._device = torch, cupy, device
        major, minor = torch.cuda.get_device_capability(device)
        defines = ("KOGAGENT_PROFILE",) if profile else ()
        made = build("monokernel.cu", major * 10 + minor, defines, model=layout.model_source())
        self._module = cupy.RawModule(path=str(made.path), enable_cooperative_groups=True)
        self._kernel = self._module.get_function("decode")
        self._kernel.max_dynamic_shared_size_bytes = layout.shared_bytes
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._cupy_stream = cupy.cuda.Stream.from_external(self._stream)

        def words(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        n, dim, heads = spec.n_layers, spec.dim, layout.heads
        self._tape = pack(layout, tensors)
        self._tensors: dict[str, torch.Tensor] = {
            "tape": self._tape,
            "schedule": torch.from_numpy(layout.schedule.astype(np.int64))
            .to(torch.int32)
            .to(device)
            .contiguous(),
            "embed": tensors["embed"].half().contiguous(),
            "rope": rope_table(spec).to(device),
            "steps": torch.from_numpy(steps.view(np.uint8).copy()).to(device),
            "xbuf": words(2, lanes, width, dim // 2),
            "qbuf": words(lanes, width, layout.qkv_rows),
            "pbuf": words(lanes, width, heads * spec.head_dim // 2, layout.splits),
            "sbuf": words(lanes * width * heads * layout.splits + 2),
            "abuf": words(lanes, width, heads * spec.head_dim // 2),
            "hbuf": words(lanes, width, layout.ffn // 2),
            "obuf": words(2, 2 * n, lanes, width, dim),
            "f1": words(lanes, dim),
            "f2": words(dim // 2),
            "cand": words(2, layout.blocks, 6),
            "hist": words(2, layout.blocks, 16),
            "seen": torch.zeros(spec.vocab_size, dtype=torch.uint8, device=device),
            "mask": torch.zeros(-(-spec.vocab_size // 32), dtype=torch.int32, device=device),
            "stop_ids": torch.zeros(spec.vocab_size, dtype=torch.int32, device=device),
            "pending": torch.zeros(max(max_pending, 1), dtype=torch.int32, device=device),
            "dead": torch.zeros(1, dtype=torch.int32, device=device),
            "logits_out": torch.zeros(spec.vocab_size, dtype=torch.float32, device=device),
            "profile": words(layout.blocks, PROFILE_SLOTS),
        }
        if spec.qkv_bias:
            self._tensors["bias"] = bias_rows(layout, tensors)
        if spec.qk_norm:
            self._tensors["qk_norm"] = qk_norm_rows(spec, tensors)
        # Pinned memory is mapped: the same address on both sides.
        self._ring = torch.zeros((spec.context + 2, 2), dtype=torch.int64, pin_memory=True)
        self._status = torch.zeros(16, dtype=torch.int32, pin_memory=True)
        self._abort = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._host_params = torch.zeros(PARAMS.itemsize, dtype=torch.uint8, pin_memory=True)
        self._ring_words: npt.NDArray[np.uint64] = self._ring.numpy().view(np.uint64)
        self._status_words: npt.NDArray[np.uint32] = self._status.numpy().view(np.uint32)
        self._abort_word: npt.NDArray[np.uint32] = self._abort.numpy().view(np.uint32)
        self._params: npt.NDArray[np.void] = self._host_params.numpy().view(PARAMS)
        self._done: Any = torch.cuda.Event(enable_timing=False)  # type: ignore[no-untyped-call]
        self._max_pending = max_pending
        self._epoch, self._tag, self._read = 0, 1, 0
        self._running = False
        self._fill(deadline_s, profile)
        torch.cuda.synchronize(device)

    def _fill(self, deadline_s: float, profile: bool) -> None:
        layout, p = self.layout, self._params
        for name, tensor in self._tensors.items():
            p[name] = tensor.data_ptr()
        p["mask"] = p["logits_out"] = 0
        if not profile:
            p["profile"] = 0
        p["token_ring"], p["status"] = self._ring.data_ptr(), self._status.data_ptr()
        p["abort_word"] = self._abort.data_ptr()
        p["tape_stride"], p["deadline_ns"] = layout.tape_bytes, int(deadline_s * 1e9)
        p["stages"] = layout.stages
        for i, shape in enumerate(layout.shapes):
            for field in ("tiles", "part_tiles", "parts", "per_stage", "warps"):
                p["shape"][field][0, i] = getattr(shape, field)

    @property
    def rope(self) -> torch.Tensor:
        """`rope_table` of the model, on the device."""
        return self._tensors["rope"]

    @property
    def busy(self) -> bool:
        return self._running

    def launch(self, segment: Segment, kv: torch.Tensor, *, logits: bool = False) -> None:
        """Start a segment. kv [N, 2, K, capacity, h] FP16 of the sequence. Never blocks.

        logits: also keep the logits of the last row, see `logits`.
        """
        torch = self._torch
        if self._running:
            raise DeviceError("a segment is still running on this card. Wait for its end first.")
        if not 0 < len(segment.pending) <= self._max_pending:
            raise DeviceError(
                f"{len(segment.pending)} pending ids: the kernel feeds 1 .. {self._max_pending}"
            )
        p, t = self._params, self._tensors
        passes = len(segment.pending) + segment.max_tokens + 1
        stride = 2 * self.spec.n_layers + 64
        if self._tag + passes * stride >= 1 << 32:  # tags would repeat: forget the old ones
            for name in ("xbuf", "qbuf", "pbuf", "sbuf", "abuf", "hbuf", "obuf", "f1", "f2", "cand", "hist"):
                t[name].zero_()
            self._tag = 1
        self._epoch = self._epoch % 0xFFFFFFFF + 1
        with torch.cuda.stream(self._stream):
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            self._put("pending", segment.pending)
            self._put("stop_ids", segment.stop_ids)
            if segment.penalty != 1.0:
                t["seen"].zero_()
                ids = torch.tensor([*segment.history, *segment.pending], device=self._device)
                t["seen"][ids] = 1
            if segment.mask is not None:
                bits = torch.from_numpy(segment.mask.view(np.int32))
                t["mask"].zero_()
                t["mask"][: min(bits.numel(), t["mask"].numel())].copy_(bits[: t["mask"].numel()])
            p["mask"] = t["mask"].data_ptr() if segment.mask is not None else 0
            p["logits_out"] = t["logits_out"].data_ptr() if logits else 0
            p["kv"], p["capacity"] = kv.data_ptr(), kv.shape[3]
            p["n_stop"], p["n_pending"] = len(segment.stop_ids), len(segment.pending)
            p["position"], p["max_tokens"] = segment.position, segment.max_tokens
            p["want_head"] = segment.want_head
            p["legal_ids"] = min(segment.legal_ids or self.spec.vocab_size, self.spec.vocab_size)
            p["tag_base"], p["epoch"], p["seed"] = self._tag, self._epoch, segment.seed
            p["temperature"], p["top_k"] = segment.temperature, segment.top_k
            p["top_p"], p["min_p"], p["penalty"] = segment.top_p, segment.min_p, segment.penalty
            self._tag += passes * stride
            self._read = 0
            self._running = True
            runtime = self._cupy.cuda.runtime
            to = self._module.get_global("p")
            runtime.memcpyAsync(
                to.ptr, self._host_params.data_ptr(), PARAMS.itemsize, 1, self._stream.cuda_stream
            )
            with self._cupy_stream:
                self._kernel((self.layout.blocks,), (THREADS,), (), shared_mem=self.layout.shared_bytes)
            self._done.record(self._stream)
        torch.cuda.current_stream(self._device).wait_event(self._done)

    def _put(self, name: str, ids: Sequence[int]) -> None:
        if len(ids):
            values = self._torch.tensor(list(ids), dtype=self._torch.int32)
            self._tensors[name][: len(ids)].copy_(values)

    def stream_only(self, passes: int) -> float:
        """Seconds to stream every tape once through the ring, with no product and no exchange."""
        torch = self._torch
        kernel = self._module.get_function("stream_only")
        kernel.max_dynamic_shared_size_bytes = self.layout.shared_bytes
        self._params["n_pending"], self._params["want_head"], self._params["max_tokens"] = 1, 1, passes
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream), self._cupy_stream:
            to = self._module.get_global("p").ptr
            size, stream = PARAMS.itemsize, self._stream.cuda_stream
            self._cupy.cuda.runtime.memcpyAsync(to, self._host_params.data_ptr(), size, 1, stream)
            start.record()
            kernel((self.layout.blocks,), (THREADS,), (), shared_mem=self.layout.shared_bytes)
            end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / passes

    def drain(self) -> list[Token]:
        """Tokens that have arrived since the last call. Never blocks. DeviceError when the kernel died."""
        out: list[Token] = []
        while self._running:
            first, second = int(self._ring_words[self._read, 0]), int(self._ring_words[self._read, 1])
            if first >> 32 != self._epoch or second >> 32 != self._epoch:
                break
            word = first & 0xFFFFFFFF
            logprob = float(np.uint32(second & 0xFFFFFFFF).view(np.float32))
            token = Token(word & 0xFFFFFF, logprob, Reason(word >> 24))
            out.append(token)
            self._read += 1
            if token.reason is not Reason.RUNNING:
                self._finish()
        if self._running and not out and self._ended():
            first = int(self._ring_words[self._read, 0])
            if first >> 32 != self._epoch:  # else the token came between the two looks
                self._running = False
                self._fail()
        return out

    def _ended(self) -> bool:
        try:
            return bool(self._done.query())
        except RuntimeError as error:  # the driver's own report of a fault on the device
            self._running = False
            raise DeviceError(f"the kernel died: {error}. Restart the process.") from error

    def _finish(self) -> None:
        self._running = False
        try:
            self._done.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"the kernel died: {error}. Restart the process.") from error

    def _fail(self) -> None:
        status = self._status_words
        if int(status[9]) == self._epoch:
            passes, phase = divmod(int(status[3]), 4 * self.spec.n_layers + 1)
            kind = kind_of(phase, self.spec)
            raise DeviceError(
                f"the kernel missed its deadline: block {status[2]} stood in pass {passes}, "
                f"layer {phase // 4}, phase {PHASES[kind]}, waiting for {_INPUTS[kind]}. "
                "Load the engine again."
            )
        raise DeviceError("the kernel ended without a last token. Load the engine again.")

    def stop(self) -> None:
        """Ask for an end at the next token. Idempotent; from any thread."""
        self._abort_word[0] = self._epoch

    def logits(self) -> npt.NDArray[np.float32]:
        """Logits [V] of the last segment's last row, when it was launched with logits=True."""
        out: npt.NDArray[np.float32] = self._tensors["logits_out"].cpu().numpy()
        return out

    def profile(self) -> npt.NDArray[np.int64]:
        """Cycles [blocks, PROFILE_SLOTS] of the last segment by phase, thread 0 of each block."""
        out: npt.NDArray[np.int64] = self._tensors["profile"].cpu().numpy()
        return out


def rope_table(spec: ModelSpec) -> torch.Tensor:
    """Cosine and sine of every position and pair [context, h/2, 2], FP32."""
    import torch

    angles = torch.outer(
        torch.arange(spec.context, dtype=torch.float64),
        torch.tensor(spec.rope_frequencies(), dtype=torch.float64),
    )
    return torch.stack([angles.cos(), angles.sin()], -1).float().contiguous()


def bias_rows(layout: Layout, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Biases of q, k and v [N, lanes, R] FP32 in the kernel's order of rows."""
    import torch

    rows = []
    for i in range(layout.spec.n_layers):
        q, k, v = (
            tensors[f"layers.{i}.{name}"].float().reshape(layout.lanes, -1) for name in ("bq", "bk", "bv")
        )
        rows += [by_kv_head(layout, q[lane], k[lane], v[lane]) for lane in range(layout.lanes)]
    return torch.stack(rows).view(layout.spec.n_layers, layout.lanes, -1)


def qk_norm_rows(spec: ModelSpec, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Norm weights of q and k [N, 2, h] FP32."""
    import torch

    pairs = [
        torch.stack([tensors[f"layers.{i}.{name}_norm"].float() for name in "qk"])
        for i in range(spec.n_layers)
    ]
    return torch.stack(pairs)
