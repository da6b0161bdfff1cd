"""Where a training step's time goes: some steps under torch's profiler, as a table. Knows no model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

FIRST, STEPS = 5, 5
"""Steps before the first profiled one, and how many are."""
SMALLEST = 0.003
"""The share of the time below which a row is left out."""


class StepProfile:
    """Watches a few steps of a run. To be told before each one; a table is in the file once they are over."""

    def __init__(self, file: Path, device: str) -> None:
        self._file, self._gpu = file, device == "cuda"
        self._seen = 0
        self._began = 0.0
        self._running: profile | None = None

    def before_step(self) -> None:
        if self._seen == FIRST:
            self._settle()
            used = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._gpu else [])]
            self._running = profile(activities=used)
            self._running.start()
            self._began = time.perf_counter()
        elif self._running and self._seen == FIRST + STEPS:
            self._settle()
            wall_ms = (time.perf_counter() - self._began) * 1e3 / STEPS
            self._running.stop()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(table(self._running.key_averages(), self._gpu, wall_ms))
            self._running = None
        self._seen += 1

    def _settle(self) -> None:
        if self._gpu:
            torch.cuda.synchronize()


def table(events: Any, gpu: bool, wall_ms: float) -> str:
    """Rows of ms, count and share a step, largest first: kernels on a GPU, operators on a CPU."""
    where = DeviceType.CUDA if gpu else DeviceType.CPU
    rows = [
        ((e.self_device_time_total if gpu else e.self_cpu_time_total) / 1e3 / STEPS, e.count / STEPS, e.key)
        for e in events
        if e.device_type == where and not e.is_user_annotation
    ]
    busy = sum(ms for ms, _, _ in rows)
    shown = [row for row in sorted(rows, reverse=True) if row[0] >= SMALLEST * busy]
    rest = busy - sum(ms for ms, _, _ in shown)
    lines = [
        f"{STEPS} steps, profiled: {wall_ms:.2f} ms a step, {busy:.2f} ms of them in "
        f"{'kernels' if gpu else 'operators'} ({sum(n for _, n, _ in rows):.0f} a step)",
        f"{'ms/step':>9} {'share':>6} {'count':>7}  name",
        *(f"{ms:9.3f} {ms / busy:6.1%} {n:7.1f}  {name}" for ms, n, name in shown),
        f"{rest:9.3f} {rest / busy:6.1%} {len(rows) - len(shown):7d}  rows below {SMALLEST:.1%}",
    ]
    return "\n".join(lines) + "\n"
