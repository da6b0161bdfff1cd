"""HTTP servers on the loopback over the same model, each in a process of its own, and the clients' loops.

    python -m benchmarks.agent_loops.servers KIND MODEL DEVICE

`kogagent` is `kogagent serve`; `transformers` and `compiled` are the least that an OpenAI-style server over a
player can be: completions of token ids, whole answers, a cache of its own. "port" is answered with its port;
a line of JSON [[prompt, output], …] those two play themselves, without a socket, and answer with seconds.
Servers of others (llama_server.py, or one that runs already) are given text, which all of them take.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.agent_loops.loopback import answer_port
from benchmarks.agent_loops.models import open_engine, spec_of
from benchmarks.agent_loops.players import Compiled, Player, Transformers, play
from benchmarks.agent_loops.tape import Step
from kogagent import Tool

if TYPE_CHECKING:
    import openai

KINDS = ("kogagent", "transformers", "compiled")


def command(kind: str, model: str, asked: str, device: str) -> list[str]:
    """What starts a server. asked: the device for `Engine.load`; device: "cpu" or "cuda", for the others."""
    place = asked if kind == "kogagent" else device
    return [sys.executable, "-m", "benchmarks.agent_loops.servers", kind, model, place]


# ── the clients' loops ───────────────────────────────────────────────────────────────────────


async def chat_loop(
    client: openai.AsyncOpenAI,
    model: str,
    prompt: str,
    system: str,
    tools: Sequence[Tool[..., Any]],
    turns: int,
) -> list[str]:
    """So many turns of one streamed call each, as a plain program makes them; the arguments of each call."""
    by_name = {one.name: one for one in tools}
    offered: Any = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.spec.description, "parameters": t.spec.parameters},
        }
        for t in tools
    ]
    messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    asked: list[str] = []
    for _ in range(turns):
        stream = await client.chat.completions.create(
            model=model,
            messages=messages,
            tools=offered,
            tool_choice={"type": "function", "function": {"name": "look"}},
            parallel_tool_calls=False,
            temperature=0.0,
            max_tokens=256,
            stream=True,
        )
        id, name, arguments = "", "", ""
        async for chunk in stream:
            for delta in chunk.choices[0].delta.tool_calls or ():
                id, name = delta.id or id, (delta.function and delta.function.name) or name
                arguments += (delta.function and delta.function.arguments) or ""
        result = await by_name[name].function(**json.loads(arguments))
        function = {"name": name, "arguments": arguments}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": id, "content": json.dumps(result)})
        asked.append(arguments)
    return asked


async def ids_loop(client: openai.AsyncOpenAI, steps: Sequence[Step]) -> None:
    """The tape by completions of token ids."""
    for step in steps:
        await client.completions.create(
            model="peer",
            prompt=list(step.prompt),
            max_tokens=len(step.output),
            temperature=0.0,
            extra_body={"follow": list(step.output)},
        )


async def text_loop(client: openai.AsyncOpenAI, model: str, prompts: Sequence[tuple[str, int]]) -> int:
    """A completion of just so many tokens for each text, greedy and free. What it writes is thrown away: the
    next prompt holds the tape's words in its place. Returns the tokens of all prompts as the server counts
    them. Raises ValueError where it wrote another number of tokens."""
    read = 0
    for prompt, tokens in prompts:
        done = await client.completions.create(
            model=model,
            prompt=prompt,
            max_tokens=tokens,
            temperature=0.0,
            extra_body={"min_tokens": tokens},  # llama-cpp-python's, vLLM's and SGLang's name for it
        )
        if done.usage is None or done.usage.completion_tokens != tokens:
            raise ValueError(
                f"asked for {tokens} tokens, it wrote {done.usage and done.usage.completion_tokens}"
            )
        read += done.usage.prompt_tokens
    return read


# ── the servers ──────────────────────────────────────────────────────────────────────────────


def _transformers(model: str, device: str) -> Player:
    from benchmarks.agent_loops.twins import twin_of

    return Transformers(twin_of(model, device)[0])


def _compiled(model: str, device: str) -> Player:
    return Compiled(spec_of(model), device)


def _playing(player: Player) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        await asyncio.to_thread(player.step, body["prompt"], body["follow"])
        usage = {
            "prompt_tokens": len(body["prompt"]),
            "completion_tokens": len(body["follow"]),
            "total_tokens": len(body["prompt"]) + len(body["follow"]),
        }
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
        head = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "peer"}
        return JSONResponse({**head, "choices": [choice], "usage": usage})

    return Starlette(routes=[Route("/v1/completions", complete, methods=["POST"])])


def main() -> None:
    kind, model, device = sys.argv[1:]
    if kind == "kogagent":
        from kogagent.serve import app

        answer_port(app(open_engine(model, device), name="peer"))
        return
    make: dict[str, Callable[[str, str], Player]] = {"transformers": _transformers, "compiled": _compiled}
    player = make[kind](model, device)
    answer_port(_playing(player), lambda line: repr(play(player, json.loads(line))))


if __name__ == "__main__":
    main()
