"""pydantic's JSON Schema brought inside the subset a grammar enforces. Knows no functions, no models."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Mapping
from typing import Any

from kogagent.errors import SchemaError

_FORMATS = (
    *("date", "time", "date-time", "date-time-local", "uuid", "email", "uri", "http-url", "ipv4", "ipv6"),
    *("cidrv4", "cidrv6", "base64"),
)
# pydantic's own names, and what says the same or somewhat less
_READ_AS = {
    **{f"uuid{version}": ("uuid",) for version in range(1, 9)},  # whose version a pattern tells
    "name-email": ("email",),
    "ipvanyaddress": ("ipv4", "ipv6"),
    **{f"ip{which}{what}": (f"cidr{which}",) for which in ("v4", "v6") for what in ("network", "interface")},
    **{f"ipvany{what}": ("cidrv4", "cidrv6") for what in ("network", "interface")},
}
# ISO 8601 days and times of bounded size: years and months have no fixed length, and a timedelta is bounded.
_TIMES = r"T(?:\d{1,6}H(?:\d{1,6}M)?(?:\d{1,6}S)?|\d{1,6}M(?:\d{1,6}S)?|\d{1,6}(?:\.\d{1,6})?S)"
DURATION = rf"^P(?:\d{{1,6}}D(?:{_TIMES})?|{_TIMES})$"
_BOUND = 1024  # bytes up to which a bound of their number can be told in a pattern
_UNREAD = ("title", "deprecated", "readOnly", "writeOnly", "$comment")  # these say nothing to a model
_INLINE_CHARS = 400  # a definition used more than once is written out in place while it is this short

# Keywords of the subset. The value tells how to go on below the keyword.
_KEYWORDS: Mapping[str, typing.Literal["plain", "schema", "list", "map"]] = {
    "$ref": "plain",
    "type": "plain",
    "description": "plain",
    **dict.fromkeys(("examples", "example"), "plain"),  # for the model to read
    "enum": "plain",
    "const": "plain",
    "pattern": "plain",
    "format": "plain",
    "contentEncoding": "plain",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "plain"),
    **dict.fromkeys(("minLength", "maxLength"), "plain"),
    "items": "schema",
    "prefixItems": "list",
    **dict.fromkeys(("minItems", "maxItems"), "plain"),
    "properties": "map",
    "required": "plain",
    "additionalProperties": "schema",
    "propertyNames": "schema",
    **dict.fromkeys(("minProperties", "maxProperties"), "plain"),
    "anyOf": "list",
    "default": "plain",
    "$defs": "map",
}
_HINTS = {
    "propertyNames": "Use str keys.",
    "contentMediaType": "Annotate it as what the text holds, not as pydantic's Json of that.",
}
OUTPUT = "the output type"
"""Stands for the place of a tool where a type is no tool's."""


def owner(tool: str, place: str) -> str:
    """Whose type an error is about, in words."""
    return f"{OUTPUT} {tool!r}" if place == OUTPUT else f"tool {tool!r} ({place})"


def _elsewhere(place: str) -> str:
    where = "a guardrail of the answer" if place == OUTPUT else "the tool"
    return f"Check it in {where} and raise Retry."


def subset(schema: dict[str, Any], tool: str, place: str) -> dict[str, Any]:
    """pydantic's schema inside the grammar's subset, short definitions written out in place."""
    _require_tags(schema, schema.get("$defs", {}))
    defs = {
        name: _node(node, f"/$defs/{name}", tool, place) for name, node in schema.pop("$defs", {}).items()
    }
    root = _node(schema, "", tool, place)
    uses: dict[str, int] = {}

    def count(node: Any) -> None:
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str):
                uses[ref.rpartition("/")[2]] = uses.get(ref.rpartition("/")[2], 0) + 1
            for below in node.values():
                count(below)
        elif isinstance(node, list):
            for below in node:
                count(below)

    def reaches(name: str, target: str, seen: set[str]) -> bool:
        for other in _refs(defs[name]):
            if other == target:
                return True
            if other not in seen and reaches(other, target, seen | {other}):
                return True
        return False

    count([root, defs])
    recursive = {name for name in defs if reaches(name, name, set())}
    kept = {
        name
        for name, node in defs.items()
        if name in recursive or (uses.get(name, 0) > 1 and len(json.dumps(node)) > _INLINE_CHARS)
    }

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(below) for below in node]
        if not isinstance(node, dict):
            return node
        out = {key: inline(below) for key, below in node.items()}
        name = out["$ref"].rpartition("/")[2] if isinstance(out.get("$ref"), str) else ""
        if not name or name in kept:
            return out
        del out["$ref"]
        return {**inline(defs[name]), **out}

    root = inline(root)
    needed: dict[str, Any] = {}
    waiting = _refs(root)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = inline(defs[name])
            waiting += _refs(needed[name])
    return {**root, "$defs": {name: needed[name] for name in defs if name in needed}} if needed else root


