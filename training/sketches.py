# ruff: noqa: E501 -- the notation's lines are shown as they are
"""The notation of training/domains/*.txt: tools of everyday domains before their names are drawn.

A block of a file:

    names, of, the, tool | c or g (computed or got) | goals ; noun phrases ; ?question stems ; !imperatives ; .sentences.
    A descriptions ~ of the tool
    name,other_name? kind arguments : phrases with {v} ; from {v} to {other} ; ~of a false one ; =0 from rest # description
    X questions near by that the tool does not answer, with its {values} or without ; …

A `?` marks a parameter that may be left out. The first name is the slot that goals and phrases refer to. A
phrase that begins with `=` tells one value in words of its own.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from dataclasses import dataclass

from training.naming import words
from training.spoken import Spoken
from training.values import FOLDER


@dataclass(frozen=True)
class Slot:
    """A parameter of a domain tool, in the notation of the file."""

    names: tuple[str, ...]
    kind: str
    args: str
    phrases: tuple[str, ...]
    about: str
    required: bool
    special: tuple[Spoken, ...] = ()
    """Values that have words of their own."""

    @property
    def key(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class Sketch:
    """A tool of a domain before its names are drawn."""

    domain: str
    names: tuple[str, ...]
    opened: str
    goals: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[Slot, ...]
    misses: tuple[str, ...]
    """Requests near by that it does not serve."""

    @property
    def topic(self) -> str:
        return words(self.names[0])


def _split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(mark) if part.strip())


def slot(line: str) -> Slot:
    """The parameter that a line tells."""
    spec, about = line.split(" # ")
    head, _, phrases = f"{spec} ".partition(" : ")
    names, kind, *args = head.split(None, 2)
    told = _split(phrases, " ; ")
    return Slot(
        tuple(names.replace("?", "").split(",")),
        kind,
        args[0].strip() if args else "",
        tuple(p for p in told if p[0] != "="),
        about.strip(),
        "?" not in names,
        tuple(_special(p) for p in told if p[0] == "="),
    )


def _special(phrase: str) -> Spoken:
    """'=0 from rest'"""
    value, _, text = phrase[1:].partition(" ")
    return Spoken(
        json.loads(value) if re.fullmatch(r"-?[\d.]+|true|false", value) else value, text, whole=True
    )


def parse(text: str, domain: str) -> list[Sketch]:
    """The tools of a file. ValueError tells the block that is not in its notation."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.strip().split("\n")
        try:
            names, opened, goals = lines[0].split(" | ")
            made = {mark: [x[2:] for x in lines[1:] if x.startswith(f"{mark} ")] for mark in "AX"}
            slots = tuple(slot(x) for x in lines[1:] if x[:2] not in ("A ", "X "))
            out.append(
                Sketch(
                    domain,
                    _split(names, ","),
                    opened.strip(),
                    _split(goals, " ; "),
                    _split(made["A"][0], " ~ "),
                    slots,
                    _split(" ; ".join(made["X"]), " ; "),
                )
            )
        except (ValueError, IndexError) as error:
            raise ValueError(f"training/domains/{domain}.txt: cannot read the block {lines[0]!r}") from error
    return out


DOMAINS = {
    p.stem: parse(p.read_text(), p.stem)
    for p in sorted(FOLDER.glob("*.txt"))
    if p.stem not in ("lists", "extras")
}
SKETCHES = [s for sketches in DOMAINS.values() for s in sketches]
EXTRAS = {
    opened: [slot(line) for line in lines.strip().split("\n")]
    for opened, lines in zip("cg", (FOLDER / "extras.txt").read_text().split("\n\n"), strict=True)
}


def likeness(a: Sketch, b: Sketch) -> float:
    """How much two tools have in common in names and descriptions: rare words count most."""
    return sum(1 / _tools_with()[word] for word in _vocabulary(a) & _vocabulary(b))


@functools.cache
def _vocabulary(sketch: Sketch) -> frozenset[str]:
    said = " ".join([*map(words, sketch.names), *sketch.abouts]).lower()
    return frozenset(word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", said))


@functools.cache
def _tools_with() -> Counter[str]:
    return Counter(word for sketch in SKETCHES for word in _vocabulary(sketch))
