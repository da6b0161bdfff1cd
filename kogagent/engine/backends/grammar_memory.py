"""Grammars in the memory of every device that walks them, and in pinned memory that all of them read.

Knows where arrays lie; what is in them is device_grammar.py's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch

from kogagent.engine.backend import TokenMatcher
from kogagent.engine.backends.device_grammar import Blob, Bytes, DeviceGrammar, plain, vocabulary_blob
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.errors import SchemaError
from kogagent.kernels.monokernel import GrammarPlace

_KEPT_GRAMMARS = 32
_KEPT_VOCABULARIES = 4


class GrammarMemory:
    """A grammar's arrays on the device, brought up to date before each segment; what is learned meanwhile the
    kernel reads from the host's."""

    def __init__(self, grammar: DeviceGrammar, tokens: Blob, vocabulary: list[torch.Tensor]) -> None:
        self.grammar = grammar
        self._tokens, self._vocabulary = tokens, vocabulary
        self._fixed = self._on_devices(grammar.fixed)
        self._learned: list[torch.Tensor] = []
        self._runs, self._version = 0, -1

    def _on_devices(self, blob: Blob) -> list[torch.Tensor]:
        return [torch.from_numpy(blob.bytes.copy()).to(each.device) for each in self._vocabulary]

    def place(self, matcher: Matcher) -> GrammarPlace:
        """Where a matcher without a pending run stands. No kernel may be running."""
        grammar = self.grammar
        grammar.make_room()
        if grammar.version != self._version:
            self._learned = self._on_devices(grammar.learned)
            self._runs, self._version = grammar.runs, grammar.version
        records = [
            grammar.record(
                fixed.data_ptr(), learned.data_ptr(), vocabulary.data_ptr(), self._tokens, runs=self._runs
            )
            for fixed, learned, vocabulary in zip(self._fixed, self._learned, self._vocabulary, strict=True)
        ]
        return GrammarPlace(np.concatenate(records), grammar.start(matcher))


class Grammars:
    """The grammars that devices hold, the most recent ones of each vocabulary."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices
        self._vocabularies: OrderedDict[str, tuple[Blob, list[torch.Tensor]] | None] = OrderedDict()
        self._known: OrderedDict[str, GrammarMemory | None] = OrderedDict()

    def find(self, matcher: TokenMatcher | None) -> GrammarMemory | None:
        """The memory of a matcher's grammar; None where the host must do the matching."""
        if not isinstance(matcher, Matcher):
            return None
        grammar = matcher.grammar
        if grammar.digest not in self._known:
            self._known[grammar.digest] = self._make(grammar)
            while len(self._known) > _KEPT_GRAMMARS:
                self._known.popitem(last=False)
        self._known.move_to_end(grammar.digest)
        return self._known[grammar.digest]

    def _make(self, grammar: Grammar) -> GrammarMemory | None:
        vocabulary = grammar.trie.vocabulary
        if vocabulary.digest not in self._vocabularies:
            blob = vocabulary_blob(vocabulary)
            self._vocabularies[vocabulary.digest] = None
            if blob is not None:
                copies = [torch.from_numpy(blob.bytes).to(device) for device in self._devices]
                self._vocabularies[vocabulary.digest] = (blob, copies)
            while len(self._vocabularies) > _KEPT_VOCABULARIES:
                self._vocabularies.popitem(last=False)
        found = self._vocabularies[vocabulary.digest]
        if found is None:
            return None
        try:
            allocate = _pinned if self._devices[0].type == "cuda" else plain
            return GrammarMemory(DeviceGrammar(grammar, allocate), *found)
        except SchemaError:
            return None


def _pinned(size: int) -> Bytes:
    """Zeroed memory that the device reads too."""
    return torch.zeros(size, dtype=torch.uint8, pin_memory=True).numpy()
