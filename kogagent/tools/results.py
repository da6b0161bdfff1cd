"""What a tool returned, as the text a model reads. Knows no tools, no models."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_jsonable_python


def to_text(value: Any, limit: int) -> str:
    """Text as it is, anything else as JSON; at most about `limit` characters, head and tail kept.

    Raises whatever the value's own conversion raises.
    """
    if not isinstance(value, str):
        try:
            value = _encode(value)
        except TypeError:  # keys that are no text
            value = _encode(_plain(value))
        if value[:1] == '"':
            value = json.loads(value)  # a date, say: text as it is
    return clean(shorten(value, limit))


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, bytes_mode="base64", inf_nan_mode="constants")


_encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters and a line that says how many are missing between head and tail."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    cut = len(text) - limit
    return f"{text[:head]}\n[… {cut} of {len(text)} characters left out …]\n{text[len(text) - tail :]}"


def clean(text: str) -> str:
    """Lone surrogates, which no tokenizer can read, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
