"""Conversations to ids by a chat template, ids of a turn to events. Knows no model and no device."""

from kogagent.chat.chat import Chat
from kogagent.chat.formats import pick_call_format
from kogagent.chat.parser import TurnParser
from kogagent.chat.partial import partial_json
from kogagent.chat.reader import Kinds, any_kind

__all__ = ["Chat", "Kinds", "TurnParser", "any_kind", "partial_json", "pick_call_format"]
