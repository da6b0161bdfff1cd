"""What a value may be: shapes, their goals, the bounds they get. Knows no keywords, no automaton."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kogagent.engine.grammar.dfa import Dfa
from kogagent.engine.grammar.numbers import Interval, lcm
from kogagent.errors import SchemaError

TYPES = ("null", "boolean", "object", "array", "number", "string")
_ALL = frozenset(TYPES)
_AHEAD = 2
"""Recursive references beyond Bounds.recursion that `Goal.specified` follows to an alternative."""


@dataclass(frozen=True)
class Bounds:
    """The limits that hold where a schema gives none, and how values are written.

    string: code points of a string without maxLength, or with a pattern of unlimited length.
    items: items of an array without maxItems.   properties: unnamed properties of an open object.
    key: code points of an unnamed property's name.   digits: digits before and behind a decimal point.
    thoughts: code points of the thoughts a turn may open with.
    depth: nesting of arrays and objects inside a free-form value.   recursion: nesting of recursive $ref.
    open_objects: read a schema as the specification does: properties it does not name are allowed, and so are
        values of other types where `type` is missing. False closes objects that list properties.
    zero_fraction: an integer may be written 1.0, as the specification allows.
    """

    string: int = 4096
    items: int = 64
    properties: int = 16
    key: int = 64
    digits: int = 17
    thoughts: int = 32_768
    depth: int = 4
    recursion: int = 6
    open_objects: bool = False
    zero_fraction: bool = False

    def __post_init__(self) -> None:
        for name in ("string", "items", "properties", "key", "digits", "thoughts", "depth", "recursion"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
                raise SchemaError(f"Bounds.{name} must be an integer from 1 to 1000000, not {value!r}")


@dataclass(frozen=True)
class Goal:
    """Schemas that must hold together. depth counts recursive references on the way here, free the levels of
    free-form nesting left."""

    parts: tuple[tuple[str, Any], ...]
    depth: int
    free: int

    @property
    def key(self) -> tuple[Any, ...]:
        return (tuple(_identity(schema) for _, schema in self.parts), self.depth, self.free)

    @property
    def path(self) -> str:
        return self.parts[0][0]

    @property
    def specified(self) -> Goal:
        """The same read as the specification does, wherever recursion has come to."""
        parts = tuple((path, s if isinstance(s, AsSpecified) else AsSpecified(s)) for path, s in self.parts)
        return Goal(parts, -_AHEAD, max(self.free, 1))

    def also(self, other: Goal) -> Goal:
        known = {_identity(schema) for _, schema in self.parts}
        more = tuple(part for part in other.parts if _identity(part[1]) not in known)
        return Goal(self.parts + more, max(self.depth, other.depth), min(self.free, other.free))


def _identity(schema: Any) -> Any:
    if isinstance(schema, AsSpecified):
        return ("as specified", _identity(schema.schema))
    return schema if isinstance(schema, bool) else id(schema)


@dataclass(frozen=True, eq=False)
class AsSpecified:
    """A schema read as the specification does, whatever the bounds say: inside not and if a narrower reading
    would widen the whole."""

    schema: Any


@dataclass(frozen=True)
class Layer:
    """What one schema says of the properties it does not list: by patterns their names match, or else."""

    patterns: tuple[tuple[Dfa, Goal], ...]
    additional: Goal | None


@dataclass(frozen=True)
class Contains:
    """How many items of an array must fit `goal`; every other one fits `other`. high: None for any number."""

    goal: Goal
    other: Goal
    low: int
    high: int | None

    def allows(self, count: int) -> bool:
        """Whether so many may fit."""
        return self.low <= count and (self.high is None or count <= self.high)


@dataclass(frozen=True)
class Seen:
    """What the keywords of one schema, and of those that hold with it, speak of: the rest is unevaluated.

    names, patterns: of properties. items: so many from the first. contained: schemas of `contains`, with
    their paths: items that fit one of them are spoken of too. properties, rest: every property, every item.
    """

    names: frozenset[str] = frozenset()
    patterns: tuple[Dfa, ...] = ()
    properties: bool = False
    items: int = 0
    rest: bool = False
    contained: tuple[tuple[str, Any], ...] = ()

    def also(self, other: Seen) -> Seen:
        return Seen(
            self.names | other.names,
            (*self.patterns, *(dfa for dfa in other.patterns if dfa not in self.patterns)),
            self.properties or other.properties,
            max(self.items, other.items),
            self.rest or other.rest,
            (*self.contained, *(part for part in other.contained if part not in self.contained)),
        )


@dataclass(frozen=True)
class Shape:
    """One alternative of a goal: which types, and for each type what holds.

    typed: whether any schema names types. implied: what the keywords speak of, for shapes of which none does.
    values: when not None, the only values (already checked against the rest by `Schemas.expand`).
    unique: no two items are equal. properties: of each name that any schema lists, all that is said of it.
    layers, additional: the same of names that none lists, with patterns and without; where nothing is said,
    `listed` tells whether any schema lists properties. names: the names that may stand, None for any.
    choices: oneOf group -> alternative. split: the keyword that made alternatives, "" where none did.
    seen: what has been spoken of so far, inside a schema that says what becomes of the rest.
    """

    path: str
    types: frozenset[str] = _ALL
    typed: bool = field(default=False, compare=False)
    implied: frozenset[str] = field(default=frozenset(), compare=False)
    values: tuple[Any, ...] | None = None
    numbers: Interval = field(default_factory=Interval)
    min_length: int = 0
    max_length: int | None = None
    pattern: Dfa | None = None
    pattern_from: str = ""
    min_items: int = 0
    max_items: int | None = None
    prefix: tuple[Goal, ...] = ()
    items: Goal | None = None
    unique: bool = False
    contains: tuple[Contains, ...] = ()
    properties: Mapping[str, Goal] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Goal | None = None
    layers: tuple[Layer, ...] = ()
    names: Dfa | None = None
    listed: bool = False
    min_properties: int = 0
    max_properties: int | None = None
    choices: Mapping[tuple[Any, ...], int] = field(default_factory=dict)
    split: str = ""
    shared: bool = False
    depth: int = 0
    free: int = 0
    seen: Seen | None = field(default=None, compare=False)

    def but(self, **changes: Any) -> Shape:
        """`dataclasses.replace` in a fifth of the time: compiling does little else."""
        made = object.__new__(Shape)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(changes)
        return made

    @property
    def likely(self) -> frozenset[str]:
        """Its types; where no schema names any, those its keywords speak of."""
        return self.types & self.implied if self.implied and not self.typed else self.types

    def item(self, index: int) -> Goal | None:
        """The goal of one item, None for anything."""
        return self.prefix[index] if index < len(self.prefix) else self.items

    def property(self, name: str) -> Goal | None:
        """The goal of one property's value, None for anything."""
        found = self.properties.get(name)
        if found is not None:
            return found
        return self.other([dfa.matches(name) for layer in self.layers for dfa, _ in layer.patterns])[0]

    def other(self, hits: Sequence[bool]) -> tuple[Goal | None, bool]:
        """(goal of an unlisted property that matches just these patterns, whether anything is said of it)."""
        goal, said, at = self.additional, self.additional is not None, 0
        for layer in self.layers:
            mine = [g for (_, g), hit in zip(layer.patterns, hits[at:], strict=False) if hit]
            at += len(layer.patterns)
            for more in mine or ([layer.additional] if layer.additional is not None else []):
                goal, said = both(goal, more), True
        return goal, said


