"""Whether the alternatives of a oneOf exclude each other. Knows shapes; no automaton states, no bytes.

What is written by one alternative must not fit another, read as the specification does: with no types taken
for granted and no object closed. Enumerated values that fit two are left out, and so is a property that
another object requires and this one does not. What else cannot be proved disjoint is refused: an automaton
for "exactly one" would accept values that fit two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kogagent.engine.grammar.dfa import TooManyStates, intersect
from kogagent.engine.grammar.fits import excluding, holds
from kogagent.engine.grammar.shapes import Goal, Shape, meet, type_of

if TYPE_CHECKING:
    from kogagent.engine.grammar.schema import Schemas

_DEPTH = 4


def require_disjoint(schemas: Schemas, goal: Goal, path: str) -> tuple[Shape, ...]:
    """The alternatives of a goal without what fits two that exclude each other; a telling property is made
    required where that separates them. Raises SchemaError where only memory could tell."""
    shapes = schemas.expand(goal)
    if not any(shape.choices for shape in shapes):
        return shapes
    whole = schemas.expand(goal.specified)
    if schemas.was_cut(goal.specified):
        raise schemas.error(
            "the recursion is cut before all alternatives are known. Raise Bounds.recursion", path, "oneOf"
        )
    return tuple(part for shape in shapes for part in _alone(schemas, shape, whole, path))


def _alone(schemas: Schemas, shape: Shape, whole: Sequence[Shape], path: str) -> list[Shape]:
    """What of a shape fits none of those it excludes."""
    left = [shape]
    for other in whole:
        if excluding(shape, other):
            left = [part for piece in left for part in _beside(schemas, piece, other, path)]
    if not left:
        schemas.vanish(f"all of it fits another alternative of {path or '/'}", shape.path, "oneOf")
    return left


def _beside(schemas: Schemas, shape: Shape, other: Shape, path: str) -> list[Shape]:
    """What of a shape does not fit `other`, which is read as the specification does."""
    if shape.values is not None or other.values is not None:
        mine = shape.values if shape.values is not None else other.values or ()
        shared = [v for v in mine if _holds(schemas, other if shape.values is not None else shape, v)]
        if not shared:
            return [shape]
        if shape.values is None and any(type_of(v) in ("array", "object") for v in shared):
            raise _unproved(schemas, shape, other, type_of(shared[-1]), path)
        schemas.note(shape.path, f"oneOf: {_shown(shared)} fits {other.path or '/'} too; never written")
        return schemas.without(shape, shared)
    for kind in sorted(shape.types & other.types):
        if kind == "object":
            names = _telling(schemas, shape, other)
            if names:
                shape = _requiring(schemas, shape, names[0])
                continue
        if not _apart(schemas, shape, other, kind, _DEPTH):
            name = next((n for n in other.required if n not in shape.required), None)
            if kind != "object" or name is None:
                raise _unproved(schemas, shape, other, kind, path)
            shape = _lacking(schemas, shape, name)
    return [shape]


def _lacking(schemas: Schemas, shape: Shape, name: str) -> Shape:
    """A shape without a property that one of another alternative must have."""
    closed = shape.listed and not schemas.bounds.open_objects
    if closed and name not in shape.properties and shape.property(name) is None:
        return shape
    schemas.note(shape.path, f"oneOf: {name!r} is never written: another alternative requires it")
    never = Goal(((shape.path, False),), shape.depth, shape.free)
    return shape.but(properties={**shape.properties, name: never})


def _unproved(schemas: Schemas, shape: Shape, other: Shape, kind: str, path: str) -> Exception:
    return schemas.error(
        f"cannot prove that {shape.path or '/'} and {other.path or '/'} exclude each other ({kind}). "
        "Use anyOf, give each its type, or give them a required property with different const values",
        path,
        "oneOf",
    )


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values[:3])) + (", …" if len(values) > 3 else "")


def _requiring(schemas: Schemas, shape: Shape, name: str) -> Shape:
    if name in shape.required:
        return shape
    schemas.note(shape.path, f"{name!r} is always written: it tells the alternatives apart")
    return shape.but(required=(*shape.required, name))


def _telling(schemas: Schemas, shape: Shape, other: Shape) -> list[str]:
    """Properties of both that never fit both, already required ones first."""
    names = [
        n
        for n in shape.properties
        if n in other.properties and not _meet(schemas, shape.properties[n], other.properties[n], _DEPTH)
    ]
    return sorted(names, key=lambda n: (n not in shape.required) + (n not in other.required))


# ── of one shape as it is written and another as the specification reads it ──


def _read(schemas: Schemas, goal: Goal) -> Sequence[Shape]:
    """The alternatives of a goal; anything, where recursion has cut some of them."""
    shapes = schemas.expand(goal)
    return (Shape(goal.path),) if schemas.was_cut(goal) else shapes


def _holds(schemas: Schemas, shape: Shape, value: Any) -> bool:
    return holds(lambda goal: _read(schemas, goal), shape, value)


def _meet(schemas: Schemas, written: Goal, read: Goal, depth: int) -> bool:
    """Whether a value that is written may fit the other goal; True when unsure."""
    return any(_overlap(schemas, a, b, depth) for a in schemas.expand(written) for b in _read(schemas, read))


def _overlap(schemas: Schemas, a: Shape, b: Shape, depth: int) -> bool:
    if a.values is not None:
        return any(_holds(schemas, b, v) for v in a.values)
    if b.values is not None:
        return any(_holds(schemas, a, v) for v in b.values)
    return any(not _apart(schemas, a, b, kind, depth) for kind in a.types & b.types)


def _apart(schemas: Schemas, a: Shape, b: Shape, kind: str, depth: int) -> bool:
    """Whether no value of one kind is written for `a` and fits `b`."""
    if depth == 0:
        return False
    if kind == "number":
        return meet(a.numbers, b.numbers).empty
    if kind == "string":
        if _beyond(a.min_length, b.max_length) or _beyond(b.min_length, a.max_length):
            return True
        if a.pattern is None or b.pattern is None:
            return False
        try:
            return intersect(a.pattern, b.pattern) is None
        except TooManyStates:
            return False
    if kind == "array":
        if _beyond(a.min_items, b.max_items) or _beyond(b.min_items, a.max_items):
            return True
        for index in range(max(a.min_items, b.min_items)):
            if _never_both(schemas, a.item(index), b.item(index), depth):
                return True
            if index >= max(len(a.prefix), len(b.prefix)):
                break
        return False
    if kind == "object":
        return any(
            _never_both(schemas, a.property(name), b.property(name), depth)
            for name in (*a.required, *b.required)
        )
    return False


def _never_both(schemas: Schemas, written: Goal | None, read: Goal | None, depth: int) -> bool:
    """Whether no value is written for one goal and fits the other; None is the goal of anything."""
    if written is None or read is None:
        return (written is not None and not schemas.expand(written)) or (
            read is not None and not _read(schemas, read)
        )
    return not _meet(schemas, written, read, depth - 1)


def _beyond(low: int, high: int | None) -> bool:
    return high is not None and low > high
