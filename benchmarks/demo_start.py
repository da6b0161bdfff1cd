"""The whole demo as a process, from the shell to its end: `python -m benchmarks.demo_start [--record]`.

Three kinds of start take turns: the first one, with an empty cache on disk; a later one, which finds what the
first has kept; and one that keeps nothing. Each is `kogagent demo` with its default question, in a process of
its own; the checkpoint's file is in the system's memory, as after its download.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import append, interleave, make_record, seconds, show


def _run(folder: Path, size: str = "") -> float:
    """Seconds of one demo. size: of KOGAGENT_CACHE_BYTES."""
    environment = {**os.environ, "KOGAGENT_CACHE": str(folder), "KOGAGENT_CACHE_BYTES": size}
    command = [sys.executable, "-m", "kogagent", "demo"]

    def demo() -> None:
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

    return seconds(demo)


def runs(folder: Path) -> dict[str, Callable[[], float]]:
    """What takes turns; a later start is one behind the warm-up round's."""

    def first() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            return _run(Path(empty))

    return {
        "first": first,
        "later": lambda: _run(folder / "kept"),
        "keeping nothing": lambda: _run(folder, "0"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = interleave(runs(Path(folder)), options.repeats)
    records = [
        make_record(
            "demo_start", name, "native", "s", figure, note="kogagent demo, its own question, one process"
        )
        for name, figure in figures.items()
    ]
    show(records)
    if options.record:
        append(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
