"""Calls whose results come later: asked for permission elsewhere, done elsewhere, resumed in another
process."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kogagent import (
    Agent,
    Answer,
    Approved,
    Deferred,
    Denied,
    Hooks,
    InputError,
    RunContext,
    RunResult,
    SessionStore,
    Supplied,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    messages_from_json,
    messages_to_json,
    tool,
)
from kogagent.testing import ScriptedModel, call

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(needs_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    RAN.append(path)
    return f"{path} is gone"


@tool
async def ls() -> str:
    """List."""
    return "a b"


def statuses(result: RunResult) -> list[str]:
    return [m.result.status for m in result.messages if isinstance(m, ToolMessage)]


def texts(result: RunResult) -> list[str]:
    return [m.result.text for m in result.messages if isinstance(m, ToolMessage)]


async def deferred(*turns: Any, **options: Any) -> tuple[Agent, RunResult, ScriptedModel]:
    model = ScriptedModel(*turns)
    agent = Agent(model, [delete, ls], approve="defer", **options)
    return agent, await agent.run("clean up"), model


async def test_a_run_ends_with_the_calls_that_wait_after_the_others_have_run() -> None:
    turn = [call("delete", path="a"), call("ls"), call("delete", path="b")]
    _, result, model = await deferred(turn, "never")
    assert result.reason == "deferred" and RAN == [] and len(model.requests) == 1
    assert [c.arguments for c in result.pending] == ['{"path": "a"}', '{"path": "b"}']
    assert statuses(result) == ["deferred", "ok", "deferred"]


async def test_answers_run_deny_or_supply_and_the_results_take_their_places() -> None:
    turn = [call("delete", path="a"), call("ls"), call("delete", path="b"), call("delete", path="c")]
    agent, first, model = await deferred(turn, "done")
    ids = [c.id for c in first.pending]
    answers: dict[str, Answer] = {
        ids[0]: Approved(),
        ids[1]: Denied("not b"),
        ids[2]: Supplied({"deleted": "c"}),
    }
    second = await agent.run(history=first.messages, answers=answers)
    assert second.reason == "finished" and second.output == "done" and RAN == ["a"]
    assert second.pending == ()
    shown = [m.result for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [r.status for r in shown] == ["ok", "ok", "denied", "ok"]
    assert shown[0].text == "a is gone" and "not b" in shown[2].text and shown[3].text == '{"deleted": "c"}'
    # The record keeps both: that it waited, and what came.
    assert statuses(second) == ["deferred", "ok", "deferred", "deferred", "ok", "denied", "ok"]


async def test_answers_may_come_one_by_one_and_the_run_waits_on() -> None:
    agent, first, model = await deferred([call("delete", path="a"), call("delete", path="b")], "done")
    one, other = first.pending
    half = await agent.run(history=first.messages, answers={other.id: Approved()})
    assert half.reason == "deferred" and half.pending == (one,) and RAN == ["b"] and half.turns == 0
    whole = await agent.run(history=half.messages, answers={one.id: Approved()})
    assert whole.output == "done" and RAN == ["b", "a"]
    shown = [m.result.text for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert shown == ["a is gone", "b is gone"], "in the order of the calls"


async def test_a_tool_or_an_approver_may_say_that_it_takes_longer() -> None:
    async def order(item: str) -> str:
        raise Deferred("ticket 17")

    def approve(asked: ToolCall, context: RunContext[None]) -> bool:
        raise Deferred("ask Ada")

    agent = Agent(
        ScriptedModel([call("order", item="x"), call("delete", path="a")]), [order, delete], approve=approve
    )
    result = await agent.run("go")
    assert result.reason == "deferred" and texts(result) == ["ticket 17", "ask Ada"]
    assert [c.name for c in result.pending] == ["order", "delete"] and result.failures == ()


async def test_a_new_prompt_without_answers_gives_the_waiting_calls_up() -> None:
    agent, first, _ = await deferred(call("delete", path="a"), "fine")
    second = await agent.run("Forget it.", history=first.messages)
    assert second.output == "fine" and RAN == [] and statuses(second)[-1] == "cancelled"


async def test_answers_and_a_prompt_go_together() -> None:
    agent, first, model = await deferred(call("delete", path="a"), "fine")
    await agent.run("And thanks.", history=first.messages, answers={first.pending[0].id: Approved()})
    last = model.requests[1].messages
    assert isinstance(last[-2], ToolMessage) and last[-1] == UserMessage("And thanks.")


async def test_answers_that_fit_nothing_are_refused_by_id() -> None:
    agent, first, _ = await deferred(call("delete", path="a"), "fine")
    with pytest.raises(InputError, match=r"answers has 'x'.*Waiting are: 'call_1'"):
        await agent.run(history=first.messages, answers={"x": Approved()})
    with pytest.raises(InputError, match=r"answers\['call_1'\]=True must be Approved"):
        await agent.run(history=first.messages, answers={"call_1": True})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"wait for an answer: delete 'call_1'"):
        await agent.run(history=first.messages)
    with pytest.raises(InputError, match="result supplied for 'delete' cannot be used"):
        await agent.run(history=first.messages, answers={"call_1": Supplied(object.__new__(Unwritable))})


class Unwritable:
    """Its text cannot be made."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


