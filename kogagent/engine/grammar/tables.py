"""An automaton as plain arrays, for a device: 16-bit moves, sites, needs. Knows no tokens.

A move is what automaton.py documents, in 16 bits: 0 none, bit 15 PUSH, bit 14 COUNT, the low 14 the state
or site. Most states have one move, so the first `lone` states store just that one, and only the others have a
row over classes of symbols. A symbol's code is the byte, 256 for END, 257 + i for special_ids[i]:

    s < lone:   move = lone_move[s] if lone_code[s] == code else 0
    else:       move = moves[s - lone, byte_class[code] if code < 256 else end_class + code - 256]

A configuration is (state, top) and a stack of at most `depth` frames (site u16, count u32).

`step` below is the whole semantics on these arrays, one symbol at a time, with no Python object behind it:
the device program and the host's matcher are both held to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import (
    COUNT,
    DEAD,
    END,
    FINISHED,
    PUSH,
    RETURN,
    SPECIAL,
    TARGET,
    Automaton,
    Frame,
    Site,
)
from kogagent.engine.grammar.trie import distinct
from kogagent.errors import SchemaError

_COUNT = 0x4000
_PUSH = 0x8000
_TARGET = 0x3FFF
_NO_CODE = 0xFFFF
NO_ROOM = 0x7FFF


@dataclass(frozen=True)
class Tables:
    """lone_code, lone_move [lone] u16: the one move of the first states, code 0xFFFF where there is none;
    moves [states - lone, classes] u16: the rows of the others; byte_class [256] u8: bytes no such row tells
    apart share a class; end_class: END's class, behind it those of special_ids [specials] u32, ascending;
    final [states] u8; need [states] u16; site_entry, site_follow [sites] u16; site_least, site_most [sites]
    u32; start; start_sites: the calls around the start, outermost first; depth: frames, the bottom included;
    states, site_numbers: an automaton's number -> the number here.
    """

    lone_code: npt.NDArray[np.uint16]
    lone_move: npt.NDArray[np.uint16]
    moves: npt.NDArray[np.uint16]
    byte_class: npt.NDArray[np.uint8]
    end_class: int
    special_ids: npt.NDArray[np.uint32]
    final: npt.NDArray[np.uint8]
    need: npt.NDArray[np.uint16]
    site_entry: npt.NDArray[np.uint16]
    site_follow: npt.NDArray[np.uint16]
    site_least: npt.NDArray[np.uint32]
    site_most: npt.NDArray[np.uint32]
    start: int
    start_sites: tuple[int, ...]
    depth: int
    states: Mapping[int, int]
    site_numbers: Mapping[int, int]

    @property
    def lone(self) -> int:
        """How many states have at most one move; they come first."""
        return len(self.lone_code)

    @property
    def bytes(self) -> int:
        """What a device holds of it."""
        arrays = (self.lone_code, self.lone_move, self.moves, self.byte_class, self.special_ids, self.final)
        sites = (self.site_entry, self.site_follow, self.site_least, self.site_most)
        return sum(a.nbytes for a in (*arrays, self.need, *sites))

    @cached_property
    def choice_rooms(self) -> npt.NDArray[np.uint32]:
        """[states]: how far a frame's count must lie below the most one for two symbols to be certainly
        legal; NO_ROOM where none is far enough."""
        rooms = np.full(self.lone + len(self.moves), NO_ROOM, np.uint32)
        if not len(self.moves):
            return rooms
        target = self.moves & _TARGET
        push = self.moves & _PUSH != 0
        room = (self.moves >> 14 & 1).astype(np.int64) + np.where(
            push, 0, self.need[np.where(push, 0, target)]
        )
        room[(self.moves == 0) | (~push & (target == RETURN))] = NO_ROOM
        shared = np.bincount(self.byte_class, minlength=self.moves.shape[1]) > 1
        twice = np.where(shared[None, :], room, NO_ROOM)
        both = np.concatenate([room, twice, np.full((len(room), 2), NO_ROOM)], axis=1)
        rooms[self.lone :] = np.minimum(np.partition(both, 1, axis=1)[:, 1], NO_ROOM)
        return rooms

    def code_of(self, symbol: int) -> int | None:
        """The code of an automaton's symbol; None for a special id no state reads."""
        if symbol < SPECIAL:
            return symbol
        found = np.flatnonzero(self.special_ids == symbol - SPECIAL)
        return SPECIAL + int(found[0]) if len(found) else None

    def move(self, state: int, code: int) -> int:
        """The move of a state for a symbol's code, 0 where there is none."""
        if state < self.lone:
            return int(self.lone_move[state]) if self.lone_code[state] == code else 0
        k = int(self.byte_class[code]) if code < END else self.end_class + code - END
        return int(self.moves[state - self.lone, k])


