"""Whether a template puts a text out as it stands, whatever it says. Knows templates' inputs; no messages.

A template may trim a text, look into it, or go another way because of it. So it is given texts that note when
anything but putting them out is done with them. Where nothing was, what stands around the texts is the same
for all others, and need not be rendered again for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

EDGES = " \t\n'\"\\<&>é "
"""Around a text that is looked for: what trims, escapes or encodes changes it."""
SAMPLES = (" x ", "12", "true", '{"a": [1]}', "[]", "Error: no such file", "<tag>\nx</tag>", "x" * 5000)
"""Texts that templates might treat in ways of their own."""


class Watched(str):
    """A text that notes in `looked` when it is asked for more than itself or whether it is empty. What it is
    added to is watched too."""

    looked: list[str]

    def __new__(cls, text: str, looked: list[str]) -> Watched:
        made = super().__new__(cls, text)
        made.looked = looked
        return made

    def __add__(self, other: str) -> str:
        return Watched(str.__add__(self, other), self.looked)

    def __radd__(self, other: str) -> str:
        return Watched(str.__add__(other, self), self.looked)

    def __str__(self) -> str:
        return self

    def __bool__(self) -> bool:
        return str.__len__(self) > 0


def _noting(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def call(self: Watched, *arguments: Any, **options: Any) -> Any:
        self.looked.append(name)
        return method(self, *arguments, **options)

    return call


_HARMLESS = {"__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class__", "__getattribute__"}
_HARMLESS |= {"__setattr__", "__delattr__", "__doc__", "__add__", "__str__", "__sizeof__", "__dir__"}
_HARMLESS |= {"__reduce__", "__reduce_ex__", "__getnewargs__", "__getstate__"}
for _name in set(dir(str)) - _HARMLESS:
    setattr(Watched, _name, _noting(_name))


def watched(value: Any, marks: Sequence[str], looked: list[str]) -> Any:
    """A template's input with each text in it that holds one of the marks watched."""
    if isinstance(value, str):
        return Watched(value, looked) if any(mark in value for mark in marks) else value
    if type(value) is dict:
        return {key: watched(inner, marks, looked) for key, inner in value.items()}
    if isinstance(value, list):
        return [watched(inner, marks, looked) for inner in value]
    return value


def around(text: str, marks: Sequence[str]) -> tuple[str, ...] | None:
    """What stands before, between and behind the marks; None where they are not all there once, in order."""
    parts: list[str] = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            return None
        parts.append(before)
    parts.append(text)
    return None if any(mark in part for part in parts for mark in marks) else tuple(parts)


def filled(parts: Sequence[str], texts: Iterable[str]) -> str:
    """The parts with these texts in the marks' places."""
    out = [parts[0]]
    for text, part in zip(texts, parts[1:], strict=True):
        out += (text, part)
    return "".join(out)
