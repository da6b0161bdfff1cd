"""What of a JSON text is known while it is still being written, for user interfaces. Knows no calls."""

from __future__ import annotations

import json
import re

from kogagent.errors import InputError
from kogagent.types import JSONValue

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEGUN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?)?\Z")
_STRING = re.compile(
    r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)(?:(")|(\\(?:u[0-9a-fA-F]{0,3})?)?\Z)'
)
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_DEPTH = 256


class _Cut(Exception):
    """The text ends before there is a value to show."""


def partial_json(text: str) -> JSONValue:
    """The value of a JSON text as far as it goes; None where it has none yet.

    What is shown never changes later, it only grows: strings by their end, arrays and objects by members. A
    number is shown when something follows it, a key when its value is. InputError for what begins no JSON.
    """
    try:
        value, at, _ = _value(text, 0, 0)
    except _Cut:
        return None
    at = _skip(text, at)
    if at < len(text):
        raise _wrong(text, at)
    return value


def _wrong(text: str, at: int) -> InputError:
    return InputError(f"no beginning of JSON: unexpected {text[at : at + 20]!r} at position {at}")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int, depth: int) -> tuple[JSONValue, int, bool]:
    """(value, place behind it, whether it is whole)."""
    at = _skip(text, at)
    if at == len(text):
        raise _Cut
    if text[at] == '"':
        return _string(text, at)
    if text[at] in "{[":
        if depth == _DEPTH:
            raise InputError(f"JSON nested more than {_DEPTH} deep at position {at}")
        return _container(text, at, depth)
    if _BEGUN.match(text, at):
        raise _Cut
    found = _SCALAR.match(text, at)
    if found is not None:
        return json.loads(found[0]), found.end(), True
    if any(word.startswith(text[at:]) for word in ("true", "false", "null")):
        raise _Cut
    raise _wrong(text, at)


def _string(text: str, at: int) -> tuple[str, int, bool]:
    found = _STRING.match(text, at)
    if found is None:
        raise _wrong(text, at)
    body = found[1] if found[2] else _HALF_PAIR.sub("", found[1])
    return json.loads(f'"{body}"'), found.end(), bool(found[2])


def _container(text: str, at: int, depth: int) -> tuple[JSONValue, int, bool]:
    is_object = text[at] == "{"
    close = "}" if is_object else "]"
    items: list[JSONValue] = []
    members: dict[str, JSONValue] = {}
    shown: JSONValue = members if is_object else items
    at = _skip(text, at + 1)
    if at < len(text) and text[at] == close:
        return shown, at + 1, True
    while True:
        try:
            key = ""
            if is_object:
                at = _skip(text, at)
                if at == len(text):
                    raise _Cut
                if text[at] != '"':
                    raise _wrong(text, at)
                key, at, whole = _string(text, at)
                at = _skip(text, at)
                if not whole or at == len(text):
                    raise _Cut
                if text[at] != ":":
                    raise _wrong(text, at)
                at += 1
            value, at, whole = _value(text, at, depth + 1)
        except _Cut:
            return shown, len(text), False
        if is_object:
            members[key] = value
        else:
            items.append(value)
        at = _skip(text, at)
        if not whole or at == len(text):
            return shown, len(text), False
        if text[at] == close:
            return shown, at + 1, True
        if text[at] != ",":
            raise _wrong(text, at)
        at += 1