@dataclass
class Configuration:
    """state, and the stack as two arrays of `depth`, filled up to `top`."""

    state: int
    sites: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint32]
    top: int


def make_tables(automaton: Automaton) -> Tables:
    """The arrays of an automaton, of the states and sites that can be reached.

    Raises SchemaError when more of them are left than 14 bits can name.
    """
    states, site_numbers = reached(automaton)
    if max(len(states), len(site_numbers)) > _TARGET + 1:
        raise SchemaError(
            f"the grammar has {len(states)} states and {len(site_numbers)} calls, a device table holds "
            f"{_TARGET + 1}. Offer fewer tools at once, or keep the grammar on the host"
        )
    rows = list(map(automaton.rows.__getitem__, states))
    sizes = list(map(len, rows))
    lone = sizes.count(0) + sizes.count(1)
    symbols = np.fromiter(chain.from_iterable(rows), np.int64, sum(sizes))
    moves_of = np.fromiter(chain.from_iterable(map(dict.values, rows)), np.int64, sum(sizes))
    special = distinct(symbols[symbols >= SPECIAL]) - SPECIAL
    codes = np.where(symbols < SPECIAL, symbols, SPECIAL + np.searchsorted(special, symbols - SPECIAL))
    pushes = moves_of & PUSH != 0
    to = np.where(
        pushes,
        _renumbered(site_numbers)[np.where(pushes, moves_of & TARGET, 0)],
        _renumbered(states)[np.where(pushes, 0, moves_of & TARGET)],
    )
    packed = to | np.where(pushes, _PUSH, 0) | np.where(moves_of & COUNT != 0, _COUNT, 0)
    places = np.stack([np.repeat(np.arange(len(rows)), sizes), codes, packed], axis=1)
    alone = places[places[:, 0] < lone]
    lone_code, lone_move = np.full(lone, _NO_CODE, np.uint16), np.zeros(lone, np.uint16)
    lone_code[alone[:, 0]], lone_move[alone[:, 0]] = alone[:, 1], alone[:, 2]
    wide = np.zeros((len(states) - lone, END + 1 + len(special)), np.uint16)
    places = places[places[:, 0] >= lone]
    wide[places[:, 0] - lone, places[:, 1]] = places[:, 2]
    # Equal columns have equal products with random odd numbers; the classes are checked against the columns.
    hashes = (wide[:, :END].astype(np.uint64) * _salts()[: len(wide), None]).sum(0, dtype=np.uint64)
    _, first, byte_class = np.unique(hashes, return_index=True, return_inverse=True)
    moves = np.concatenate([wide[:, first], wide[:, END:]], axis=1)
    assert np.array_equal(moves[:, byte_class.reshape(-1)], wide[:, :END])
    need, final = np.zeros(len(states), np.uint16), np.zeros(len(states), np.uint8)
    for old, count in automaton.need.items():
        if old in states:
            need[states[old]] = count
    final[[states[old] for old in automaton.final if old in states]] = 1
    kept = [automaton.sites[n] for n in site_numbers]
    renamed = [(states.get(e, 0), states.get(f, 0), least, most) for e, f, least, most in kept]
    sites = np.array(renamed, np.int64).reshape(-1, 4)
    frame: Frame | None = automaton.frames
    start_sites: list[int] = []
    while frame is not None:
        start_sites.append(site_numbers[frame[0]])
        frame = frame[2]
    return Tables(
        lone_code,
        lone_move,
        moves,
        byte_class.reshape(-1).astype(np.uint8),
        len(first),
        special.astype(np.uint32),
        final,
        need,
        sites[:, 0].astype(np.uint16),
        sites[:, 1].astype(np.uint16),
        sites[:, 2].astype(np.uint32),
        sites[:, 3].astype(np.uint32),
        states[automaton.start],
        tuple(reversed(start_sites)),
        automaton.depth,
        states,
        site_numbers,
    )


