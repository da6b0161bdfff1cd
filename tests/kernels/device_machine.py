"""The decode kernel's own source on this machine: devices, blocks and threads as fibers. Test support only.

csrc is compiled by g++ with another ptx.cuh (block_machine/), in which a waiting thread lets others run.
Everything between is the kernel's: phases, words, polls, sampling, hand-over between devices, deadlines.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.kernels.build import SOURCE
from kogagent.kernels.deadline import what_was_missed
from kogagent.kernels.layout import Layout
from kogagent.kernels.params import PARAMS, RELAY
from kogagent.kernels.rank import (
    SLACK_BINS,
    STATUS_WORDS,
    connect,
    connect_to_itself,
    describe,
    device_tensors,
    exchange_buffers,
)
from kogagent.kernels.segment import Reason, Token

HOST = Path(__file__).resolve().parent / "block_machine"
# Where the kernel spins without asking anything of ptx.cuh.
_WAITS = {
    "(++spins & 255) == 0": ("exchange.cuh", "(machine_wait(), ++spins & 255) == 0"),
    "(++c.spins & 1023) != 0": ("exchange.cuh", "(machine_wait(), ++c.spins & 1023) != 0"),
    "if (*quit) return;": ("slack.cuh", "if (machine_wait(), *quit) return;"),
}


def compiled(model: str, defines: Sequence[str] = ()) -> ctypes.CDLL:
    """The machine for one layout's `model_source`, built once for each text of the sources."""
    texts = {path.name: path.read_text() for path in (*sorted(SOURCE.iterdir()), *sorted(HOST.iterdir()))}
    texts |= {"model.cuh": model, "proof.cuh": ""}
    for old, (name, new) in _WAITS.items():
        assert texts[name].count(old) == 1, f"{old!r} is no longer how the kernel waits"
        texts[name] = texts[name].replace(old, new)
    flags = [
        "-std=c++17",
        "-Og",  # compiled for a second of running
        "-fno-strict-aliasing",
        "-w",
        "-shared",
        "-fPIC",
        *(f"-D{d}" for d in defines),
    ]
    digest = hashlib.sha256(repr((sorted(texts.items()), flags)).encode()).hexdigest()[:24]
    library = Path(gettempdir()) / f"kogagent-machine-{os.getuid()}-{digest}.so"
    if not library.exists():
        compiler = shutil.which("g++")
        assert compiler, "this test compiles the kernel for the host: install g++"
        with TemporaryDirectory() as folder:
            for name, text in texts.items():
                (Path(folder) / name).write_text(text)
            made = Path(folder) / "machine.so"
            subprocess.run([compiler, *flags, f"{folder}/machine.cpp", "-o", str(made)], check=True)
            partial = library.with_suffix(f".{os.getpid()}")
            shutil.copy(made, partial)
            partial.rename(library)
    found = ctypes.CDLL(str(library))
    assert found.params_size() == PARAMS.itemsize
    found.run_machine.restype = ctypes.c_long
    return found


@dataclass
class _Part:
    """One device, as rank.connect takes it."""

    layout: Layout
    exchange: dict[str, torch.Tensor]
    tensors: dict[str, torch.Tensor]
    params: npt.NDArray[np.void]


