"""A compiled grammar and a walk through it: masks, forced runs, advance, fork. Knows ids, bytes; no schema.

A forced run is the part of the text that admits no choice, in the ids a tokenizer would write. While one is
pending it is the only legal continuation, so the text is the same whether a caller takes runs or samples.

Canonical borders: let F be the forced bytes. Whatever follows, the tokenizer puts a border at some s in S:
the places where a token that reaches legally past F may start, or the end of F. What stands before a border
is tokenized independently of what follows. So the ids common to the tokenizations of F[:s], for all s, are
certain, and only those are forced.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import END, FINISHED, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.trie import TokenTrie
from kogagent.engine.grammar.walker import Config, Walker
from kogagent.errors import ModelError

_KEPT = 2048  # masks and runs kept for one grammar
_LONGEST = 4096  # symbols of one forced run

Mask = npt.NDArray[np.uint32]
_Chain = tuple[bytes, int, Frame, int | None]


@dataclass(slots=True)
class _Entry:
    """What is known of one class of configurations."""

    run: tuple[int, ...] | None = None
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """A TokenGrammar: immutable, shared between sequences.

    notes: the default bounds that bite, one sentence each. automaton: the table behind it.
    """

    digest: str
    notes: tuple[str, ...]
    automaton: Automaton
    trie: TokenTrie = field(repr=False)
    walker: Walker = field(repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _known: OrderedDict[Config, _Entry] = field(default_factory=OrderedDict, repr=False, compare=False)
    _chains: dict[Config, _Chain] = field(default_factory=dict, repr=False, compare=False)
    _known_borders: dict[Config, tuple[bytes, list[int]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def start(self) -> Matcher:
        return Matcher(self, self.automaton.start, self.automaton.frames, ())

    def entry(self, state: int, frame: Frame) -> _Entry:
        """What is known of one class of configurations; frame in normal form. Shared by all walks."""
        key = (state, frame)
        found = self._known.get(key)
        if found is None:
            with self._lock:
                found = self._known.setdefault(key, _Entry())
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return found

    def known_run(self, entry: _Entry, state: int, frame: Frame) -> tuple[int, ...]:
        if entry.run is None:
            with self._lock:
                entry.run = self.run(state, frame)
        return entry.run

    def known_mask(self, entry: _Entry, state: int, frame: Frame) -> Mask:
        if entry.mask is None:
            with self._lock:
                entry.mask = self.byte_mask(state, frame)
        return entry.mask

    # ── computed once for each class of configurations; frames in normal form ──
    def byte_mask(self, state: int, frame: Frame) -> Mask:
        """Every id whose bytes are legal here, forced or not."""
        flags = self.walker.legal_ids(state, frame)
        for symbol in self.automaton.legal(state, frame):
            if symbol == END:
                flags[list(self.trie.end_ids)] = True
            elif symbol > END:
                flags[symbol - SPECIAL] = True
        mask = np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32, copy=False)
        mask.setflags(write=False)
        return mask

    def run(self, state: int, frame: Frame) -> tuple[int, ...]:
        """The forced run that starts here."""
        if self.trie.vocabulary.encode is None:
            return self._single(state, frame)
        out: list[int] = []
        length = 0
        while length < _LONGEST:
            text, state, frame, symbol = self.chain(state, frame)
            if symbol is None:
                out += self._certain(text, state, frame) if text else ()
                break
            ids = self._tokens(text)
            if ids is None:
                break
            out += ids
            out.append(self.trie.end_ids[0] if symbol == END else symbol - SPECIAL)
            if symbol == END:
                break
            after = self.automaton.step(state, frame, symbol)
            assert after is not None
            state, frame = after
            length += len(text) + 1
        return tuple(out)

    def chain(self, state: int, frame: Frame) -> _Chain:
        """The bytes that are forced from here, where they lead, and the id's symbol that is forced there or
        None. Chains that begin inside one another share their end."""
        chains, step = self._chains, self.automaton.step
        text = bytearray()
        passed: list[Config] = []
        while len(text) < _LONGEST:
            known = chains.get((state, frame))
            if known is not None:
                break
            symbol = self.automaton.only(state, frame)
            if symbol is None or symbol >= END:
                known = b"", state, frame, symbol
                break
            passed.append((state, frame))
            text.append(symbol)
            after = step(state, frame, symbol)
            if after is None or (after[1][1] < 0 and after == (state, frame)):
                known = b"", state, frame, None
                break
            state, frame = after
        rest, state, frame, symbol = (b"", state, frame, None) if known is None else known
        whole = bytes(text) + rest
        if len(chains) > _KEPT:
            chains.clear()
        for i, config in enumerate(passed):
            chains[config] = whole[i:], state, frame, symbol
        return whole, state, frame, symbol

    def _tokens(self, text: bytes) -> list[int] | None:
        """The tokenizer's ids of a text; None where they do not spell it back."""
        encode = self.trie.vocabulary.encode
        assert encode is not None
        if not text:
            return []
        try:
            ids = list(encode(text.decode()))
        except UnicodeDecodeError:
            return None
        vocabulary = self.trie.vocabulary
        closed = vocabulary.special
        if any(i in closed for i in ids) or b"".join(vocabulary.tokens[i] for i in ids) != text:
            return None
        return ids

    def _certain(self, text: bytes, state: int, frame: Frame) -> list[int]:
        """The ids at the front of `text` that every continuation from this configuration leaves alone."""
        certain: list[int] | None = None
        for begin in self._borders(text, state, frame):
            whole = begin
            while whole and whole < len(text) and 0x80 <= text[whole] < 0xC0:
                whole -= 1  # a border inside a code point: judge by the text before it
            ids = self._tokens(text[:whole])
            if ids is None:
                return []
            if whole != begin and ids:
                ids.pop()
            if certain is None:
                certain = ids
            else:
                same = 0
                while same < min(len(certain), len(ids)) and certain[same] == ids[same]:
                    same += 1
                certain = certain[:same]
            if not certain:
                return []
        return certain or []

    def _borders(self, text: bytes, state: int, frame: Frame) -> list[int]:
        """The places in `text` where a token may begin that goes on legally behind it, and its end; from the
        end on. What is found for one text serves those that end alike."""
        reach, size = self.trie.reach, len(text)
        tail = text[-(reach - 1) :] if reach > 1 else b""
        known, backs = self._known_borders.get((state, frame), (b"", [0]))
        if not tail.endswith(known):
            if known.endswith(tail):
                return [size - back for back in backs if back <= size]
            known, backs = b"", [0]
        for back in range(len(known) + 1, len(tail) + 1):
            node = self.trie.find(text[size - back :])
            if node >= 0 and self.walker.can_continue(node, state, frame):
                backs = [*backs, back]
        if len(self._known_borders) > _KEPT:
            self._known_borders.clear()
        self._known_borders[state, frame] = tail, backs
        return [size - back for back in backs]

    def _single(self, state: int, frame: Frame) -> tuple[int, ...]:
        """Without a tokenizer: the one id that is legal here."""
        symbol = self.automaton.only(state, frame)
        if symbol is None:
            return ()
        if symbol == END:
            return (self.trie.end_ids[0],)
        if symbol > END:
            return (symbol - SPECIAL,)
        mask = self.byte_mask(state, frame)
        words = np.flatnonzero(mask)
        if len(words) != 1:
            return ()
        word = int(mask[words[0]])
        return (int(words[0]) * 32 + word.bit_length() - 1,) if word & (word - 1) == 0 else ()


