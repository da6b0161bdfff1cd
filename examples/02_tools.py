"""Typed tools, a plan, parallel calls and a typed answer. Runs without weights: the model follows a script.

python examples/02_tools.py
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kogagent import Agent, PlanDelta, Retry, RunFinished, ToolFinished, ToolStarted, tool
from kogagent.testing import ScriptedModel, ScriptedTurn, call

TEMPERATURES = {"Oslo": 3, "Lima": 19}


class Comparison(BaseModel):
    warmer: str
    difference: Annotated[int, Field(ge=0)]


@tool
async def weather(city: str, unit: Literal["c", "f"] = "c") -> int:
    """Tell the temperature of a city.

    Args:
        city: its English name
        unit: Celsius or Fahrenheit
    """
    if city not in TEMPERATURES:
        raise Retry(f"no such city; known are {', '.join(TEMPERATURES)}")
    celsius = TEMPERATURES[city]
    return celsius if unit == "c" else celsius * 9 // 5 + 32


# With an engine: model = Engine.load("…"). Nothing else changes.
model = ScriptedModel(
    ScriptedTurn(
        plan="I need both temperatures.",
        calls=(call("weather", city="Oslo"), call("weather", city="Lyma")),
    ),
    ScriptedTurn(plan="A name was wrong.", calls=(call("weather", city="Lima"),)),
    '{"warmer": "Lima", "difference": 16}',
)
agent = Agent(model, tools=[weather], plan=True, output_type=Comparison)


async def main() -> None:
    async with agent.stream("Is Oslo or Lima warmer?") as events:
        async for event in events:
            match event:
                case PlanDelta(text):
                    print("plan   ", text)
                case ToolStarted(asked):
                    print("call   ", asked.name, asked.arguments)
                case ToolFinished(asked, result):
                    print("result ", result.status, result.text)
                case RunFinished(result):
                    print("answer ", result.output, f"after {result.turns} turns")


if __name__ == "__main__":
    asyncio.run(main())
