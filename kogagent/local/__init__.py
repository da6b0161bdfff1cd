"""Where everything meets: the public engine in text, and the loop's model made of it."""

from kogagent.local.engine import Engine
from kogagent.local.model import LocalModel
from kogagent.local.stream import Choices, Ebnf, JsonSchema, Regex, TextSession, TokenStream
from kogagent.local.tokens import Token
from kogagent.local.turn import ModelTurn

__all__ = [
    "Choices",
    "Ebnf",
    "Engine",
    "JsonSchema",
    "LocalModel",
    "ModelTurn",
    "Regex",
    "TextSession",
    "Token",
    "TokenStream",
]
