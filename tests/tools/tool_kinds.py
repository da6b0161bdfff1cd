"""Types a tool's parameter may have: the schema of each, a JSON value of it, and what the tool gets."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import typing
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar

from pydantic import (
    UUID4,
    AnyHttpUrl,
    Base64Bytes,
    BaseModel,
    Field,
    HttpUrl,
    IPvAnyAddress,
    NaiveDatetime,
    UrlConstraints,
)

from kogagent.tools.digits import pattern
from kogagent.tools.subset import DURATION, base64url


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Pair(NamedTuple):
    first: int
    second: str = "z"


class Options(typing.TypedDict, total=False):
    size: typing.Required[int]
    colour: str


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    number: Annotated[int, Field(ge=1)] = 1


# (annotation, schema, JSON text, value)
KINDS: list[tuple[Any, Any, str, Any]] = [
    (str, {"type": "string"}, '"a"', "a"),
    (int, {"type": "integer"}, "3", 3),
    (float, {"type": "number"}, "2.5", 2.5),
    (bool, {"type": "boolean"}, "true", True),
    (None, {"type": "null"}, "null", None),
    (Any, {}, '{"k": [1]}', {"k": [1]}),
    (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),  # noqa: UP045
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, '"1"', "1"),
    (Literal["c", "f"], {"type": "string", "enum": ["c", "f"]}, '"f"', "f"),
    (Literal["c"], {"type": "string", "const": "c"}, '"c"', "c"),
    (Colour, {"type": "string", "enum": ["r", "b"]}, '"b"', Colour.BLUE),
    (Level, {"type": "integer", "enum": [1, 2]}, "2", Level.HIGH),
    (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}, "9", 9),
    (Annotated[float, Field(gt=0)], {"type": "number", "exclusiveMinimum": 0}, "0.5", 0.5),
    (
        Annotated[str, Field(max_length=3, pattern="^a")],
        {"type": "string", "pattern": "^a", "maxLength": 3},
        '"ab"',
        "ab",
    ),
    (list[int], {"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    (
        Annotated[list[int], Field(max_length=2)],
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        "[1]",
        [1],
    ),
    (set[int], {"type": "array", "items": {"type": "integer"}}, "[1, 1]", {1}),
    (frozenset[str], {"type": "array", "items": {"type": "string"}}, '["a"]', frozenset("a")),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, "[1]", (1,)),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        '[1, "a"]',
        (1, "a"),
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1}', {"a": 1}),
    (
        dict[str, int] | None,
        {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}]},
        '{"a": 1}',
        {"a": 1},
    ),
    (dict[str, Any], {"type": "object", "additionalProperties": True}, '{"x": 1}', {"x": 1}),
    (dt.date, {"type": "string", "format": "date"}, '"2024-02-29"', dt.date(2024, 2, 29)),
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        '"2024-02-29T10:00:00Z"',
        dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC),
    ),
    (dt.time, {"type": "string", "format": "time"}, '"10:00:00Z"', dt.time(10, tzinfo=dt.UTC)),
    (dt.timedelta, {"type": "string", "pattern": DURATION}, '"P1DT2H"', dt.timedelta(days=1, hours=2)),
    (uuid.UUID, {"type": "string", "format": "uuid"}, f'"{uuid.UUID(int=7)}"', uuid.UUID(int=7)),
    (pathlib.Path, {"type": "string"}, '"/a/b"', pathlib.Path("/a/b")),
    (
        decimal.Decimal,
        {"type": "string", "pattern": r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"},
        '"12.50"',
        decimal.Decimal("12.50"),
    ),
    (
        Annotated[decimal.Decimal, Field(ge=1)],
        {"type": "number", "minimum": 1},
        "1.5",
        decimal.Decimal("1.5"),
    ),
    *(
        (
            Annotated[decimal.Decimal, Field(max_digits=digits, decimal_places=places)],
            {"type": "string", "pattern": pattern(digits, places)},
            f'"{text}"',
            decimal.Decimal(text),
        )
        for digits, places, text in (
            (5, 2, "-120.30"),
            (3, None, "1.25"),
            (1, None, "7"),
            (40, None, "0.5"),
            (None, 2, "1234567.5"),
            (None, 0, "12"),
            (4, 0, "1200"),
            (3, 2, "9.99"),
            (2, 2, "0.25"),
            (2, 4, "-0.1"),
            (50, 20, "1.5"),
            (40, 35, "-12345.5"),
        )
    ),
    (
        Annotated[decimal.Decimal, Field(ge=0, max_digits=5, decimal_places=2)],
        {"type": "number", "minimum": 0, "maximum": 999.99, "multipleOf": 0.01},
        "12.5",
        decimal.Decimal("12.5"),
    ),
    (
        Annotated[decimal.Decimal, Field(lt=100, decimal_places=1)],
        {"type": "number", "exclusiveMaximum": 100, "multipleOf": 0.1},
        "99.9",
        decimal.Decimal("99.9"),
    ),
    (
        Annotated[decimal.Decimal, Field(gt=-5, max_digits=3, decimal_places=0)],
        {"type": "number", "exclusiveMinimum": -5, "minimum": -999, "maximum": 999, "multipleOf": 1},
        "12",
        decimal.Decimal(12),
    ),
    (
        decimal.Decimal | None,
        {"anyOf": [{"type": "string", "pattern": pattern()}, {"type": "null"}]},
        "null",
        None,
    ),
    (
        HttpUrl,
        {"type": "string", "format": "http-url", "minLength": 1, "maxLength": 2083},
        '"https://ada:x@Example.com:65535/a%20b/?q=1/#f"',
        HttpUrl("https://ada:x@example.com:65535/a%20b/?q=1/#f"),
    ),
    (
        AnyHttpUrl,
        {"type": "string", "format": "http-url", "minLength": 1},
        '"http://[2001:db8::1]:8000"',
        AnyHttpUrl("http://[2001:db8::1]:8000"),
    ),
    (
        Annotated[HttpUrl, UrlConstraints(allowed_schemes=["https"])],
        {"type": "string", "pattern": "^https:", "format": "http-url", "minLength": 1, "maxLength": 2083},
        '"https://127.0.0.1"',
        HttpUrl("https://127.0.0.1"),
    ),
    (
        dict[Colour, int],
        {
            "type": "object",
            "properties": {"r": {"type": "integer"}, "b": {"type": "integer"}},
            "additionalProperties": False,
        },
        '{"b": 1}',
        {Colour.BLUE: 1},
    ),
    (
        Annotated[dict[Level, Any], Field(min_length=1)],
        {
            "type": "object",
            "properties": {"1": {}, "2": {}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        '{"1": "x", "2": []}',
        {Level.LOW: "x", Level.HIGH: []},
    ),
    (
        dict[Literal["only"], list[dict[Literal["c", "f"], bool]]] | None,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "only": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"c": {"type": "boolean"}, "f": {"type": "boolean"}},
                                "additionalProperties": False,
                            },
                        }
                    },
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
        '{"only": [{"f": true}]}',
        {"only": [{"f": True}]},
    ),
    (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"type": "string", "pattern": "^(?:0|-?[1-9][0-9]{0,17})$"},
        },
        '{"-12": "a", "0": "b"}',
        {-12: "a", 0: "b"},
    ),
    (
        dict[Annotated[int, Field(ge=0)], bool],
        {
            "type": "object",
            "additionalProperties": {"type": "boolean"},
            "propertyNames": {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,17})$"},
        },
        '{"7": true}',
        {7: True},
    ),
    (
        dict[float, Any],
        {
            "type": "object",
            "additionalProperties": True,
            "propertyNames": {"type": "string", "pattern": r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$"},
        },
        '{"0.5": null}',
        {0.5: None},
    ),
    *(
        (
            annotation,
            {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "propertyNames": {"type": "string", "pattern": "^(?:0|-?[1-9][0-9]{0,17})$"},
            },
            '{"-12": 3}',
            kind({-12: 3}),
        )
        for annotation, kind in (
            (collections.OrderedDict[int, int], collections.OrderedDict),
            (collections.Counter[int], collections.Counter),
        )
    ),
    (
        dict[bool, int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"type": "string", "enum": ["true", "false"]},
        },
        '{"true": 1}',
        {True: 1},
    ),
    (
        dict[int | str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        '{"x": 1}',
        {"x": 1},
    ),
    (
        dict[dt.date, list[dict[uuid.UUID, int]]],
        {
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": {"type": "integer"},
                    "propertyNames": {"type": "string", "format": "uuid"},
                },
            },
            "propertyNames": {"type": "string", "format": "date"},
        },
        f'{{"2024-02-29": [{{"{uuid.UUID(int=7)}": 1}}]}}',
        {dt.date(2024, 2, 29): [{uuid.UUID(int=7): 1}]},
    ),
    (
        dict[Annotated[str, Field(pattern="^[a-z]+$", max_length=3)], int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        },
        '{"abc": 1}',
        {"abc": 1},
    ),
    (
        UUID4,
        {"type": "string", "pattern": "^.{14}4.{4}[89abAB]", "format": "uuid"},
        '"6f1e2d3c-4b5a-4978-8a6b-5c4d3e2f1a0b"',
        uuid.UUID("6f1e2d3c-4b5a-4978-8a6b-5c4d3e2f1a0b"),
    ),
    (
        NaiveDatetime,
        {"type": "string", "format": "date-time-local"},
        '"2024-02-29T10:00:00.5"',
        dt.datetime(2024, 2, 29, 10, 0, 0, 500_000),
    ),
    (
        IPvAnyAddress,
        {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]},
        '"::1"',
        ipaddress.IPv6Address("::1"),
    ),
    (
        ipaddress.IPv4Interface,
        {"type": "string", "format": "cidrv4"},
        '"10.1.2.3/8"',
        ipaddress.IPv4Interface("10.1.2.3/8"),
    ),
    (
        ipaddress.IPv6Interface,
        {"type": "string", "format": "cidrv6"},
        '"fe80::1/64"',
        ipaddress.IPv6Interface("fe80::1/64"),
    ),
    (
        Base64Bytes,
        {"type": "string", "pattern": base64url(), "contentEncoding": "base64url"},
        '"_-8="',
        b"\xff\xef",
    ),
    (
        Annotated[str, Field(pattern=r"\A[a-c]+\z", json_schema_extra={"x-order": 3})],
        {"type": "string", "pattern": "^[a-c]+$"},
        '"abc"',
        "abc",
    ),
    (
        Annotated[str, Field(pattern=r"(?i)^(?:yes|no)$")],
        {"type": "string", "pattern": "(?i)^(?:yes|no)$"},
        '"Yes"',
        "Yes",
    ),
    (
        bytes,
        {"type": "string", "pattern": base64url(), "contentEncoding": "base64url"},
        '"_-8="',
        b"\xff\xef",
    ),
    (
        Annotated[bytes, Field(min_length=2, max_length=4)],
        {"type": "string", "pattern": base64url(2, 4), "contentEncoding": "base64url"},
        '"aGkhIQ=="',
        b"hi!!",
    ),
    (
        Point,
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
            "additionalProperties": False,
        },
        '{"x": 1}',
        Point(1, 0),
    ),
    (
        Options,
        {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}},
            "required": ["size"],
            "additionalProperties": False,
        },
        '{"size": 1}',
        {"size": 1},
    ),
    (
        Pair,
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string", "default": "z"}],
            "minItems": 1,
            "maxItems": 2,
        },
        '[1, "q"]',
        Pair(1, "q"),
    ),
    (
        Page[int],
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": {"type": "integer"}},
                "number": {"type": "integer", "minimum": 1, "default": 1},
            },
            "required": ["items"],
            "additionalProperties": False,
        },
        '{"items": [1]}',
        Page[int](items=[1]),
    ),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "cat", "default": "cat"},
                        "lives": {"type": "integer"},
                    },
                    "required": ["kind", "lives"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "dog", "default": "dog"},
                        "tricks": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["kind", "tricks"],
                    "additionalProperties": False,
                },
            ]
        },
        '{"kind": "cat", "lives": 9}',
        Cat(lives=9),
    ),
]
