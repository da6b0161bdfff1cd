"""What all tokens do from a state that every grammar shares, whatever the bounds. Knows no walk.

A body is left by RETURN alone and counts code points: a token stays inside it and counts some, or leaves it
and has bytes left. So its masks are a set of ids for each room that a count leaves, and what is legal behind
it is asked of the different ends of tokens, each once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kogagent.disk_cache import Damaged, sources
from kogagent.engine.grammar.automaton import COUNT, END, RETURN, TARGET, Automaton
from kogagent.engine.grammar.trie import NODES, Ints, TokenTrie, Tree, built

Mask = npt.NDArray[np.uint32]

_NEVER = 0xFFFF
_KEPT = 512  # bodies kept for one vocabulary
_ROOMS = 64  # masks kept for one body
_PARTS = (*NODES, "counts", "group_first", "ids", "id_counts")


class Within(NamedTuple):
    """Ids that stay inside a body: a mask [words], read-only, and its address for programs."""

    body: Body
    mask: Mask
    address: int


class Body:
    """All tokens from one shared state.

    tree: what stands in tokens behind the byte that leaves the frame; its token[n] is the number of a group.
    group_first [groups + 1], ids, id_counts: the tokens of each group and the code points they count until
    they leave; the last group is of those that end there. arrays: all of it, for programs and disks.
    """

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """counts among them: [32 * words] u16, the code points of each id that stays inside, else 0xFFFF."""
        self.arrays = arrays
        self.tree = Tree(arrays)
        self.group_first, self.ids, self.id_counts = (arrays[n] for n in ("group_first", "ids", "id_counts"))
        counts = self._counts = arrays["counts"]
        self._longest = int(counts[counts != _NEVER].max(initial=0))
        self._within: dict[int, Within] = {}

    def within(self, room: int) -> Within:
        """The ids that stay inside and count at most so many code points."""
        room = min(room, self._longest)
        found = self._within.get(room)
        if found is None:
            mask = packed(self._counts <= room)
            mask.setflags(write=False)
            if len(self._within) >= _ROOMS:
                self._within.clear()
            found = self._within[room] = Within(self, mask, mask.ctypes.data)
        return found

    def behind(self, groups: list[int], least: int, most: int | None) -> Ints:
        """The ids of some groups, and of those that end where they leave, that count so many code points."""
        first = self.group_first
        chosen = [slice(first[g], first[g + 1]) for g in (*groups, len(first) - 2)]
        ids = np.concatenate([self.ids[part] for part in chosen])
        counts = np.concatenate([self.id_counts[part] for part in chosen])
        fits = counts >= least
        if most is not None:
            fits &= counts <= most
        found: Ints = ids[fits]
        return found


def packed(flags: npt.NDArray[np.bool_]) -> Mask:
    """Flags [32 * words] as bits [words]."""
    return np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32, copy=False)


def body_of(automaton: Automaton, trie: TokenTrie, state: int) -> Body:
    """The same in every grammar: kept with the vocabulary, and on its disk where it has one."""
    known = trie.known
    key = (automaton.library, state)
    found: Body | None = known.get(key)
    if found is None:
        found = known[key] = _kept(automaton, trie, state)
        while len(known) > _KEPT:
            known.popitem(last=False)
    return found


def _kept(automaton: Automaton, trie: TokenTrie, state: int) -> Body:
    disk = trie.disk
    if disk is None:
        return Body(walked(automaton, trie, state))
    told = (trie.vocabulary.digest, automaton.library, state, sources(Path(__file__).parent))
    key = hashlib.sha256(repr(told).encode()).hexdigest()[:32]
    found = disk.find("body", key)
    if found is not None:
        try:
            return Body({name: np.array(found.part(name)) for name in _PARTS})
        except Damaged:
            disk.drop(found)
    arrays = walked(automaton, trie, state)
    disk.put("body", key, {}, arrays)
    return Body(arrays)


def walked(automaton: Automaton, trie: TokenTrie, state: int) -> dict[str, npt.NDArray[Any]]:
    """A body's arrays, by walking all tokens at once, each with the code points it counts on the way."""
    table, plus = _moves(automaton, state)
    counts = np.full(32 * trie.words, _NEVER, np.uint16)
    exits: list[tuple[Ints, Ints]] = []  # nodes and counts by the length of what leads to them
    nodes, states, sums = (np.zeros(1, np.int32) for _ in range(3))
    while len(nodes):
        children, parents = trie.children(nodes)
        bytes_ = trie.byte[children]
        after = table[states[parents], bytes_]
        sums = sums[parents] + plus[states[parents], bytes_]
        left = after == -2
        exits.append((children[left], sums[left]))
        inside = after >= 0
        nodes, states, sums = children[inside], after[inside], sums[inside]
        tokens = trie.token[nodes]
        counts[tokens[tokens >= 0]] = sums[tokens >= 0]
    for first, others in trie.twins.items():
        counts[others] = counts[first]
    return {"counts": counts} | _grouped(trie, exits)


def _moves(automaton: Automaton, state: int) -> tuple[Ints, Ints]:
    """[states of the body, 256] each: the next state, -1 for none, -2 where it is left; what counts."""
    numbers: dict[int, int] = {state: 0}
    rows, counted = [], []
    order = [state]
    for at in order:
        row, count = np.full(256, -1, np.int32), np.zeros(256, np.int32)
        for symbol, move in automaton.rows[at].items():
            if symbol < END:
                target = move & TARGET
                if target != RETURN and target not in numbers:
                    numbers[target] = len(order)
                    order.append(target)
                row[symbol] = -2 if target == RETURN else numbers[target]
                count[symbol] = move & COUNT != 0
        rows.append(row)
        counted.append(count)
    return np.stack(rows), np.stack(counted)


def _grouped(trie: TokenTrie, exits: list[tuple[Ints, Ints]]) -> dict[str, npt.NDArray[Any]]:
    """The tree of what stands behind exits, and its groups."""
    behind: dict[bytes, list[tuple[int, int]]] = {b"": []}
    for length, (nodes, counts) in enumerate(exits, 1):
        while len(nodes):
            tokens = trie.token[nodes]
            there = tokens >= 0
            for token, count in zip(tokens[there].tolist(), counts[there].tolist(), strict=True):
                text = trie.vocabulary.tokens[token][length:]
                ids = (token, *trie.twins.get(token, ()))
                behind.setdefault(text, []).extend((id, count) for id in ids)
            nodes, above = trie.children(nodes)
            counts = counts[above]
    ended = behind.pop(b"")
    texts = sorted(behind)
    groups = [*(behind[text] for text in texts), ended]
    tree = built(texts, np.arange(len(texts), dtype=np.int32))
    members = np.array([one for group in groups for one in group], np.int32).reshape(-1, 2)
    return {name: tree[name] for name in NODES} | {
        "group_first": np.cumsum([0, *map(len, groups)], dtype=np.int32),
        "ids": np.ascontiguousarray(members[:, 0]),
        "id_counts": np.ascontiguousarray(members[:, 1]),
    }
