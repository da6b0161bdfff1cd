"""Whether the alternatives of a oneOf exclude each other. Knows shapes; no automaton states, no bytes.

What cannot be proved disjoint is refused: an automaton for "exactly one" would accept values that fit two.
"""

from __future__ import annotations

from collections.abc import Sequence

from kogagent.engine.grammar.dfa import TooManyStates, intersect
from kogagent.engine.grammar.fits import holds
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Goal, Shape, meet

_DEPTH = 4


def require_disjoint(schemas: Schemas, shapes: Sequence[Shape], path: str) -> tuple[Shape, ...]:
    """The shapes; a telling property is made required where that separates them. Raises SchemaError."""
    out = list(shapes)
    for i, left in enumerate(out):
        for j in range(i + 1, len(out)):
            right = out[j]
            left = out[i]
            if not any(left.choices[g] != right.choices.get(g, left.choices[g]) for g in left.choices):
                continue
            if left.values is not None:
                kept = tuple(v for v in left.values if not holds(schemas.expand, right, v))
                out[i] = left.but(values=kept)
                continue
            if right.values is not None:
                kept = tuple(v for v in right.values if not holds(schemas.expand, left, v))
                out[j] = right.but(values=kept)
                continue
            for kind in sorted(left.types & right.types):
                if kind == "object":
                    names = _telling(schemas, left, right)
                    if names:
                        out[i], out[j] = (_requiring(schemas, s, names[0]) for s in (left, right))
                        left, right = out[i], out[j]
                if not _apart(schemas, left, right, kind, _DEPTH):
                    raise schemas.error(
                        f"cannot prove that {left.path or '/'} and {right.path or '/'} exclude each other "
                        f"({kind}). "
                        "Use anyOf, or give them a required property with different const values",
                        path,
                        "oneOf",
                    )
    return tuple(out)


def _requiring(schemas: Schemas, shape: Shape, name: str) -> Shape:
    if name in shape.required:
        return shape
    schemas.note(shape.path, f"{name!r} is always written: it tells the alternatives apart")
    return shape.but(required=(*shape.required, name))


def _telling(schemas: Schemas, left: Shape, right: Shape) -> list[str]:
    """Properties of both that never fit both, already required ones first."""
    names = [
        n
        for n in left.properties
        if n in right.properties and not _meet(schemas, left.properties[n], right.properties[n], _DEPTH)
    ]
    return sorted(names, key=lambda n: (n not in left.required) + (n not in right.required))


def _meet(schemas: Schemas, left: Goal, right: Goal, depth: int) -> bool:
    """Whether a value may fit both goals; True when unsure."""
    return any(_overlap(schemas, a, b, depth) for a in schemas.expand(left) for b in schemas.expand(right))


def _overlap(schemas: Schemas, a: Shape, b: Shape, depth: int) -> bool:
    if a.values is not None:
        return any(holds(schemas.expand, b, v) for v in a.values)
    if b.values is not None:
        return any(holds(schemas.expand, a, v) for v in b.values)
    return any(not _apart(schemas, a, b, kind, depth) for kind in a.types & b.types)


def _apart(schemas: Schemas, a: Shape, b: Shape, kind: str, depth: int) -> bool:
    """Whether no value of one kind fits both."""
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
            left, right = a.item(index), b.item(index)
            if left is None and right is None:
                break
            if left is not None and right is not None and not _meet(schemas, left, right, depth - 1):
                return True
            if index >= max(len(a.prefix), len(b.prefix)):
                break
        return False
    if kind == "object":
        for name in {*a.required, *b.required}:
            left, right = a.property(name), b.property(name)
            if any(goal is not None and not schemas.expand(goal) for goal in (left, right)):
                return True
            if left is not None and right is not None and not _meet(schemas, left, right, depth - 1):
                return True
    return False


def _beyond(low: int, high: int | None) -> bool:
    return high is not None and low > high
