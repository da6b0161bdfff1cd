"""Schemas as tools of other programs have them: a call the grammar lets a model write is one that is read."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from test_tools_under_grammar import BYTES, written

from kogagent.engine.grammar import compile_schema
from kogagent.errors import ModelError, SchemaError
from kogagent.tools.schema import of_json_schema

TEXT = {"type": "string"}
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def takes(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


# (what it is, schema, arguments that a model may write, arguments that it may not)
SERVERS: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    (
        "edits of files",
        {
            **takes(
                ("path", "edits"), path=TEXT, edits={"type": "array", "items": takes(("old",), old=TEXT)}
            ),
            "additionalProperties": False,
            "$schema": "http://json-schema.org/draft-07/schema#",
        },
        [{"path": "a", "edits": [{"old": "b"}]}],
        [{"path": "a", "edits": [{}]}, {"path": "a"}],
    ),
    (
        "a page or a database, whichever is named",
        takes(parent={"type": "object", "oneOf": [takes(("page",), page=TEXT), takes(("base",), base=TEXT)]}),
        [{"parent": {"page": "1"}}, {"parent": {"base": "1"}}, {}],
        [{"parent": {"page": "1", "base": "1"}}, {"parent": {}}],
    ),
    (
        "one of two properties, and not both",
        {**takes(id=TEXT, name=TEXT), "oneOf": [{"required": ["id"]}, {"required": ["name"]}]},
        [{"id": "1"}, {"name": "x"}],
        [{}, {"id": "1", "name": "x"}],
    ),
    (
        "at least one of two properties",
        {**takes(id=TEXT, name=TEXT), "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
        [{"id": "1"}, {"name": "x"}, {"id": "1", "name": "x"}],
        [{}],
    ),
    (
        "nullable",
        takes(a={"type": "string", "nullable": True}, b={"type": "integer", "nullable": True, "minimum": 3}),
        [{"a": None}, {"a": "x", "b": None}, {"b": 3}],
        [{"b": 2}, {"a": 1}],
    ),
    ("money", takes(a={"type": "number", "multipleOf": 0.01}), [{"a": 120.32}, {"a": 0.29}], [{"a": 0.125}]),
    (
        "zod's identifiers",
        takes(
            a={"type": "string", "format": "cuid", "pattern": r"^[cC][^\s-]{8,}$"},
            b={"type": "string", "format": "nanoid", "pattern": "^[a-zA-Z0-9_-]{21}$"},
            c={"type": "string", "format": "ulid"},
            d={"type": "string", "format": "jwt"},
            e={"type": "string", "format": "e164"},
        ),
        [
            {
                "a": "c123456789",
                "b": "-" * 21,
                "c": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
                "d": "a.b.",
                "e": "+4712345678",
            }
        ],
        [
            {"a": "123456789"},
            {"b": "-"},
            {"c": "81ARZ3NDEKTSV4RRFFQ69G5FAV"},
            {"d": "a.b"},
            {"e": "4712345678"},
        ],
    ),
    (
        "zod's e-mail",
        takes(a={"type": "string", "format": "email", "pattern": EMAIL}),
        [{"a": "ada.b@example.com"}],
        [{"a": ".ada@example.com"}, {"a": "ada..b@example.com"}, {"a": "ada@example"}],
    ),
    (
        "a password",
        takes(a={"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d)(?!.* ).{8,12}$"}),
        [{"a": "abcdefG1"}],
        [{"a": "abcdefg1"}, {"a": "abcdeFGH"}, {"a": "abcdef G1"}, {"a": "abcdG1"}],
    ),
    (
        "numbers of Rust",
        takes(a={"type": "integer", "format": "uint"}, b={"type": "integer", "format": "int8"}),
        [{"a": 0, "b": -128}],
        [{"a": -1}, {"b": 128}],
    ),
    (
        "addresses",
        takes(
            a={"type": "string", "format": "uri-reference"},
            b={"type": "string", "format": "uri-template"},
            c={"type": "string", "format": "cidrv4"},
            d={"type": "string", "format": "url"},
            e={"type": "string", "format": "cidrv6"},
        ),
        [{"a": "../x?y#z", "b": "/a/{id}{?q*}", "c": "10.0.0.0/8", "d": "https://a.b", "e": "fe80::/10"}],
        [{"a": "a b"}, {"b": "{a b}"}, {"c": "10.0.0.0/33"}, {"d": "a.b"}, {"e": "fe80::/129"}],
    ),
    (
        "a pair as draft-07 has it, which is not named",
        takes(
            a={"type": "array", "items": [TEXT, {"type": "integer"}], "minItems": 2, "additionalItems": False}
        ),
        [{"a": ["x", 1]}],
        [{"a": ["x"]}, {"a": [1, "x"]}, {"a": ["x", 1, 2]}],
    ),
    (
        "open bounds as draft-04 and OpenAPI 3.0 have them",
        takes(
            ("a",),
            a={"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True},
            b={"type": "integer", "maximum": 9, "exclusiveMaximum": True},
            c={"type": "integer", "minimum": 0, "exclusiveMinimum": False},
        ),
        [{"a": 1, "b": 8, "c": 0}, {"a": None}],
        [{"a": 0}, {"a": 1, "b": 9}, {"a": 1, "c": -1}],
    ),
    (
        "an open bound of draft-04 beside a word of draft-07",
        takes(("a",), a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}, b={"const": "x"}),
        [{"a": 1, "b": "x"}],
        [{"a": 1, "b": "y"}, {"a": 0}],
    ),
    (
        "words for editors and users",
        {
            **takes(
                a={
                    "type": "string",
                    "enum": ["a", "b"],
                    "enumNames": ["A", "B"],
                    "enumDescriptions": ["first", "second"],
                    "markdownDescription": "*x*",
                    "errorMessage": "no",
                },
                b={"type": "string", "format": "markdown", "externalDocs": {"url": "https://a.b"}},
            ),
            "propertyOrdering": ["a", "b"],
        },
        [{"a": "a", "b": "# x"}],
        [{"a": "A"}],
    ),
]


# (pattern, texts that ECMA-262 finds it in and Python does not, texts that neither does)
PATTERNS: list[tuple[str, list[str], list[str]]] = [
    (r"^(?=.*\W).{1,9}$", ["é", "aé"], ["a", ""]),
    (r"^(?!.*\w)", ["é"], ["a", "éa"]),
    (r"^\D$", ["٣"], ["3"]),
    (r"^\s$", ["\ufeff"], ["a"]),
    (r"^(?!foo$)", ["foo\n"], ["foo"]),
    (r"^\p{Lu}\p{L}*$", ["Ébène"], ["ébène", "1"]),  # the rest are none to Python
    (r"^(?<year>\d{4})$", ["2026"], ["26"]),
    (r"^\u{1F600}$", ["\U0001f600"], ["u{1F600}"]),
]


def accepts(schema: Mapping[str, Any], value: Any) -> bool:
    matcher = compile_schema(schema, BYTES).start()
    try:
        for token in (*json.dumps(value, ensure_ascii=False).encode(), 256):
            matcher.advance(token)
    except ModelError:
        return False
    return True


@pytest.mark.parametrize(
    ("schema", "good", "bad"), [one[1:] for one in SERVERS], ids=[one[0] for one in SERVERS]
)
def test_a_server_s_schema_is_held_and_what_it_holds_is_read(
    schema: dict[str, Any], good: list[Any], bad: list[Any], rng: np.random.Generator
) -> None:
    signature = of_json_schema(schema, tool="t", description="", place="here")
    schema = dict(signature.parameters)
    for value in good:
        assert accepts(schema, value), value
        assert signature.read(json.dumps(value)) == value
    assert not [value for value in bad if accepts(schema, value)]
    choose = random.Random(int(rng.integers(2**32)))
    for _ in range(12):
        signature.read(written(schema, choose))


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS, ids=[one[0] for one in PATTERNS])
def test_a_text_that_fits_a_pattern_in_the_grammar_is_read(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    schema = takes(a={"type": "string", "pattern": pattern})
    signature = of_json_schema(schema, tool="t", description="", place="here")
    for value in good:
        assert accepts(schema, {"a": value}) and signature.read(json.dumps({"a": value})) == {"a": value}
    for value in bad:
        assert not accepts(schema, {"a": value})
        with pytest.raises(ValidationError, match="does not match"):
            signature.read(json.dumps({"a": value}))


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS, ids=[one[0] for one in PATTERNS])
def test_a_key_that_fits_a_pattern_in_the_grammar_is_read_by_it(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    for others in (False, TEXT):
        schema = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}}
        signature = of_json_schema(
            schema | {"additionalProperties": others}, tool="t", description="", place="here"
        )
        for value in good:
            for fits in (1, "x"):
                text = json.dumps({value: fits})
                assert accepts(signature.parameters, {value: fits}) == (fits == 1)
                if fits == 1:
                    assert signature.read(text) == {value: 1}
                else:
                    with pytest.raises(ValidationError, match="'x' is not of type 'integer'"):
                        signature.read(text)
        for value in bad:
            text = json.dumps({value: "x"})
            if others:
                assert signature.read(text) == {value: "x"}
            else:
                with pytest.raises(ValidationError, match=r"does not match|not allowed"):
                    signature.read(text)


def test_a_key_that_fits_a_pattern_to_python_alone_is_another() -> None:
    schema = {
        "type": "object",
        "patternProperties": {r"^\w$": {"type": "integer"}},
        "additionalProperties": TEXT,
    }
    value = {"é": "x", "e": 1}
    assert accepts(schema, {"é": "x"})
    assert of_json_schema(schema, tool="t", description="", place="here").read(json.dumps(value)) == value


def test_a_word_that_another_model_does_not_keep_to_is_read_beside_older_ones() -> None:
    schema = takes(("b",), a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}, b={"const": "x"})
    with pytest.raises(ValidationError, match="'x' was expected"):
        of_json_schema(schema, tool="t", description="", place="here").read('{"b": "y"}')


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("if", {"if": 3}),
        ("contains", {"contains": 5}),
        ("propertyNames", {"propertyNames": 7}),
        ("minContains", {"minContains": -1}),
        ("patternProperties", {"patternProperties": {"[": {}}}),
        ("prefixItems", {"items": [TEXT], "prefixItems": 3}),
        ("items", {"items": [{"type": "strin"}]}),
        ("patternProperties", {"patternProperties": {"^\\p{L}": {}}, "unevaluatedProperties": False}),
    ],
)
def test_what_is_wrong_in_a_word_that_older_drafts_do_not_know_is_refused(
    path: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(SchemaError, match=f"invalid schema at /properties/a/{path}: "):
        of_json_schema(takes(("a",), a=wrong), tool="t", description="", place="here")


@pytest.mark.parametrize("endless", ["1e999", "-1e999"])
def test_a_number_beyond_all_doubles_is_told_to_be_no_multiple(endless: str) -> None:
    signature = of_json_schema(
        takes(a={"type": "number", "multipleOf": 0.1}), tool="t", description="", place="here"
    )
    with pytest.raises(ValidationError, match=r"inf is not a multiple of 0\.1"):
        signature.read(f'{{"a": {endless}}}')
