"""What every SDK is asked to play. Knows no SDK."""

from __future__ import annotations

PEERS = {
    "smolagents": ("smolagents", "of_smolagents"),
    "pydantic-ai": ("pydantic-ai-slim", "of_pydantic_ai"),
    "openai-agents": ("openai-agents", "of_openai_agents"),
    "langgraph": ("langgraph", "of_langgraph"),
}
"""Name: (distribution, module here). `prepare(tools)` of the module makes an agent with so many tools, and
returns an async function that plays one script with it."""


class Script:
    """turns - 1 calls of `look`, each with arguments of its own, then an answer."""

    def __init__(self, turns: int, salt: str) -> None:
        self.turns, self._salt, self.played = turns, salt, 0

    def next_call(self) -> tuple[str, dict[str, object]] | None:
        """(id, arguments) of the next turn's call; None for the last turn, which answers "done"."""
        at = self.played
        self.played += 1
        if at == self.turns - 1:
            return None
        return f"call_{at}", {"path": f"/{self._salt}/{at}", "depth": at}


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
