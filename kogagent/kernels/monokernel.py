"""One model resident on one card: buffers, launch, token ring, stop, watchdog. Token ids only.

Knows CuPy and torch memory, the layout of pack.py and the words of csrc/hostlink.cuh; no sampling policy, no
grammar, no prefill. A segment is one launch, or where several ids may share a pass, launches of two widths
that are queued ahead and hand the segment to each other on the device (csrc/params.cuh, Relay).
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kogagent.errors import DeviceError, MissingExtraError
from kogagent.kernels.answers import Answers
from kogagent.kernels.build import build
from kogagent.kernels.pack import PHASES, Layout, by_kv_head, half_type, kind_of, pack
from kogagent.kernels.params import GRAMMAR, PARAMS, RELAY
from kogagent.spec import ModelSpec

if TYPE_CHECKING:
    import torch

THREADS = 384
PROFILE_SLOTS = 24  # of csrc/exchange.cuh
AHEAD = 4  # launches queued, the one that runs included; more cost time at the end, fewer may run dry
_INPUTS = (
    "the stream",
    "attention from its splits",
    "the stream",
    "hidden values",
    "the head's input, candidates or the host's answer",
)
"""What a block waits for at the start of each kind of phase, unless it is weights or late landings."""


class Reason(enum.IntEnum):
    """Why a segment ended, as the kernel writes it; after RUNNING and ASKED it goes on."""

    RUNNING = 0
    STOP = 1
    LENGTH = 2
    CONTEXT = 3
    CANCELLED = 4
    NOT_A_NUMBER = 5
    NO_LEGAL_ID = 6
    FED = 7
    COMPLETE = 8
    ASKED = 9


@dataclass(frozen=True, slots=True)
class Token:
    """One word pair of the ring.

    id means nothing where reason is CANCELLED, NOT_A_NUMBER, NO_LEGAL_ID or FED.
    forced: it belongs to a run the grammar left no choice about, and was not sampled.
    """

    id: int
    logprob: float
    reason: Reason
    forced: bool = False


@dataclass(frozen=True, slots=True)
class GrammarPlace:
    """A grammar on the device and where in it a segment begins.

    tables: one record of params.GRAMMAR, its addresses valid until the segment has ended. start: one of
    params.RELAY, of which state and frames are read.
    """

    tables: npt.NDArray[np.void]
    start: npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Segment:
    """What one segment does: feed the pending ids, then sample. Fields as in the kernel's Params.

    want_head False: feed only. guided: the host says before each choice what is legal, see `answer`.
    mask: device tensor of bits or None. seen: whether the penalty needs history.
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
    grammar: GrammarPlace | None = None
    guided: bool = False


