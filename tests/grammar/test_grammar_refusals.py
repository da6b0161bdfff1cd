"""Everything the grammar cannot hold is refused before any token, naming tool, path and keyword."""

from __future__ import annotations

from typing import Any

import pytest
from grammar_vocabularies import byte_vocabulary

from kogagent.engine.grammar import (
    Bounds,
    Grammar,
    compile_choices,
    compile_regex,
    compile_schema,
    compile_turn,
)
from kogagent.engine.grammar.automaton import Frame
from kogagent.engine.grammar.keywords import KEYWORDS, NEWER
from kogagent.errors import ConfigError, InputError, SchemaError
from kogagent.spec import Vocabulary

V = byte_vocabulary()

REFUSED: list[tuple[Any, str, str]] = [
    ({"type": "strin"}, "", "type"),
    ({"type": []}, "", "type"),
    ({"type": "string", "minLength": 5, "maxLength": 3}, "", "minLength"),
    (
        {"type": "object", "minProperties": 2, "propertyNames": {"enum": ["a"]}, "required": ["a"]},
        "",
        "minProperties",
    ),
    ({"type": "string", "maxLength": -1}, "", "maxLength"),
    ({"type": "string", "maxLength": "3"}, "", "maxLength"),
    ({"type": "string", "maxLength": 2**32}, "", "maxLength"),
    ({"type": "string", "format": "colour"}, "", "format"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "", "minimum"),
    ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}, "", "minimum"),
    ({"type": "integer", "multipleOf": 0}, "", "multipleOf"),
    ({"type": "number", "minimum": float("nan")}, "", "minimum"),
    ({"type": "number", "minimum": "1"}, "", "minimum"),
    ({"type": "integer", "multipleOf": 99991}, "", "multipleOf"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "", "minItems"),
    ({"type": "array", "uniqueItems": True}, "", "uniqueItems"),
    ({"type": "array", "prefixItems": {}}, "", "prefixItems"),
    ({"enum": []}, "", "enum"),
    ({"const": float("inf")}, "", "const"),
    ({"const": "\ud800"}, "", "const"),
    ({"anyOf": []}, "", "anyOf"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}]}, "", "oneOf"),
    ({"oneOf": [{"type": "integer"}, {"minLength": 2}]}, "", "oneOf"),
    ({"oneOf": [{"const": [1]}, {"type": "array"}]}, "", "oneOf"),
    ({"oneOf": [{"const": 1}, {"const": 1.0}]}, "/oneOf/0", "oneOf"),
    ({"propertyNames": {"oneOf": [{"pattern": "^a"}, {"maxLength": 1}]}}, "/propertyNames", "oneOf"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{"$ref": "#/$defs/a"}, {}]}}}, "", "oneOf"),
    ({"$ref": "#/nowhere"}, "", "$ref"),
    ({"$ref": "http://example.com/x"}, "", "$ref"),
    ({"$ref": "#"}, "", "$ref"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", "$ref"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "", "required"),
    ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "/properties/a", "required"),
    ({"type": "object", "properties": {"a": {}}, "required": "a"}, "", "required"),
    ({"type": "object", "properties": {"a": {"contains": {"pattern": "z$"}}}}, "/properties/a", "contains"),
    ({"type": "array", "contains": {"const": 1}, "maxItems": 5000}, "", "contains"),
    ({"type": "array", "contains": {}, "minContains": 3, "maxContains": 2}, "", "minContains"),
    ({"type": "array", "contains": False}, "", ""),
    ({"type": "array", "contains": 3}, "/contains", ""),
    ({"type": "array", "contains": {}, "maxContains": -1}, "", "maxContains"),
    ({"type": "object", "anyOf": [{}] * 8, "unevaluatedProperties": False}, "", "anyOf"),
    ({"$dynamicRef": "#nowhere"}, "", "$dynamicRef"),
    ({"$recursiveRef": "#"}, "", "$ref"),
    ({"items": {"$id": "http://x/y", "$ref": "#/$defs/a"}, "$defs": {"a": {}}}, "/items", "$ref"),
    ({"type": "array", "not": {"prefixItems": [{}], "items": {"type": "string"}}}, "", "items"),
    ({"type": "number", "not": {"multipleOf": 3}}, "", "multipleOf"),
    ({"not": 3}, "/not", ""),
    ({"not": {"frob": 1}}, "/not", "frob"),
    ({"not": {"type": [[]]}}, "/not", "type"),
    ({"type": "array", "not": {"contains": {"pattern": "z$"}, "minContains": 2}}, "", "contains"),
    ({"type": "object", "not": {"unevaluatedProperties": False}}, "", "unevaluatedProperties"),
    ({"if": {"oneOf": [{}]}, "else": {}}, "", "oneOf"),
    ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "", "uniqueItems"),
    ({"type": "object", "patternProperties": {"a(": {}}}, "", "patternProperties"),
    ({"type": "object", "patternProperties": []}, "", "patternProperties"),
    ({"type": "object", "dependentRequired": {"a": "b"}}, "", "dependentRequired"),
    ({"type": "object", "dependentSchemas": {"a": ["b"]}}, "", "dependentSchemas"),
    ({"type": "object", "required": ["ab"], "propertyNames": {"maxLength": 1}}, "", "required"),
    ({"type": "object", "properties": {"a": {"type": "string", "frob": 1}}}, "/properties/a", "frob"),
    ({"type": "object", "maxProperties": 1, "required": ["a", "b"]}, "", "maxProperties"),
    ({"properties": {"a/b": {"frob": {}}}, "type": "object"}, "/properties/a~1b", "frob"),
    (False, "", ""),
    (3, "", ""),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "", ""),
]


