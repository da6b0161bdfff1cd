"""What every SDK is asked to play. Knows no SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

PEERS = {
    "smolagents": ("smolagents", "of_smolagents"),
    "pydantic-ai": ("pydantic-ai-slim", "of_pydantic_ai"),
    "openai-agents": ("openai-agents", "of_openai_agents"),
    "langgraph": ("langgraph", "of_langgraph"),
}
"""Name: (distribution, module here). `prepare(tools)` of the module makes an agent with so many tools, and
returns an async function that plays one script with it; `say(call)` is a turn as a model of the SDK gives
it."""

T = TypeVar("T")
Call: TypeAlias = tuple[str, dict[str, object]]
"""(id, arguments) of a call of `look`."""


class Script(Generic[T]):
    """turns - 1 calls of `look`, each with arguments of its own, then an answer, "done".

    say makes the SDK's own value of each turn, of a call or of None for the answer. All are made beforehand:
    what a model does to make them is none of the loop's work.
    """

    def __init__(self, turns: int, salt: str, say: Callable[[Call | None], T]) -> None:
        self.turns, self.played = turns, 0
        calls = [(f"call_{at}", {"path": f"/{salt}/{at}", "depth": at}) for at in range(turns - 1)]
        self._said = [say(call) for call in (*calls, None)]

    def next_turn(self) -> T:
        """What the model says now."""
        self.played += 1
        return self._said[self.played - 1]


async def look(path: str, depth: int = 1) -> list[str]:
    """Look at a folder.

    Args:
        path: the folder
        depth: how many levels
    """
    return [path, "a.txt"]


def names(count: int) -> list[str]:
    """`look` and others of the same kind."""
    return [*(f"look_{n}" for n in range(count - 1)), "look"]
