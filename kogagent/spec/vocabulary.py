"""A tokenizer as grammars and samplers see it. Knows bytes and ids."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kogagent.errors import ConfigError


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizer as a grammar and a sampler see it: the bytes of every id.

    tokens[i] is exactly what id i adds to the text; a special id has the bytes of its name there, but those
    bytes are never text a grammar may spell with it: special ids match only where a grammar names them.
    Ids at or above len(tokens) exist in some models' logits and are never legal.
    end_ids end a turn.
    encode: the tokenizer's own text -> ids for text that continues a text: special names stay text, nothing
    is put in front. A grammar needs it to know which ids a forced text is made of; without it, ids are forced
    only where no other id is legal.
    """

    tokens: tuple[bytes, ...]
    special: frozenset[int]
    end_ids: tuple[int, ...]
    encode: Callable[[str], Sequence[int]] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        bad = [i for i in (*self.special, *self.end_ids) if not 0 <= i < len(self.tokens)]
        if bad:
            raise ConfigError(
                f"special or end ids {sorted(bad)} lie outside the vocabulary of {len(self.tokens)} tokens"
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def digest(self) -> str:
        """Names this vocabulary in caches: equal for equal tokens, special ids and end ids."""
        hashed = hashlib.sha256(repr((sorted(self.special), self.end_ids)).encode())
        hashed.update(b"".join(len(token).to_bytes(4, "little") + token for token in self.tokens))
        return hashed.hexdigest()

    @cached_property
    def line_ends(self) -> frozenset[int]:
        """Ordinary ids with the end of a line in them."""
        return frozenset(i for i, text in enumerate(self.tokens) if b"\n" in text) - self.special

    def named(self, digest: str) -> Vocabulary:
        """The same, whose digest is known."""
        self.__dict__["digest"] = digest
        return self

    def decode(self, ids: Sequence[int]) -> bytes:
        """The bytes of ordinary ids; special ids add nothing."""
        return b"".join(self.tokens[i] for i in ids if i not in self.special)
