"""Small scanners over symbols, for the turn parser. Knows no events and no call format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from kogagent.chat.reader import is_space


def bytes_of(symbols: Iterable[int]) -> bytes:
    """The symbols that are bytes; special ids have no text."""
    return bytes(symbol for symbol in symbols if symbol < 256)


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
