"""The chart of the newest lanes records with emulated links: tokens a second against latency, a line a delay.

python -m benchmarks.lanes_chart
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.common import RESULTS
from benchmarks.lanes import LANEFORMER

_CASE = re.compile(rf"{re.escape(LANEFORMER)}/([^/]+)/delay (\d+)/link (\d+) us")
PICTURE = RESULTS.parent.parent / "docs" / "assets" / "lanes-links.png"

Curves = dict[str, dict[int, dict[int, float]]]


def curves(results: Path = RESULTS) -> Curves:
    """By what was measured and by delay in layers: tok/s of each latency in µs; the newest of each."""
    found: Curves = {}
    for line in (results / "lanes.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        match = _CASE.fullmatch(record["case"])
        if match and record["metric"] == "tok_s":
            what, delay, link = match.groups()
            found.setdefault(what, {}).setdefault(int(delay), {})[int(link)] = record["value"]
    return found


def draw(found: Mapping[str, Mapping[int, Mapping[int, float]]], path: Path = PICTURE) -> Path:
    """Draw a panel for each thing measured; returns the picture's path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(5 * len(found), 4), squeeze=False)
    for axis, (what, by_delay) in zip(axes[0], found.items(), strict=True):
        for delay, points in sorted(by_delay.items()):
            latencies = sorted(points)
            axis.plot(latencies, [points[at] for at in latencies], "o-", label=f"δ = {delay}")
        axis.set_title(f"{LANEFORMER}, {what}")
        axis.set_xlabel("latency of another lane's output, µs")
        axis.set_ylabel("tokens a second")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


if __name__ == "__main__":
    print(draw(curves()))