async def test_hooks_see_the_result_that_came_late() -> None:
    seen: list[str] = []

    def after(asked: ToolCall, result: Any) -> Any:
        seen.append(result.text)
        return result

    agent, first, _ = await deferred(call("delete", path="a"), "fine", hooks=Hooks(after_call=after))
    assert seen == []
    await agent.run(history=first.messages, answers={first.pending[0].id: Approved()})
    assert seen == ["a is gone"]


async def test_waiting_calls_survive_json_lines_and_a_fork_and_a_crash_beside_them() -> None:
    _, first, _ = await deferred([call("delete", path="a"), call("ls")], "x")
    again = messages_from_json(messages_to_json(first.messages))
    for transcript in (
        Transcript.repaired(again),
        Transcript.from_lines(Transcript.repaired(again).to_lines()),
        Transcript.repaired(again).fork(),
    ):
        assert transcript.awaiting == first.pending and transcript.open_calls == ()
    cut = Transcript.repaired(again[:3])  # killed before the second call had its result
    assert [c.name for c in cut.awaiting] == ["delete"]
    assert isinstance(cut.messages[-1], ToolMessage) and cut.messages[-1].result.status == "cancelled"


OTHER_PROCESS = """
import asyncio, sys
from kogagent import Agent, Approved, SessionStore, tool
from kogagent.testing import ScriptedModel

@tool(needs_approval=True)
async def delete(path: str) -> str:
    return f"{path} is gone, says the other process"

async def main() -> None:
    with SessionStore(sys.argv[1]) as store:
        (session,) = [one for one in store.sessions() if one.awaiting]
        transcript = store.open(session.id)
        agent = Agent(ScriptedModel("done there"), [delete], approve="defer")
        answers = {id: Approved() for id in session.awaiting}
        print((await agent.run(history=transcript, answers=answers)).output)

asyncio.run(main())
"""


