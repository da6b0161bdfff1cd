"""Cards made of the fiber machine: all that rank.py and monokernel.py ask of torch.cuda and CuPy. Test use.

A stream's work is done in its order by a thread of its own, so that the host drains, answers and stops while
a kernel runs, as beside a card. A launch begins once every device of its model has its own at the head of its
stream. What a driver would refuse is an error here: another device's module or stream, more shared memory
than was asked for, other blocks than the layout's, peer access enabled twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from device_machine import compiled

from kogagent.kernels import rank
from kogagent.kernels.params import PARAMS
from kogagent.kernels.rank import THREADS

ALREADY_ENABLED = 704
SHARED_ATTRIBUTE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
MOST_ROUNDS = 5_000_000


class Fault(RuntimeError):
    """The driver's error."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Module:
    """One device's copy of a program; `symbol` is its parameters in constant memory."""

    cards: Cards
    model: str = ""
    defines: tuple[str, ...] = ()
    device: int = -1
    symbol: Any = field(default_factory=lambda: np.zeros(1, PARAMS))

    def load(self, cubin: bytes) -> None:
        assert isinstance(cubin, bytes)
        self.device = self.cards.current
        self.model, defines = json.loads(cubin)
        self.defines = tuple(defines)
        self.cards.modules.append(self)

    def get_function(self, name: str) -> Function:
        return Function(self, name)

    def get_global_var(self, name: str) -> int:
        assert name == "p" and self.cards.current == self.device
        return int(self.symbol.ctypes.data)

    def number(self, name: str) -> int:
        found = re.search(rf"int {name} = (-?\d+);", self.model)
        assert found, f"the model's constants do not say {name}"
        return int(found.group(1))


class Function:
    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name, self.shared = module, name, 48 << 10
        module.cards.functions.append(self)
        self.ptr = len(module.cards.functions) - 1

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[()], shared_mem: int = 0
    ) -> None:
        cards, module = self.module.cards, self.module
        stream = cards.cupy_streams[-1]
        assert cards.current == module.device == stream.index, "a launch on another device"
        assert grid == (module.number("device_blocks"),) and block == (THREADS,) and args == ()
        if shared_mem > self.shared:
            raise Fault("CUDA_ERROR_INVALID_VALUE: invalid argument")
        if stream.place == cards.refuses:
            raise Fault("CUDA_ERROR_LAUNCH_FAILED: this device takes no launch")
        cards.launches.append((stream.place, self.name, module.number("width")))
        stream.put(Launch(self, shared_mem))


@dataclass
class Launch:
    function: Function
    shared: int

    def ends_at_once(self) -> bool:
        """Whether it finds the segment ended: it needs no other device then."""
        relay = int(self.function.module.symbol["relay"][0])
        return bool(relay) and ctypes.c_int.from_address(relay).value != 0


class Stream:
    """torch.cuda.Stream and, by the same object, CuPy's. place: which of the cards' streams, in order."""

    def __init__(self, cards: Cards, index: int) -> None:
        self.cards, self.index, self.place = cards, index, len(cards.streams)
        self.cuda_stream = 1000 + self.place
        self.work: deque[Callable[[], None] | Launch] = deque()
        self.busy = False
        cards.streams.append(self)

    def put(self, work: Callable[[], None] | Launch) -> None:
        with self.cards.changed:
            self.work.append(work)
            self.cards.changed.notify_all()

    def wait_stream(self, other: Any) -> None:
        """What torch does on a processor is done when it returns."""

    def wait_event(self, event: Any) -> None:
        """Likewise."""

    def synchronize(self) -> None:
        self.cards.wait(lambda: not self.work and not self.busy)

    def __enter__(self) -> Stream:
        assert self.cards.current == self.index, "the stream of a device that is not current"
        self.cards.cupy_streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.cards.cupy_streams.pop()


class Event:
    def __init__(self, cards: Cards) -> None:
        self.cards, self.done = cards, True

    def record(self, stream: Stream | None = None) -> None:
        self.done = False
        (stream or self.cards.torch_streams[-1]).put(self._come)

    def _come(self) -> None:
        self.done = True

    def query(self) -> bool:
        self.cards.fail()
        return self.done

    def synchronize(self) -> None:
        self.cards.wait(lambda: self.done)

    def elapsed_time(self, _: Event) -> float:
        return 1.0


