"""Trains the byte-level BPE on a sample of what the model reads: conversations and prose. Knows no model.

    python -m training.tokenizer --pools POOLS.json.gz --prose PROSE.txt.gz --out build/nano

Digits are split one by one; the chat and tool tags are single special tokens with ids 0..8. A word is the
same
tokens wherever it stands: the space before it is a token of its own, so that copying a name from a sentence
into
a JSON string (where a quote stands before it) is copying ids. Only words of GLUE, which carry no values, take
their space along: that keeps plain sentences short.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.dialogues import Writer
from training.pools import Pools
from training.render import SPECIAL, text_parts

VOCAB = 8192
GLUE = [
    "the",
    "of",
    "a",
    "an",
    "to",
    "in",
    "and",
    "is",
    "are",
    "was",
    "were",
    "for",
    "on",
    "with",
    "by",
    "at",
    "from",
    "as",
    "that",
    "this",
    "it",
    "be",
    "or",
    "not",
    "which",
    "has",
    "have",
    "had",
    "can",
    "could",
    "will",
    "would",
    "if",
    "all",
    "there",
    "its",
    "into",
    "than",
    "when",
    "what",
    "where",
    "how",
    "who",
    "whose",
    "their",
    "they",
    "you",
    "your",
    "we",
    "our",
    "one",
    "no",
    "any",
    "each",
    "other",
    "only",
    "more",
    "some",
    "use",
    "used",
    "using",
    "value",
    "values",
    "does",
    "do",
    "may",
    "must",
    "should",
    "should",
    "also",
    "but",
    "so",
    "such",
    "these",
    "those",
    "then",
    "them",
    "been",
    "about",
    "return",
    "returns",
    "result",
    "results",
    "number",
    "name",
    "list",
    "following",
    "between",
    "same",
    "SELECT",
    "FROM",
    "WHERE",
    "ORDER",
    "BY",
    "LIMIT",
    "COUNT",
    "JOIN",
    "DESC",
    "AND",
]


def sample(pools: Path, prose: Path | None, seed: int, conversations: int) -> Iterator[str]:
    """Plain parts of conversations and prose documents."""
    rng = random.Random(seed)
    writer = Writer(Pools(pools), "train")
    for _ in range(conversations):
        c = writer.conversation(rng)
        for part in text_parts(c.tools, c.messages):
            if not part.special:
                yield part.text
    if prose:
        with gzip.open(prose, "rt") as file:
            documents = file.read().split("\x00")
        yield from documents[: len(documents) // 3]


def train(texts: Iterator[str], vocab: int = VOCAB) -> Any:
    """A tokenizers.Tokenizer."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    glue = "|".join(sorted(set(GLUE), key=lambda w: (-len(w), w)))
    pattern = rf" (?:{glue})(?![\p{{L}}\p{{N}}_])|\p{{L}}+|\p{{N}}|[^\s\p{{L}}\p{{N}}]+|\s*[\r\n]+|\s+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=16,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def config(template: str, context: int) -> dict[str, Any]:
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": template,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--prose", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--conversations", type=int, default=30000)
    args = parser.parse_args()
    tokenizer = train(sample(args.pools, args.prose, args.seed, args.conversations))
    tokenizer.save(str(args.out / "tokenizer.json"))
    print(json.dumps({"vocab": tokenizer.get_vocab_size()}))


if __name__ == "__main__":
    main()
