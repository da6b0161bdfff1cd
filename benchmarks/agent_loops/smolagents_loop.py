"""smolagents' loop over an OpenAI-style endpoint, in a Python that has it. Knows nothing of ours.

    python -m benchmarks.agent_loops.smolagents_loop

A line of JSON {"url", "prompt", "instructions", "turns"} is answered with the seconds of so many turns, each
with one call of `look`. Its own instructions, of some 2,000 tokens, are left out.
"""

from __future__ import annotations

import json
import time
from typing import Any, ClassVar

from benchmarks.child import answer_lines


def _loop(line: str) -> str:
    from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent
    from smolagents.agents import EMPTY_PROMPT_TEMPLATES
    from smolagents.memory import ActionStep

    class Look(Tool):  # type: ignore[misc]
        name = "look"
        description = "Look at a folder."
        inputs: ClassVar[dict[str, Any]] = {
            "path": {"type": "string", "description": "the folder"},
            "pattern": {"type": "string", "description": "names to show"},
            "depth": {"type": "integer", "description": "how many levels"},
        }
        output_type = "array"

        def forward(self, path: str, pattern: str, depth: int) -> list[str]:
            return [path, "a.txt"]

    asked = json.loads(line)
    model = OpenAIServerModel(
        "peer",
        api_base=asked["url"],
        api_key="unused",
        temperature=0.0,
        max_tokens=256,
        parallel_tool_calls=False,
        tool_choice={"type": "function", "function": {"name": "look"}},
    )
    agent = ToolCallingAgent(
        tools=[Look()],
        model=model,
        prompt_templates={**EMPTY_PROMPT_TEMPLATES, "system_prompt": asked["instructions"]},
        verbosity_level=LogLevel.OFF,
    )
    turns = 0
    start = time.perf_counter()
    for event in agent.run(asked["prompt"], stream=True, max_steps=asked["turns"] + 1):
        if isinstance(event, ActionStep):
            if event.error is not None:
                raise event.error
            turns += 1
            if turns == asked["turns"]:
                return repr(time.perf_counter() - start)
    raise ValueError(f"smolagents ended its run after {turns} of {asked['turns']} turns")


if __name__ == "__main__":
    answer_lines(_loop)
