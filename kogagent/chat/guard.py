"""Keeps names of special tokens in messages from becoming special tokens. Knows no template and no ids.

A template mixes its own markup with texts of users, tools and models, and only the finished text is encoded.
So each text is made harmless before it goes in: wherever a name stands in it, or an end of it could grow into
one together with what the template puts beside it, a mark is set inside the name. A name in the finished
text that holds no mark is the template's own. Marks are taken out of the plain text before it is encoded.

An ordinary text holds no such name and passes through unchanged, so templates may trim it, measure it and
search it. Limits: a template that looks for a special token's name in a message will not find it, and one
that deletes characters inside a message could join what the mark parted; none is known to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kogagent.errors import ConfigError
from kogagent.tokenizer.names import Names
from kogagent.tokenizer.tokenizer import check_text

# A noncharacter, never in text meant to be read; where it is there all the same it is escaped.
_ESCAPE = "\ufdd0"
_MARK, _ITSELF = _ESCAPE + "1", _ESCAPE + "0"
_BACK = re.compile(f"{_ESCAPE}[01]")


class Guard:
    """Marks and unmarks texts for one set of names. ConfigError for a name too short to be marked."""

    def __init__(self, names: Names) -> None:
        if names.single:
            raise ConfigError(
                f"the special token {names.single[0]!r} is one character, which any message may hold: "
                "messages cannot be kept apart from it. Stream from plain strings instead."
            )
        self._names = names

    def text(self, text: str) -> str:
        """The text with marks where it needs them. Raises InputError for invalid Unicode."""
        check_text(text)
        places = self._names.breaks(text)
        if not places and _ESCAPE not in text:
            return text
        cuts = [0, *places, len(text)]
        pieces = [text[a:b].replace(_ESCAPE, _ITSELF) for a, b in pairwise(cuts)]
        return _MARK.join(pieces)

    def value(self, value: Any) -> Any:
        """A JSON value with every string in it guarded, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(inner) for inner in value]
        return value

    def split(self, rendered: str) -> list[str]:
        """Plain text and the template's own special names in turn, marks taken out of the plain text."""
        pieces = self._names.split(rendered)
        if _ESCAPE in rendered:
            pieces[::2] = [unmarked(piece) for piece in pieces[::2]]
        return pieces


def unmarked(text: str) -> str:
    """The text as it was before it was guarded."""
    return _BACK.sub(lambda found: "" if found[0] == _MARK else _ESCAPE, text)


def text_of(pieces: Sequence[str]) -> str:
    """The text that pieces stand for."""
    return "".join(pieces)