class Machine:
    """A model on the devices of a layout. Segments as of kernels.monokernel, feeding and drawing."""

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        *,
        defines: Sequence[str] = (),
        link_ns: int = 0,
        deadline_ns: int = 10**9,
        alone: bool = False,
    ) -> None:
        defines = [*defines, "KOGAGENT_LINK"] if link_ns else list(defines)
        self.layout, self._library = layout, compiled(layout.model_source(), defines)
        spec, cpu = layout.spec, torch.device("cpu")
        self.parts: list[Any] = []
        for rank in range(1 if alone else layout.devices):
            params = np.zeros(1, PARAMS)
            buffers = exchange_buffers(layout, cpu, linked=bool(link_ns))
            own = device_tensors(layout, rank, cpu, tensors, steps, 64)
            describe(params, layout, buffers | own)
            self.parts.append(_Part(layout, buffers, own, params))
        dead = [part.tensors["dead"].data_ptr() for part in self.parts]
        if alone:
            connect_to_itself(self.parts[0], dead[0])
        else:
            connect(self.parts, dead)
        shape = (spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim)
        half = tensors["embed"].dtype
        self.caches = [torch.full(shape, float("nan")).to(half) for _ in self.parts]
        self.logits = np.full(spec.vocab_size, np.nan, np.float32)
        self.slack = np.zeros((len(self.parts), layout.device_blocks, SLACK_BINS), np.uint32)
        self._ring = np.zeros((spec.context + 2, 2), np.uint64)
        self.status = np.zeros((len(self.parts), STATUS_WORDS), np.uint32)
        self.abort = np.zeros(1, np.uint32)
        self.rounds, self._epoch, self._tag = 0, 0, 1
        for i, (part, cache) in enumerate(zip(self.parts, self.caches, strict=True)):
            p = part.params
            p["kv"], p["capacity"] = cache.data_ptr(), spec.context
            p["token_ring"], p["status"] = self._ring.ctypes.data, self.status[i].ctypes.data
            p["abort_word"], p["deadline_ns"] = self.abort.ctypes.data, deadline_ns
            p["logits_out"], p["link_ns"] = self.logits.ctypes.data, link_ns
            p["mask"] = 0
            p["slack"] = self.slack[i].ctypes.data if "KOGAGENT_SLACK" in defines else 0

    def run(
        self,
        pending: Sequence[int],
        position: int,
        *,
        order: int = 0,
        stalled: int = -1,
        stall_round: int = 0,
        most: int = 2_000_000,
        **fields: Any,
    ) -> list[Token]:
        """One segment. order: seeds the warps' turns. stalled: a device that stops at a round, 0 for one
        that never starts. fields: of Params. `ended` says whether it did within `most` rounds."""
        spec = self.layout.spec
        self._epoch += 1
        self._ring[:] = 0
        values: dict[str, Any] = {
            "max_tokens": 1,
            "want_head": 1,
            "legal_ids": spec.vocab_size,
            "top_p": 1.0,
            "penalty": 1.0,
        }
        values |= fields | {"tag_base": self._tag, "epoch": self._epoch}
        for part in self.parts:
            for name, value in values.items():
                part.params[name] = value
            part.tensors["pending"][: len(pending)] = torch.tensor(pending, dtype=torch.int32)
            relay = part.tensors["relay"].numpy().view(RELAY)
            relay[:] = np.zeros(1, RELAY)
            relay["position"], relay["pending"], relay["token"], relay["run"] = position, len(pending), -1, -1
        pointers = (ctypes.c_void_p * len(self.parts))(*(part.params.ctypes.data for part in self.parts))
        self.rounds = self._library.run_machine(
            len(self.parts), pointers, self.layout.shared_bytes, order, stalled, ctypes.c_long(stall_round),
            ctypes.c_long(most),
        )  # fmt: skip
        self._tag += (len(pending) + values["max_tokens"] + 1) * (2 * spec.n_layers + 64)
        return self._tokens()

    @property
    def ended(self) -> bool:
        return self.rounds >= 0

    def missed(self) -> str:
        """What the devices say of a missed deadline; "" where nobody missed one."""
        return what_was_missed(self.layout, self.status, self._epoch)

    def _tokens(self) -> list[Token]:
        out = []
        for first, second in self._ring.tolist():
            if first >> 32 != self._epoch:
                break
            word, logprob = first & 0xFFFFFFFF, np.uint32(second & 0xFFFFFFFF).view(np.float32)
            out.append(Token(word & 0x7FFFFF, float(logprob), Reason(word >> 24), bool(word >> 23 & 1)))
        return out
