"""Everything a loop of calls is compared with: other programs on its tape, other loops on our engine.

Each peer is a function that does one run after ours and returns its turns a second. What could not be started
or broke is listed with the reason, never dropped silently.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.agent_loops import servers
from benchmarks.agent_loops.loops import INSTRUCTIONS, calls_loop
from benchmarks.agent_loops.measure import timed
from benchmarks.agent_loops.models import open_engine
from benchmarks.agent_loops.other_loops import pydantic_ai_loop, smolagents_command, smolagents_loop
from benchmarks.agent_loops.players import Transformers, play
from benchmarks.agent_loops.tape import Step
from benchmarks.agent_loops.twins import gguf_of, twin_of
from benchmarks.child import Child, PeerFailed
from kogagent import Tool
from kogagent.local import Engine

if TYPE_CHECKING:
    import openai

_CHECKED = 12  # greedy tokens in which a peer of the same weights is compared before anything is timed
PROBED = 3  # turns that show how long a peer takes
_START_S = 240.0  # for a process to be ready: one that compiles on a CPU takes minutes
_RUN_S = 120.0

Run = Callable[[asyncio.Runner, "Played"], float]
"""Plays and gives turns a second."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of ours that peers follow. calls: the arguments of each call, in order."""

    prompt: str
    tools: Sequence[Tool[..., Any]]
    steps: Sequence[Step]
    calls: Sequence[str]

    def first(self, turns: int) -> Played:
        """So many of its turns."""
        return replace(self, steps=self.steps[:turns], calls=self.calls[:turns])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compare with. seconds: what one run of a peer should take at most; one that needs longer plays
    the first turns only. compiled: whether to start those that compile. servers: OpenAI-style servers that
    run already, by name. pythons: those of llama.cpp and of smolagents, None where there is none."""

    seconds: float = 2.0
    compiled: bool = True
    servers: Mapping[str, str] = field(default_factory=dict)
    llama_python: str | None = None
    smolagents_python: str | None = None


class Peers:
    """The peers of a model that can be had here. A context manager: leaving it ends their processes.

    device: as `Engine.load` takes it, for our own server. left_out: why each other peer is missing. notes:
    what must be known to read the figures.
    """

    def __init__(self, engine: Engine, model: str, wanted: Wanted, *, device: str) -> None:
        self._engine, self._model, self._wanted = engine, model, wanted
        self._asked = device
        self._device = "cuda" if engine.backend_name == "cuda" else "cpu"
        self._turns: dict[str, int] = {}  # that a slow peer plays
        self._stack = ExitStack()
        self._same_weights: Transformers | None = None
        self._children: dict[str, Child] = {}
        self._urls: dict[str, str] = {}
        self._runs: dict[str, Run] = {}
        self.left_out: list[str] = []
        self.notes: list[str] = []

    def __enter__(self) -> Peers:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kogagent-peers-")))
            self._runs["ours without grammar"] = self._ungrammared
            self._start_children(stack)
            self._try("torch", lambda: self._add_torch(stack))
            for add in (
                self._add_transformers,
                self._add_players,
                self._add_servers,
                self._add_text_servers,
                self._add_pydantic_ai,
                self._add_smolagents,
            ):
                self._try(add.__name__.removeprefix("_add_"), add)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def seconds(self) -> float:
        """What one run should take at most."""
        return self._wanted.seconds

    def runs(self, runner: asyncio.Runner, played: Callable[[], Played]) -> dict[str, Callable[[], float]]:
        """Every peer as a run after the newest of ours. Not a number: it broke, see `left_out`."""

        def bound(name: str) -> Callable[[], float]:
            return lambda: self._bounded(name, runner, played())

        return {name: bound(name) for name in self._runs}

    def _bounded(self, name: str, runner: asyncio.Runner, played: Played) -> float:
        """A run of a peer in about its time; at the first, how many turns that is."""
        run = self._runs.get(name)
        if run is None:
            return math.nan
        try:
            if name not in self._turns:
                rate = run(runner, played.first(PROBED))
                turns = self._turns[name] = max(
                    PROBED, min(len(played.steps), int(rate * self._wanted.seconds))
                )
                if len(played.steps) <= PROBED:
                    return rate
                if turns < len(played.steps):
                    self.notes.append(f"{name} played the first {turns} turns of a run")
            return run(runner, played.first(self._turns[name]))
        except Exception as error:  # whatever another program raises is no reason to lose our figures
            self.left_out.append(f"{name}: {error}")
            del self._runs[name]
            return math.nan

    def _try(self, name: str, add: Callable[[], None]) -> None:
        try:
            add()
        except Exception as error:
            self.left_out.append(f"{name}: {error}")

    def _start_children(self, stack: ExitStack) -> None:
        """All processes at once: one that compiles takes a minute to get ready."""
        commands = {
            f"{kind} server": servers.command(kind, self._model, self._asked, self._device)
            for kind in servers.KINDS
        }
        if not self._wanted.compiled:
            del commands["compiled server"]
            self.left_out.append(
                "torch.compile: not in the short set on a CPU, where it compiles for minutes"
            )
        commands |= self._llama_commands()
        if self._wanted.smolagents_python is None:
            self.left_out.append("smolagents: no Python here has it (make peers, or KOGAGENT_PEERS_PYTHON)")
        else:
            commands["smolagents"] = smolagents_command(self._wanted.smolagents_python)

        def start(name: str) -> Child | PeerFailed:
            try:
                return Child(commands[name], f"{name} of {self._model}", _START_S)
            except PeerFailed as error:
                return error

        with ThreadPoolExecutor(len(commands)) as threads_:
            for name, child in zip(commands, threads_.map(start, commands), strict=True):
                print(
                    f"  {name} is {'left out' if isinstance(child, PeerFailed) else 'ready'}", file=sys.stderr
                )
                if isinstance(child, PeerFailed):
                    self.left_out.append(str(child))
                else:
                    stack.callback(child.close)
                    self._children[name] = child

    def _llama_commands(self) -> dict[str, list[str]]:
        python = self._wanted.llama_python
        if python is None:
            self.left_out.append("llama.cpp: no Python here has it (make peers, or KOGAGENT_PEERS_PYTHON)")
            return {}
        path, self._llama_same = gguf_of(self._model, self._folder)
        place, threads = "benchmarks.agent_loops", str(torch.get_num_threads())
        commands = {"llama.cpp": [python, "-m", f"{place}.players", str(path), threads]}
        if self._llama_same:
            commands["llama.cpp server"] = [python, "-m", f"{place}.llama_server", str(path), threads]
        else:
            self.left_out.append("llama.cpp's server: it takes text, and the stand-in has no vocabulary")
        return commands

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

    def _add_torch(self, stack: ExitStack) -> None:
        """The other backend of a CPU, in a loop of its own: its calls are greedy too."""
        if self._engine.backend_name != "native":
            return
        other = stack.enter_context(open_engine(self._model, "torch"))

        def run(runner: asyncio.Runner, played: Played) -> float:
            one = calls_loop(len(played.calls), len(played.tools))
            return runner.run(timed(one.task(other))).turns_per_second

        self._runs["ours on the torch backend"] = run

    # ── other programs ──

    def _add_transformers(self) -> None:
        twin, same = twin_of(self._model, self._device)
        player = Transformers(twin)
        self._runs["transformers"] = lambda _, p: len(p.steps) / play(player, _plain(p.steps))
        where = "on the GPU" if self._device == "cuda" else f"on {torch.get_num_threads()} threads"
        self.notes.append(f"transformers FP16 {where}")
        if same:
            self._same_weights = player
        else:
            self.notes.append("its stand-in is a plain transformer of this size with random weights")

    def _add_players(self) -> None:
        def run(child: Child) -> Run:
            return lambda _, p: len(p.steps) / float(child.ask(json.dumps(_plain(p.steps)), _RUN_S))

        if "compiled server" in self._children:
            name = "torch.compile, static cache"
            self._runs[name] = run(self._children["compiled server"])
            self.notes.append(f"{name} has random weights")
        if "llama.cpp" in self._children:
            self._runs["llama.cpp"] = run(self._children["llama.cpp"])
            if not self._llama_same:
                self.notes.append("llama.cpp plays on the stand-in too")

    def _add_servers(self) -> None:
        import openai

        for kind in servers.KINDS:
            child = self._children.get(f"{kind} server")
            if child is not None:
                self._urls[kind] = f"http://127.0.0.1:{child.ask('port')}/v1"

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

        def ids(kind: str) -> Run:
            async def work(p: Played) -> float:
                async with client(kind) as to:
                    start = perf_counter()
                    await servers.ids_loop(to, p.steps)
                    return len(p.steps) / (perf_counter() - start)

            return lambda runner, p: runner.run(work(p))

        runs: dict[str, tuple[str, Run]] = {"kogagent": ("kogagent serve", chat)}
        runs["transformers"] = ("transformers over HTTP", ids("transformers"))
        runs["compiled"] = ("torch.compile over HTTP", ids("compiled"))
        for kind in self._urls:
            name, run = runs[kind]
            self._runs[name] = run

    def _same_calls(self, said: Sequence[str], ours: Sequence[str]) -> None:
        """Note once where the server's calls are not ours: there a history is text, here it is ids, and a
        text that can be written in several ways is read back in one."""
        if tuple(said) != tuple(ours):
            self._note(
                "kogagent serve did not write every call as ours did: over HTTP a history is text, not ids"
            )

    def _add_text_servers(self) -> None:
        """Servers of others: llama.cpp's own, and those that run already."""
        import openai

        urls = dict(self._wanted.servers)
        if "llama.cpp server" in self._children:
            port = self._children["llama.cpp server"].ask("port")
            urls["llama.cpp's server"] = f"http://127.0.0.1:{port}/v1"
        for other in ("vllm", "sglang"):
            if not any(other in name.lower() for name in urls):
                there = importlib.util.find_spec(other) is not None
                why = "installed, but no server of it was named" if there else "not installed"
                self.left_out.append(f"{other}: {why} (--server {other}=http://127.0.0.1:PORT/v1)")
        tokens, end = self._engine.tokenizer.vocabulary.tokens, "replace"

        def run(name: str) -> Run:
            async def work(p: Played) -> float:
                texts = [b"".join(tokens[i] for i in step.prompt).decode("utf-8", end) for step in p.steps]
                lengths = [len(step.output) for step in p.steps]
                async with openai.AsyncOpenAI(base_url=urls[name], api_key="unused", max_retries=0) as to:
                    model = (await to.models.list()).data[0].id
                    start = perf_counter()
                    read = await servers.text_loop(to, model, list(zip(texts, lengths, strict=True)))
                    seconds = perf_counter() - start
                told = sum(len(step.prompt) for step in p.steps)
                if read != told:
                    self._note(f"{name} reads the prompts' text as {read / told:.2f} times our tokens")
                return len(p.steps) / seconds

            return lambda runner, p: runner.run(work(p))

        for name in urls:
            self._runs[name] = run(name)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # ── other loops ──

    def _add_pydantic_ai(self) -> None:
        import openai
        import pydantic_ai  # noqa: F401 - a peer that is not installed is found out now

        from kogagent.serve import client

        def run(to: Callable[[], openai.AsyncOpenAI], name: str) -> Run:
            return lambda runner, p: len(p.calls) / runner.run(pydantic_ai_loop(to(), name, p))

        self._runs["pydantic-ai in process"] = run(lambda: client(self._engine), self._engine.spec.name)
        url = self._urls.get("kogagent")
        if url is not None:
            self._runs["pydantic-ai on kogagent serve"] = run(
                lambda: openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0), "peer"
            )

    def _add_smolagents(self) -> None:
        child, url = self._children.get("smolagents"), self._urls.get("kogagent")
        if child is not None and url is not None:
            self._runs["smolagents on kogagent serve"] = lambda _, p: (
                len(p.calls) / smolagents_loop(child, url, p, _RUN_S)
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
