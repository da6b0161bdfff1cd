"""What a JSON text that was cut ran on in. Pure: knows JSON alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?P<end>"|\\?\Z)|[][{},:]|[^][{},:"\s]+', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")


@dataclass(slots=True)
class _Open:
    """A value that has begun. key: of an object's running entry."""

    kind: str
    start: int
    key: str = ""
    entries: int = 1


def ran_on_in(text: str) -> str:
    """The innermost value that makes up half of the text or more, in words: "a text at 'sights[2]', 3,900
    characters long by then". "" for a text that is no JSON which was cut."""
    stack: list[_Open] = []
    keyed = True  # a text here is an entry's key, if it stands in an object
    for token in _TOKEN.finditer(text):
        word, kind = token[0], token[0][0]
        if kind in "{[":
            stack.append(_Open(kind, token.start()))
        elif kind in "}]":
            if not stack or (stack[-1].kind == "{") != (kind == "}"):
                return ""
            stack.pop()
        elif kind == ",":
            if not stack:
                return ""
            stack[-1].entries, stack[-1].key = stack[-1].entries + 1, ""
        elif kind == '"' and token["end"] != '"':
            stack.append(_Open('"', token.start()))
        elif kind == '"' and keyed and stack:
            stack[-1].key = word[1:-1]
        elif _NUMBER.fullmatch(word):
            if token.end() == len(text):
                stack.append(_Open("0", token.start()))
        elif kind not in '":' and word not in ("true", "false", "null") and token.end() < len(text):
            return ""
        keyed = kind in "{,"
    half = len(text) / 2
    at = max((n for n, one in enumerate(stack) if len(text) - one.start >= half), default=-1)
    if at < 0:
        return ""
    # An entry whose key is still being written has none.
    around = [one for one in stack[:at] if one.kind == "[" or one.key]
    path = "".join(f"[{one.entries - 1}]" if one.kind == "[" else f".{one.key}" for one in around)
    place = f" at {path.removeprefix('.')!r}" if path else ""
    size = len(text) - stack[at].start
    match stack[at].kind:
        case '"':
            return f"a text{place}, {size - 1:,} characters long by then"
        case "0":
            return f"a number{place}, {size:,} characters long by then"
        case "[":
            return f"a list{place}, at item {stack[at].entries:,} by then"
        case _:
            return f"an object{place}, at entry {stack[at].entries:,} by then"
