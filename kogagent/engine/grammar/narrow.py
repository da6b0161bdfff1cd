"""What one schema says by itself, as a narrower shape. Knows keywords and shapes; no automaton states.

Two schemas that meet and leave nothing of a type take the type away; one that contradicts itself does so too,
and says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

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
from kogagent.engine.grammar.disjoint import require_disjoint
from kogagent.engine.grammar.formats import FORMATS, HINTS, LONGEST, NUMBER_FORMATS
from kogagent.engine.grammar.keywords import IMPLIES
from kogagent.engine.grammar.numbers import Interval
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.engine.grammar.shapes import (
    TYPES,
    AsSpecified,
    Contains,
    Goal,
    Layer,
    Seen,
    Shape,
    both,
    check_json,
    least,
    meet,
    pointer,
    same,
)

if TYPE_CHECKING:
    from kogagent.engine.grammar.schema import Schemas


class Narrowing:
    """Narrows the shapes of one document."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.error = schemas.error
        self._made: dict[tuple[Any, ...], Any] = {}  # schemas made here, the same ones every time

    def own(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        """`shape` narrowed by the keywords of one schema that hold no alternatives."""
        shape = self._typed(shape, path, schema, spec)
        if "enum" in schema or "const" in schema:
            if "enum" in schema and (not isinstance(schema["enum"], list | tuple) or not schema["enum"]):
                raise self.error("must be a list of at least one value", path, "enum")
            for keyword in ("enum", "const"):
                if keyword not in schema:
                    continue
                check_json(schema[keyword], path, self.schemas.tool, keyword)
                values = schema["enum"] if keyword == "enum" else [schema["const"]]
                if keyword == "enum" and schema.get("nullable") is True:
                    values = [*values, None]
                if shape.values is not None:
                    values = [v for v in values if any(same(v, w) for w in shape.values)]
                shape = shape.but(values=tuple(values))
        if not schema.keys().isdisjoint(_NUMBER_WORDS):
            shape = self._numbers(shape, path, schema)
        if not schema.keys().isdisjoint(_STRING_WORDS):
            shape = self._strings(shape, path, schema)
        if not schema.keys().isdisjoint(_ARRAY_WORDS):
            shape = self._arrays(shape, path, schema, spec)
        if "contains" in schema:
            shape = self._contains(shape, path, schema)
        if not schema.keys().isdisjoint(_OBJECT_WORDS):
            shape = self._objects(shape, path, schema, spec)
        return shape

    def _typed(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        names = schema.get("type")
        if names is None:
            if self.schemas.bounds.open_objects or spec:
                return shape
            implied = {IMPLIES[k] for k in schema if k in IMPLIES}
            if isinstance(schema.get("format"), str):
                implied.add("number" if schema["format"] in NUMBER_FORMATS else "string")
            implied -= shape.implied
            if not implied:
                return shape
            if schema.get("nullable") is True:
                implied.add("null")
            return shape.but(implied=shape.implied | implied)
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list | tuple) or not names:
            raise self.error(f"must be a type name or a list of them, not {names!r}", path, "type")
        unknown = [n for n in names if n not in (*TYPES, "integer")]
        if unknown:
            raise self.error(f"unknown type {unknown[0]!r}", path, "type")
        kinds = frozenset("number" if n == "integer" else n for n in names)
        if schema.get("nullable") is True:
            kinds |= {"null"}
        numbers = shape.numbers
        if "integer" in names and "number" not in names and not numbers.integer:
            numbers = meet(numbers, _INTEGERS)
        return shape.but(types=shape.types & kinds, typed=True, numbers=numbers)

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

    def _range(self, shape: Shape, kind: str, what: str, schema: Mapping[str, Any], path: str) -> _Range:
        """(shape, least, most) of min… and max…: the shape without the type where they contradict."""
        words = f"min{what}", f"max{what}"
        low, high = self._count(schema, words[0], path), self._count(schema, words[1], path)
        if low is not None and high is not None and low > high:
            shape = self._without(shape, kind, f"{words[0]} {low} exceeds {words[1]} {high}", path, words[0])
        return shape, low or 0, high

    def _without(self, shape: Shape, kind: str, why: str, path: str, keyword: str) -> Shape:
        """The shape without a type, of which a schema leaves nothing by itself."""
        if kind in shape.types:
            self.schemas.vanish(why, path, keyword)
        return shape.but(types=shape.types - {kind})

    def _numbers(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        own = Interval()
        for keyword, low, open_ in _BOUND_WORDS:
            if keyword not in schema:
                continue
            bound = schema[keyword]
            if isinstance(bound, bool) and open_:
                if not self.schemas.old:
                    raise self.error("must be a number; the boolean form is draft-04's", path, keyword)
                plain = "minimum" if low else "maximum"
                if not bound or plain not in schema:
                    continue
                bound = schema[plain]
            own = meet(own, _side(self._fraction(bound, path, keyword), low, open_))
        if "multipleOf" in schema:
            multiple = self._fraction(schema["multipleOf"], path, "multipleOf")
            if multiple <= 0:
                raise self.error(f"must be above 0, not {schema['multipleOf']!r}", path, "multipleOf")
            own = replace(own, multiple=multiple)
        if own.empty:
            return self._without(shape, "number", "the bounds exclude every number", path, "minimum")
        numbers = meet(shape.numbers, own)
        types = shape.types - {"number"} if numbers.empty else shape.types
        return shape.but(numbers=numbers, types=types)

    def _fraction(self, value: Any, path: str, keyword: str) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(f"must be a finite number, not {value!r}", path, keyword)
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        if max(len(str(exact.numerator)), len(str(exact.denominator))) > 400:
            raise self.error("has more than 400 digits", path, keyword)
        return exact

    def _strings(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        shape, low, high = self._range(shape, "string", "Length", schema, path)
        shape = shape.but(
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
                    shape = shape.but(numbers=meet(shape.numbers, bound))
                continue
            if keyword == "pattern":
                dfa = self._pattern(text, path, keyword)
                if dfa is None:
                    why = f"the pattern {text!r} matches nothing"
                    return self._without(shape, "string", why, path, keyword)
            else:
                if text not in FORMATS:
                    known = ", ".join(sorted(FORMATS))
                    raise self.error(f"unknown format {text!r}; known are {known}", path, keyword)
                dfa = compile_pattern(FORMATS[text], whole=True)
                if text in LONGEST:
                    shape = shape.but(max_length=least(shape.max_length, LONGEST[text]))
            if shape.pattern is not None and dfa is not None:
                try:
                    dfa = intersect(shape.pattern, dfa)
                except TooManyStates:
                    raise self.error("together with another pattern it is too large", path, keyword) from None
            if dfa is None:
                return shape.but(types=shape.types - {"string"})
            shape = shape.but(pattern=dfa, pattern_from=f"{path}/{keyword}")
        if shape.max_length is not None and shape.min_length > shape.max_length:
            return shape.but(types=shape.types - {"string"})  # two schemas that meet leave no string
        return shape

    def _pattern(self, text: str, path: str, keyword: str) -> Dfa | None:
        """What a pattern matches, None for nothing."""
        try:
            return compile_pattern(text)
        except PatternError as problem:
            raise self.error(f"bad or unsupported pattern {text!r}: {problem}", path, keyword) from None

    def _arrays(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        shape, low, high = self._range(shape, "array", "Items", schema, path)
        prefix, items, word = schema.get("prefixItems"), schema.get("items"), "prefixItems"
        if isinstance(items, list | tuple):
            if prefix is not None:
                raise self.error("a list of schemas cannot stand beside prefixItems", path, "items")
            prefix, items, word = items, schema.get("additionalItems"), "items"
        elif "additionalItems" in schema and not self.schemas.old and "items" in schema:
            raise self.error("needs a draft-07 list of items", path, "additionalItems")
        if prefix is not None and not isinstance(prefix, list | tuple):
            raise self.error("must be a list of schemas", path, word)
        last = "additionalItems" if word == "items" else "items"
        goals = tuple(
            self.schemas.child(shape, f"{path}/{word}/{i}", part, spec) for i, part in enumerate(prefix or ())
        )
        rest = None if items is None else self.schemas.child(shape, f"{path}/{last}", items, spec)
        if shape.seen is not None:
            spoken = Seen(items=len(goals), rest=items is not None)
            shape = shape.but(seen=shape.seen.also(spoken))
        if schema.get("uniqueItems", False) not in (True, False):
            raise self.error("must be true or false", path, "uniqueItems")
        joined = self._items(shape, goals, rest).but(
            min_items=max(shape.min_items, low),
            max_items=least(shape.max_items, high),
            unique=shape.unique or schema.get("uniqueItems") is True,
        )
        if joined.max_items is not None and joined.min_items > joined.max_items:
            return joined.but(types=joined.types - {"array"})  # two schemas that meet leave no array
        return joined

    def _items(self, shape: Shape, goals: tuple[Goal | None, ...], rest: Goal | None) -> Shape:
        """`shape` with goals of its first items and of the rest; None for anything."""
        width = max(len(goals), len(shape.prefix))
        mine = (*goals, *([rest] * (width - len(goals))))
        joint = tuple(both(shape.item(i), mine[i]) or self.schemas.anything(shape) for i in range(width))
        return shape.but(prefix=joint, items=both(shape.items, rest))

    def _contains(self, shape: Shape, path: str, schema: Mapping[str, Any]) -> Shape:
        low, high = self._count(schema, "minContains", path), self._count(schema, "maxContains", path)
        part, place = schema["contains"], f"{path}/contains"
        low = 1 if low is None else low
        if shape.seen is not None:
            shape = shape.but(seen=shape.seen.also(Seen(contained=((place, part),))))
        if high is not None and low > high:
            why = f"minContains {low} exceeds maxContains {high}"
            return self._without(shape, "array", why, path, "minContains")
        other = self._made.setdefault(("not", id(part)), {"not": part})
        want = Contains(
            self.schemas.child(shape, place, part, True),
            self.schemas.child(shape, place, other, True),
            low,
            high,
        )
        return shape.but(contains=(*shape.contains, want))

    def _objects(self, shape: Shape, path: str, schema: Mapping[str, Any], spec: bool) -> Shape:
        required = schema.get("required", ())
        if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
            raise self.error("must be a list of names", path, "required")
        check_json(list(required), path, self.schemas.tool, "required")
        shape, low, high = self._range(shape, "object", "Properties", schema, path)
        mine = {
            name: self.schemas.child(shape, f"{path}/properties/{pointer(name)}", part, spec)
            for name, part in self._parts(schema, "properties", path)
        }
        extra = None
        if "additionalProperties" in schema:
            others = schema["additionalProperties"]
            extra = self.schemas.child(shape, f"{path}/additionalProperties", others, spec)
        patterns = tuple(
            (dfa, self.schemas.child(shape, f"{path}/patternProperties/{pointer(text)}", part, spec))
            for text, part in self._parts(schema, "patternProperties", path)
            if (dfa := self._pattern(text, path, "patternProperties")) is not None
        )
        names = shape.names
        if "propertyNames" in schema:
            names = self._names(
                names, self.schemas.child(shape, f"{path}/propertyNames", schema["propertyNames"], spec)
            )
        if shape.seen is not None:
            spoken = Seen(frozenset(mine), tuple(dfa for dfa, _ in patterns), extra is not None)
            shape = shape.but(seen=shape.seen.also(spoken))
        shape = self._members(shape.but(names=names), path, mine, patterns, extra)
        needed = (*shape.required, *(n for n in dict.fromkeys(required) if n not in shape.required))
        listed = shape.listed or (
            not spec and not schema.keys().isdisjoint(("properties", "patternProperties"))
        )
        return shape.but(
            required=needed,
            listed=listed,
            min_properties=max(shape.min_properties, low),
            max_properties=least(shape.max_properties, high),
        )

    def _members(
        self,
        shape: Shape,
        path: str,
        mine: Mapping[str, Goal],
        patterns: tuple[tuple[Dfa, Goal], ...],
        extra: Goal | None,
    ) -> Shape:
        """`shape` with goals of properties by name, by pattern, and of all others; None for anything."""
        joined: dict[str, Goal] = {}
        for name in [*shape.properties, *(n for n in mine if n not in shape.properties)]:
            goal, own = shape.property(name), mine.get(name)
            hit = [part for dfa, part in patterns if dfa.matches(name)]
            for more in ([own] if own is not None else []) + hit or ([extra] if extra is not None else []):
                goal = both(goal, more)
            if shape.names is not None and not shape.names.matches(name):
                goal = self.schemas.child(shape, f"{path}/propertyNames", False)
            assert goal is not None
            joined[name] = goal
        return shape.but(
            properties=joined,
            additional=shape.additional if patterns else both(shape.additional, extra),
            layers=(*shape.layers, Layer(patterns, extra)) if patterns else shape.layers,
        )

    def unevaluated(
        self, shape: Shape, outer: Seen | None, path: str, schema: Mapping[str, Any], spec: bool
    ) -> Shape:
        """`shape` with what a schema says of all that it and those that hold with it do not speak of. outer:
        what had been spoken of before it."""
        seen = shape.seen
        assert seen is not None
        word = "unevaluatedProperties"
        if word in schema and not seen.properties:
            rest = self.schemas.child(shape, f"{path}/{word}", schema[word], spec)
            # Names that were listed need no goal of their own here: they have those that list them.
            spoken = {name: shape.properties[name] for name in shape.properties if name in seen.names}
            free = self.schemas.child(shape, path, True)
            shape = self._members(shape, path, spoken, tuple((dfa, free) for dfa in seen.patterns), rest)
            seen = seen.also(Seen(properties=True))
        word = "unevaluatedItems"
        if word in schema and not seen.rest:
            part, as_specified = schema[word], spec
            if seen.contained:
                key = (word, id(schema), *(id(part) for _, part in seen.contained))
                parts = [*(part for _, part in seen.contained), part]
                part, as_specified = self._made.setdefault(key, {"anyOf": parts}), True
            rest = self.schemas.child(shape, f"{path}/{word}", part, as_specified)
            shape = self._items(shape, (None,) * seen.items, rest)
            seen = seen.also(Seen(rest=True))
        return shape.but(seen=None if outer is None else outer.also(seen))

    def _parts(self, schema: Mapping[str, Any], keyword: str, path: str) -> Iterable[tuple[str, Any]]:
        parts = schema.get(keyword, {})
        if not isinstance(parts, Mapping):
            raise self.error("must be an object of schemas", path, keyword)
        check_json(list(parts), path, self.schemas.tool, keyword)
        return parts.items()

    def _names(self, known: Dfa | None, goal: Goal) -> Dfa | None:
        """The names that propertyNames leaves."""
        found: list[Dfa] = []
        string = Goal(((goal.path, AsSpecified(_STRING)),), goal.depth, goal.free)
        for shape in require_disjoint(self.schemas, goal.also(string), goal.path):
            if shape.values is not None:
                texts = [value for value in shape.values if isinstance(value, str)]
                found += [literals(texts)] if texts else []
            else:
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


_STRING = {"type": "string"}
_INTEGERS = Interval(integer=True)
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


_Range = tuple[Shape, int, int | None]


def _side(bound: Fraction, low: bool, open_: bool) -> Interval:
    return Interval(low=bound, low_open=open_) if low else Interval(high=bound, high_open=open_)
