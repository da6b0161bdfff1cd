"""A run with everything in it, watched."""

from __future__ import annotations

from kogagent import Agent, RunContext, Timings, Usage, Written, tool
from kogagent.observe import RunTrace, Trace
from kogagent.testing import ScriptedModel, ScriptedTurn, call


@tool
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    if city == "Atlantis":
        raise KeyError("no such city")
    return f"3 degrees in {city}"


@tool
async def slow(steps: int, context: RunContext[None]) -> str:
    """Take a while."""
    for step in range(steps):
        context.report(f"step {step}")
    return "done"


def script(text: str = "It is cold.") -> ScriptedModel:
    """Two turns of calls, one that fails, and an answer; tokens of each kind."""
    return ScriptedModel(
        ScriptedTurn(
            plan="I look it up.",
            calls=(call("weather", city="Oslo"), call("weather", city="Atlantis")),
            usage=Usage(0, 100, 6, 20, 7),
            timings=Timings(prefill_s=1e-5, sampled_s=2e-5, forced_s=1e-5, render_s=1e-5),
            written=(Written("I look"), Written("<tool_call>", True, True), Written('{"city":', True)),
        ),
        ScriptedTurn(calls=(call("slow", steps=2),), usage=Usage(130, 20, 3, 4, 4)),
        ScriptedTurn(text=text, usage=Usage(150, 9, 8, 0, 8), written=(Written(text[:5]), Written(text[5:]))),
    )


async def watched(text: str = "It is cold.", prompt: str = "Is it warm?", name: str = "helper") -> RunTrace:
    trace = Trace()
    await Agent(script(text), [weather, slow], observers=[trace], name=name).run(prompt)
    return trace.runs[0]
