"""The tokenizer inside a GGUF file, rebuilt for the tokenizers library. Knows llama.cpp's names for things.

Two families: `gpt2`, byte-level BPE with merges and a named pre-tokenizer, and `llama`, SentencePiece BPE
with scores and byte fallback. A pre-tokenizer outside PRE_TOKENIZERS is refused: guessing one gives ids that
the model has never seen for this text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kogagent.errors import ConfigError
from kogagent.gguf_header import read_header
from kogagent.tokenizer.source import END_NAMES, Added, Source, is_tag

_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)  # tokenizer.ggml.token_type

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _WORDS + r"\p{N}{1,3}" + _REST
_QWEN2 = _WORDS + r"\p{N}" + _REST

PRE_TOKENIZERS: Mapping[str, tuple[str, ...]] = {
    "gpt-2": (_GPT2,),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "command-r": (r"\p{N}", _GPT2),
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
}
"""tokenizer.ggml.pre -> regular expressions that cut the text, one after the other, as llama.cpp has them."""

_LLAMA3_NAMES = frozenset({"llama-bpe", "llama3", "llama-v3"})
_NFC_NAMES = frozenset({"qwen2", "deepseek-r1-qwen"})  # normalised in the original, so in training


def read_gguf(path: Path) -> Source:
    """Read the tokenizer of a GGUF file.

    Raises ConfigError for a file that is truncated or has no tokenizer, and for a tokenizer model or a
    pre-tokenizer that is not known.
    """
    values = _Values(read_header(path).metadata, path)
    tokens: list[str] = values.get("tokens", list)
    kinds: list[int] = values.get("token_type", list, [_NORMAL] * len(tokens))
    if len(kinds) != len(tokens):
        raise ConfigError(f"{path}: {len(kinds)} token types for {len(tokens)} tokens")
    model = values.get("model", str)
    if model == "gpt2":
        pre = values.get("pre", str, "default")
        if pre not in PRE_TOKENIZERS:
            raise ConfigError(
                f"{path}: pre-tokenizer {pre!r} is not supported. Supported: {', '.join(PRE_TOKENIZERS)}."
            )
        parts = _byte_level(values, tokens, kinds, pre)
        add_bos = values.get("add_bos_token", bool, pre in _LLAMA3_NAMES)
    elif model == "llama":
        parts = _sentencepiece(values, tokens, kinds)
        add_bos = values.get("add_bos_token", bool, True)
    else:
        raise ConfigError(f"{path}: tokenizer model {model!r} is not supported. Supported: 'gpt2', 'llama'.")
    added = _added(tokens, kinds)
    model, config = parts.pop("model"), {"version": "1.0", **parts}
    try:
        core = _core(model, config, added)
    except Exception as error:  # the library raises a bare Exception
        raise ConfigError(f"{path}: its vocabulary and merges do not fit together ({error})") from error
    bos = values.token_id("bos", len(tokens))
    names = {
        f"{role}_token": tokens[id]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (id := values.token_id(key, len(tokens))) is not None
    }
    ends = [values.token_id(key, len(tokens)) for key in ("eos", "eot", "eom")]
    ends += [token.id for token in added if token.control and token.name in END_NAMES]
    return Source(
        where=str(path),
        core=core,
        config=config,
        added=added,
        bos_id=bos,
        add_bos=add_bos and bos is not None,
        end_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        templates=values.templates(),
        names=names,
    )


def _core(model: Mapping[str, Any], config: Mapping[str, Any], added: Sequence[Added]) -> Any:
    """The library's tokenizer. Vocabulary and merges go in as they are: as JSON they take twice the time."""
    from tokenizers import AddedToken, models
    from tokenizers import Tokenizer as Core

    core = Core.from_str(json.dumps({**config, "model": {"type": "BPE", "vocab": {}, "merges": []}}))
    core.model = models.BPE(**model)
    for token in added:
        one = AddedToken(token.name, special=token.control, normalized=False)
        (core.add_special_tokens if token.control else core.add_tokens)([one])
    return core


class _Values:
    """Keys below tokenizer.ggml, type-checked."""

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self._values = values
        self._path = path

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        name = f"tokenizer.ggml.{key}"
        value = self._values.get(name, default)
        if value is None:
            raise ConfigError(f"{self._path}: no {name!r}: the file has no usable tokenizer")
        if not isinstance(value, kind):
            raise ConfigError(f"{self._path}: {name!r} is a {type(value).__name__}, expected {kind.__name__}")
        return value

    def token_id(self, role: str, size: int) -> int | None:
        name = f"tokenizer.ggml.{role}_token_id"
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or not 0 <= value < size:
            raise ConfigError(f"{self._path}: {name}={value!r} lies outside the vocabulary of {size} tokens")
        return value

    def templates(self) -> dict[str, str]:
        prefix = "tokenizer.chat_template"
        out = {}
        for key, value in self._values.items():
            if key == prefix:
                out["default"] = value
            elif key.startswith(prefix + "."):
                out[key.removeprefix(prefix + ".")] = value
        return out


def _added(tokens: Sequence[str], kinds: Sequence[int]) -> tuple[Added, ...]:
    return tuple(
        Added(id, name, kind != _USER or is_tag(name))
        for id, (name, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_UNKNOWN, _CONTROL, _USER)
    )


def _byte_level(values: _Values, tokens: Sequence[str], kinds: Sequence[int], pre: str) -> dict[str, Any]:
    cuts = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in PRE_TOKENIZERS[pre]
    ]
    to_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    if values.get("add_space_prefix", bool, False):
        to_bytes["add_prefix_space"] = True
    return {
        "normalizer": {"type": "NFC"} if pre in _NFC_NAMES else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, to_bytes]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "vocab": _vocab(tokens, kinds),
            "merges": [_pair(merge) for merge in values.get("merges", list)],
            "ignore_merges": pre in _LLAMA3_NAMES,
        },
    }


def _sentencepiece(values: _Values, tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, Any]:
    scores: list[float] = values.get("scores", list)
    if len(scores) != len(tokens):
        raise ConfigError(f"{len(scores)} scores for {len(tokens)} tokens")
    vocab = _vocab(tokens, kinds)
    pieces = {name: scores[id] for name, id in vocab.items() if kinds[id] == _NORMAL}
    unknown = next((tokens[id] for id, kind in enumerate(kinds) if kind == _UNKNOWN), None)
    prefix = values.get("add_space_prefix", bool, True)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*([{"type": "Prepend", "prepend": "▁"}] if prefix else []), spaces],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip],
        },
        "model": {
            "vocab": vocab,
            "merges": _merges(vocab, pieces),
            "byte_fallback": True,
            "fuse_unk": True,
            "unk_token": unknown,
        },
    }


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _vocab(tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, int]:
    return {name: id for id, (name, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != _UNUSED}


def _merges(vocab: Mapping[str, int], pieces: Mapping[str, float]) -> list[tuple[str, str]]:
    """The merge list that tokenises as SentencePiece does: at each step the pair whose piece scores best."""
    found = [
        (-score, len(piece) - cut, vocab[piece[:cut]], piece[:cut], piece[cut:])
        for piece, score in pieces.items()
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
    return [(left, right) for *_, left, right in sorted(found)]
