"""JSON Schema to shapes: one shape for each alternative of a goal. Knows no automaton, no bytes.

2020-12 and draft-07; keywords.py is the whole table. Recursion is cut by depth here: everything behind is
finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from kogagent.engine.grammar.dfa import (
    ANYTHING,
    NOTHING,
    Dfa,
    TooManyStates,
    at_least,
    at_most,
    intersect,
    literals,
    union,
)
from kogagent.engine.grammar.formats import FORMATS, HINTS, LONGEST, NUMBER_FORMATS
from kogagent.engine.grammar.keywords import IMPLIES, verdict
from kogagent.engine.grammar.logic import Alternatives, Part, alternatives
from kogagent.engine.grammar.numbers import Interval
from kogagent.engine.grammar.references import References
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.engine.grammar.shapes import (
    TYPES,
    AsSpecified,
    Bounds,
    Goal,
    Layer,
    Shape,
    both,
    check_json,
    error,
    least,
    meet,
    pointer,
    same,
    type_of,
)
from kogagent.errors import SchemaError


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
        self._alternatives: dict[tuple[int, str], Alternatives] = {}
        self._references = References(root, tool)

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

    def child(self, shape: Shape, path: str, schema: Any, spec: bool = False) -> Goal:
        return Goal(((path, AsSpecified(schema) if spec else schema),), shape.depth, shape.free)

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
        if shape.split and any(_never(goal) for n, goal in shape.properties.items() if n in shape.required):
            shape = replace(shape, types=shape.types - {"object"})  # of an alternative; alone it is an error
        return shape if shape.types else None

    def _apply(self, shape: Shape, path: str, schema: Any, spec: bool = False) -> list[Shape]:
        """`shape` narrowed by one schema, its alternatives; spec: it is read as the specification does."""
        if isinstance(schema, AsSpecified):
            return self._apply(shape, path, schema.schema, True)
        if isinstance(schema, Part):
            return schema.narrow(self, shape, path)
        if schema is True:
            return [shape]
        if schema is False:
            return []
        if not isinstance(schema, Mapping):
            raise self.error(f"a schema must be an object or a boolean, not {schema!r}", path, "")
        for keyword in schema:
            kind, why = verdict(keyword)
            if self.old and keyword in ("contentEncoding", "contentMediaType"):
                kind, why = "refused", "is not supported: draft-07 lets it assert what no automaton checks"
            if kind == "refused" and not (self.old and "$ref" in schema):
                raise self.error(why, path, keyword)
        shapes = [shape]
        if "$ref" in schema:
            shapes = self._reference(shape, path, schema["$ref"], spec)
            if self.old:
                return shapes
        shapes = [out for s in shapes if (out := self._own(s, path, schema, spec)) is not None]
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword not in schema:
                continue
            parts = schema[keyword]
            if not isinstance(parts, list | tuple) or not parts:
                raise self.error("must be a list of at least one schema", path, keyword)
            paths = [f"{path}/{keyword}/{i}" for i in range(len(parts))]
            if keyword == "allOf":
                for at, part in zip(paths, parts, strict=True):
                    shapes = [out for s in shapes for out in self._apply(s, at, part, spec)]
                continue
            found: list[Shape] = []
            for i, (at, part) in enumerate(zip(paths, parts, strict=True)):
                for s in shapes:
                    for out in self._apply(replace(s, path=at), at, part, spec):
                        if keyword == "oneOf":
                            out = replace(out, choices={**out.choices, (path, id(parts)): i})
                        found.append(replace(out, split=keyword))
            shapes = found
        for keyword in _LOGIC_WORDS:
            if keyword not in schema:
                continue
            shapes = self._either(shapes, path, keyword, self._logic(path, schema, keyword), spec)
        return shapes

    def _logic(self, path: str, schema: Mapping[str, Any], keyword: str) -> Alternatives:
        """What one of these keywords says, as alternatives of other schemas; the same ones every time."""
        key = (id(schema), keyword)
        if key not in self._alternatives:
            self._alternatives[key] = alternatives(schema, keyword, path, self._negatable, self.error)
        return self._alternatives[key]

    def _negatable(self, target: Any, path: str) -> Any:
        """The schema a reference inside `not` points at."""
        if not isinstance(target, str):
            raise self.error(f"must be a string, not {target!r}", path, "$ref")
        at, schema = self._references.resolve(target, path)
        if self._references.is_recursive(at):
            raise self.error(f"{target!r} is recursive and stands inside not or if; refused", path, "$ref")
        return schema

    def _either(
        self, shapes: list[Shape], path: str, keyword: str, parts: Alternatives, spec: bool
    ) -> list[Shape]:
        """The shapes under one of several alternatives. What a condition lists closes no object."""
        found: list[Shape] = []
        for shape in shapes:
            for conditions, consequence in parts:
                narrowed = [shape]
                for part in conditions:
                    narrowed = [out for s in narrowed for out in self._apply(s, path, part, True)]
                narrowed = [replace(out, listed=shape.listed) for out in narrowed]
                at = f"{path}/{keyword}" if keyword != "if" else path
                found += [out for s in narrowed for out in self._apply(s, at, consequence, spec)]
        if len(found) > MAX_ALTERNATIVES:
            raise self.error(f"makes more than {MAX_ALTERNATIVES} alternatives", path, keyword)
        return found if len(parts) == 1 else [replace(out, split=keyword) for out in found]

    def _own(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape | None:
        """`shape` narrowed by the keywords of one schema that hold no alternatives."""
        shape = self._typed(shape, path, schema, spec)
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
            shape = self._arrays(shape, path, schema, spec)
        if not schema.keys().isdisjoint(_OBJECT_WORDS):
            shape = self._objects(shape, path, schema, spec)
        return shape

    def _typed(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        names = schema.get("type")
        if names is None:
            if self.bounds.open_objects or spec:
                return shape
            implied = {IMPLIES[k] for k in schema if k in IMPLIES}
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
            max_length=least(shape.max_length, high),
        )
        for keyword in ("pattern", "format"):
            if keyword not in schema:
                continue
            text = schema[keyword]
            if not isinstance(text, str):
                raise self.error(f"must be a string, not {text!r}", path, keyword)
            if keyword == "format" and text in HINTS:
                continue
            if keyword == "format" and text in NUMBER_FORMATS:
                low_high = NUMBER_FORMATS[text]
                if low_high is not None:
                    bound = Interval(Fraction(low_high[0]), Fraction(low_high[1]))
                    shape = replace(shape, numbers=meet(shape.numbers, bound))
                continue
            if keyword == "pattern":
                dfa: Dfa | None = self._pattern(text, path, keyword)
            else:
                if text not in FORMATS:
                    known = ", ".join(sorted(FORMATS))
                    raise self.error(f"unknown format {text!r}; known are {known}", path, keyword)
                dfa = compile_pattern(FORMATS[text], whole=True)
                if text in LONGEST:
                    shape = replace(shape, max_length=least(shape.max_length, LONGEST[text]))
            if shape.pattern is not None and dfa is not None:
                try:
                    dfa = intersect(shape.pattern, dfa)
                except TooManyStates:
                    raise self.error("together with another pattern it is too large", path, keyword) from None
            if dfa is None:
                return replace(shape, types=shape.types - {"string"})
            shape = replace(shape, pattern=dfa, pattern_from=f"{path}/{keyword}")
        if shape.max_length is not None and shape.min_length > shape.max_length:
            return replace(shape, types=shape.types - {"string"})  # two schemas that meet leave no string
        return shape

    def _pattern(self, text: str, path: str, keyword: str) -> Dfa:
        try:
            dfa = compile_pattern(text)
        except PatternError as problem:
            raise self.error(f"bad or unsupported pattern {text!r}: {problem}", path, keyword) from None
        if dfa is None:
            raise self.error(f"the pattern {text!r} matches nothing", path, keyword)
        return dfa

    def _arrays(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
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
        goals = tuple(
            self.child(shape, f"{path}/{word}/{i}", part, spec) for i, part in enumerate(prefix or ())
        )
        rest = None if items is None else self.child(shape, f"{path}/{last}", items, spec)
        width = max(len(goals), len(shape.prefix))
        mine = replace(shape, prefix=goals, items=rest)
        joint = tuple(both(shape.item(i), mine.item(i)) or self.anything(shape) for i in range(width))
        if schema.get("uniqueItems", False) not in (True, False):
            raise self.error("must be true or false", path, "uniqueItems")
        joined = replace(
            shape,
            prefix=joint,
            items=both(shape.items, rest),
            min_items=max(shape.min_items, low),
            max_items=least(shape.max_items, high),
            unique=shape.unique or schema.get("uniqueItems") is True,
        )
        if joined.max_items is not None and joined.min_items > joined.max_items:
            return replace(joined, types=joined.types - {"array"})  # two schemas that meet leave no array
        return joined

    def _objects(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        required = schema.get("required", ())
        if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
            raise self.error("must be a list of names", path, "required")
        check_json(list(required), path, self.tool, "required")
        low, high = self._range(schema, ("minProperties", "maxProperties"), path)
        mine = {
            name: self.child(shape, f"{path}/properties/{pointer(name)}", part, spec)
            for name, part in self._parts(schema, "properties", path)
        }
        extra = None
        if "additionalProperties" in schema:
            extra = self.child(shape, f"{path}/additionalProperties", schema["additionalProperties"], spec)
        patterns = tuple(
            (
                self._pattern(text, path, "patternProperties"),
                self.child(shape, f"{path}/patternProperties/{pointer(text)}", part, spec),
            )
            for text, part in self._parts(schema, "patternProperties", path)
        )
        names = shape.names
        if "propertyNames" in schema:
            names = self._names(
                names, self.child(shape, f"{path}/propertyNames", schema["propertyNames"], spec)
            )
        joined: dict[str, Goal] = {}
        for name in [*shape.properties, *(n for n in mine if n not in shape.properties)]:
            goal, own = shape.property(name), mine.get(name)
            hit = [part for dfa, part in patterns if dfa.matches(name)]
            for more in ([own] if own is not None else []) + hit or ([extra] if extra is not None else []):
                goal = both(goal, more)
            if names is not None and not names.matches(name):
                goal = self.child(shape, f"{path}/propertyNames", False)
            assert goal is not None
            joined[name] = goal
        layer = (Layer(patterns, extra),) if patterns else ()
        needed = (*shape.required, *(n for n in dict.fromkeys(required) if n not in shape.required))
        listed = shape.listed or (
            not spec and not schema.keys().isdisjoint(("properties", "patternProperties"))
        )
        return replace(
            shape,
            properties=joined,
            required=needed,
            additional=shape.additional if patterns else both(shape.additional, extra),
            layers=shape.layers + layer,
            names=names,
            listed=listed,
            min_properties=max(shape.min_properties, low),
            max_properties=least(shape.max_properties, high),
        )

    def _parts(self, schema: Mapping[str, Any], keyword: str, path: str) -> Iterable[tuple[str, Any]]:
        parts = schema.get(keyword, {})
        if not isinstance(parts, Mapping):
            raise self.error("must be an object of schemas", path, keyword)
        check_json(list(parts), path, self.tool, keyword)
        return parts.items()

    def _names(self, known: Dfa | None, goal: Goal) -> Dfa | None:
        """The names that propertyNames leaves."""
        found: list[Dfa] = []
        for shape in self.expand(goal):
            if shape.values is not None:
                texts = [value for value in shape.values if isinstance(value, str)]
                found += [literals(texts)] if texts else []
            elif "string" in shape.types:
                dfa = ANYTHING if shape.pattern is None else shape.pattern
                if shape.pattern is None and not shape.min_length and shape.max_length is None:
                    return known
                low, high = shape.min_length, shape.max_length
                try:
                    part = at_least(dfa, low) if low else dfa
                    part = part if part is None or high is None else at_most(part, high)
                except TooManyStates:
                    raise self.error(
                        "these lengths need too many states", goal.path, "propertyNames"
                    ) from None
                found += [part] if part is not None else []
        names = union(found) if found else NOTHING
        if known is None:
            return names
        return intersect(known, names) or NOTHING

    # ── references ──
    def _reference(self, shape: Shape, path: str, target: Any, spec: bool) -> list[Shape]:
        if not isinstance(target, str):
            raise self.error(f"must be a string, not {target!r}", path, "$ref")
        at, schema = self._references.resolve(target, path)
        depth = shape.depth
        if self._references.is_recursive(at):
            depth += 1
            if depth > self.bounds.recursion:
                self.cut = True
                self.note(path, f"recursion is cut at {self.bounds.recursion} references")
                return []
        shape = replace(shape, depth=depth, shared=True)
        return self._apply(shape, at, schema, spec)

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
            if shape.unique and any(same(v, w) for i, v in enumerate(value) for w in value[:i]):
                return False
            return all(self._fits(shape.item(i), v) for i, v in enumerate(value))
        if kind == "object":
            most = len(value) if shape.max_properties is None else shape.max_properties
            if not shape.min_properties <= len(value) <= most or any(n not in value for n in shape.required):
                return False
            if shape.names is not None and not all(map(shape.names.matches, value)):
                return False
            return all(self._fits(shape.property(n), v) for n, v in value.items())
        return True

    def enumerated(self, goal: Goal) -> list[Any] | None:
        """All values of a goal, where they are enumerated."""
        out: list[Any] = []
        for shape in self.expand(goal):
            values = shape.values
            if values is None and shape.types <= {"null", "boolean"}:
                values = (*((None,) if "null" in shape.types else ()),)
                values += (True, False) if "boolean" in shape.types else ()
            if values is None:
                return None
            out += [v for v in values if not any(same(v, w) for w in out)]
        return out

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
    {
        *("properties", "patternProperties", "additionalProperties", "propertyNames", "required"),
        *("minProperties", "maxProperties"),
    }
)
_LOGIC_WORDS = ("not", "if", "dependentRequired", "dependentSchemas", "dependencies")

MAX_ALTERNATIVES = 128
"""Most alternatives a schema may come to by these."""


def _never(goal: Goal) -> bool:
    return any(
        part is False or (isinstance(part, AsSpecified) and part.schema is False) for _, part in goal.parts
    )


def _side(bound: Fraction, low: bool, open_: bool) -> Interval:
    return Interval(low=bound, low_open=open_) if low else Interval(high=bound, high_open=open_)
