"""Kills a process that runs an agent, so many times at random points; its session must resume each time.

python tests/loop/kill_sessions.py DATABASE SEED KILLS
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from kogagent import Agent, AssistantMessage, Limits, Message, ToolMessage, UserMessage, tool
from kogagent.loop.sessions import SessionStore
from kogagent.testing import ScriptedModel, call

FREE = Limits(max_turns=None, max_calls=None, repeated_calls=None)


def work(path: Path, session: str, progress: int) -> None:
    """Run without end; every call of the tool is told."""

    @tool
    async def ls(path: str = ".") -> str:
        os.write(progress, b".")
        return path

    async def run() -> None:
        model = ScriptedModel(*[[call("ls", path=str(n)), call("ls")] for n in range(50)], repeat=True)
        await Agent(model, [ls], limits=FREE).run("go on", history=SessionStore(path).open(session))

    asyncio.run(run())


def resumed(path: Path, session: str) -> tuple[Message, ...]:
    """A session as it is when it is opened again."""
    with SessionStore(path) as store:
        return tuple(store.open(session).messages)


def kill_once(path: Path, session: str, after: int) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            work(path, session, write)
        finally:
            os._exit(1)
    os.close(write)
    for _ in range(after):
        assert os.read(read, 1) == b"."
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(read)
    assert os.WIFSIGNALED(status), "the run ended by itself"


def main(path: Path, seed: int, kills: int) -> None:
    choose = random.Random(seed)
    after: tuple[Message, ...] = ()
    for kill in range(kills):
        session = f"session {kill // 5}"
        before = after if kill % 5 else ()
        kill_once(path, session, choose.randint(1, 20))
        after = resumed(path, session)
        assert after[: len(before)] == before and len(after) > len(before)
        calls = [c.id for m in after if isinstance(m, AssistantMessage) for c in m.calls]
        results = [m.result.call_id for m in after if isinstance(m, ToolMessage)]
        assert sorted(calls) == sorted(results)
        assert sum(isinstance(m, UserMessage) for m in after) == kill % 5 + 1
    sys.stdout.write(f"{kills} kills, every history whole\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
