"""A prompt made of the very ids its turns were written in. Knows messages and a template; no session.

Rendering a conversation anew may write a turn in other tokens than the model did. A conversation that comes
back from a store has its ids with its messages: made of them, its prompt is what it was, and what any cache
still holds of it is of use.
"""

from __future__ import annotations

from collections.abc import Sequence

from kogagent.chat import Chat
from kogagent.local.kinds import argument_kinds
from kogagent.tokenizer import Tokenizer
from kogagent.types import AssistantMessage, CallReady, Message, ToolSpec


def replayed(
    chat: Chat, tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> list[int] | None:
    """The prompt, or None where only rendering can tell: a turn without ids, ids of another tokenizer, a
    template whose later text depends on earlier one."""
    turns = [at for at, one in enumerate(messages) if isinstance(one, AssistantMessage)]
    if not turns or turns[0] == 0 or turns[-1] == len(messages) - 1:
        return None
    said = [one for one in messages if isinstance(one, AssistantMessage)]
    if not all(one.ids and _means(chat, tokenizer, one, tools) for one in said):
        return None
    ids = chat.render(messages[: turns[0]], tools)
    for at, following in zip(turns, [*turns[1:], len(messages)], strict=True):
        turn = messages[at]
        assert isinstance(turn, AssistantMessage)
        after = chat.follow(messages[:following], at + 1, turn.ids, tools)
        if after is None:
            return None
        ids += after
    return ids


def _means(chat: Chat, tokenizer: Tokenizer, message: AssistantMessage, tools: Sequence[ToolSpec]) -> bool:
    """Whether the message's ids say what it says: they may be of a model with another vocabulary."""
    if max(message.ids) >= len(tokenizer.vocabulary):
        return False
    parser = chat.parser(1, calls=bool(message.calls), kinds=argument_kinds(chat, tools))
    events = [*parser.feed(message.ids), *parser.finish()]
    calls = [event.call for event in events if isinstance(event, CallReady)]
    if [(call.name, call.arguments) for call in calls] != [(c.name, c.arguments) for c in message.calls]:
        return False
    words = "".join(getattr(event, "text", "") for event in events if not hasattr(event, "call_id"))
    return "".join(words.split()) == "".join((message.plan + message.text).split())