class _Program:
    """The kernel compiled for one width: its code, its exchange buffers, its parameters."""

    def __init__(self, layout: Layout, device: torch.device, half: torch.dtype, profile: bool) -> None:
        import cupy
        import torch

        self.layout = layout
        spec, width, lanes, heads = layout.spec, layout.width, layout.lanes, layout.heads
        major, minor = torch.cuda.get_device_capability(device)
        switches = {"KOGAGENT_PROFILE": profile, "KOGAGENT_BF16": half is torch.bfloat16}
        defines = tuple(name for name, on in switches.items() if on)
        made = build("monokernel.cu", major * 10 + minor, defines, model=layout.model_source())
        self._module = cupy.RawModule(path=str(made.path), enable_cooperative_groups=True)
        self._functions = {name: self._module.get_function(name) for name in ("decode", "stream_only")}
        for function in self._functions.values():
            function.max_dynamic_shared_size_bytes = layout.shared_bytes
        self._copy = cupy.cuda.runtime.memcpyAsync
        self._symbol: int = self._module.get_global("p").ptr

        def words(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.exchange = {
            "xbuf": words(2, lanes, width, spec.dim // 2),
            "qbuf": words(lanes, width, layout.qkv_rows),
            "pbuf": words(lanes, width, heads * spec.head_dim // 2, layout.splits),
            "sbuf": words(lanes * width * heads * layout.splits + 2),
            "abuf": words(lanes, width, heads * spec.head_dim // 2),
            "hbuf": words(lanes, width, layout.ffn // 2),
            "obuf": words(2, 2 * spec.n_layers, lanes, width, spec.dim),
            "f1": words(lanes, spec.dim),
            "f2": words(spec.dim // 2),
            "cand": words(2, layout.blocks, 6),
            "hist": words(2, layout.blocks, 16),
        }
        self.counters = words(layout.blocks, PROFILE_SLOTS)
        self._pinned = torch.zeros(PARAMS.itemsize, dtype=torch.uint8, pin_memory=True)
        self.params: npt.NDArray[np.void] = self._pinned.numpy().view(PARAMS)
        self._fill(profile)

    def _fill(self, profile: bool) -> None:
        p, layout = self.params, self.layout
        for name, tensor in self.exchange.items():
            p[name] = tensor.data_ptr()
        p["profile"] = self.counters.data_ptr() if profile else 0
        p["tape_stride"], p["stages"] = layout.tape_bytes, layout.stages
        for i, shape in enumerate(layout.shapes):
            for field in ("tiles", "part_tiles", "parts", "per_stage", "warps"):
                p["shape"][field][0, i] = getattr(shape, field)

    def send_params(self, stream: int) -> None:
        self._copy(self._symbol, self._pinned.data_ptr(), PARAMS.itemsize, 1, stream)

    def start(self, name: str) -> None:
        """Queue one launch on CuPy's current stream."""
        layout = self.layout
        self._functions[name]((layout.blocks,), (THREADS,), (), shared_mem=layout.shared_bytes)


class Monokernel:
    """A model packed and resident on the current CUDA device.

    layout: of the program that decodes. wide: the same model's layout of a greater width, or None; its
    program feeds several ids in a pass and takes turns with the other, launch after launch, without the host.
    tensors: canonical names, in halves, on the device. steps: STEP records of the lane table. One segment
    at a time.
    deadline_s: how long any wait inside the kernel may take before the segment ends with an error.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        wide: Layout | None = None,
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
        spec = layout.spec
        device = tensors["embed"].device
        self._torch, self._cupy, self._device = torch, cupy, device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._cupy_stream = cupy.cuda.Stream.from_external(self._stream)
        self._tape = pack(layout, tensors)
        schedule = layout.schedule.astype(np.int64)
        self._tensors: dict[str, torch.Tensor] = {
            "tape": self._tape,
            "schedule": torch.from_numpy(schedule).to(torch.int32).to(device).contiguous(),
            "embed": tensors["embed"].to(half_type(tensors)).contiguous(),
            "rope": rope_table(spec).to(device),
            "steps": torch.from_numpy(steps.view(np.uint8).copy()).to(device),
            "seen": torch.zeros(spec.vocab_size, dtype=torch.uint8, device=device),
            "mask": torch.zeros(-(-spec.vocab_size // 32), dtype=torch.int32, device=device),
            "stop_ids": torch.zeros(spec.vocab_size, dtype=torch.int32, device=device),
            "pending": torch.zeros(max(max_pending, 1), dtype=torch.int32, device=device),
            "dead": torch.zeros(1, dtype=torch.int32, device=device),
            "logits_out": torch.zeros(spec.vocab_size, dtype=torch.float32, device=device),
            "relay": torch.zeros(RELAY.itemsize, dtype=torch.uint8, device=device),
        }
        if spec.qkv_bias:
            self._tensors["bias"] = bias_rows(layout, tensors)
        if spec.qk_norm:
            self._tensors["qk_norm"] = qk_norm_rows(spec, tensors)
        # Pinned memory is mapped: the same address on both sides.
        self._ring = torch.zeros((spec.context + 2, 2), dtype=torch.int64, pin_memory=True)
        self._status = torch.zeros(16, dtype=torch.int32, pin_memory=True)
        self._abort = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._answers = Answers(spec.vocab_size)
        self._host_relay = torch.zeros(RELAY.itemsize, dtype=torch.uint8, pin_memory=True)
        self._ring_words: npt.NDArray[np.uint64] = self._ring.numpy().view(np.uint64)
        self._status_words: npt.NDArray[np.uint32] = self._status.numpy().view(np.uint32)
        self._abort_word: npt.NDArray[np.uint32] = self._abort.numpy().view(np.uint32)
        self._relay: npt.NDArray[np.void] = self._host_relay.numpy().view(RELAY)
        self._max_pending = max_pending
        self._epoch, self._tag, self._read = 0, 1, 0
        self._running = False
        self._order: Iterator[_Program] = iter(())  # the launches still to be queued
        self._flying: deque[Any] = deque()  # an event behind each launch that may not have ended
        self._last: Any = None
        self._starved_at = -1
        self._narrow = _Program(layout, device, half_type(tensors), profile)
        self._wide = None if wide is None else _Program(wide, device, half_type(tensors), profile)
        if wide is not None and (wide.shapes, wide.tape_bytes) != (layout.shapes, layout.tape_bytes):
            raise DeviceError("the layouts of the two widths cut the model differently")
        for program in self._programs():
            self._share(program.params, deadline_s)
        torch.cuda.synchronize(device)

    def _programs(self) -> list[_Program]:
        return [self._narrow] if self._wide is None else [self._narrow, self._wide]

    def _share(self, p: npt.NDArray[np.void], deadline_s: float) -> None:
        for name, tensor in self._tensors.items():
            p[name] = tensor.data_ptr()
        p["mask"] = p["logits_out"] = 0
        p["token_ring"], p["status"] = self._ring.data_ptr(), self._status.data_ptr()
        p["abort_word"], p["deadline_ns"] = self._abort.data_ptr(), int(deadline_s * 1e9)
        p["answer"] = self._answers.address

    @property
    def rope(self) -> torch.Tensor:
        """`rope_table` of the model, on the device."""
        return self._tensors["rope"]

    @property
    def busy(self) -> bool:
        return self._running

    @property
    def width(self) -> int:
        """Pending ids that share one pass."""
        return (self._wide or self._narrow).layout.width

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
        t = self._tensors
        passes = len(segment.pending) + segment.max_tokens + 1
        stride = 2 * self.spec.n_layers + 64
        if self._tag + passes * stride >= 1 << 32:  # tags would repeat: forget the old ones
            for program in self._programs():
                for words in program.exchange.values():
                    words.zero_()
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
                bits = torch.from_numpy(np.array(segment.mask, np.uint32).view(np.int32))
                t["mask"].zero_()
                t["mask"][: min(bits.numel(), t["mask"].numel())].copy_(bits[: t["mask"].numel()])
            relay = self._relay
            relay[:] = np.zeros(1, RELAY) if segment.grammar is None else segment.grammar.start
            relay["position"], relay["pending"] = segment.position, len(segment.pending)
            relay["token"], relay["run"] = -1, -1
            t["relay"].copy_(self._host_relay, non_blocking=True)
            self._order = self._launches(segment)
            for program in self._programs():
                self._describe(program.params, segment, kv, logits)
                program.send_params(self._stream.cuda_stream)
            self._tag += passes * stride
            self._read, self._running, self._starved_at = 0, True, -1
        self._top_up()

    def _describe(self, p: npt.NDArray[np.void], segment: Segment, kv: torch.Tensor, logits: bool) -> None:
        t = self._tensors
        p["mask"] = t["mask"].data_ptr() if segment.mask is not None else 0
        p["logits_out"] = t["logits_out"].data_ptr() if logits else 0
        p["kv"], p["capacity"] = kv.data_ptr(), kv.shape[3]
        p["n_stop"], p["max_tokens"] = len(segment.stop_ids), segment.max_tokens
        p["want_head"], p["guided"] = segment.want_head, segment.guided
        p["legal_ids"] = min(segment.legal_ids or self.spec.vocab_size, self.spec.vocab_size)
        p["tag_base"], p["epoch"], p["seed"] = self._tag, self._epoch, segment.seed
        p["temperature"], p["top_k"] = segment.temperature, segment.top_k
        p["top_p"], p["min_p"], p["penalty"] = segment.top_p, segment.min_p, segment.penalty
        p["grammar"] = np.zeros(1, GRAMMAR) if segment.grammar is None else segment.grammar.tables

    def _launches(self, segment: Segment) -> Iterator[_Program]:
        """Which programs to queue, in order. A launch that finds nothing for its width ends at once."""
        narrow, wide = self._narrow, self._wide
        several = len(segment.pending) > 1
        runs = segment.grammar is not None or segment.guided
        if wide is None or not (several or runs):
            narrow.params["hand_over"] = 0
            return iter((narrow,))
        narrow.params["hand_over"], wide.params["hand_over"] = 1, 2
        if not segment.want_head:
            return iter((wide if several else narrow,))
        both = (wide, narrow) if several else (narrow, wide)
        return cycle(both) if runs else iter(both)

    def _top_up(self) -> None:
        """Keep launches queued behind the one that runs, so that a hand-over never waits for the host."""
        torch = self._torch
        while self._flying and self._flying[0].query():
            self._flying.popleft()
        queued = False
        with torch.cuda.stream(self._stream), self._cupy_stream:
            while len(self._flying) < AHEAD:
                program = next(self._order, None)
                if program is None:
                    break
                program.start("decode")
                event: Any = torch.cuda.Event(enable_timing=False)
                event.record(self._stream)
                self._flying.append(event)
                self._last, queued = event, True
        if queued:
            torch.cuda.current_stream(self._device).wait_event(self._last)

    def _put(self, name: str, ids: Sequence[int]) -> None:
        if len(ids):
            values = self._torch.tensor(list(ids), dtype=self._torch.int32)
            self._tensors[name][: len(ids)].copy_(values)

    def stream_only(self, passes: int) -> float:
        """Seconds to stream every tape once through the ring, with no product and no exchange."""
        torch, program = self._torch, self._narrow
        program.params["want_head"], program.params["max_tokens"] = 1, passes
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream), self._cupy_stream:
            program.send_params(self._stream.cuda_stream)
            start.record()
            program.start("stream_only")
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
            token = Token(word & 0x7FFFFF, logprob, Reason(word >> 24), bool(word >> 23 & 1))
            out.append(token)
            self._read += 1
            if token.reason not in (Reason.RUNNING, Reason.ASKED):
                self._finish()
        if self._running:
            self._look_after()
        return out

    def answer(
        self, verdict: int, ids: Sequence[int] = (), *, last: bool = False, mask: npt.ArrayLike | None = None
    ) -> None:
        """Say what holds for the id behind those that `drain` has given: see `Answers.say`."""
        self._answers.say(self._epoch, self._read, verdict, ids, last=last, mask=mask)

    def _look_after(self) -> None:
        """Queue what is missing; find out when the kernel has died."""
        try:
            self._top_up_or_end()
        except RuntimeError as error:  # the driver's own report of a fault on the device
            self._running = False
            raise DeviceError(f"the kernel died: {error}. Restart the process.") from error

    def _top_up_or_end(self) -> None:
        ended = self._last.query()
        if not ended:
            self._top_up()
            return
        if int(self._ring_words[self._read, 0]) >> 32 == self._epoch:
            return  # a token came between the two looks
        if int(self._status_words[9]) != self._epoch and self._starved_at != self._read:
            self._starved_at = self._read  # every launch has ended with a hand-over: the host was late
            self._top_up()
            if not self._last.query():
                return
        if int(self._ring_words[self._read, 0]) >> 32 != self._epoch:
            self._running = False
            self._fail()

    def _finish(self) -> None:
        self._running = False
        try:
            self._last.synchronize()
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
        """Cycles [blocks, PROFILE_SLOTS] by phase, thread 0 of each block, of the last launch for one row."""
        out: npt.NDArray[np.int64] = self._narrow.counters.cpu().numpy()
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
