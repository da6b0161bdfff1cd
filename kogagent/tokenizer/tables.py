"""The bytes of every id. Knows decoders of the tokenizers library as data; encodes nothing.

Two kinds of vocabulary. Byte-level BPE spells each byte as one printable character (GPT-2's table).
Llama-2-style BPE spells a space as "▁" and a byte outside its alphabet as a token "<0x0A>".
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kogagent.errors import ConfigError
from kogagent.spec import Vocabulary
from kogagent.tokenizer.source import Source

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's table: character -> byte. Printable Latin-1 stands for itself, the rest for 256, 257, …"""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    hidden = [b for b in range(256) if b not in set(printable)]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}


def parts(node: Any) -> Iterator[Mapping[str, Any]]:
    """The leaves of a normalizer, pre-tokenizer or decoder, sequences opened."""
    if node is None:
        return
    if node["type"] == "Sequence":
        for key in ("normalizers", "pretokenizers", "decoders"):
            for inner in node.get(key, ()):
                yield from parts(inner)
    else:
        yield node


def is_byte_level(source: Source) -> bool:
    """True for byte-level BPE, False for Llama-2-style. ConfigError for a decoder that is neither."""
    kinds = [part["type"] for part in parts(source.config.get("decoder"))]
    if kinds == ["ByteLevel"]:
        return True
    if "ByteLevel" not in kinds and ("ByteFallback" in kinds or "Metaspace" in kinds):
        unknown = sorted(set(kinds) - {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"})
        if not unknown:
            return False
    raise ConfigError(
        f"{source.where}: the decoder {' + '.join(kinds) or 'none'} is not supported. Supported: byte-level "
        "BPE (ByteLevel) and Llama-2-style BPE (Replace + ByteFallback + Fuse, or Metaspace)."
    )


def strips_space(source: Source) -> bool:
    """Whether one space at the start of a whole text belongs to the tokenizer and not to the text."""
    return any(
        (part["type"] == "Strip" and part.get("start"))
        or (part["type"] == "Metaspace" and part.get("prepend_scheme", "always") != "never")
        for part in parts(source.config.get("decoder"))
    )


def vocabulary(source: Source) -> tuple[tuple[bytes, ...], frozenset[int]]:
    """(bytes of every id, special ids). An id that the file leaves out is special with no bytes at all."""
    names: dict[str, int] = source.core.get_vocab(with_added_tokens=True)
    size = max(names.values(), default=-1) + 1
    tokens = [b""] * size
    special = set(range(size))
    spelled = _byte_level_bytes(list(names)) if is_byte_level(source) else map(_sentencepiece_bytes, names)
    for id, text in zip(names.values(), spelled, strict=True):
        tokens[id] = text
    special.difference_update(names.values())
    for added in source.added:
        if added.control:
            tokens[added.id] = added.name.encode()
            special.add(added.id)
    return tuple(tokens), frozenset(special)


def build(source: Source, encode: Any) -> Vocabulary:
    """The Vocabulary that grammars and samplers see."""
    tokens, special = vocabulary(source)
    return Vocabulary(tokens, special, source.end_ids, encode)


def _byte_level_bytes(names: Sequence[str]) -> list[bytes]:
    """The bytes of each name. One that is not in the alphabet, an added token, is spelled as it reads, as in
    the library's own decoder."""
    characters = {byte: character for character, byte in byte_alphabet().items()}
    # As a table of the codecs module, and all at once where that goes: a vocabulary has 100,000 tokens.
    alphabet = codecs.charmap_build("".join(characters[byte] for byte in range(256)))
    try:
        whole = codecs.charmap_encode("".join(names), "strict", alphabet)[0]
    except UnicodeEncodeError:
        if len(names) == 1:
            return [names[0].encode()]
        half = len(names) // 2
        return _byte_level_bytes(names[:half]) + _byte_level_bytes(names[half:])
    ends = list(itertools.accumulate(map(len, names), initial=0))  # a character is a byte
    return [whole[begin:end] for begin, end in itertools.pairwise(ends)]


def _sentencepiece_bytes(name: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()