def _require_tags(node: Any, defs: dict[str, Any]) -> None:
    """A tag with a default is optional to pydantic's schema, but not to its reading of a tagged union."""
    if isinstance(node, dict):
        tagged = node.get("discriminator")
        if isinstance(tagged, dict) and isinstance(tagged.get("propertyName"), str):
            for ref in _refs(node.get("oneOf", [])):
                required = defs[ref].setdefault("required", [])
                if tagged["propertyName"] not in required:
                    required.insert(0, tagged["propertyName"])
        for below in node.values():
            _require_tags(below, defs)
    elif isinstance(node, list):
        for below in node:
            _require_tags(below, defs)


def _refs(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for below in node.values() for ref in _refs(below)]
    return [ref for below in node for ref in _refs(below)] if isinstance(node, list) else []


def _node(node: Any, path: str, tool: str, place: str) -> Any:
    if isinstance(node, bool):
        return node
    node = dict(node)
    for key in [key for key in node if key in _UNREAD or key.startswith("x-")]:
        del node[key]
    node.pop("uniqueItems", None)  # a set: repeats merge when it is read
    node.pop("discriminator", None)
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")  # pydantic writes it for tagged unions, where one alone can match
    if node.get("format") == "duration":
        del node["format"]
        node["pattern"] = DURATION
    elif node.get("format") == "base64url":
        node = _bytes(node, path, tool, place)
    elif node.get("format") in _READ_AS:
        as_one = [{"type": "string", "format": name} for name in _READ_AS[node.pop("format")]]
        node = node | (as_one[0] if len(as_one) == 1 else {"anyOf": as_one})
        if "anyOf" in node:
            del node["type"]
    elif node.get("format") not in (None, *_FORMATS):
        del node["format"]  # "path", "binary", "password": any text
    if node.get("type") == "object" and "properties" in node:
        node.setdefault("additionalProperties", False)
    if "prefixItems" in node:
        node.setdefault("minItems", 0)
        node.setdefault("maxItems", len(node["prefixItems"]))
    out: dict[str, Any] = {}
    order = list(_KEYWORDS)  # one spelling of one schema: it is part of the prompt prefix
    for key in sorted(node, key=lambda key: order.index(key) if key in _KEYWORDS else -1):
        value = node[key]
        kind = _KEYWORDS.get(key)
        if key == "propertyNames" and value.get("type") != "string":
            kind = None
        if kind is None:
            hint = _HINTS.get(key) or _elsewhere(place)
            raise SchemaError(
                f"{owner(tool, place)} needs the schema keyword {key!r} at {path or '/'}, which "
                f"the grammar cannot enforce. {hint}",
                tool=tool,
                path=path,
                keyword=key,
            )
        below = f"{path}/{key}"
        if kind == "schema":
            out[key] = _node(value, below, tool, place)
        elif kind == "list":
            out[key] = [_node(one, f"{below}/{i}", tool, place) for i, one in enumerate(value)]
        elif kind == "map":
            out[key] = {name: _node(one, f"{below}/{name}", tool, place) for name, one in value.items()}
        else:
            out[key] = _ecma(value) if key == "pattern" else value
    return out


def _ecma(pattern: str) -> str:
    """A pattern of Rust's or Python's, whose anchors have names of their own."""
    if pattern.startswith(r"\A"):
        pattern = "^" + pattern[2:]
    ends = re.search(r"(\\+)[zZ]$", pattern)
    return pattern[:-2] + "$" if ends and len(ends[1]) % 2 else pattern


def base64url(least: int = 0, most: int | None = None) -> str:
    """The pattern of what base64url (RFC 4648) writes for so many bytes, bit for bit: the characters before
    the padding leave no bit over."""
    ends = ("", r"[\w-][AQgw]==", r"[\w-]{2}[AEIMQUYcgkosw048]=")  # what zero, one and two bytes more come to
    if not least and most is None:
        return rf"^(?:[\w-]{{4}})*(?:{'|'.join(ends[1:])})?$"
    whole = []
    for over, end in enumerate(ends):
        low = max(-((over - least) // 3), 0)
        if most is None or (most - over) // 3 >= low:
            high = "" if most is None else (most - over) // 3
            whole.append(rf"(?:[\w-]{{4}}){{{low},{high}}}{end}")
    return f"^(?:{'|'.join(whole)})$"


def _bytes(node: dict[str, Any], path: str, tool: str, place: str) -> dict[str, Any]:
    """pydantic's lengths are of the bytes, a schema's of the text they are written in."""
    bounds = {key: node.pop(key) for key in ("minLength", "maxLength") if key in node}
    for key, value in bounds.items():
        if value > _BOUND:
            raise SchemaError(
                f"{owner(tool, place)} bounds bytes by {value} at {path or '/'}, and a pattern counts "
                f"them up to {_BOUND}. {_elsewhere(place)}",
                tool=tool,
                path=path,
                keyword=key,
            )
    del node["format"]
    pattern = base64url(bounds.get("minLength", 0), bounds.get("maxLength"))
    return {**node, "pattern": pattern, "contentEncoding": "base64url"}
