"""Which tokens are legal in a configuration: an automaton walked along a vocabulary's tree. Knows no text.

All tokens are walked at once, level by level, each node with the configuration its bytes lead to. To make the
configurations few, counts are replaced by classes that no single token can tell apart (`normal`), so what is
found for one stands for all counts of the class, however large the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import END, FAR, LOW, Automaton, Frame
from kogagent.engine.grammar.trie import Ints, TokenTrie

Config = tuple[int, Frame]

_KEPT = 512  # masks of shared states kept for one vocabulary
_CONFIGS = 4096  # configurations kept for one grammar before their rows are dropped
_FEW = 24  # nodes below which plain Python is faster than arrays
_OUTSIDE: Frame = (-1, 0, None)
_ROOT = np.zeros(1, np.int32)


class Walker:
    """One automaton over one vocabulary; what it learns is kept."""

    def __init__(self, automaton: Automaton, trie: TokenTrie) -> None:
        self.automaton = automaton
        self.trie = trie
        self._margin = trie.reach + automaton.max_need
        self._index: dict[Config, int] = {}
        self._configs: list[Config] = []
        self._rows: list[npt.NDArray[np.int32] | None] = []

    def normal(self, frame: Frame) -> Frame:
        """The frames with each count replaced by its class."""
        site, count, below = frame
        if below is None:
            return frame
        _, _, least, most = self.automaton.sites[site]
        if count >= 0:
            if least - count > self.trie.reach:
                count = LOW
            elif count >= least and most - count >= self._margin:
                count = FAR
        return (site, count, self.normal(below))

    # ── the tree ──
    def legal_ids(self, state: int, frame: Frame) -> npt.NDArray[np.bool_]:
        """Flags [32 * words] of the ordinary ids whose bytes can follow; frame in normal form."""
        if state in self.automaton.bodies and frame[1] == FAR and frame[2] is not None:
            inside, exits = self._body(state)
            flags = inside.copy()
            after = self.automaton.returned(frame)
            if after is not None and len(exits):
                self._walk(exits, self._number(after), flags)
            return flags
        flags = np.zeros(32 * self.trie.words, np.bool_)
        self._walk(_ROOT, self._number((state, frame)), flags)
        return flags

    def can_continue(self, node: int, state: int, frame: Frame) -> bool:
        """Whether a token that goes through `node` can go on legally from this configuration there."""
        trie, automaton = self.trie, self.automaton
        stack: list[tuple[int, Config]] = [(node, (state, frame))]
        while stack:
            at, (here, frames) = stack.pop()
            begin, count = trie.first_list[at], trie.count_list[at]
            for child in range(begin, begin + count):
                after = automaton.step(here, frames, trie.bytes[child])
                if after is None:
                    continue
                if trie.token_list[child] >= 0:
                    return True
                stack.append((child, after))
        return False

    def _body(self, state: int) -> tuple[npt.NDArray[np.bool_], Ints]:
        """For a shared state far from its bounds: the tokens that stay inside its frame, and the nodes where
        that frame is left. The same in every grammar, so kept with the vocabulary."""
        known = self.trie.known
        key = (self.automaton.library, state, FAR)
        found = known.get(key)
        if found is None:
            flags = np.zeros(32 * self.trie.words, np.bool_)
            exits = self._walk(_ROOT, self._number((state, (0, FAR, _OUTSIDE))), flags)
            found = known[key] = (flags, exits)
            while len(known) > _KEPT:
                known.popitem(last=False)
        return found

    def _number(self, config: Config) -> int:
        number = self._index.get(config)
        if number is None:
            number = self._index[config] = len(self._configs)
            self._configs.append(config)
            self._rows.append(None)
        return number

    def _row(self, number: int) -> npt.NDArray[np.int32]:
        """[256]: the configuration each byte leads to, -1 where illegal, -2 out of the walked frame."""
        row = self._rows[number]
        if row is None:
            state, frame = self._configs[number]
            row = np.full(256, -1, np.int32)
            seen: dict[tuple[int, int, int], int] = {}
            automaton = self.automaton
            taken: set[int] = set()
            at, frames = state, frame
            while True:
                for symbol, move in automaton.rows[at].items():
                    if symbol >= END or symbol in taken:
                        continue
                    key = (at, move, len(taken))
                    to = seen.get(key)
                    if to is None:
                        after = automaton.step(state, frame, symbol)
                        to = -1 if after is None else -2 if after[1] is _OUTSIDE else self._number(after)
                        seen[key] = to
                    row[symbol] = to
                if at not in automaton.final:
                    break
                site, count, below = frames
                if below is None or (count < automaton.sites[site][2] and count != FAR):
                    break
                taken.update(automaton.rows[at])
                at, frames = automaton.sites[site][1], below
            self._rows[number] = row
        return row

    def _walk(self, nodes: Ints, config: int, flags: npt.NDArray[np.bool_]) -> Ints:
        """Set the flags of the tokens below `nodes` that are legal from `config`; the nodes that leave it."""
        trie = self.trie
        exits: list[Ints] = []
        configs = np.full(len(nodes), config, np.int32)
        found: list[int] = []
        while len(nodes):
            if len(nodes) <= _FEW:
                small = self._walk_few(nodes.tolist(), configs.tolist(), found, exits)
                if small is None:
                    break
                nodes, configs = small
                continue
            counts = trie.count[nodes]
            total = int(counts.sum())
            if not total:
                break
            ends = np.cumsum(counts)
            children = np.arange(total, dtype=np.int32) + np.repeat(
                trie.first[nodes] - (ends - counts), counts
            )
            parents = np.repeat(configs, counts)
            used = np.unique(configs)
            table = np.stack([self._row(int(number)) for number in used])
            after = table[np.searchsorted(used, parents), trie.byte[children]]
            left = children[after == -2]
            if len(left):
                exits.append(left.astype(np.int32))
            alive = after >= 0
            nodes, configs = children[alive].astype(np.int32), after[alive]
            tokens = trie.token[nodes]
            flags[tokens[tokens >= 0]] = True
        if found:
            flags[found] = True
        left = np.concatenate(exits) if exits else np.zeros(0, np.int32)
        tokens = trie.token[left]
        flags[tokens[tokens >= 0]] |= len(left) > 0
        if trie.twins:
            for first, others in trie.twins.items():
                if flags[first]:
                    flags[others] = True
        if len(self._configs) > _CONFIGS:
            self._index.clear()
            self._configs.clear()
            self._rows.clear()
        return left

    def _walk_few(
        self, nodes: list[int], configs: list[int], found: list[int], exits: list[Ints]
    ) -> tuple[Ints, Ints] | None:
        """The same, node by node, until nothing is left or more than a few stand side by side."""
        trie, find = self.trie, self.trie.bytes.find
        left: list[int] = []
        while nodes and len(nodes) <= 8 * _FEW:
            next_nodes: list[int] = []
            next_configs: list[int] = []
            for node, config in zip(nodes, configs, strict=True):
                count = trie.count_list[node]
                if not count:
                    continue
                begin = trie.first_list[node]
                row = self._row(config)
                children: Iterable[int] = range(begin, begin + count)
                if count > 8:
                    legal = np.flatnonzero(row != -1).tolist()
                    children = [hit for byte in legal if (hit := find(byte, begin, begin + count)) >= 0]
                for child in children:
                    to = int(row[trie.bytes[child]])
                    if to >= 0:
                        if trie.token_list[child] >= 0:
                            found.append(trie.token_list[child])
                        next_nodes.append(child)
                        next_configs.append(to)
                    elif to == -2:
                        left.append(child)
            nodes, configs = next_nodes, next_configs
        if left:
            exits.append(np.array(left, np.int32))
        if not nodes:
            return None
        return np.array(nodes, np.int32), np.array(configs, np.int32)
