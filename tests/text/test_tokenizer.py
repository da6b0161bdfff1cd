"""Tokenizers: the ids of transformers, every byte accounted for, special names as text, bad files named."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_tokenizers import (
    SPECIALS,
    STRINGS,
    TAGS,
    added,
    by_transformers,
    byte_level_gguf,
    sentencepiece_json,
    smollm2_json,
    smollm2_path,
    train_byte_level,
    train_sentencepiece,
    write_directory,
    write_gguf,
)

from kogagent.errors import ConfigError, InputError
from kogagent.tokenizer import Tokenizer
from kogagent.tokenizer.gguf_file import PRE_TOKENIZERS
from kogagent.tokenizer.tokenizer import After

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
MISSING = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)}  # in SmolLM2
NAMES = ("smollm2", "byte-level", "llama", "llama-metaspace")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tokenizer, Any]]:
    """name -> (ours, transformers' own reading of the same vocabulary)."""
    root = tmp_path_factory.mktemp("tokenizers")
    file = smollm2_path()
    write_directory(root / "smollm2", smollm2_json(file))
    out = {"smollm2": (Tokenizer.load(file), by_transformers(root / "smollm2"))}
    tokens, _, _ = train_sentencepiece()
    directories = {
        "byte-level": train_byte_level(),
        "llama": sentencepiece_json(tokens, metaspace=False),
        "llama-metaspace": sentencepiece_json(tokens, metaspace=True),
    }
    for name, whole in directories.items():
        path = write_directory(root / name, whole)
        theirs = by_transformers(path)
        out[name] = (Tokenizer.load(path), theirs)
    return out


def ids_of(theirs: Any, text: str) -> list[int]:
    ids: list[int] = theirs(text, add_special_tokens=False).input_ids
    return ids


def kept(name: str, text: str) -> str:
    """What a text on its own comes back as: Llama's kinds write a space as "▁", and the newer one puts none
    in front of a text that has one already, so that it is taken off again."""
    if name.startswith("llama"):
        text = text.replace("▁", " ")
    return text.removeprefix(" ") if name == "llama-metaspace" else text


# ── the same ids ──


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_transformers(pairs: dict[str, tuple[Tokenizer, Any]], name: str) -> None:
    ours, theirs = pairs[name]
    for text in STRINGS:
        assert ours.encode(text) == ids_of(theirs, text), text


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXT)
@settings(max_examples=150)
def test_ids_are_those_of_transformers_for_any_text(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str, text: str
) -> None:
    ours, theirs = pairs[name]
    assume(not any(special in text for special in ours.special_tokens))  # text to us, ids to transformers
    assert ours.encode(text) == ids_of(theirs, text)


@pytest.mark.parametrize("name", NAMES)
def test_markup_is_encoded_as_transformers_encodes_it(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str, rng: np.random.Generator
) -> None:
    ours, theirs = pairs[name]
    specials = list(ours.special_tokens)
    for _ in range(200):
        parts = [str(rng.choice(specials if rng.random() < 0.5 else STRINGS)) for _ in range(6)]
        text = "".join(parts)
        assert ours.encode_markup(text) == ids_of(theirs, text), text


@pytest.mark.parametrize("name", NAMES)
def test_texts_put_into_gaps_are_encoded_as_they_are_without(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str, rng: np.random.Generator
) -> None:
    ours, _ = pairs[name]
    check_gaps(ours, rng)


def check_gaps(tokenizer: Tokenizer, rng: np.random.Generator) -> None:
    specials, marks = list(tokenizer.special_tokens), ["mark0x", "mark1x"]
    afters: list[After] = ["nothing", "special", "text"]
    for after in afters:
        for _ in range(15):
            plain = [["", "\n", " a  ", "b"][int(i)] for i in rng.integers(0, 4, 4)]
            where = sorted(int(i) for i in rng.integers(0, 4, 2))
            for mark, i in zip(marks, where, strict=True):
                plain[i] += mark + str(rng.choice(["", " ", "c"]))
            names = [str(rng.choice(specials)) for _ in range(3)]
            pieces = [piece for pair in zip(plain, [*names, ""], strict=True) for piece in pair][:-1]
            encode = tokenizer.gapped(pieces, marks, after=after)
            for _ in range(2):
                texts = [str(text) for text in rng.choice(STRINGS, 2)]
                filled = [p.replace(marks[0], texts[0]).replace(marks[1], texts[1]) for p in pieces]
                assert encode(texts) == tokenizer.encode_pieces(filled, after=after)


