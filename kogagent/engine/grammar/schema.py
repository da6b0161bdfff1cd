"""JSON Schema to shapes: what a value may be, one shape for each alternative. Knows no automaton, no bytes.

2020-12 and draft-07. `KEYWORDS` is the whole table: what is enforced, what is a mere annotation, what is refused.
A `Goal` is a set of schemas that must hold together; `Schemas.expand` turns it into shapes whose own children
are goals again. Recursion is cut by depth here, so that everything behind is finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from kogagent.engine.grammar.dfa import Dfa, TooManyStates, intersect
from kogagent.engine.grammar.formats import FORMATS, LONGEST, NUMBER_FORMATS
from kogagent.engine.grammar.numbers import Interval, lcm
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.errors import SchemaError

TYPES = ("null", "boolean", "object", "array", "number", "string")

KEYWORDS: dict[str, tuple[str, str]] = {
    "type": ("enforced", "a name or a list of names"),
    "enum": ("enforced", "any JSON values, written canonically"),
    "const": ("enforced", "any JSON value, written canonically"),
    "properties": ("enforced", "written in schema order; optional ones may be skipped"),
    "required": ("enforced", "names outside `properties` follow those"),
    "additionalProperties": ("enforced", "false, true or a schema; bounded in number, keys all different"),
    "minProperties": ("enforced", "on closed objects: 0, 1, the required ones or all"),
    "maxProperties": ("enforced", "together with optional and required properties: not below their number"),
    "items": ("enforced", "a schema; in draft-07 also a list"),
    "prefixItems": ("enforced", ""),
    "additionalItems": ("enforced", "behind a draft-07 list of `items`"),
    "minItems": ("enforced", ""),
    "maxItems": ("enforced", ""),
    "uniqueItems": ("enforced", "only false, or with at most one item; else refused"),
    "minLength": ("enforced", "in code points"),
    "maxLength": ("enforced", "in code points; cost does not grow with it"),
    "pattern": ("enforced", "the regular subset of ECMA-262; together with lengths"),
    "format": ("enforced", "the formats below; others are refused"),
    "minimum": ("enforced", "any size, exact"),
    "maximum": ("enforced", "any size, exact"),
    "exclusiveMinimum": ("enforced", "any size, exact"),
    "exclusiveMaximum": ("enforced", "any size, exact"),
    "multipleOf": ("enforced", "exact; refused where its automaton is too large"),
    "anyOf": ("enforced", ""),
    "oneOf": ("enforced", "when the alternatives are provably disjoint"),
    "allOf": ("enforced", "by merging"),
    "$ref": ("enforced", "inside the document; recursion is cut at a depth"),
    "$defs": ("enforced", ""),
    "definitions": ("enforced", ""),
    "$anchor": ("enforced", "as a target of $ref"),
    "nullable": ("enforced", "OpenAPI: adds null"),
    "$schema": ("annotation", "picks draft-07 where it names it"),
    "$id": ("annotation", "at the root"),
    "$comment": ("annotation", ""),
    "title": ("annotation", ""),
    "description": ("annotation", ""),
    "default": ("annotation", ""),
    "examples": ("annotation", ""),
    "example": ("annotation", "OpenAPI"),
    "deprecated": ("annotation", ""),
    "readOnly": ("annotation", ""),
    "writeOnly": ("annotation", ""),
    "contentEncoding": ("annotation", "asserts nothing since 2019-09; refused in draft-07"),
    "contentMediaType": ("annotation", "asserts nothing since 2019-09; refused in draft-07"),
    "contentSchema": ("annotation", "asserts nothing"),
    "discriminator": ("annotation", "OpenAPI: names what oneOf already says"),
    "not": ("refused", "a complement has no bounded automaton"),
    "if": ("refused", ""),
    "then": ("refused", ""),
    "else": ("refused", ""),
    "patternProperties": ("refused", ""),
    "propertyNames": ("refused", ""),
    "dependentRequired": ("refused", ""),
    "dependentSchemas": ("refused", ""),
    "dependencies": ("refused", ""),
    "contains": ("refused", "needs memory of earlier items"),
    "minContains": ("refused", ""),
    "maxContains": ("refused", ""),
    "unevaluatedItems": ("refused", ""),
    "unevaluatedProperties": ("refused", ""),
    "$dynamicRef": ("refused", ""),
    "$dynamicAnchor": ("refused", ""),
    "$recursiveRef": ("refused", ""),
    "$recursiveAnchor": ("refused", ""),
    "$vocabulary": ("refused", ""),
}
"""keyword: (enforced | annotation | refused, how far). A keyword in no row is refused; x-… is an annotation."""

_IMPLIES = {
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties"), "object"
    ),
    **dict.fromkeys(
        ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"), "array"
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}


@dataclass(frozen=True)
class Bounds:
    """The limits that hold where a schema gives none, and how values are written.

    string: code points of a string without maxLength, or with a pattern of unlimited length.
    items: items of an array without maxItems.   properties: unnamed properties of an open object.
    key: code points of an unnamed property's name.   digits: digits before and behind a decimal point.
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
    depth: int = 4
    recursion: int = 6
    open_objects: bool = False
    zero_fraction: bool = False

    def __post_init__(self) -> None:
        for name in ("string", "items", "properties", "key", "digits", "depth", "recursion"):
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

    def also(self, other: Goal) -> Goal:
        known = {_identity(schema) for _, schema in self.parts}
        more = tuple(part for part in other.parts if _identity(part[1]) not in known)
        return Goal(self.parts + more, max(self.depth, other.depth), min(self.free, other.free))


