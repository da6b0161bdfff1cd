"""What the parser of a turn works with: a call format in symbols, bytes on their way to text, a call and its
name while they are read. Knows no order of events."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from functools import lru_cache

from kogagent.chat.reader import JsonReader, Reader, StyleReader
from kogagent.spec import CallFormat, Vocabulary
from kogagent.spec.calls import BARE_NAME
from kogagent.spec.scan import SPECIAL, spell, trigger_of


class Form:
    """A call format in one vocabulary's symbols."""

    def __init__(self, form: CallFormat, vocabulary: Vocabulary) -> None:
        self._form = form
        names = {vocabulary.tokens[id].decode(): id for id in vocabulary.special if vocabulary.tokens[id]}
        self._names = names
        begin, self.trigger = spell(form.begin, names), trigger_of(spell(form.trigger, names))
        self.begin = begin[len(self.trigger) :]
        first = bytes(self.trigger[:1]) if self.trigger and self.trigger[0] < SPECIAL else b""
        self.text_break = re.compile(b"[\n" + re.escape(first) + b"]")
        """Finds what may begin a trigger or a code fence in a text."""
        self.prefix = spell(form.prefix, names)
        self.middle = spell(form.middle, names)
        self.suffix = spell(form.suffix, names)
        self.between = spell(form.between, names) if form.parallel else ()
        self.end = spell(form.end, names)
        self.think_begin = spell(form.think_begin, names)
        self.think_end = spell(form.think_end, names)
        self.name_end = (self.middle or spell(form.outer.objects.open, names))[0]
        self.at_start, self.bare_names, self.is_json = form.at_start, form.bare_names, form.is_json

    def reader(self, kinds: Callable[[str], frozenset[str]]) -> Reader:
        """Of one call's arguments, given the types of each."""
        return JsonReader() if self.is_json else StyleReader(self._form, self._names, kinds)


_MOST_FORMS = 64
_forms: dict[tuple[CallFormat, str], Form] = {}


def form_of(form: CallFormat, vocabulary: Vocabulary) -> Form:
    """The same `Form` for every turn: to spell its texts costs more than to read a call."""
    key = form, vocabulary.digest
    found = _forms.get(key)
    if found is None:
        if len(_forms) >= _MOST_FORMS:
            _forms.clear()
        found = _forms[key] = Form(form, vocabulary)
    return found


_UTF8 = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """Bytes on their way to text."""

    def __init__(self) -> None:
        self.pending = bytearray()
        self._utf8 = _UTF8("replace")

    def add(self, byte: int) -> None:
        self.pending.append(byte)

    def drop(self, count: int) -> None:
        """Forget the newest bytes."""
        del self.pending[len(self.pending) - count :]

    def take(self, keep: int, *, final: bool) -> str:
        """Text of all but the newest `keep` bytes; an incomplete code point waits, unless this is final."""
        end = len(self.pending) - keep
        text = self._utf8.decode(bytes(self.pending[:end]), final)
        del self.pending[:end]
        return text


class CallRead:
    """A call that is being read."""

    def __init__(self, id: str, name: str, reader: Reader) -> None:
        self.id, self.name, self.reader = id, name, reader
        self.arguments = TextStream()
        self.given: list[str] = []


def goes_on_bare(name: bytearray, symbol: int) -> bool:
    """Whether a name without quotes can go on so."""
    return BARE_NAME.fullmatch((name + bytes([symbol])).decode(errors="replace")) is not None


def escaping(name: bytearray) -> bool:
    """Whether the last byte is a backslash that escapes what follows."""
    return (len(name) - len(name.rstrip(b"\\"))) % 2 == 1


@lru_cache(maxsize=256)
def unquoted(name: bytes) -> str:
    text = name.decode(errors="replace")
    try:
        read = json.loads(f'"{text}"')
    except ValueError:  # cut inside an escape
        return text
    return read if isinstance(read, str) else text
