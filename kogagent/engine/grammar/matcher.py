"""A compiled grammar and a walk through it: masks, forced runs, advance, fork. Knows ids, bytes; no schema.

A forced run is the part of the text that admits no choice, in the ids a tokenizer would write (spelling.py
says which of them are certain). While one is pending it is the only legal continuation, so the text is the
same whether a caller takes runs or samples.
"""

from __future__ import annotations

import threading
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
    """What is known of one class of configurations. after: behind its run, where that is one
    configuration."""

    run: tuple[int, ...] | None = None
    after: Config | None = None
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
    _known: dict[Config, _Entry] = field(default_factory=dict, repr=False, compare=False)

    def start(self) -> Matcher:
        return Matcher(self, self.automaton.start, self.automaton.frames, ())

    def entry(self, state: int, frame: Frame) -> _Entry:
        """What is known of one class of configurations; frame in normal form. Shared by all walks."""
        key, known = (state, frame), self._known
        found = known.get(key)
        if found is None:
            found = known.setdefault(key, _Entry())
            if len(known) > _KEPT:
                with self._lock:
                    known.pop(next(iter(known)), None)
        return found

    def known_run(self, entry: _Entry, state: int, frame: Frame) -> tuple[int, ...]:
        if entry.run is None:
            if self.walker.has_choice(state, frame):
                entry.run = ()
                return ()
            with self._lock:
                run, after = self.run(state, frame)
                entry.after = after if _exact(frame) else None
                entry.run = run  # last: who finds it finds both
        return entry.run

    def known_mask(self, entry: _Entry, state: int, frame: Frame) -> Mask:
        if entry.mask is None:
            with self._lock:
                entry.mask = self.walker.mask(state, frame)
        return entry.mask

    # ── computed once for each class of configurations; frames in normal form ──
    def run(self, state: int, frame: Frame) -> tuple[tuple[int, ...], Config | None]:
        """The forced run that starts here, and the configuration behind it, None where it was not looked
        for."""
        if self.trie.vocabulary.encode is None:
            return self._single(state, frame), None
        run: tuple[int, ...] = ()
        after: Config = state, frame
        length = 0
        while length < LONGEST:
            found = self.walker.forced(*after)
            if found is None:
                break
            text, symbol, borders = found
            if symbol is None:
                certain, spelled = self.trie.spelling.certain(text, borders)
                if certain:
                    after = self.walker.after(*after, spelled)
                return run + certain, after
            ids = self.trie.spelling.ids(text)
            if ids is None:
                break
            run = (*run, *ids, self.trie.end_ids[0] if symbol == END else symbol - SPECIAL)
            state, frame = self.walker.after(*after, len(text))
            there = self.automaton.step(state, frame, symbol)
            assert there is not None
            after = there
            if symbol == END:
                break
            length += len(text) + 1
        return run, after

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

    def step(self, state: int, frame: Frame, token: int) -> Config | None:
        """The configuration behind an id, None where it is not legal here."""
        vocabulary, automaton = self.trie.vocabulary, self.automaton
        if not 0 <= token < len(vocabulary.tokens):
            return None
        if token in vocabulary.end_ids:
            return automaton.step(state, frame, END)
        if token in vocabulary.special:
            return automaton.step(state, frame, SPECIAL + token)
        text = vocabulary.tokens[token]
        return automaton.read(state, frame, text) if text else None


def _exact(frame: Frame | None) -> bool:
    """Whether no count of these frames stands for a class."""
    while frame is not None:
        if frame[1] < 0:
            return False
        frame = frame[2]
    return True


class Matcher:
    """A TokenMatcher: one walk through a grammar, not shared between sequences.

    While a run is taken its ids are only counted: _state and _frame stay before _run, of which _taken ids are
    behind this walk, until it has come to the end or is asked for its place. _entry: what is known here, once
    `forced` has looked.
    """

    __slots__ = ("_after", "_entry", "_frame", "_run", "_state", "_taken", "grammar")

    def __init__(self, grammar: Grammar, state: int, frame: Frame, run: tuple[int, ...]) -> None:
        self.grammar = grammar
        self._state = state
        self._frame = frame
        self._run, self._taken = run, 0
        self._after: Config | None = None
        self._entry: tuple[_Entry, Frame] | None = None

    def _known(self) -> tuple[_Entry, Frame]:
        if self._entry is None:
            frame = self.grammar.walker.normal(self._frame)
            self._entry = self.grammar.entry(self._state, frame), frame
        return self._entry

    def forced(self) -> tuple[int, ...]:
        """The pending run; empty where there is a choice."""
        if self._run:
            return self._run[self._taken :] if self._taken else self._run
        if self._state != FINISHED:
            entry, frame = self._entry or self._known()
            run = entry.run
            if run is None:
                run = self.grammar.known_run(entry, self._state, frame)
            if run:
                # Only of these very frames: in another of their class the counts are other ones.
                self._run, self._after = run, entry.after if frame == self._frame else None
        return self._run

    def mask(self) -> Mask:
        """Legal next ids [words]; read-only, shared."""
        if self._run or self.forced():
            only = self._run[self._taken]
            mask = np.zeros(self.grammar.trie.words, np.uint32)
            mask[only // 32] = np.uint32(1 << (only % 32))
            return mask
        if self._state == FINISHED:
            return np.zeros(self.grammar.trie.words, np.uint32)
        entry, frame = self._known()
        if entry.mask is not None:
            return entry.mask
        return self.grammar.known_mask(entry, self._state, frame)

    def advance(self, token: int) -> None:
        """Take one id. Raises ModelError, and stays where it is, if it is not legal here."""
        if self._run or (self._entry is None and self.forced()):
            only = self._run[self._taken]
            if token != only:
                raise ModelError(f"token {token} is not legal here: the grammar leaves only {only}")
            self._taken += 1
            if self._taken == len(self._run):
                if self._after is None:
                    self._settle()
                else:
                    (self._state, self._frame), self._run, self._taken = self._after, (), 0
                    self._entry = None
            return
        there = self.grammar.step(self._state, self._frame, token)
        if there is None:
            raise ModelError(f"token {token} is not legal here; the grammar's mask was not applied")
        self._state, self._frame = there
        self._entry = None

    def _settle(self) -> None:
        """Stand behind the ids of the run that were taken."""
        for token in self._run[: self._taken]:
            there = self.grammar.step(self._state, self._frame, token)
            assert there is not None, "a forced id is illegal"
            self._state, self._frame = there
            self._entry = None
        self._run, self._taken = self._run[self._taken :], 0

    @property
    def finished(self) -> bool:
        return self._state == FINISHED

    @property
    def place(self) -> tuple[int, Frame, tuple[int, ...]]:
        """State, frames and the rest of a run that has begun."""
        self._settle()
        return self._state, self._frame, self._run

    def go_to(self, state: int, frame: Frame, run: tuple[int, ...]) -> None:
        """Stand where another walk through this grammar stands; the arguments are its `place`."""
        self._state, self._frame, self._entry = state, frame, None
        self._run, self._taken, self._after = run, 0, None

    def fork(self) -> Matcher:
        return Matcher(self.grammar, *self.place)
