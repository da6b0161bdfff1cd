"""The states every automaton shares: string bodies and free numbers of JSON. Knows no schema, no tokens.

They stand in front, so their numbers are the same in every grammar and what is computed for them once per
vocabulary serves all grammars.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kogagent.engine.grammar.automaton import COUNT, RETURN
from kogagent.engine.grammar.builder import Builder
from kogagent.engine.grammar.numbers import free_number
from kogagent.engine.grammar.utf8 import Spans, sequences

QUOTE, BACKSLASH = 0x22, 0x5C


@dataclass(frozen=True)
class Library:
    """text: the body of a string, any spelling, behind its opening quote; counts code points.
    key: the same with the one canonical spelling, so that different bytes are different names.
    integer, decimal: rows that call a free number, as symbol -> entry state."""

    builder: Builder
    text: int
    key: int


def _body(builder: Builder, escapes: bytes, unicode: bool) -> int:
    """States of a string body: COUNT on the first byte of each code point, RETURN on the quote."""
    start = builder.state()
    row = builder.rows[start]
    tails: dict[Spans, int] = {(): start}

    def tail(spans: Spans) -> int:
        if spans not in tails:
            state = tails[spans] = builder.state()
            for byte in range(spans[0][0], spans[0][1] + 1):
                builder.rows[state][byte] = tail(spans[1:])
        return tails[spans]

    for spans in (*sequences(0x20, 0x21), *sequences(0x23, 0x5B), *sequences(0x5D, 0x10FFFF)):
        target = tail(spans[1:])
        for byte in range(spans[0][0], spans[0][1] + 1):
            row[byte] = target | COUNT
    escape = builder.state({byte: start for byte in escapes})
    row[BACKSLASH] = escape | COUNT
    row[QUOTE] = RETURN
    hexes, low_d = b"0123456789abcdefABCDEF", b"dD"
    if unicode:
        # \uD800-\uDBFF needs \uDC00-\uDFFF behind it, which stands nowhere else: a pair is one code point.
        last = builder.state(dict.fromkeys(hexes, start))
        third = builder.state(dict.fromkeys(hexes, last))
        second = builder.state(dict.fromkeys(hexes, third))
        low = builder.literal(b"\\u", builder.state())
        dc = builder.state(dict.fromkeys(b"cdefCDEF", third))
        builder.rows[builder.rows[builder.rows[low][BACKSLASH]][ord("u")]].update(dict.fromkeys(low_d, dc))
        high_last = builder.state(dict.fromkeys(hexes, low))
        high_third = builder.state(dict.fromkeys(hexes, high_last))
        after_d = builder.state(dict.fromkeys(b"01234567", third) | dict.fromkeys(b"89abAB", high_third))
        first = builder.state({byte: after_d if byte in low_d else second for byte in hexes})
        builder.rows[escape][ord("u")] = first
    return start


@lru_cache(maxsize=8)
def library(digits: int, missing: frozenset[int] = frozenset()) -> Library:
    """The shared states; missing: bytes for which a vocabulary has no token."""
    builder = Builder(name=f"json/{digits}/{sorted(missing)}")
    text = _body(builder, b'"\\/bfnrt', unicode=True)
    # Only the spelling json.dumps would choose: no \/, no \u (control characters without a letter stay out).
    key = _body(builder, b'"\\bfnrt', unicode=False)
    builder.bodies = frozenset(range(text, len(builder.rows)))
    for integer, zero_fraction in ((True, False), (True, True), (False, False)):
        builder.rule(free_number(integer, zero_fraction, digits))
    builder.without(missing, 3)
    return Library(builder, text, key)