async def test_another_process_finds_the_session_that_waits_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    with SessionStore(path) as store:
        agent = Agent(ScriptedModel(call("delete", path="a")), [delete], approve="defer")
        await agent.run("go", history=store.open("ada"))
        await Agent(ScriptedModel("hi")).run("hello", history=store.open("bob"))
        assert [one.awaiting for one in store.sessions()] == [("call_1",), ()]
    program = tmp_path / "other.py"
    program.write_text(OTHER_PROCESS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        str(path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    out, errors = await process.communicate()
    assert out.decode() == "done there\n", errors.decode()
    with SessionStore(path) as store:
        assert [one.awaiting for one in store.sessions()] == [(), ()]
        messages = store.open("ada").view
        assert isinstance(messages[2], ToolMessage)
        assert messages[2].result.text == "a is gone, says the other process"


async def test_an_approved_call_that_a_kill_interrupts_is_not_asked_for_again(tmp_path: Path) -> None:
    path, killed = tmp_path / "sessions.sqlite", tmp_path / "killed.sqlite"

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        RAN.append(str(amount))
        if not killed.exists():  # what a process that is killed now leaves behind
            with sqlite3.connect(path) as found, sqlite3.connect(killed) as kept:
                found.backup(kept)
            found.close()
            kept.close()
        return f"{amount} paid"

    calls = [call("pay", amount=n) for n in (1, 2, 3, 4)]
    with SessionStore(path) as store:
        agent = Agent(ScriptedModel(calls, "Done."), [pay], approve="defer")
        await agent.run("go", history=store.open("ada"))
        (info,) = store.sessions()
        one, two, three, _ = info.awaiting
        answers: dict[str, Answer] = {one: Approved(), two: Denied("no"), three: Supplied("3 paid by hand")}
        await agent.run(history=store.open("ada"), answers=answers)
        (info,) = store.sessions()
        assert info.awaiting == ("call_4",) and RAN == ["1"]
        await agent.run(history=store.open("ada"), answers={"call_4": Approved()})
        assert [one.awaiting for one in store.sessions()] == [()] and RAN == ["1", "4"]

    with SessionStore(killed) as store:
        (info,) = store.sessions()
        assert info.awaiting == (two, three, "call_4"), "those that had not begun"
        fork = store.fork("ada", "other")
        for transcript in (fork, store.open("ada")):
            assert [c.id for c in transcript.awaiting] == [two, three, "call_4"]
            results = {m.result.call_id: m.result for m in transcript.view if isinstance(m, ToolMessage)}
            assert [results[c].status for c in info.awaiting] == ["deferred"] * 3
            assert results[one].status == "cancelled" and "may have had effects" in results[one].text
        with pytest.raises(InputError, match="no call of that id waits"):
            await agent.run(history=store.open("ada"), answers={one: Approved()})
        result = await agent.run(history=store.open("ada"), answers={two: Approved(), three: Approved()})
        assert RAN[2:] == ["2", "3"] and [c.id for c in result.pending] == ["call_4"]


async def test_an_id_that_was_begun_once_may_wait_again(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "sessions.sqlite") as store:
        for _ in range(2):  # a model may name its calls the same
            asked = replace(call("delete", path="a"), id="call_1")
            agent = Agent(ScriptedModel(asked, "x"), [delete], approve="defer")
            await agent.run("go", history=store.open("ada"))
            assert store.sessions()[0].awaiting == ("call_1",)
            assert [c.id for c in store.open("ada").awaiting] == ["call_1"]
            await agent.run(history=store.open("ada"), answers={"call_1": Approved()})
        assert RAN == ["a", "a"] and store.sessions()[0].awaiting == ()


async def test_a_store_lists_what_waits_in_forks_and_in_rewound_sessions(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "sessions.sqlite") as store:

        def listed() -> dict[str, tuple[str, ...]]:
            found = {one.id: one.awaiting for one in store.sessions()}
            assert found == {id: tuple(c.id for c in store.open(id).awaiting) for id in found}
            return found

        turn = [call("delete", path="a"), call("ls"), call("delete", path="b")]
        agent = Agent(ScriptedModel(turn, "x"), [delete, ls], approve="defer")
        await agent.run("go", history=store.open("whole"))
        store.fork("whole", "fork")
        store.fork("whole", "cut", messages=3)  # of the calls after it nobody knows
        store.fork("whole", "none", messages=1)
        both = ("call_1", "call_3")
        assert {one.id: one.awaiting for one in store.sessions()} == {
            "whole": both,
            "fork": both,
            "cut": ("call_1",),
            "none": (),
        }
        answers: dict[str, Answer] = {"call_1": Approved(), "call_3": Denied()}
        done = await agent.run(history=store.open("whole"), answers=answers)
        assert listed()["whole"] == ()
        transcript = store.open("whole")
        transcript.rewind(len(done.messages) - 1)  # before the answer: nothing waits
        assert store.sessions()[0].awaiting == ()
        transcript.rewind(6)  # before the second result
        assert store.sessions()[0].awaiting == ("call_3",)
        transcript.rewind(5)
        assert listed() == {"whole": both, "fork": both, "cut": ("call_1",), "none": ()}
        RAN.clear()
        await agent.run(history=transcript, answers={"call_1": Approved()})
        assert RAN == ["a"] and listed()["whole"] == ("call_3",)
        transcript.rewind(1)
        assert listed()["whole"] == ()


async def test_a_file_that_does_not_list_what_waits_does_so_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    with SessionStore(path) as store:
        agent = Agent(ScriptedModel(call("delete", path="a")), [delete], approve="defer")
        await agent.run("go", history=store.open("ada"))
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET awaiting = '[]'")
    with SessionStore(path) as store:
        assert store.sessions()[0].awaiting == ()
        store.open("ada")
        assert store.sessions()[0].awaiting == ("call_1",)


async def test_an_approved_call_may_say_that_it_takes_longer(tmp_path: Path) -> None:
    tickets = iter(("ticket 17", "ticket 18"))

    @tool(needs_approval=True)
    async def order(item: str) -> str:
        """Order."""
        raise Deferred(next(tickets)) if item == "lamp" else ValueError("sold out")

    calls = [call("order", item="lamp"), call("order", item="sofa"), call("order", item="bed")]
    with SessionStore(tmp_path / "sessions.sqlite") as store:
        model = ScriptedModel(calls, "done")
        agent = Agent(model, [order], approve="defer")
        await agent.run("go", history=store.open("ada"))
        for ticket in ("ticket 17", "ticket 18"):
            answers: dict[str, Answer] = {"call_1": Approved()}
            if ticket == "ticket 17":
                answers["call_2"] = Approved()
            again = await agent.run(history=store.open("ada"), answers=answers)
            assert again.reason == "deferred" and [one.id for one in again.pending] == ["call_1", "call_3"]
            assert store.sessions()[0].awaiting == ("call_1", "call_3")
            transcript = store.open("ada")
            shown = [m.result for m in transcript.view if isinstance(m, ToolMessage)]
            assert [one.status for one in shown] == ["deferred", "failed", "deferred"]
            assert shown[0].text == ticket and transcript.awaiting == again.pending
        answers = {"call_1": Supplied("it came"), "call_3": Denied()}
        done = await agent.run(history=store.open("ada"), answers=answers)
        assert done.output == "done" and store.sessions()[0].awaiting == ()
        told = [m.result.text for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert told[0] == "it came" and "sold out" in told[1]