def check_json(value: Any, where: str, tool: str, keyword: str) -> None:
    """SchemaError unless `value` is JSON: finite numbers, text without lone surrogates, string keys."""
    queue = [value]
    while queue:
        item = queue.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise error(f"{item!r} holds a lone surrogate", where, tool, keyword) from None
        elif isinstance(item, float) and not math.isfinite(item):
            raise error(f"{item!r} is no JSON number", where, tool, keyword)
        elif isinstance(item, Mapping):
            if not all(isinstance(k, str) for k in item):
                raise error("object keys must be strings", where, tool, keyword)
            queue += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            queue += item
        elif item is not None and not isinstance(item, bool | int | float):
            raise error(f"{item!r} is no JSON value", where, tool, keyword)


def error(what: str, path: str, tool: str, keyword: str) -> SchemaError:
    place = f"tool {tool!r}, " if tool else ""
    word = f"keyword {keyword!r}: " if keyword else ""
    return SchemaError(
        f"{place}schema path {path or '/'!r}, {word}{what}", tool=tool, path=path, keyword=keyword
    )


def meet(a: Interval, b: Interval) -> Interval:
    """The numbers in both."""
    low, low_open = a.low, a.low_open
    if b.low is not None and (low is None or b.low > low or (b.low == low and b.low_open)):
        low, low_open = b.low, b.low_open
    high, high_open = a.high, a.high_open
    if b.high is not None and (high is None or b.high < high or (b.high == high and b.high_open)):
        high, high_open = b.high, b.high_open
    multiple = a.multiple or b.multiple
    if a.multiple is not None and b.multiple is not None:
        multiple = lcm(a.multiple, b.multiple)
    return Interval(
        low, high, low_open, high_open, multiple, a.integer or b.integer, a.fractional or b.fractional
    )


def least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def both(a: Goal | None, b: Goal | None) -> Goal | None:
    return b if a is None else a if b is None else a.also(b)


def pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def kinds_of(shape: Shape) -> frozenset[str]:
    """The types its values may have, "integer" for numbers that must be integers."""
    if shape.values is not None:
        return frozenset(map(type_of, shape.values))
    integer = "number" in shape.types and shape.numbers.integer
    return shape.types - {"number"} | {"integer"} if integer else shape.types


def same(a: Any, b: Any) -> bool:
    """JSON equality: numbers by value, a boolean is no number."""
    kind = type_of(a)
    if kind != type_of(b):
        return False
    if kind == "array":
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if kind == "object":
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)
