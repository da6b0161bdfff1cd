"""Units of measure and how tools write numbers. Knows no files and no tables."""

from __future__ import annotations

UNITS: dict[str, dict[str, float]] = {
    "length": {
        "metres": 1,
        "feet": 0.3048,
        "kilometres": 1000,
        "miles": 1609.344,
        "centimetres": 0.01,
        "inches": 0.0254,
        "yards": 0.9144,
    },
    "mass": {"kilograms": 1, "pounds": 0.45359237, "grams": 0.001, "ounces": 0.028349523125, "tonnes": 1000},
    "volume": {"litres": 1, "gallons": 3.785411784, "millilitres": 0.001, "pints": 0.473176473},
    "time": {"hours": 60, "minutes": 1, "days": 1440, "seconds": 1 / 60},
    "temperature": {"celsius": 1, "fahrenheit": 1},
}
ALL_UNITS = tuple(unit for table in UNITS.values() for unit in table)
_SHORT = "m ft km mi cm in yd kg lb g oz t l gal ml pt h min d s C F"
SHORT = dict(zip(ALL_UNITS, _SHORT.split(), strict=True))
LONG = {short: unit for unit, short in SHORT.items()}


def shown(x: float) -> str:
    """A number as tools write it: at most four decimals, no trailing zeros."""
    if x == int(x) and abs(x) < 1e15:
        return str(int(x))
    return f"{x:.4f}".rstrip("0").rstrip(".") if abs(x) >= 0.01 else f"{x:.4g}"


def plain_number(x: float) -> float | int:
    """2.0 as 2."""
    return int(x) if x == int(x) else x


def convert(value: float, unit: str, to: str) -> float:
    """The value in another unit of its kind. KeyError for units of two kinds."""
    if unit in UNITS["temperature"]:
        return value if unit == to else (value - 32) / 1.8 if to == "celsius" else value * 1.8 + 32
    table = next(t for t in UNITS.values() if unit in t)
    return value * table[unit] / table[to]
