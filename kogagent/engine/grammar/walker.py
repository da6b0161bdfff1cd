"""Which tokens are legal in a configuration, and which bytes are forced. Knows no text.

All tokens are walked at once, level by level, each node with the configuration its bytes lead to. To make the
configurations few, counts are replaced by classes that no single token can tell apart (`normal`), so what is
found for one stands for all counts of the class, however large the bounds. Where the compiled program is
there it does the same (compiled.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.automaton import END, FAR, LOW, SPECIAL, UNBOUNDED, Automaton, Frame
from kogagent.engine.grammar.bodies import Body, Mask, body_of, packed
from kogagent.engine.grammar.compiled import CompiledWalker, compiled_walker
from kogagent.engine.grammar.forced import Config, Forced, ForcedTexts
from kogagent.engine.grammar.tables import NO_ROOM, Tables, make_tables
from kogagent.engine.grammar.trie import Ints, TokenTrie, Tree, distinct
from kogagent.errors import SchemaError

_CONFIGS = 4096  # configurations kept for one grammar before their rows are dropped
_FEW = 24  # nodes below which plain Python is faster than arrays
_ROOT = np.zeros(1, np.int32)


class Walker:
    """One automaton over one vocabulary; what it learns is kept.

    compiled: whether to walk by the compiled program where that is there and its tables can hold the
    automaton.
    """

    def __init__(self, automaton: Automaton, trie: TokenTrie, *, compiled: bool = True) -> None:
        self.automaton = automaton
        self.trie = trie
        self.margin = trie.reach + automaton.max_need  # of counts: further from the most is far
        self._reach = trie.reach
        self._normal: dict[Frame, Frame] = {}
        self._may_compile = compiled
        self._texts = ForcedTexts(automaton, trie)
        self._index: dict[Config, int] = {}
        self._configs: list[Config] = []
        self._rows: list[npt.NDArray[np.int32] | None] = []

    @cached_property
    def tables(self) -> Tables:
        """The automaton as arrays. Raises SchemaError where they cannot hold it."""
        return make_tables(self.automaton)

    @cached_property
    def compiled(self) -> CompiledWalker | None:
        """The program over the same automaton and vocabulary, None where there is none."""
        if not self._may_compile:
            return None
        try:
            return compiled_walker(lambda: self.tables, self.trie, self.margin)
        except SchemaError:
            return None

    def normal(self, frame: Frame) -> Frame:
        """The frames with each count replaced by its class; these very frames where none is."""
        site, count, below = frame
        if below is None:
            return frame
        lower = self._normal.get(below)  # the same ones lie below time and again
        if lower is None:
            if len(self._normal) >= _CONFIGS:
                self._normal.clear()
            lower = self._normal[below] = self.normal(below)
        if count >= 0:
            _, _, least, most = self.automaton.sites[site]
            if least - count > self._reach:
                return site, LOW, lower
            if count >= least and most - count >= self.margin:
                return site, FAR, lower
        return frame if lower is below else (site, count, lower)

    def has_choice(self, state: int, frame: Frame) -> bool:
        """Whether two symbols are certainly legal here; frame in normal form. A quick look: False says
        nothing."""
        compiled = self.compiled
        if compiled is None:
            return False
        room = compiled.choice_room(state)
        site, count, _ = frame
        return room == 0 or (
            room != NO_ROOM
            and (count == FAR or (count >= 0 and self.automaton.sites[site][3] - count >= room))
        )

    # ── frames in normal form ──
    def forced(self, state: int, frame: Frame) -> Forced | None:
        """The bytes that are forced here, and what comes behind them; None where there is a choice."""
        compiled = self.compiled
        return self._texts.at(state, frame) if compiled is None else compiled.forced(state, frame)

    def after(self, state: int, frame: Frame, size: int) -> Config:
        """The configuration behind the first `size` bytes of what is forced here."""
        compiled = self.compiled
        walk = self._texts.after if compiled is None else compiled.after
        return walk(state, frame, size)

    def mask(self, state: int, frame: Frame) -> Mask:
        """Every id [words] that is legal here, forced or not; read-only."""
        site, count, below = frame
        within = None
        if state in self.automaton.bodies and below is not None:
            # A class of counts: far from both bounds, or far below the least one.
            room = self.automaton.sites[site][3] - count if count >= 0 else UNBOUNDED
            within = body_of(self.automaton, self.trie, state).within(room)
        compiled = self.compiled
        if compiled is not None:
            return compiled.mask(state, frame, within)
        mask = self._all(state, frame) if within is None else within.mask | self._left(within.body, frame)
        for symbol in self.automaton.legal(state, frame):
            ids = self.trie.end_ids if symbol == END else (symbol - SPECIAL,) if symbol > END else ()
            for id in ids:
                mask[id // 32] |= np.uint32(1 << id % 32)
        mask.setflags(write=False)
        return mask

    # ── the same without the program ──
    def _all(self, state: int, frame: Frame) -> Mask:
        """The ordinary ids whose bytes can follow."""
        flags = np.zeros(32 * self.trie.words, np.bool_)
        for found in self._found(self.trie, (state, frame)):
            flags[found] = True
        for first, others in self.trie.twins.items():
            if flags[first]:
                flags[others] = True
        return packed(flags)

    def _left(self, body: Body, frame: Frame) -> Mask:
        """The ids that leave a body and can go on behind it."""
        flags = np.zeros(32 * self.trie.words, np.bool_)
        site, count, _ = frame
        after = None if count == LOW else self.automaton.returned(frame)
        if after is not None:
            groups = [int(group) for found in self._found(body.tree, after) for group in found]
            _, _, least, most = self.automaton.sites[site]
            bounds = (least - count, most - count) if count >= 0 else (0, None)
            flags[body.behind(groups, *bounds)] = True
        return packed(flags)

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

    def _found(self, tree: Tree, config: Config) -> Iterable[list[int] | Ints]:
        """The numbers of the texts in a tree that are legal from `config`, some at a time."""
        nodes, configs = _ROOT, np.full(1, self._number(config), np.int32)
        while len(nodes):
            if len(nodes) <= _FEW:
                few: list[int] = []
                nodes, configs = self._walk_few(tree, nodes.tolist(), configs.tolist(), few)
                yield few
                continue
            children, above = tree.children(nodes)
            parents = configs[above]
            used = distinct(configs)
            table = np.stack([self._row(int(number)) for number in used])
            after = table[np.searchsorted(used, parents), tree.byte[children]]
            alive = after >= 0
            nodes, configs = children[alive], after[alive]
            tokens = tree.token[nodes]
            yield tokens[tokens >= 0]
        self._forget()

    def _forget(self) -> None:
        if len(self._configs) > _CONFIGS:
            self._index.clear()
            self._configs.clear()
            self._rows.clear()

    def _walk_few(
        self, tree: Tree, nodes: list[int], configs: list[int], found: list[int]
    ) -> tuple[Ints, Ints]:
        """The same, node by node, while only a few stand side by side; where it stopped."""
        find = tree.bytes.find
        while nodes and len(nodes) <= 8 * _FEW:
            next_nodes: list[int] = []
            next_configs: list[int] = []
            for node, config in zip(nodes, configs, strict=True):
                count = tree.count_list[node]
                if not count:
                    continue
                begin = tree.first_list[node]
                row = self._row(config)
                children: Iterable[int] = range(begin, begin + count)
                if count > 8:
                    legal = np.flatnonzero(row >= 0).tolist()
                    children = [hit for byte in legal if (hit := find(byte, begin, begin + count)) >= 0]
                for child in children:
                    to = int(row[tree.bytes[child]])
                    if to >= 0:
                        if tree.token_list[child] >= 0:
                            found.append(tree.token_list[child])
                        next_nodes.append(child)
                        next_configs.append(to)
            nodes, configs = next_nodes, next_configs
        return np.array(nodes, np.int32), np.array(configs, np.int32)
