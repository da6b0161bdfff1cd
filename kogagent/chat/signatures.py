"""A tool as one line, `convert(value: number, unit: kilograms | pounds, to: like unit): what it does`.

Knows JSON Schema's types and words; no format, no template. What a grammar holds anyway (patterns, lengths,
ranges) is left out: it costs tokens and a small model makes nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kogagent.types import ToolSpec

_LONG = 20  # characters from which a type that was written before is only referred to
_NAMES = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "null": "nothing",
    "object": "object",
    "array": "list",
}


def signature(tool: ToolSpec) -> str:
    """NAME(ARGUMENT: TYPE, …): DESCRIPTION; an argument that may be left out is `ARGUMENT?`."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    written: dict[str, str] = {}  # type -> the argument it was written for
    arguments = []
    for name, schema in properties.items():
        kind = type_in_words(schema)
        if len(kind) > _LONG and kind in written:
            kind = f"like {written[kind]}"
        else:
            written.setdefault(kind, name)
        about = schema.get("description") if isinstance(schema, Mapping) else None
        arguments.append(
            f"{name}{'' if name in required else '?'}: {kind}{f' ({_one_line(about)})' if about else ''}"
        )
    return f"{tool.name}({', '.join(arguments)}): {_one_line(tool.description)}"


def type_in_words(schema: Any) -> str:
    """What a value may be: its choices, its type, or `value` where a schema says neither."""
    if not isinstance(schema, Mapping):
        return "value"
    if "const" in schema:
        return _word(schema["const"])
    if "enum" in schema:
        return " | ".join(map(_word, schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(type_in_words, schema[key])))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(type_in_words({**schema, "type": one}) for one in kind)
    if kind == "array" and "items" in schema:
        return f"list of {type_in_words(schema['items'])}"
    if kind == "object" and schema.get("properties"):
        inner = (f"{name}: {type_in_words(value)}" for name, value in schema["properties"].items())
        return f"{{{', '.join(inner)}}}"
    return _NAMES.get(str(kind), "value")


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
