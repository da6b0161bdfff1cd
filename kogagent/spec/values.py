"""How values are written in calls: JSON, Python literals, text between tags. Knows no schema, no tokens.

A style is data, read by three: the grammar that writes it (engine/grammar), the parser that reads it
(chat/reader.py), and `write` below.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from kogagent.errors import ConfigError

Escapes = Literal["json", "python", "none"]

ESCAPES: dict[str, dict[int, str]] = {
    "json": {n: f"\\u{n:04x}" for n in range(0x20)}
    | {0x22: '\\"', 0x5C: "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"},
    "python": {n: f"\\x{n:02x}" for n in range(0x20)}
    | {0x27: "\\'", 0x5C: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"},
    "none": {},
}
"""The one spelling of each code point that must be escaped, as json.dumps and repr choose it."""


@dataclass(frozen=True, slots=True)
class ObjectStyle:
    """How an object is written. The text of n members:

        open + member + (separator + member)*(n-1) + close
        member = name_open + NAME + name_close + VALUE + value_close

    quoted: NAME is a string's body, escaped; else it stands as it is, and only names of the kind
    letter, then letters, digits, "_", "-" or "." can be written. by_name: members come in the order of their
    names (case aside), not of the schema.
    """

    open: str = "{"
    name_open: str = '"'
    name_close: str = '": '
    value_close: str = ""
    separator: str = ", "
    close: str = "}"
    quoted: bool = True
    by_name: bool = False

    def __post_init__(self) -> None:
        for name in ("open", "name_close", "close"):
            if not getattr(self, name):
                raise ConfigError(f"ObjectStyle.{name} must not be empty")
        if self.quoted and not self.name_open:
            raise ConfigError("ObjectStyle: quoted names need name_open")

    def order(self, names: Mapping[str, Any]) -> list[str]:
        """The names as they are written."""
        return sorted(names, key=lambda name: (name.casefold(), name)) if self.by_name else list(names)


@dataclass(frozen=True, slots=True)
class ValueStyle:
    """How a value is written. Arrays are always [ITEM, ITEM] with item_separator.

    string_open "": a string is bare: the text up to the member's value_close, which therefore it cannot hold.
    escapes: how code points are escaped in strings; "none": not at all, so that a string cannot hold what
    closes it. true, false, null: the words of these.
    """

    objects: ObjectStyle = field(default_factory=ObjectStyle)
    item_separator: str = ", "
    string_open: str = '"'
    string_close: str = '"'
    escapes: Escapes = "json"
    true: str = "true"
    false: str = "false"
    null: str = "null"

    def __post_init__(self) -> None:
        if self.escapes not in ESCAPES:
            raise ConfigError(f"ValueStyle.escapes={self.escapes!r} must be one of {', '.join(ESCAPES)}")
        if bool(self.string_open) != bool(self.string_close):
            raise ConfigError("ValueStyle.string_open and string_close go together")
        if not self.string_open and (
            self.escapes != "none" or not self.objects.value_close or len(self.objects.name_close) < 2
        ):
            raise ConfigError("ValueStyle: bare strings need value_close, a longer name_close and no escapes")

    @property
    def bare(self) -> bool:
        """Whether strings stand as they are, up to the end of their member."""
        return not self.string_open

    def words(self) -> dict[str, bool | None]:
        """The texts of true, false and null."""
        return {self.true: True, self.false: False, self.null: None}


JSON = ValueStyle()
"""JSON as chat templates write it, with a space behind commas and colons."""


def json_style(item_separator: str = ", ", key_separator: str = ": ") -> ValueStyle:
    """JSON with other separators."""
    objects = ObjectStyle(name_close='"' + key_separator, separator=item_separator)
    return ValueStyle(objects=objects, item_separator=item_separator)


def escaped(text: str, escapes: Escapes) -> str:
    """The body of a string."""
    return text.translate(ESCAPES[escapes])


def number_text(value: float) -> str:
    """A number in full digits where it is an integer: 1e300 is a one with zeros, as it reads."""
    if isinstance(value, float) and not value.is_integer():
        return json.dumps(value)
    return str(int(Fraction(repr(value))))


def write(value: Any, style: ValueStyle, inner: ValueStyle | None = None) -> str:
    """The text of a JSON value. inner: how arrays and the members of objects are written, if not alike."""
    inner = inner or style
    if isinstance(value, bool) or value is None:
        return style.null if value is None else style.true if value else style.false
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, str):
        return style.string_open + escaped(value, style.escapes) + style.string_close
    if isinstance(value, Mapping):
        return write_object(value, inner.objects, inner, inner)
    return "[" + inner.item_separator.join(write(item, inner) for item in value) + "]"


def write_object(value: Mapping[str, Any], form: ObjectStyle, style: ValueStyle, inner: ValueStyle) -> str:
    """The text of an object whose members' values are in `style`, what is in those in `inner`."""
    members = []
    for name in form.order(value):
        written = escaped(name, style.escapes) if form.quoted else name
        members += [
            form.name_open + written + form.name_close + write(value[name], style, inner) + form.value_close
        ]
    return form.open + form.separator.join(members) + form.close


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}


def bare_value(text: str, kinds: frozenset[str]) -> str | None:
    """The JSON text of what a bare text is, where it is a value of these types; None where it is a string.

    kinds: names of types a schema allows, "integer" for numbers without a fraction.
    """
    word = _WORDS.get(text.lower())
    if word is not None and ("null" if word == "null" else "boolean") in kinds:
        return word
    if kinds & {"number", "integer"} and _NUMBER.fullmatch(text) is not None:
        value = float(text)
        if math.isfinite(value) and ("number" in kinds or value.is_integer()):
            return text
    kind = {"{": "object", "[": "array"}.get(text[:1])
    if kind in kinds:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return None
        return text
    return None
