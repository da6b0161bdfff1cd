"""Text to ids: ordinary text, text with markup, single special tokens. Knows no messages and no model.

User text and markup are encoded by two different methods, so that a special token's name in a user's text
stays text: `encode` never gives a special id; `encode_markup` finds names of special tokens, and only
templates go through it.

The leading space. SentencePiece-style tokenizers put a space in front of a text ("▁Hello" for "Hello"), and
their decoders take it off again. The bytes of an id are what it adds to a text that it continues, b" Hello"
here; that the first space of a whole text is none of it is said by `strips_space`, and `decoder()` does it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kogagent.errors import ConfigError, InputError
from kogagent.spec import Vocabulary
from kogagent.tokenizer import tables
from kogagent.tokenizer.decoder import Decoder
from kogagent.tokenizer.names import Names
from kogagent.tokenizer.source import Source

_SHORT, _KEPT = 16, 1024  # characters of a template's own pieces, which are remembered; how many
_UNICODE_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_SPACE = "\u2581"  # SentencePiece's "▁": in the vocabulary a space, in a text a character of its own
_NORMALIZERS = ("Prepend", "Replace", *_UNICODE_FORMS)

After: TypeAlias = Literal["nothing", "special", "text"]
"""What a text to encode follows."""

_Edit = Callable[[dict[str, Any]], dict[str, Any] | None]


class Tokenizer:
    """A tokenizer read from disk; immutable and safe to share between threads."""

    def __init__(self, source: Source) -> None:
        unknown = {part["type"] for part in tables.parts(source.config.get("normalizer"))} - {*_NORMALIZERS}
        if unknown:
            raise ConfigError(
                f"{source.where}: the normalizer {sorted(unknown)[0]!r} changes text in a way that is not "
                f"supported. Supported: {', '.join(_NORMALIZERS)}."
            )
        byte_level = tables.is_byte_level(source)
        self.name = source.where
        self._source = source
        core = source.core
        core.no_padding()
        core.no_truncation()
        self._control = {token.name: token for token in source.added if token.control}
        self.control_names = Names(self._control)
        """Finds names of special tokens in text."""
        core.add_special_tokens([_special(name) for name in self._control])
        core.encode_special_tokens = True
        self._first = core
        self._continuing = self._variant(_metaspace_never, _plain_normalizer)
        inside = self._variant(_metaspace_first_only, None)
        self._variants: dict[After, Any] = {"nothing": core, "special": inside, "text": self._continuing}
        names = {byte: core.token_to_id(f"<0x{byte:02X}>") for byte in _SPACE.encode()}
        self._byte_ids = {byte: id for byte, id in names.items() if id is not None}
        self._short = lru_cache(_KEPT)(self._run_short)
        self._spells_spaces = not byte_level and len(self._byte_ids) == len(names)
        self.strips_space = tables.strips_space(source)
        """Whether one space at the start of a whole text is the tokenizer's and not the text's."""

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a Hugging Face directory (tokenizer.json and what is beside it) or a .gguf file.

        Raises ConfigError: nothing there, a damaged file, a tokenizer of an unknown kind.
        """
        from kogagent.tokenizer.gguf_file import read_gguf
        from kogagent.tokenizer.huggingface import read_directory

        path = Path(path)
        if path.is_dir():
            return cls(read_directory(path))
        if path.suffix == ".gguf" or path.is_file():
            return cls(read_gguf(path))
        raise ConfigError(f"{path}: no such file or directory. Pass a model directory or a .gguf file.")

    # ── text to ids ──

    def encode(self, text: str) -> list[int]:
        """Ids of a text on its own; names of special tokens in it stay text.

        A byte for which the vocabulary has no token is dropped, as transformers drops it: SmolLM2 lacks 21,
        control characters and first bytes of planes that hold no assigned characters. Raises InputError for
        text that is no valid Unicode.
        """
        return self._run(self._first, text)

    def encode_continuing(self, text: str) -> list[int]:
        """Ids of a text that goes on after other text: nothing is put in front, no character is normalised,
        so their bytes are exactly the text's."""
        if self._spells_spaces and _SPACE in text:
            mark = [self._byte_ids[byte] for byte in _SPACE.encode()]
            first, *rest = (self._run(self._continuing, part) for part in text.split(_SPACE))
            return first + [id for part in rest for id in (*mark, *part)]
        return self._run(self._continuing, text)

    def encode_markup(self, text: str, *, after: After = "nothing") -> list[int]:
        """Ids of a text in which names of special tokens are these tokens. For templates only.

        after: what the text follows.
        """
        return self.encode_pieces(self.control_names.split(check_text(text)), after=after)

    def encode_pieces(self, pieces: Sequence[str], *, after: After = "nothing") -> list[int]:
        """Ids of plain text and names of special tokens in turn, plain text first, as `control_names.split`
        gives them. A name inside plain text stays text."""
        ids: list[int] = []
        for i, piece in enumerate(pieces):
            ids += (self._control[piece].id,) if i % 2 else self._plain(piece, pieces, i, after)
        return ids

    def gapped(
        self, pieces: Sequence[str], marks: Sequence[str], *, after: After = "nothing"
    ) -> Callable[[Sequence[str]], list[int]]:
        """What `encode_pieces` gives for pieces with texts in place of the marks, which stand once each in
        plain text, in order: a function of these texts. What holds no mark is encoded now."""
        at_marks = re.compile("|".join(map(re.escape, marks)))
        ids: list[int] = []
        gaps: list[tuple[list[int], list[str], int]] = []  # ids before it, parts of its piece, which piece
        for i, piece in enumerate(pieces):
            parts = [] if i % 2 else at_marks.split(piece)
            if len(parts) > 1:
                gaps.append((ids, parts, i))
                ids = []
            else:
                ids += (self._control[piece].id,) if i % 2 else self._plain(piece, pieces, i, after)
        behind = ids

        def encode(texts: Sequence[str]) -> list[int]:
            out: list[int] = []
            used = 0
            for before, parts, i in gaps:
                text = parts[0]
                for part in parts[1:]:
                    text += check_text(texts[used]) + part
                    used += 1
                out += before
                out += self._plain(text, pieces, i, after)
            return out + behind

        return encode

    def _plain(self, text: str, pieces: Sequence[str], i: int, after: After) -> Sequence[int]:
        """Ids of a plain text that is piece i of `encode_pieces`."""
        if i > 0 and self._control[pieces[i - 1]].rstrip:
            text = text.lstrip()
        if i + 1 < len(pieces) and self._control[pieces[i + 1]].lstrip:
            text = text.rstrip()
        if not text:
            return ()
        where: After = "special" if i else after
        if len(text) <= _SHORT:  # most of those between names come in every turn
            return self._short(where, text)
        ids: list[int] = self._variants[where].encode(text, add_special_tokens=False).ids
        return ids

    def _run_short(self, after: After, piece: str) -> tuple[int, ...]:
        return tuple(self._variants[after].encode(piece, add_special_tokens=False).ids)

    def encode_special(self, name: str) -> int:
        """The id of one special token. InputError where the vocabulary has none of this name."""
        token = self._control.get(name)
        if token is None:
            raise InputError(
                f"{self.name}: no special token {name!r}. There are: {', '.join(sorted(self._control))}"
            )
        return token.id

    def _run(self, core: Any, text: str) -> list[int]:
        ids: list[int] = core.encode(check_text(text), add_special_tokens=False).ids
        return ids

    # ── ids to text ──

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of every id, and which are special."""
        return tables.build(self._source, self.encode_continuing)

    def take_vocabulary(self, tokens: tuple[bytes, ...], special: frozenset[int], digest: str) -> Vocabulary:
        """Have this for `vocabulary`, as it was spelled out before, with its digest. Raises ConfigError for
        special or end ids that it has not."""
        made = Vocabulary(tokens, special, self._source.end_ids, self.encode_continuing)
        self.__dict__["vocabulary"] = made.named(digest)
        return made

    def decoder(self, *, continues: bool = False) -> Decoder:
        """A decoder of ids as they come. continues: they go on after other text, so a first space stays."""
        return Decoder(self.vocabulary, strip_space=self.strips_space and not continues)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids on their own; special ids add nothing."""
        decoder = self.decoder()
        return decoder.feed(*ids) + decoder.flush()

    # ── facts ──

    @property
    def bos_id(self) -> int | None:
        return self._source.bos_id

    @property
    def prompt_prefix(self) -> tuple[int, ...]:
        """What comes before a prompt that no template renders: the BOS id, or nothing."""
        bos = self._source.bos_id
        return (bos,) if self._source.add_bos and bos is not None else ()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """All ids that end a turn, the main one first."""
        return self._source.end_ids

    @property
    def special_tokens(self) -> dict[str, int]:
        """Name -> id of every special token, tags such as <tool_call> included."""
        return {name: token.id for name, token in self._control.items()}

    @property
    def special_names(self) -> dict[str, str]:
        """Role -> name, as templates use them: "bos_token", "eos_token", …"""
        return dict(self._source.names)

    @property
    def chat_template(self) -> str | None:
        """Jinja source of the chat template, None where the model has none."""
        return self._source.templates.get("default")

    @property
    def tool_template(self) -> str | None:
        """Jinja source of the template for conversations with tools: some models have a second one."""
        return self._source.templates.get("tool_use", self.chat_template)

    # ── variants ──

    def _variant(self, pre: _Edit, normalizer: _Edit | None) -> Any:
        """The same vocabulary behind an edited pre-tokenizer and normalizer; the core itself if both stay."""
        config = self._source.config
        edited = {
            "pre_tokenizer": _edited(config.get("pre_tokenizer"), pre),
            "normalizer": _edited(config.get("normalizer"), normalizer or (lambda part: part)),
        }
        if all(edited[key] == config.get(key) for key in edited):
            return self._first
        from tokenizers import Tokenizer as Core

        if all(token.control for token in self._source.added):
            # The model is shared: a copy of a large vocabulary takes half a second.
            empty = {"type": "BPE", "vocab": {}, "merges": []}
            settings = Core.from_str(json.dumps({"version": "1.0", "model": empty} | edited))
            core = Core(self._source.core.model)
            if settings.pre_tokenizer is not None:
                core.pre_tokenizer = settings.pre_tokenizer
            if settings.normalizer is not None:
                core.normalizer = settings.normalizer
            return core
        core = Core.from_str(json.dumps(json.loads(self._source.core.to_str()) | edited))
        core.encode_special_tokens = True
        return core


