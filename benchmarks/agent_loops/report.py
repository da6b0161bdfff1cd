"""Charts and tables of agent_loops: PNG files, one HTML file that needs nothing else. Knows lines only."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent_loops.compare import lines_of, newest_of
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


def beside_peers(path: Path) -> dict[str, dict[str, Any]]:
    """case [backend] -> the newest record of its turns a second that has peers."""
    return {
        f"{record['case']} [{record['backend']}]": record
        for record in lines_of(path)
        if record["metric"] == "turns_s" and record["peers"]
    }


def write_report(results: Path, folder: Path) -> list[Path]:
    """Write agent-loops-phases.png, agent-loops-peers.png and agent-loops.html; returns the paths."""
    cases = by_case(results)
    if not cases:
        raise ValueError(f"{results} holds no figures of agent_loops. Run: python -m benchmarks.agent_loops")
    folder.mkdir(parents=True, exist_ok=True)
    charts = {
        "agent-loops-phases": phases_chart(cases),
        "agent-loops-peers": peers_chart(beside_peers(results)),
    }
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
    path.write_text(page(cases, beside_peers(results), pictures), encoding="utf-8")
    return [*out, path]


def phases_chart(cases: Cases) -> Any:
    """What of a turn each phase takes, a bar a loop with its milliseconds, a panel a machine and backend; of
    loops on a model, else of all."""
    shown = {name: of for name, of in cases.items() if not name.endswith("[scripted]")} or cases
    panels = _panels(shown)
    figure, places = _axes([len(of) for of in panels.values()])
    used: dict[str, Any] = {}
    for axes, (title, loops) in zip(places, panels.items(), strict=True):
        totals = [sum(_phase(of, phase) for phase in PHASES) for of in loops.values()]
        left = [0.0] * len(loops)
        names = [name.rpartition(" [")[0] for name in loops]
        for phase, colour in zip(PHASES, _COLOURS, strict=True):
            shares = [_phase(of, phase) / total for of, total in zip(loops.values(), totals, strict=True)]
            if any(shares):
                used[phase] = axes.barh(names, shares, left=left, color=colour)
                left = [a + b for a, b in zip(left, shares, strict=True)]
        for at, total in enumerate(totals):
            axes.text(1.01, at, f"{_number(total)} ms", va="center", fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.set_title(title, fontsize=9, loc="left")
    places[-1].set_xlabel("of a turn's wall time; its mean in milliseconds")
    order = [phase for phase in PHASES if phase in used]
    figure.legend(
        [used[phase] for phase in order], order, fontsize=8, ncols=6, loc="lower center", frameon=False,
        bbox_to_anchor=(0.5, 1),
    )  # fmt: skip
    return figure


def _phase(of: Mapping[str, Any], phase: str) -> float:
    return max(float(of[f"{phase}_ms"]["value"]), 0.0) if f"{phase}_ms" in of else 0.0


def peers_chart(shown: Mapping[str, Mapping[str, Any]]) -> Any:
    """Turns a second of each loop that has peers, and of them, a panel a loop; None where no loop has any."""
    if not shown:
        return None
    figure, places = _axes([1 + len(record["peers"]) for record in shown.values()])
    for axes, (name, record) in zip(places, shown.items(), strict=True):
        bars = {"ours": float(record["value"]), **record["peers"]}
        axes.barh(list(bars), list(bars.values()), color=["#1f4e79", *["#9dc3e6"] * len(record["peers"])])
        for at, value in enumerate(bars.values()):
            axes.text(value, at, f" {_number(value)}", va="center", fontsize=8)
        axes.set_title(f"{name}, {record['card']}", fontsize=9, loc="left")
    places[-1].set_xlabel("turns a second")
    return figure


def _panels(cases: Cases) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The loops of each machine and backend."""
    panels: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, of in cases.items():
        title = f"{of['turns_s']['card']}, {of['turns_s']['backend']}"
        panels.setdefault(title, {})[name] = of
    return panels


def _axes(bars: Sequence[int]) -> tuple[Any, list[Any]]:
    """A figure with a panel under the other for so many bars each."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("The report of agent_loops", "matplotlib", "bench") from error
    height = 0.5 + sum(0.9 + 0.27 * count for count in bars)
    figure = Figure(figsize=(9, height), layout="constrained")
    found = figure.subplots(len(bars), squeeze=False, height_ratios=[0.9 + 0.27 * count for count in bars])
    for axes in found[:, 0]:
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.02)
    return figure, list(found[:, 0])


def page(cases: Cases, compared: Mapping[str, Mapping[str, Any]], pictures: Sequence[str]) -> str:
    """The whole report as one page without a reference to anything outside it."""
    peers = "".join(_peers_list(name, record) for name, record in compared.items())
    tables = "".join(_table(title, of) for title, of in _panels(cases).items())
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Agent loops</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; font-size: 12px; }}
th, td {{ padding: .2rem .5rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; position: sticky; left: 0; background: Canvas; }}
svg {{ background: #fff; max-width: 100%; height: auto; margin: 1rem 0; }}
@media (prefers-color-scheme: dark) {{ svg {{ filter: invert(.93) hue-rotate(180deg); }} }}
</style>
<h1>Agent loops</h1>
<p>Every figure is the median of at least five runs; hover for the range.</p>
{"".join(pictures)}
{peers}
<h2>All figures</h2>
{tables}
</html>
"""


def _table(title: str, cases: Cases) -> str:
    metrics = list(dict.fromkeys(metric for of in cases.values() for metric in of))
    head = "".join(f"<th>{html.escape(metric)}</th>" for metric in ("loop", *metrics))
    rows = "".join(_table_row(name.rpartition(" [")[0], of, metrics) for name, of in cases.items())
    newest = max((of["turns_s"] for of in cases.values()), key=lambda record: str(record["date"]))
    stamp = html.escape(f"{title}, torch {newest['torch']}, commit {newest['commit']}, {newest['date']}")
    return f"<h3>{stamp}</h3><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _number(value: float) -> str:
    """Three or four digits, never an exponent."""
    return (
        f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.5f}"
    )


def _table_row(name: str, of: Mapping[str, Any], metrics: Sequence[str]) -> str:
    cells = "".join(
        f'<td title="{_number(of[m]["min"])} to {_number(of[m]["max"])}">{_number(of[m]["value"])}</td>'
        if m in of
        else "<td></td>"
        for m in metrics
    )
    return f"<tr><td>{html.escape(name)}</td>{cells}</tr>"


def _peers_list(name: str, record: Mapping[str, Any]) -> str:
    lines = "".join(
        f"<tr><td>{html.escape(peer)}</td><td>{_number(value)}</td>"
        f"<td>{record['value'] / value:.2f}</td></tr>"
        for peer, value in record["peers"].items()
        if value
    )
    head = "<tr><th>peer</th><th>turns a second</th><th>ours over it</th></tr>"
    note = "<br>".join(html.escape(part) for part in record["note"].split("; "))
    title = f"{html.escape(name)}: {_number(record['value'])} turns a second"
    return f"<h2>{title}</h2><p>{note}</p><table>{head}{lines}</table>"
