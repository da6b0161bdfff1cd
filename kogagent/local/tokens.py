"""From ids to text, one token at a time: UTF-8 that is never split, stop strings that are cut exactly.

Knows a vocabulary; no engine, no messages.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kogagent.engine.backend import Emitted
from kogagent.errors import InputError
from kogagent.spec import Vocabulary
from kogagent.types import Written

_UTF8 = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    text: what it adds to the text, whole code points only: a character spread over several tokens comes with
    its last. bytes: what the id itself stands for. Both are empty for special ids. logprob: under the model's
    own distribution, 0.0 for a forced token. forced: the grammar left no choice.
    """

    id: int
    text: str
    bytes: bytes
    logprob: float
    forced: bool


def stop_strings(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The `stop` argument as a tuple. Raises InputError for what is no non-empty text."""
    if not isinstance(stop, Iterable):
        raise InputError(f"stop={stop!r}: must be a string or a list of strings")
    out = (stop,) if isinstance(stop, str) else tuple(stop)
    for text in out:
        if not isinstance(text, str) or not text:
            raise InputError(f"stop={text!r}: a stop string must be a non-empty string")
    return out


class Writing:
    """Emitted ids as they may be shown, special ones by their names; taken as they come, so that little is
    left to do at the end of a turn. known: what ids that are whole characters are, for all turns of a
    vocabulary; it is filled here."""

    def __init__(self, vocabulary: Vocabulary, known: dict[int, Written]) -> None:
        self._tokens, self._special = vocabulary.tokens, vocabulary.special
        self._known = known
        self._decoder = _UTF8("replace")
        self._split = False  # inside a character
        self._out: list[Written] = []

    def feed(self, emitted: Iterable[Emitted]) -> None:
        known, out = self._known, self._out
        for one in emitted:
            written = None if self._split else known.get(one.id << 1 | one.forced)
            out.append(self._written(one) if written is None else written)

    def _written(self, one: Emitted) -> Written:
        raw, special = self._tokens[one.id], one.id in self._special
        alone = special or (not self._split and raw.isascii())
        if alone:
            text = raw.decode("utf-8", "replace")
        else:
            text = self._decoder.decode(raw)
            self._split = bool(self._decoder.getstate()[0])
        written = Written(text, one.forced, special)
        if alone:
            self._known[one.id << 1 | one.forced] = written
        return written

    def finish(self) -> tuple[Written, ...]:
        """All of it; an incomplete character becomes U+FFFD on the last."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._out[-1] = replace(self._out[-1], text=self._out[-1].text + rest)
        return tuple(self._out)


class TokenText:
    """Turns emitted ids into tokens, holding back those whose text may still change or be cut.

    A token is held while a character is incomplete, or while the end of the text may be the start of a stop
    string. The texts of all tokens concatenate to the decoded text, cut before the first stop string.
    """

    def __init__(self, vocabulary: Vocabulary, stops: tuple[str, ...] = ()) -> None:
        self._vocabulary = vocabulary
        self._stops = stops
        self._decoder = _UTF8("replace")
        self._held: deque[Token] = deque()
        self.found: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether a stop string has been found; `found` is which."""
        return self.found is not None

    def feed(self, id: int, logprob: float, forced: bool) -> list[Token]:
        """Take one id; return the tokens whose text is settled by it. After `stopped`, nothing more comes."""
        if self.stopped:
            return []
        raw = b"" if id in self._vocabulary.special else self._vocabulary.tokens[id]
        self._held.append(Token(id, self._decoder.decode(raw), raw, logprob, forced))
        return self._settled(final=False)

    def finish(self) -> list[Token]:
        """The tokens still held. An incomplete character becomes U+FFFD on the last."""
        if self.stopped or not self._held:
            return []
        rest = self._decoder.decode(b"", final=True)
        if rest:
            last = self._held.pop()
            self._held.append(Token(last.id, last.text + rest, last.bytes, last.logprob, last.forced))
        return self._settled(final=True)

    def _settled(self, final: bool) -> list[Token]:
        text = "".join(token.text for token in self._held)
        found = [(at, stop) for at, stop in ((text.find(stop), stop) for stop in self._stops) if at >= 0]
        if found:
            at, self.found = min(found)
            return self._cut(at)
        safe = len(text) if final else len(text) - self._maybe_stop(text)
        incomplete = not final and bool(self._decoder.getstate()[0])
        out: list[Token] = []
        while len(self._held) > incomplete and len(self._held[0].text) <= safe:
            token = self._held.popleft()
            safe -= len(token.text)
            out.append(token)
        return out

    def _maybe_stop(self, text: str) -> int:
        """Length of the longest end of text that a stop string starts with."""
        most = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(most, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0

    def _cut(self, end: int) -> list[Token]:
        """The held tokens as far as text[:end] goes; the one it ends in is shortened."""
        out: list[Token] = []
        for token in self._held:
            if len(token.text) > end:
                if end:
                    kept = token.text[:end]
                    out.append(Token(token.id, kept, kept.encode(), token.logprob, token.forced))
                break
            out.append(token)
            end -= len(token.text)
        self._held.clear()
        return out