def check_text(text: str) -> str:
    """The text itself. InputError for what is no str or holds half of a surrogate pair."""
    if not isinstance(text, str):
        raise InputError(f"text must be a str, not {type(text).__name__}. Decode bytes as UTF-8 first.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text holds the lone surrogate {text[error.start]!r} at index {error.start}: it is no valid "
            "Unicode. Decode the input as UTF-8 with errors='replace'."
        ) from error
    return text


def _special(name: str) -> Any:
    from tokenizers import AddedToken

    return AddedToken(name, special=True, normalized=False)


def _edited(node: Any, edit: _Edit) -> Any:
    """A copy of a pre-tokenizer or normalizer with every leaf edited; None drops a leaf."""
    if node is None:
        return None
    if node["type"] != "Sequence":
        return edit(copy.copy(node))
    key = "pretokenizers" if "pretokenizers" in node else "normalizers"
    kept = [new for new in (_edited(inner, edit) for inner in node[key]) if new is not None]
    return {**node, key: kept}


def _metaspace_first_only(part: dict[str, Any]) -> dict[str, Any]:
    """Inside a prompt a Metaspace that marks the first word only has nothing to mark."""
    if part["type"] == "Metaspace" and part.get("prepend_scheme") == "first":
        part["prepend_scheme"] = "never"
    return part


def _metaspace_never(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "Metaspace":
        part["prepend_scheme"] = "never"
    elif part["type"] == "ByteLevel":
        part["add_prefix_space"] = False
    return part


def _plain_normalizer(part: dict[str, Any]) -> dict[str, Any] | None:
    return part if part["type"] == "Replace" else None