def test_the_longest_special_name_wins_and_swallows_space_where_it_says_so(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    whole = train_byte_level(300)
    first = max(entry["id"] for entry in whole["added_tokens"]) + 1
    whole["added_tokens"] += [
        added(first, "<|im", special=True),
        added(first + 1, "<|right|>", special=True, rstrip=True),
        added(first + 2, "<|left|>", special=True, lstrip=True),
        added(first + 3, "    ", special=False),  # a run of blanks is text, not markup
    ]
    ours = Tokenizer.load(write_directory(tmp_path, whole))
    theirs = by_transformers(tmp_path)
    for text in ("<|im_end|><|im", "a <|left|> b <|right|>  \n c", "<|right|> <|left|>", "x    y", "<|imx"):
        assert ours.encode_markup(text) == ids_of(theirs, text), text
    check_gaps(ours, rng)
    assert first + 3 in ours.encode("x    y")
    assert first + 3 not in ours.special_tokens.values()


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_a_gguf_pre_tokenizer_cuts_as_its_regular_expressions_say(tmp_path: Path, pre: str) -> None:
    """Against a BPE written out here and the package regex, an engine of its own."""
    regex: Any = importlib.import_module("regex")
    whole = train_byte_level()
    ours = Tokenizer.load(byte_level_gguf(tmp_path / "x.gguf", whole, pre))
    ranks = {tuple(pair): i for i, pair in enumerate(whole["model"]["merges"])}
    letters = {b: c for c, b in _alphabet().items()}
    vocab = whole["model"]["vocab"]
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    llama3 = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    published = {
        "gpt-2": [gpt2],
        "default": [r"[\p{P}\$\+<=>\^~\|]+", gpt2, r"\p{N}+", "[0-9][0-9][0-9]"],
        **{name: [r"\p{N}", gpt2] for name in ("smollm", "starcoder", "refact", "command-r")},
        **{name: [llama3] for name in ("llama-bpe", "llama3", "llama-v3")},
        **{name: [llama3.replace("{1,3}", "")] for name in ("qwen2", "deepseek-r1-qwen")},
    }

    def cut(pieces: list[str], pattern: str) -> list[str]:
        out = []
        for piece in pieces:
            at = 0
            for found in regex.finditer(pattern, piece):
                out += [piece[at : found.start()], found[0]]
                at = found.end()
            out.append(piece[at:])
        return [piece for piece in out if piece]

    for text in STRINGS:
        pieces = [text]
        for pattern in published[pre]:
            pieces = cut(pieces, pattern)
        expected: list[int] = []
        for piece in pieces:
            word = "".join(letters[b] for b in piece.encode())
            if pre in ("llama-bpe", "llama3", "llama-v3") and word in vocab:
                expected.append(vocab[word])
                continue
            symbols = list(word)
            while len(symbols) > 1:
                best = min(
                    range(len(symbols) - 1), key=lambda i: ranks.get((symbols[i], symbols[i + 1]), 1 << 30)
                )
                if (symbols[best], symbols[best + 1]) not in ranks:
                    break
                symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]
            expected += [vocab[symbol] for symbol in symbols]
        if pre in ("qwen2", "deepseek-r1-qwen") and "e\u0301" in text:
            continue  # normalised to NFC before it is cut
        assert ours.encode(text) == expected, text


def _alphabet() -> dict[str, int]:
    convert: Any = importlib.import_module("transformers.convert_slow_tokenizer")
    return {char: byte for byte, char in convert.bytes_to_unicode().items()}


