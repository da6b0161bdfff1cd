"""What exchanges cost: tagged words among the blocks of a card and between cards, beside NCCL.

    python -m benchmarks.exchange              # one card, and all pairs of participants and payload
    python -m benchmarks.exchange --devices 2  # between cards too

One exchange: every block publishes its slice of a vector and reads the whole. A word is 8 bytes and carries
2 FP16 values; a push is an exchange of one block on each card. Microseconds, the median of --repeats launches
of 2,000 exchanges. NCCL and the kernel run in processes of their own that are ended, with all they started,
when their time is up; what is known by then has been printed and recorded.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.child import run_bounded
from benchmarks.common import Figure, Record, append, make_record, show
from kogagent.kernels.build import Build, build

ROUNDS, WARM = 2000, 200
NCCL_SECONDS, KERNEL_SECONDS = 30.0, 28.0  # two of each: within benchmarks.lanes' time for them
STREAM_UNITS = 1 << 19  # 8 MiB a block, more than any cache


class Probe(ctypes.Structure):
    """csrc/exchange_probe.cu's struct of the same name."""

    _fields_ = (
        ("copies", ctypes.c_uint64 * 8),
        ("stream", ctypes.c_uint64),
        ("stream_units", ctypes.c_uint64),
        ("dead", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        *((name, ctypes.c_int) for name in ("devices", "rank", "blocks", "words", "rounds", "warm")),
        ("tag_base", ctypes.c_uint32),
        ("pad", ctypes.c_int),
    )


def compiled(capability: int, cache: Path | None = None) -> Build:
    """The kernel for a compute capability, its struct's size proved to be ours."""
    return build("exchange_probe.cu", capability, (f"PROBE_BYTES={ctypes.sizeof(Probe)}",), cache)


class Cards:
    """The kernel and its buffers on the first n devices, each able to store into the others' memory."""

    def __init__(self, devices: int, words: int, load: bool) -> None:
        import cupy

        from kogagent.kernels.rank import enable_peers

        self.cupy = cupy
        self.devices, self.load, self.tag = devices, load, 1
        self.at: list[dict[str, Any]] = []
        enable_peers(range(devices))
        for d in range(devices):
            with cupy.cuda.Device(d) as device:
                blocks = device.attributes["MultiProcessorCount"]
                module = cupy.RawModule(path=str(compiled(int(device.compute_capability)).path))
                self.at.append(
                    {
                        "blocks": blocks,
                        "kernel": module.get_function("exchange_probe"),
                        "probe": module.get_global("a"),
                        "stream": cupy.cuda.Stream(non_blocking=True),
                        "words": cupy.zeros((2, words), cupy.uint64),
                        "dead": cupy.zeros(1, cupy.uint32),
                        "out": cupy.zeros(4, cupy.uint64),
                        "data": cupy.zeros(blocks * STREAM_UNITS * 2, cupy.uint64) if load else None,
                    }
                )
                device.synchronize()
        # No round: what is loaded late could wait for a card that waits for this one.
        for d in range(devices):
            self._send(d, Probe(devices=1, blocks=1, words=2, out=self.at[d]["out"].data.ptr))
            self._launch(d, 1)
            with cupy.cuda.Device(d):
                self.at[d]["stream"].synchronize()

    def _send(self, d: int, probe: Probe) -> None:
        cuda = self.cupy.cuda
        with cuda.Device(d) as device:
            cuda.runtime.memcpy(self.at[d]["probe"].ptr, ctypes.addressof(probe), ctypes.sizeof(Probe), 1)
            device.synchronize()

    def _launch(self, d: int, blocks: int) -> None:
        with self.cupy.cuda.Device(d), self.at[d]["stream"]:
            self.at[d]["kernel"]((blocks,), (512,), ())

    def run(self, blocks: int, words: int, rounds: int = ROUNDS, load: bool = False) -> tuple[float, float]:
        """Microseconds of one exchange, and the bytes a second streamed beside it on the first card."""
        cupy = self.cupy
        for d, at in enumerate(self.at):  # all is on the devices before the first kernel spins
            with cupy.cuda.Device(d):
                at["out"].fill(0)
                at["dead"].fill(0)
                probe = Probe(
                    stream=at["data"].data.ptr if load else 0,
                    stream_units=STREAM_UNITS,
                    dead=at["dead"].data.ptr,
                    out=at["out"].data.ptr,
                    deadline_ns=2_000_000_000,
                    devices=self.devices,
                    rank=d,
                    blocks=blocks,
                    words=words,
                    rounds=rounds,
                    warm=min(WARM, rounds // 2),
                    tag_base=self.tag,
                )
                for other, theirs in enumerate(self.at):
                    probe.copies[other] = theirs["words"].data.ptr
                self._send(d, probe)
        self.tag += rounds
        for d in range(self.devices):
            self._launch(d, blocks)
        outs = []
        for d, at in enumerate(self.at):
            with cupy.cuda.Device(d):
                at["stream"].synchronize()
                outs.append(cupy.asnumpy(at["out"]))
                if int(at["dead"][0]):
                    raise SystemExit(f"device {d}: an exchange of {blocks} blocks, {words} words never ended")
        if any(int(out[2]) for out in outs):
            raise SystemExit(f"wrong words: {[int(out[2]) for out in outs]}")
        ns = max(int(out[0]) for out in outs)
        us = ns / (rounds - min(WARM, rounds // 2)) / 1e3
        return us, int(outs[0][1]) / (us * rounds * 1e-6)


def nccl(devices: int, halves: int, seconds: float = NCCL_SECONDS) -> dict[str, float]:
    """Microseconds of NCCL's all-gather and all-reduce of FP16 values, in a stream and in a CUDA graph.

    Empty where it did not answer in its time, with a line that says why.
    """
    command = [sys.executable, "-m", "benchmarks.exchange", "--nccl-worker", str(halves)]
    found: dict[str, float] = {}

    def line(text: str) -> None:
        if text.startswith("{"):  # one operation each, as it is known
            found.update(json.loads(text))
        elif "rror" in text:
            print(f"NCCL: {text}", flush=True)

    why = run_bounded(command, seconds, line, ranks=devices)
    if why:
        print(f"NCCL over {devices} devices, {halves} halves: {why}", flush=True)
    return found


def _nccl_worker(halves: int) -> None:
    import os

    import torch
    import torch.distributed

    dist: Any = torch.distributed
    events: Any = torch.cuda.Event
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    size = dist.get_world_size()
    synchronize: Any = torch.cuda.synchronize
    whole = torch.zeros(halves, dtype=torch.float16, device="cuda")
    part = torch.zeros(halves // size, dtype=torch.float16, device="cuda")
    operations: dict[str, Callable[[], Any]] = {
        "nccl all-gather": lambda: dist.all_gather_into_tensor(whole, part),
        "nccl all-reduce": lambda: dist.all_reduce(whole),
    }
    for name, call in operations.items():
        for _ in range(20):
            call()
        synchronize()
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50):
                call()
        for label, again, calls in ((name, call, 1), (f"{name} in a graph", graph.replay, 50)):
            times = []
            for _ in range(7):
                dist.barrier()
                synchronize()
                begin, end = events(enable_timing=True), events(enable_timing=True)
                begin.record()
                for _ in range(200 // calls):
                    again()
                end.record()
                synchronize()
                times.append(begin.elapsed_time(end) * 1e3 / 200)
            if rank == 0:
                print(json.dumps({label: sorted(times)[3]}), flush=True)
    dist.destroy_process_group()


def kinds(devices: int, blocks: int) -> Iterator[tuple[str, int, int]]:
    """(name, blocks a device, words) of what is measured on cards of `blocks` multiprocessors."""
    if devices == 1:
        for halves in (264, 3072, 6144):
            # every block has a word to publish: one that had none could be overtaken while it reads
            yield from (
                (f"{halves} halves", b, halves // 2) for b in (2, 16, 33, 66, blocks) if b <= halves // 2
            )
        return
    yield "push of 4 halves", 1, 2 * devices
    for halves in (3072, 6144):
        for b in (16, blocks):
            if devices * b <= halves // 2:
                yield f"all-gather of {halves} halves", b, halves // 2
    yield "argmax", blocks, 6 * devices * blocks  # six words of each block, as the head's candidates


def measure(devices: int, repeats: int, peers: Mapping[str, Mapping[str, float]]) -> Iterator[Record]:
    """All cases on so many cards, each as soon as it is known. peers: by the case's name."""
    cards = Cards(devices, 8 * 132 * 6, load=True)
    most = min(at["blocks"] for at in cards.at)
    for name, blocks, words in kinds(devices, most):
        for load in (False, True):
            runs = [cards.run(blocks, words, load=load) for _ in range(repeats + 1)][1:]
            rate = sorted(run[1] for run in runs)[len(runs) // 2]
            yield make_record(
                "exchange",
                f"{devices}x{blocks} blocks/{name}/{'loaded' if load else 'idle'}",
                "cuda",
                "us",
                Figure(tuple(run[0] for run in runs)),
                peers=peers.get(name, {}),
                note=f"{rate / 1e12:.2f} TB/s streamed beside it" if load else "",
                device="cuda",
            )


def print_now(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    parser.add_argument("--nccl-worker", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.nccl_worker:
        _nccl_worker(options.nccl_worker)
        return
    if options.worker:
        records = []
        for record in measure(options.devices, options.repeats, json.loads(options.worker)):
            print(f"{record.case}: {record.value:.2f} us {record.note}", flush=True)
            records.append(record)
            if not options.dry:
                append([record])
        show(records)
        return
    for devices in sorted({1, options.devices}):
        peers = {}
        if devices > 1:
            peers = {f"all-gather of {n} halves": nccl(devices, n) for n in (3072, 6144)}
        command = [sys.executable, "-m", "benchmarks.exchange", "--devices", str(devices)]
        command += ["--repeats", str(options.repeats), "--worker", json.dumps(peers)]
        why = run_bounded([*command, *(["--dry"] if options.dry else [])], KERNEL_SECONDS, print_now)
        if why:
            print(f"exchanges on {devices} devices: {why}", flush=True)


if __name__ == "__main__":
    main()
