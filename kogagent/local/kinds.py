"""How the text of an argument without quotes is read: by its tool's schema. Knows chats and grammars."""

from __future__ import annotations

from collections.abc import Sequence

from kogagent.chat import Chat, Kinds, any_kind
from kogagent.types import ToolSpec


def argument_kinds(chat: Chat, tools: Sequence[ToolSpec]) -> Kinds:
    """The types of these tools' arguments, for a format that writes strings bare; no other asks."""
    if not chat.format.outer.bare:
        return any_kind
    from kogagent.engine.grammar import ArgumentKinds

    return ArgumentKinds({tool.name: tool.parameters for tool in tools})
