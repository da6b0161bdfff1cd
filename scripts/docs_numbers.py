"""Figures in README and docs come from benchmarks/results: this checks them, or writes them anew (--write).

A figure in Markdown stands between two comments:

    <!--fig decode smollm2-135m/fp16 tok_s value .0f-->63<!--/fig-->

bench, case, metric, field of the record, Python format. The newest record of the three counts; with
"@BACKEND" behind the case, that backend's. "peers.NAME" as the field reads one peer; spaces in a name are
written as underscores.

A whole table stands between two others, which hold a blank line and the table:

    <!--table loop_overhead peers/ us_per_turn ,.0f-->…<!--/table-->

bench, start of the cases ("@BACKEND" behind it as above), metric, Python format: a row for each case, a
column for the value and each peer; with several metrics, comma between them, a column for each instead. The
format "auto" gives three digits or whole numbers. Where nothing was recorded yet the table says so. A metric
with "+peers" behind it is one measured beside peers: a newer record without any does not count.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"<!--fig (\S+) (\S+) (\S+) (\S+) (\S+?)-->(.*?)<!--/fig-->", re.DOTALL)

TABLE = re.compile(r"<!--table (\S+) (\S+) (\S+) (\S+?)-->\n.*?<!--/table-->", re.DOTALL)
RESULTS = ROOT / "benchmarks" / "results"
_BESIDE = "+peers"


def newest(bench: str, case: str, metric: str, results: Path = RESULTS) -> dict[str, Any]:
    """The last record of a bench, case and metric; KeyError when there is none."""
    path = results / f"{bench}.jsonl"
    name, _, backend = case.partition("@")
    found = None
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            same = record["case"].replace(" ", "_") == name and _is(record, metric)
            if same and (not backend or record["backend"] == backend):
                found = record
    if found is None:
        raise KeyError(f"{path} has no record of case {case!r}, metric {metric!r}")
    return dict(found)


def table(bench: str, start: str, metrics: str, form: str, results: Path = RESULTS) -> str:
    """The newest records of the cases with this start as Markdown, a row for each case and backend."""
    asked = metrics.split(",")
    wanted = [metric.removesuffix(_BESIDE) for metric in asked]
    start, _, backend = start.partition("@")
    path = results / f"{bench}.jsonl"
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        record = json.loads(line)
        same = record["case"].replace(" ", "_").startswith(start) and any(_is(record, one) for one in asked)
        if same and backend in ("", record["backend"]):
            found.setdefault((record["case"], record["backend"]), {})[record["metric"]] = record
    if not found:
        return "Not recorded yet."
    records = [record for of in found.values() for record in of.values()]
    peers = list(dict.fromkeys(peer for record in records for peer in record["peers"]))
    columns = wanted if len(wanted) > 1 else ["ours", *peers]
    rows = [["", *columns], ["---"] * (1 + len(columns))]
    for (case, computed), of in found.items():
        values = {metric: record["value"] for metric, record in of.items()}
        if len(wanted) == 1:
            values = {"ours": values[wanted[0]], **of[wanted[0]]["peers"]}
        name = case[len(start) :] + (f" [{computed}]" if computed != "none" else "")
        rows.append([name, *(_shown(values[c], form) if c in values else "" for c in columns)])
    last = max(records, key=lambda record: str(record["date"]))
    notes = list(dict.fromkeys(_brief(record["note"]) for record in records if record["note"]))
    stamp = f"{last['card']}, commit {last['commit']}, {last['date']}. {'. '.join(notes)}".strip()
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\n{stamp}"


def _brief(note: str) -> str:
    """A note without what another program had to say at length: the record has all of it."""
    return "; ".join(textwrap.shorten(part, 160, placeholder=" …") for part in note.split("; "))


def _is(record: dict[str, Any], metric: str) -> bool:
    name = metric.removesuffix(_BESIDE)
    return record["metric"] == name and (name == metric or bool(record["peers"]))


def _shown(value: float, form: str) -> str:
    if form != "auto":
        return format(value, form)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def refreshed(text: str) -> str:
    """The text with every figure cut from the results again."""

    def cut(match: re.Match[str]) -> str:
        bench, case, metric, field, form, _ = match.groups()
        value: Any = newest(bench, case, metric)
        for key in field.split(".", 1):
            if isinstance(value, dict):
                value = {k.replace(" ", "_"): v for k, v in value.items()}
            value = value[key]
        return f"<!--fig {bench} {case} {metric} {field} {form}-->{format(value, form)}<!--/fig-->"

    def rows(match: re.Match[str]) -> str:
        made = table(*match.groups())
        return f"<!--table {' '.join(match.groups())}-->\n\n{made}\n\n<!--/table-->"

    return TABLE.sub(rows, FIGURE.sub(cut, text))


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    stale = []
    for path in pages():
        old = path.read_text(encoding="utf-8")
        new = refreshed(old)
        if new != old:
            stale.append(path)
            if "--write" in sys.argv[1:]:
                path.write_text(new, encoding="utf-8")
    for path in stale:
        print(f"{'rewrote' if '--write' in sys.argv[1:] else 'stale'}: {path.relative_to(ROOT)}")
    return 1 if stale and "--write" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