def test_a_llama_gguf_merges_by_score_as_sentencepiece_does(tmp_path: Path) -> None:
    tokens, scores, kinds = train_sentencepiece()
    ours = Tokenizer.load(write_gguf(tmp_path / "x.gguf", "llama", tokens, kinds, scores=scores))
    vocab = {token: i for i, token in enumerate(tokens) if kinds[i] == 1}

    def expected(text: str) -> Iterator[int]:
        symbols = list("▁" + text.replace(" ", "▁")) if text else []
        while True:
            joined = [symbols[i] + symbols[i + 1] for i in range(len(symbols) - 1)]
            known = [(scores[vocab[piece]], -i) for i, piece in enumerate(joined) if piece in vocab]
            if not known:
                break
            at = -max(known)[1]
            symbols[at : at + 2] = [joined[at]]
        for symbol in symbols:
            if symbol in vocab:
                yield vocab[symbol]
            else:
                yield from (3 + byte for byte in symbol.encode())

    for text in STRINGS:
        assert ours.encode(text) == list(expected(text)), text


# ── bytes ──


@pytest.mark.parametrize("name", NAMES)
def test_every_id_has_the_bytes_that_the_files_say(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str
) -> None:
    ours, theirs = pairs[name]
    vocabulary, alphabet = ours.vocabulary, _alphabet()
    assert len(vocabulary) == len(theirs)
    for id, piece in enumerate(theirs.convert_ids_to_tokens(range(len(theirs)))):
        if id in vocabulary.special:
            assert vocabulary.tokens[id] == piece.encode()
        elif not name.startswith("llama"):
            assert vocabulary.tokens[id] == bytes(alphabet[char] for char in piece), (id, piece)
        elif 3 <= id < 259:
            assert vocabulary.tokens[id] == bytes([id - 3]), (id, piece)
        else:
            assert vocabulary.tokens[id] == piece.replace("▁", " ").encode(), (id, piece)


@pytest.mark.parametrize("name", NAMES)
def test_every_id_that_is_text_comes_back_from_its_text(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str
) -> None:
    """Decoded by the tokenizers library behind an anchor, so that no leading space is taken off."""
    ours, theirs = pairs[name]
    (anchor,) = [
        id for id, raw in enumerate(ours.vocabulary.tokens) if raw == b"a" and id >= 259 * ("llama" in name)
    ]
    seen = 0
    for id, raw in enumerate(ours.vocabulary.tokens):
        if id in ours.vocabulary.special:
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            continue
        decoded = theirs.backend_tokenizer.decode([anchor, id], skip_special_tokens=False)
        assert decoded == "a" + text, (id, raw)
        seen += 1
    assert seen > 0.6 * (len(ours.vocabulary) - 256)


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXT)
@settings(max_examples=100)
def test_bytes_of_an_encoding_are_the_bytes_of_the_text(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str, text: str
) -> None:
    ours, _ = pairs[name]
    if name == "smollm2":
        assume(not any(byte in MISSING for byte in text.encode()))
    assert ours.vocabulary.decode(ours.encode_continuing(text)) == text.encode()
    assert list(ours.vocabulary.encode(text)) == ours.encode_continuing(text)  # type: ignore[misc]
    assert ours.decode(ours.encode(text)) == kept(name, text)


def test_bytes_that_a_vocabulary_lacks_have_no_ids(pairs: dict[str, tuple[Tokenizer, Any]]) -> None:
    """SmolLM2's vocabulary was cut without some bytes; transformers drops them too."""
    for name in NAMES:
        ours, theirs = pairs[name]
        tokens = {raw for id, raw in enumerate(ours.vocabulary.tokens) if id not in ours.vocabulary.special}
        missing = {byte for byte in range(256) if bytes([byte]) not in tokens}
        assert missing == (MISSING if name == "smollm2" else set())
        assert ours.encode("a\U00040000b") == ids_of(theirs, "a\U00040000b")


def test_composed_characters_continue_unchanged_even_where_the_model_normalises(tmp_path: Path) -> None:
    ours = Tokenizer.load(byte_level_gguf(tmp_path / "x.gguf", train_byte_level(300), "qwen2"))
    assert ours.decode(ours.encode("e\u0301")) == "\u00e9"
    assert ours.vocabulary.decode(ours.encode_continuing("e\u0301")) == "e\u0301".encode()


def test_the_leading_space_belongs_to_the_tokenizer_at_the_start_of_a_text_only(
    pairs: dict[str, tuple[Tokenizer, Any]],
) -> None:
    ours, theirs = pairs["llama"]
    ids = ours.encode("Oslo Oslo")
    assert ours.strips_space and ours.vocabulary.decode(ids) == b" Oslo Oslo"
    assert ours.decode(ids) == theirs.decode(ids) == "Oslo Oslo"
    assert ours.decode(ours.encode("  Oslo")) == "  Oslo"
    continuing = ours.decoder(continues=True)
    assert continuing.feed(*ids) + continuing.flush() == " Oslo Oslo"
    assert not pairs["byte-level"][0].strips_space


