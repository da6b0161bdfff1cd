"""Texts in the ids a tokenizer writes, and which of these are certain. Knows no grammar.

Canonical borders: let F be a text that is forced. Whatever follows, the tokenizer puts a border at some s in
S: the places where a token that reaches legally past F may start, or the end of F. What stands before a
border is tokenized independently of what follows. So the ids common to the tokenizations of F[:s], for all s,
are certain.
"""

from __future__ import annotations

from collections.abc import Sequence

from kogagent.spec import Vocabulary

_KEPT = 8192
"""Texts whose ids are kept for a vocabulary: the same few stand between the values of most calls."""

Ids = tuple[int, ...]


class Spelling:
    """A vocabulary's tokenizer; what it has said is kept."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[bytes, Ids | None] = {}
        self._known_certain: dict[tuple[bytes, tuple[int, ...]], tuple[Ids, int]] = {}

    def ids(self, text: bytes) -> Ids | None:
        """The tokenizer's ids of a text; None where they do not spell it back."""
        try:
            return self._known[text]
        except KeyError:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[text] = self._spelled(text)
            return found

    def certain(self, text: bytes, borders: tuple[int, ...]) -> tuple[Ids, int]:
        """The ids at the front of `text` that every continuation leaves alone, and their bytes. borders: S,
        each as the number of bytes between it and the end of the text, ascending; 0 comes first."""
        if borders[-1] == len(text):
            return (), 0  # a token may begin where the text does: nothing stands before every border
        key = text, borders
        found = self._known_certain.get(key)
        if found is None:
            if len(self._known_certain) >= _KEPT:
                self._known_certain.clear()
            ids = self._common(text, borders)
            found = self._known_certain[key] = ids, sum(len(self._vocabulary.tokens[id]) for id in ids)
        return found

    def _spelled(self, text: bytes) -> Ids | None:
        vocabulary = self._vocabulary
        if not text:
            return ()
        assert vocabulary.encode is not None
        try:
            ids = tuple(vocabulary.encode(text.decode()))
        except UnicodeDecodeError:
            return None
        spelled = b"".join(map(vocabulary.tokens.__getitem__, ids))
        return ids if spelled == text and vocabulary.special.isdisjoint(ids) else None

    def _common(self, text: bytes, borders: Sequence[int]) -> Ids:
        certain: Ids | None = None
        for back in reversed(
            borders
        ):  # what is common to all is in the shortest, which soonest shows that nothing is
            begin = whole = len(text) - back
            while whole and whole < len(text) and 0x80 <= text[whole] < 0xC0:
                whole -= 1  # a border inside a code point: judge by the text before it
            ids = self.ids(text[:whole])
            if ids is None:
                return ()
            if whole != begin:
                ids = ids[:-1]
            if certain is not None:
                same = 0
                while same < min(len(certain), len(ids)) and certain[same] == ids[same]:
                    same += 1
                ids = certain[:same]
            certain = ids
            if not certain:
                return ()
        return certain or ()
