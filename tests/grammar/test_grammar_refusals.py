"""Everything the grammar cannot hold is refused before any token, naming tool, path and keyword."""

from __future__ import annotations

from typing import Any

import pytest
from grammar_vocabularies import byte_vocabulary

from kogagent.engine.grammar import Bounds, compile_choices, compile_regex, compile_schema, compile_turn
from kogagent.engine.grammar.keywords import KEYWORDS
from kogagent.errors import ConfigError, InputError, SchemaError
from kogagent.spec import Vocabulary

V = byte_vocabulary()

REFUSED: list[tuple[Any, str, str]] = [
    ({"type": "strin"}, "", "type"),
    ({"type": []}, "", "type"),
    ({"type": "string", "minLength": 5, "maxLength": 3}, "", "minLength"),
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
    ({"$ref": "#/nowhere"}, "", "$ref"),
    ({"$ref": "http://example.com/x"}, "", "$ref"),
    ({"$ref": "#"}, "", "$ref"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", "$ref"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "", "required"),
    ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "/properties/a", "required"),
    ({"type": "object", "properties": {"a": {}}, "required": "a"}, "", "required"),
    ({"type": "object", "properties": {"a": {"contains": {}}}}, "/properties/a", "contains"),
    ({"type": "array", "not": {"items": {"type": "string"}}}, "", "items"),
    ({"type": "number", "not": {"multipleOf": 3}}, "", "multipleOf"),
    ({"not": {"type": "integer"}}, "", "type"),
    ({"not": 3}, "/not", ""),
    ({"not": {"frob": 1}}, "/not", "frob"),
    ({"not": {"type": [[]]}}, "/not", "type"),
    ({"type": "array", "not": {"contains": {}}}, "/not", "contains"),
    ({"if": {"oneOf": [{}]}, "else": {}}, "", "oneOf"),
    ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "", "uniqueItems"),
    ({"type": "object", "patternProperties": {"a(": {}}}, "", "patternProperties"),
    ({"type": "object", "patternProperties": []}, "", "patternProperties"),
    ({"type": "object", "dependentRequired": {"a": "b"}}, "", "dependentRequired"),
    ({"type": "object", "dependentSchemas": {"a": ["b"]}}, "", "dependentSchemas"),
    ({"type": "object", "required": ["ab"], "propertyNames": {"maxLength": 1}}, "", "required"),
    ({"type": "object", "properties": {"a": {"type": "string", "frob": 1}}}, "/properties/a", "frob"),
    ({"type": "object", "maxProperties": 1, "required": ["a", "b"]}, "", "maxProperties"),
    ({"properties": {"a/b": {"contains": {}}}, "type": "object"}, "/properties/a~1b", "contains"),
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


@pytest.mark.parametrize("keyword", [k for k, (kind, _) in KEYWORDS.items() if kind == "refused"])
def test_every_refused_keyword_is_refused_by_name(keyword: str) -> None:
    with pytest.raises(SchemaError, match="not supported") as caught:
        compile_schema({"type": "object", "properties": {"a": {keyword: {}}}}, V)
    assert (caught.value.keyword, caught.value.path) == (keyword, "/properties/a")


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
    with pytest.raises(InputError, match="at least one non-empty"):
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
