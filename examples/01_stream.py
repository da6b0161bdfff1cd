"""Stream tokens from a model in this process: text as it comes, then what it cost."""

from __future__ import annotations

import asyncio
import sys

from kogagent import Engine, SamplingParams, UserMessage


async def main(question: str) -> None:
    async with Engine.load("smollm2-135m") as engine:
        # A list of messages goes through the model's chat template; a plain string is continued as it is.
        stream = engine.stream([UserMessage(question)], max_tokens=60)
        async for token in stream:
            print(token.text, end="", flush=True)
        usage = stream.usage
        print(
            f"\n\n{usage.prompt_tokens} prompt tokens, {usage.completion_tokens} generated: {stream.reason}"
        )

        # The same seed draws the same tokens; leaving early stops the model at a token border.
        warm = SamplingParams(temperature=0.8, top_p=0.95, seed=7)
        async with engine.stream("Once upon a time", sampling=warm, stop="\n") as story:
            async for token in story:
                print(token.text, end="", flush=True)
                if token.text.endswith("."):
                    break
        print()


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is the capital of France?"))
