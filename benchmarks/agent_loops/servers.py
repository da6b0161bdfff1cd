"""HTTP servers on the loopback over the same model, each in a process of its own, and the clients' loops.

    python -m benchmarks.agent_loops.servers KIND MODEL DEVICE

`kogagent` is `kogagent serve`; `transformers` and `compiled` are the least that an OpenAI-style server over a
player can be: completions of token ids, whole answers, a cache of its own. "port" is answered with its port.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.agent_loops.models import open_engine, spec_of
from benchmarks.agent_loops.players import Compiled, Player, Transformers
from benchmarks.agent_loops.tape import Step
from benchmarks.child import answer_lines
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


# ── the servers ──────────────────────────────────────────────────────────────────────────────


def _kogagent(model: str, device: str) -> Any:
    from kogagent.serve import app

    return app(open_engine(model, device), name="peer")


def _transformers(model: str, device: str) -> Any:
    from benchmarks.agent_loops.twins import twin_of

    return _playing(Transformers(twin_of(model, device)[0]))


def _compiled(model: str, device: str) -> Any:
    return _playing(Compiled(spec_of(model), device))


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
    import uvicorn

    kind, model, device = sys.argv[1:]
    make: dict[str, Callable[[str, str], Any]] = {
        "kogagent": _kogagent,
        "transformers": _transformers,
        "compiled": _compiled,
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(make[kind](model, device), log_level="warning", lifespan="off")
        )
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        answer_lines(lambda _: str(listener.getsockname()[1]))


if __name__ == "__main__":
    main()
