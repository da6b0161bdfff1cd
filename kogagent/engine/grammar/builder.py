"""Puts a byte automaton together, from its end to its start. Knows symbols and states; no JSON, no tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kogagent.engine.grammar.automaton import (
    COUNT,
    DEAD,
    FINISHED,
    PUSH,
    RETURN,
    TARGET,
    UNBOUNDED,
    Automaton,
    Frame,
    Row,
    Site,
)
from kogagent.engine.grammar.dfa import Dfa
from kogagent.engine.grammar.utf8 import sequences

MAX_STATES = 100_000


class Conflict(Exception):
    """Two alternatives start alike and cannot be told apart by a deterministic automaton."""


class TooLarge(Exception):
    """More than MAX_STATES states or calls."""


class Builder:
    """Grows an automaton backwards: a piece is made for the state that follows it.

    A state given as what follows must have its row filled already, unless it is RETURN.
    """

    def __init__(self, library: Builder | None = None, name: str = "") -> None:
        if library is None:
            self.rows: list[Row] = [{}, {}, {}]
            self.final: set[int] = set()
            self.need: dict[int, int] = {}
            self.sites: list[Site] = [(DEAD, DEAD, 0, UNBOUNDED)]
            self.library = name
            self.shared = len(self.rows)
            self.bodies: frozenset[int] = frozenset()
        else:
            self.rows = list(library.rows)
            self.final = set(library.final)
            self.need = dict(library.need)
            self.sites = list(library.sites)
            self.library = name or library.library
            self.shared = len(library.rows)
            self.bodies = library.bodies
        self._sites = {site: number for number, site in enumerate(self.sites)}
        self._literals: dict[tuple[int, int], int] = {}
        self._merged: dict[tuple[int, int], int] = {}
        self._rules: dict[int, tuple[Dfa, Row]] = {} if library is None else dict(library._rules)

    def state(self, row: Row | None = None) -> int:
        number = len(self.rows)
        if number >= MAX_STATES:
            raise TooLarge
        self.rows.append({} if row is None else row)
        return number

    def literal(self, symbols: Iterable[int], follow: int) -> int:
        """The state from which exactly `symbols` lead to `follow`."""
        rows, known = self.rows, self._literals
        for symbol in reversed(bytes(symbols) if isinstance(symbols, bytes) else tuple(symbols)):
            key = (symbol, follow)
            state = known.get(key)
            if state is None:
                state = known[key] = len(rows)
                rows.append({symbol: follow})
            follow = state
        if len(rows) > MAX_STATES:
            raise TooLarge
        return follow

    def branch(self, one: Sequence[int], to: int, other: Sequence[int], there: int, flag: int = 0) -> int:
        """The state from which `one` leads to `to` and `other` leads to `there`.

        `other` carries `flag` where it can first be told from `one`. Either may be empty: what comes then is
        what `to` or `there` reads. Conflict where that does not tell them apart.
        """
        shared = 0
        while shared < min(len(one), len(other)) and one[shared] == other[shared]:
            shared += 1
        fork = self.state()
        if shared < len(one):
            self.rows[fork][one[shared]] = self.literal(one[shared + 1 :], to)
        else:
            self.absorb(fork, to)
        if shared < len(other):
            if other[shared] in self.rows[fork]:
                raise Conflict
            self.rows[fork][other[shared]] = self.literal(other[shared + 1 :], there) | flag
        elif flag:
            raise Conflict
        else:
            self.absorb(fork, there)
        return self.literal(one[:shared], fork)

    def call(self, entry: int, follow: int, least: int = 0, most: int = UNBOUNDED) -> int:
        """The move that calls `entry` and comes back to `follow`."""
        site = (entry, follow, least, most)
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = len(self.sites)
            if number >= MAX_STATES:
                raise TooLarge
            self.sites.append(site)
        return PUSH | number

    def absorb(self, state: int, follow: int) -> None:
        """Let `state` also be the end of a piece, before `follow`."""
        if follow == RETURN or follow in self.final:
            self.final.add(state)
        row = self.rows[state]
        for symbol, move in self.rows[follow].items():
            if symbol in row:
                raise Conflict
            row[symbol] = move

    def trie(self, texts: Iterable[tuple[Sequence[int], int]]) -> int:
        """The state that reads one of several texts, each leading to a state. No text begins another."""
        root = self.state()
        for symbols, follow in texts:
            self.insert(root, symbols, follow)
        return root

    def insert(self, root: int, symbols: Sequence[int], follow: int) -> None:
        """Grow a trie by one text; Conflict where another text begins it or it begins another."""
        state = root
        for symbol in symbols[:-1]:
            target = self.rows[state].get(symbol)
            if target is None:
                target = self.rows[state][symbol] = self.state()
            elif target & (PUSH | COUNT):
                raise Conflict
            state = target
        if self.rows[state].setdefault(symbols[-1], follow) != follow:
            raise Conflict

    def grown(self, root: int | None, symbols: Sequence[int], follow: int) -> int:
        """A trie of everything in `root` and one text more; `root` stays as it is and shares its states."""
        first = self.state(dict(self.rows[root]) if root is not None else None)
        state = first
        for symbol in symbols[:-1]:
            old = self.rows[state].get(symbol)
            copy = old is not None and not old & (PUSH | COUNT)
            target = self.state(dict(self.rows[old]) if copy and old is not None else None)
            if copy and old in self.final:
                self.final.add(target)
            self.rows[state][symbol] = target
            state = target
        self.rows[state][symbols[-1]] = follow
        return first

    def merge(self, a: int, b: int) -> int:
        """The state that reads what `a` reads or `b` reads. Conflict where that takes more than one frame."""
        if a == b:
            return a
        if RETURN in (a, b):
            other = a if b == RETURN else b
            key = (RETURN, other)
            if key not in self._merged:
                number = self._merged[key] = self.state(dict(self.rows[other]))
                self.final.add(number)
                self.need[number] = 0
            return self._merged[key]
        key = (a, b) if a < b else (b, a)
        known = self._merged.get(key)
        if known is not None:
            return known
        number = self._merged[key] = self.state()
        row = dict(self.rows[a])
        for symbol, right in self.rows[b].items():
            left = row.get(symbol)
            row[symbol] = right if left is None else self._merge_moves(left, right)
        self.rows[number] = row
        if a in self.final or b in self.final:
            self.final.add(number)
        needs = (self.need.get(a, 0), self.need.get(b, 0))
        if min(needs):
            self.need[number] = min(needs)
        return number

    def _merge_moves(self, left: int, right: int) -> int:
        if left == right:
            return left
        if (left ^ right) & (PUSH | COUNT):
            raise Conflict
        flags = left & (PUSH | COUNT)
        if not flags & PUSH:
            return self.merge(left & TARGET, right & TARGET) | flags
        entry, follow, least, most = self.sites[left & TARGET]
        entry2, follow2, least2, most2 = self.sites[right & TARGET]
        if (least, most) != (least2, most2):
            raise Conflict
        if entry == entry2:
            return self.call(entry, self.merge(follow, follow2), least, most) | (flags & COUNT)
        if follow == follow2:
            return self.call(self.merge(entry, entry2), follow, least, most) | (flags & COUNT)
        raise Conflict

    def union(self, states: Sequence[int]) -> int:
        """The state that reads what any of them reads."""
        joined = states[0]
        for state in states[1:]:
            joined = self.merge(joined, state)
        return joined

    def embed(
        self,
        dfa: Dfa,
        accept: Callable[[int, int], None],
        *,
        spell: Callable[[int, int], Sequence[tuple[tuple[int, int], ...]]] = sequences,
        counted: bool = False,
    ) -> int:
        """An automaton over code points, spelled in bytes; `accept` completes each accepting state, given as
        the number of its row and as the state of `dfa`.

        counted: the first byte of each code point counts, and `need` keeps the way to acceptance inside the
        frame's most count.
        """
        numbers = [self.state() for _ in dfa.rows]
        if counted:
            self.need.update((numbers[s], n) for s, n in enumerate(dfa.shortest) if n)
        inner: dict[frozenset[tuple[tuple[tuple[int, int], ...], int]], int] = {}

        def grow(state: int, items: Iterable[tuple[tuple[tuple[int, int], ...], int]], flag: int) -> None:
            buckets: dict[int, set[tuple[tuple[tuple[int, int], ...], int]]] = {}
            for spans, target in items:
                rest = (spans[1:], target)
                for byte in range(spans[0][0], spans[0][1] + 1):
                    buckets.setdefault(byte, set()).add(rest)
            row = self.rows[state]
            for byte, bucket in buckets.items():
                rests = frozenset(bucket)
                spans, target = next(iter(rests))
                if not spans:
                    row[byte] = target | flag
                    continue
                known = inner.get(rests)
                if known is None:
                    known = inner[rests] = self.state()
                    if counted:
                        self.need[known] = min(self.need.get(t, 0) for _, t in rests)
                    grow(known, rests, 0)
                row[byte] = known | flag

        for state, number in enumerate(numbers):
            grow(
                number,
                [(spans, numbers[t]) for first, last, t in dfa.rows[state] for spans in spell(first, last)],
                COUNT if counted else 0,
            )
        for state in sorted(dfa.accept):
            accept(numbers[state], state)
        return numbers[0]

    def rule(self, dfa: Dfa) -> Row:
        """An automaton that ends where its next symbol does not fit (a number), made once: the states its
        first symbols lead to, to be called."""
        known = self._rules.get(id(dfa))
        if known is None:
            entry = self.embed(dfa, lambda number, _: self.final.add(number))
            known = self._rules[id(dfa)] = (dfa, self.rows[entry])
        return known[1]

    def without(self, missing: frozenset[int], first: int) -> None:
        """Take bytes away from the states from `first` on, and whatever then leads nowhere."""
        rows = self.rows
        hit = [n for n in range(first, len(rows)) if not missing.isdisjoint(rows[n])]
        if not hit:
            return
        for number in hit:
            rows[number] = {s: m for s, m in rows[number].items() if s not in missing}
        sources: dict[int, list[int]] = {}
        for number in range(first, len(rows)):
            for move in rows[number].values():
                for target in self._targets(move):
                    sources.setdefault(target, []).append(number)
        alive = [n in self.final or n in (FINISHED, RETURN) for n in range(len(rows))]
        alive[3:first] = [True] * (first - 3)
        queue = [n for n, lives in enumerate(alive) if lives]
        while queue:
            for number in sources.get(queue.pop(), ()):
                if not alive[number] and any(self._lives(m, alive) for m in rows[number].values()):
                    alive[number] = True
                    queue.append(number)
        for number in range(first, len(rows)):
            row = rows[number]
            if not all(self._lives(move, alive) for move in row.values()):
                rows[number] = {s: m for s, m in row.items() if self._lives(m, alive)}

    def _targets(self, move: int) -> tuple[int, ...]:
        return self.sites[move & TARGET][:2] if move & PUSH else (move & TARGET,)

    def _lives(self, move: int, alive: Sequence[bool]) -> bool:
        return all(alive[target] for target in self._targets(move))

    def finish(
        self, start: int, sites: Sequence[int] = (), missing: frozenset[int] = frozenset()
    ) -> Automaton:
        """The automaton that starts in `start`, inside the calls `sites` (outermost first); see `without`."""
        self.without(missing, self.shared)
        frame: Frame = (0, 0, None)
        for move in sites:
            frame = (move & TARGET, 0, frame)
        return Automaton(
            self.rows,
            frozenset(self.final),
            self.need,
            self.sites,
            start,
            frame,
            self.library,
            self.bodies,
        )
