"""What a prefix costs that is there already: forks, their first token, conversations that wait elsewhere.

fork/N tokens/MODEL      a fork of a pre-filled session; peers: a copy of as many bytes
fork's first token/…     one new id and a token, after a fork; peers: the same in the session itself
resident/N of M/MODEL    M conversations of one engine that has room for N, taking turns: a turn of one new
                         id and one token; peers: the same where all have room
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.agent_loops.models import open_engine
from benchmarks.common import Figure, Record, interleave, make_record, seconds
from kogagent.local import Engine, TextSession

PREFIX = 4000
_SPARE = 64  # ids that the context must hold past the prefix
_SESSIONS, _ROOM = 6, 3
_SHORT = 400  # ids of a conversation that makes room


class Prefixes:
    """Sessions of random ids on an engine, and what is measured on them."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, model: str) -> None:
        self._runner, self._engine, self._model = runner, engine, model
        self._device = "cuda" if engine.backend_name == "cuda" else "cpu"
        self._rng = np.random.default_rng()
        special = engine.tokenizer.vocabulary.special
        self._ids = [i for i in range(len(engine.tokenizer.vocabulary)) if i not in special]

    def new(self, count: int) -> list[int]:
        return [int(i) for i in self._rng.choice(self._ids, count)]

    def session(self, length: int) -> TextSession:
        session = self._engine.session()
        session.append(self.new(length))
        self._runner.run(session.prefill())
        self.token(session)  # the last id, which a stream runs
        return session

    def token(self, session: TextSession) -> float:
        """Seconds from one new id to one token."""
        session.append(self.new(1))

        async def one() -> float:
            start = time.perf_counter()
            async for _ in session.stream(max_tokens=1):
                pass
            return time.perf_counter() - start

        return self._runner.run(one())

    def record(self, case: str, metric: str, figure: Figure, **more: object) -> Record:
        backend = self._engine.backend_name
        name = f"{case}/{self._model}"
        return make_record("agent_loops", name, backend, metric, figure, device=self._device, **more)  # type: ignore[arg-type]

    # ── forks ──

    def forks(self, repeats: int) -> list[Record]:
        """Records of forks of the longest prefix up to PREFIX that the context holds."""
        length = min(PREFIX, self._engine.spec.context - _SPARE)
        held = self._runner.run(self._engine.caches()).bytes
        parent = self.session(length)
        held = self._runner.run(self._engine.caches()).bytes - held
        grown: list[float] = []

        async def fork() -> tuple[TextSession, float]:
            before = (await self._engine.caches()).bytes
            start = time.perf_counter()
            child = await parent.fork()
            took = time.perf_counter() - start
            grown.append((await self._engine.caches()).bytes - before)
            return child, took

        def forked() -> float:
            child, took = self._runner.run(fork())
            self._runner.run(child.aclose())
            return took * 1e3

        def first_token() -> float:
            child, _ = self._runner.run(fork())
            took = self.token(child)
            self._runner.run(child.aclose())
            return took * 1e3

        source = torch.zeros(held, dtype=torch.uint8, device=self._device)
        target = torch.zeros_like(source)

        def copied() -> float:
            def copy() -> None:
                target.copy_(source)
                if self._device == "cuda":
                    torch.cuda.synchronize()

            return seconds(copy) * 1e3

        runs = {
            "fork": forked,
            "token": first_token,
            "copy": copied,
            "same": lambda: self.token(parent) * 1e3,
        }
        found = interleave(runs, repeats)
        self._runner.run(parent.aclose())
        note = f"{held / 1e6:,.0f} MB of cache"
        case = f"fork/{length} tokens"
        return [
            self.record(
                case, "ms", found["fork"], peers={"a copy of as many bytes": found["copy"]}, note=note
            ),
            self.record(case, "new_bytes", Figure(tuple(grown[-repeats:]))),
            self.record(
                f"fork's first token/{length} tokens",
                "ms",
                found["token"],
                peers={"the session itself": found["same"]},
            ),
        ]


def resident(
    runner: asyncio.Runner, engine: Engine, model: str, name: str, device: str, repeats: int
) -> list[Record]:
    """Records of conversations under a limit, on an engine of its own, beside the same without one. model: to
    load once more; name: what records call it."""
    free = Prefixes(runner, engine, name)
    length = min(_SHORT, engine.spec.context - _SPARE)
    held = runner.run(engine.caches()).bytes
    wide = [free.session(length) for _ in range(_SESSIONS)]
    held = (runner.run(engine.caches()).bytes - held) // _SESSIONS
    with open_engine(model, device, cache_bytes=held * _ROOM + held // 2) as narrow:
        tight = Prefixes(runner, narrow, name)
        crowd = [tight.session(length) for _ in range(_SESSIONS)]
        before = runner.run(narrow.caches())

        def turns(of: Prefixes, sessions: Sequence[TextSession]) -> float:
            return sum(of.token(session) for session in sessions) / len(sessions) * 1e3

        runs = {"tight": lambda: turns(tight, crowd), "free": lambda: turns(free, wide)}
        found = interleave(runs, repeats)
        use = runner.run(narrow.caches())
        for session in (*crowd, *wide):
            runner.run(session.aclose())
    rounds = repeats + 1
    moved, dropped = (use.moved_in - before.moved_in) / rounds, (use.dropped - before.dropped) / rounds
    note = f"{length} ids each; a round of {_SESSIONS} turns brought {moved:g} caches back from the host's "
    note += f"memory and computed {dropped:g} anew"
    case = f"resident/{_ROOM} of {_SESSIONS} conversations"
    return [free.record(case, "ms", found["tight"], peers={"room for all": found["free"]}, note=note)]