def test_ids_that_a_file_leaves_out_are_special_and_empty_or_refused(tmp_path: Path) -> None:
    whole = train_byte_level(300)
    last = max(entry["id"] for entry in whole["added_tokens"])
    whole["added_tokens"].append(added(last + 5, "<|late|>", special=True))
    with pytest.raises(ConfigError, match=r"tokenizer\.json: the added token '<\|late\|>' has id .*no gap"):
        Tokenizer.load(write_directory(tmp_path, whole))
    tokens, kinds = ["<unk>", "a", "gone", "b", "gone too"], [2, 1, 5, 1, 5]
    path = write_gguf(tmp_path / "x.gguf", "llama", tokens, kinds, scores=[0.0] * 5)
    vocabulary = Tokenizer.load(path).vocabulary
    assert vocabulary.tokens == (b"<unk>", b"a", b"", b"b")
    assert vocabulary.special == {0, 2}


# ── special names ──


@pytest.mark.parametrize("name", NAMES)
def test_special_names_in_a_text_stay_text(pairs: dict[str, tuple[Tokenizer, Any]], name: str) -> None:
    ours, _ = pairs[name]
    assert ours.special_tokens
    for special, id in ours.special_tokens.items():
        for text in (special, f"a{special}b", f" {special} {special}\n"):
            for ids in (ours.encode(text), ours.encode_continuing(text)):
                assert not set(ids) & ours.vocabulary.special
            assert ours.decode(ours.encode(text)) == kept(name, text)
        assert ours.encode_markup(special) == [id] == [ours.encode_special(special)]


def test_tags_are_special_though_the_file_does_not_flag_them(pairs: dict[str, tuple[Tokenizer, Any]]) -> None:
    ours, _ = pairs["byte-level"]
    assert set(ours.special_tokens) == {*SPECIALS, *TAGS}


def test_a_special_name_that_is_none_is_refused(pairs: dict[str, tuple[Tokenizer, Any]]) -> None:
    with pytest.raises(InputError, match=r"'<nothing>'.*There are:.*<\|im_end\|>"):
        pairs["smollm2"][0].encode_special("<nothing>")


# ── decoding as ids come ──


@pytest.mark.parametrize("name", NAMES)
def test_no_code_point_is_split_wherever_ids_end(
    pairs: dict[str, tuple[Tokenizer, Any]], name: str, rng: np.random.Generator
) -> None:
    ours, _ = pairs[name]
    single = {raw: id for id, raw in enumerate(ours.vocabulary.tokens) if len(raw) == 1}
    for text in (t for t in STRINGS if t):
        # Some characters as one id for each byte, which is how rare ones come.
        ids: list[int] = []
        for char in text:
            split = rng.random() < 0.5 and all(bytes([b]) in single for b in char.encode())
            ids += [single[bytes([b])] for b in char.encode()] if split else ours.encode_continuing(char)
        decoder = ours.decoder(continues=True)
        pieces = [decoder.feed(id) for id in ids]
        assert "".join(pieces) == text and decoder.flush() == ""


def test_a_code_point_that_never_ends_is_replaced_at_the_end_alone(
    pairs: dict[str, tuple[Tokenizer, Any]],
) -> None:
    ours, _ = pairs["byte-level"]
    single = {raw: id for id, raw in enumerate(ours.vocabulary.tokens) if len(raw) == 1}
    decoder = ours.decoder()
    assert [decoder.feed(single[bytes([b])]) for b in "é😀".encode()[:-1]] == ["", "é", "", "", ""]
    assert decoder.flush() == "\ufffd"
    decoder = ours.decoder()
    assert decoder.feed(single[b"\xff"]) == "\ufffd" and decoder.flush() == ""


def test_special_ids_decode_to_nothing_and_unknown_ones_are_refused(
    pairs: dict[str, tuple[Tokenizer, Any]],
) -> None:
    ours, _ = pairs["smollm2"]
    assert ours.decode(ours.encode_markup("<|im_start|>a<|im_end|>")) == "a"
    for id in (-1, len(ours.vocabulary)):
        with pytest.raises(InputError, match=f"id {id} lies outside the vocabulary of 49152"):
            ours.decode([id])


