"""Finding lines that match in the files below a root. Knows bytes and patterns; no tools.

A pattern may take exponential time, and Python's matcher holds the interpreter while it does: `main` is the
same search in a process of its own, that can be killed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from kogagent.errors import Retry, ToolFailed
from kogagent.toolkit.root import Root

_LINE_CHARS = 300
_BINARY_LOOK = 8192


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for and how much at most. files: a glob of paths, "" for all; max_bytes: of one file."""

    pattern: str
    path: str
    files: str = ""
    regex: bool = False
    ignore_case: bool = False
    before: int = 0
    after: int = 0
    max_matches: int = 100
    max_files: int = 20_000
    max_bytes: int = 4 << 20


def search(root: Root, wanted: Search) -> str:
    """The matches as `path:line: text`, lines around them as `path-line- text`. Raises Retry for a pattern
    that is none."""
    matches = _matcher(wanted)
    lines: list[str] = []
    found = looked = skipped = 0
    paths = [wanted.path] if root.kind(wanted.path) == "file" else _files(root, wanted)
    for path in paths:
        if looked == wanted.max_files:
            lines.append(f"[… stopped after {looked} files: search a folder inside]")
            break
        looked += 1
        text = _text(root, path, wanted.max_bytes)
        if text is None:
            skipped += 1
            continue
        rows = text.splitlines()
        hits = [at for at, row in enumerate(rows) if matches(row)]
        over = len(hits) - (wanted.max_matches - found)
        hits = hits[: wanted.max_matches - found]
        found += len(hits)
        lines += _shown(path, rows, hits, wanted)
        if over > 0:
            lines.append(f"[… more than {wanted.max_matches} matches: search for something rarer]")
            break
    if not found:
        lines.append(f"[no match in {looked - skipped} files]")
    if skipped:
        lines.append(f"[{skipped} files are no text, too large or not readable and were left out]")
    return "\n".join(lines)


def _matcher(wanted: Search) -> Callable[[str], object]:
    flags = re.IGNORECASE if wanted.ignore_case else 0
    if not wanted.regex and not wanted.ignore_case:
        return lambda row: wanted.pattern in row
    try:
        return re.compile(wanted.pattern if wanted.regex else re.escape(wanted.pattern), flags).search
    except (re.error, OverflowError, RecursionError) as error:
        raise Retry(f"{wanted.pattern!r} is no regular expression: {error}") from error


def _files(root: Root, wanted: Search) -> Iterator[str]:
    prefix = len("".join(part + "/" for part in root.parts(wanted.path)))
    for entry in root.walk(wanted.path):
        if entry.kind == "file" and (not wanted.files or glob_matches(wanted.files, entry.path[prefix:])):
            yield entry.path


def glob_matches(pattern: str, path: str) -> bool:
    """Whether a path matches a glob: `*` and `?` within a component, `**` for any number of them. A pattern
    without "/" is one of the last component."""
    if "/" not in pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], pattern)
    reached = {0}  # places in the pattern that the components so far can lead to
    parts = pattern.strip("/").split("/")

    def skipping(places: set[int]) -> set[int]:
        out = set(places)
        for at in sorted(places):
            while at < len(parts) and parts[at] == "**":
                at += 1
                out.add(at)
        return out

    reached = skipping(reached)
    for component in path.split("/"):
        stepped = set()
        for at in reached:
            if at < len(parts):
                if parts[at] == "**":
                    stepped.add(at)
                elif fnmatchcase(component, parts[at]):
                    stepped.add(at + 1)
        reached = skipping(stepped)
    return len(parts) in reached


def _text(root: Root, path: str, limit: int) -> str | None:
    """A file's text; None for what is too large, binary or not to be read."""
    try:
        with root.reading(path) as file:
            data = file.read(limit + 1)
    except (Retry, ToolFailed, OSError):
        return None
    if len(data) > limit or b"\0" in data[:_BINARY_LOOK]:
        return None
    return data.decode("utf-8", "replace")


def _shown(path: str, rows: list[str], hits: list[int], wanted: Search) -> list[str]:
    around: dict[int, str] = {}
    for hit in hits:
        for at in range(max(hit - wanted.before, 0), min(hit + wanted.after + 1, len(rows))):
            around.setdefault(at, "-")
        around[hit] = ":"
    lines, last = [], -1
    for at in sorted(around):
        if last >= 0 and at > last + 1 and (wanted.before or wanted.after):
            lines.append("--")
        row = rows[at] if len(rows[at]) <= _LINE_CHARS else rows[at][:_LINE_CHARS] + "…"
        lines.append(f"{path}{around[at]}{at + 1}{around[at]} {row}")
        last = at
    return lines


def request(root: Root, wanted: Search) -> bytes:
    """What `main` reads."""
    return json.dumps({"exclude": root.exclude, **asdict(wanted)}).encode()


def main() -> None:
    """In a child whose working directory is the root: read a request, print {"text": …} or {"retry": …}."""
    asked = json.loads(sys.stdin.read())
    root = Root(".", exclude=asked.pop("exclude"))
    try:
        answer = {"text": search(root, Search(**asked))}
    except (Retry, ToolFailed) as error:
        answer = {"retry": str(error)}
    sys.stdout.write(json.dumps(answer))
