"""JSON numbers inside bounds as automata over their text. Knows no schema, no bytes.

A number is written without leading zeros or a plus sign; with bounds or multipleOf also without an exponent,
so that a finite automaton can compare it digit by digit. Exact: bounds are fractions of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from kogagent.engine.grammar.dfa import MAX_STATES, Dfa, TooManyStates, explore, intersect, literals
from kogagent.engine.grammar.regex import compile_pattern

FLOAT_DIGITS = 15
"""Every decimal of so many digits survives a double: longer integers are not written with a fraction."""

_FRACTIONS = r"-?(0|[1-9][0-9]{0,7})\.[0-9]{0,6}[1-9]"
"""Numbers that are no integers, as doubles neither: at most FLOAT_DIGITS digits."""

_ZERO, _DOT, _MINUS, _PLUS = ord("0"), ord("."), ord("-"), ord("+")


Key = tuple[object, ...]
"""What tells two beginnings of a number apart: phase, sign and what may still follow."""


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= x <= high, each optional, exclusive where it is open; x a multiple of `multiple` if given, an
    integer, or fractional: no integer."""

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    multiple: Fraction | None = None
    integer: bool = False
    fractional: bool = False

    @property
    def empty(self) -> bool:
        """Whether the bounds alone exclude every number."""
        if self.integer and self.fractional:
            return True
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))

    @property
    def free(self) -> bool:
        return self.low is None and self.high is None and self.multiple is None and not self.fractional

    def above(self, x: Fraction) -> bool:
        return self.high is not None and (x > self.high or (x == self.high and self.high_open))

    def below(self, x: Fraction) -> bool:
        return self.low is not None and (x < self.low or (x == self.low and self.low_open))

    def holds(self, x: Fraction) -> bool:
        if self.above(x) or self.below(x):
            return False
        if (self.integer and x.denominator != 1) or (self.fractional and x.denominator == 1):
            return False
        return self.multiple is None or (x / self.multiple).denominator == 1

    def mirrored(self) -> Interval:
        """The magnitudes of its negative numbers."""
        low = None if self.low is None else -self.low
        high = None if self.high is None else -self.high
        return Interval(high, low, self.high_open, self.low_open, self.multiple, self.integer)


def _beyond_doubles(interval: Interval) -> Interval:
    """Open bounds moved to the next double: a reader who rounds to doubles must not land on the bound."""

    def moved(bound: Fraction, to: float) -> tuple[Fraction, bool]:
        try:
            after = math.nextafter(float(bound), to)
        except OverflowError:
            return bound, True
        return (Fraction(repr(after)), False) if math.isfinite(after) else (bound, True)

    low, low_open, high, high_open = interval.low, interval.low_open, interval.high, interval.high_open
    if low is not None and low_open:
        low, low_open = moved(low, math.inf)
    if high is not None and high_open:
        high, high_open = moved(high, -math.inf)
    return replace(interval, low=low, low_open=low_open, high=high, high_open=high_open)


