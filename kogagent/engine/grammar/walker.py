"""Which tokens are legal in a configuration: an automaton walked along a vocabulary's tree. Knows no text.

All tokens are walked at once, level by level, each node with the configuration its bytes lead to. To make the
configurations few, counts are replaced by classes that no single token can tell apart (`normal`), so what is
found for one stands for all counts of the class, however large the bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.disk_cache import Damaged, sources
from kogagent.engine.grammar.automaton import (
    COUNT,
    END,
    FAR,
    LOW,
    RETURN,
    TARGET,
    UNBOUNDED,
    Automaton,
    Frame,
)
from kogagent.engine.grammar.trie import Ints, TokenTrie, distinct

Config = tuple[int, Frame]

_KEPT = 512  # bodies kept for one vocabulary
_NEVER = 0xFFFF
_CONFIGS = 4096  # configurations kept for one grammar before their rows are dropped
_FEW = 24  # nodes below which plain Python is faster than arrays
_ROOT = np.zeros(1, np.int32)


@dataclass(frozen=True, slots=True)
class Body:
    """All tokens from one shared state. counts [32 * words]: the code points each id counts, _NEVER where it
    is illegal; exits: the tree's nodes where the frame is left, exit_counts: what was counted until there."""

    counts: npt.NDArray[np.uint16]
    exits: Ints
    exit_counts: Ints


