"""Grammars in the memory of every device that walks them.

Knows where arrays lie; what is in them is device_grammar.py's.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

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
    """A grammar's arrays on the device, brought up to date before each segment and, by `show`, in one.

    The kernel could read what is learned meanwhile where the host writes it, but every block reads a run some
    forty times: over PCIe that was 5 ms a run.
    """

    def __init__(
        self, grammar: DeviceGrammar, tokens: Blob, vocabulary: list[torch.Tensor], streams: Sequence[Any]
    ) -> None:
        self.grammar = grammar
        self._tokens, self._vocabulary = tokens, vocabulary
        self._fixed = self._on_devices(grammar.fixed)
        self._learned: list[torch.Tensor] = []
        self._version = -1
        self._streams = streams

    def _on_devices(self, blob: Blob) -> list[torch.Tensor]:
        return [torch.from_numpy(blob.bytes.copy()).to(each.device) for each in self._vocabulary]

    def place(self, matcher: Matcher) -> GrammarPlace:
        """Where a matcher without a pending run stands. No kernel may be running."""
        grammar = self.grammar
        grammar.make_room()
        if grammar.version != self._version:
            self._learned = self._on_devices(grammar.learned)
            self._version = grammar.version
        records = [
            grammar.record(fixed.data_ptr(), learned.data_ptr(), vocabulary.data_ptr(), self._tokens)
            for fixed, learned, vocabulary in zip(self._fixed, self._learned, self._vocabulary, strict=True)
        ]
        return GrammarPlace(np.concatenate(records), grammar.start(matcher))

    def look_ahead(self) -> bool:
        """As `DeviceGrammar.look_ahead`, and shown."""
        went_on = self.grammar.look_ahead()
        self.show()
        return went_on

    def show(self) -> None:
        """Let the kernel that was launched from `place` find what has been learned since. Some 40 µs; the
        bytes are on every device when it returns."""
        grammar = self.grammar
        if grammar.version == self._version:
            return
        source = torch.from_numpy(grammar.learned.bytes)
        keys = grammar.learned.offsets["runs"]  # the keys lie before it: they go last
        for learned, stream in zip(self._learned, self._streams, strict=True):
            with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                learned[keys:].copy_(source[keys:], non_blocking=True)
                learned[:keys].copy_(source[:keys], non_blocking=True)
        for stream in self._streams:
            if stream is not None:
                stream.synchronize()
        self._version = grammar.version


class Grammars:
    """The grammars that devices hold, the most recent ones of each vocabulary."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices
        self._streams = [_stream(device) for device in devices]
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
            return GrammarMemory(DeviceGrammar(grammar, allocate), *found, self._streams)
        except SchemaError:
            return None


def _stream(device: torch.device) -> Any:
    """A stream that nobody else has: one of torch's pool may be the kernel's own, which it holds until it
    ends."""
    if device.type != "cuda":
        return None
    from cupy.cuda import Stream

    with torch.cuda.device(device):
        stream = Stream(non_blocking=True)
    external: Any = torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]
    external.owner = stream  # lives as long
    return external


def _pinned(size: int) -> Bytes:
    """Zeroed memory that the device reads too."""
    return torch.zeros(size, dtype=torch.uint8, pin_memory=True).numpy()
