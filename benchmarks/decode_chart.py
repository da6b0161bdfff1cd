"""The chart of the newest decode records on a GPU: ours, the limit, every peer. Reads results alone.

python -m benchmarks.decode_chart
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS


def newest(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The last tok_s record of each case on a GPU, in the order of their first appearance."""
    found: dict[str, dict[str, Any]] = {}
    for line in (results / "decode.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["backend"] == "cuda" and record["metric"] == "tok_s":
            found[record["case"]] = record
    return found


def draw(results: Path = RESULTS) -> Path:
    """Draw results/decode.png; returns its path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    records = list(newest(results).values())
    names = ["engine.stream", "limit", *dict.fromkeys(name for r in records for name in r["peers"])]
    figure, axes = pyplot.subplots(figsize=(1.6 + 1.5 * len(records), 4.5), layout="constrained")
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        values = [{"engine.stream": r["value"], "limit": r["limit"]} | r["peers"] for r in records]
        places = [at + index * width for at, v in enumerate(values) if v.get(name)]
        heights = [v[name] for v in values if v.get(name)]
        bars = axes.bar(places, heights, width, label=name, color="lightgrey" if name == "limit" else None)
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    middle = width * (len(names) - 1) / 2
    axes.set_xticks(
        [at + middle for at in range(len(records))], [r["case"].replace("/", "\n") for r in records]
    )
    axes.set_yscale("log")
    axes.set_ylabel("tokens a second, batch 1")
    axes.set_title(f"Decoding on one {records[-1]['card']}, {records[-1]['date'][:10]}")
    axes.legend(fontsize=7)
    path = results / "decode.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


if __name__ == "__main__":
    print(draw())
