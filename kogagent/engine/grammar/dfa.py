"""Finite automata over code points, and what is computed from them. Knows no bytes, no JSON, no tokens.

A `Dfa` is deterministic and starts in state 0. Its rows hold disjoint code-point ranges in ascending order.
`trim` removes every state from which nothing can be accepted, so that a walk along any remaining range can be
completed: the other operations end in it, and give None for the empty language.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from kogagent.spec.scan import matched

Range = tuple[int, int]
Row = tuple[tuple[int, int, int], ...]
"""(first code point, last code point, target state), ascending and disjoint."""

MAX_CODE_POINT = 0x10FFFF
MAX_STATES = 4096


class TooManyStates(Exception):
    """An automaton would exceed MAX_STATES; the caller knows which keyword to name."""


@dataclass(frozen=True)
class Dfa:
    """rows[s] are the moves of state s; accept the states in which a text may end.

    labels: what a text that ends in an accepting state is, where an automaton tells several kinds apart.
    """

    rows: tuple[Row, ...]
    accept: frozenset[int]
    labels: tuple[Hashable, ...] = ()

    def step(self, state: int, code_point: int) -> int | None:
        for first, last, target in self.rows[state]:
            if first <= code_point <= last:
                return target
        return None

    def matches(self, text: str) -> bool:
        state: int | None = 0
        for char in text:
            state = self.step(state, ord(char)) if state is not None else None
        return state is not None and state in self.accept

    @cached_property
    def shortest(self) -> tuple[int, ...]:
        """Code points still needed from each state until a text may end."""
        sources: list[list[int]] = [[] for _ in self.rows]
        for state, row in enumerate(self.rows):
            for _, _, target in row:
                sources[target].append(state)
        distance = [-1] * len(self.rows)
        queue = deque(self.accept)
        for state in self.accept:
            distance[state] = 0
        while queue:
            state = queue.popleft()
            for source in sources[state]:
                if distance[source] < 0:
                    distance[source] = distance[state] + 1
                    queue.append(source)
        return tuple(distance)

    @cached_property
    def longest(self) -> int | None:
        """Code points of the longest text, None when there is no longest. For a trimmed automaton."""
        best: dict[int, int] = {}
        active: set[int] = set()
        stack: list[tuple[int, bool]] = [(0, False)]
        while stack:
            state, done = stack.pop()
            if done:
                active.discard(state)
                best[state] = max((best[t] + 1 for _, _, t in self.rows[state]), default=0)
                continue
            if state in best:
                continue
            if state in active:
                return None
            active.add(state)
            stack.append((state, True))
            for _, _, target in self.rows[state]:
                if target in active:
                    return None
                if target not in best:
                    stack.append((target, False))
        return best[0]


Key = TypeVar("Key", bound=Hashable)


def explore(
    start: Key,
    moves: Callable[[Key], Iterable[tuple[int, int, Key]]],
    accepts: Callable[[Key], Hashable],
    limit: int = MAX_STATES,
) -> Dfa | None:
    """The automaton whose states are the keys reachable from `start`, trimmed.

    accepts: False, or what an accepting key is: True, or a label that is kept apart from others.
    Raises TooManyStates past `limit` states.
    """
    index = {start: 0}
    order = [start]
    rows: list[list[tuple[int, int, int]]] = []
    for key in order:
        row: list[tuple[int, int, int]] = []
        for first, last, target in moves(key):
            number = index.get(target)
            if number is None:
                number = index[target] = len(order)
                if number >= limit:
                    raise TooManyStates
                order.append(target)
            if row and row[-1][2] == number and row[-1][1] + 1 == first:
                row[-1] = (row[-1][0], last, number)
            else:
                row.append((first, last, number))
        rows.append(row)
    found = ((i, accepts(key)) for i, key in enumerate(order))
    return trim(rows, {i: label for i, label in found if label is not False})


def trim(rows: Sequence[Sequence[tuple[int, int, int]]], labels: Mapping[int, Hashable]) -> Dfa | None:
    """Without states that accept nothing; equal states joined. labels: of the accepting states."""
    sources: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, _, target in row:
            sources[target].append(state)
    alive = set(labels)
    queue = list(labels)
    while queue:
        for source in sources[queue.pop()]:
            if source not in alive:
                alive.add(source)
                queue.append(source)
    if 0 not in alive:
        return None
    # Moore's partition refinement, from what the states accept.
    kinds: dict[Hashable, int] = {}
    block = {
        state: kinds.setdefault(("accepts", labels[state]) if state in labels else None, len(kinds))
        for state in sorted(alive)
    }
    count = len(kinds)
    while True:
        signatures: dict[tuple[int, Row], int] = {}
        refined: dict[int, int] = {}
        for state in sorted(alive):
            fresh: list[tuple[int, int, int]] = []
            for first, last, target in rows[state]:
                if target not in alive:
                    continue
                to = block[target]
                if fresh and fresh[-1][2] == to and fresh[-1][1] + 1 == first:
                    fresh[-1] = (fresh[-1][0], last, to)
                else:
                    fresh.append((first, last, to))
            refined[state] = signatures.setdefault((block[state], tuple(fresh)), len(signatures))
        if len(signatures) == count:
            break
        block, count = refined, len(signatures)
    numbered = {refined[0]: 0}
    for state in sorted(alive):
        numbered.setdefault(refined[state], len(numbered))
    joined: list[Row] = [()] * count
    for state in sorted(alive, reverse=True):
        out: list[tuple[int, int, int]] = []
        for first, last, target in rows[state]:
            if target not in alive:
                continue
            to = numbered[refined[target]]
            if out and out[-1][2] == to and out[-1][1] + 1 == first:
                out[-1] = (out[-1][0], last, to)
            else:
                out.append((first, last, to))
        joined[numbered[refined[state]]] = tuple(out)
    named = {numbered[refined[state]]: label for state, label in labels.items()}
    told = tuple(named.get(i) for i in range(count)) if set(named.values()) != {True} else ()
    return Dfa(tuple(joined), frozenset(named), told)


def split(rows: Iterable[tuple[int, int, Key]]) -> list[tuple[int, int, frozenset[Key]]]:
    """Overlapping (first, last, key) as disjoint ascending ranges, each with the set of its keys."""
    moves = list(rows)
    cuts = sorted({first for first, _, _ in moves} | {last + 1 for _, last, _ in moves})
    out: list[tuple[int, int, frozenset[Key]]] = []
    for begin, end in itertools.pairwise(cuts):
        keys = frozenset(key for first, last, key in moves if first <= begin <= last)
        if keys:
            out.append((begin, end - 1, keys))
    return out


def intersect(a: Dfa, b: Dfa) -> Dfa | None:
    """Texts both accept."""

    def moves(pair: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        left, right = a.rows[pair[0]], b.rows[pair[1]]
        out = []
        i = j = 0
        while i < len(left) and j < len(right):
            first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
            if first <= last:
                out.append((first, last, (left[i][2], right[j][2])))
            if left[i][1] < right[j][1]:
                i += 1
            else:
                j += 1
        return out

    return explore((0, 0), moves, lambda pair: pair[0] in a.accept and pair[1] in b.accept)


def union(automata: Sequence[Dfa]) -> Dfa:
    """Texts at least one accepts."""
    start = frozenset((i, 0) for i in range(len(automata)))

    def moves(key: frozenset[tuple[int, int]]) -> list[tuple[int, int, frozenset[tuple[int, int]]]]:
        return split(
            (first, last, (i, target)) for i, state in key for first, last, target in automata[i].rows[state]
        )

    joined = explore(start, moves, lambda key: any(state in automata[i].accept for i, state in key))
    assert joined is not None
    return joined


def at_least(dfa: Dfa, count: int) -> Dfa | None:
    """Its texts of at least `count` code points."""

    def moves(key: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        return [(f, t, (target, min(key[1] + 1, count))) for f, t, target in dfa.rows[key[0]]]

    return explore((0, 0), moves, lambda key: key[0] in dfa.accept and key[1] >= count)


def at_most(dfa: Dfa, count: int) -> Dfa | None:
    """Its texts of at most `count` code points."""

    def moves(key: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        if key[1] >= count:
            return []
        return [(f, t, (target, key[1] + 1)) for f, t, target in dfa.rows[key[0]]]

    return explore((0, 0), moves, lambda key: key[0] in dfa.accept)


_POINTS: tuple[Range, ...] = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
"""Every code point a text can hold."""

ANYTHING = Dfa((tuple((first, last, 0) for first, last in _POINTS),), frozenset({0}))
NOTHING = Dfa(((),), frozenset())


def product(automata: Sequence[Dfa], label: Callable[[tuple[bool, ...]], Hashable]) -> Dfa | None:
    """All texts of which `label` says what they are, given which automata accept them; see `explore`."""

    def moves(key: tuple[int | None, ...]) -> Iterable[tuple[int, int, tuple[int | None, ...]]]:
        parts = [
            (first, last, (i, target))
            for i, state in enumerate(key)
            for first, last, target in (automata[i].rows[state] if state is not None else ())
        ]
        every = [(first, last, (-1, 0)) for first, last in _POINTS]
        for first, last, hits in split([*parts, *every]):
            if (-1, 0) in hits:
                to = dict(hits)
                yield first, last, tuple(to.get(i) for i in range(len(key)))

    def accepts(key: tuple[int | None, ...]) -> Hashable:
        return label(tuple(state in automata[i].accept for i, state in enumerate(key)))

    start: tuple[int | None, ...] = (0,) * len(automata)
    return explore(start, moves, accepts)


def relabelled(dfa: Dfa, label: Callable[[Hashable], Hashable]) -> Dfa | None:
    """Its texts under other labels; those of which `label` says False are left out."""
    said = {state: label(dfa.labels[state]) for state in dfa.accept}
    return trim(dfa.rows, {state: new for state, new in said.items() if new is not False})


def complement(dfa: Dfa) -> Dfa | None:
    """All texts it does not accept."""
    return product([dfa], lambda found: not found[0])


def ended(dfa: Dfa, end: str) -> Dfa | None:
    """Its texts without `end` in them, each followed by `end` but for its last code point.

    A text goes on while what may be the beginning of `end` turns out to be none: a state is that of `dfa`
    before such a beginning, and its length.
    """
    points = tuple(map(ord, end))

    def after(state: int | None, begin: int, stop: int) -> int | None:
        for point in points[begin:stop]:
            state = None if state is None else dfa.step(state, point)
        return state

    def moves(key: tuple[int, int]) -> Iterable[tuple[int, int, tuple[int, int]]]:
        before, length = key
        ahead = after(before, 0, length)  # what dfa makes of the beginning, if it is none
        rest = [] if ahead is None else list(dfa.rows[ahead])
        out: list[tuple[int, int, tuple[int, int]]] = []
        for point in sorted(set(points)):
            found = matched(points, length, point)
            if found == len(points):
                continue
            kept = length + 1 - found  # code points that are text for certain now
            text = None
            if kept <= length:
                text = after(before, 0, kept)
            elif ahead is not None:
                text = dfa.step(ahead, point)
            if text is not None:
                out.append((point, point, (text, found)))
        for first, last, target in rest:
            begin = first
            for point in [*sorted(p for p in set(points) if first <= p <= last), last + 1]:
                if begin < point:
                    out.append((begin, point - 1, (target, 0)))
                begin = point + 1
        return sorted(out)

    return explore((0, 0), moves, lambda key: key[0] in dfa.accept and key[1] == len(points) - 1)


def literals(texts: Iterable[str]) -> Dfa:
    """Exactly these texts; at least one. The same automaton for the same texts."""
    return _literals(tuple(sorted(set(texts))))


@lru_cache(maxsize=512)
def _literals(wanted: tuple[str, ...]) -> Dfa:
    accepted = frozenset(wanted)

    def moves(prefix: str) -> list[tuple[int, int, str]]:
        nexts = sorted({t[len(prefix)] for t in wanted if len(t) > len(prefix) and t.startswith(prefix)})
        return [(ord(c), ord(c), prefix + c) for c in nexts]

    dfa = explore("", moves, lambda prefix: prefix in accepted)
    assert dfa is not None
    return dfa