# ── what the files say ──


def test_smollm2_says_how_its_turns_begin_and_end(pairs: dict[str, tuple[Tokenizer, Any]]) -> None:
    ours, _ = pairs["smollm2"]
    assert ours.bos_id == 1 and ours.end_ids == (2, 0) and ours.prompt_prefix == ()
    assert ours.vocabulary.end_ids == ours.end_ids
    assert ours.special_names["eos_token"] == "<|im_end|>"
    assert ours.chat_template is not None and "<|im_start|>" in ours.chat_template
    assert ours.tool_template == ours.chat_template


def test_all_end_ids_of_a_directory_are_found(tmp_path: Path) -> None:
    whole = train_byte_level(300)
    ids = {entry["content"]: entry["id"] for entry in whole["added_tokens"]}
    names = {"eos_token": {"content": "</s>"}, "bos_token": "<s>", "add_bos_token": True}
    write_directory(tmp_path, whole, names, "{{ messages }}")
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [ids["[/INST]"], ids["</s>"]]})
    )
    ours = Tokenizer.load(tmp_path)
    expected = [ids[n] for n in ("</s>", "[/INST]", "<|endoftext|>", "<|im_end|>", "<|eot_id|>")]
    assert ours.end_ids == tuple(expected)
    assert ours.prompt_prefix == (ids["<s>"],) == (ours.bos_id,)


def test_the_jinja_file_wins_and_a_second_template_serves_tools(tmp_path: Path) -> None:
    both = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    path = write_directory(tmp_path, train_byte_level(300), {"chat_template": both})
    ours = Tokenizer.load(path)
    assert (ours.chat_template, ours.tool_template) == ("D", "T")
    (path / "chat_template.jinja").write_text("J")
    assert Tokenizer.load(path).chat_template == "J"
    assert Tokenizer.load(write_directory(tmp_path / "none", train_byte_level(300))).chat_template is None


def test_gguf_keys_decide_whether_a_prompt_starts_with_bos(tmp_path: Path) -> None:
    whole = train_byte_level(300)
    bos = next(e["id"] for e in whole["added_tokens"] if e["content"] == "<s>")
    eot = next(e["id"] for e in whole["added_tokens"] if e["content"] == "</s>")
    cases: list[tuple[str, dict[str, bool], bool]] = [
        ("gpt-2", {}, False),
        ("gpt-2", {"add_bos_token": True}, True),
        ("llama-bpe", {}, True),
        ("llama-bpe", {"add_bos_token": False}, False),
    ]
    for i, (pre, keys, expected) in enumerate(cases):
        path = byte_level_gguf(tmp_path / f"{i}.gguf", whole, pre, bos_token_id=bos, eot_token_id=eot, **keys)
        ours = Tokenizer.load(path)
        assert ours.prompt_prefix == ((bos,) if expected else ())
        assert ours.end_ids[0] == eot


def test_gguf_templates_by_name(tmp_path: Path) -> None:
    keys = {"tokenizer.chat_template": "D", "tokenizer.chat_template.tool_use": "T"}
    ours = Tokenizer.load(byte_level_gguf(tmp_path / "x.gguf", train_byte_level(300), None, **keys))
    assert (ours.chat_template, ours.tool_template) == ("D", "T")


# ── bad input ──


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", b"bytes", 3, None])
def test_what_is_no_text_is_refused(pairs: dict[str, tuple[Tokenizer, Any]], text: Any) -> None:
    ours, _ = pairs["smollm2"]
    for encode in (ours.encode, ours.encode_continuing, ours.encode_markup):
        with pytest.raises(InputError, match=r"lone surrogate|must be a str"):
            encode(text)


def test_a_path_with_nothing_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "no", tmp_path / "no.gguf"):
        with pytest.raises(ConfigError, match=f"{path}: no such file"):
            Tokenizer.load(path)
    with pytest.raises(ConfigError, match=r"no tokenizer.json.*save_pretrained"):
        Tokenizer.load(tmp_path)


