"""Conversations to token ids with a loss mask, by the chat template's very words. Knows no model.

`text_parts` is template.jinja in Python, several times faster; a test holds the two equal. A special tag in
user text or in a result stays plain text: each part is encoded with special tokens off, tags are put in by
id.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kogagent.spec import HERMES
from training.turns import Conversation, Message

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
)
END_OF_TEXT, IM_START, IM_END = 0, 1, 2
TRAINED = 1 << 15  # flag of a stored uint16 id: the model learns to write it
IGNORED = 1 << 14  # flag: the loss never counts it
BRANCH = 1 << 13  # flag: here begins another continuation of the document's shared start
ID_MASK = BRANCH - 1
SHORT = 12  # characters of a text whose ids are kept


class Part(NamedTuple):
    """text: a special tag or plain text. flag: TRAINED, IGNORED or 0."""

    text: str
    special: bool
    flag: int


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(HERMES.item_separator, HERMES.key_separator))


def call_text(call: tuple[str, dict[str, Any]]) -> str:
    """One call between its tags."""
    return HERMES.prefix + call[0] + HERMES.middle + dumps(call[1]) + HERMES.suffix


def tool_line(spec: dict[str, Any]) -> str:
    """One tool as the system turn lists it."""
    line = '{"name": ' + dumps(spec["name"])
    if spec.get("description"):
        line += ', "description": ' + dumps(spec["description"])
    parameters = spec["parameters"]
    line += ', "parameters": ' + dumps(parameters.get("properties", {}))
    if parameters.get("required"):
        line += ', "required": ' + dumps(parameters["required"])
    if "$defs" in parameters:
        line += ', "$defs": ' + dumps(parameters["$defs"])
    return line + "}"


def text_parts(tools: list[dict[str, Any]], messages: list[Message], prompt: bool = False) -> list[Part]:
    """The conversation in parts; with prompt, the opening of the next assistant turn at the end."""
    out: list[Part] = []

    def tag(text: str, flag: int = 0) -> None:
        out.append(Part(text, True, flag))

    def plain(text: str, flag: int = 0) -> None:
        if text:
            out.append(Part(text, False, flag))

    rest = messages
    system = ""
    if messages and messages[0].role == "system":
        system, rest = messages[0].text, messages[1:]
    if system or tools:
        tag("<|im_start|>")
        plain("system\n" + system + ("\n" if system and tools else ""))
        if tools:
            tag("<tools>")
            plain("".join("\n" + tool_line(t) for t in tools) + "\n")
            tag("</tools>")
        tag("<|im_end|>")
        plain("\n")
    for m in rest:
        learn = 0 if m.role != "assistant" else TRAINED if m.trained else IGNORED
        tag("<|im_start|>")
        plain(m.role + "\n")
        if m.role == "tool":
            tag("<tool_response>")
            plain("\n" + m.text + "\n")
            tag("</tool_response>")
        else:
            plain(m.text + ("\n" if m.calls and m.text else ""), learn)
            for i, call in enumerate(m.calls):
                if i:
                    plain("\n", learn)
                tag("<tool_call>", learn)
                plain("\n" + call_text(call) + "\n", learn)
                tag("</tool_call>", learn)
        tag("<|im_end|>", learn)
        plain("\n")
    if prompt:
        tag("<|im_start|>")
        plain("assistant\n")
    return out


class Renderer:
    """Encodes conversations with one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        tokenizer.encode_special_tokens = True  # a tag in plain text stays text
        self.tokenizer = tokenizer
        self.special = {t: tokenizer.token_to_id(t) for t in SPECIAL}
        self._short: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def ids(self, tools: list[dict[str, Any]], messages: list[Message], prompt: bool = False) -> list[int]:
        parts = text_parts(tools, messages, prompt)
        return [i for ids in self._encoded(parts) for i in ids]

    def training(self, conversation: Conversation) -> npt.NDArray[np.uint16]:
        """Ids with their flags, closed by end of text. A branch is flagged where it begins and is not to be
        guessed there; branches of a conversation that opens with nothing shared are documents of their own.
        """
        start = text_parts(conversation.tools, conversation.messages)
        branches = [text_parts([], branch) for branch in conversation.branches]
        parts = [*start, *(part for branch in branches for part in branch)]
        encoded = iter(zip(parts, self._encoded(parts), strict=True))
        out: list[int] = []
        for i, length in enumerate(map(len, (start, *branches))):
            begin = len(out)
            if i and not start and out:
                out.append(END_OF_TEXT)
            for part, ids in itertools.islice(encoded, length):
                out += [i | part.flag for i in ids] if part.flag else ids
            if i and start:
                out[begin] |= BRANCH | IGNORED
        return np.array([*out, END_OF_TEXT], dtype=np.uint16)

    def _encoded(self, parts: list[Part]) -> list[list[int]]:
        """The ids of each part, made in one call; those of short texts (roles, line ends) are kept."""
        known = self._short
        texts = list({p.text for p in parts if not p.special and p.text not in known})
        made = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        new = {text: encoding.ids for text, encoding in zip(texts, made, strict=True)}
        if len(known) < 4096:
            known |= {text: ids for text, ids in new.items() if len(text) < SHORT}
        return [
            [self.special[p.text]] if p.special else new[p.text] if p.text in new else known[p.text]
            for p in parts
        ]
