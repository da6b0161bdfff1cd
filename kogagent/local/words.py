"""A model's vocabulary and its tree of bytes, spelled out once and found on disk from then on. Knows no text.

Spelling a hundred thousand tokens and sorting them into a tree takes longer than reading what came of it.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import numpy as np
import tokenizers

import kogagent.tokenizer
from kogagent.disk_cache import Damaged, DiskCache, Found, sources
from kogagent.engine.grammar import trie
from kogagent.errors import ConfigError
from kogagent.tokenizer import Tokenizer

KIND = "words"


def spell(tokenizer: Tokenizer, path: Path, disk: DiskCache | None) -> None:
    """Have the tokenizer's vocabulary and its tree ready; what every turn and every grammar needs. path: what
    the tokenizer was read from."""
    key = "" if disk is None or not disk.on else _key(path)
    _spell(tokenizer, path, disk, key)
    trie.trie_of(tokenizer.vocabulary).disk = (
        disk if key else None
    )  # of engines that share it the last decides


def _spell(tokenizer: Tokenizer, path: Path, disk: DiskCache | None, key: str) -> None:
    if disk is not None and key:
        found = disk.find(KIND, key)
        if found is not None:
            try:
                _take(tokenizer, found)
                return
            except (Damaged, ConfigError, KeyError):
                disk.drop(found)
    vocabulary = tokenizer.vocabulary
    tree = trie.trie_of(vocabulary)
    if disk is not None and key:
        text, first = tree.spelled
        special = np.array(sorted(vocabulary.special), np.int64)
        parts = {f"tree.{name}": array for name, array in tree.arrays.items()}
        parts |= {"text": text, "first": first, "special": special}
        disk.put(KIND, key, {"digest": vocabulary.digest, "model": str(path)}, parts)


def _take(tokenizer: Tokenizer, found: Found) -> None:
    text, ends = found.part("text").tobytes(), found.part("first").tolist()
    tokens = tuple(text[begin:end] for begin, end in itertools.pairwise(ends))
    special = frozenset(found.part("special").tolist())
    vocabulary = tokenizer.take_vocabulary(tokens, special, found.meta["digest"])
    trie.trie_of(vocabulary, {name: found.part(f"tree.{name}") for name in trie.ARRAYS})


def _key(path: Path) -> str:
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    told = [
        (str(file.resolve()), stat.st_size, stat.st_mtime_ns) for file in files for stat in (file.stat(),)
    ]
    made_by = sources(Path(kogagent.tokenizer.__file__).parent, Path(trie.__file__), Path(__file__))
    return hashlib.sha256(repr((made_by, tokenizers.__version__, told)).encode()).hexdigest()[:32]