@pytest.mark.parametrize(("schema", "path", "keyword"), REFUSED, ids=lambda part: str(part)[:60])
def test_a_bad_schema_is_refused_with_its_path_and_keyword(schema: Any, path: str, keyword: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, V)
    assert (caught.value.path, caught.value.keyword) == (path, keyword), str(caught.value)
    with pytest.raises(SchemaError) as again:
        compile_turn({"mend": {"type": "object", "properties": {"it": schema}, "required": ["it"]}}, V)
    assert again.value.tool == "mend" and "'mend'" in str(again.value)


@pytest.mark.parametrize("keyword", sorted(NEWER))
def test_what_draft_07_reads_otherwise_is_refused_there_by_name(keyword: str) -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    with pytest.raises(SchemaError, match="not supported: draft-07") as caught:
        compile_schema({**old, "properties": {"a": {keyword: {}}}}, V)
    assert (caught.value.keyword, caught.value.path) == (keyword, "/properties/a")


# (a schema without a value, the path and keyword to blame)
EMPTY: list[tuple[Any, str, str]] = [
    ({"type": "string", "minLength": 5, "maxLength": 3}, "", "minLength"),
    ({"type": "string", "allOf": [{"minLength": 5}, {"maxLength": 3}]}, "", ""),
    ({"type": "string", "pattern": "a^"}, "", "pattern"),
    ({"type": "string", "pattern": "^abc$", "maxLength": 2}, "", "pattern"),
    ({"type": "integer", "minimum": 5, "maximum": 3}, "", "minimum"),
    ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}, "", "minimum"),
    ({"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7}, "", "multipleOf"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "", "minItems"),
    ({"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 2, "maxLength": 1}}, "/items",
     "minLength"),
    ({"type": "array", "contains": {}, "minContains": 2, "maxContains": 1}, "", "minContains"),
    ({"type": "object", "minProperties": 2, "maxProperties": 1}, "", "minProperties"),
    ({"type": "object", "minProperties": 2, "properties": {"a": {}}}, "", "minProperties"),
    ({"type": "object", "required": ["a", "b"], "maxProperties": 1}, "", "maxProperties"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "", "required"),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, "/properties/a", "required"),
    ({"type": "object", "required": ["a"],
      "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 0}}}, "/properties/a", "minimum"),
]  # fmt: skip


@pytest.mark.parametrize(("empty", "path", "keyword"), EMPTY, ids=lambda part: str(part)[:60])
def test_a_branch_that_nothing_satisfies_vanishes_and_only_an_empty_whole_is_refused(
    empty: Any, path: str, keyword: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(empty, V)
    assert (caught.value.path, caught.value.keyword) == (path, keyword), str(caught.value)
    wide = {**empty, "type": [empty["type"], "null"]}
    for schema in (wide, {"anyOf": [empty, {"type": "null"}]}, {"oneOf": [{"const": None}, empty]}):
        grammar = compile_schema(schema, V)
        assert grammar.automaton.depth <= 2 and set(grammar.automaton.legal(*_begin(grammar))) == {ord("n")}
        if keyword:
            assert any(f"{keyword}: " in note and "never written" in note for note in grammar.notes)
    for schema in ({"properties": {"a": empty}}, {"additionalProperties": empty}):
        grammar = compile_schema({"type": "object", **schema}, V)
        matcher = grammar.start()
        for byte in b"{}":
            matcher.advance(byte)
        assert matcher.forced() == (256,)


def _begin(grammar: Grammar) -> tuple[int, Frame]:
    return grammar.automaton.start, grammar.automaton.frames


def test_a_schema_without_type_keeps_the_types_that_others_name() -> None:
    """`{"maxLength": 1}` speaks of strings and takes no other type from a schema that names types."""
    schema = {"type": ["string", "null"], "allOf": [{"maxLength": 1}, {"minLength": 7}]}
    assert set(compile_schema(schema, V).automaton.legal(*_begin(compile_schema(schema, V)))) == {ord("n")}
    both = compile_schema({"allOf": [{"maxLength": 1}, {"minimum": 3, "maximum": 4}]}, V)
    assert set(both.automaton.legal(*_begin(both))) == {ord('"'), ord("3"), ord("4")}
    fixed = compile_schema({"enum": [None, "long"], "maxLength": 2}, V)
    assert set(fixed.automaton.legal(*_begin(fixed))) == {ord("n")}


@pytest.mark.parametrize("keyword", [k for k, (kind, _) in KEYWORDS.items() if kind == "annotation"])
def test_every_annotation_changes_nothing(keyword: str) -> None:
    bare = compile_schema({"type": "boolean"}, V).automaton
    noted = compile_schema({"type": "boolean", keyword: "text"}, V).automaton
    assert noted.rows == bare.rows


def test_arguments_must_be_an_object() -> None:
    bad: list[Any] = [{"type": "string"}, {"type": ["object", "null"]}, [], None]
    for schema in bad:
        with pytest.raises(SchemaError, match="tool 'x'"):
            compile_turn({"x": schema}, V)


def test_bad_bounds_choices_patterns_and_vocabularies_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"Bounds\.string"):
        Bounds(string=0)
    with pytest.raises(InputError, match="max_calls"):
        compile_turn({"a": {"type": "object"}}, V, max_calls=0)
    with pytest.raises(InputError, match="at least one non-empty"):
        compile_choices([], V)
    with pytest.raises(InputError, match="a list of texts, not 'abc'"):
        compile_choices("abc", V)
    with pytest.raises(SchemaError, match="at most 3"):
        compile_regex("a{5}", V, max_length=3)
    with pytest.raises(SchemaError, match="look-around"):
        compile_regex("(?=a)", V)
    with pytest.raises(ConfigError, match="end id"):
        compile_choices(["a"], Vocabulary((b"a",), frozenset(), ()))


def test_a_schema_that_refers_to_itself_as_an_object_is_refused() -> None:
    loop: dict[str, Any] = {"type": "object", "properties": {}}
    loop["properties"]["self"] = loop
    with pytest.raises(SchemaError, match=r"use \$ref"):
        compile_schema(loop, V)
