"""What a tool returned, as the text a model reads. Knows no tools, no models."""

from __future__ import annotations

import json.encoder
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from kogagent.types import File
from kogagent.types.quick import maker, quick


@quick
@dataclass(frozen=True, slots=True)
class Returned:
    """What came out of a tool's code: a text and files, or what it raised."""

    text: str = ""
    files: tuple[File, ...] = ()
    error: BaseException | None = None


_returned = maker(Returned)


def returned(value: Any, limit: int) -> Returned:
    """What a tool gave back: a File, a list of texts and Files, or anything else that `to_text` takes."""
    kind = type(value)
    if kind is File:
        return Returned(clean(shorten(_told(value, limit), limit)), (value,))
    if (kind is list or kind is tuple) and File in map(type, value):
        return _mixed(value, limit)
    return _returned(to_text(value, limit))


def _mixed(values: Sequence[Any], limit: int) -> Returned:
    texts = [_told(one, limit) if isinstance(one, File) else to_text(one, limit) for one in values]
    files = tuple(one for one in values if isinstance(one, File))
    return Returned(clean(shorten("\n".join(texts), limit)), files)


def _told(file: File, limit: int) -> str:
    """A file as a model reads it: what it is, and the text of a text file, of which it reads as much as it
    may."""
    size = os.path.getsize(file.path) if file.path is not None else len(file.data or b"")
    line = f"[file {file.name}, {file.media_type}, {size:,} bytes]"
    if not file.media_type.startswith("text/"):
        return line
    if file.data is not None:
        return f"{line}\n{file.data.decode('utf-8', 'replace')}"
    assert file.path is not None
    with open(file.path, "rb") as opened:
        if size <= 4 * limit:
            return f"{line}\n{opened.read().decode('utf-8', 'replace')}"
        tail = limit // 4
        head = opened.read(tail * 2).decode("utf-8", "ignore")
        opened.seek(size - tail)
        end = opened.read().decode("utf-8", "ignore")
    return f"{line}\n{head}\n[… only the start and the end of the file …]\n{end}"


def to_text(value: Any, limit: int) -> str:
    """Text as it is, anything else as JSON; at most about `limit` characters, head and tail kept.

    Raises whatever the value's own conversion raises.
    """
    if isinstance(value, str):
        value = str.__str__(value)  # of a class below, a member of a StrEnum say, the plain text
    else:
        try:
            value = _encode(value)
        except TypeError:  # keys that are no text
            value = _encode(_plain(value))
        if value[0] == '"':
            value = json.loads(value)  # a date, say: text as it is
    if len(value) > limit:
        value = shorten(value, limit)
    return value if value.isascii() else clean(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Iterator | AsyncIterator):  # no TypeError: that is taken for keys that are no text
        raise ValueError(f"it returned a {type(value).__name__}, which may never end. Return a list.")
    return to_jsonable_python(value, fallback=str, bytes_mode="base64", inf_nan_mode="constants")


def _encoder() -> Callable[[Any], str]:
    """json's encoder as CPython has it in C, made once: `encode` makes it anew for each value, which takes
    four times as long as a small value itself."""
    encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encode
    parts = make(None, _plain, json.encoder.encode_basestring, None, ": ", ", ", False, False, True)

    def quickly(value: Any) -> str:
        try:
            return "".join(parts(value, 0))
        except RecursionError:
            return encode(value)  # which says so where a value holds itself

    return quickly


_encode = _encoder()


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
