"""not, if and the dependent… keywords as alternatives of other schemas. Knows keywords; no automaton.

    not S        one of what S's keywords forbid, each of the others holding: their order makes them disjoint
    if S then T  S and T, or not S and else
    dependent…   the property is missing, or it is there and what depends on it holds

What cannot be said by other keywords ("not all items are integers") is a `Refused`: an error, unless what
stands beside it rules it out anyway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kogagent.engine.grammar.dfa import Dfa, TooManyStates, complement, intersect, literals
from kogagent.engine.grammar.keywords import verdict
from kogagent.engine.grammar.numbers import Interval
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.engine.grammar.shapes import TYPES, Shape, check_json, meet, same, type_of
from kogagent.errors import SchemaError

if TYPE_CHECKING:
    from kogagent.engine.grammar.schema import Schemas

Conjunction = tuple[Any, ...]
"""Schemas and `Part`s that hold together."""

Alternatives = Sequence[tuple[Conjunction, Any]]
"""(what holds, read as the specification does; a schema that then holds too, read as any other)."""

Errors = Callable[[str, str, str], SchemaError]
Resolve = Callable[[Any, str], Any]

_ANY = frozenset(TYPES)


class Part(ABC):
    """What no JSON Schema can say: narrows a shape to its alternatives."""

    @abstractmethod
    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        """The alternatives of `shape` that it leaves. Raises SchemaError where no automaton can hold them."""


@dataclass(frozen=True, eq=False)
class Unlike(Part):
    """A string that an automaton does not accept."""

    dfa: Dfa

    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        shape = shape.but(types=shape.types & {"string"})
        if shape.values is not None:
            kept = tuple(v for v in shape.values if isinstance(v, str) and not self.dfa.matches(v))
            return [shape.but(values=kept)] if kept else []
        try:
            rest = complement(self.dfa)
            joint = rest if rest is None or shape.pattern is None else intersect(shape.pattern, rest)
        except TooManyStates:
            raise schemas.error("what it leaves has too many states", path, "not") from None
        return [] if joint is None else [shape.but(pattern=joint, pattern_from=f"{path}/not")]


@dataclass(frozen=True, eq=False)
class OtherValue(Part):
    """A value that is none of these."""

    values: tuple[Any, ...]

    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        if shape.values is None:
            return [shape]
        kept = tuple(v for v in shape.values if not any(same(v, w) for w in self.values))
        return [shape.but(values=kept)] if kept else []


@dataclass(frozen=True, eq=False)
class Fractional(Part):
    """A number that is no integer."""

    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        if shape.values is not None:
            kept = tuple(v for v in shape.values if type_of(v) == "number" and v % 1)
            return [shape.but(values=kept)] if kept else []
        numbers = meet(shape.numbers, Interval(fractional=True))
        types = shape.types & {"number"} if not numbers.empty else frozenset[str]()
        return [shape.but(types=types, numbers=numbers)] if types else []


@dataclass(frozen=True, eq=False)
class Refused(Part):
    """What only memory could keep: an error where the types are possible."""

    types: frozenset[str]
    why: str
    keyword: str

    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        if shape.values is not None:
            possible = frozenset(map(type_of, shape.values)) & self.types & shape.types
        else:
            possible = shape.likely & self.types
        if not possible:
            return []
        raise schemas.error(f"{self.why}; refused", path, self.keyword)


def alternatives(
    schema: Mapping[str, Any],
    keyword: str,
    path: str,
    resolve: Resolve,
    errors: Errors,
    tracked: bool = False,
) -> Alternatives:
    """What one of the keywords of `schema` says. tracked: it matters what a condition speaks of, even where
    nothing follows from it. Raises SchemaError for what is no schema."""
    negation = _Negation(resolve, errors)
    value = schema[keyword]
    if keyword == "not":
        return [(parts, True) for parts in negation.of(value, f"{path}/not")]
    if keyword == "if":
        if "then" not in schema and "else" not in schema and not tracked:
            return [((), True)]
        unmet = negation.of(value, f"{path}/if") if schema.get("else", True) is not False else []
        return [((value,), schema.get("then", True)), *((parts, schema.get("else", True)) for parts in unmet)]
    if not isinstance(value, Mapping):
        raise errors("must be an object", path, keyword)
    check_json(list(value), path, "", keyword)
    out: list[tuple[Conjunction, Any]] = [((), True)]
    for name, needs in value.items():
        listed = isinstance(needs, list | tuple)
        if keyword != "dependencies" and listed != (keyword == "dependentRequired"):
            raise errors(f"what depends on {name!r} has the wrong form", path, keyword)
        if listed and not all(isinstance(other, str) for other in needs):
            raise errors(f"what depends on {name!r} must be a list of names", path, keyword)
        without = {"properties": {name: False}}
        there = {"required": [name, *needs]} if listed else {"type": "object", "required": [name]}
        more: list[Conjunction] = [(without,), ({"type": "object"}, there) if listed else (there, needs)]
        out = [((*parts, *extra), True) for parts, _ in out for extra in more]
        if len(out) > 128:
            raise errors("makes more than 128 alternatives", path, keyword)
    return out


class _Negation:
    """Schemas turned into what they do not allow."""

    def __init__(self, resolve: Resolve, errors: Errors) -> None:
        self._resolve, self._errors = resolve, errors

    def of(self, schema: Any, path: str) -> list[Conjunction]:
        """Alternatives that together are what `schema` does not allow."""
        if schema is True:
            return []
        if schema is False:
            return [()]
        if not isinstance(schema, Mapping):
            raise self._errors(f"a schema must be an object or a boolean, not {schema!r}", path, "")
        out: list[Conjunction] = []
        held: list[Any] = []
        for keyword in sorted(schema, key=lambda word: (word != "type", str(word))):
            found = self._keyword(schema, keyword, path)
            if found is None:
                continue
            out += [(*held, *parts) for parts in found]
            beside = (keyword, "type", "nullable", "$schema", *_BESIDE.get(keyword, ()))
            held.append({k: schema[k] for k in beside if k in schema})
        return out

    def _keyword(self, schema: Mapping[str, Any], keyword: str, path: str) -> list[Conjunction] | None:
        """Alternatives for one keyword; None where it asserts nothing."""
        value = schema[keyword]
        kind, why = verdict(keyword)
        if kind == "refused":
            raise self._errors(why, path, keyword)
        refused = _REFUSED.get(keyword)
        if refused is not None:
            types, why = refused
            if (keyword, value) in (("uniqueItems", False), ("additionalProperties", True)):
                return None
            return [(Refused(types, f"inside not or if: {why}", keyword),)]
        match keyword:
            case "type":
                return self._type(schema, path)
            case "enum" | "const":
                return self._values(value if keyword == "enum" else [value], schema, path, keyword)
            case "pattern":
                try:
                    dfa = compile_pattern(value) if isinstance(value, str) else None
                except PatternError as problem:
                    raise self._errors(
                        f"bad or unsupported pattern {value!r}: {problem}", path, keyword
                    ) from None
                return [({"type": "string"},)] if dfa is None else [(Unlike(dfa),)]
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                return [({"type": "number", _OTHER_SIDE[keyword]: value},)]
            case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
                return self._count(keyword, value, path)
            case "required":
                return self._required(value, path)
            case "properties":
                return self._properties(value, path)
            case "prefixItems":
                return self._prefix(value, path)
            case "items":
                return self._items(schema, path)
            case "contains":
                return self._contains(schema, path)
            case "dependentRequired":
                return self._dependent(value, path)
            case "allOf":
                return self._all(value, path, keyword)
            case "anyOf":
                parts: list[Conjunction] = [()]
                for part in self._list(value, path, keyword):
                    parts = [(*a, *b) for a in parts for b in self.of(part, path)]
                return parts
            case "not":
                return [(value,)]
            case "$ref" | "$dynamicRef" | "$recursiveRef":
                return self.of(self._resolve(value, path), path)
        return None

    def _type(self, schema: Mapping[str, Any], path: str) -> list[Conjunction]:
        names = schema["type"]
        names = [names] if isinstance(names, str) else names
        known = {*TYPES, "integer"}
        if (
            not isinstance(names, list | tuple)
            or not names
            or not all(isinstance(name, str) and name in known for name in names)
        ):
            raise self._errors(f"must be a type name or a list of them, not {names!r}", path, "type")
        named = {*names, *(["null"] if schema.get("nullable") is True else [])}
        rest = [name for name in TYPES if name not in named and not (name == "number" and "integer" in named)]
        out: list[Conjunction] = [({"type": rest},)] if rest else []
        if "integer" in named and "number" not in named:
            out.append((Fractional(),))
        return out

    def _values(self, values: Any, schema: Mapping[str, Any], path: str, keyword: str) -> list[Conjunction]:
        if not isinstance(values, list | tuple) or not values:
            raise self._errors("must be a list of at least one value", path, keyword)
        check_json(list(values), path, "", keyword)
        if keyword == "enum" and schema.get("nullable") is True:
            values = [*values, None]
        kinds = {type_of(value) for value in values}
        other = OtherValue(tuple(values))
        out: list[Conjunction] = []
        rest = [name for name in TYPES if name not in kinds]
        if rest:
            out.append(({"type": rest},))
        texts = [value for value in values if isinstance(value, str)]
        if texts:
            out.append((other, Unlike(literals(texts))))
        flags = [flag for flag in (True, False) if flag not in [v for v in values if isinstance(v, bool)]]
        if "boolean" in kinds and flags:
            out.append(({"enum": flags},))
        numbers = sorted(v for v in values if type_of(v) == "number")
        for i in range(len(numbers) + 1 if numbers else 0):
            bounds: dict[str, Any] = {"type": "number"}
            if i:
                bounds["exclusiveMinimum"] = numbers[i - 1]
            if i < len(numbers):
                bounds["exclusiveMaximum"] = numbers[i]
            if 0 < i < len(numbers) and numbers[i - 1] >= numbers[i]:
                continue
            out.append((bounds,))
        held = frozenset(kinds & {"array", "object"})
        if held:
            out.append((other, _Enumerated(held, "inside not or if: an array or an object", keyword)))
        return out

    def _whole(self, keyword: str, value: Any, path: str) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < 2**53
            or value % 1
        ):
            raise self._errors(f"must be an integer of at least 0, not {value!r}", path, keyword)
        return int(value)

    def _count(self, keyword: str, value: Any, path: str) -> list[Conjunction]:
        count = self._whole(keyword, value, path)
        kind = {"Length": "string", "Items": "array"}.get(keyword[3:], "object")
        if keyword.startswith("max"):
            return [({"type": kind, "min" + keyword[3:]: count + 1},)]
        return [({"type": kind, "max" + keyword[3:]: count - 1},)] if count else []

    def _names(self, value: Any, path: str, keyword: str) -> list[str]:
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise self._errors("must be a list of names", path, keyword)
        return list(dict.fromkeys(value))

    def _required(self, value: Any, path: str) -> list[Conjunction]:
        out: list[Conjunction] = []
        names = self._names(value, path, "required")
        for i, name in enumerate(names):
            there = {"type": "object", "required": names[:i], "properties": {name: False}}
            out.append((there,))
        return out

    def _properties(self, value: Any, path: str) -> list[Conjunction]:
        if not isinstance(value, Mapping):
            raise self._errors("must be an object of schemas", path, "properties")
        out: list[Conjunction] = []
        held: dict[str, Any] = {}
        for name, part in value.items():
            if part is not True and part != {}:
                wrong = {"type": "object", "required": [name], "properties": {**held, name: {"not": part}}}
                out.append((wrong,))
            held[name] = part
        return out

    def _prefix(self, value: Any, path: str) -> list[Conjunction]:
        parts = self._list(value, path, "prefixItems")
        return [
            ({"type": "array", "minItems": i + 1, "prefixItems": [*parts[:i], {"not": part}]},)
            for i, part in enumerate(parts)
            if part is not True and part != {}
        ]

    def _items(self, schema: Mapping[str, Any], path: str) -> list[Conjunction] | None:
        value = schema["items"]
        if value is True or value == {}:
            return None
        if "prefixItems" in schema or isinstance(value, list | tuple):
            why = "inside not or if: some item behind the first ones that does not fit"
            return [(Refused(frozenset({"array"}), why, "items"),)]
        return [({"type": "array", "contains": {"not": value}},)]

    def _contains(self, schema: Mapping[str, Any], path: str) -> list[Conjunction]:
        part = schema["contains"]
        low, high = schema.get("minContains", 1), schema.get("maxContains")
        if (low, high) == (1, None):
            return [({"type": "array", "items": {"not": part}},)]
        out: list[Conjunction] = []
        if least := self._whole("minContains", low, path):
            out.append(({"type": "array", "contains": part, "minContains": 0, "maxContains": least - 1},))
        if high is not None:
            most = self._whole("maxContains", high, path)
            out.append(({"type": "array", "contains": part, "minContains": most + 1},))
        return out

    def _dependent(self, value: Any, path: str) -> list[Conjunction]:
        if not isinstance(value, Mapping):
            raise self._errors("must be an object", path, "dependentRequired")
        out: list[Conjunction] = []
        for name, needs in value.items():
            missing = self._required(self._names(needs, path, "dependentRequired"), path)
            out += [({"type": "object", "required": [name]}, *parts) for parts in missing]
        return out

    def _all(self, value: Any, path: str, keyword: str) -> list[Conjunction]:
        out: list[Conjunction] = []
        held: list[Any] = []
        for part in self._list(value, path, keyword):
            out += [(*held, *parts) for parts in self.of(part, path)]
            held.append(part)
        return out

    def _list(self, value: Any, path: str, keyword: str) -> list[Any]:
        if not isinstance(value, list | tuple) or not value:
            raise self._errors("must be a list of at least one schema", path, keyword)
        return list(value)


@dataclass(frozen=True, eq=False)
class _Enumerated(Refused):
    """Refused for free values alone: enumerated ones have been told apart."""

    def narrow(self, schemas: Schemas, shape: Shape, path: str) -> list[Shape]:
        if shape.values is None:
            return super().narrow(schemas, shape, path)
        kept = tuple(v for v in shape.values if type_of(v) in self.types)
        return [shape.but(values=kept)] if kept else []


_OTHER_SIDE = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}

_BESIDE = {
    "items": ("prefixItems",),
    "contains": ("minContains", "maxContains"),
    "additionalProperties": ("properties", "patternProperties"),
    "if": ("then", "else"),
}
"""What must stand beside a keyword for it to mean the same."""

_REFUSED: dict[str, tuple[frozenset[str], str]] = {
    "multipleOf": (frozenset({"number"}), "numbers that are no multiples"),
    "format": (frozenset({"string"}), "a format"),
    "additionalItems": (frozenset({"array"}), "some item that does not fit"),
    "uniqueItems": (frozenset({"array"}), "two equal items"),
    "unevaluatedItems": (frozenset({"array"}), "some item that does not fit"),
    "unevaluatedProperties": (frozenset({"object"}), "some property that does not fit"),
    "additionalProperties": (frozenset({"object"}), "some property that does not fit"),
    "patternProperties": (frozenset({"object"}), "some property that does not fit"),
    "propertyNames": (frozenset({"object"}), "some name that does not fit"),
    "dependentSchemas": (frozenset({"object"}), "what depends on a property"),
    "dependencies": (frozenset({"object"}), "what depends on a property"),
    "oneOf": (_ANY, "oneOf"),
    "if": (_ANY, "another if"),
}
