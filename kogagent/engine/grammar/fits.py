"""Whether a value fits a shape, and which values are all there are. Knows no keywords, no automaton."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from kogagent.engine.grammar.shapes import Goal, Shape, same, type_of

Expand = Callable[[Goal], Sequence[Shape]]
"""A goal's alternatives."""


def holds(expand: Expand, shape: Shape, value: Any) -> bool:
    """Whether one JSON value fits a shape, read as the specification does."""
    kind = type_of(value)
    if kind not in shape.types:
        return False
    if shape.values is not None and not any(same(value, v) for v in shape.values):
        return False
    if kind == "number":
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        return shape.numbers.holds(exact)
    if kind == "string":
        if not _within(len(value), shape.min_length, shape.max_length):
            return False
        return shape.pattern is None or shape.pattern.matches(value)
    if kind == "array":
        if not _within(len(value), shape.min_items, shape.max_items):
            return False
        if shape.unique and any(same(v, w) for i, v in enumerate(value) for w in value[:i]):
            return False
        if any(not want.allows(sum(fits(expand, want.goal, v) for v in value)) for want in shape.contains):
            return False
        return all(fits(expand, shape.item(i), v) for i, v in enumerate(value))
    if kind == "object":
        if not _within(len(value), shape.min_properties, shape.max_properties):
            return False
        if any(name not in value for name in shape.required):
            return False
        if shape.names is not None and not all(map(shape.names.matches, value)):
            return False
        return all(fits(expand, shape.property(n), v) for n, v in value.items())
    return True


def _within(count: int, low: int, high: int | None) -> bool:
    return low <= count and (high is None or count <= high)


def fits(expand: Expand, goal: Goal | None, value: Any) -> bool:
    """Whether one JSON value fits an alternative of a goal and none that this excludes; None is the goal of
    anything."""
    if goal is None:
        return True
    held = [shape for shape in expand(goal) if holds(expand, shape, value)]
    if not any(shape.choices for shape in held):
        return bool(held)
    others = [shape for shape in expand(goal.specified) if holds(expand, shape, value)]
    return any(not any(excluding(shape, other) for other in others) for shape in held)


def excluding(a: Shape, b: Shape) -> bool:
    """Whether two shapes are different alternatives of one oneOf."""
    return any(choice != b.choices.get(group, choice) for group, choice in a.choices.items())


def enumerated(expand: Expand, goal: Goal) -> list[Any] | None:
    """All values of a goal, where they are enumerated."""
    out: list[Any] = []
    for shape in expand(goal):
        values = shape.values
        if values is None and shape.types <= {"null", "boolean"}:
            values = (*((None,) if "null" in shape.types else ()),)
            values += (True, False) if "boolean" in shape.types else ()
        if values is None:
            return None
        out += [v for v in values if not any(same(v, w) for w in out)]
    return [v for v in out if fits(expand, goal, v)]