def _identity(schema: Any) -> Any:
    return schema if isinstance(schema, bool) else id(schema)


@dataclass(frozen=True)
class Shape:
    """One alternative of a goal: which types, and for each type what holds.

    values: when not None, the only values (already checked against the rest by `Schemas.expand`).
    patterns: automata that must all accept. additional: the goal of unnamed properties, None where no schema
    speaks of them, and then `listed` says whether any named properties. choices: oneOf group -> alternative.
    """

    path: str
    types: frozenset[str] = frozenset(TYPES)
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
    properties: Mapping[str, Goal] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Goal | None = None
    listed: bool = False
    min_properties: int = 0
    max_properties: int | None = None
    choices: Mapping[tuple[Any, ...], int] = field(default_factory=dict)
    shared: bool = False
    depth: int = 0
    free: int = 0

    def item(self, index: int) -> Goal | None:
        """The goal of one item, None for anything."""
        return self.prefix[index] if index < len(self.prefix) else self.items


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


class Schemas:
    """One schema document: references, recursion, expansion of goals to shapes. `notes` collects the default
    bounds that bite."""

    def __init__(self, root: Any, bounds: Bounds, tool: str = "") -> None:
        self.root = root
        self.bounds = bounds
        self.tool = tool
        self.notes: dict[str, None] = {}
        self.cut = False  # whether recursion was cut somewhere
        name = root.get("$schema", "") if isinstance(root, Mapping) else ""
        self.old = isinstance(name, str) and any(f"draft-0{n}" in name for n in (4, 6, 7))
        self._expanded: dict[tuple[Any, ...], tuple[Shape, ...]] = {}
        self._targets: dict[str, tuple[str, Any]] = {}
        self._recursive: dict[str, bool] = {}

    def goal(self) -> Goal:
        return Goal((("", self.root),), 0, self.bounds.depth)

    def error(self, what: str, path: str, keyword: str) -> SchemaError:
        return error(what, path, self.tool, keyword)

    def note(self, path: str, what: str) -> None:
        place = f"{self.tool}: " if self.tool else ""
        self.notes[f"{place}{path or '/'}: {what}"] = None

    # ── expansion ──
    def expand(self, goal: Goal) -> tuple[Shape, ...]:
        """Its alternatives; none where nothing can satisfy it."""
        found = self._expanded.get(goal.key)
        if found is None:
            shapes = [Shape(goal.path, depth=goal.depth, free=goal.free)]
            for path, schema in goal.parts:
                shapes = [out for shape in shapes for out in self._apply(shape, path, schema)]
            found = self._expanded[goal.key] = tuple(out for shape in shapes if (out := self._close(shape)))
        return found

    def child(self, shape: Shape, path: str, schema: Any) -> Goal:
        return Goal(((path, schema),), shape.depth, shape.free)

    def anything(self, shape: Shape) -> Goal:
        """The goal of a value no schema speaks of, inside `shape`."""
        return Goal(((shape.path, True),), shape.depth, shape.free - 1)

    def _close(self, shape: Shape) -> Shape | None:
        """The finished shape: free-form depth applied, values filtered; None where nothing is left."""
        if shape.free <= 0:
            shape = replace(shape, types=shape.types - {"object", "array"})
        if shape.values is not None:
            bare = replace(shape, values=None)
            values = tuple(v for v in shape.values if self.holds(bare, v))
            shape = replace(shape, values=values)
            return shape if values else None
        return shape if shape.types else None

    def _apply(self, shape: Shape, path: str, schema: Any) -> list[Shape]:
        if schema is True:
            return [shape]
        if schema is False:
            return []
        if not isinstance(schema, Mapping):
            raise self.error(f"a schema must be an object or a boolean, not {schema!r}", path, "")
        for keyword in schema:
            kind, why = KEYWORDS.get(
                keyword, ("annotation" if str(keyword).startswith("x-") else "refused", "")
            )
            if self.old and keyword in ("contentEncoding", "contentMediaType"):
                kind, why = "refused", "draft-07 lets it assert what no automaton checks"
            if kind == "refused" and not (self.old and "$ref" in schema):
                known = keyword in KEYWORDS
                said = "is not supported" if known else "is not known"
                raise self.error(
                    f"{said}{': ' + why if why else ''}. Remove it or rewrite the schema", path, keyword
                )
        shapes = [shape]
        if "$ref" in schema:
            shapes = self._reference(shape, path, schema["$ref"])
            if self.old:
                return shapes
        shapes = [out for s in shapes if (out := self._own(s, path, schema)) is not None]
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword not in schema:
                continue
            parts = schema[keyword]
            if not isinstance(parts, list | tuple) or not parts:
                raise self.error("must be a list of at least one schema", path, keyword)
            paths = [f"{path}/{keyword}/{i}" for i in range(len(parts))]
            if keyword == "allOf":
                for at, part in zip(paths, parts, strict=True):
                    shapes = [out for s in shapes for out in self._apply(s, at, part)]
                continue
            found: list[Shape] = []
            for i, (at, part) in enumerate(zip(paths, parts, strict=True)):
                for s in shapes:
                    for out in self._apply(replace(s, path=at), at, part):
                        if keyword == "oneOf":
                            out = replace(out, choices={**out.choices, (path, id(parts)): i})
                        found.append(out)
            shapes = found
        return shapes

    def _own(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape | None:
        """`shape` narrowed by the keywords of one schema that hold no alternatives."""
        shape = self._typed(shape, path, schema)
        if "enum" in schema or "const" in schema:
            if "enum" in schema and (not isinstance(schema["enum"], list | tuple) or not schema["enum"]):
                raise self.error("must be a list of at least one value", path, "enum")
            for keyword in ("enum", "const"):
                if keyword not in schema:
                    continue
                check_json(schema[keyword], path, self.tool, keyword)
                values = schema["enum"] if keyword == "enum" else [schema["const"]]
                if keyword == "enum" and schema.get("nullable") is True:
                    values = [*values, None]
                if shape.values is not None:
                    values = [v for v in values if any(same(v, w) for w in shape.values)]
                shape = replace(shape, values=tuple(values))
        if not schema.keys().isdisjoint(_NUMBER_WORDS):
            shape = self._numbers(shape, path, schema)
        if not schema.keys().isdisjoint(_STRING_WORDS):
            narrowed = self._strings(shape, path, schema)
            if narrowed is None:
                return None
            shape = narrowed
        if not schema.keys().isdisjoint(_ARRAY_WORDS):
            shape = self._arrays(shape, path, schema)
        if not schema.keys().isdisjoint(_OBJECT_WORDS):
            shape = self._objects(shape, path, schema)
        return shape

    def _typed(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        names = schema.get("type")
        if names is None:
            if self.bounds.open_objects:
                return shape
            implied = {_IMPLIES[k] for k in schema if k in _IMPLIES}
            if isinstance(schema.get("format"), str):
                implied.add("number" if schema["format"] in NUMBER_FORMATS else "string")
            if not implied:
                return shape
            self.note(path, f"no type; taken as {' or '.join(sorted(implied))} by its keywords")
            kinds = frozenset(implied)
        else:
            names = [names] if isinstance(names, str) else names
            if not isinstance(names, list | tuple) or not names:
                raise self.error(f"must be a type name or a list of them, not {names!r}", path, "type")
            unknown = [n for n in names if n not in (*TYPES, "integer")]
            if unknown:
                raise self.error(f"unknown type {unknown[0]!r}", path, "type")
            kinds = frozenset("number" if n == "integer" else n for n in names)
            if "integer" in names and "number" not in names:
                shape = replace(shape, numbers=replace(shape.numbers, integer=True))
        if schema.get("nullable") is True:
            kinds |= {"null"}
        return replace(shape, types=shape.types & kinds)

    def _count(self, schema: Mapping[str, Any], keyword: str, path: str) -> int | None:
        value = schema.get(keyword)
        if value is None and keyword not in schema:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(f"must be an integer of at least 0, not {value!r}", path, keyword)
        if value >= 0xFFFF_0000:
            raise self.error(f"{value} is above what a counter holds (4294901759)", path, keyword)
        return value

    def _range(self, schema: Mapping[str, Any], words: tuple[str, str], path: str) -> tuple[int, int | None]:
        low, high = self._count(schema, words[0], path), self._count(schema, words[1], path)
        if low is not None and high is not None and low > high:
            raise self.error(f"{words[0]} {low} exceeds {words[1]} {high}: no value fits", path, words[0])
        return low or 0, high

    def _numbers(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        own = Interval()
        for keyword, low, open_ in _BOUND_WORDS:
            if keyword not in schema:
                continue
            bound = schema[keyword]
            if isinstance(bound, bool) and keyword.startswith("exclusive"):
                raise self.error("must be a number; the boolean form is draft-04's", path, keyword)
            own = meet(own, _side(self._fraction(bound, path, keyword), low, open_))
        if own.empty:
            raise self.error("the bounds exclude every number", path, "minimum")
        if "multipleOf" in schema:
            multiple = self._fraction(schema["multipleOf"], path, "multipleOf")
            if multiple <= 0:
                raise self.error(f"must be above 0, not {schema['multipleOf']!r}", path, "multipleOf")
            own = replace(own, multiple=multiple)
        numbers = meet(shape.numbers, own)
        types = shape.types - {"number"} if numbers.empty else shape.types
        return replace(shape, numbers=numbers, types=types)

    def _fraction(self, value: Any, path: str, keyword: str) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(f"must be a finite number, not {value!r}", path, keyword)
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        if max(len(str(exact.numerator)), len(str(exact.denominator))) > 400:
            raise self.error("has more than 400 digits", path, keyword)
        return exact

    def _strings(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape | None:
        low, high = self._range(schema, ("minLength", "maxLength"), path)
        shape = replace(
            shape,
            min_length=max(shape.min_length, low),
            max_length=_least(shape.max_length, high),
        )
        for keyword in ("pattern", "format"):
            if keyword not in schema:
                continue
            text = schema[keyword]
            if not isinstance(text, str):
                raise self.error(f"must be a string, not {text!r}", path, keyword)
            if keyword == "format" and text in NUMBER_FORMATS:
                low_high = NUMBER_FORMATS[text]
                if low_high is not None:
                    bound = Interval(Fraction(low_high[0]), Fraction(low_high[1]))
                    shape = replace(shape, numbers=meet(shape.numbers, bound))
                continue
            try:
                if keyword == "format":
                    if text not in FORMATS:
                        known = ", ".join(sorted(FORMATS))
                        raise self.error(f"unknown format {text!r}; known are {known}", path, keyword)
                    dfa = compile_pattern(FORMATS[text], whole=True)
                    if text in LONGEST:
                        shape = replace(shape, max_length=_least(shape.max_length, LONGEST[text]))
                else:
                    dfa = compile_pattern(text)
            except PatternError as problem:
                raise self.error(f"bad or unsupported pattern {text!r}: {problem}", path, keyword) from None
            if dfa is None:
                raise self.error(f"the pattern {text!r} matches nothing", path, keyword)
            if shape.pattern is not None:
                try:
                    dfa = intersect(shape.pattern, dfa)
                except TooManyStates:
                    raise self.error("together with another pattern it is too large", path, keyword) from None
            if dfa is None:
                return replace(shape, types=shape.types - {"string"})
            shape = replace(shape, pattern=dfa, pattern_from=f"{path}/{keyword}")
        return shape

    def _arrays(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        low, high = self._range(schema, ("minItems", "maxItems"), path)
        prefix, items, word = schema.get("prefixItems"), schema.get("items"), "prefixItems"
        if isinstance(items, list | tuple):
            if prefix is not None:
                raise self.error("a list of schemas cannot stand beside prefixItems", path, "items")
            prefix, items, word = items, schema.get("additionalItems"), "items"
        elif "additionalItems" in schema and not self.old and "items" in schema:
            raise self.error("needs a draft-07 list of items", path, "additionalItems")
        if prefix is not None and not isinstance(prefix, list | tuple):
            raise self.error("must be a list of schemas", path, word)
        last = "additionalItems" if word == "items" else "items"
        goals = tuple(self.child(shape, f"{path}/{word}/{i}", part) for i, part in enumerate(prefix or ()))
        rest = None if items is None else self.child(shape, f"{path}/{last}", items)
        width = max(len(goals), len(shape.prefix))
        mine = replace(shape, prefix=goals, items=rest)
        both = tuple(_both(shape.item(i), mine.item(i)) or self.anything(shape) for i in range(width))
        if schema.get("uniqueItems", False) not in (True, False):
            raise self.error("must be true or false", path, "uniqueItems")
        most = _least(shape.max_items, high)
        if schema.get("uniqueItems") is True and (most is None or most > 1):
            raise self.error(
                "needs memory of earlier items; only maxItems 1 can keep it", path, "uniqueItems"
            )
        return replace(
            shape,
            prefix=both,
            items=_both(shape.items, rest),
            min_items=max(shape.min_items, low),
            max_items=most,
        )

    def _objects(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        if not isinstance(properties, Mapping):
            raise self.error("must be an object of schemas", path, "properties")
        check_json(list(properties), path, self.tool, "properties")
        if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
            raise self.error("must be a list of names", path, "required")
        check_json(list(required), path, self.tool, "required")
        low, high = self._range(schema, ("minProperties", "maxProperties"), path)
        extra = None
        if "additionalProperties" in schema:
            extra = self.child(shape, f"{path}/additionalProperties", schema["additionalProperties"])
        mine = {
            name: self.child(shape, f"{path}/properties/{pointer(name)}", part)
            for name, part in properties.items()
        }
        joined: dict[str, Goal] = {}
        for name in [*shape.properties, *(n for n in mine if n not in shape.properties)]:
            left = shape.properties.get(name, shape.additional)
            both = _both(left, mine.get(name, extra))
            assert both is not None
            joined[name] = both
        return replace(
            shape,
            properties=joined,
            required=(*shape.required, *(n for n in dict.fromkeys(required) if n not in shape.required)),
            additional=_both(shape.additional, extra),
            listed=shape.listed or "properties" in schema,
            min_properties=max(shape.min_properties, low),
            max_properties=_least(shape.max_properties, high),
        )

    # ── references ──
    def _reference(self, shape: Shape, path: str, target: Any) -> list[Shape]:
        if not isinstance(target, str):
            raise self.error(f"must be a string, not {target!r}", path, "$ref")
        at, schema = self._resolve(target, path)
        depth = shape.depth
        if self._is_recursive(at):
            depth += 1
            if depth > self.bounds.recursion:
                self.cut = True
                self.note(path, f"recursion is cut at {self.bounds.recursion} references")
                return []
        shape = replace(shape, depth=depth, shared=True)
        return self._apply(shape, at, schema)

    def _resolve(self, target: str, path: str) -> tuple[str, Any]:
        known = self._targets.get(target)
        if known is not None:
            return known
        base = self.root.get("$id", "") if isinstance(self.root, Mapping) else ""
        place, _, fragment = target.partition("#")
        if place and place != base:
            raise self.error(f"{target!r} points outside this document; only '#…' can be used", path, "$ref")
        fragment = unquote(fragment)
        schema = self.root
        if fragment and not fragment.startswith("/"):
            found = list(_anchors(self.root, fragment, ""))
            if len(found) != 1:
                raise self.error(f"{target!r}: no single $anchor of that name", path, "$ref")
            at, schema = found[0]
        else:
            at = fragment
            for token in fragment.split("/")[1:]:
                token = token.replace("~1", "/").replace("~0", "~")
                if isinstance(schema, Mapping) and token in schema:
                    schema = schema[token]
                elif isinstance(schema, list | tuple) and token.isdecimal() and int(token) < len(schema):
                    schema = schema[int(token)]
                else:
                    raise self.error(f"{target!r} points at nothing", path, "$ref")
                if isinstance(schema, Mapping) and "$id" in schema:
                    raise self.error(f"{target!r} passes an embedded $id; refused", path, "$ref")
        self._targets[target] = (at, schema)
        return at, schema

    def _is_recursive(self, at: str) -> bool:
        known = self._recursive.get(at)
        if known is None:
            reached: set[str] = set()
            queue = [at]
            while queue:
                schema = self._resolve("#" + queue.pop(), at)[1]
                for target in _references(schema):
                    next_at = self._resolve(target, at)[0]
                    if next_at not in reached:
                        reached.add(next_at)
                        queue.append(next_at)
            # A reference to a schema around another one comes back to it as well.
            known = any(at == r or at.startswith(r + "/") for r in reached)
            self._recursive[at] = known
        return known

    # ── values ──
    def holds(self, shape: Shape, value: Any) -> bool:
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
            most = len(value) if shape.max_length is None else shape.max_length
            if not shape.min_length <= len(value) <= most:
                return False
            return shape.pattern is None or shape.pattern.matches(value)
        if kind == "array":
            if (
                not shape.min_items
                <= len(value)
                <= (len(value) if shape.max_items is None else shape.max_items)
            ):
                return False
            return all(self._fits(shape.item(i), v) for i, v in enumerate(value))
        if kind == "object":
            most = len(value) if shape.max_properties is None else shape.max_properties
            if not shape.min_properties <= len(value) <= most or any(n not in value for n in shape.required):
                return False
            return all(self._fits(shape.properties.get(n, shape.additional), v) for n, v in value.items())
        return True

    def _fits(self, goal: Goal | None, value: Any) -> bool:
        return goal is None or any(self.holds(shape, value) for shape in self.expand(goal))


_NUMBER_WORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_BOUND_WORDS = (
    ("minimum", True, False),
    ("maximum", False, False),
    ("exclusiveMinimum", True, True),
    ("exclusiveMaximum", False, True),
)
_STRING_WORDS = frozenset({"minLength", "maxLength", "pattern", "format"})
_ARRAY_WORDS = frozenset({"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"})
_OBJECT_WORDS = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)


def _side(bound: Fraction, low: bool, open_: bool) -> Interval:
    return Interval(low=bound, low_open=open_) if low else Interval(high=bound, high_open=open_)


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
    return Interval(low, high, low_open, high_open, multiple, a.integer or b.integer)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _both(a: Goal | None, b: Goal | None) -> Goal | None:
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


_NO_SCHEMAS = frozenset({"enum", "const", "default", "examples", "example"})


def _references(schema: Any) -> Iterable[str]:
    queue: list[Any] = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$ref"), str):
                yield item["$ref"]
            queue += [v for k, v in item.items() if k not in _NO_SCHEMAS]
        elif isinstance(item, list | tuple):
            queue += item


def _anchors(schema: Any, name: str, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(schema, Mapping):
        if schema.get("$anchor") == name or schema.get("$id") == f"#{name}":
            yield path, schema
        for key, part in schema.items():
            if key not in _NO_SCHEMAS:
                yield from _anchors(part, name, f"{path}/{pointer(key)}")
    elif isinstance(schema, list | tuple):
        for i, part in enumerate(schema):
            yield from _anchors(part, name, f"{path}/{i}")


def paths(goals: Sequence[Goal]) -> str:
    return ", ".join(goal.path or "/" for goal in goals)
