"""One past, several continuations: fork a session instead of computing it again, rewind to try anew."""

from __future__ import annotations

import asyncio

from kogagent import Engine, SamplingParams

PAST = "A short list of animals and the sounds they make.\nThe cow says moo.\nThe duck says quack.\n"


async def main() -> None:
    async with Engine.load("smollm2-135m") as engine, engine.session() as session:
        session.append(PAST)
        await session.prefill()  # once, for all that follow

        for animal in ("cat", "dog", "sheep"):
            async with await session.fork() as fork:
                fork.append(f"The {animal} says")
                stream = fork.stream(stop="\n", max_tokens=12)
                text = await stream.text()
                usage = stream.usage
                cost = f"{usage.reused_tokens} tokens reused, {usage.prefilled_tokens} new"
                print(f"The {animal} says{text}   ({cost})")

        mark = len(session)
        for seed in range(3):
            session.append("The horse says")
            warm = SamplingParams(temperature=1.0, seed=seed)
            text = await session.stream(sampling=warm, stop=".", max_tokens=12).text()
            print(f"seed {seed}: The horse says{text}")
            session.rewind(mark)


if __name__ == "__main__":
    asyncio.run(main())