def lcm(a: Fraction, b: Fraction) -> Fraction:
    """The least positive common multiple of two positive fractions."""
    return Fraction(
        math.lcm(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def decimals(x: Fraction) -> int | None:
    """Fraction digits `x` needs; None when it has no finite decimal text."""
    twos = fives = 0
    rest = x.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


@lru_cache(maxsize=512)
def free_number(integer: bool, zero_fraction: bool, digits: int) -> Dfa:
    """Any number: `digits` digits before and behind the point, an exponent of two; or any integer.

    zero_fraction: an integer may end in ".0".
    """
    places, exponent = (digits, 2) if not integer else (int(zero_fraction), 0)

    def moves(key: tuple[str, int]) -> Iterator[tuple[int, int, tuple[str, int]]]:
        kind, n = key
        if kind == "start":
            yield _MINUS, _MINUS, ("minus", 0)
        if kind in ("int", "zero") and places and (n <= FLOAT_DIGITS or not integer):
            yield _DOT, _DOT, ("dot", 0)
        if kind in ("start", "minus"):
            if kind == "start" or not integer:
                yield _ZERO, _ZERO, ("zero", 0)
            yield _ZERO + 1, _ZERO + 9, ("int", 1)
        elif kind == "int" and n < digits:
            yield _ZERO, _ZERO + 9, ("int", n + 1)
        elif kind in ("dot", "fraction") and n < places:
            yield _ZERO, _ZERO if integer else _ZERO + 9, ("fraction", n + 1)
        elif kind in ("e", "sign", "exponent") and n < exponent:
            if kind == "e":
                yield _PLUS, _PLUS, ("sign", 0)
                yield _MINUS, _MINUS, ("sign", 0)
            yield _ZERO, _ZERO + 9, ("exponent", n + 1)
        if kind in ("int", "zero", "fraction") and exponent:
            yield ord("E"), ord("E"), ("e", 0)
            yield ord("e"), ord("e"), ("e", 0)

    dfa = explore(("start", 0), moves, lambda key: key[0] in ("int", "zero", "fraction", "exponent"))
    assert dfa is not None
    return dfa


def _few(interval: Interval, multiple: Fraction | None, zero_fraction: bool) -> Dfa | None:
    """The integers of an interval, where they are few multiples of a large number: cheaper one by one."""
    low, high = interval.low, interval.high
    if not interval.integer or multiple is None or multiple < 100 or low is None or high is None:
        return None
    first, last = math.ceil(low / multiple), math.floor(high / multiple)
    if not 0 < last - first + 1 <= 512:
        return None
    texts = [str(int(k * multiple)) for k in range(first, last + 1) if interval.holds(k * multiple)]
    texts += [text + ".0" for text in texts if zero_fraction and len(text.lstrip("-")) <= FLOAT_DIGITS]
    return literals(texts) if texts else None


@lru_cache(maxsize=512)
def bounded_number(interval: Interval, zero_fraction: bool, digits: int) -> Dfa | None:
    """The numbers of an interval. None when no number of that many digits lies in it.

    Raises TooManyStates when multipleOf needs too large an automaton.
    """
    if interval.fractional:
        any_ = bounded_number(replace(interval, fractional=False), zero_fraction, digits)
        fractions = compile_pattern(_FRACTIONS, whole=True)
        assert fractions is not None
        return None if any_ is None or interval.integer else intersect(any_, fractions)
    if interval.free:
        return free_number(interval.integer, zero_fraction, digits)
    multiple = interval.multiple
    if not interval.integer:
        interval = _beyond_doubles(interval)
        if interval.empty:
            return None
    if interval.integer:
        multiple = lcm(multiple, Fraction(1)) if multiple is not None else Fraction(1)
    few = _few(interval, multiple, zero_fraction)
    if few is not None:
        return few
    places = digits
    if multiple is not None:
        finite = decimals(multiple)
        if finite is None:
            # A multiple of a/3 has a finite text only where it is a multiple of a.
            rest = multiple.denominator
            for prime in (2, 5):
                while rest % prime == 0:
                    rest //= prime
            multiple *= rest
            finite = decimals(multiple)
        assert finite is not None
        places = finite
    bounds = [b for b in (interval.low, interval.high) if b is not None]
    whole = max([digits, *(len(str(abs(int(b)))) for b in bounds)])
    if multiple is None:
        places = max([places, *(decimals(b) or 0 for b in bounds)])
    # In units of 10**-places every text is an integer, and `modulus` divides the legal ones.
    unit = 10**places
    modulus = int(multiple * unit) if multiple is not None else 1
    sides = {False: interval, True: interval.mirrored()}

    def status(side: Interval, first: int, last: int) -> int:
        """Of the magnitudes first..last in units: 0 none is inside, 1 all are, 2 some."""
        low, high = Fraction(first, unit), Fraction(last, unit)
        if side.above(low) or side.below(high):
            return 0
        return 1 if not side.below(low) and not side.above(high) else 2

    def whole_key(negative: bool, prefix: int, length: int) -> Key:
        side = sides[negative]
        future = []
        for more in range(whole - length + 1 if prefix else 1):
            first = prefix * 10**more
            future.append(status(side, first * unit, (first + 10**more) * unit - 1))
        state = prefix if 2 in future else -1
        exact = status(side, prefix * unit, prefix * unit) == 1 and not (negative and prefix == 0)
        return ("whole", negative, state, length, prefix % modulus, tuple(future), exact)

    def fraction_key(negative: bool, value: int, length: int) -> Key:
        scale = 10 ** (places - length)
        found = status(sides[negative], value * scale, value * scale + scale - 1)
        exact = status(sides[negative], value * scale, value * scale) == 1 and not (negative and value == 0)
        return ("fraction", negative, value if found == 2 else -1, length, value % modulus, found, exact)

    def moves(key: Key) -> Iterator[tuple[int, int, Key]]:
        kind, negative = key[0], bool(key[1])
        if kind == "start":
            if not negative:
                yield _MINUS, _MINUS, ("start", True)
            for d in range(10):
                yield _ZERO + d, _ZERO + d, whole_key(negative, d, 1)
            return
        if kind == "point":  # behind the point of an integer: one zero
            yield _ZERO, _ZERO, ("zero", negative)
            return
        if kind == "zero":
            return
        _, _, value, length, rest, found, exact = key
        assert isinstance(value, int) and isinstance(length, int) and isinstance(rest, int)
        if kind == "whole":
            assert isinstance(found, tuple)
            if interval.integer or places == 0:
                if zero_fraction and length <= FLOAT_DIGITS and exact and rest * unit % modulus == 0:
                    yield _DOT, _DOT, ("point", negative)
            elif found[0]:
                yield _DOT, _DOT, ("dot", negative, value if found[0] == 2 else -1, 0, rest, found[0], exact)
            if length < whole and any(found[1:]):
                for d in range(10):
                    if value >= 0:
                        yield _ZERO + d, _ZERO + d, whole_key(negative, value * 10 + d, length + 1)
                    else:
                        future = found[1:]
                        rest_then = (rest * 10 + d) % modulus
                        inside = future[0] == 1
                        to: Key = ("whole", negative, -1, length + 1, rest_then, future, inside)
                        yield _ZERO + d, _ZERO + d, to
        elif length < places and found:
            for d in range(10):
                if value >= 0:
                    yield _ZERO + d, _ZERO + d, fraction_key(negative, value * 10 + d, length + 1)
                else:
                    to = ("fraction", negative, -1, length + 1, (rest * 10 + d) % modulus, found, found == 1)
                    yield _ZERO + d, _ZERO + d, to

    def accepts(key: Key) -> bool:
        if key[0] == "zero":
            return True
        if key[0] not in ("whole", "fraction"):
            return False
        length = 0 if key[0] == "whole" else key[3]
        assert isinstance(length, int) and isinstance(key[4], int)
        return bool(key[6]) and key[4] * 10 ** (places - length) % modulus == 0

    if modulus > MAX_STATES:
        raise TooManyStates  # a state at least for each remainder
    start: Key = ("start", False)
    return explore(start, moves, accepts)
