"""The bytes that are forced from a configuration, and where tokens may reach across their end. Knows no ids.

What is found for one configuration serves those inside its text.
"""

from __future__ import annotations

from typing import NamedTuple

from kogagent.engine.grammar.automaton import END, Automaton, Frame
from kogagent.engine.grammar.trie import TokenTrie

LONGEST = 4096
"""Symbols of one forced run."""

_KEPT = 2048

Config = tuple[int, Frame]
_Chain = tuple[bytes, int, Frame, int | None]


class Forced(NamedTuple):
    """text: the bytes. symbol: the id's symbol that is forced behind them, or None. borders: where it is
    None, at how many bytes from the end of the text a token may begin that goes on legally behind it,
    ascending; 0, the end itself, comes first."""

    text: bytes
    symbol: int | None
    borders: tuple[int, ...]


class ForcedTexts:
    """Those of one automaton over one vocabulary."""

    def __init__(self, automaton: Automaton, trie: TokenTrie) -> None:
        self._automaton, self._trie = automaton, trie
        self._chains: dict[Config, _Chain] = {}
        self._known_borders: dict[Config, tuple[bytes, tuple[int, ...]]] = {}

    def at(self, state: int, frame: Frame) -> Forced | None:
        """What is forced here, None where nothing is; frame in normal form."""
        text, state, frame, symbol = self._chain(state, frame)
        if symbol is not None:
            return Forced(text, symbol, ())
        return Forced(text, None, self._borders(text, state, frame)) if text else None

    def after(self, state: int, frame: Frame, size: int) -> Config:
        """The configuration behind the first `size` bytes of what is forced here."""
        text, last, frames, _ = self._chain(state, frame)
        if size == len(text):
            return last, frames
        there = self._automaton.read(state, frame, text[:size])
        assert there is not None, "a forced byte is illegal"
        return there

    def _chain(self, state: int, frame: Frame) -> _Chain:
        """Without borders. Chains that begin inside one another share their end."""
        chains, step = self._chains, self._automaton.step
        text = bytearray()
        passed: list[Config] = []
        while len(text) < LONGEST:
            known = chains.get((state, frame))
            if known is not None:
                break
            symbol = self._automaton.only(state, frame)
            if symbol is None or symbol >= END:
                known = b"", state, frame, symbol
                break
            passed.append((state, frame))
            text.append(symbol)
            after = step(state, frame, symbol)
            if after is None or (after[1][1] < 0 and after == (state, frame)):
                known = b"", state, frame, None
                break
            state, frame = after
        rest, state, frame, symbol = (b"", state, frame, None) if known is None else known
        whole = bytes(text) + rest
        if len(chains) > _KEPT:
            chains.clear()
        for i, config in enumerate(passed):
            chains[config] = whole[i:], state, frame, symbol
        return whole, state, frame, symbol

    def _borders(self, text: bytes, state: int, frame: Frame) -> tuple[int, ...]:
        """What is found for one text serves those that end alike."""
        reach, size = self._trie.reach, len(text)
        tail = text[-(reach - 1) :] if reach > 1 else b""
        known, backs = self._known_borders.get((state, frame), (b"", (0,)))
        if not tail.endswith(known):
            if known.endswith(tail):
                return tuple(back for back in backs if back <= size)
            known, backs = b"", (0,)
        for back in range(len(known) + 1, len(tail) + 1):
            node = self._trie.find(text[size - back :])
            if node >= 0 and self._can_continue(node, state, frame):
                backs = (*backs, back)
        if len(self._known_borders) > _KEPT:
            self._known_borders.clear()
        self._known_borders[state, frame] = tail, backs
        return backs

    def _can_continue(self, node: int, state: int, frame: Frame) -> bool:
        """Whether a token that goes through `node` can go on legally from this configuration there."""
        trie, automaton = self._trie, self._automaton
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