class Matcher:
    """A TokenMatcher: one walk through a grammar, not shared between sequences."""

    __slots__ = ("_entry", "_frame", "_run", "_state", "grammar")

    def __init__(self, grammar: Grammar, state: int, frame: Frame, run: tuple[int, ...]) -> None:
        self.grammar = grammar
        self._state = state
        self._frame = frame
        self._run = run
        self._entry: _Entry | None = None

    def _known(self) -> _Entry:
        if self._entry is None:
            self._entry = self.grammar.entry(self._state, self.grammar.walker.normal(self._frame))
        return self._entry

    def forced(self) -> tuple[int, ...]:
        """The pending run; empty where there is a choice."""
        if not self._run and self._state != FINISHED:
            entry = self._known()
            if entry.run is None:
                frame = self.grammar.walker.normal(self._frame)
                self._run = self.grammar.known_run(entry, self._state, frame)
            else:
                self._run = entry.run
        return self._run

    def mask(self) -> Mask:
        """Legal next ids [words]; read-only, shared."""
        run = self.forced()
        if run:
            mask = np.zeros(self.grammar.trie.words, np.uint32)
            mask[run[0] // 32] = np.uint32(1 << (run[0] % 32))
            return mask
        if self._state == FINISHED:
            return np.zeros(self.grammar.trie.words, np.uint32)
        entry = self._known()
        if entry.mask is not None:
            return entry.mask
        return self.grammar.known_mask(entry, self._state, self.grammar.walker.normal(self._frame))

    def advance(self, token: int) -> None:
        """Take one id. Raises ModelError, and stays where it is, if it is not legal here."""
        run = self.forced()
        if run and token != run[0]:
            raise ModelError(f"token {token} is not legal here: the grammar leaves only {run[0]}")
        vocabulary = self.grammar.trie.vocabulary
        step = self.grammar.automaton.step
        here: tuple[int, Frame] | None = (self._state, self._frame)
        if not 0 <= token < len(vocabulary):
            here = None
        elif token in vocabulary.end_ids:
            here = step(self._state, self._frame, END)
        elif token in vocabulary.special:
            here = step(self._state, self._frame, SPECIAL + token)
        else:
            text = vocabulary.tokens[token]
            if not text:
                here = None
            for byte in text:
                if here is None:
                    break
                here = step(here[0], here[1], byte)
        if here is None:
            raise ModelError(f"token {token} is not legal here; the grammar's mask was not applied")
        self._state, self._frame = here
        self._run = run[1:]
        self._entry = None

    @property
    def finished(self) -> bool:
        return self._state == FINISHED

    @property
    def place(self) -> tuple[int, Frame, tuple[int, ...]]:
        """State, frames and the rest of a run that has begun."""
        return self._state, self._frame, self._run

    def go_to(self, state: int, frame: Frame, run: tuple[int, ...]) -> None:
        """Stand where another walk through this grammar stands; the arguments are its `place`."""
        self._state, self._frame, self._run, self._entry = state, frame, run, None

    def fork(self) -> Matcher:
        return Matcher(self.grammar, self._state, self._frame, self._run)
