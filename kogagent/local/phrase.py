"""A short text phase in front of an act: to the end of its line, the trigger of a call, or its budget.

Knows a vocabulary; no session, no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kogagent.engine.backend import Emitted
from kogagent.local.tokens import Token, TokenText
from kogagent.spec import Vocabulary
from kogagent.types import ObserveDelta, PlanDelta


class Phrase:
    """What a model says in one such phase. `kept` ids make up its text, `cut` is text of the next one that
    goes on past the end of the phrase. trigger: "" where none counts inside a text."""

    def __init__(
        self, kind: Callable[[str], ObserveDelta | PlanDelta], vocabulary: Vocabulary, trigger: str
    ) -> None:
        self.kind, self._vocabulary = kind, vocabulary
        self._text = TokenText(vocabulary, ("\n", trigger) if trigger else ("\n",))
        self._said: list[str] = []
        self.taken = 0  # ids looked at
        self.kept = 0
        self.cut = ""
        self.end: int | None = None  # the special id it ended in

    @property
    def text(self) -> str:
        return "".join(self._said)

    @property
    def over(self) -> bool:
        """Whether its end has been seen."""
        return self.end is not None or self._text.stopped

    @property
    def at_call(self) -> bool:
        """Whether it ended where a call begins."""
        return self._text.found not in (None, "\n")

    def feed(self, batch: Iterable[Emitted]) -> list[ObserveDelta | PlanDelta]:
        """Take ids as they come; what they say."""
        out: list[ObserveDelta | PlanDelta] = []
        for emitted in batch:
            self.taken += 1
            if emitted.id in self._vocabulary.special:
                self.end = emitted.id
                break
            out += self._take(self._text.feed(emitted.id, emitted.logprob, emitted.forced))
            if self._text.stopped:
                break
        return out

    def finish(self) -> list[ObserveDelta | PlanDelta]:
        """What is still held back, once no more ids come."""
        return self._take(self._text.finish())

    def _take(self, tokens: Sequence[Token]) -> list[ObserveDelta | PlanDelta]:
        for token in tokens:
            if token.bytes != self._vocabulary.tokens[token.id]:
                self.cut = token.text
            else:
                self.kept += 1
            self._said.append(token.text)
        return [self.kind(token.text) for token in tokens if token.text]
