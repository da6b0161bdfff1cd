"""One model resident on one card or several: launch, token ring, stop, watchdog. Token ids only.

Knows the parts on the devices (rank.py) and the words of csrc/hostlink.cuh; no sampling policy, no grammar,
no prefill. A segment is one launch a device, or where several ids may share a pass, launches of two widths
that are queued ahead and hand the segment to each other on the device (csrc/params.cuh, Relay). All devices
get the same launches in the same order; the first one alone writes tokens.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kogagent.errors import DeviceError, MissingExtraError
from kogagent.kernels.answers import Answers
from kogagent.kernels.deadline import what_was_missed
from kogagent.kernels.layout import Layout
from kogagent.kernels.pack import half_type
from kogagent.kernels.params import GRAMMAR, RELAY
from kogagent.kernels.rank import STATUS_WORDS, Program, Rank, connect, connect_to_itself, enable_peers
from kogagent.kernels.segment import Reason, Segment, Token

if TYPE_CHECKING:
    import torch

NARROW, WIDE = 0, 1  # programs of a device
_BITS, _FLOAT = struct.Struct("I"), struct.Struct("f")
GRACE_S = 1.0  # for all devices to give up once one has
CARE_S = 1e-4  # between looks at the launches while no token comes: two end within a pass at most
AHEAD = 4  # launches queued, the one that runs included; more cost time at the end, fewer may run dry


class Monokernel:
    """A model packed and resident on one CUDA device or several.

    layout: of the program that decodes. wide: the same model's layout of a greater width, or None; its
    program feeds several ids in a pass and takes turns with the other, launch after launch, without the host.
    tensors: canonical names, in halves, on a device. steps: STEP records of the lane table. devices: as many
    as the layout says; a card that is named more than once carries several parts side by side, and all blocks
    of the layout must then fit on it. None: where the tensors are. One segment at a time.
    deadline_s: how long any wait inside the kernel may take before the segment ends with an error. defines:
    switches of csrc. alone: the first of the layout's devices runs by itself and hears itself as all of them;
    for measuring, its ids mean nothing. Raises DeviceError where devices cannot reach each other's memory.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        wide: Layout | None = None,
        devices: Sequence[torch.device] | None = None,
        max_pending: int = 64,
        deadline_s: float = 4.0,
        profile: bool = False,
        defines: Sequence[str] = (),
        alone: bool = False,
        link_ns: int = 0,
    ) -> None:
        import torch

        try:
            import cupy  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("the cuda backend", "cupy", "cuda") from error
        self.layout, self.spec, self._torch = layout, layout.spec, torch
        spec = layout.spec
        devices = [tensors["embed"].device] if devices is None else list(devices)
        if len(devices) != (1 if alone else layout.devices):
            raise DeviceError(f"{len(devices)} devices for a layout of {layout.devices}")
        if wide is not None and (wide.shapes, wide.tape_bytes) != (layout.shapes, layout.tape_bytes):
            raise DeviceError("the layouts of the two widths cut the model differently")
        late, own, others = (steps[name] for name in ("late", "own", "others"))
        if (not layout.lands_late and (late >= 0).any()) or (
            layout.plain and ((own != 1) | (others != 0)).any()
        ):
            raise DeviceError("the steps land outputs that the layout's kernel has no code for")
        check_side_by_side(devices)
        enable_peers([device.index or 0 for device in devices])
        half = half_type(tensors)
        switches = {
            "KOGAGENT_PROFILE": profile,
            "KOGAGENT_BF16": half is torch.bfloat16,
            "KOGAGENT_LINK": link_ns > 0,
        }
        if link_ns and layout.head_mode:
            raise DeviceError("an emulated link needs head='vocab_parallel': a stream carries no time")
        all_defines = [*(name for name, on in switches.items() if on), *defines]
        layouts = [layout] if wide is None else [layout, wide]
        self.ranks = [
            Rank(i, device, layouts, tensors, steps, max_pending=max_pending, defines=all_defines)
            for i, device in enumerate(devices)
        ]
        self._device = devices[0]
        dead = [rank.tensors["dead"].data_ptr() for rank in self.ranks]
        for width in range(len(layouts)):
            programs = [rank.programs[width] for rank in self.ranks]
            if alone:
                connect_to_itself(programs[0], dead[0])
            else:
                connect(programs, dead)
        # Pinned memory is mapped: the same address on both sides and on all devices.
        self._ring = torch.zeros((spec.context + 2, 2), dtype=torch.int64, pin_memory=True)
        self._status = torch.zeros((len(devices), STATUS_WORDS), dtype=torch.int32, pin_memory=True)
        self._abort = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._answers = Answers(spec.vocab_size)
        self._host_relay = torch.zeros(RELAY.itemsize, dtype=torch.uint8, pin_memory=True)
        self._logits = torch.zeros(spec.vocab_size, dtype=torch.float32, device=self._device)
        # Two words a token, read as plain integers: it is looked at every few microseconds.
        ring: Any = self._ring.numpy()
        self._ring_words: Sequence[int] = memoryview(ring).cast("B").cast("Q")
        self._status_words: npt.NDArray[np.uint32] = self._status.numpy().view(np.uint32)
        self._abort_word: npt.NDArray[np.uint32] = self._abort.numpy().view(np.uint32)
        self._relay: npt.NDArray[np.void] = self._host_relay.numpy().view(RELAY)
        self._max_pending = max_pending
        self._epoch, self._tag, self._read = 0, 1, 0
        self._running = False
        self._unsettled = False  # launches may be left behind a segment's last token
        self._order: Iterator[int] = iter(())  # the widths still to be launched
        self._to_describe: dict[int, Callable[[], None]] = {}  # while a segment is launched, by the width
        self._flying: deque[Any] = deque()  # an event behind each launch that may not have ended
        self._behind = False  # launches that the current streams do not wait for yet
        self._starved_at = -1
        self._missed_at: float | None = None
        self._cared_at = 0.0
        for i, rank in enumerate(self.ranks):
            for program in rank.programs:
                p = program.params
                p["mask"] = p["logits_out"] = 0
                p["token_ring"], p["status"] = self._ring.data_ptr(), self._status[i].data_ptr()
                p["abort_word"], p["deadline_ns"] = self._abort.data_ptr(), int(deadline_s * 1e9)
                p["answer"] = self._answers.address
                p["link_ns"] = link_ns
        for device in set(devices):
            torch.cuda.synchronize(device)
        for rank in self.ranks:
            rank.try_out()

    # what tests and tools look at, of the first device
    @property
    def _tape(self) -> torch.Tensor:
        return self.ranks[0].tape

    @property
    def _tensors(self) -> dict[str, torch.Tensor]:
        return self.ranks[0].tensors

    def _programs(self) -> list[Program]:
        return [program for rank in self.ranks for program in rank.programs]

    @property
    def rope(self) -> torch.Tensor:
        """`rope_table` of the model, on the first device."""
        return self._tensors["rope"]

    @property
    def busy(self) -> bool:
        return self._running

    @property
    def width(self) -> int:
        """Pending ids that share one pass."""
        return self.ranks[0].programs[-1].layout.width

    def set_link(self, link_ns: int) -> None:
        """Another latency of the emulated link, for a kernel that was made with one."""
        for program in self._programs():
            program.params["link_ns"] = link_ns

    def launch(
        self, segment: Segment, kv: torch.Tensor | Sequence[torch.Tensor], *, logits: bool = False
    ) -> float:
        """Start a segment; when the devices had it, by `time.perf_counter`: what is queued behind that is
        queued while they work. kv [N, 2, K, capacity, h] FP16 of the sequence, one a device.

        Settles what an earlier segment has left. logits: also keep the logits of the last row, see `logits`.
        Raises DeviceError where a device does not take its launch; the others have given up by then.
        """
        torch = self._torch
        if self._running:
            raise DeviceError("a segment is still running on this card. Wait for its end first.")
        if not 0 < len(segment.pending) <= self._max_pending:
            raise DeviceError(
                f"{len(segment.pending)} pending ids: the kernel feeds 1 .. {self._max_pending}"
            )
        caches = [kv] if isinstance(kv, torch.Tensor) else list(kv)
        if len(caches) != len(self.ranks):
            raise DeviceError(f"{len(caches)} caches for {len(self.ranks)} devices")
        self.settle()
        passes = len(segment.pending) + segment.max_tokens + 1
        stride = 2 * self.spec.n_layers + 64
        if self._tag + passes * stride >= 1 << 32:  # tags would repeat: forget the old ones
            for program in self._programs():
                for words in program.exchange.values():
                    words.zero_()
            for rank in self.ranks:
                torch.cuda.synchronize(rank.device)
            self._tag = 1
        self._epoch = self._epoch % 0xFFFFFFFF + 1
        relay = self._relay
        relay[:] = np.zeros(1, RELAY) if segment.grammar is None else segment.grammar.start
        relay["position"], relay["pending"] = segment.position, len(segment.pending)
        relay["token"], relay["run"] = -1, -1
        self._order = self._launches(segment)
        for rank in self.ranks:
            with torch.cuda.device(rank.device):
                self._prepare(rank, segment)
        for width in range(len(self.ranks[0].programs)):
            self._to_describe[width] = partial(self._describe, width, segment, caches, logits, self._tag)
        self._tag += passes * stride
        self._read, self._running, self._starved_at, self._missed_at = 0, True, -1, None
        try:
            self._queue_next()
            began = time.perf_counter()
            self._top_up()  # with it every program that the segment may need
        except RuntimeError as error:
            self._running = False
            self._wait_for_all()  # those that did begin wait for the one that did not: until their deadline
            raise DeviceError(f"a device did not take its launch: {error}. Load the engine again.") from error
        finally:
            self._to_describe.clear()  # it holds the caches, which may have to give their memory up
        return began

    def _prepare(self, rank: Rank, segment: Segment) -> None:
        """The segment's lists in a device's memory."""
        torch, t = self._torch, rank.tensors
        with torch.cuda.stream(rank.stream):
            rank.stream.wait_stream(torch.cuda.current_stream(rank.device))
            rank.put("pending", segment.pending)
            rank.put("stop_ids", segment.stop_ids)
            if segment.penalty != 1.0:
                t["seen"].zero_()
                ids = torch.tensor([*segment.history, *segment.pending], device=rank.device)
                t["seen"][ids] = 1
            if segment.mask is not None:
                bits = torch.from_numpy(np.array(segment.mask, np.uint32).view(np.int32))
                t["mask"].zero_()
                t["mask"][: min(bits.numel(), t["mask"].numel())].copy_(bits[: t["mask"].numel()])
            t["relay"].copy_(self._host_relay, non_blocking=True)

    def _describe(
        self, width: int, segment: Segment, caches: Sequence[torch.Tensor], logits: bool, tag: int
    ) -> None:
        """Send each device the parameters of one program. Of the one that is launched first before it, of the
        other while that runs."""
        for i, (rank, cache) in enumerate(zip(self.ranks, caches, strict=True)):
            program = rank.programs[width]
            self._fill(program.params, rank, i, segment, cache, logits, tag)
            with self._torch.cuda.device(rank.device):
                program.send_params(rank.stream.cuda_stream)

    def _fill(
        self,
        p: npt.NDArray[np.void],
        rank: Rank,
        index: int,
        segment: Segment,
        kv: torch.Tensor,
        logits: bool,
        tag: int,
    ) -> None:
        p["mask"] = rank.tensors["mask"].data_ptr() if segment.mask is not None else 0
        p["logits_out"] = self._logits.data_ptr() if logits else 0  # each device writes its own rows
        p["kv"], p["capacity"] = kv.data_ptr(), kv.shape[3]
        p["n_stop"], p["max_tokens"] = len(segment.stop_ids), segment.max_tokens
        p["want_head"], p["guided"] = segment.want_head, segment.guided
        p["legal_ids"] = min(segment.legal_ids or self.spec.vocab_size, self.spec.vocab_size)
        p["tag_base"], p["epoch"], p["seed"] = tag, self._epoch, segment.seed
        p["temperature"], p["top_k"] = segment.temperature, segment.top_k
        p["top_p"], p["min_p"], p["penalty"] = segment.top_p, segment.min_p, segment.penalty
        place = segment.grammar
        p["grammar"] = np.zeros(1, GRAMMAR) if place is None else place.tables[index : index + 1]

    def _launches(self, segment: Segment) -> Iterator[int]:
        """Which programs to queue, in order. A launch that finds nothing for its width ends at once."""
        several = len(segment.pending) > 1
        runs = segment.grammar is not None or segment.guided
        both = len(self.ranks[0].programs) > 1 and (several or runs)
        for rank in self.ranks:
            for width, program in enumerate(rank.programs):
                program.params["hand_over"] = 1 + width if both else 0
        if not both:
            return iter((NARROW,))
        if not segment.want_head:
            return iter((WIDE if several else NARROW,))
        order = (WIDE, NARROW) if several else (NARROW, WIDE)
        return cycle(order) if runs else iter(order)

    def _top_up(self) -> None:
        """Keep launches queued behind the one that runs, so that a hand-over never waits for the host."""
        while self._flying and self._flying[0].query():
            self._flying.popleft()
        while len(self._flying) < AHEAD and self._queue_next():
            pass
        if self._behind:
            self._behind = False
            for rank in self.ranks:
                self._torch.cuda.current_stream(rank.device).wait_event(rank.last)

    def _queue_next(self) -> bool:
        """Queue the next launch on every device; False where there is none."""
        width = next(self._order, None)
        if width is None:
            return False
        describe = self._to_describe.pop(width, None)
        if describe is not None:
            describe()
        events = [rank.queue(width) for rank in self.ranks]
        self._flying.append(events[-1])  # the device that began last
        self._behind = True
        return True

    def stream_only(self, passes: int) -> float:
        """Seconds to stream every tape once through the ring, with no product and no exchange; the slowest
        device's."""
        self.settle()
        torch = self._torch
        events = []
        for rank in self.ranks:
            program = rank.programs[NARROW]
            program.params["want_head"], program.params["max_tokens"] = 1, passes
            with torch.cuda.device(rank.device), torch.cuda.stream(rank.stream), rank.cupy_stream:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                program.send_params(rank.stream.cuda_stream)
                start.record()
                program.start("stream_only")
                end.record()
                events.append((start, end))
        for _, end in events:
            end.synchronize()
        return max(float(start.elapsed_time(end)) for start, end in events) / 1e3 / passes

    def drain(self) -> list[Token]:
        """Tokens that have arrived since the last call. Never blocks. DeviceError when the kernel died."""
        out: list[Token] = []
        while self._running:
            first, second = self._ring_words[2 * self._read], self._ring_words[2 * self._read + 1]
            if first >> 32 != self._epoch or second >> 32 != self._epoch:
                break
            word = first & 0xFFFFFFFF
            logprob: float = _FLOAT.unpack(_BITS.pack(second & 0xFFFFFFFF))[0]
            token = Token(word & 0x7FFFFF, logprob, Reason(word >> 24), bool(word >> 23 & 1))
            out.append(token)
            self._read += 1
            if token.reason not in (Reason.RUNNING, Reason.ASKED):
                self._running, self._unsettled = False, True
        if self._running:
            now = time.perf_counter()
            if out or now - self._cared_at >= CARE_S:
                self._cared_at = now
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
        if not self._ended():
            if self._missed() and self._overdue():  # a device hangs: the others have said so and are free
                self._running = False
                self._fail()
            self._top_up()
            return
        if self._ring_words[2 * self._read] >> 32 == self._epoch:
            return  # a token came between the two looks
        if not self._missed() and self._starved_at != self._read:
            self._starved_at = self._read  # every launch has ended with a hand-over: the host was late
            self._top_up()
            if not self._ended():
                return
        if self._ring_words[2 * self._read] >> 32 != self._epoch:
            self._running = False
            self._fail()

    def settle(self) -> None:
        """Until what a segment's last token has left behind has ended, a few launches that find nothing to
        do: then nothing of the kernel reads or writes memory any more. Called before memory that it was given
        goes or is touched by the host; what is queued on the current streams waits by itself."""
        if self._unsettled:
            self._unsettled = False
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        """Until every launch has ended."""
        try:
            for rank in self.ranks:
                rank.last.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"the kernel died: {error}. Restart the process.") from error

    def _ended(self) -> bool:
        """Whether every launch on every device has ended."""
        return all(rank.last.query() for rank in self.ranks)

    def _overdue(self) -> bool:
        """Whether a missed deadline has been known for long enough that every device would have ended."""
        now = time.monotonic()
        if self._missed_at is None:
            self._missed_at = now
        return now - self._missed_at > GRACE_S

    def _missed(self) -> bool:
        """Whether a device says that somebody missed a deadline in this segment."""
        return any(int(words[9]) == self._epoch for words in self._status_words)

    def _fail(self) -> None:
        missed = what_was_missed(self.layout, self._status_words, self._epoch)
        raise DeviceError(missed or "the kernel ended without a last token. Load the engine again.")

    def stop(self) -> None:
        """Ask for an end at the next token. Idempotent; from any thread."""
        self._abort_word[0] = self._epoch

    def logits(self) -> npt.NDArray[np.float32]:
        """Logits [V] of the last segment's last row, when it was launched with logits=True."""
        self.settle()
        out: npt.NDArray[np.float32] = self._logits.cpu().numpy()
        return out

    def profile(self) -> npt.NDArray[np.int64]:
        """Cycles [blocks, PROFILE_SLOTS] by phase, thread 0 of each block, of the last launch for one row."""
        self.settle()
        parts = [rank.programs[NARROW].counters.cpu().numpy() for rank in self.ranks]
        out: npt.NDArray[np.int64] = np.concatenate(parts)
        return out

    def slack(self) -> npt.NDArray[np.int64]:
        """How long other lanes' outputs had been there when they were used [blocks, SLACK_BINS], in bins of
        2 µs, of the last launch for one row of a kernel made with KOGAGENT_SLACK."""
        self.settle()
        parts = [rank.programs[NARROW].slack.cpu().numpy().astype(np.int64) for rank in self.ranks]
        out: npt.NDArray[np.int64] = np.concatenate(parts)
        return out


def check_side_by_side(devices: Sequence[torch.device]) -> None:
    """DeviceError where parts of a model on one card could wait for each other in one hardware queue."""
    most = max(devices.count(device) for device in devices)
    queues = int(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "8"))
    if most > 1 and most + 2 > queues:
        raise DeviceError(
            f"{most} virtual devices need {most + 2} hardware queues, this process has {queues}. "
            "Set CUDA_DEVICE_MAX_CONNECTIONS=32 before it starts."
        )
