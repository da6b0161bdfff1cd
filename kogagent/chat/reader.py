"""The arguments of a call, as they come, to JSON text. Knows styles of values; no call format, no events.

A reader takes symbols one by one and gives JSON as soon as it is certain: a string grows while it is written,
a number is given when something follows it. White space is read with patience where a style has some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Protocol

from kogagent.spec import CallFormat, ObjectStyle, ValueStyle
from kogagent.spec.scan import SPECIAL, matched, spell
from kogagent.spec.values import bare_value

_SPACES = frozenset(b" \t\r\n")
_DEPTH = 128
_SCALAR = re.compile(rb"[A-Za-z0-9_.+-]+")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {b"true": b"true", b"false": b"false", b"null": b"null", b"none": b"null"}
_ALL = frozenset({"null", "boolean", "object", "array", "number", "string"})
_IN_STRING, _BETWEEN = re.compile(rb'[^"\\]*'), re.compile(rb'[^"{}\[\]]*')
_PYTHON = {ord(k): v for k, v in zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True)}

Kinds = Callable[[str, str], frozenset[str]]
"""(tool, argument) -> the types its schema allows: how text without quotes is read."""

Symbols = tuple[int, ...]
Steps = Generator[None, int, None]


def any_kind(tool: str, argument: str) -> frozenset[str]:
    """Where no schema is known: what looks like a value is one."""
    return _ALL


def is_space(symbol: int) -> bool:
    return symbol in _SPACES


class Read(Enum):
    MORE = 0
    DONE = 1
    FAIL = 2


class Reader(Protocol):
    """out: JSON text read and not yet taken, in bytes."""

    out: bytearray

    def step(self, symbol: int) -> Read: ...

    def run(self, text: bytes, at: int) -> tuple[int, bool]:
        """(how many bytes from there on are taken, as `step` would take them; whether the last was the end).
        0 where only `step` can tell."""


class JsonReader:
    """Arguments that are JSON already: all that is needed is their end."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._depth = 0
        self._in_string = self._escaped = self._opened = False

    def step(self, symbol: int) -> Read:
        if not self._opened and is_space(symbol):
            return Read.MORE
        if symbol >= SPECIAL or (not self._opened and symbol != 0x7B):
            return Read.FAIL
        self._opened = True
        self.out.append(symbol)
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif symbol == 0x5C:
                self._escaped = True
            elif symbol == 0x22:
                self._in_string = False
        elif symbol == 0x22:
            self._in_string = True
        elif symbol in b"{[":
            self._depth += 1
        elif symbol in b"}]":
            self._depth -= 1
        return Read.DONE if self._depth == 0 and not self._in_string else Read.MORE

    def run(self, text: bytes, at: int) -> tuple[int, bool]:
        if not self._opened:
            return 0, False
        if self._in_string and not self._escaped and b'"' not in text and b"\\" not in text:  # as a rule
            self.out += text[at:] if at else text
            return len(text) - at, False
        begin, end, depth = at, len(text), self._depth
        while at < end and depth:
            if self._escaped:
                self._escaped = False
            else:
                found = (_IN_STRING if self._in_string else _BETWEEN).match(text, at)
                assert found is not None, "it matches nothing too"
                at = found.end()
                if at == end:
                    break
                byte = text[at]
                if byte == 0x22:
                    self._in_string = not self._in_string
                elif byte == 0x5C:
                    self._escaped = True
                else:
                    depth += 1 if byte in b"{[" else -1
            at += 1
        self._depth = depth
        self.out += text[begin:at]
        return at - begin, depth == 0


class _Wrong(Exception):
    """What comes is nothing this style writes."""


