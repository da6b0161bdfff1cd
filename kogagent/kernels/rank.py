"""One device's part of a resident model: its tapes, tables, exchange buffers and compiled programs.

Knows CuPy and torch memory and the layout; no segments, no tokens. Several parts may live on one
card ("virtual devices"): each has its own module, so its own parameters, and its own buffers.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kogagent.errors import DeviceError
from kogagent.kernels.build import build
from kogagent.kernels.layout import Layout
from kogagent.kernels.pack import by_kv_head, half_type, pack
from kogagent.kernels.params import MAX_DEVICES, PARAMS, PEER_BUFFERS, RELAY
from kogagent.spec import ModelSpec

if TYPE_CHECKING:
    import torch

THREADS = 384
ENTRIES = ("decode", "stream_only")
PROFILE_SLOTS = 24  # of csrc/exchange.cuh
SLACK_BINS = 32  # of csrc/slack.cuh
STATUS_WORDS = 32  # csrc/params.cuh says what each is

_spent: list[tuple[list[Any], torch.device]] = []
"""The code of programs that are gone, until the next one is loaded. What a failed engine leaves behind is
found by the collector at any time, and to unload a module may end the capture of a graph, or wait for a
segment that waits for the thread which unloads."""


class Program:
    """The kernel compiled for one width on one device: its code, its exchange buffers, its parameters."""

    def __init__(self, layout: Layout, device: torch.device, defines: Sequence[str]) -> None:
        import torch
        from cupy.cuda import driver, function, runtime

        _unload_spent()
        self.layout = layout
        major, minor = torch.cuda.get_device_capability(device)
        made = build("monokernel.cu", major * 10 + minor, tuple(defines), model=layout.model_source())
        # A module of its own, where CuPy's RawModule would give all users of a file on a card the same one.
        module = function.Module()
        module.load(made.path.read_bytes())
        self._code = [module.get_function(name) for name in ENTRIES]
        weakref.finalize(self, _spent.append, (self._code, device)).atexit = False
        for found in self._code:
            limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(found.ptr, limit, layout.shared_bytes)
        self._copy = runtime.memcpyAsync
        self._symbol: int = module.get_global_var("p")

        self.exchange = exchange_buffers(layout, device, linked="KOGAGENT_LINK" in defines)
        blocks = layout.device_blocks
        self.counters = torch.zeros((blocks, PROFILE_SLOTS), dtype=torch.int64, device=device)
        self.slack = torch.zeros((blocks, SLACK_BINS), dtype=torch.int32, device=device)
        self._pinned = torch.zeros(PARAMS.itemsize, dtype=torch.uint8, pin_memory=True)
        self.params: npt.NDArray[np.void] = self._pinned.numpy().view(PARAMS)
        describe(self.params, layout, self.exchange)
        self.params["profile"] = self.counters.data_ptr() if "KOGAGENT_PROFILE" in defines else 0
        self.params["slack"] = self.slack.data_ptr() if "KOGAGENT_SLACK" in defines else 0

    def send_params(self, stream: int) -> None:
        self._copy(self._symbol, self._pinned.data_ptr(), PARAMS.itemsize, 1, stream)

    def start(self, name: str) -> None:
        """Queue one launch on CuPy's current stream of the current device."""
        layout, entry = self.layout, self._code[ENTRIES.index(name)]
        entry((layout.device_blocks,), (THREADS,), (), shared_mem=layout.shared_bytes)


def _unload_spent() -> None:
    """Free what is spent, each module in the context it was loaded in, whatever device is current by now."""
    import torch

    while True:
        try:
            code, device = _spent.pop()
        except IndexError:  # asked for rather than looked at: another engine may be loaded in a thread beside
            return
        with torch.cuda.device(device):
            code.clear()


