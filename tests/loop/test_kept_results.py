"""Results of calls that run side by side are stored as they come: a kill loses none that is there."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kogagent import (
    Agent,
    Approved,
    AssistantMessage,
    InputError,
    Limits,
    Message,
    SessionStore,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolResult,
    Transcript,
    UserMessage,
    tool,
)
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import FunctionModel, ScriptedModel, call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite"


async def stored(path: Path, rows: int, table: str = "results") -> None:
    """Wait until another connection sees so many rows."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        # Nobody is told by another connection.
        while db.execute(f"SELECT count(*) FROM {table}").fetchone() != (rows,):  # noqa: ASYNC110
            await asyncio.sleep(0)


def snapshot(path: Path, to: Path) -> Path:
    """What a process that is killed now leaves behind."""
    with contextlib.closing(sqlite3.connect(path)) as found, contextlib.closing(sqlite3.connect(to)) as kept:
        found.backup(kept)
    return to


def results(messages: Sequence[Message]) -> list[tuple[str, str, str]]:
    return [
        (m.result.call_id, m.result.status, m.result.text) for m in messages if isinstance(m, ToolMessage)
    ]


class Gates:
    """A tool whose calls end when they are told to."""

    def __init__(self, count: int) -> None:
        self.gates = [asyncio.Event() for _ in range(count)]

    @tool
    async def work(self, n: int) -> str:
        """Work."""
        await self.gates[n].wait()
        if n % 3 == 2:
            raise ValueError(f"{n} is wrong")
        return f"{n} done"


