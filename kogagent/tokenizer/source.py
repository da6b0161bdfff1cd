"""What a tokenizer is made of, whichever file it came from. Knows no bytes of tokens, no encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Added:
    """A token that is found in text before anything else looks at it.

    control: it is markup (a special token, or a tag such as <tool_call>) and never part of a user's text.
    lstrip, rstrip: it swallows the white space on that side.
    """

    id: int
    name: str
    control: bool
    lstrip: bool = False
    rstrip: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A tokenizer as read from disk.

    core: the `tokenizers.Tokenizer`, all added tokens in it. config: its JSON without vocabulary and merges.
    bos_id is put before a prompt when add_bos. templates: name -> Jinja source, "default" and perhaps
    "tool_use". names: role -> token text ("bos_token": "<s>"), as templates use them.
    """

    where: str
    core: Any
    config: Mapping[str, Any]
    added: tuple[Added, ...]
    bos_id: int | None
    add_bos: bool
    end_ids: tuple[int, ...]
    templates: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def is_tag(name: str) -> bool:
    """Whether an added token's text is markup: <tool_call>, </think>, [INST], <|im_end|>.

    Such tokens are often not flagged as special in the file, yet a model reads them as structure, so a
    user's text must not be able to produce them. Runs of white space, words and byte tokens are no tags.
    """
    inner = name[1:-1]
    enclosed = (name[:1] == "<" and name[-1:] == ">") or (name[:1] == "[" and name[-1:] == "]")
    return len(name) > 2 and enclosed and not any(c.isspace() for c in inner)


END_NAMES = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<|eot|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
)
"""Names that end a turn or a text wherever a vocabulary has them as control tokens."""
