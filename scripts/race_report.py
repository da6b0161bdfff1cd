"""Sorts what compute-sanitizer's racecheck says of the decode kernel by source line.

    python scripts/race_report.py LOG

A line for each pair of places, with the source there and how often. Pairs that docs/kernel.md shows to be
ordered by mbarriers or bulk copies, which the checker does not follow, or to be flags, are named by their
buffer; for any other, or if the log holds no report of the tool, the exit status is 1.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "kogagent" / "kernels" / "csrc"
# Of each pair both places must be the buffer's: what writes it, and what reads it.
ORDERED = {
    "ring": r"load_shared_16|load_shared_transposed|bulk_copy|copy_16|ld\.shared|ldmatrix|cp\.async",
    "late": r"landing\[|float2\*\)\(to \+ w",
    "z": r"verdicts\[|z\[r\]|float x = logits",
    "grammar": r"misc\.(grammar|token|run|emitted)|relay\.|\b(c|at)\.(state|top|site|count|below)",
    "flags": r"quit|aborted|progress|gone|cached",
}
_PLACE = re.compile(r"(Read|Write) access at .*?(\w+\.cuh?):(\d+)(?:.*?\[(\d+) hazards?\])?")

Place = tuple[str, str, int]


def pairs(log: str) -> Counter[tuple[Place, Place]]:
    """Pairs of (access, file, line) and the hazards between them."""
    found: Counter[tuple[Place, Place]] = Counter()
    for report in re.split(r"\n(?==+ +(?:Error|Warning|Info)?:? ?(?:Race|Potential))", log):
        (kind, file, line, _), *others = _PLACE.findall(report) or [("", "", "0", "")]
        for other, where, at, count in others:
            ends = sorted(((kind, file, int(line)), (other, where, int(at))), key=lambda place: place[1:])
            found[ends[0], ends[1]] += int(count or 1)
    return found


def text_of(place: Place) -> str:
    path = SOURCE / place[1]
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return lines[place[2] - 1].strip() if place[2] <= len(lines) else "?"


def buffer_of(first: Place, second: Place) -> str | None:
    texts = text_of(first), text_of(second)
    return next((name for name, known in ORDERED.items() if all(re.search(known, t) for t in texts)), None)


def main(log: str) -> int:
    if "RACECHECK SUMMARY" not in log:
        print("the log has no RACECHECK SUMMARY: the checker did not end")
        return 1
    unknown = 0
    for (first, second), count in sorted(
        pairs(log).items(), key=lambda item: (item[0][0][1:], item[0][1][1:])
    ):
        name = buffer_of(first, second)
        unknown += name is None
        print(f"{count:7}  {name or 'NOT KNOWN TO BE ORDERED'}")
        for kind, file, line in (first, second):
            print(f"         {kind:5} {file}:{line}  {text_of((kind, file, line))[:100]}")
    print(f"{unknown} pairs are not known to be ordered")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")))
