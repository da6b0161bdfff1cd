"""Ids to text as they come. Knows a table of bytes; no files, no encoding of text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from kogagent.errors import InputError
from kogagent.spec import Vocabulary


class Decoder:
    """Turns ids into text one at a time; a code point spread over several ids comes with its last.

    Special ids add nothing. strip_space: drop one space at the very start, which SentencePiece puts before a
    text and which is no part of it.
    """

    def __init__(self, vocabulary: Vocabulary, *, strip_space: bool = False) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = strip_space

    def feed(self, *ids: int) -> str:
        """The text that these ids settle. Raises InputError for an id outside the vocabulary."""
        return self._text(self.raw(ids))

    def flush(self) -> str:
        """The end: U+FFFD for a code point that never came to its end, else nothing."""
        return self._utf8.decode(b"", final=True)

    def raw(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids, nothing held back or stripped."""
        tokens, special = self._vocabulary.tokens, self._vocabulary.special
        out = []
        for id in ids:
            if not 0 <= id < len(tokens):
                raise InputError(f"id {id!r} lies outside the vocabulary of {len(tokens)} tokens")
            if id not in special:
                out.append(tokens[id])
        return b"".join(out)

    def _text(self, raw: bytes) -> str:
        if self._strip and raw:
            self._strip = False
            raw = raw.removeprefix(b" ")
        return self._utf8.decode(raw)
