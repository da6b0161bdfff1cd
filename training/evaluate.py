"""Scores a checkpoint in the package's own engine on held-out conversations; writes the held-out request
file.

    python -m training.evaluate write --data build/nano --count 400      # benchmarks/data/held_out.jsonl
    python -m training.evaluate runs --data build/nano --model laneformer-nano --count 100

`runs` plays agent-loop tasks of the test split to their end: the model's calls are run in the task's own
world;
a run is right when the final answer holds every expected value.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kogagent import Engine
from kogagent.loop.protocols import TurnRequest
from kogagent.types import AssistantMessage, CallReady, PlanDelta, TextDelta, ToolMessage, ToolResult
from kogagent.types import Message as EngineMessage
from training.dialogues import Writer
from training.engine_types import engine_messages, tool_specs
from training.naming import Split
from training.pools import Pools
from training.turns import Conversation

MAX_TURNS = 10


def requests(writer: Writer, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Single-turn requests: three quarters with calls, a quarter where no tool fits."""
    rng = random.Random(seed)
    for i in range(count):
        c = (writer.decline if i % 4 == 3 else writer.calls)(rng, writer.toolset(rng))
        system = c.messages[0].text if c.messages[0].role == "system" else ""
        user = next(m.text for m in c.messages if m.role == "user")
        calls = c.messages[-1].calls
        kind = c.tags[0] if c.tags else c.kind
        yield {"id": f"{kind}_{i}", "system": system, "request": user, "tools": c.tools, "calls": calls}


async def play(engine: Engine, c: Conversation, plan: int = 0) -> tuple[bool, int, str]:
    """(right, calls made, final answer) of one agent-loop task: its first request only."""
    assert c.execute is not None
    first = next(i for i, m in enumerate(c.messages) if m.role == "user")
    messages: list[EngineMessage] = engine_messages(c.messages[: first + 1])
    tools = tool_specs(c.tools)
    model = engine.model()
    made = 0
    try:
        for _ in range(MAX_TURNS):
            text, plan_text, calls = "", "", []
            request = TurnRequest(tuple(messages), tuple(tools), max_tokens=300, plan_tokens=plan)
            async for event in model.stream(request):
                if isinstance(event, CallReady):
                    calls.append(event.call)
                elif isinstance(event, PlanDelta):
                    plan_text += event.text
                elif isinstance(event, TextDelta):
                    text += event.text
            if not calls:
                return all(e in text for e in c.expected), made, text
            messages.append(AssistantMessage(text=text, plan=plan_text, calls=tuple(calls)))
            for call in calls:
                made += 1
                messages.append(
                    ToolMessage(ToolResult(call.id, call.name, _run(c, call.name, call.arguments)))
                )
        return False, made, "(no answer)"
    finally:
        await model.aclose()


def _run(c: Conversation, name: str, arguments: str) -> str:
    assert c.execute is not None
    try:
        return c.execute((name, json.loads(arguments)))
    except Exception as error:  # what a tool's own code raises reaches the model as text
        return f"{name} failed: {error}"


def tasks(writer: Writer, seed: int, count: int) -> list[Conversation]:
    """Desk tasks with one request and at least one expected value."""
    rng = random.Random(seed)
    out: list[Conversation] = []
    while len(out) < count:
        c = writer.desk(rng)
        if c.expected and sum(m.role == "user" for m in c.messages) == 1:
            out.append(c)
    return out


async def play_all(engine: Engine, conversations: list[Conversation], show: int) -> list[bool]:
    out: list[bool] = []
    for c in conversations:
        right, made, text = await play(engine, c)
        out.append(right)
        if not right and show > 0:
            show -= 1
            user = next(m.text for m in c.messages if m.role == "user")
            print(f"wrong ({made} calls): {user!r}\n   expected {c.expected}\n   said {text!r}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["write", "runs"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="laneformer-nano")
    parser.add_argument("--split", default="test", choices=["train", "test"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=9001)
    parser.add_argument("--show", type=int, default=0, help="print so many wrong runs")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data/held_out.jsonl"))
    args = parser.parse_args()
    split: Split = args.split
    writer = Writer(Pools(args.data / "pools.json.gz"), split)
    if args.what == "write":
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("w", encoding="utf-8") as file:
            for row in requests(writer, args.seed, args.count):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    with Engine.load(args.model) as engine:
        right = asyncio.run(play_all(engine, tasks(writer, args.seed, args.count), args.show))
    print(json.dumps({"runs": len(right), "right": sum(right) / len(right), "split": split}))


if __name__ == "__main__":
    main()
