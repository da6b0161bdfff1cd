"""Small scanners over symbols, for the turn parser. Knows no events and no call format."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

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

    def __init__(self, symbols: tuple[int, ...]) -> None:
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

    def run(self, text: bytes, at: int) -> tuple[int, bool]:
        """(how many bytes from there on are its very next symbols, and are taken; whether it is complete).
        0 where only `step` can tell."""
        expected = _bytes_from(self._symbols, self._at)
        size = min(len(text) - at, len(expected))
        if not size or not text.startswith(expected[:size], at):
            return 0, False
        self._at += size
        return size, self._at == len(self._symbols)

    def _next(self) -> Progress:
        self._at += 1
        return Progress.DONE if self._at == len(self._symbols) else Progress.MORE


@lru_cache(maxsize=1024)
def _bytes_from(symbols: tuple[int, ...], at: int) -> bytes:
    """The symbols from a place on, up to the next that is no byte."""
    rest = symbols[at:]
    return bytes(rest[: next((i for i, symbol in enumerate(rest) if symbol > 255), len(rest))])
