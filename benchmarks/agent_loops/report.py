"""Charts and tables of agent_loops: PNG files, one HTML file that needs nothing else. Knows lines only."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent_loops.compare import newest_of
from benchmarks.agent_loops.measure import PHASES
from benchmarks.common import RESULTS as FOLDER
from kogagent.errors import MissingExtraError

RESULTS = FOLDER / "agent_loops.jsonl"
_COLOURS = (
    "#1f4e79", "#2e75b6", "#9dc3e6", "#7f6000", "#c55a11", "#a9d18e", "#548235", "#ffd966", "#b4a7d6",
    "#674ea7", "#d9d9d9", "#7f7f7f",
)  # fmt: skip

Cases = Mapping[str, Mapping[str, Any]]


def by_case(path: Path) -> dict[str, dict[str, Any]]:
    """case [backend] -> metric -> newest record."""
    found: dict[str, dict[str, Any]] = {}
    for (case, backend, metric), record in newest_of(path).items():
        found.setdefault(f"{case} [{backend}]", {})[metric] = record
    return {case: metrics for case, metrics in found.items() if "turns_s" in metrics}


def write_report(results: Path, folder: Path) -> list[Path]:
    """Write agent-loops-phases.png, agent-loops-peers.png and agent-loops.html; returns the paths."""
    cases = by_case(results)
    if not cases:
        raise ValueError(f"{results} holds no figures of agent_loops. Run: python -m benchmarks.agent_loops")
    folder.mkdir(parents=True, exist_ok=True)
    charts = {"agent-loops-phases": phases_chart(cases), "agent-loops-peers": peers_chart(cases)}
    out = []
    pictures = []
    for name, figure in charts.items():
        if figure is None:
            continue
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=110, bbox_inches="tight")
        out.append(path)
        text = io.StringIO()
        figure.savefig(text, format="svg", bbox_inches="tight")
        pictures.append(text.getvalue()[text.getvalue().index("<svg") :])
    path = folder / "agent-loops.html"
    path.write_text(page(cases, pictures), encoding="utf-8")
    return [*out, path]


def phases_chart(cases: Cases) -> Any:
    """Milliseconds a turn of each phase, a bar a loop; loops on a model, else all."""
    shown = {name: of for name, of in cases.items() if not name.endswith("[scripted]")} or cases
    figure, axes = _axes(len(shown))
    left = [0.0] * len(shown)
    for phase, colour in zip(PHASES, _COLOURS, strict=True):
        values = [float(of[f"{phase}_ms"]["value"]) if f"{phase}_ms" in of else 0.0 for of in shown.values()]
        if any(values):
            axes.barh(list(shown), values, left=left, color=colour, label=phase)
            left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set_xlabel("milliseconds a turn")
    axes.legend(fontsize=8, ncols=6, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    return figure


def peers_chart(cases: Cases) -> Any:
    """Turns a second of each loop that has peers, and of them; None where no loop has any."""
    bars: dict[str, tuple[float, str]] = {}
    for name, of in cases.items():
        if of["turns_s"]["peers"]:
            bars[name] = (float(of["turns_s"]["value"]), "#1f4e79")
            bars |= {f"{peer}, {name}": (float(v), "#9dc3e6") for peer, v in of["turns_s"]["peers"].items()}
    if not bars:
        return None
    figure, axes = _axes(len(bars))
    axes.barh(
        list(bars), [value for value, _ in bars.values()], color=[colour for _, colour in bars.values()]
    )
    axes.set_xlabel("turns a second")
    return figure


def _axes(bars: int) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("The report of agent_loops", "matplotlib", "bench") from error
    figure = Figure(figsize=(9, 1.2 + 0.34 * bars))
    axes = figure.add_subplot()
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def page(cases: Cases, pictures: Sequence[str]) -> str:
    """The whole report as one page without a reference to anything outside it."""
    metrics = list(dict.fromkeys(metric for of in cases.values() for metric in of))
    head = "".join(f"<th>{html.escape(metric)}</th>" for metric in ("loop", *metrics))
    rows = "".join(_table_row(name, of, metrics) for name, of in cases.items())
    newest = max((of["turns_s"] for of in cases.values()), key=lambda record: str(record["date"]))
    peers = "".join(_peers_list(name, of["turns_s"]) for name, of in cases.items() if of["turns_s"]["peers"])
    stamp = html.escape(
        f"{newest['card']}, torch {newest['torch']}, commit {newest['commit']}, {newest['date']}"
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Agent loops</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; font-size: 12px; }}
th, td {{ padding: .2rem .5rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
svg {{ background: #fff; max-width: 100%; height: auto; margin: 1rem 0; }}
</style>
<h1>Agent loops</h1>
<p>{stamp}. Every figure is the median of at least five runs; hover for the range.</p>
{"".join(pictures)}
{peers}
<h2>All figures</h2>
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>
</html>
"""


def _table_row(name: str, of: Mapping[str, Any], metrics: Sequence[str]) -> str:
    cells = "".join(
        f'<td title="{of[m]["min"]:.4g} to {of[m]["max"]:.4g}">{of[m]["value"]:.4g}</td>'
        if m in of
        else "<td></td>"
        for m in metrics
    )
    return f"<tr><td>{html.escape(name)}</td>{cells}</tr>"


def _peers_list(name: str, record: Mapping[str, Any]) -> str:
    lines = "".join(
        f"<tr><td>{html.escape(peer)}</td><td>{value:.4g}</td><td>{record['value'] / value:.2f}</td></tr>"
        for peer, value in record["peers"].items()
        if value
    )
    head = "<tr><th>peer</th><th>turns a second</th><th>ours over it</th></tr>"
    note = html.escape(record["note"])
    title = f"{html.escape(name)}: {record['value']:.4g} turns a second"
    return f"<h2>{title}</h2><p>{note}</p><table>{head}{lines}</table>"
