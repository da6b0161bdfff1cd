"""What a walk through a grammar can come to next, found before it does. Knows configurations; no device.

A configuration in normal form stands for its class (walker.py). `Ahead` goes through those that may follow,
nearest first, so that what is asked of a grammar soon can be found while there is time.

It goes by bytes, not by tokens: where every byte is a token both come to the same choices, and a state has
few ways to go on where a vocabulary has thousands. Only inside a text that is forced do tokens matter: at
which of its bytes may one end? A token that comes from a choice may have begun anywhere before, so all places
count up to which some token ends with the bytes since that choice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from kogagent.engine.grammar.automaton import (
    END,
    FAR,
    FINISHED,
    LOW,
    PUSH,
    RETURN,
    TARGET,
    Frame,
)
from kogagent.engine.grammar.compiled import CompiledAhead
from kogagent.engine.grammar.forced import Config
from kogagent.engine.grammar.matcher import Grammar

_MOST = 4096
"""Classes that are looked at from one grammar: those of a call are some dozens."""
_LONGEST = 24
"""Bytes of a forced text up to which the end of a token that began before it is looked for."""
_CROSSED = 8
"""Bytes of a forced text up to which a token is taken to reach across it, whether or not one does."""
_BYTE, _RUN = 1, 3
"""How far a class is from another: a byte of a choice, a forced run. A token is about three bytes."""


class _Class:
    """A configuration and what lies behind it: (class, how far), None before it has been looked at. alone:
    whether no token reaches across it."""

    __slots__ = ("alone", "behind", "config", "turn")

    def __init__(self, config: Config, alone: bool) -> None:
        self.config, self.alone = config, alone
        self.behind: list[tuple[_Class, int]] | None = None
        self.turn = 0


def look_ahead(grammar: Grammar, meet: Callable[[int, Frame], Config | None]) -> Ahead | CompiledAhead:
    """`Ahead`, or the compiled program that goes the same way, where it is there."""
    walker = grammar.walker.compiled
    return Ahead(grammar, meet) if walker is None else CompiledAhead(walker, grammar.automaton, meet)


class Ahead:
    """Goes through the classes behind a grammar's start, or behind where `turn_to` says.

    meet: takes a class where exactly one symbol is legal and gives the class behind the ids that are forced,
    or None where the text has ended or that class is not certain.
    """

    def __init__(self, grammar: Grammar, meet: Callable[[int, Frame], Config | None]) -> None:
        self._grammar, self._meet = grammar, meet
        self._classes: dict[Config, _Class] = {}
        self._open: dict[_Class, None] = {}  # those that have not been looked at
        self._near: list[tuple[int, int, _Class]] = []  # behind the last turn: distance, arrival
        self._ends: dict[bytes, list[int]] = {}
        self._lasts: dict[int, tuple[int, ...]] = {}
        self._arrival = count()
        self._turn = self._looked = 0
        self.turn_to(grammar.automaton.start, grammar.automaton.frames)

    def turn_to(self, state: int, frame: Frame) -> None:
        """Look next at what lies behind this configuration, at which a token has ended."""
        if state != FINISHED and self._looked < _MOST:
            self._turn += 1
            self._near.clear()
            self._push(self._class((state, self._grammar.walker.normal(frame)), alone=True), 0)

    def step(self) -> bool:
        """Look at one more class; False where none is left."""
        near, opened = self._near, self._open
        while opened:
            if near:
                distance, _, here = heapq.heappop(near)
            else:
                distance, here = 0, next(iter(opened))  # nothing that can still be reached, for another walk
                here.turn = self._turn
            behind = here.behind
            if behind is not None:
                for after, further in behind:
                    self._push(after, distance + further)
                continue
            del opened[here]
            behind = self._look(*here.config, here.alone)
            if here not in opened:  # else it lies behind itself, and there is more to look at than was seen
                here.behind = behind
            for after, further in behind:
                self._push(after, distance + further)
            self._looked += 1
            if self._looked >= _MOST:
                opened.clear()
            return True
        return False

    def _push(self, here: _Class, distance: int) -> None:
        if here.turn < self._turn:
            here.turn = self._turn
            heapq.heappush(self._near, (distance, next(self._arrival), here))

    def _class(self, config: Config, *, alone: bool) -> _Class:
        found = self._classes.get(config)
        if found is None:
            found = self._classes[config] = _Class(config, alone)
            self._open[found] = None
        elif found.alone and not alone:  # more may lie behind it than was seen
            found.alone, found.behind, found.turn = False, None, 0
            self._open[found] = None
        return found

    def _look(self, state: int, frame: Frame, alone: bool) -> list[tuple[_Class, int]]:
        automaton = self._grammar.automaton
        out: dict[_Class, int] = {}
        if automaton.only(state, frame) is not None:
            after = self._meet(state, frame)
            if after is None:
                return []
            if after != (state, frame):
                return [(self._class(after, alone=True), _RUN)]
            # Else no id is certain: the text is, but not where its ids end.
            self._inside(out, b"", (state, frame), alone=True)
        elif state in automaton.bodies and frame[2] is not None:
            left = None if frame[1] == LOW else automaton.returned(frame)
            if left is not None:
                for last in self._last_bytes(state):
                    self._inside(out, bytes((last,)), self._normal(left), alone=False)
        else:
            for symbol, after in automaton.branches(state, frame):
                if symbol < END:
                    self._inside(out, bytes((symbol,)), self._normal(after), alone)
                elif after[0] != FINISHED:
                    out.setdefault(self._class(self._normal(after), alone=True), _RUN)
        # What a count that grows one by one comes to: enough, and no room left.
        site, counted, below = frame
        _, _, least, most = automaton.sites[site]
        if below is not None and counted != FAR:
            bound = least if counted == LOW or counted < least else most
            if counted < bound:
                config = self._normal((state, (site, bound, below)))
                out.setdefault(self._class(config, alone=False), _RUN)
        return list(out.items())

    def _normal(self, config: Config) -> Config:
        return config[0], self._grammar.walker.normal(config[1])

    def _inside(self, out: dict[_Class, int], head: bytes, config: Config, alone: bool) -> None:
        """Add where tokens may end from a configuration on until the next choice. head: the byte of a choice
        that led there, or nothing."""
        grammar = self._grammar
        only = grammar.automaton.only(*config)
        if head:
            out.setdefault(self._class(config, alone=only is not None), _BYTE)
        if only is None or only >= END:
            return
        found = grammar.walker.forced(*config)
        assert found is not None, "what is forced is not"
        text = found.text
        step, at, passed = grammar.automaton.step, config, 0
        for size in self._token_ends(head, text[:_LONGEST], alone):
            if size == len(text):
                end = grammar.walker.after(*config, size)
                out.setdefault(self._class(self._normal(end), alone=False), _BYTE)
                return
            for byte in text[passed:size]:
                after = step(*at, byte)
                assert after is not None, "a forced byte is illegal"
                at = self._normal(after)
            passed = size
            out.setdefault(self._class(self._normal(at), alone=True), _BYTE)

    def _token_ends(self, head: bytes, text: bytes, alone: bool) -> list[int]:
        """At which places of a text, but its beginning, a token may end that begins with `head` or, unless
        alone, before it; the end of the text also where one may go on behind it."""
        trie, whole = self._grammar.trie, head + text
        if not alone:
            found = self._ends.get(whole)
            if found is None:
                found = [size for size in range(1, len(text) + 1) if trie.ends(whole[: len(head) + size])]
                if len(text) < _CROSSED and text and (not found or found[-1] < len(text)):
                    found.append(len(text))
                self._ends[whole] = found
            return found
        out: list[int] = []
        node = trie.find(head)
        for size, byte in enumerate(text, 1):
            node = trie.child(node, byte) if node >= 0 else -1
            if node < 0:
                return out
            if trie.token_list[node] >= 0 or size == len(text):
                out.append(size)
        return out

    def _last_bytes(self, state: int) -> tuple[int, ...]:
        """The bytes by which a body is left that has come to this state."""
        found = self._lasts.get(state)
        if found is None:
            seen, queue, last = {state}, [state], dict[int, None]()
            for at in queue:
                for symbol, move in self._grammar.automaton.ways(at):
                    if move & PUSH or symbol >= END:
                        continue
                    target = move & TARGET
                    if target == RETURN:
                        last[symbol] = None
                    elif target not in seen:
                        seen.add(target)
                        queue.append(target)
            found = self._lasts[state] = tuple(last)
        return found