def test_a_gguf_file_cut_anywhere_in_its_metadata_is_named(tmp_path: Path, rng: np.random.Generator) -> None:
    whole = byte_level_gguf(tmp_path / "x.gguf", train_byte_level(300), "gpt-2").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in (0, 1, 4, 8, 23, *rng.integers(24, len(whole) - 32, 20).tolist()):
        cut.write_bytes(whole[:size])
        with pytest.raises(ConfigError, match=str(cut)):
            Tokenizer.load(cut)


@given(data=st.data())
@settings(max_examples=60)
def test_a_damaged_gguf_file_is_never_worse_than_a_config_error(tmp_path: Path, data: st.DataObject) -> None:
    good = tmp_path / "good.gguf"
    if not good.exists():
        byte_level_gguf(good, train_byte_level(300), "gpt-2")
    raw = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, min(len(raw), 400) - 1))] = data.draw(st.integers(0, 255))
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(raw)
    try:
        Tokenizer.load(bad)
    except ConfigError as error:
        assert str(bad) in str(error)


def test_unknown_kinds_of_tokenizers_are_refused_by_name(tmp_path: Path) -> None:
    whole = train_byte_level(300)
    with pytest.raises(ConfigError, match=r"pre-tokenizer 'gpt-9' is not supported\. Supported: gpt-2"):
        Tokenizer.load(byte_level_gguf(tmp_path / "a.gguf", whole, "gpt-9"))
    with pytest.raises(ConfigError, match="tokenizer model 'bert' is not supported"):
        Tokenizer.load(write_gguf(tmp_path / "b.gguf", "bert", ["a"], [1]))
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("c", {"model": {"type": "WordPiece"}}, "model type 'WordPiece'"),
        ("d", {"normalizer": {"type": "Lowercase"}}, "normalizer 'Lowercase'"),
        ("e", {"decoder": {"type": "BPEDecoder", "suffix": "</w>"}}, "decoder BPEDecoder"),
        ("g", {"normalizer": ["NFC"]}, r"normalizer must be an object or null, not \['NFC'\]"),
        (
            "h",
            {"model": {**whole["model"], "continuing_subword_prefix": "##"}},
            "continuing_subword_prefix '##' is not supported",
        ),
        (
            "f",
            {"added_tokens": [added(0, "<s>", special=True, single_word=True)]},
            "'<s>' is marked single_word",
        ),
    ]
    for name, change, message in cases:
        with pytest.raises(ConfigError, match=message):
            Tokenizer.load(write_directory(tmp_path / name, {**whole, **change}))


def test_a_directory_with_broken_files_names_the_file(tmp_path: Path) -> None:
    path = write_directory(tmp_path, train_byte_level(300))
    text = (path / "tokenizer.json").read_text()
    (path / "tokenizer.json").write_text(text[:-10])
    with pytest.raises(ConfigError, match=r"tokenizer\.json: is no JSON, perhaps truncated"):
        Tokenizer.load(path)
    (path / "tokenizer.json").write_text(text)
    (path / "generation_config.json").write_text('{"eos_token_id": 99999}')
    with pytest.raises(ConfigError, match="eos_token_id 99999 lies outside"):
        Tokenizer.load(path)
    (path / "generation_config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="must hold a JSON object, not list"):
        Tokenizer.load(path)
    (path / "generation_config.json").unlink()
    (path / "tokenizer_config.json").write_text('{"added_tokens_decoder": {"999": {"content": "<x>"}}}')
    with pytest.raises(ConfigError, match=r"adds '<x>' as id 999, which tokenizer\.json does not know"):
        Tokenizer.load(path)
    for config, words in (
        ('{"added_tokens_decoder": [5]}', "added_tokens_decoder must be an object"),
        ('{"added_tokens_decoder": {"0": {}}}', r"added_tokens_decoder\['0'\] must hold a text 'content'"),
        ('{"added_tokens_decoder": {"x": {"content": "a"}}}', "adds 'a' as id x"),
        ('{"chat_template": [{"name": "default"}]}', "needs a name and a template"),
    ):
        (path / "tokenizer_config.json").write_text(config)
        with pytest.raises(ConfigError, match=words):
            Tokenizer.load(path)
    (path / "tokenizer_config.json").unlink()
    (path / "generation_config.json").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"generation_config\.json: cannot be read"):
        Tokenizer.load(path)
