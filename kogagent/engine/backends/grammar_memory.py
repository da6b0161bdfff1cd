"""Grammars in the memory of every device that walks them.

Knows where arrays lie; what is in them is device_grammar.py's.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import TokenGrammar, TokenMatcher
from kogagent.engine.backends.device_grammar import Blob, Bytes, DeviceGrammar, vocabulary_blob
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.errors import SchemaError
from kogagent.kernels.segment import GrammarPlace

_KEPT_GRAMMARS = 32
_KEPT_VOCABULARIES = 4
_SHOWN_EVERY = 4  # steps of looking ahead: a pass of the kernel sees some twenty
_STAGED = 1 << 16
_PREPARED = 400  # classes looked at beforehand: those of a call are some two hundred


class GrammarMemory:
    """A grammar's arrays on the device, brought up to date before each segment and, by `show`, in one.

    The kernel could read what is learned meanwhile where the host writes it, but every block reads a run some
    forty times: over PCIe that was 5 ms a run.
    """

    def __init__(
        self, grammar: DeviceGrammar, tokens: Blob, vocabulary: list[torch.Tensor], copies: Copies
    ) -> None:
        self.grammar = grammar
        self._tokens, self._vocabulary = tokens, vocabulary
        self._fixed = self._on_devices(grammar.fixed)
        self._learned: list[torch.Tensor] = []
        self._records: npt.NDArray[np.void] | None = None  # where all of it is, one a device
        self._version = -1
        self._unseen = 0  # steps since the last `show`
        self._copies = copies

    def _on_devices(self, blob: Blob) -> list[torch.Tensor]:
        return [torch.from_numpy(blob.bytes.copy()).to(each.device) for each in self._vocabulary]

    def place(self, matcher: Matcher) -> GrammarPlace:
        """Where a matcher without a pending run stands. No kernel may be running."""
        grammar = self.grammar
        grammar.make_room()
        self._copies.make_room(len(grammar.learned.bytes))
        if self._records is None or grammar.version != self._version:
            self._learned = self._on_devices(grammar.learned)
            self._version, self._unseen = grammar.version, 0
            self._records = np.concatenate(
                [
                    grammar.record(fixed.data_ptr(), learned.data_ptr(), vocabulary.data_ptr(), self._tokens)
                    for fixed, learned, vocabulary in zip(
                        self._fixed, self._learned, self._vocabulary, strict=True
                    )
                ]
            )
        return GrammarPlace(self._records, grammar.start(matcher))

    def look_ahead(self) -> bool:
        """As `DeviceGrammar.look_ahead`; shown every few steps, and when there is nothing left to look at."""
        went_on = self.grammar.look_ahead()
        self._unseen += 1
        if self._unseen >= _SHOWN_EVERY or not went_on:
            self.show()
        return went_on

    def show(self) -> None:
        """Have what was learned since the last time copied to where the kernel that was launched from `place`
        finds it. Some 20 µs; does not wait, see `shown`."""
        grammar = self.grammar
        self._unseen = 0
        if grammar.version != self._version:
            # The keys lie before the runs they speak of.
            self._copies.begin(grammar.learned.bytes, self._learned, grammar.learned.offsets["runs"])
            self._version = grammar.version

    def shown(self) -> None:
        """As `show`; when it returns, the kernel finds it."""
        self.show()
        self._copies.settle()


class Copies:
    """Copies from the host into memory that a running kernel reads, through one piece of pinned memory: to
    pin some takes half a millisecond, and a driver may hold it back until the card is idle."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._streams = [_stream(device) for device in devices]
        self._pins = devices[0].type == "cuda"
        self._staged = torch.zeros(0, dtype=torch.uint8)
        self._flying = False
        self.make_room(_STAGED)

    def make_room(self, size: int) -> None:
        """For sources of this size. No kernel may be running."""
        self.settle()
        if len(self._staged) < size:
            self._staged = torch.zeros(2 * size, dtype=torch.uint8, pin_memory=self._pins)

    def begin(self, source: Bytes, targets: Sequence[torch.Tensor], last: int) -> None:
        """Copy a source to a target on each device, its first `last` bytes behind the others. The source may
        change at once."""
        self.settle()
        staged = self._staged[: len(source)]
        staged.numpy()[:] = source
        for target, stream in zip(targets, self._streams, strict=True):
            with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                target[last:].copy_(staged[last:], non_blocking=True)
                target[:last].copy_(staged[:last], non_blocking=True)
        self._flying = True

    def settle(self) -> None:
        """Until all copies have ended."""
        if self._flying:
            for stream in self._streams:
                if stream is not None:
                    stream.synchronize()
            self._flying = False


class Grammars:
    """The grammars that devices hold, the most recent ones of each vocabulary."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices
        self._copies = Copies(devices)
        self._vocabularies: OrderedDict[str, tuple[Blob, list[torch.Tensor]] | None] = OrderedDict()
        self._known: OrderedDict[str, GrammarMemory | None] = OrderedDict()
        self._prepared: OrderedDict[str, DeviceGrammar | None] = OrderedDict()  # that wait for their segment
        self._lock = threading.Lock()  # of these

    def find(self, matcher: TokenMatcher | None) -> GrammarMemory | None:
        """The memory of a matcher's grammar; None where the host must do the matching."""
        if not isinstance(matcher, Matcher):
            return None
        grammar = matcher.grammar
        if grammar.digest not in self._known:
            self._copies.settle()  # a grammar that goes takes memory along that may be a copy's target
            self._known[grammar.digest] = self._make(grammar)
            while len(self._known) > _KEPT_GRAMMARS:
                self._known.popitem(last=False)
        self._known.move_to_end(grammar.digest)
        return self._known[grammar.digest]

    def prepare(self, grammar: TokenGrammar) -> None:
        """Make what the host can make of a grammar: its arrays, and the forced runs nearest to its start."""
        if not isinstance(grammar, Grammar) or grammar.digest in self._known:
            return
        with self._lock:
            if grammar.digest in self._prepared:
                return
            made = _made(grammar)
            left = 0 if made is None else _PREPARED
            while made is not None and left and made.look_ahead():
                left -= 1
            self._prepared[grammar.digest] = made
            while len(self._prepared) > _KEPT_GRAMMARS:
                self._prepared.popitem(last=False)

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
        with self._lock:
            known = grammar.digest in self._prepared
            made = self._prepared.pop(grammar.digest, None)
        if not known:
            made = _made(grammar)
        return None if made is None else GrammarMemory(made, *found, self._copies)


def _made(grammar: Grammar) -> DeviceGrammar | None:
    """None where the host must do the matching."""
    try:
        return DeviceGrammar(grammar)
    except SchemaError:
        return None


@functools.cache
def _stream(device: torch.device) -> Any:
    """A stream for copies alone: one of torch's pool may be the kernel's own, which it holds until it ends.

    One a device and never ended: where pinned memory goes, torch asks every stream that it was copied on,
    and that may be after whoever made the stream has gone.
    """
    if device.type != "cuda":
        return None
    from cupy.cuda import Stream

    with torch.cuda.device(device):
        stream = Stream(non_blocking=True)
    external: Any = torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]
    external.owner = stream  # lives as long
    return external
