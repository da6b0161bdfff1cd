"""A whole model on disk: seeded random weights, a byte tokenizer, a chat template. Knows the file formats."""

from __future__ import annotations

import json
from pathlib import Path

from kogagent.spec import ModelSpec

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
"""Ids 256, 257…: the end of a text, ChatML, and the tags of a call."""

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{ '\\n' if not loop.first or message.content }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>tool
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

TINY_CHAT = ModelSpec(
    name="tiny-chat",
    vocab_size=264,  # three ids more than the tokenizer has: never to be emitted
    dim=32,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    ffn_dim=48,
    context=2048,
    windows=(64, 0),
    bos_id=256,
    eos_ids=(258, 256),
)
"""What `write_tiny_model` writes by default."""


def write_tiny_model(directory: str | Path, *, spec: ModelSpec = TINY_CHAT, seed: int = 0) -> Path:
    """Write a model that `Engine.load` reads: every byte is a token, and it babbles. Returns the directory.

    Needs torch. The spec's vocabulary must hold 261 ids.
    """
    from kogagent.engine.weights import random_tensors, save_checkpoint

    path = Path(directory)
    save_checkpoint(path, spec, random_tensors(spec, seed))
    (path / "tokenizer.json").write_text(json.dumps(_tokenizer()), encoding="utf-8")
    (path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "bos_token": "<|endoftext|>", "add_bos_token": False}),
        encoding="utf-8",
    )
    (path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return path


def _tokenizer() -> dict[str, object]:
    """Byte-level BPE without a merge, as tokenizer.json spells it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    to_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": 256 + i,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, name in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": to_bytes,
        "post_processor": None,
        "decoder": to_bytes,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letters[byte]: byte for byte in range(256)},
            "merges": [],
        },
    }
