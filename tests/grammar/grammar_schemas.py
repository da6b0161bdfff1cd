"""Random schemas inside the enforced subset, and random walks through a grammar. Test support only."""

from __future__ import annotations

import random
from typing import Any

from kogagent.engine.grammar.automaton import END, FINISHED, Automaton

_NAMES = ["a", "ab", "city", "größe", 'q"uote', "x/y", "名前", "n", "name", "nam", "last name", "\t", "é"]
_TEXTS = ["", "a", "celsius", 'say "hi"', "back\\slash", "😊", "line\nbreak", "naïve", "a/b", "\u007f"]
_PATTERNS = [
    "^[a-z]+$",
    "^a(bc)*$",
    "x",
    "^\\d{2,4}$",
    "^(red|green)$",
    '[^"\\\\]$',
    "^.{3}",
    "é|ü",
    "^[^ \\t,]*$",  # not \\s: Python's takes U+001C to U+001F for white space, ECMA's does not
]
_FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "duration"]


def conditional_schema(rng: random.Random) -> dict[str, Any]:
    """An object or an array under keywords that speak of conditions, of names by pattern, of differences."""
    names = rng.sample(["a", "ab", "b", "name", "x-1"], rng.randint(1, 4))
    parts: dict[str, Any] = {name: random_schema(rng, 0) for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": parts, "required": names[: rng.randint(0, 2)]}
    for _ in range(rng.randint(1, 2)):
        which = rng.choice(
            ["not", "if", "dependentRequired", "dependentSchemas", "pattern", "names", "number", "rest"]
        )
        some = rng.choice(names)
        tests: list[dict[str, Any]] = [{"required": [some]}, {"properties": {some: random_schema(rng, 0)}}]
        test = rng.choice(tests)
        if which == "not":
            schema["not"] = rng.choice([{"required": rng.sample(names, 1)}, {**test, "required": names}])
        elif which == "if":
            schema |= {"if": test, "then": {"properties": {rng.choice(names): random_schema(rng, 0)}}}
            schema |= {"else": {"required": [some]}} if rng.random() < 0.5 else {}
        elif which == "dependentRequired":
            schema[which] = {some: rng.sample(names, 1)}
        elif which == "dependentSchemas":
            schema[which] = {some: test}
        elif which == "pattern":
            keys = rng.sample(["^a", "b", "^x-", "^[a-z]+"], rng.randint(1, 3))
            schema["patternProperties"] = {key: random_schema(rng, 0) for key in keys}
            if rng.random() < 0.6:
                schema["additionalProperties"] = rng.choice([False, {"type": "integer"}])
        elif which == "names":
            schema["propertyNames"] = rng.choice([{"pattern": "^[a-z-]"}, {"maxLength": 3}, {"enum": names}])
        elif which == "rest":
            more = [{"properties": {n: random_schema(rng, 0)}} for n in rng.sample(["b", "c", "d"], 2)]
            schema[rng.choice(["allOf", "anyOf"])] = more
            schema["unevaluatedProperties"] = rng.choice([False, {"type": "null"}])
        else:
            schema |= {"minProperties": rng.randint(0, 2), "maxProperties": rng.randint(1, 4)}
    if rng.random() < 0.2:
        return containing_schema(rng)
    if rng.random() < 0.2:
        values = rng.sample(["a", "ab", 1, 10, None, True], rng.randint(1, 4))
        return {"type": "array", "items": {"enum": values}, "uniqueItems": True}
    return schema


def containing_schema(rng: random.Random) -> dict[str, Any]:
    """An array of which some items must fit, and what the others may be."""
    part = rng.choice(
        [
            {"type": rng.choice(["string", "null", "boolean"])},
            {"const": rng.choice(_TEXTS)},
            {"enum": rng.sample([*_TEXTS, 1, 20, None], 3)},
            {"type": "integer", "minimum": rng.randint(0, 20)},
            {"pattern": "^a", "type": "string"},
            {"minLength": 2},
        ]
    )
    schema: dict[str, Any] = {"type": "array", "contains": part, "maxItems": rng.randint(1, 5)}
    if rng.random() < 0.6:
        schema["items"] = rng.choice([random_schema(rng, 0), {"type": ["string", "integer", "null"]}])
    if rng.random() < 0.3:
        schema["prefixItems"] = [random_schema(rng, 0)]
    if rng.random() < 0.3:
        schema["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.4:
        schema["minContains"] = rng.randint(0, 2)
    if rng.random() < 0.4:
        schema["maxContains"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        schema["unevaluatedItems"] = rng.choice([False, {"type": "integer"}])
    return schema


def overlapping_schema(rng: random.Random) -> dict[str, Any]:
    """A oneOf whose alternatives may share values, somewhere in a schema."""
    texts, numbers = rng.sample(["a", "ab", "b", ""], 3), [1, 2, 3.5, -1]
    names = rng.sample(["a", "b", "k"], 2)
    parts: list[dict[str, Any]] = [
        {"enum": [*rng.sample(texts, 2), *rng.sample(numbers, 2)]},
        {"enum": rng.sample([None, True, False, "a", 1, [1], {"a": 1}, {"k": "a"}, []], 4)},
        {"const": rng.choice([*texts, *numbers, {"k": "a"}])},
        {"type": rng.sample(["string", "integer", "null", "boolean", "array"], 2)},
        {"type": rng.choice(["string", "number", "integer", "boolean", "object"])},
        {"minLength": rng.randint(0, 2)},
        {"type": "string", "pattern": rng.choice(["^a", "b$", "^[ab]*$"])},
        {"minimum": rng.randint(0, 3)},
        {"type": "integer", "maximum": rng.randint(0, 3)},
        {"type": "array", "items": rng.choice([{"type": "integer"}, {"enum": [1, "a"]}, {}])},
        {"type": "object", "properties": {names[0]: {"enum": ["a", 1]}}, "required": names[:1]},
        {"type": "object", "properties": {n: {"const": rng.choice(["a", "b"])} for n in names}},
        {"properties": {names[1]: {"minLength": 1}}, "required": names[rng.randint(0, 1) :]},
        {"type": "object", "additionalProperties": {"type": rng.choice(["string", "integer"])}},
        {"$ref": "#"},
    ]
    one: dict[str, Any] = {"oneOf": rng.sample(parts, rng.randint(2, 3))}
    if rng.random() < 0.3:
        one |= rng.choice([{"type": "string"}, {"enum": [*texts, *numbers, [1], {"k": "a"}]}, {"const": "a"}])
    if rng.random() < 0.2:
        one["oneOf"].append({"oneOf": rng.sample(parts, 2)})
    where: list[dict[str, Any]] = [
        one,
        {"type": "object", "properties": {"v": one}, "required": ["v"]},
        {"type": "array", "items": one, "maxItems": 2, "uniqueItems": rng.random() < 0.5},
        {"enum": [{"v": v} for v in (*texts, *numbers, [1])], "properties": {"v": one}},
        {
            "type": "object",
            "propertyNames": one,
            "maxProperties": 2,
            "additionalProperties": {"type": "null"},
        },
        {"allOf": [one, rng.choice(parts[:5])]},
        {"type": "array", "contains": one, "maxItems": 2, "items": {"type": ["string", "integer"]}},
        {"if": one, "then": {"type": ["string", "object"]}, "else": False},
    ]
    return rng.choice([where[0], *where])


def random_schema(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A schema that has values, of every kind the compiler enforces."""
    kinds = ["string", "string", "integer", "number", "boolean", "null", "enum", "const", "types"]
    if depth > 0:
        kinds += [
            "object",
            "object",
            "object",
            "array",
            "array",
            "anyOf",
            "nullable",
            "oneOf",
            "allOf",
            "free",
            "map",
        ]
    kind = rng.choice(kinds)
    if kind == "string":
        return _string(rng)
    if kind in ("integer", "number"):
        return _number(rng, kind)
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {
            "enum": rng.sample(
                [*_TEXTS, 1, 2.5, -3, True, None, [1, "x"], {"k": [None]}, 10**20], rng.randint(1, 6)
            )
        }
    if kind == "const":
        return {"const": rng.choice([*_TEXTS, 0, 7, False, {"a": 1, "b": ["c"]}])}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean"], rng.randint(1, 4))}
    if kind == "object":
        return _object(rng, depth)
    if kind == "array":
        return _array(rng, depth)
    if kind == "anyOf":
        return {
            "anyOf": [
                random_schema(rng, 0),
                {"type": "array", "items": random_schema(rng, 0)},
                {"type": "null"},
            ]
        }
    if kind == "nullable":
        return {"anyOf": [random_schema(rng, depth - 1), {"type": "null"}]}
    if kind == "oneOf":
        tags = rng.sample(_TEXTS[1:], 2)
        return {"oneOf": [_tagged(rng, tag, depth) for tag in tags]}
    if kind == "allOf":
        return {
            "allOf": [_number(rng, "number"), {"type": "number", "multipleOf": rng.choice([1, 0.5, 0.25])}]
        }
    if kind == "map":
        return {"type": "object", "additionalProperties": random_schema(rng, depth - 1)}
    return {}


def _tagged(rng: random.Random, tag: str, depth: int) -> dict[str, Any]:
    schema = _object(rng, depth)
    schema["properties"] = {"kind": {"const": tag}, **schema["properties"]}
    schema["required"] = ["kind", *schema["required"]]
    return schema


def _string(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    which = rng.random()
    if which < 0.25:
        schema["pattern"] = rng.choice(_PATTERNS)
        if rng.random() < 0.4:
            schema["maxLength"] = rng.randint(5, 12)
    elif which < 0.4:
        schema["format"] = rng.choice(_FORMATS)
    elif which < 0.8:
        schema["maxLength"] = rng.choice([0, 1, 3, 10, 100_000])
        if rng.random() < 0.5:
            schema["minLength"] = rng.randint(0, min(schema["maxLength"], 8))
    return schema


def _number(rng: random.Random, kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind}
    low = rng.choice([-(10**22), -1000, -37, -1, 0, 1, 5, 99, 2**63])
    if rng.random() < 0.5:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = (
            low if kind == "integer" else low + rng.choice([0, 0.5])
        )
    if rng.random() < 0.5:
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([3, 10, 12345, 10**19])
    if kind == "integer" and rng.random() < 0.2:
        schema["multipleOf"] = rng.choice([1, 2, 3])
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(_NAMES, rng.randint(0, 5))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {n: random_schema(rng, depth - 1) for n in names},
    }
    schema["required"] = [n for n in names if rng.random() < 0.5]
    which = rng.random()
    if which < 0.3:
        schema["additionalProperties"] = False
    elif which < 0.45:
        schema["additionalProperties"] = random_schema(rng, 0)
    return schema


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": random_schema(rng, depth - 1)}
    if rng.random() < 0.3:
        schema["prefixItems"] = [random_schema(rng, 0) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.5:
        schema["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.5:
        schema["maxItems"] = schema.get("minItems", 0) + rng.randint(0, 3)
    return schema


def random_walk(automaton: Automaton, rng: random.Random, patience: int = 60) -> bytes:
    """A random complete text; after `patience` bytes it prefers to close what is open."""
    state, frame = automaton.start, automaton.frames
    text = bytearray()
    while state != FINISHED:
        legal = sorted(automaton.legal(state, frame))
        assert legal, f"no way on after {bytes(text)!r}"
        symbol = rng.choice(legal)
        if len(text) > patience:
            closing = [s for s in legal if s in (END, ord('"'), ord("}"), ord("]"))]
            if closing:
                symbol = rng.choice(closing)
        after = automaton.step(state, frame, symbol)
        assert after is not None, f"{symbol} is announced but illegal after {bytes(text)!r}"
        if symbol < END:
            text.append(symbol)
        assert len(text) < 200_000, "a walk without end"
        state, frame = after
    return bytes(text)
