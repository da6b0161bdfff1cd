"""A text cut to a number of tokens, exactly. Knows a tokenizer; no model, no messages."""

from __future__ import annotations

from kogagent.tokenizer import Tokenizer


def clip(tokenizer: Tokenizer, text: str, tokens: int) -> str:
    """The text where it has no more than `tokens` tokens; else its head, a line that says what is missing,
    and its tail, all together in no more. Two thirds are head; no character is split."""
    ids = tokenizer.encode(text)
    if len(ids) <= tokens:
        return text
    note = f"\n[… {len(ids)} of {len(ids)} tokens left out …]\n"  # as long as it will be
    room = tokens - len(tokenizer.encode(note))
    while room > 0:
        tail = room // 3
        head = room - tail
        left_out = len(ids) - room
        start = _text(tokenizer, ids[:head])
        end = _text(tokenizer, ids[len(ids) - tail :]) if tail else ""
        cut = f"{start}\n[… {left_out} of {len(ids)} tokens left out …]\n{end}"
        over = len(tokenizer.encode(cut)) - tokens
        if over <= 0:
            return cut
        room -= over  # pieces that join differently cost a token or two
    return _text(tokenizer, ids[:tokens])


def _text(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The whole characters of some ids."""
    return tokenizer.vocabulary.decode(ids).decode("utf-8", "ignore")