class StyleReader:
    """Arguments in a format's own style, to JSON. names: the special ids a style's texts may name."""

    def __init__(
        self, form: CallFormat, names: dict[str, int], kinds: Callable[[str], frozenset[str]]
    ) -> None:
        self.out = bytearray()
        self._sink = self.out  # a name is read whole before it is given
        self._form, self._names, self._kinds = form, names, kinds
        self._back: int | None = None
        self._depth = 0
        self._steps = self._arguments()
        next(self._steps)

    def step(self, symbol: int) -> Read:
        try:
            self._steps.send(symbol)
        except StopIteration:
            return Read.DONE
        except _Wrong:
            return Read.FAIL
        return Read.MORE

    def run(self, text: bytes, at: int) -> tuple[int, bool]:
        return 0, False

    def _arguments(self) -> Steps:
        outer = self._form.outer
        yield from self._choose([self._symbols(outer.objects.open)])
        yield from self._members(outer.objects, outer)

    # ── symbols ──

    def _symbols(self, text: str) -> Symbols:
        return spell(text, self._names)

    def _next(self) -> Generator[None, int, int]:
        if self._back is None:
            return (yield)
        symbol, self._back = self._back, None
        return symbol

    def _next_solid(self) -> Generator[None, int, int]:
        """The next symbol that is no white space."""
        while True:
            symbol = yield from self._next()
            if not is_space(symbol):
                return symbol

    def _choose(self, options: Sequence[Symbols]) -> Generator[None, int, int]:
        """Read one of several texts, white space aside; its index. An empty one where no other begins."""
        solid = [tuple(s for s in option if not is_space(s)) for option in options]
        alive, at = [i for i, option in enumerate(solid) if option], 0
        while True:
            symbol = yield from self._next_solid()
            left = [i for i in alive if solid[i][at] == symbol]
            if not left:
                if at == 0 and () in solid:
                    self._back = symbol
                    return solid.index(())
                raise _Wrong
            alive, at = left, at + 1
            if len(alive) == 1 and len(solid[alive[0]]) == at:
                return alive[0]

    # ── values ──

    def _members(self, form: ObjectStyle, style: ValueStyle) -> Steps:
        """The members of an object behind what opens it, and what closes it."""
        self._enter()
        self._sink += b"{"
        close, first = self._symbols(form.close), self._symbols(form.name_open)
        more = self._symbols(form.separator + form.name_open)
        options, count = [close, first], 0
        if form.quoted and style.escapes == "python":
            options.append((0x22,))
        while True:
            found = yield from self._choose(options)
            if found == 0:
                break
            name = yield from self._name(form, style, options[found][-1:])
            self._sink += (b", " if count else b"") + json.dumps(name, ensure_ascii=False).encode() + b": "
            if style.bare:
                yield from self._bare(self._kinds(name), form)
            else:
                yield from self._value(style)
                if form.value_close:
                    yield from self._choose([self._symbols(form.value_close)])
            options, count = [close, more], count + 1
            if form.quoted and style.escapes == "python":
                options.append((*self._symbols(form.separator), 0x22))
        self._sink += b"}"
        self._depth -= 1

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _Wrong

    def _name(self, form: ObjectStyle, style: ValueStyle, quote: Symbols) -> Generator[None, int, str]:
        colon = self._symbols(form.name_close)
        if form.quoted:
            self._sink = bytearray()
            yield from self._string(style, quote)
            body, self._sink = self._sink, self.out
            rest = tuple(s for s in colon[1:] if not is_space(s))
            if rest:
                yield from self._choose([rest])
            try:
                return str(json.loads(body))
            except ValueError:
                raise _Wrong from None
        name = bytearray()
        while True:
            symbol = yield from self._next()
            if symbol == colon[0]:
                break
            if symbol >= SPECIAL or len(name) > 1024:
                raise _Wrong
            name.append(symbol)
        for symbol in colon[1:]:
            if not is_space(symbol):
                yield from self._choose([(symbol,)])
        text = name.decode(errors="replace").strip()
        if not text:
            raise _Wrong
        return text

    def _value(self, style: ValueStyle) -> Steps:
        inner = self._form.values
        symbol = yield from self._next_solid()
        opened = self._symbols(style.string_open)
        quotes = {0x22, 0x27} if style.escapes == "python" else {opened[0]}
        if symbol in quotes:
            for wanted in opened[1:]:
                if (yield from self._next()) != wanted:
                    raise _Wrong
            close = (symbol,) if style.escapes == "python" else self._symbols(style.string_close)
            yield from self._string(style, close)
        elif symbol == 0x5B:
            yield from self._array(inner)
        elif symbol == self._symbols(inner.objects.open)[0]:
            self._back = symbol
            yield from self._choose([self._symbols(inner.objects.open)])
            yield from self._members(inner.objects, inner)
        else:
            yield from self._scalar(symbol)

    def _array(self, style: ValueStyle) -> Steps:
        self._enter()
        self._sink += b"["
        found = yield from self._choose([(0x5D,), ()])
        while found:
            yield from self._value(style)
            found = yield from self._choose([(0x5D,), self._symbols(style.item_separator)])
            self._sink += b", " if found else b""
        self._sink += b"]"
        self._depth -= 1

    def _scalar(self, symbol: int) -> Steps:
        text = bytearray()
        while symbol < 0x80 and _SCALAR.fullmatch(bytes([symbol])) is not None:
            text.append(symbol)
            if len(text) > 4096:
                raise _Wrong
            symbol = yield from self._next()
        self._back = symbol
        word = _WORDS.get(bytes(text).lower())
        if word is None and _NUMBER.fullmatch(text) is None:
            raise _Wrong
        self._sink += word or text

    def _string(self, style: ValueStyle, close: Symbols) -> Steps:
        """The body of a string behind what opens it, as JSON."""
        self._sink += b'"'
        if style.escapes == "none":
            yield from self._until(close, self._plain)
        else:
            while True:
                symbol = yield from self._next()
                if symbol == close[0]:
                    break
                if symbol >= SPECIAL:
                    raise _Wrong
                if symbol != 0x5C:
                    self._plain(symbol)
                elif style.escapes == "json":
                    self._sink += bytes((symbol, self._byte((yield from self._next()))))
                else:
                    yield from self._python_escape()
        self._sink += b'"'

    def _byte(self, symbol: int) -> int:
        if symbol >= SPECIAL:
            raise _Wrong
        return symbol

    def _plain(self, byte: int) -> None:
        """One byte of a string's text."""
        if byte < 0x20 or byte in b'"\\':
            self._sink += json.dumps(chr(byte))[1:-1].encode()
        else:
            self._sink.append(byte)

    def _python_escape(self) -> Steps:
        kind = self._byte((yield from self._next()))
        digits = {0x78: 2, 0x75: 4, 0x55: 8}.get(kind)
        if digits is not None:
            text = bytearray()
            for _ in range(digits):
                text.append(self._byte((yield from self._next())))
            try:
                char = chr(int(text.decode(), 16))
                char.encode()
            except (ValueError, OverflowError):
                raise _Wrong from None
        elif kind in _PYTHON:
            char = _PYTHON[kind]
        else:
            self._plain(0x5C)  # Python keeps a backslash that escapes nothing
            self._plain(kind)
            return
        self._sink += json.dumps(char, ensure_ascii=False)[1:-1].encode()

    def _until(self, close: Symbols, take: Callable[[int], None]) -> Steps:
        """Pass on what stands before the first `close`."""
        length = 0
        while True:
            symbol = yield from self._next()
            if symbol >= SPECIAL and symbol != close[length]:
                raise _Wrong
            found = matched(close, length, symbol)
            for byte in (*close[:length], symbol)[: length + 1 - found]:
                take(byte)
            if found == len(close):
                return
            length = found

    def _bare(self, kinds: frozenset[str], form: ObjectStyle) -> Steps:
        """A value without quotes, and what closes its member."""
        close = self._symbols(form.value_close)
        if self._symbols(form.name_close)[-1] == 0x0A:
            symbol = yield from self._next()  # the line's end behind the name
            if symbol != 0x0A:
                self._back = symbol
        if kinds == {"string"}:
            self._sink += b'"'
            yield from self._until(close, self._plain)
            self._sink += b'"'
            return
        if "string" not in kinds and kinds & {"object", "array"}:
            symbol = yield from self._next_solid()
            self._back = symbol
            if symbol in b"{[":
                yield from self._value(self._form.values)
                yield from self._choose([close])
                return
        text = bytearray()
        yield from self._until(close, text.append)
        read = text.decode(errors="replace")
        found = bare_value(read.strip() if "string" not in kinds else read, kinds)
        self._sink += (json.dumps(read, ensure_ascii=False) if found is None else found).encode()
