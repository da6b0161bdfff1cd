"""Everything a loop of calls is compared with: other programs on its tape, other loops on our engine.

Each peer is a function that does one run after ours and returns its turns a second. What could not be started
is listed with the reason, never dropped silently.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import torch

from benchmarks.agent_loops import servers
from benchmarks.agent_loops.loops import INSTRUCTIONS
from benchmarks.agent_loops.players import Transformers, play
from benchmarks.agent_loops.tape import Step
from benchmarks.agent_loops.twins import gguf_of, twin_of
from benchmarks.child import Child, PeerFailed
from kogagent import Tool
from kogagent.local import Engine

_CHECKED = 12  # greedy tokens in which a peer of the same weights is compared before anything is timed


@dataclass(frozen=True, slots=True)
class Played:
    """One run of ours that peers follow. calls: the arguments of each call, in order."""

    prompt: str
    tools: Sequence[Tool[..., Any]]
    steps: Sequence[Step]
    calls: Sequence[str]


class Peers:
    """The peers of a model that can be had here. A context manager: leaving it ends their processes.

    left_out: why each other peer is missing. notes: what must be known to read the figures.
    """

    def __init__(self, engine: Engine, model: str, *, device: str, llama_python: Path | None) -> None:
        self._engine, self._model, self._device, self._llama_python = engine, model, device, llama_python
        self._stack = ExitStack()
        self._same_weights: Transformers | None = None
        self._urls: dict[str, str] = {}
        self._runs: dict[str, Callable[[asyncio.Runner, Played], float]] = {}
        self.left_out: list[str] = []
        self.notes: list[str] = []

    def __enter__(self) -> Peers:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kogagent-peers-")))
            self._runs["ours without grammar"] = self._ungrammared
            for start in (self._transformers, self._llama, self._servers, self._pydantic_ai):
                try:
                    start(stack)
                except (PeerFailed, ImportError) as error:
                    self.left_out.append(str(error))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def runs(self, runner: asyncio.Runner, played: Callable[[], Played]) -> dict[str, Callable[[], float]]:
        """Every peer as a run after the newest of ours."""

        def bound(run: Callable[[asyncio.Runner, Played], float]) -> Callable[[], float]:
            return lambda: run(runner, played())

        return {name: bound(run) for name, run in self._runs.items()}

    # ── ours, otherwise ──

    def _ungrammared(self, runner: asyncio.Runner, played: Played) -> float:
        """The same prompts and as many tokens, free. What it writes is thrown away and the tape's put in its
        place, so that each call is pre-filled: the least a loop without a grammar can do."""

        async def work() -> float:
            session = self._engine._core.session()  # ids, not text
            try:
                start = perf_counter()
                for step in played.steps:
                    session.sync_to(list(step.prompt))
                    stream = session.stream(max_tokens=len(step.output), stop_ids=frozenset())
                    async for _ in stream:
                        pass
                    await stream.aclose()
                return len(played.steps) / (perf_counter() - start)
            finally:
                await session.aclose()

        return runner.run(work())

    # ── other programs ──

    def _transformers(self, stack: ExitStack) -> None:
        if self._device == "cuda":
            raise PeerFailed("transformers: its players here are for the CPU")
        twin, same = twin_of(self._model)
        player = Transformers(twin)
        self._runs["transformers"] = lambda _, p: len(p.steps) / play(player, _plain(p.steps))
        self.notes.append(f"transformers FP16 on {torch.get_num_threads()} threads")
        if same:
            self._same_weights = player
        else:
            self.notes.append("its stand-in is a plain transformer of this size with random weights")

    def _llama(self, stack: ExitStack) -> None:
        if self._llama_python is None:
            raise PeerFailed("llama.cpp: no Python with llama-cpp-python was named (--llama PYTHON)")
        path, same = gguf_of(self._model, self._folder)
        command = [str(self._llama_python), "-m", "benchmarks.agent_loops.players", str(path)]
        child = Child([*command, str(torch.get_num_threads())], "llama.cpp", seconds=300)
        stack.callback(child.close)
        self._runs["llama.cpp"] = lambda _, p: (
            len(p.steps) / float(child.ask(json.dumps(_plain(p.steps)), 600))
        )
        if not same:
            self.notes.append("llama.cpp plays on the stand-in too")

    def _servers(self, stack: ExitStack) -> None:
        import openai

        for kind in servers.KINDS:
            try:
                child, url = servers.start(kind, self._model, self._device)
            except PeerFailed as error:
                self.left_out.append(str(error))
                continue
            stack.callback(child.close)
            self._urls[kind] = url
        self.left_out.append("llama.cpp's server, vLLM, SGLang: not run by this program")

        def client(kind: str) -> openai.AsyncOpenAI:
            return openai.AsyncOpenAI(base_url=self._urls[kind], api_key="unused", max_retries=0)

        def chat(runner: asyncio.Runner, p: Played) -> float:
            async def work() -> float:
                async with client("kogagent") as to:
                    start = perf_counter()
                    said = await servers.chat_loop(to, "peer", p.prompt, INSTRUCTIONS, p.tools, len(p.calls))
                    seconds = perf_counter() - start
                self._same_calls(said, p.calls)
                return len(said) / seconds

            return runner.run(work())

        def ids(runner: asyncio.Runner, p: Played) -> float:
            async def work() -> float:
                async with client("transformers") as to:
                    start = perf_counter()
                    await servers.ids_loop(to, p.steps)
                    return len(p.steps) / (perf_counter() - start)

            return runner.run(work())

        for kind, name, run in (
            ("kogagent", "kogagent serve", chat),
            ("transformers", "transformers over HTTP", ids),
        ):
            if kind in self._urls:
                self._runs[name] = run

    def _same_calls(self, said: Sequence[str], ours: Sequence[str]) -> None:
        """Note once where the server's calls are not ours: there a history is text, here it is ids, and a
        text that can be written in several ways is read back in one."""
        equal = sum(a == b for a, b in zip(said, ours, strict=True))
        note = "kogagent serve did not write every call as ours did: over HTTP a history is text, not ids"
        if equal < len(ours) and note not in self.notes:
            self.notes.append(note)

    # ── other loops ──

    def _pydantic_ai(self, stack: ExitStack) -> None:
        import openai
        import pydantic_ai  # noqa: F401 - a peer that is not installed is found out now

        from kogagent.serve import client

        def run(to: Callable[[], openai.AsyncOpenAI], name: str) -> Callable[[asyncio.Runner, Played], float]:
            return lambda runner, p: len(p.calls) / runner.run(_sdk_loop(to(), name, p))

        self._runs["pydantic-ai in process"] = run(lambda: client(self._engine), self._engine.spec.name)
        url = self._urls.get("kogagent")
        if url is not None:
            self._runs["pydantic-ai on kogagent serve"] = run(
                lambda: openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0), "peer"
            )

    def check(self, runner: asyncio.Runner, prompt: Sequence[int]) -> None:
        """Compare greedy tokens with a peer of the same weights; the outcome is a note."""
        if self._same_weights is None:
            return
        theirs = self._same_weights.greedy(prompt, _CHECKED)

        async def ours() -> list[int]:
            session = self._engine._core.session()
            try:
                session.sync_to(list(prompt))
                stream = session.stream(max_tokens=_CHECKED, stop_ids=frozenset())
                return [emitted.id async for batch in stream for emitted in batch]
            finally:
                await session.aclose()

        equal = sum(a == b for a, b in zip(runner.run(ours()), theirs, strict=True))
        self.notes.append(f"{equal} of {_CHECKED} free greedy tokens equal to transformers'")


def _plain(steps: Sequence[Step]) -> list[tuple[Sequence[int], Sequence[int]]]:
    return [(step.prompt, step.output) for step in steps]


async def _sdk_loop(client: Any, name: str, played: Played) -> float:
    """Seconds of the same turns under pydantic-ai: it ends when its limit of requests is reached."""
    import pydantic_ai
    from pydantic_ai.exceptions import UsageLimitExceeded
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    tools = [
        pydantic_ai.Tool.from_schema(t.function, t.name, t.spec.description, dict(t.spec.parameters))
        for t in played.tools
    ]
    settings: Any = {
        "temperature": 0.0,
        "max_tokens": 256,
        "parallel_tool_calls": False,
        # Its own tool_choice refuses to force a call in every turn: an agent of it must be able to end.
        "extra_body": {"tool_choice": {"type": "function", "function": {"name": "look"}}},
    }
    async with client:
        model = OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
        agent = pydantic_ai.Agent(model, instructions=INSTRUCTIONS, tools=tools, model_settings=settings)
        start = perf_counter()
        try:
            await agent.run(played.prompt, usage_limits=UsageLimits(request_limit=len(played.calls)))
        except UsageLimitExceeded:
            return perf_counter() - start
    raise ValueError("pydantic-ai ended its run before its limit: not the same run")
