"""Another model in the engine's place: anything with `stream(request)` will do. Runs without weights.

python examples/04_own_model.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kogagent import (
    Agent,
    CallDelta,
    CallReady,
    CallStarted,
    ModelEvent,
    TextDelta,
    ToolCall,
    ToolMessage,
    TurnEnd,
    TurnRequest,
    tool,
)


@tool
def count(word: str, letter: str) -> int:
    """Count a letter in a word."""
    return word.lower().count(letter.lower())


class Rules:
    """A model of two rules: count what is asked about, then say the result. No weights, no network."""

    async def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            yield TextDelta(f"It has {last.result.text}.")
        else:
            word, letter = getattr(last, "text", "").split()[-3::2]
            call = ToolCall("call_1", "count", f'{{"word": "{word}", "letter": "{letter}"}}')
            yield CallStarted(call.id, call.name)
            yield CallDelta(call.id, call.arguments)
            yield CallReady(call)
        yield TurnEnd("stop")


async def main() -> None:
    result = await Agent(Rules(), tools=[count]).run("How often has strawberry an r")
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
