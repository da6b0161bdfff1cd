"""An automaton as plain arrays, for a device: 16-bit moves over byte classes, sites, needs. Knows no tokens.

`moves[s, k]` is the move for class k of a symbol as automaton.py documents it, in 16 bits: 0 where the row
has none, bit 15 PUSH, bit 14 COUNT, the low 14 the state or site. Bytes with equal columns share a class;
each other symbol (END, special ids) has its own. A configuration is (state, top) and a stack of at most
`depth` frames (site u16, count u32).

`step` below is the whole semantics on these arrays, one symbol at a time, with no Python object behind it:
the device program and the host's matcher are both held to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import (
    COUNT,
    DEAD,
    END,
    FINISHED,
    PUSH,
    RETURN,
    TARGET,
    Automaton,
    Frame,
)
from kogagent.errors import SchemaError

_COUNT = 0x4000
_PUSH = 0x8000
_TARGET = 0x3FFF


@dataclass(frozen=True)
class Tables:
    """moves [states, classes] u16; byte_class [256] u8; end_class; special_class: special id -> class;
    final [states] u8; need [states] u16; site_entry, site_follow [sites] u16; site_least, site_most [sites]
    u32; start; start_sites: the calls around the start, outermost first; depth: frames, the bottom included.
    """

    moves: npt.NDArray[np.uint16]
    byte_class: npt.NDArray[np.uint8]
    end_class: int
    special_class: dict[int, int]
    final: npt.NDArray[np.uint8]
    need: npt.NDArray[np.uint16]
    site_entry: npt.NDArray[np.uint16]
    site_follow: npt.NDArray[np.uint16]
    site_least: npt.NDArray[np.uint32]
    site_most: npt.NDArray[np.uint32]
    start: int
    start_sites: tuple[int, ...]
    depth: int

    @property
    def bytes(self) -> int:
        """What a device holds of it."""
        arrays = (self.moves, self.byte_class, self.final, self.need, self.site_entry, self.site_follow)
        return sum(a.nbytes for a in (*arrays, self.site_least, self.site_most))

    def class_of(self, symbol: int) -> int | None:
        """The class of a symbol; None for a special id no state reads."""
        if symbol < END:
            return int(self.byte_class[symbol])
        return self.end_class if symbol == END else self.special_class.get(symbol - END - 1)


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
    symbols = sorted({s for n in states for s in automaton.rows[n] if s >= END} | {END})
    column = {**{b: b for b in range(256)}, **{s: 256 + i for i, s in enumerate(symbols)}}

    def packed(move: int) -> int:
        to = site_numbers[move & TARGET] if move & PUSH else states[move & TARGET]
        return to | (_PUSH if move & PUSH else 0) | (_COUNT if move & COUNT else 0)

    entries = [(i, column[s], packed(m)) for n, i in states.items() for s, m in automaton.rows[n].items()]
    wide = np.zeros((len(states), 256 + len(symbols)), np.uint16)
    places = np.array(entries, np.int64).reshape(-1, 3)
    wide[places[:, 0], places[:, 1]] = places[:, 2]
    # Equal columns have equal products with random odd numbers; the classes are checked against the columns.
    salt = np.random.default_rng(len(entries)).integers(1, 2**63, len(wide), dtype=np.uint64) * 2 + 1
    hashes = (wide[:, :256].astype(np.uint64) * salt[:, None]).sum(0, dtype=np.uint64)
    _, first, byte_class = np.unique(hashes, return_index=True, return_inverse=True)
    moves = np.concatenate([wide[:, first], wide[:, 256:]], axis=1)
    assert np.array_equal(moves[:, byte_class.reshape(-1)], wide[:, :256])
    need = np.zeros(len(wide), np.uint16)
    final = np.zeros(len(wide), np.uint8)
    for old, new in states.items():
        need[new] = automaton.need.get(old, 0)
        final[new] = old in automaton.final
    kept = [automaton.sites[n] for n in site_numbers]
    renamed = [(states.get(e, 0), states.get(f, 0), least, most) for e, f, least, most in kept]
    sites = np.array(renamed, np.int64).reshape(-1, 4)
    special = {s - END - 1: len(first) + i for i, s in enumerate(symbols) if s != END}
    frame: Frame | None = automaton.frames
    start_sites: list[int] = []
    while frame is not None:
        start_sites.append(site_numbers[frame[0]])
        frame = frame[2]
    return Tables(
        moves,
        byte_class.reshape(-1).astype(np.uint8),
        len(first) + symbols.index(END),
        special,
        final,
        need,
        sites[:, 0].astype(np.uint16),
        sites[:, 1].astype(np.uint16),
        sites[:, 2].astype(np.uint32),
        sites[:, 3].astype(np.uint32),
        states[automaton.start],
        tuple(reversed(start_sites)),
        automaton.depth,
    )


def reached(automaton: Automaton) -> tuple[dict[int, int], dict[int, int]]:
    """The states and sites a walk can come to: old number -> new, the first three states in their places."""
    states = {DEAD: DEAD, FINISHED: FINISHED, RETURN: RETURN}
    sites: dict[int, int] = {0: 0}
    queue: list[int] = []

    def reach(state: int) -> None:
        if state not in states:
            states[state] = len(states)
            queue.append(state)

    def call(site: int) -> None:
        if site not in sites:
            sites[site] = len(sites)
            reach(automaton.sites[site][0])
            reach(automaton.sites[site][1])

    frame: Frame | None = automaton.frames
    while frame is not None:
        call(frame[0])
        frame = frame[2]
    reach(automaton.start)
    while queue:
        for move in automaton.rows[queue.pop()].values():
            if move & PUSH:
                call(move & TARGET)
            else:
                reach(move & TARGET)
    return states, sites


def begin(tables: Tables) -> Configuration:
    """The configuration before the first symbol."""
    sites, counts = np.zeros(tables.depth, np.uint16), np.zeros(tables.depth, np.uint32)
    sites[: len(tables.start_sites)] = tables.start_sites
    return Configuration(tables.start, sites, counts, len(tables.start_sites) - 1)


def step(tables: Tables, at: Configuration, symbol: int) -> bool:
    """Advance `at` in place by one symbol. False where it is illegal; then `at` must not be used further."""
    k = tables.class_of(symbol)
    while True:
        move = 0 if k is None else int(tables.moves[at.state, k])
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
