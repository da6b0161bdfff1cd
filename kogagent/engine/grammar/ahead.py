"""What a walk through a grammar can come to next, found before it does. Knows configurations; no device.

A configuration in normal form stands for its class (walker.py). From one where there is a choice the single
ids lead to others; from one where something is forced its run does. `Ahead` goes through them nearest first,
so that what is asked of a grammar soon can be found while there is time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count, islice

from kogagent.engine.grammar.automaton import END, FAR, FINISHED, LOW, Frame
from kogagent.engine.grammar.matcher import Grammar
from kogagent.engine.grammar.walker import Config

_MOST = 4096
"""Classes that are looked at from one grammar: those of a call are some dozens."""


class Ahead:
    """Goes through the classes behind a grammar's start, or behind where `turn_to` says.

    meet: takes a class where exactly one symbol is legal and gives the class behind the ids that are forced,
    or None where the text has ended or that class is not certain.
    """

    def __init__(self, grammar: Grammar, meet: Callable[[int, Frame], Config | None]) -> None:
        self._grammar, self._meet = grammar, meet
        self._behind: dict[Config, list[Config]] = {}  # of the classes that have been looked at
        self._queue: list[tuple[int, int, int, Config]] = []  # latest turn first, then distance, then arrival
        self._queued: dict[Config, int] = {}  # the last turn in which a class was queued
        self._arrival = count()
        self._turn = 0
        self.turn_to(grammar.automaton.start, grammar.automaton.frames)

    def turn_to(self, state: int, frame: Frame) -> None:
        """Look next at what lies behind this configuration."""
        if state != FINISHED:
            self._turn += 1
            self._push((state, self._grammar.walker.normal(frame)), self._turn, 0)

    def step(self) -> bool:
        """Look at one more class; False where none is left."""
        while self._queue:
            turn, distance, _, config = heapq.heappop(self._queue)
            found = self._behind.get(config)
            fresh = found is None
            if found is None:
                if len(self._behind) >= _MOST:
                    self._queue.clear()
                    break
                found = self._behind[config] = self._look(*config)
            for behind in found:
                self._push(behind, -turn, distance + 1)
            if fresh:
                return True
        return False

    def _push(self, config: Config, turn: int, distance: int) -> None:
        if self._queued.get(config, 0) < turn:
            self._queued[config] = turn
            heapq.heappush(self._queue, (-turn, distance, next(self._arrival), config))

    def _look(self, state: int, frame: Frame) -> list[Config]:
        automaton, walker = self._grammar.automaton, self._grammar.walker
        symbols = list(islice(automaton.legal(state, frame), 2))
        if len(symbols) == 1:
            after = self._meet(state, frame)
            if after is None:
                return []
            if after != (state, frame):
                return [after]  # else no id is certain: the text is, but not where its ids end
        found = walker.landings(state, frame)
        for symbol in automaton.legal(state, frame):
            after = automaton.step(state, frame, symbol) if symbol >= END else None
            if after is not None and after[0] != FINISHED:
                found.append((after[0], walker.normal(after[1])))
        # What a count that grows one by one comes to: enough, and no room left.
        site, counted, below = frame
        _, _, least, most = automaton.sites[site]
        if below is not None and counted != FAR:
            bound = least if counted == LOW or counted < least else most
            if counted < bound:
                found.append((state, walker.normal((site, bound, below))))
        return found
