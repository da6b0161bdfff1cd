"""Small scanners over symbols, for the turn parser: literals, triggers, code fences, ends of JSON objects.

A symbol is a byte 0..255 or 256 + the id of a special token. Knows no events and no call format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

SPECIAL = 256
_SPACES = frozenset(b" \t\r\n")


def is_space(symbol: int) -> bool:
    return symbol in _SPACES


def bytes_of(symbols: Iterable[int]) -> bytes:
    """The symbols that are bytes; special ids have no text."""
    return bytes(symbol for symbol in symbols if symbol < SPECIAL)


def spell(text: str, names: Mapping[str, int]) -> tuple[int, ...]:
    """The symbols of a format's text: where the name of a special id stands, that id, else bytes."""
    out: list[int] = []
    longest_first = sorted((name for name in names if name in text), key=len, reverse=True)
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


class Progress(Enum):
    """What a literal makes of a symbol. PAST: it was complete before this symbol, which is none of it."""

    MORE = 0
    DONE = 1
    PAST = 2
    FAIL = 3


class Literal:
    """Expects given symbols; white space may be more or less than there."""

    def __init__(self, symbols: Sequence[int]) -> None:
        self._symbols = symbols
        self._at = 0

    def step(self, symbol: int) -> Progress:
        symbols = self._symbols
        if is_space(symbol):
            if self._at < len(symbols) and is_space(symbols[self._at]):
                return self._next()
            return Progress.MORE
        while self._at < len(symbols) and is_space(symbols[self._at]):
            self._at += 1
        if self._at == len(symbols):
            return Progress.PAST
        return self._next() if symbols[self._at] == symbol else Progress.FAIL

    def _next(self) -> Progress:
        self._at += 1
        return Progress.DONE if self._at == len(self._symbols) else Progress.MORE


class Fence:
    """Whether text is inside a code fence, one byte after the other.

    A line that starts with ``` or ~~~, after at most three blanks, opens one; the next line that starts with
    the same closes it. The grammar walks the same states.
    """

    def __init__(self) -> None:
        self.mark = ""  # what the open fence was opened with
        self._blanks = 0
        self._run = ""  # marks at the start of this line so far
        self._at_start = True

    def step(self, byte: int) -> None:
        char = chr(byte)
        if char == "\n":
            self.line_start()
        elif not self._at_start:
            return
        elif not self._run and char == " " and self._blanks < 3:
            self._blanks += 1
        elif char in "`~" and (char == self._run[0] if self._run else self.mark in ("", char)):
            self._run += char
            if len(self._run) == 3:
                self.mark = "" if self.mark else char
                self._at_start = False
        else:
            self._at_start = False

    def line_start(self) -> None:
        self._blanks, self._run, self._at_start = 0, "", True

    def inside_line(self) -> None:
        """Something other than text stood here: no fence opens before the next line."""
        self._at_start = False


class Trigger:
    """A trigger to be found in text: one special id, or bytes wherever tokens end. Holds no state."""

    def __init__(self, symbols: tuple[int, ...]) -> None:
        self.symbols = symbols
        self._special = symbols[0] >= SPECIAL
        self._falls = [0] * len(symbols)  # Knuth-Morris-Pratt: what stays matched after a mismatch
        for i in range(1, len(symbols)):
            k = self._falls[i - 1]
            while k and symbols[i] != symbols[k]:
                k = self._falls[k - 1]
            self._falls[i] = k + (symbols[i] == symbols[k])

    def step(self, matched: int, byte: int) -> tuple[int, bool]:
        """After one byte of text: how many bytes at its end may still become the trigger, and whether it is
        complete."""
        if self._special:
            return 0, False
        while matched and self.symbols[matched] != byte:
            matched = self._falls[matched - 1]
        if self.symbols[matched] == byte:
            matched += 1
        return (0, True) if matched == len(self.symbols) else (matched, False)


class JsonEnd:
    """Finds the end of a JSON object or array that starts with its first byte."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False

    def step(self, byte: int) -> bool:
        """Take one byte; whether the value is closed with it."""
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif byte == 0x5C:
                self._escaped = True
            elif byte == 0x22:
                self._in_string = False
        elif byte == 0x22:
            self._in_string = True
        elif byte in b"{[":
            self._depth += 1
        elif byte in b"}]":
            self._depth -= 1
        return self._depth == 0 and not self._in_string
