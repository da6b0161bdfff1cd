"""Results cut to a number of tokens. Knows a model that counts them, no tokens."""

from __future__ import annotations

from kogagent.loop.protocols import MeasuringModel, Model

_BYTES_A_TOKEN = 4


def clipped(model: Model, text: str, tokens: int) -> str:
    """The text itself where it fits, else its head and tail and a line that says how much is missing.

    Exact where the model knows its tokens; else by four bytes a token.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size < tokens:
        return text  # no token is less than a byte
    if isinstance(model, MeasuringModel):
        return model.clip(text, tokens)
    most = tokens * _BYTES_A_TOKEN
    if size <= most:
        return text
    room = max(most - 64, most // 2)  # the line in the middle counts too
    raw = text.encode("utf-8", "replace")
    tail = room // 3
    head = raw[: room - tail].decode("utf-8", "ignore")
    end = raw[len(raw) - tail :].decode("utf-8", "ignore")
    left_out = len(text) - len(head) - len(end)
    return f"{head}\n[… {left_out} of {len(text)} characters left out …]\n{end}"
