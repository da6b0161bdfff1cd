"""The public JSON-Schema-Test-Suite, and cases of our own that stand in for it and run everywhere."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grammar_vocabularies import byte_vocabulary

from kogagent.engine.grammar import Bounds, Grammar, compile_schema
from kogagent.engine.grammar.automaton import END, FINISHED
from kogagent.engine.grammar.keywords import KEYWORDS
from kogagent.errors import SchemaError

SPEC = Bounds(open_objects=True, zero_fraction=True, digits=60)
"""As the specification reads a schema; 60 digits for its big numbers."""

NARROWER = {
    "format": "formats assert here; the suite's default is that they say nothing",
    "vocabulary": "a meta-schema that switches validation off",
    "float-overflow": "1e+308: exponents have two digits",
    "time": "leap seconds and a small z",
    "date-time": "leap seconds and small letters",
    "email": "quoted local parts and address literals",
    "hostname": "punycode labels",
    **dict.fromkeys(("idn-email", "idn-hostname", "iri", "iri-reference", "uri-template"), "beyond ASCII"),
}
"""Files with valid instances that are not written on purpose, and why. A wrong accept is excused nowhere."""


def texts(value: Any) -> Iterator[str]:
    """An instance in every order of its properties."""
    if isinstance(value, dict):
        orders = itertools.permutations(value) if len(value) <= 5 else iter([tuple(value)])
        for order in orders:
            for parts in itertools.product(*[list(texts(value[name])) for name in order]):
                names = [json.dumps(name, ensure_ascii=False) for name in order]
                yield "{" + ", ".join(f"{n}: {p}" for n, p in zip(names, parts, strict=True)) + "}"
    elif isinstance(value, list):
        for parts in itertools.product(*[list(itertools.islice(texts(item), 200)) for item in value]):
            yield "[" + ", ".join(parts) + "]"
    else:
        yield json.dumps(value, ensure_ascii=False)


def accepts(grammar: Grammar, text: str) -> bool:
    state, frame = grammar.automaton.start, grammar.automaton.frames
    for symbol in (*text.encode("utf-8", "surrogatepass"), END):
        after = grammar.automaton.step(state, frame, symbol)
        if after is None:
            return False
        state, frame = after
    return state == FINISHED


def cases() -> Path:
    place = os.environ.get("KOGAGENT_CASES")
    if place:
        return Path(place)
    return Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_the_public_suite_is_accepted_and_rejected_without_exception(draft: str) -> None:
    root = cases() / "json-schema-test-suite" / "tests" / draft
    if not root.is_dir():
        pytest.skip(f"the public cases are not at {root}; set KOGAGENT_CASES. Our own cases ran instead")
    vocabulary = byte_vocabulary()
    seen: Counter[str] = Counter()
    wrong: list[tuple[str, ...]] = []
    for file in sorted(root.rglob("*.json")):
        for case in json.loads(file.read_text()):
            schema = case["schema"]
            if draft == "draft7" and isinstance(schema, dict):
                schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
            try:
                grammar = compile_schema(schema, vocabulary, bounds=SPEC)
            except SchemaError as problem:
                assert problem.keyword == "" or problem.keyword in str(problem)
                seen["refused"] += 1
                continue
            for test in case["tests"]:
                found = any(accepts(grammar, text) for text in texts(test["data"]))
                if found and not test["valid"]:
                    wrong.append(("accepted", file.stem, case["description"], test["description"]))
                elif not found and test["valid"] and file.stem not in NARROWER:
                    wrong.append(("rejected", file.stem, case["description"], test["description"]))
                seen["cases"] += 1
    assert not wrong, wrong
    assert seen["cases"] > 900, seen


# (schema, valid instances, invalid instances); from the specification's text.
OWN: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, 1, "x", [1, {"a": 2}], {}], []),
    ({"type": "integer"}, [0, 5, -17, 1.0], [1.5, "1", None, True]),
    ({"type": "number"}, [0, -2.5, 1e5], ["1", None]),
    ({"type": ["string", "null"]}, ["", "x", None], [0, False]),
    ({"nullable": True, "type": "string"}, ["x", None], [1]),
    ({"enum": ["a", 1, None, [1, 2], {"x": 1}]}, ["a", 1, 1.0, None, [1, 2], {"x": 1}], ["b", 2, [2, 1], {}]),
    ({"const": {"b": 1, "a": [True]}}, [{"b": 1, "a": [True]}], [{"b": 1}, {"a": [True]}]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "日本語", "😊😊"], ["a", "abcd", ""]),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc"], ["abcd", "aB", ""]),
    ({"type": "string", "pattern": "b"}, ["abc", "b"], ["ac", ""]),
    ({"type": "integer", "minimum": 3, "exclusiveMaximum": 12}, [3, 9, 10, 11], [2, 12, 100, -5]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, [0.5, 1, 1.0, 0.001], [0, 1.5, -0.5]),
    ({"type": "integer", "minimum": 10**30}, [10**30, 10**30 + 7], [10**30 - 1, 5]),
    ({"type": "integer", "multipleOf": 7}, [0, 7, -14, 700], [1, 8, 15]),
    ({"type": "number", "multipleOf": 0.25}, [0.25, 1, 2.75], [0.3, 0.125]),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [[1], [1, 2]],
        [[], [1, 2, 3], ["a"]],
    ),
    (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        [[], ["a"], ["a", 1]],
        [[1], ["a", "b"], ["a", 1, 2]],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
        [{"b": 1}, {"a": 1, "b": None}, {"b": 1, "c": 2}],
        [{}, {"a": 1}, {"a": "x", "b": 1}],
    ),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1, "y": 2}], [{"x": "1"}]),
    (
        {"type": "object", "minProperties": 1, "maxProperties": 2},
        [{"a": 1}, {"a": 1, "b": 2}],
        [{}, {"a": 1, "b": 2, "c": 3}],
    ),
    ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, [None, True, False], [0, "null"]),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 3], [None, 1.5]),
    ({"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"enum": ["b", "d"]}]}, ["a", "c", "d"], ["b"]),
    ({"oneOf": [{"enum": ["a", 2]}, {"type": "string"}, {"const": None}]}, [2, "b", "", None], ["a", True]),
    ({"oneOf": [{"enum": [1, 2.5, 7]}, {"type": "integer"}]}, [0, 2, 2.5, 8], [1, 7, 3.5]),
    ({"oneOf": [{"type": "boolean"}, {"enum": [True, None]}]}, [False, None], [True]),
    ({"oneOf": [{"const": 5}, {"minLength": 1}], "type": ["string", "integer"]}, ["x"], [5, ""]),
    (
        {"enum": [{"a": 2}, {"a": 1}], "properties": {"a": {"oneOf": [{"type": "integer"}, {"const": 1}]}}},
        [{"a": 2}],
        [{"a": 1}],
    ),
    (
        {"type": "array", "uniqueItems": True, "items": {"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}},
        [[], [1, 3]],
        [[2], [1, 2]],
    ),
    (
        {
            "type": "object",
            "propertyNames": {"oneOf": [{"enum": ["a", "b"]}, {"pattern": "^a"}]},
            "additionalProperties": {"type": "null"},
        },
        [{}, {"b": None}, {"ab": None, "b": None}],
        [{"a": None}, {"b": None, "a": None}, {"c": None}],
    ),
    ({"allOf": [{"minimum": 3}, {"maximum": 5, "type": "integer"}]}, [3, 5], [2, 6, "4"]),
    (
        {
            "$ref": "#/$defs/list",
            "$defs": {"list": {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}}}},
        },
        [{}, {"next": {"next": {}}}],
        [{"next": 1}, 3],
    ),
    ({"type": "string", "format": "date"}, ["2024-02-29", "1999-12-31"], ["2023-02-29", "2024-13-01", "x"]),
    ({"type": "string", "format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
    ({"type": "string", "format": "byte"}, ["", "aGk=", "aGkx"], ["a", "aGk", "a?=="]),
    ({"type": "string", "format": "path"}, ["", "/tmp/a b"], [1]),
    ({"type": "string", "format": "ipv4"}, ["192.168.0.1"], ["256.1.1.1", "1.2.3"]),
    (
        {
            "type": "object",
            "properties": {"ab": {"type": "string"}, "c": {}},
            "patternProperties": {"^a": {"maxLength": 2}, "b$": {"minLength": 1}},
            "additionalProperties": {"type": "integer"},
        },
        [
            {},
            {"ab": "xy"},
            {"c": None, "x": 3},
            {"ax": "", "xb": "long"},
            {"axb": "y"},
            {"a": "x", "q": 1, "ac": "yy"},
        ],
        [{"ab": ""}, {"ab": "xyz"}, {"ax": "xyz"}, {"axb": ""}, {"xb": ""}, {"q": "x"}],
    ),
    (
        {"type": "object", "patternProperties": {"^x-": {"type": "null"}}, "additionalProperties": False},
        [{}, {"x-": None}, {"x-a": None, "x-b": None}],
        [{"x": None}, {"x-a": 1}, {"y-a": None}],
    ),
    (
        {
            "allOf": [
                {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "null"}},
                {"properties": {"ab": {"minimum": 3}, "c": {"type": ["null", "string"]}}},
            ],
            "type": "object",
        },
        [{"ab": 3, "a": 1, "z": None}, {"c": None}],
        [{"ab": 2}, {"a": None}, {"c": "x"}, {"z": 1}],
    ),
    (
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}},
        [{}, {"abc": 1, "x": None}],
        [{"abcd": 1}, {"A": 1}, {"": 1}],
    ),
    (
        {
            "type": "object",
            "propertyNames": {"enum": ["on", "off"]},
            "properties": {"on": {"type": "integer"}, "no": {}},
        },
        [{"on": 1}, {"off": []}, {"on": 1, "off": 2}],
        [{"no": 1}, {"on": "x"}],
    ),
    (
        {"type": "object", "dependentRequired": {"a": ["b", "c"], "b": ["c"]}},
        [{}, {"c": 1}, {"b": 1, "c": 1}, {"a": 1, "b": 2, "c": 3}, {"x": 1}],
        [{"a": 1}, {"a": 1, "b": 1}, {"b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {}, "n": {"type": "integer"}},
            "dependentSchemas": {"a": {"properties": {"n": {"minimum": 5}}, "required": ["n"]}},
        },
        [{}, {"n": 1}, {"a": None, "n": 5}],
        [{"a": None}, {"a": None, "n": 4}],
    ),
    ({"type": "object", "dependencies": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    (
        {
            "type": "object",
            "properties": {"kind": {"enum": ["uk", "us", "de"]}, "code": {"type": "string"}},
            "required": ["kind", "code"],
            "if": {"properties": {"kind": {"const": "us"}}},
            "then": {"properties": {"code": {"pattern": "^[0-9]{5}$"}}},
            "else": {"properties": {"code": {"pattern": "^[A-Z0-9 ]+$"}}},
        },
        [
            {"kind": "us", "code": "12345"},
            {"kind": "uk", "code": "SW1A 2AA"},
            {"kind": "de", "code": "12345"},
        ],
        [{"kind": "us", "code": "SW1A"}, {"kind": "uk", "code": "x"}, {"kind": "us", "code": "123456"}],
    ),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, ["ab", 1, None, []], ["a", ""]),
    ({"if": {"multipleOf": 7}}, [7, 8, "x"], []),
    ({"not": {"type": ["string", "number"]}}, [None, True, [], {}], ["x", 1, 1.5]),
    ({"type": "string", "not": {"pattern": "b"}}, ["", "ac"], ["b", "abc"]),
    (
        {"type": "string", "not": {"enum": ["a", "bc"]}, "maxLength": 3},
        ["", "b", "bcd", "ab"],
        ["a", "bc", "abcd"],
    ),
    ({"not": {"enum": [1, "x", None, True]}}, [2, 0.5, "y", "", False, [], {}], [1, 1.0, "x", None, True]),
    ({"type": "integer", "not": {"minimum": 3, "maximum": 5}}, [2, 6, -1], [3, 4, 5]),
    (
        {"type": "object", "not": {"required": ["a", "b"]}},
        [{}, {"a": 1}, {"b": 1, "c": 1}],
        [{"a": 1, "b": 2}],
    ),
    ({"not": {"anyOf": [{"type": "string"}, {"minimum": 0}]}}, [-1, -0.5], ["x", 0, 5, None, []]),
    ({"not": {"not": {"type": "null"}}}, [None], [1, "x"]),
    ({"not": {"type": "integer"}, "maximum": 9}, [1.5, -0.25, "x", None], [1, -3, 0, 9.5, 1.0]),
    (
        {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "ab", 1, 10, None]}},
        [[], ["ab", "a"], [10, 1, "a", None, "ab"]],
        [["a", "a"], [1, 10, 1], [1, 1.0], [None, "x"]],
    ),
    (
        {"type": "array", "uniqueItems": True, "items": {"type": "boolean"}, "minItems": 1},
        [[True], [False, True]],
        [[], [True, True], [True, False, True]],
    ),
    (
        {"type": "array", "items": {"type": "string"}, "contains": {"const": "admin"}, "maxItems": 3},
        [["admin"], ["a", "admin"], ["admin", "adm", "admin"], ["admini", "admin", "\n"]],
        [[], ["a"], ["adm", "admini"], [1, "admin"], ["a", "b", "c", "admin"]],
    ),
    (
        {
            "type": "array",
            "items": {"type": "number", "maximum": 99},
            "contains": {"minimum": 5},
            "minContains": 2,
            "maxContains": 2,
        },
        [[5, 6], [1, 5.5, 4.9, 99], [5, -3, 12]],
        [[], [5], [5, 6, 7], [1, 2], [5, 100]],
    ),
    (
        {"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 1, "minItems": 1},
        [[1], ["x"], [None, "x", {}]],
        [[], ["x", "y"], ["x", 1, "x"]],
    ),
    (
        {"allOf": [{"contains": {"type": "string"}}, {"contains": {"type": "integer"}}], "type": "array"},
        [["x", 2], [2.5, 1, "x"]],
        [[], ["x"], [1, 2], [2.5, "x"]],
    ),
    (
        {"type": "array", "uniqueItems": True, "items": {"enum": ["a", 1, 2]}, "contains": {"const": 2}},
        [[2], ["a", 2], [1, 2, "a"]],
        [[], [1], ["a"], [2, 2], [1, "a"]],
    ),
    (
        {"type": "array", "not": {"contains": {"type": "string"}, "minContains": 2}},
        [[], ["x"], [1, "x", None]],
        [["x", "y"], ["x", 1, "y"]],
    ),
    ({"type": "array", "not": {"items": {"type": "string"}}}, [[1], ["x", 1]], [[], ["x"]]),
    (
        {
            "$ref": "#/$defs/base",
            "properties": {"b": {"type": "integer"}},
            "unevaluatedProperties": False,
            "$defs": {"base": {"type": "object", "properties": {"a": {}}, "patternProperties": {"^x-": {}}}},
        },
        [{}, {"a": 1, "b": 2}, {"b": 3, "x-y": 1}],
        [{"c": 1}, {"a": 1, "c": 2}, {"b": "x"}, 3],
    ),
    (
        {
            "type": "object",
            "anyOf": [
                {"properties": {"a": {"const": 1}}, "required": ["a"]},
                {"properties": {"b": {"const": 2}}, "required": ["b"]},
            ],
            "unevaluatedProperties": False,
        },
        [{"a": 1}, {"b": 2}, {"a": 1, "b": 2}],
        [{}, {"a": 2}, {"a": 1, "b": 3}, {"b": 2, "c": 1}],
    ),
    (
        {
            "type": "object",
            "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
            "then": {"properties": {"b": {}}},
            "else": {"properties": {"c": {}}},
            "unevaluatedProperties": False,
        },
        [{}, {"a": 1}, {"a": 1, "b": 2}, {"c": 3}],
        [{"a": 2}, {"a": 1, "c": 1}, {"b": 1}, {"c": 1, "d": 1}],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {}},
            "allOf": [{"properties": {"b": {}}, "unevaluatedProperties": False}],
        },
        [{}, {"b": 1}],
        [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}],
    ),
    (
        {
            "type": "array",
            "allOf": [{"prefixItems": [True, {"type": "string"}]}],
            "prefixItems": [{"type": "integer"}],
            "unevaluatedItems": {"type": "null"},
        },
        [[], [1], [1, "x"], [1, "x", None, None]],
        [["x"], [1, 2], [1, "x", 3]],
    ),
    (
        {"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}},
        [["x"], [1, "x", 2], ["x", "y"]],
        [[], [1], ["x", None]],
    ),
    (
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "$dynamicAnchor": "n",
                    "$recursiveAnchor": True,
                    "properties": {
                        "k": {"$dynamicRef": "#n"},
                        "r": {"type": "array", "items": {"$recursiveRef": "#"}},
                    },
                    "type": "object",
                }
            },
        },
        [{}, {"k": {"k": {}}}, {"r": [{}, {"k": {}}]}],
        [{"k": 1}, {"r": [1]}, 1],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {}, "b": {}, "c": {}, "d": {}},
            "required": ["c"],
            "additionalProperties": False,
            "minProperties": 2,
            "maxProperties": 3,
        },
        [{"a": 1, "c": 1}, {"c": 1, "d": 1}, {"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 1, "d": 1}],
        [{"c": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1, "d": 1}, {}],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), OWN, ids=lambda part: json.dumps(part)[:50])
def test_our_own_cases_are_accepted_and_rejected(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    grammar = compile_schema(schema, byte_vocabulary(), bounds=SPEC)
    for instance in valid:
        assert any(accepts(grammar, text) for text in texts(instance)), instance
    for instance in invalid:
        assert not any(accepts(grammar, text) for text in texts(instance)), instance


def test_our_own_cases_touch_every_enforced_keyword() -> None:
    written = json.dumps(OWN)
    elsewhere = {"$anchor", "definitions", "additionalItems"}
    missing = [k for k, (kind, _) in KEYWORDS.items() if kind == "enforced" and f'"{k}"' not in written]
    assert set(missing) <= elsewhere
