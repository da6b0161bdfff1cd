"""The demo's tools: the files and the database of a made-up museum. Knows no model.

Everything a tool can reach is inside the package's `demo/data`; every result is a few short lines, because a
small model reads them. What goes wrong is raised as `Retry`, whose text tells the model what would work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kogagent.demo import database
from kogagent.demo.arithmetic import evaluate, number
from kogagent.errors import Retry

DATA = Path(__file__).resolve().parent / "data"
FILES = DATA / "files"

MAX_LINES = 12
MAX_CHARS = 600
MAX_HITS = 2

FileName = Literal[
    "generator.txt",
    "heron.txt",
    "kestrel.txt",
    "loans.txt",
    "merlin.txt",
    "osprey.txt",
    "safety.txt",
    "staff.txt",
    "tickets.txt",
]
Unit = Literal[
    "kilograms", "pounds", "grams", "ounces", "metres", "feet", "kilometres", "miles", "centimetres",
    "inches", "litres", "gallons", "celsius", "fahrenheit", "hours", "minutes",
]  # fmt: skip
Sql = Annotated[str, Field(pattern=database.PATTERN, max_length=120)]
ShortText = Annotated[str, Field(min_length=1, max_length=40)]
Expression = Annotated[str, Field(min_length=1, max_length=60)]

# kind of quantity and the size of the unit in its base; temperatures are handled apart
_UNITS: dict[str, tuple[str, float]] = {
    "kilograms": ("mass", 1.0),
    "pounds": ("mass", 0.45359237),
    "grams": ("mass", 0.001),
    "ounces": ("mass", 0.028349523125),
    "metres": ("length", 1.0),
    "feet": ("length", 0.3048),
    "kilometres": ("length", 1000.0),
    "miles": ("length", 1609.344),
    "centimetres": ("length", 0.01),
    "inches": ("length", 0.0254),
    "litres": ("volume", 1.0),
    "gallons": ("volume", 3.785411784),
    "hours": ("time", 60.0),
    "minutes": ("time", 1.0),
}
_TEMPERATURES = ("celsius", "fahrenheit")


def list_files() -> str:
    """List the text files of the museum."""
    return ", ".join(sorted(path.name for path in FILES.iterdir()))


def read_file(file: FileName) -> str:
    """Read one text file."""
    lines = (FILES / file).read_text(encoding="utf-8").splitlines()
    return _bounded(lines, MAX_LINES)


def search(text: ShortText) -> str:
    """Find lines of the text files that contain the words."""
    lines = _lines()
    # A word counts by how few lines hold it; the word of a title ("walked", "walk") counts by its stem.
    weights = {
        word: math.log(len(lines) / found)
        for word in _words(text)
        if (found := sum(word in words for _, words in lines))
    }
    scores = [(sum(weights[word] for word in weights if word in words), line) for line, words in lines]
    best = max(score for score, _ in scores)
    if best <= 0:
        raise Retry(f"No line contains {text!r}. Use another word, or read a file.")
    return _bounded([line for score, line in scores if score > 0.9 * best][:MAX_HITS], MAX_HITS)


def query(sql: Sql) -> str:
    """Ask the database with one SELECT.

    Tables: fossils (name, kind, expedition, mass, room), expeditions (name, leader, year, days, cost),
    shop (item, price, stock, sold).
    """
    return _bounded(database.ask(sql), database.MAX_ROWS + 1)


def compute(expression: Expression) -> str:
    """Work out an arithmetic expression."""
    return f"result: {number(evaluate(expression))}"


def convert(value: float, unit: Unit, to: Unit) -> str:
    """Convert a value from one unit to another."""
    if unit in _TEMPERATURES and to in _TEMPERATURES:
        celsius = value if unit == "celsius" else (value - 32) / 1.8
        return f"{to}: {number(celsius if to == 'celsius' else celsius * 1.8 + 32)}"
    kind, size = _UNITS.get(unit, ("temperature", 1.0))
    to_kind, to_size = _UNITS.get(to, ("temperature", 1.0))
    if kind != to_kind:
        raise Retry(f"{unit} measure {kind}, {to} measure {to_kind}. Choose two units of one kind.")
    return f"{to}: {number(value * size / to_size)}"


TOOLS: tuple[Callable[..., str], ...] = (query, search, read_file, list_files, compute, convert)
"""In the order in which a model reads them."""


@cache
def _lines() -> list[tuple[str, frozenset[str]]]:
    """Every line of the files with its words."""
    return [
        (f"{path.name}: {line}", _words(f"{path.stem} {line}"))
        for path in sorted(FILES.iterdir())
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def _words(text: str) -> frozenset[str]:
    """Lower-case words without their commonest endings, so that "walk" finds "walked"."""
    return frozenset(stem(word) for word in re.findall(r"\w+", text.lower()))


@cache
def stem(word: str) -> str:
    """A lower-case word without its commonest endings."""
    return re.sub(r"(ing|ed|es|s|e)$", "", word)


@cache
def kinds_of_words() -> dict[str, str]:
    """Lower-case names in the database and units, each with its kind in brackets."""
    return {**database.kinds_of_words(), **dict.fromkeys((*_UNITS, *_TEMPERATURES), "[unit]")}


def _bounded(lines: list[str], limit: int) -> str:
    kept = [line for line in lines[:limit]]
    if len(lines) > limit:
        kept.append(f"({len(lines) - limit} more lines)")
    text = "\n".join(kept)
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