def exchange_buffers(
    layout: Layout, device: torch.device, *, linked: bool = False
) -> dict[str, torch.Tensor]:
    """One device's buffers of tagged words, by their names in params.cuh. linked: with stamps of the time."""
    import torch

    spec, width, lanes, heads = layout.spec, layout.width, layout.lanes, layout.heads
    every = layout.replicas
    split = every if layout.direct_combine else 1

    def words(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=device)

    return {
        "xbuf": words(every, 2, lanes, width, spec.dim // 2),
        "qbuf": words(lanes, width, layout.qkv_rows),
        "pbuf": words(split, lanes, width, heads * spec.head_dim // 2, layout.splits),
        "sbuf": words(split, lanes * width * heads * layout.splits + 3 & ~1),
        "abuf": words(every, lanes, width, heads * spec.head_dim // 2),
        "hbuf": words(every, lanes, width, layout.ffn // 2),
        "obuf": words(2, 2 * spec.n_layers, lanes, width, spec.dim),
        "f1": words(lanes, spec.dim),
        "f2": words(spec.dim // 2),
        "cand": words(2, 3, layout.blocks, 2),
        "hist": words(2, layout.blocks, 16),
        "times": words(2, 2 * spec.n_layers, lanes, width, spec.dim // 2) if linked else words(1),
        "started": words(MAX_DEVICES),
        "beats": words(MAX_DEVICES),
    }


def describe(params: npt.NDArray[np.void], layout: Layout, buffers: Mapping[str, torch.Tensor]) -> None:
    """Write a layout and the addresses of buffers, by their fields' names, into params."""
    for name, tensor in buffers.items():
        params[name] = tensor.data_ptr()
    params["tape_stride"], params["stages"] = layout.tape_bytes, layout.stages
    for i, shape in enumerate(layout.shapes):
        for field in ("tiles", "part_tiles", "parts", "per_stage", "warps"):
            params["shape"][field][0, i] = getattr(shape, field)


def connect(programs: Sequence[Program], dead: Sequence[int]) -> None:
    """Tell each device's program where the others' buffers are. dead: the address of each device's word."""
    for rank, program in enumerate(programs):
        program.params["rank"] = rank
        for other, theirs in enumerate(programs):
            for i, name in enumerate(PEER_BUFFERS):
                address = dead[other] if name == "dead" else theirs.exchange[name].data_ptr()
                program.params["peers"][0, i, other] = address


def connect_to_itself(program: Program, dead: int) -> None:
    """Let the first of several devices stand for all: what it sends device d arrives as if d had sent it.

    For measuring one device of several alone. The ids it emits mean nothing.
    """
    layout = program.layout
    lane = 8 * layout.device_lanes * layout.spec.dim  # bytes between two devices' words of one row
    blocks = 8 * layout.device_blocks
    steps = {
        "obuf": lane * layout.width,
        "f1": lane,
        "cand": 2 * blocks,
        "hist": 16 * blocks,
        "times": lane * layout.width // 2,
        "started": 8,
        "beats": 8,
        "dead": 0,
    }
    for other in range(layout.devices):
        for i, name in enumerate(PEER_BUFFERS):
            base = dead if name == "dead" else program.exchange[name].data_ptr()
            program.params["peers"][0, i, other] = base + other * steps[name]


def device_tensors(
    layout: Layout,
    rank: int,
    device: torch.device,
    tensors: Mapping[str, torch.Tensor],
    steps: npt.NDArray[np.void],
    max_pending: int,
) -> dict[str, torch.Tensor]:
    """What one device reads besides the exchange buffers, by its names in params.cuh."""
    import torch

    spec = layout.spec
    mine = slice(rank * layout.device_blocks, (rank + 1) * layout.device_blocks)
    schedule = torch.from_numpy(layout.schedule[mine].astype(np.int64)).to(torch.int32)

    def zeros(count: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.zeros(count, dtype=dtype, device=device)

    out = {
        "tape": pack(layout, tensors, rank).to(device),
        "schedule": schedule.to(device).contiguous(),
        "embed": tensors["embed"].to(half_type(tensors)).to(device).contiguous(),
        "rope": rope_table(spec).to(device),
        "steps": torch.from_numpy(steps.view(np.uint8).copy()).to(device),
        "seen": zeros(spec.vocab_size, torch.uint8),
        "mask": zeros(-(-spec.vocab_size // 32)),
        "stop_ids": zeros(spec.vocab_size),
        "pending": zeros(max(max_pending, 1)),
        "dead": zeros(1),
        "relay": zeros(RELAY.itemsize, torch.uint8),
    }
    if spec.qkv_bias:
        out["bias"] = bias_rows(layout, tensors).to(device)
    if spec.qk_norm:
        out["qk_norm"] = qk_norm_rows(spec, tensors).to(device)
    return out


class Rank:
    """One device's weights, tables and programs, and their stream. programs: the narrow one first."""

    def __init__(
        self,
        rank: int,
        device: torch.device,
        layouts: Sequence[Layout],
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        max_pending: int,
        defines: Sequence[str],
    ) -> None:
        import cupy
        import torch

        layout = layouts[0]
        self.device, self._torch = device, torch
        with torch.cuda.device(device):
            self.stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self.cupy_stream = cupy.cuda.Stream.from_external(self.stream)
            self.tensors = device_tensors(layout, rank, device, tensors, steps, max_pending)
            self.tape = self.tensors["tape"]
            self.programs = [Program(each, device, defines) for each in layouts]
            for program in self.programs:
                for name, tensor in self.tensors.items():
                    program.params[name] = tensor.data_ptr()
        # Lists of ids go through pinned memory: a copy from other memory waits for the stream.
        self._staged = {
            name: torch.zeros(len(self.tensors[name]), dtype=torch.int32, pin_memory=True)
            for name in ("pending", "stop_ids")
        }
        self._held: dict[str, list[int]] = {}  # what the device has of them
        self.last: Any = None  # an event behind the last launch

    def put(self, name: str, ids: Sequence[int]) -> None:
        """Have the device hold these pending or stop ids, on the current stream. Whatever was launched
        before has ended: it may read them, and what it was given may not have been copied."""
        wanted, staged = list(ids), self._staged[name]
        if wanted and self._held.get(name) != wanted:  # stop ids are the same time and again
            staged.numpy()[: len(wanted)] = wanted
            self.tensors[name][: len(wanted)].copy_(staged[: len(wanted)], non_blocking=True)
            self._held[name] = wanted

    def try_out(self) -> None:
        """Launch every program once over a segment that has ended, which does nothing.

        A driver that loads code when it is first launched may wait for what runs on the card: in a segment,
        for a device that waits for this one. What cannot be launched at all is found here. The programs'
        parameters are all set. Raises DeviceError naming the device.
        """
        try:
            self.tensors["relay"].fill_(1)
            self._torch.cuda.synchronize(self.device)
            for width, program in enumerate(self.programs):
                program.send_params(self.stream.cuda_stream)
                self.queue(width).synchronize()
        except RuntimeError as error:
            raise DeviceError(f"the kernel does not start on {self.device}: {error}") from error

    def queue(self, width: int, name: str = "decode") -> Any:
        """Queue one launch of a program; the event behind it."""
        torch = self._torch
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream), self.cupy_stream:
            self.programs[width].start(name)
            self.last = torch.cuda.Event(enable_timing=False)
            self.last.record(self.stream)
        return self.last


def enable_peers(cards: Sequence[int]) -> None:
    """Let every card store into the others' memory. DeviceError naming two that cannot."""
    from cupy.cuda import Device, runtime

    already = 704  # cudaErrorPeerAccessAlreadyEnabled: torch enables it too where it copies between devices
    for card in sorted({*cards}):
        for other in sorted({*cards}):
            if card == other:
                continue
            if not runtime.deviceCanAccessPeer(card, other):
                raise DeviceError(
                    f"device {card} cannot store into device {other}'s memory (see nvidia-smi topo -m). "
                    "Choose cards that are linked."
                )
            with Device(card):
                try:
                    runtime.deviceEnablePeerAccess(other)
                except runtime.CUDARuntimeError as error:
                    if error.status != already:
                        raise


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
