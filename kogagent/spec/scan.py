"""How a format's text is found in what a model writes: symbols, triggers, code fences.

The grammar walks these steps when it is compiled (engine/grammar/turn.py), the parser when it reads
(chat/parser.py). A symbol is a byte, END for any end id, or SPECIAL + the id of a special token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

END = 256
SPECIAL = 257

FenceState = tuple[str, str]
"""(the mark an open code fence was opened with, or ""; where on its line the text is)."""

LINE_START = "line"
INSIDE = "inside"
NO_FENCE: FenceState = ("", LINE_START)


def spell(text: str, names: Mapping[str, int]) -> tuple[int, ...]:
    """The symbols of a format's text: its bytes, and where the name of a special id stands, that id."""
    out: list[int] = []
    longest_first = sorted((name for name in names if name and name in text), key=len, reverse=True)
    at = 0
    while at < len(text):
        name = next((name for name in longest_first if text.startswith(name, at)), None)
        if name is None:
            out += text[at].encode()
            at += 1
        else:
            out.append(SPECIAL + names[name])
            at += len(name)
    return tuple(out)


def trigger_of(symbols: Sequence[int]) -> tuple[int, ...]:
    """What starts the calls: one that begins with a special id is that id alone; nothing else writes it."""
    return tuple(symbols[:1]) if symbols and symbols[0] >= SPECIAL else tuple(symbols)


@lru_cache(maxsize=256)
def _falls(pattern: tuple[int, ...]) -> tuple[int, ...]:
    """Knuth-Morris-Pratt: what stays matched after a mismatch."""
    falls = [0] * len(pattern)
    for i in range(1, len(pattern)):
        k = falls[i - 1]
        while k and pattern[i] != pattern[k]:
            k = falls[k - 1]
        falls[i] = k + (pattern[i] == pattern[k])
    return tuple(falls)


def matched(pattern: tuple[int, ...], length: int, symbol: int) -> int:
    """Of a text that ends in `length` symbols of `pattern`: how many it ends in after one symbol more.

    len(pattern) where the pattern is complete; `length` must be less than that.
    """
    while length and pattern[length] != symbol:
        length = _falls(pattern)[length - 1]
    return length + 1 if pattern[length] == symbol else 0


def fence_step(state: FenceState, byte: int) -> FenceState:
    """Where one byte of text leads.

    A line that starts with ``` or ~~~, after at most three blanks, opens a code fence; the next line that
    starts with the same closes it.
    """
    fence, line = state
    char = chr(byte)
    if char == "\n":
        return fence, LINE_START
    if line.startswith(LINE_START):
        if char == " " and len(line) < len(LINE_START) + 3:
            return fence, line + " "
        if char in "`~" and (not fence or fence == char):
            return fence, char
        return fence, INSIDE
    if line[0] in "`~" and char == line[0]:
        if len(line) == 2:
            return "" if fence else char, INSIDE
        return fence, line + char
    return fence, INSIDE
