"""Sets of code points: those of a class, of an escape, of a letter's cases. Knows no patterns."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from kogagent.engine.grammar.dfa import MAX_CODE_POINT, Range


def ranges_of(points: Sequence[Range]) -> tuple[Range, ...]:
    """Sorted, disjoint, joined."""
    out: list[Range] = []
    for first, last in sorted(points):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def inverse(points: Sequence[Range]) -> tuple[Range, ...]:
    out: list[Range] = []
    begin = 0
    for first, last in ranges_of(points):
        if first > begin:
            out.append((begin, first - 1))
        begin = last + 1
    if begin <= MAX_CODE_POINT:
        out.append((begin, MAX_CODE_POINT))
    return tuple(out)


ANY = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
DIGIT = ((0x30, 0x39),)
WORD = ranges_of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACES = (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)
SPACE = ranges_of([*((c, c) for c in _SPACES), (0x2000, 0x200A)])
DOT = inverse([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])

CLASSES = {
    "d": DIGIT,
    "D": inverse(DIGIT),
    "w": WORD,
    "W": inverse(WORD),
    "s": SPACE,
    "S": inverse(SPACE),
}
CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0x00}
_CATEGORIES = {
    "Letter": "L",
    "Lowercase_Letter": "Ll",
    "Uppercase_Letter": "Lu",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Punctuation": "P",
    "punct": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Mark": "M",
    "Other": "C",
}


@lru_cache(maxsize=32)
def category(name: str) -> tuple[Range, ...] | None:
    """Code points of a Unicode general category by short or long name; None when there is no such one."""
    short = _CATEGORIES.get(name, name)
    if not 1 <= len(short) <= 2:
        return None
    points = [c for c in range(MAX_CODE_POINT + 1) if unicodedata.category(chr(c)).startswith(short)]
    return ranges_of([(c, c) for c in points]) or None


def both_cases(points: Sequence[Range]) -> tuple[Range, ...]:
    """With the other case of each letter of ASCII."""
    more = [
        (max(first, low) + there, min(last, low + 25) + there)
        for first, last in points
        for low, there in ((0x41, 32), (0x61, -32))
        if first <= low + 25 and last >= low
    ]
    return ranges_of([*points, *more])


def _holds(points: Sequence[Range], letters: str) -> bool:
    return any(first <= ord(letter) <= last for first, last in points for letter in letters)


def all_cases(points: Sequence[Range]) -> tuple[Range, ...]:
    """The same with the signs that fold to a letter of ASCII: the Kelvin sign to k, the long s to s."""
    more = [(sign, sign) for sign, letters in ((0x212A, "kK"), (0x17F, "sS")) if _holds(points, letters)]
    return both_cases([*points, *more])
