"""An agent of another SDK on our endpoint: OpenAI's own agents, with a tool, whole and streamed."""

from __future__ import annotations

from pathlib import Path

import agents
import pytest
from serving import NAME, ScriptedBackend, client_of, scripted_engine

from kogagent.testing.tiny import write_tiny_model
from kogagent.tokenizer import Tokenizer

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_of_another_sdk_calls_its_tool_and_answers(tmp_path: Path, stream: bool) -> None:
    asked: list[str] = []

    @agents.function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "12 degrees"

    agents.set_tracing_disabled(True)
    tokenizer = Tokenizer.load(write_tiny_model(tmp_path))
    async with (
        scripted_engine(ScriptedBackend(tokenizer, [CALL, "It is warm."]), tokenizer) as engine,
        client_of(engine) as client,
    ):
        model = agents.OpenAIChatCompletionsModel(model=NAME, openai_client=client)
        agent = agents.Agent(
            name="forecaster",
            instructions="Be brief.",
            model=model,
            tools=[weather],
            model_settings=agents.ModelSettings(include_usage=True),
        )
        if stream:
            running = agents.Runner.run_streamed(agent, "Is it warm in Oslo?")
            text = ""
            async for event in running.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    text += event.data.delta
            assert text == running.final_output == "It is warm."
            usage = running.context_wrapper.usage
        else:
            result = await agents.Runner.run(agent, "Is it warm in Oslo?")
            assert result.final_output == "It is warm."
            usage = result.context_wrapper.usage
        assert asked == ["Oslo"] and usage.requests == 2
        assert usage.input_tokens_details.cached_tokens > 200 and usage.output_tokens > len("It is warm.")
