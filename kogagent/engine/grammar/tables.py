"""An automaton as plain arrays, for a device: 16-bit moves over byte classes, sites, needs. Knows no tokens.

`moves[s, k]` is the entry automaton.py documents, for class k of a symbol; 0 where the row has none. Bytes
with equal columns share a class; each other symbol (END, special ids) has a class of its own. A configuration
is (state, top) and a stack of at most `depth` frames (site u16, count u32).

`step` below is the whole semantics on these arrays, one symbol at a time, with no Python object behind it:
the device program and the host's matcher are both held to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import (
    COUNT,
    END,
    PUSH,
    RETURN,
    TARGET,
    Automaton,
    Frame,
)


@dataclass(frozen=True)
class Tables:
    """moves [states, classes] u16; byte_class [256] u8; end_class; special_class: special id -> class;
    final [states] u8; need [states] u16; site_entry, site_follow [sites] u16; site_least, site_most [sites]
    u32; start; start_sites: the calls around the start, outermost first; depth: frames, the bottom included."""

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
    """The arrays of an automaton."""
    symbols = sorted({s for row in automaton.rows for s in row if s >= END} | {END})
    column = {**{b: b for b in range(256)}, **{s: 256 + i for i, s in enumerate(symbols)}}
    entries = [(n, column[s], m) for n, row in enumerate(automaton.rows) for s, m in row.items()]
    wide = np.zeros((len(automaton.rows), 256 + len(symbols)), np.uint16)
    places = np.array(entries, np.int64).reshape(-1, 3)
    wide[places[:, 0], places[:, 1]] = places[:, 2]
    # Equal columns have equal products with random odd numbers; the classes are checked against the columns.
    salt = np.random.default_rng(len(entries)).integers(1, 2**63, len(wide), dtype=np.uint64) * 2 + 1
    hashes = (wide[:, :256].astype(np.uint64) * salt[:, None]).sum(0, dtype=np.uint64)
    _, first, byte_class = np.unique(hashes, return_index=True, return_inverse=True)
    moves = np.concatenate([wide[:, first], wide[:, 256:]], axis=1)
    assert np.array_equal(moves[:, byte_class.reshape(-1)], wide[:, :256])
    need = np.zeros(len(wide), np.uint16)
    for state, value in automaton.need.items():
        need[state] = value
    final = np.zeros(len(wide), np.uint8)
    final[list(automaton.final)] = 1
    sites = np.array(automaton.sites, np.int64).reshape(-1, 4)
    special = {s - END - 1: len(first) + i for i, s in enumerate(symbols) if s != END}
    frame: Frame | None = automaton.frames
    start_sites: list[int] = []
    while frame is not None:
        start_sites.append(frame[0])
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
        automaton.start,
        tuple(reversed(start_sites)),
        automaton.depth,
    )


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
    target = move & TARGET
    need = 0 if move & PUSH else int(tables.need[target])
    if move & COUNT:
        at.counts[at.top] += 1
    if (move & COUNT or need) and int(at.counts[at.top]) + need > int(tables.site_most[at.sites[at.top]]):
        return False
    if move & PUSH:
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
