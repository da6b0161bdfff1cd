"""Vocabularies that were spelled out before: the same tokens and the same tree, and new ones where the files
or the cache changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_tokenizers import added, byte_level_gguf, train_byte_level, write_directory

from kogagent.disk_cache import DiskCache
from kogagent.engine.grammar import trie
from kogagent.engine.grammar.trie import TokenTrie
from kogagent.errors import ConfigError
from kogagent.local.words import spell
from kogagent.tokenizer import Tokenizer, tables


@pytest.fixture
def spelled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokenizers whose vocabulary was spelled out; no tree is known when the test begins."""
    made: list[str] = []
    real = tables.build

    def build(source: Any, encode: Any) -> Any:
        made.append(source.where)
        return real(source, encode)

    monkeypatch.setattr(tables, "build", build)
    monkeypatch.setattr(trie, "_TRIES", type(trie._TRIES)())
    return made


@pytest.fixture(params=["directory", "gguf"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    config = train_byte_level(400)
    size = len(config["model"]["vocab"])
    extra = [added(size, "<|end|>", special=True), added(size + 1, "grüß dich 😀", special=False)]
    config = {**config, "added_tokens": extra}
    if request.param == "gguf":
        return byte_level_gguf(tmp_path / "model.gguf", config, None, eos_token_id=size)
    return write_directory(tmp_path / "model", config, {"eos_token": "<|end|>"})


def _spelled(path: Path, disk: DiskCache | None) -> Tokenizer:
    tokenizer = Tokenizer.load(path)
    trie._TRIES.clear()
    spell(tokenizer, path, disk)
    return tokenizer


def test_what_was_spelled_is_found_with_its_tree(path: Path, tmp_path: Path, spelled: list[str]) -> None:
    disk = DiskCache(tmp_path / "kept", limit=1 << 30)
    first = _spelled(path, disk)
    tree = trie.trie_of(first.vocabulary)
    again = _spelled(path, disk)
    assert len(spelled) == 1
    assert again.vocabulary == first.vocabulary and again.vocabulary.digest == first.vocabulary.digest
    assert again.vocabulary.line_ends == first.vocabulary.line_ends
    text = "Grüß dich, Welt!\n 123"
    assert again.decode(again.encode(text)) == text
    assert again.vocabulary.encode is not None
    assert again.vocabulary.encode(text) == first.encode_continuing(text)
    assert len(trie._TRIES) == 1  # ready
    found = trie.trie_of(again.vocabulary)
    assert found is not tree
    for one in (tree, TokenTrie(first.vocabulary)):
        for name in trie.ARRAYS:
            np.testing.assert_array_equal(found.arrays[name], one.arrays[name])
        for name in ("twins", "reach", "unspellable", "names", "words", "end_ids", "bytes", "first_list"):
            assert getattr(found, name) == getattr(one, name), name


def test_changed_files_and_damaged_ones_are_spelled_anew(
    path: Path, tmp_path: Path, spelled: list[str], rng: np.random.Generator
) -> None:
    disk = DiskCache(tmp_path / "kept", limit=1 << 30)
    wanted = _spelled(path, disk).vocabulary
    (entry,) = disk.entries("words")
    data = bytearray(entry.path.read_bytes())
    at = data.index(b"".join(wanted.tokens))
    data[at + int(rng.integers(100))] ^= 1
    entry.path.write_bytes(data)
    assert _spelled(path, disk).vocabulary == wanted
    assert len(spelled) == 2
    disk.put("words", entry.path.name.removeprefix("words-").removesuffix(".kept"), {}, {})
    assert _spelled(path, disk).vocabulary == wanted
    assert len(spelled) == 3
    file = path if path.is_file() else path / "tokenizer.json"
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 10**9))
    assert _spelled(path, disk).vocabulary == wanted
    assert len(spelled) == 4
    for off in (None, DiskCache(tmp_path / "kept", limit=0)):
        _spelled(path, off)
    assert len(spelled) == 6


def test_special_ids_that_are_none_are_refused(path: Path) -> None:
    tokenizer = Tokenizer.load(path)
    with pytest.raises(ConfigError, match="special or end ids"):
        tokenizer.take_vocabulary((b"a", b"b"), frozenset({7}), "digest")