def reached(automaton: Automaton) -> tuple[dict[int, int], dict[int, int]]:
    """The states and sites a walk can come to: old number -> new.

    The first three states keep their places; behind them come those with one move, then the others.
    """
    rows, calls = automaton.rows, automaton.sites
    found = {DEAD, FINISHED, RETURN}
    few, several = [DEAD, FINISHED, RETURN], list[int]()
    sites: dict[int, int] = {0: 0}
    queue = [automaton.start]
    frame: Frame | None = automaton.frames
    while frame is not None:
        _call(frame[0], calls, sites, queue)
        frame = frame[2]
    while queue:
        state = queue.pop()
        while state not in found:
            found.add(state)
            row = rows[state]
            if len(row) == 1:  # most: a text, along which we go
                few.append(state)
                (move,) = row.values()
                if not move & PUSH:
                    state = move & TARGET
                    continue
                _call(move & TARGET, calls, sites, queue)
                break
            (several if row else few).append(state)
            for move in set(row.values()):
                if move & PUSH:
                    _call(move & TARGET, calls, sites, queue)
                else:
                    queue.append(move & TARGET)
    return {state: number for number, state in enumerate((*few, *several))}, sites


def _call(site: int, calls: Sequence[Site], sites: dict[int, int], queue: list[int]) -> None:
    if site not in sites:
        sites[site] = len(sites)
        queue += calls[site][:2]


@cache
def _salts() -> npt.NDArray[np.uint64]:
    """[states of a table]"""
    return np.random.default_rng(1).integers(1, 2**63, _TARGET + 1, dtype=np.uint64) * 2 + 1


def _renumbered(numbers: Mapping[int, int]) -> npt.NDArray[np.int64]:
    """[largest old number + 1]: the new ones."""
    out = np.zeros(max(numbers) + 1, np.int64)
    out[list(numbers)] = list(numbers.values())
    return out


def begin(tables: Tables) -> Configuration:
    """The configuration before the first symbol."""
    sites, counts = np.zeros(tables.depth, np.uint16), np.zeros(tables.depth, np.uint32)
    sites[: len(tables.start_sites)] = tables.start_sites
    return Configuration(tables.start, sites, counts, len(tables.start_sites) - 1)


def step(tables: Tables, at: Configuration, symbol: int) -> bool:
    """Advance `at` in place by one symbol. False where it is illegal; then `at` must not be used further."""
    code = tables.code_of(symbol)
    while True:
        move = 0 if code is None else tables.move(at.state, code)
        if move:
            break
        if not tables.final[at.state] or not _pop(tables, at):
            return False
    target = move & _TARGET
    need = 0 if move & _PUSH else int(tables.need[target])
    if move & _COUNT:
        at.counts[at.top] += 1
    if (move & _COUNT or need) and int(at.counts[at.top]) + need > int(tables.site_most[at.sites[at.top]]):
        return False
    if move & _PUSH:
        at.top += 1
        at.sites[at.top], at.counts[at.top] = target, 0
        at.state = int(tables.site_entry[target])
        return True
    at.state = target
    while at.state == RETURN:
        if not _pop(tables, at):
            return False
    return True


def _pop(tables: Tables, at: Configuration) -> bool:
    """Return from the top frame, if its count has reached the least one of its site."""
    site = int(at.sites[at.top])
    if at.top == 0 or int(at.counts[at.top]) < int(tables.site_least[site]):
        return False
    at.state = int(tables.site_follow[site])
    at.top -= 1
    return True
