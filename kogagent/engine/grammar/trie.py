"""A vocabulary as a tree of bytes, in arrays. Knows no grammar.

Nodes stand level by level, the children of a node side by side in order of their bytes; node 0 is the root.
Special ids, end ids and empty tokens are not in the tree: no text spells them.
"""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.disk_cache import DiskCache
from kogagent.engine.grammar.spelling import Spelling
from kogagent.errors import ConfigError
from kogagent.spec import Vocabulary

Ints = npt.NDArray[np.int32]
NODES = ("byte", "nodes")
"""Names of the arrays of a `Tree`."""
ARRAYS = (*NODES, "twins", "reach")
"""Names of `TokenTrie.arrays`."""


def distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """They, sorted, each once. np.unique imports numpy.ma first, which takes longer than a first mask."""
    ordered = np.sort(numbers)
    kept: npt.NDArray[Any] = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return kept


class Tree:
    """byte[n] of the edge into node n; its children are first[n] .. first[n] + count[n]; token[n] is the
    number of the text that ends there, or -1."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """byte [n]; nodes [n, 3]: first, count and token, which are asked for together."""
        self.byte, self.nodes = (arrays[name] for name in NODES)
        self.first, self.count, self.token = (self.nodes[:, i] for i in range(3))
        self.for_programs: Any = None  # what a program is told of it

    # Copies for walks of single nodes in Python, where plain lists are faster.
    @cached_property
    def bytes(self) -> builtins.bytes:
        return self.byte.tobytes()

    @cached_property
    def first_list(self) -> list[int]:
        found: list[int] = self.first.tolist()
        return found

    @cached_property
    def count_list(self) -> list[int]:
        found: list[int] = self.count.tolist()
        return found

    @cached_property
    def token_list(self) -> list[int]:
        found: list[int] = self.token.tolist()
        return found

    def children(self, nodes: Ints) -> tuple[Ints, npt.NDArray[np.intp]]:
        """All children of some nodes, and for each the place of its parent in `nodes`."""
        counts = self.count[nodes]
        ends = np.cumsum(counts)
        above = np.repeat(np.arange(len(nodes)), counts)
        children = np.arange(len(above), dtype=np.int32) + (self.first[nodes] - (ends - counts))[above]
        return children.astype(np.int32, copy=False), above

    def child(self, node: int, byte: int) -> int:
        """The node one byte further, or -1."""
        begin = self.first_list[node]
        return self.bytes.find(byte, begin, begin + self.count_list[node])

    def find(self, text: builtins.bytes) -> int:
        """The node of a text, or -1 where nothing begins with it."""
        node, find, first, count = 0, self.bytes.find, self.first_list, self.count_list
        for byte in text:
            begin = first[node]
            node = find(byte, begin, begin + count[node])
            if node < 0:
                return -1
        return node


class TokenTrie(Tree):
    """The texts are tokens, their numbers ids; further ids with the same bytes are in `twins`. reach: bytes
    of the longest token. names: the text of each special id. known: what walks through states shared by all
    grammars found here; disk: where that is kept besides."""

    def __init__(self, vocabulary: Vocabulary, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """arrays: what the `arrays` of a tree of the same vocabulary were."""
        self.vocabulary = vocabulary
        self.words = (len(vocabulary) + 31) // 32
        self.end_ids = vocabulary.end_ids
        if not self.end_ids:
            raise ConfigError("a grammar needs a vocabulary with an end id; set Vocabulary.end_ids")
        if arrays is None:
            closed = set(vocabulary.end_ids) | vocabulary.special
            tokens = vocabulary.tokens
            order = sorted((i for i, t in enumerate(tokens) if t and i not in closed), key=tokens.__getitem__)
            self.arrays = built([tokens[i] for i in order], np.array(order, np.int32))
        else:
            self.arrays = {name: np.array(array) for name, array in arrays.items()}
        super().__init__(self.arrays)
        self.reach = int(self.arrays["reach"][0])
        self.twins: dict[int, list[int]] = {}
        for token, twin in self.arrays["twins"].tolist():
            self.twins.setdefault(token, []).append(twin)
        # A grammar walks byte by byte: where a byte has no token of its own it could get stuck.
        first = slice(1, 1 + int(self.count[0]))
        self.unspellable = frozenset(range(256)) - set(self.byte[first][self.token[first] >= 0].tolist())
        self.names = {
            vocabulary.tokens[i].decode("utf-8", "replace"): i
            for i in sorted(vocabulary.special - set(vocabulary.end_ids), reverse=True)
            if vocabulary.tokens[i]
        }
        self.known: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self.spelling = Spelling(vocabulary)
        self.disk: DiskCache | None = None

    @cached_property
    def spelled(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
        """The bytes of all ids one after the other, and where each begins [V+1]: for programs."""
        tokens = self.vocabulary.tokens
        first = np.zeros(len(tokens) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, tokens), np.uint32, len(tokens)), out=first[1:])
        return np.frombuffer(b"".join(tokens) or b"\0", np.uint8), first

    def ends(self, text: builtins.bytes) -> bool:
        """Whether some token ends with these bytes."""
        return self.backwards.find(text[::-1]) >= 0

    @cached_property
    def backwards(self) -> Tree:
        """The tokens from their last byte to their first; some tenths of a second for 150,000."""
        closed = set(self.vocabulary.end_ids) | self.vocabulary.special
        texts = {text[::-1] for i, text in enumerate(self.vocabulary.tokens) if text and i not in closed}
        return Tree(built(sorted(texts), np.arange(len(texts), dtype=np.int32)))


def built(texts: Sequence[bytes], ids: Ints) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a tree of sorted texts, none of them empty, with their numbers."""
    lengths = np.array([len(t) for t in texts], np.int32)
    reach = int(lengths.max(initial=1))
    padded = np.zeros((len(texts), reach), np.uint8)
    flat = np.frombuffer(b"".join(texts), np.uint8)
    rows = np.repeat(np.arange(len(texts)), lengths)
    columns = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    padded[rows, columns] = flat
    # shared[i]: leading bytes token i has in common with the one before it.
    shared = np.zeros(len(texts), np.int32)
    if len(texts) > 1:
        differ = padded[1:] != padded[:-1]
        shared[1:] = np.where(differ.any(1), differ.argmax(1), reach)
        shared[1:] = np.minimum(shared[1:], np.minimum(lengths[1:], lengths[:-1]))
    byte, first, count = [np.zeros(1, np.uint8)], [np.zeros(1, np.int32)], [np.zeros(1, np.int32)]
    node_of = np.zeros(len(texts), np.int32)  # the node of each token at the level above
    ends: list[tuple[Ints, Ints]] = []
    alive = np.arange(len(texts))
    base = 1
    for level in range(1, reach + 1):
        alive = alive[lengths[alive] >= level]
        fresh = shared[alive] < level
        # In sorted order a prefix seen before was seen in the direct neighbour.
        number = base + np.cumsum(fresh, dtype=np.int32) - 1
        parents = node_of[alive[fresh]]
        above_base = base - len(count[-1])
        children = np.bincount(parents - above_base, minlength=len(count[-1])).astype(np.int32)
        count[-1] = children
        first[-1] = (base + np.cumsum(children) - children).astype(np.int32)
        byte.append(padded[alive[fresh], level - 1])
        size = int(fresh.sum())
        first.append(np.zeros(size, np.int32))
        count.append(np.zeros(size, np.int32))
        node_of[alive] = number
        done = lengths[alive] == level
        ends.append((number[done], ids[alive[done]]))
        base += size
    token = np.full(base, -1, np.int32)
    twins: list[tuple[int, int]] = []
    for nodes, tokens in ends:
        token[nodes[::-1]] = tokens[::-1]  # of equal tokens the first stands in the array
        if len(distinct(nodes)) < len(nodes):
            pairs = zip(token[nodes].tolist(), tokens.tolist(), strict=True)
            twins += [(one, twin) for one, twin in pairs if one != twin]
    return {
        "byte": np.concatenate(byte),
        "nodes": np.stack([np.concatenate(first), np.concatenate(count), token], 1),
        "twins": np.array(twins, np.int32).reshape(-1, 2),
        "reach": np.array([reach], np.int32),
    }


_TRIES: OrderedDict[tuple[str, bool], TokenTrie] = OrderedDict()
_LOCK = threading.Lock()


def trie_of(vocabulary: Vocabulary, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> TokenTrie:
    """The tree of a vocabulary, built once, or made of its arrays; the last four are kept."""
    key = (vocabulary.digest, vocabulary.encode is not None)
    with _LOCK:
        trie = _TRIES.get(key)
        if trie is None:
            trie = _TRIES[key] = TokenTrie(vocabulary, arrays)
            while len(_TRIES) > 4:
                _TRIES.popitem(last=False)
        _TRIES.move_to_end(key)
    return trie
