"""A compiled grammar and a walk through it: masks, forced runs, advance, fork. Knows ids, bytes; no schema.

A forced run is the part of the text that admits no choice, in the ids a tokenizer would write (spelling.py
says which of them are certain). While one is pending it is the only legal continuation, so the text is the
same whether a caller takes runs or samples.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from kogagent.engine.grammar.automaton import END, FINISHED, SPECIAL, Automaton, Frame
from kogagent.engine.grammar.bodies import Mask
from kogagent.engine.grammar.forced import LONGEST, Config
from kogagent.engine.grammar.trie import TokenTrie
from kogagent.engine.grammar.walker import Walker
from kogagent.errors import ModelError

_KEPT = 2048  # masks and runs kept for one grammar


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
                entry.mask = self.walker.mask(state, frame)
        return entry.mask

    # ── computed once for each class of configurations; frames in normal form ──
    def run(self, state: int, frame: Frame) -> tuple[int, ...]:
        """The forced run that starts here."""
        if self.trie.vocabulary.encode is None:
            return self._single(state, frame)
        out: tuple[int, ...] = ()
        length = 0
        spelling = self.trie.spelling
        while length < LONGEST:
            text, state, frame, symbol, borders = self.walker.forced(state, frame)
            if symbol is None:
                return (*out, *spelling.certain(text, borders)) if text else out
            ids = spelling.ids(text)
            if ids is None:
                break
            out = (*out, *ids, self.trie.end_ids[0] if symbol == END else symbol - SPECIAL)
            if symbol == END:
                break
            after = self.automaton.step(state, frame, symbol)
            assert after is not None
            state, frame = after
            length += len(text) + 1
        return out

    def _single(self, state: int, frame: Frame) -> tuple[int, ...]:
        """Without a tokenizer: the one id that is legal here."""
        symbol = self.automaton.only(state, frame)
        if symbol is None:
            return ()
        if symbol == END:
            return (self.trie.end_ids[0],)
        if symbol > END:
            return (symbol - SPECIAL,)
        mask = self.walker.mask(state, frame)
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