class Walker:
    """One automaton over one vocabulary; what it learns is kept."""

    def __init__(self, automaton: Automaton, trie: TokenTrie) -> None:
        self.automaton = automaton
        self.trie = trie
        self.margin = trie.reach + automaton.max_need  # of counts: further from the most is far
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
            elif count >= least and most - count >= self.margin:
                count = FAR
        return (site, count, self.normal(below))

    # ── the tree ──
    def legal_ids(self, state: int, frame: Frame) -> npt.NDArray[np.bool_]:
        """Flags [32 * words] of the ordinary ids whose bytes can follow; frame in normal form."""
        site, count, below = frame
        if state in self.automaton.bodies and below is not None:
            body = self._body(state)
            most = self.automaton.sites[site][3]
            # A class of counts: far from both bounds, or far below the least one.
            room = most - count if count >= 0 else UNBOUNDED
            flags = body.counts <= min(room, _NEVER - 1)
            after = self.automaton.returned(frame)
            if after is not None:
                exits = self._exits(body, frame)
                tokens = self.trie.token[exits]
                flags[tokens[tokens >= 0]] = True
                self._flag(exits, self._number(after), flags)
            return flags
        flags = np.zeros(32 * self.trie.words, np.bool_)
        self._flag(_ROOT, self._number((state, frame)), flags)
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

    def _body(self, state: int) -> Body:
        """What tokens do from a shared state, whatever the bounds. The same in every grammar: kept with the
        vocabulary."""
        known = self.trie.known
        key = (self.automaton.library, state)
        found = known.get(key)
        if found is None:
            found = known[key] = self._kept_body(state)
            while len(known) > _KEPT:
                known.popitem(last=False)
        return found

    def _kept_body(self, state: int) -> Body:
        """The same from the disk where there is one, and it is there."""
        disk = self.trie.disk
        if disk is None:
            return self._walk_body(state)
        told = (self.trie.vocabulary.digest, self.automaton.library, state, sources(Path(__file__).parent))
        key = hashlib.sha256(repr(told).encode()).hexdigest()[:32]
        found = disk.find("body", key)
        if found is not None:
            try:
                return Body(*(np.array(found.part(name)) for name in ("counts", "exits", "exit_counts")))
            except Damaged:
                disk.drop(found)
        body = self._walk_body(state)
        parts: dict[str, npt.NDArray[Any]] = {"counts": body.counts, "exits": body.exits}
        disk.put("body", key, {}, parts | {"exit_counts": body.exit_counts})
        return body

    def _walk_body(self, state: int) -> Body:
        """All tokens from one state of a body, each with the code points it counts on the way."""
        trie = self.trie
        counts = np.full(32 * trie.words, _NEVER, np.uint16)
        exits, exit_counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        numbers: dict[int, int] = {state: 0}
        rows: list[npt.NDArray[np.int32]] = []
        counted: list[npt.NDArray[np.int32]] = []
        order = [state]
        for at in order:
            row, count = np.full(256, -1, np.int32), np.zeros(256, np.int32)
            for symbol, move in self.automaton.rows[at].items():
                if symbol < END:
                    target = move & TARGET
                    if target != RETURN and target not in numbers:
                        numbers[target] = len(order)
                        order.append(target)
                    row[symbol] = -2 if target == RETURN else numbers[target]
                    count[symbol] = move & COUNT != 0
            rows.append(row)
            counted.append(count)
        table, plus = np.stack(rows), np.stack(counted)
        nodes, states, sums = _ROOT, np.zeros(1, np.int32), np.zeros(1, np.int32)
        while len(nodes):
            children, parents = trie.children(nodes)
            bytes_ = trie.byte[children]
            after = table[states[parents], bytes_]
            sums = sums[parents] + plus[states[parents], bytes_]
            left = after == -2
            exits.append(children[left])
            exit_counts.append(sums[left])
            inside = after >= 0
            nodes, states, sums = children[inside], after[inside], sums[inside]
            tokens = trie.token[nodes]
            counts[tokens[tokens >= 0]] = sums[tokens >= 0]
        for first, others in trie.twins.items():
            counts[others] = counts[first]
        return Body(counts, np.concatenate(exits), np.concatenate(exit_counts))

    def _number(self, config: Config) -> int:
        number = self._index.get(config)
        if number is None:
            number = self._index[config] = len(self._configs)
            self._configs.append(config)
            self._rows.append(None)
        return number

    def _row(self, number: int) -> npt.NDArray[np.int32]:
        """[256]: the configuration each byte leads to, -1 where illegal."""
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
                        to = seen[key] = -1 if after is None else self._number(after)
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

    def _exits(self, body: Body, frame: Frame) -> Ints:
        """The nodes of a body at which its frame, in normal form, can be left."""
        site, count, _ = frame
        _, _, least, most = self.automaton.sites[site]
        if count < 0:
            return body.exits[:0] if count == LOW else body.exits
        fits: npt.NDArray[np.bool_] = body.exit_counts <= most - count
        return body.exits[fits & (body.exit_counts >= least - count)]

    def _flag(self, nodes: Ints, config: int, flags: npt.NDArray[np.bool_]) -> None:
        """Set the flags of the ids below `nodes` that are legal from `config` there."""
        trie = self.trie
        configs = np.full(len(nodes), config, np.int32)
        while len(nodes):
            if len(nodes) <= _FEW:
                found: list[int] = []
                nodes, configs = self._walk_few(nodes.tolist(), configs.tolist(), found)
                flags[found] = True
                continue
            children, above = trie.children(nodes)
            parents = configs[above]
            used = distinct(configs)
            table = np.stack([self._row(int(number)) for number in used])
            after = table[np.searchsorted(used, parents), trie.byte[children]]
            alive = after >= 0
            nodes, configs = children[alive], after[alive]
            tokens = trie.token[nodes]
            flags[tokens[tokens >= 0]] = True
        for first, others in trie.twins.items():
            if flags[first]:
                flags[others] = True
        self._forget()

    def _forget(self) -> None:
        if len(self._configs) > _CONFIGS:
            self._index.clear()
            self._configs.clear()
            self._rows.clear()

    def _walk_few(self, nodes: list[int], configs: list[int], found: list[int]) -> tuple[Ints, Ints]:
        """The same, node by node, while only a few stand side by side; where it stopped."""
        trie, find = self.trie, self.trie.bytes.find
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
                    legal = np.flatnonzero(row >= 0).tolist()
                    children = [hit for byte in legal if (hit := find(byte, begin, begin + count)) >= 0]
                for child in children:
                    to = int(row[trie.bytes[child]])
                    if to >= 0:
                        if trie.token_list[child] >= 0:
                            found.append(trie.token_list[child])
                        next_nodes.append(child)
                        next_configs.append(to)
            nodes, configs = next_nodes, next_configs
        return np.array(nodes, np.int32), np.array(configs, np.int32)