class Cards:
    """Equal cards. refuses: the place of a stream that takes no launch, -1 for none; its device's blocks
    never begin. alone: one device stands for all."""

    def __init__(self, sms: int, shared: int) -> None:
        self.sms, self.shared = sms, shared
        self.current, self.refuses, self.alone = 0, -1, False
        self.modules: list[Module] = []
        self.functions: list[Function] = []
        self.streams: list[Stream] = []
        self.peers: set[tuple[int, int]] = set()
        self.launches: list[tuple[int, str, int]] = []
        self.changed = threading.Condition()
        self.error, self.closing, self.order = "", False, 0
        self._default = Stream(self, 0)
        self.streams.clear()
        self.torch_streams, self.cupy_streams = [self._default], [self._default]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self._thread.join(60)

    def fail(self) -> None:
        if self.error:
            raise Fault(self.error)

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            ended = self.changed.wait_for(lambda: bool(self.error) or condition(), 600)
            assert ended, "a stream does not end"
        self.fail()

    # ── the thread ──

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.closing or self._next() is not None)
                if self.closing:
                    return
                found = self._next()
                assert found is not None
                for stream in found:
                    stream.busy = True
                work = [stream.work.popleft() for stream in found]
            try:
                if isinstance(work[0], Launch):
                    self._launch(found, work)
                else:
                    work[0]()
            except BaseException as error:  # told where the host waits
                self.error = self.error or repr(error)
            with self.changed:
                for stream in found:
                    stream.busy = False
                self.changed.notify_all()

    def _next(self) -> list[Stream] | None:
        """A stream with something other than a launch to do, or all those that have one of the same model."""
        heads: dict[tuple[str, str], list[Stream]] = {}
        for stream in [self._default, *self.streams]:
            if not stream.work:
                continue
            head = stream.work[0]
            if not isinstance(head, Launch) or head.ends_at_once():
                return [stream]
            heads.setdefault((head.function.module.model, head.function.name), []).append(stream)
        for (_, name), streams in heads.items():
            first = streams[0].work[0]
            assert isinstance(first, Launch)
            needed = 1 if self.alone or name != "decode" else first.function.module.number("devices")
            if len(streams) >= needed - (self.refuses >= 0):
                return streams
        return None

    def _launch(self, streams: list[Stream], launches: list[Any]) -> None:
        if launches[0].function.name != "decode":
            return
        module = launches[0].function.module
        parts = [launch.function.module.symbol for launch in launches]
        if (
            self.refuses >= 0 and not launches[0].ends_at_once()
        ):  # its parameters are there, its blocks are not
            parts += [
                other.symbol
                for other in self.modules
                if other.model == module.model and not any(other.symbol is part for part in parts)
            ]
        parts.sort(key=lambda part: int(part["rank"][0]))
        if not launches[0].ends_at_once():
            assert [int(part["rank"][0]) for part in parts] == list(range(len(parts)))
        pointers = (ctypes.c_void_p * len(parts))(*(part.ctypes.data for part in parts))
        self.order += 1
        rounds = compiled(module.model, module.defines).run_machine(
            len(parts), pointers, launches[0].shared, self.order, self.refuses, ctypes.c_long(0),
            ctypes.c_long(MOST_ROUNDS),
        )  # fmt: skip
        if rounds < 0 and self.refuses < 0:
            self.error = f"the kernel has not ended after {MOST_ROUNDS} rounds"

    # ── what torch and CuPy call ──

    def copy(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        assert kind == 1 and size == PARAMS.itemsize
        (on,) = (each for each in self.streams if each.cuda_stream == stream)

        def move() -> None:
            ctypes.memmove(to, source, size)

        on.put(move)

    def set_attribute(self, function: int, attribute: int, value: int) -> None:
        assert attribute == SHARED_ATTRIBUTE and value <= self.shared
        self.functions[function].shared = value

    def enable_peer(self, other: int) -> None:
        if (self.current, other) in self.peers:
            raise Fault("cudaErrorPeerAccessAlreadyEnabled", ALREADY_ENABLED)
        self.peers.add((self.current, other))

    @contextlib.contextmanager
    def on(self, device: Any) -> Iterator[None]:
        before, self.current = self.current, index_of(device)
        try:
            yield
        finally:
            self.current = before

    @contextlib.contextmanager
    def streaming(self, stream: Stream) -> Iterator[None]:
        self.torch_streams.append(stream)
        with self.on(stream.index):
            yield
        self.torch_streams.pop()

    def synchronize(self, device: Any = None) -> None:
        index = self.current if device is None else index_of(device)
        for stream in self.streams:
            if stream.index == index:
                stream.synchronize()


def index_of(device: Any) -> int:
    return device if isinstance(device, int) else device.index or 0


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cards]:
    """Cards of 8 multiprocessors: devices are torch's "cpu:0", "cpu:1", …; tensors stay where they are."""
    it = Cards(8, 232448)
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    cupy.cuda = cuda  # type: ignore[attr-defined]
    members: dict[str, Any] = {
        "driver": SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=SHARED_ATTRIBUTE,
            funcSetAttribute=it.set_attribute,
        ),
        "function": SimpleNamespace(Module=lambda: Module(it)),
        "runtime": SimpleNamespace(
            memcpyAsync=it.copy,
            deviceCanAccessPeer=lambda a, b: True,
            deviceEnablePeerAccess=it.enable_peer,
            CUDARuntimeError=Fault,
        ),
        "Device": it.on,
        "Stream": SimpleNamespace(from_external=lambda stream: stream),
    }
    for name, member in members.items():
        setattr(cuda, name, member)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    properties = SimpleNamespace(
        name="fibers", multi_processor_count=it.sms, shared_memory_per_block_optin=it.shared, major=9, minor=0
    )
    shims: dict[str, Any] = {
        "Stream": lambda device=None: Stream(it, it.current if device is None else index_of(device)),
        "Event": lambda enable_timing=False: Event(it),
        "device": it.on,
        "stream": it.streaming,
        "current_stream": lambda device=None: it._default,
        "current_device": lambda: it.current,
        "set_device": lambda device: None,
        "synchronize": it.synchronize,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_properties": lambda device: properties,
        "mem_get_info": lambda device=None: (1 << 33, 1 << 34),
    }
    for name, shim in shims.items():
        monkeypatch.setattr(torch.cuda, name, shim)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, pin_memory=False, **options: zeros(*size, **options))

    def build(entry: str, capability: int, defines: tuple[str, ...] = (), *, model: str = "") -> Any:
        assert entry == "monokernel.cu" and capability == 90
        return SimpleNamespace(path=SimpleNamespace(read_bytes=lambda: json.dumps([model, defines]).encode()))

    monkeypatch.setattr(rank, "build", build)
    yield it
    it.close()
