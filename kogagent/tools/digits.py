"""Patterns of texts that pydantic reads as a Decimal: whatever matches is read. Knows no schemas."""

from __future__ import annotations

_DIGITS = 30  # of a number without a bound of its own, on either side of the point


def pattern(digits: int | None = None, places: int | None = None) -> str:
    """A number of at most so many digits, and so many of them after the point; a leading zero counts as none
    where digits are bounded."""
    if digits is None:
        return rf"^-?[0-9]{{1,{_DIGITS}}}{_fraction(_DIGITS if places is None else places)}$"
    if places is not None:
        whole = min(digits - places, _DIGITS)
        if whole <= 0:
            return rf"^-?0{_fraction(digits, needed=True)}$"
        return rf"^-?{_whole(whole)}{_fraction(places)}$"
    digits = min(digits, _DIGITS)
    numbers = [f"[1-9]{_repeated(n - 1)}{_fraction(digits - n)}" for n in range(1, digits + 1)]
    return rf"^-?(?:0{_fraction(digits)}|{'|'.join(numbers)})$"


def _whole(digits: int) -> str:
    return "[0-9]" if digits == 1 else rf"(?:0|[1-9][0-9]{{0,{digits - 1}}})"


def _repeated(digits: int) -> str:
    return rf"[0-9]{{{digits}}}" if digits else ""


def _fraction(places: int, *, needed: bool = False) -> str:
    if not places:
        return ""
    return rf"\.[0-9]{{1,{min(places, _DIGITS)}}}" if needed else rf"(\.[0-9]{{1,{min(places, _DIGITS)}}})?"
