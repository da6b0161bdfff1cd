"""Finding names of special tokens in text, fast enough for every message. Knows no ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_SHORT, _KEPT = 64, 1024  # characters of a text whose breaks are remembered; how many texts


class Names:
    """A set of names to look for. Each may start anywhere; the longest that starts first wins."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._lengths = sorted({len(name) for name in self._names}, reverse=True)
        self.single = sorted(name for name in self._names if len(name) == 1)
        """Names of one character: nothing can be put inside them."""
        self._heads = frozenset(name[:2] for name in self._names)
        firsts = sorted({name[0] for name in self._names})
        self._first = re.compile("[" + "".join(map(re.escape, firsts)) + "]") if firsts else None
        self._known = lru_cache(_KEPT)(self._breaks)  # names of tools and the like come again and again
        self._prefixes = frozenset(name[:n] for name in self._names for n in range(1, len(name)))
        self._suffixes = frozenset(name[-n:] for name in self._names for n in range(1, len(name)))

    def split(self, text: str) -> list[str]:
        """Text and names in turn, text first and last: ["a", "<s>", "", "</s>", "b"]."""
        out: list[str] = []
        done = 0
        for at in self._candidates(text):
            name = self._at(text, at) if at >= done else None
            if name is not None:
                out += (text[done:at], name)
                done = at + len(name)
        out.append(text[done:])
        return out

    def breaks(self, text: str) -> tuple[int, ...]:
        """Places in a text such that, with something put in each, no name is left in it, nor can its ends
        (white space taken off or not) be part of a name that its surroundings complete."""
        return self._known(text) if len(text) <= _SHORT else self._breaks(text)

    def _breaks(self, text: str) -> tuple[int, ...]:
        places = {at + 1 for at in self._candidates(text) if self._at(text, at) is not None}
        left, right = len(text) - len(text.lstrip()), len(text.rstrip())
        most = self._lengths[0] if self._lengths else 0
        for start in {0, left}:
            for end in range(start + 1, min(start + most, len(text)) + 1):
                if text[start:end] in self._suffixes:
                    places.add(end - 1)
        for end in {len(text), right}:
            for start in range(max(end - most, 0), end):
                if text[start:end] in self._prefixes:
                    places.add(start + 1)
        inner = text.strip()
        if inner and len(inner) < most and any(inner in name for name in self._names):
            places.add(left)
        return tuple(sorted(places))

    def _candidates(self, text: str) -> Iterator[int]:
        return (match.start() for match in self._first.finditer(text)) if self._first else iter(())

    def _at(self, text: str, start: int) -> str | None:
        if text[start : start + 2] not in self._heads:
            return None
        for length in self._lengths:
            piece = text[start : start + length]
            if piece in self._names:
                return piece
        return None
