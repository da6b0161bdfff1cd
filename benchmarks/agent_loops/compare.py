"""Two results of agent_loops side by side. Knows lines, runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str, str, str]
_MORE_IS_BETTER = ("turns_s", "reused_tokens", "forced_tokens")


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Every line of a file. ValueError for one that is no record."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            _ = record["case"], record["backend"], record["metric"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number} is no record of a benchmark ({error!r})") from error
        yield record


def newest_of(path: Path) -> dict[Key, dict[str, Any]]:
    """The newest line of each case, backend and metric of a file, in the order of their first lines."""
    return {(one["case"], one["backend"], one["metric"]): one for one in lines_of(path)}


def compare(old: Path, new: Path) -> str:
    """A table: each figure that both have, its change, and whether the ranges of the repeats are apart. What
    only one of them has is listed under it."""
    before, after = newest_of(old), newest_of(new)
    rows: list[tuple[str, ...]] = [("case", "metric", "old", "new", "new/old", "")]
    rows += [_row(key, record, after[key]) for key, record in before.items() if key in after]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    for name, here, there in (("old", before, after), ("new", after, before)):
        only = sorted({f"{case} [{backend}]" for case, backend, metric in here.keys() - there.keys()})
        if only:
            lines.append(f"only in {name}: {', '.join(only)}")
    machines = {record["card"] for record in (*before.values(), *after.values())}
    if len(machines) > 1:
        lines.append(f"different machines: {' | '.join(sorted(machines))}")
    return "\n".join(lines)


def _row(key: Key, old: dict[str, Any], new: dict[str, Any]) -> tuple[str, ...]:
    case, backend, metric = key
    ratio = new["value"] / old["value"] if old["value"] else float("nan")
    apart = new["min"] > old["max"] or new["max"] < old["min"]
    better = (ratio > 1) == (metric in _MORE_IS_BETTER)
    verdict = ("better" if better else "worse") if apart and metric != "growth" else ""
    return (
        f"{case} [{backend}]",
        metric,
        f"{old['value']:.4g}",
        f"{new['value']:.4g}",
        f"{ratio:.2f}",
        verdict,
    )
