"""Code-point ranges as byte sequences, plain and inside a string. Knows no automaton, no tokens."""

from __future__ import annotations

from functools import lru_cache

from kogagent.spec.values import ESCAPES, Escapes

Spans = tuple[tuple[int, int], ...]
"""One sequence of bytes a span each: all texts whose i-th byte lies in the i-th span."""

_WIDTH_ENDS = (0x7F, 0x7FF, 0xD7FF, 0xFFFF, 0x10FFFF)


@lru_cache(maxsize=4096)
def sequences(first: int, last: int) -> tuple[Spans, ...]:
    """UTF-8 of the code points first..last; surrogates are left out."""
    out: list[Spans] = []
    begin = first
    for end in _WIDTH_ENDS:
        if begin > last:
            break
        if end == 0xFFFF and begin <= 0xDFFF:
            begin = max(begin, 0xE000)
        stop = min(end, last)
        if begin <= stop:
            out.extend(_same_width(begin, stop))
            begin = stop + 1
    return tuple(out)


def _same_width(first: int, last: int) -> list[Spans]:
    low, high = chr(first).encode(), chr(last).encode()
    if len(low) == 1:
        return [((low[0], high[0]),)]
    # Split where a byte changes while those behind it do not run over their full span.
    for i in range(1, len(low)):
        mask = (1 << (6 * i)) - 1
        if first & ~mask != last & ~mask:
            if first & mask:
                return _same_width(first, first | mask) + _same_width((first | mask) + 1, last)
            if last & mask != mask:
                return _same_width(first, (last & ~mask) - 1) + _same_width(last & ~mask, last)
    return [tuple(zip(low, high, strict=True))]


@lru_cache(maxsize=4096)
def escaped_sequences(first: int, last: int, escapes: Escapes) -> tuple[Spans, ...]:
    """The code points first..last as a string writes them canonically: escaped only where they must be."""
    known = ESCAPES[escapes]
    out: list[Spans] = []
    begin = first
    for point in sorted(p for p in known if first <= p <= last):
        if begin < point:
            out.extend(sequences(begin, point - 1))
        out.append(tuple((byte, byte) for byte in known[point].encode()))
        begin = point + 1
    if begin <= last:
        out.extend(sequences(begin, last))
    return tuple(out)
