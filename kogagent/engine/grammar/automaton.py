"""A byte automaton with counters and a bounded stack: what it is and how it steps.

Knows symbols and states; no JSON, no tokens.

Symbols are the bytes 0..255, END (any end id), and SPECIAL + i for the special id i.
A configuration is a state and a stack of frames (site, count, frame below); the bottom frame has site 0.
A site is a call: (entry state, return state, least count, most count). One step by a symbol:

    1. move = rows[state][symbol]. Where there is none, a final state whose count has reached the least count
       of its site returns: pop, go on in the return state with the same symbol. Else the symbol is illegal.
    2. move & COUNT: the count of the top frame grows by one. Illegal when the count would exceed the most
       count of its site, or count + need[target] would, for a target with a need.
    3. move & PUSH: the low bits name a site; push a frame with count 0 and go to its entry. Else they are the
       next state.
    4. While the state is RETURN: illegal below the least count of the site, else pop, go to its return state.

Everything is deterministic, one move a symbol, so a device can run the same as a table (tables.py).
builder.py puts automata together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kogagent.spec.scan import END as END
from kogagent.spec.scan import SPECIAL as SPECIAL

COUNT = 1 << 18
PUSH = 1 << 19
TARGET = COUNT - 1
UNBOUNDED = 0xFFFFFFFF

DEAD = 0
FINISHED = 1
RETURN = 2

# Counts below zero stand for a class of counts that no single token can tell apart (see walker.py).
FAR = -1  # past the least count, and further from the most count than one token reaches
LOW = -2  # further below the least count than one token reaches

Row = dict[int, int]
Site = tuple[int, int, int, int]
Frame = tuple[int, int, "Frame | None"]


@dataclass(frozen=True)
class Automaton:
    """The finished table. rows and sites are never changed again."""

    rows: Sequence[Row]
    final: frozenset[int]
    need: Mapping[int, int]
    sites: Sequence[Site]
    start: int
    frames: Frame
    library: str  # names the states that are equal in every automaton of that name
    bodies: frozenset[int]  # of them, those from which a frame is left by RETURN alone

    def step(self, state: int, frame: Frame, symbol: int) -> tuple[int, Frame] | None:
        """The configuration after `symbol`, or None where it is illegal."""
        rows, sites = self.rows, self.sites
        while True:
            move = rows[state].get(symbol)
            if move is not None:
                break
            site, count, below = frame
            if state not in self.final or below is None or (count < sites[site][2] and count != FAR):
                return None
            state, frame = sites[site][1], below
        need = 0 if move & PUSH else self.need.get(move & TARGET, 0)
        if move & COUNT or need:
            site, count, below = frame
            if count >= 0:
                if move & COUNT:
                    count += 1
                    frame = (site, count, below)
                if count + need > sites[site][3]:
                    return None
        if move & PUSH:
            site = move & TARGET
            return sites[site][0], (site, 0, frame)
        state = move & TARGET
        while state == RETURN:
            site, count, below = frame
            if below is None or (count < sites[site][2] and count != FAR):
                return None
            state, frame = sites[site][1], below
        return state, frame

    def read(self, state: int, frame: Frame, text: bytes) -> tuple[int, Frame] | None:
        """The configuration after all of `text`, or None where it is illegal."""
        rows, need, sites = self.rows, self.need, self.sites
        for byte in text:
            move = rows[state].get(byte, PUSH)
            target = move & TARGET
            if (
                move < PUSH and target != RETURN and target not in need
            ):  # most: `step` without its other cases
                if move & COUNT:
                    site, count, below = frame
                    if count >= 0:
                        if count == sites[site][3]:
                            return None
                        frame = site, count + 1, below
                state = target
                continue
            after = self.step(state, frame, byte)
            if after is None:
                return None
            state, frame = after
        return state, frame

    def legal(self, state: int, frame: Frame) -> Iterable[int]:
        """The symbols that are legal here, lazily, in no order."""
        seen: set[int] = set()
        while True:
            row = self.rows[state]
            for symbol, move in row.items():
                if symbol in seen:
                    continue
                free = move & PUSH or (move & TARGET != RETURN and move & TARGET not in self.need)
                if (free and not move & COUNT) or self.step(state, frame, symbol) is not None:
                    yield symbol
            if state not in self.final:
                return
            site, count, below = frame
            if below is None or (count < self.sites[site][2] and count != FAR):
                return
            seen.update(row)
            state, frame = self.sites[site][1], below

    def only(self, state: int, frame: Frame) -> int | None:
        """The one symbol that is legal here, or None where there are several or none."""
        row = self.rows[state]
        if len(row) == 1 and state not in self.final:
            (symbol,) = row
            return None if self.step(state, frame, symbol) is None else symbol
        only = None
        for symbol in self.legal(state, frame):
            if only is not None:
                return None
            only = symbol
        return only

    def ways(self, state: int) -> tuple[tuple[int, int], ...]:
        """(symbol, move) of a state's row: of all bytes with the same move one, END and each special id."""
        found = self._ways.get(state)
        if found is None:
            found = self._ways[state] = _distinct(self.rows[state].items())
        return found

    def branches(self, state: int, frame: Frame) -> list[tuple[int, tuple[int, Frame]]]:
        """Where one symbol leads from here: for each of the `ways` that is legal its symbol and the
        configuration behind it."""
        out: list[tuple[int, tuple[int, Frame]]] = []
        ways, taken = self.ways(state), set[int]()
        at, frames = state, frame
        while True:
            for symbol, _ in ways:
                after = self.step(state, frame, symbol)
                if after is not None:
                    out.append((symbol, after))
            if at not in self.final:
                return out
            site, count, below = frames
            if below is None or (count < self.sites[site][2] and count != FAR):
                return out
            taken.update(self.rows[at])
            at, frames = self.sites[site][1], below
            ways = _distinct((s, move) for s, move in self.rows[at].items() if s not in taken)

    def returned(self, frame: Frame) -> tuple[int, Frame] | None:
        """The configuration after the call of `frame` has returned, its own count taken as enough."""
        site, _, below = frame
        if below is None:
            return None
        state, frame = self.sites[site][1], below
        while state == RETURN:
            site, count, below = frame
            if below is None or (count < self.sites[site][2] and count != FAR):
                return None
            state, frame = self.sites[site][1], below
        return state, frame

    @property
    def stuck(self) -> bool:
        """Whether the start, or what its frames come back to, leads nowhere."""
        frame: Frame | None = self.frames
        waiting = [self.start]
        while frame is not None and frame[2] is not None:
            waiting.append(self.sites[frame[0]][1])
            frame = frame[2]
        return not all(self.rows[state] or state in (FINISHED, RETURN) for state in waiting)

    @cached_property
    def _ways(self) -> dict[int, tuple[tuple[int, int], ...]]:
        return {}

    @cached_property
    def max_need(self) -> int:
        return max(self.need.values(), default=0)

    @cached_property
    def depth(self) -> int:
        """Frames a configuration can have: what a device's stack must hold."""
        rows, sites = self.rows, self.sites
        inside: dict[int, int] = {}

        def deepest(entry: int) -> int:
            if entry in inside:
                return inside[entry]
            seen, queue, most = {entry, DEAD, FINISHED, RETURN}, [entry], 0
            while queue:
                row = rows[queue.pop()]
                for move in row.values() if len(row) < 2 else set(row.values()):
                    target = move & TARGET
                    if move & PUSH:
                        callee, target = sites[target][:2]
                        most = max(most, 1 + deepest(callee))
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
            inside[entry] = most
            return most

        frame: Frame | None = self.frames
        state, most, base = self.start, 0, 0
        while frame is not None:
            base += 1
            frame = frame[2]
        frame = self.frames
        while frame is not None:
            most = max(most, base + deepest(state))
            state, base, frame = self.sites[frame[0]][1], base - 1, frame[2]
        return most


def _distinct(moves: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Of the bytes with the same move the first, and all other symbols, in order."""
    first: dict[int, tuple[int, int]] = {}
    for symbol, move in sorted(moves):
        first.setdefault(move if symbol < END else ~symbol, (symbol, move))
    return tuple(first.values())