async def test_a_kill_between_the_calls_of_a_turn_loses_no_result(
    path: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    count = int(rng.integers(2, 9))
    kit, order = Gates(count), [int(n) for n in rng.permutation(count)]
    killed: list[Path] = []
    with SessionStore(path) as store:
        script = ScriptedModel([call("work", n=n) for n in range(count)], "x")
        agent = Agent(script, [kit], limits=Limits(parallel_calls=count))
        running = asyncio.ensure_future(agent.run("go", history=store.open("a")))
        for done, n in enumerate(order):
            await stored(path, done)
            if done:
                killed.append(snapshot(path, tmp_path / f"killed {done}"))
            kit.gates[n].set()
        whole = results((await running).messages)
        assert [id for id, _, _ in whole] == [f"call_{n + 1}" for n in range(count)]
        await stored(path, 0)
    for done, file in enumerate(killed, 1):
        with SessionStore(file) as store:
            assert len(store.messages("a")) == 2, "a reader sees whole turns"
            there = [store.fork("a", "b"), store.open("a"), store.open("a"), store.open("b")]
            for transcript in there:
                found = results(transcript.messages)
                assert [id for id, _, _ in found] == [id for id, _, _ in whole], "in the order of the calls"
                for n in range(count):
                    assert found[n] == whole[n] if n in order[:done] else found[n][1] == "cancelled"
            await stored(file, 0)
            again = await Agent(ScriptedModel("y"), [kit]).run(history=there[1])
            assert results(again.messages) == results(there[0].messages)


async def test_what_waits_for_approval_beside_a_killed_call_still_waits(path: Path, tmp_path: Path) -> None:
    @tool(needs_approval=True)
    async def delete() -> str:
        """Delete."""
        return "gone"

    kit = Gates(1)
    with SessionStore(path) as store:
        asks = [call("work", n=0), call("delete"), call("delete"), call("delete")]
        agent = Agent(ScriptedModel(asks, "x"), [kit, delete], approve="defer", limits=Limits(turn_calls=3))
        running = asyncio.ensure_future(agent.run("go", history=store.open("a")))
        await stored(path, 3)  # two wait, one was refused for their number
        killed = snapshot(path, tmp_path / "killed")
        kit.gates[0].set()
        assert [one.id for one in (await running).pending] == ["call_2", "call_3"]
    with SessionStore(killed) as store:
        transcript = store.open("a")
        statuses = [status for _, status, _ in results(transcript.messages)]
        assert statuses == ["cancelled", "deferred", "deferred", "denied"]
        assert store.sessions()[0].awaiting == ("call_2", "call_3")
        done = await agent.run(history=transcript, answers={"call_2": Approved(), "call_3": Approved()})
        assert [text for _, _, text in results(done.messages)][-2:] == ["gone", "gone"]


async def test_a_kill_between_approved_calls_loses_no_result_either(
    path: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        await gates[n].wait()
        return f"{n} paid"

    first = int(rng.integers(3))
    with SessionStore(path) as store:
        agent = Agent(ScriptedModel([call("pay", n=n) for n in range(3)], "x"), [pay], approve="defer")
        waiting = await agent.run("go", history=store.open("a"))
        answers = {one.id: Approved() for one in waiting.pending}
        running = asyncio.ensure_future(agent.run(history=store.open("a"), answers=answers))
        gates[first].set()
        await stored(path, 1)
        killed = snapshot(path, tmp_path / "killed")
        for gate in gates:
            gate.set()
        await running
    with SessionStore(killed) as store:
        for transcript in (store.fork("a", "b"), store.open("a")):
            assert transcript.awaiting == ()
            late = {id: text for id, status, text in results(transcript.messages) if status == "ok"}
            assert late == {f"call_{first + 1}": f"{first} paid"}
            assert sum(status == "cancelled" for _, status, _ in results(transcript.view)) == 2
        assert [one.awaiting for one in store.sessions()] == [(), ()]


async def test_a_lone_result_is_stored_while_the_model_speaks(path: Path) -> None:
    @tool
    async def ls() -> str:
        """List."""
        return "a"

    async def say(request: TurnRequest) -> Any:
        if len(request.messages) == 1:
            return call("ls")
        await stored(path, 3, "messages")  # before this turn is
        return "x"

    with SessionStore(path) as store:
        assert (await Agent(FunctionModel(say), [ls]).run("go", history=store.open("a"))).output == "x"


async def test_a_fork_of_a_run_knows_the_results_that_have_come() -> None:
    kit = Gates(2)
    script = ScriptedModel([call("work", n=0), call("work", n=1)], "x", "y")
    async with Agent(script, [kit]).stream("go") as run:
        kit.gates[1].set()
        async for event in run:
            if isinstance(event, ToolFinished) and event.call.id == "call_2":
                async with await run.fork() as branch, await run.fork(messages=2) as same:
                    for one in (branch, same):
                        told = results(one.transcript.messages)
                        assert [status for _, status, _ in told] == ["cancelled", "ok"]
                    assert (await branch.run()).output == "x"
                kit.gates[0].set()
        assert [status for _, status, _ in results(run.result.messages)] == ["ok", "ok"]


def test_a_kept_result_is_gone_with_the_turn_it_was_of(path: Path) -> None:
    def turn() -> AssistantMessage:
        return AssistantMessage("", "", (ToolCall("1", "ls", "{}"), ToolCall("2", "ls", "{}")))

    with SessionStore(path) as store:
        transcript = store.open("a")
        for message in (UserMessage("x"), turn()):
            transcript.append(message)
        transcript.keep(ToolResult("2", "ls", "found"))
        with pytest.raises(InputError, match=r"call '3', which no open call"):
            transcript.keep(ToolResult("3", "ls", "?"))
        transcript.flush()
        with SessionStore(path) as other:  # it was cut off: nothing of it is left
            assert results(other.fork("a", "b", messages=1).messages) == []
            assert [text for _, _, text in results(other.fork("a", "c", messages=2).messages)][1] == "found"
        transcript.rewind(1)
        transcript.append(turn())
        for one in (transcript.fork(), Transcript(transcript.messages), store.open("a")):
            one.close_calls()
            assert [status for _, status, _ in results(one.messages)] == ["cancelled", "cancelled"]


def test_a_fork_sees_one_moment_of_a_session_that_another_process_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = (ToolCall("1", "ls", "{}"), ToolCall("2", "ls", "{}"))
    found = [ToolResult(one.id, "ls", f"{one.id} found") for one in calls]
    with SessionStore(path) as store, SessionStore(path) as other:
        transcript = store.open("a")
        for message in (UserMessage("x"), AssistantMessage("", "", calls)):
            transcript.append(message)
        for result in found:
            transcript.keep(result)
        transcript.flush()
        transact = other._db.transact

        def when(happens: Callable[[], None]) -> None:
            """Before the next transaction."""

            def first(step: Callable[[sqlite3.Connection], object]) -> None:
                monkeypatch.setattr(other._db, "transact", transact)
                happens()
                transact(step)

            monkeypatch.setattr(other._db, "transact", first)

        def whole() -> None:
            for result in found:
                transcript.append(ToolMessage(result))

        when(whole)  # what was kept beside the messages is among them from now on
        assert results(other.fork("a", "b").messages) == [(one.call_id, "ok", one.text) for one in found]
        when(lambda: store.delete("a"))
        with pytest.raises(InputError, match=r"'a' has been deleted"):
            other.fork("a", "c")
        for wrong in (5, -1, 1.5, "1", True):
            with pytest.raises(InputError, match=r"has 4 messages, not"):
                other.fork("b", "c", messages=wrong)  # type: ignore[arg-type]
        assert [one.id for one in other.sessions()] == ["b"]
