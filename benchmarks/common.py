"""What every benchmark shares: repeats, machine stamp, JSON lines, the table. Knows no benchmark.

    figures = interleave({"ours": run_ours, "theirs": run_theirs}, repeats=5)
    peers = {"theirs": figures["theirs"]}
    record = make_record("decode", "nano/fp16", "cpu", "tok_s", figures["ours"], peers=peers)
    append([record])
    show([record])

A run is a function that does the whole measured thing once, on fresh inputs, and returns its figure. What is
compared runs in one interleave, so that a machine that slows down slows all of it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """The repeats of one measurement; its value is their median."""

    samples: tuple[float, ...]

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        return min(self.samples)

    @property
    def max(self) -> float:
        return max(self.samples)


@dataclass(frozen=True, slots=True)
class Record:
    """One case of one run, as written: docs/measuring.md says what each field means."""

    bench: str
    case: str
    backend: str
    metric: str
    value: float
    limit: float | None
    share: float | None
    peers: dict[str, float]
    repeats: int
    min: float
    max: float
    card: str
    driver: str
    torch: str
    commit: str
    date: str
    note: str


def interleave(
    runs: Mapping[str, Callable[[], float]], repeats: int = 5, warm_up: int = 1, rest: float = 0.0
) -> dict[str, Figure]:
    """Run each in turn, `repeats` rounds after `warm_up` uncounted ones. ValueError for under 5 repeats.

    rest: seconds before each run, for what the one before it left spinning to park.
    """
    if repeats < 5:
        raise ValueError(f"repeats={repeats}: a median needs at least 5")
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(warm_up + repeats):
        for name, run in runs.items():
            time.sleep(rest)
            value = run()
            if turn >= warm_up:
                samples[name].append(value)
    return {name: Figure(tuple(values)) for name, values in samples.items()}


def make_record(
    bench: str,
    case: str,
    backend: str,
    metric: str,
    figure: Figure,
    *,
    limit: float | Figure | None = None,
    peers: Mapping[str, float | Figure] | None = None,
    note: str = "",
    device: str = "cpu",
) -> Record:
    """A stamped record. limit and peers in the metric's unit, measured in the same run.

    device: "cpu", or "cuda" for the stamp of the first visible GPU.
    """
    ceiling = _plain(limit)
    card, driver = _card(device)
    return Record(
        bench=bench,
        case=case,
        backend=backend,
        metric=metric,
        value=_rounded(figure.value),
        limit=None if ceiling is None else _rounded(ceiling),
        share=None if not ceiling else _rounded(figure.value / ceiling),
        peers={name: _rounded(_plain(peer) or 0.0) for name, peer in (peers or {}).items()},
        repeats=len(figure.samples),
        min=_rounded(figure.min),
        max=_rounded(figure.max),
        card=card,
        driver=driver,
        torch=_version("torch"),
        commit=commit(),
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        note=note,
    )


def append(records: Iterable[Record], results: Path = RESULTS) -> None:
    """Add each record as one line to results/<bench>.jsonl."""
    results.mkdir(parents=True, exist_ok=True)
    for record in records:
        line = json.dumps(asdict(record), ensure_ascii=False)
        with (results / f"{record.bench}.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def show(records: Sequence[Record]) -> None:
    """Print records as one table: value with its range, limit and share, each peer with our ratio to it."""
    rows = [("case", "metric", "value", "min-max", "limit", "share", "peers (ratio to them)")]
    for r in records:
        peers = "  ".join(
            f"{name} {_short(peer)} ({r.value / peer:.2f}x)" if peer else f"{name} 0"
            for name, peer in r.peers.items()
        )
        limit = "-" if r.limit is None else _short(r.limit)
        share = "-" if r.share is None else f"{r.share:.0%}"
        spread = f"{_short(r.min)}-{_short(r.max)}"
        rows.append((f"{r.case} [{r.backend}]", r.metric, _short(r.value), spread, limit, share, peers))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if records:
        r = records[0]
        print(f"{r.card} | driver {r.driver or '-'} | torch {r.torch} | commit {r.commit} | {r.date}")


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


_PASSES = 16
"""Over the memory, in each of the three ways of reading it."""


def read_bandwidth_run(size: int = 2**30) -> Callable[[], float]:
    """A run that reads `size` bytes of memory with every core this process may use; bytes a second.

    The native program reads as it reads weights: huge pages, 64 bytes at a time, each thread its own part in
    one, two and four places at once, some passes one after the other as tokens do, so that what a cache keeps
    of them and what the machine takes away in between count here as there; the best of the three. Without
    the program torch's maximum over FP32 stands in, which is slower.
    """
    from kogagent.kernels.cpu import library

    if library.missing() is None:
        read, threads = library.load().kog_read_bandwidth, library.usable_cores()
        return lambda: float(read(threads, size, _PASSES))
    import torch

    buffer = torch.ones(size // 4)
    return lambda: size / seconds(buffer.amax)


def last_level_cache() -> int:
    """Bytes of the largest cache that the machine reports, 0 where it reports none."""
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]] if text[-1] in "KM" else int(text))
    return max(sizes)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _plain(value: float | Figure | None) -> float | None:
    return value.value if isinstance(value, Figure) else value


def _rounded(value: float) -> float:
    """Six significant digits: no measurement here has more."""
    return float(f"{value:.6g}")


@cache
def commit() -> str:
    """The commit, with "+" where package or benchmarks differ from it.

    What KOGAGENT_COMMIT says goes before that: a copy of the sources on another machine may have no history,
    or another. "" outside a checkout without it.
    """
    stated = os.environ.get("KOGAGENT_COMMIT", "")
    if stated or not (ROOT / ".git").exists() or shutil.which("git") is None:
        return stated

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    sources = ("kogagent", "benchmarks", ":!benchmarks/results")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *sources)
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


@cache
def _card(device: str) -> tuple[str, str]:
    """(name, driver version) of what computed."""
    if device == "cpu":
        return f"{_cpu_name()}, {_threads()} threads", ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=True)
    name, driver = done.stdout.splitlines()[0].split(", ")
    return name, driver


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _threads() -> int:
    try:
        import torch
    except ImportError:
        return 1
    return torch.get_num_threads()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
