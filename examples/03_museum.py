"""The demo in a program: a small real model answers from files and a database, call by call.

python examples/03_museum.py "How heavy is Lark in pounds?"
"""

from __future__ import annotations

import asyncio
import sys

from kogagent import CallReady, Engine, PlanDelta, RunFinished, TextDelta, ToolFinished
from kogagent.demo import DEFAULT_MODEL, DEFAULT_QUESTION, demo_history, demo_model, museum_agent


async def main(question: str) -> None:
    with Engine.load(DEFAULT_MODEL) as engine:
        agent = museum_agent(demo_model(engine))
        # a general model of this size would learn the loop from finished runs in front of the question
        async with agent.stream(question, history=demo_history(engine, question)) as events:
            async for event in events:
                match event:
                    case PlanDelta(text) | TextDelta(text):
                        print(text, end="", flush=True)
                    case CallReady(call):
                        print(f"\n  -> {call.name} {call.arguments}")
                    case ToolFinished(_, result):
                        print(f"  <- {result.text}")
                    case RunFinished(result):
                        used = result.usage
                        print(f"\n\n{result.turns} turns in {result.timings.wall_s:.1f} s, {used}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_QUESTION))
