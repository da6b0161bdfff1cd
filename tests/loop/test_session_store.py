"""Conversations in SQLite: stored as they grow, whole after a kill at any point, shared between processes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kogagent import (
    Agent,
    AssistantMessage,
    InputError,
    Limits,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    tool,
)
from kogagent.loop.sessions import SessionStore
from kogagent.testing import ScriptedModel, call

FREE = Limits(max_turns=None, max_calls=None)


@tool
async def ls(path: str = ".") -> list[str]:
    """List."""
    return ["a", path]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite"


async def test_a_run_is_stored_as_it_goes_and_goes_on_in_another_process(path: Path) -> None:
    with SessionStore(path) as store:
        agent = Agent(ScriptedModel([call("ls"), call("ls", path="é")], "one"), [ls], instructions="S")
        first = await agent.run("go", history=store.open("ada"))
    with SessionStore(path) as store:
        assert store.messages("ada") == first.messages
        second = await Agent(ScriptedModel("two"), instructions="S").run("more", history=store.open("ada"))
        assert second.messages[: len(first.messages)] == first.messages
        assert store.messages("ada") == second.messages


async def test_a_new_system_message_is_stored_too(path: Path) -> None:
    with SessionStore(path) as store:
        await Agent(ScriptedModel("x")).run("go", history=store.open("a"))
        await Agent(ScriptedModel("y"), instructions="first").run("go", history=store.open("a"))
        await Agent(ScriptedModel("z"), instructions="second").run("go", history=store.open("a"))
        stored = store.messages("a")
    assert stored[0] == SystemMessage("second") and len(stored) == 7


async def test_a_cancelled_call_is_stored_as_such(path: Path) -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    with SessionStore(path) as store:
        agent = Agent(ScriptedModel(call("hang")), [hang])
        task = asyncio.ensure_future(agent.run("go", history=store.open("a")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        last = store.messages("a")[-1]
    assert isinstance(last, ToolMessage) and last.result.status == "cancelled"


def test_a_session_killed_at_any_point_resumes_with_a_whole_history(
    path: Path, rng: np.random.Generator
) -> None:
    # In a process of its own, which has one thread: only such a one may fork.
    helper = Path(__file__).with_name("kill_sessions.py")
    arguments = [sys.executable, str(helper), str(path), str(int(rng.integers(2**31))), "25"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("25 kills, every history whole\n")


FORKS = """
import os, sys
from kogagent import Agent, InputError, SessionStore
from kogagent.testing import ScriptedModel

store = SessionStore(sys.argv[1])
Agent(ScriptedModel("x")).run_sync("go", history=store.open("a"))
child = os.fork()
if child == 0:
    for use in (store.sessions, lambda: store.open("b")):
        try:
            use()
        except InputError as error:
            print(error, flush=True)
    store.close()
    with SessionStore(sys.argv[1]) as own:
        Agent(ScriptedModel("y")).run_sync("go", history=own.open("b"))
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
Agent(ScriptedModel("z")).run_sync("go", history=store.open("a"))
print([(one.id, one.messages) for one in store.sessions()])
store.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no forking")
def test_a_forked_child_opens_a_store_of_its_own_or_is_told_to(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    *refused, kept = done.stdout.splitlines()
    assert len(refused) == 2 and all("forked. Open it in each process" in line for line in refused)
    assert kept == "[('a', 4), ('b', 2)]"


async def test_readers_see_whole_messages_while_a_run_writes(path: Path) -> None:
    with SessionStore(path) as store, SessionStore(path) as reader:
        seen: list[int] = []

        async def look() -> str:
            seen.append(len(reader.messages("a")))
            return "x"

        script = ScriptedModel(*[call("look") for _ in range(20)], "done")
        agent = Agent(script, [look], limits=Limits(repeated_calls=None))
        await agent.run("go", history=store.open("a"))
    assert seen == list(range(2, 42, 2))


def test_two_writers_of_one_session_are_noticed(path: Path) -> None:
    with SessionStore(path) as one, SessionStore(path) as other:
        first, second = one.open("a"), other.open("a")
        first.append(UserMessage("x"))
        with pytest.raises(InputError, match=r"'a' has been continued.*Open it again"):
            second.append(UserMessage("y"))
        assert len(second) == 0 and one.messages("a") == (UserMessage("x"),)


def test_a_fork_has_its_own_future_and_may_rewind(path: Path) -> None:
    with SessionStore(path) as store:
        transcript = store.open("a")
        asked = AssistantMessage("", "", (ToolCall("1", "ls", "{}"),))
        for message in (UserMessage("x"), asked):
            transcript.append(message)
        transcript.close_calls()
        transcript.append(AssistantMessage("y"))
        whole = store.fork("a", "b")
        whole.append(UserMessage("only b"))
        cut = store.fork("a", "c", messages=2)
        assert isinstance(cut.messages[-1], ToolMessage) and len(cut) == 3
        assert [(s.id, s.messages, s.parent) for s in store.sessions()] == [
            ("a", 4, ""),
            ("b", 5, "a"),
            ("c", 3, "a"),
        ]
        with pytest.raises(InputError, match="session 'b' already"):
            store.fork("a", "b")
        with pytest.raises(InputError, match="4 messages, not 5"):
            store.fork("a", "d", messages=5)


def test_a_deleted_session_is_gone_and_an_unknown_one_is_named(path: Path) -> None:
    with SessionStore(path) as store:
        transcript = store.open("a")
        transcript.append(UserMessage("x"))
        store.delete("a")
        for act in (store.delete, store.messages):
            with pytest.raises(InputError, match=r"no session 'a'.*none at all"):
                act("a")
        with pytest.raises(InputError, match="deleted elsewhere"):
            transcript.append(UserMessage("y"))
        with pytest.raises(InputError, match="not empty"):
            store.open("")
        with pytest.raises(InputError, match="session=7 must be a text"):
            store.open(7)  # type: ignore[arg-type]


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, and no database at all. " * 200)
    with pytest.raises(InputError, match="no session store"):
        SessionStore(text)
    assert text.read_text().startswith("these are notes")
    for nowhere in (tmp_path / "no" / "x.sqlite", tmp_path):
        with pytest.raises(InputError, match=f"{nowhere}: unable to open.*directory that exists"):
            SessionStore(nowhere)
    foreign = tmp_path / "other.sqlite"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(InputError, match="something else"):
        SessionStore(foreign)
    newer = tmp_path / "newer.sqlite"
    SessionStore(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(InputError, match=r"version 99.*update"):
        SessionStore(newer)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def test_a_closed_store_says_so_in_words_of_this_package(path: Path) -> None:
    store = SessionStore(path)
    transcript = store.open("a")
    transcript.append(UserMessage("x"))
    store.close()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.open("a"),
        lambda: store.messages("a"),
        store.sessions,
        lambda: store.fork("a", "b"),
        lambda: store.delete("a"),
        lambda: transcript.append(UserMessage("y")),
        lambda: transcript.rewind(0),
    ]
    for use in uses:
        with pytest.raises(InputError, match=r"sessions\.sqlite is closed\. Open it again"):
            use()


async def test_a_run_on_a_closed_store_says_so(path: Path) -> None:
    store = SessionStore(path)
    transcript = store.open("a")
    store.close()
    with pytest.raises(InputError, match="is closed"):
        await Agent(ScriptedModel("x")).run("go", history=transcript)


async def test_a_run_whose_store_is_closed_as_it_asks_to_be_written_does_not_wait_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(path)
    transcript = store.open("a")
    transcript.post(UserMessage("x"))
    await transcript.settled()
    transcript.post(UserMessage("y"))
    queue = store._db._waiting

    class Closing:
        """The way to the thread, at whose other end nobody is by the time a run has gone it."""

        def put(self, one: object) -> None:
            if isinstance(one, tuple):
                store.close()
            queue.put(one)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(queue, name)

    monkeypatch.setattr(store._db, "_waiting", Closing())
    with pytest.raises(InputError, match="is closed"):
        await transcript.settled()
    with SessionStore(path) as again:
        assert again.messages("a") == (UserMessage("x"), UserMessage("y"))


def test_a_full_disk_is_said_and_ends_no_other_session(path: Path) -> None:
    with SessionStore(path) as store:
        full, other = store.open("a"), store.open("b")
        db = store._db._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 1}").fetchall()
        with pytest.raises(InputError, match="database or disk is full"):
            full.append(UserMessage("x" * 100_000))
        db.execute(f"PRAGMA max_page_count = {pages + 1000}").fetchall()
        other.append(UserMessage("y"))
        assert [len(store.messages(id)) for id in ("a", "b")] == [0, 1]


@pytest.mark.parametrize("text", ["{", "[]", '{"role": "?"}'])
def test_a_row_that_cannot_be_read_is_named(path: Path, text: str) -> None:
    with SessionStore(path) as store:
        transcript = store.open("a")
        calls = (ToolCall("1", "ls", "{}"), ToolCall("2", "ls", "{}"))
        for message in (UserMessage("x"), AssistantMessage("", "", calls)):
            transcript.append(message)
        transcript.keep(ToolResult("2", "ls", "found"))
        transcript.flush()
        for table, what in (("results", "the result of call '2'"), ("messages", "message 0")):
            store._db.write(f"UPDATE {table} SET message = ?", (text,))
            with pytest.raises(InputError, match=rf"sessions\.sqlite, session 'a', {what}"):
                store.open("a")


def test_sessions_made_in_one_millisecond_are_listed_in_their_order(
    path: Path, rng: np.random.Generator
) -> None:
    ids = [str(n) for n in rng.permutation(20)]
    with SessionStore(path) as store:
        for id in ids:
            store.open(id)
        store._db.write("UPDATE sessions SET created = '2026-12-01T00:00:00.000Z'")
        assert [one.id for one in store.sessions()] == ids


def test_a_store_needs_a_path() -> None:
    with pytest.raises(InputError, match="needs a path"):
        SessionStore("")


async def test_the_event_loop_does_not_wait_for_a_busy_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kogagent.loop.database._BUSY_MS", 100_000)
    with SessionStore(path) as store:
        transcript = store.open("a")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # another program writes, for as long as it likes
        running = asyncio.ensure_future(
            Agent(ScriptedModel(call("ls"), "x"), [ls]).run("go", history=transcript)
        )
        for _ in range(200):
            await asyncio.sleep(0)
        assert not running.done(), "nothing is acted on before it is stored"
        other.execute("COMMIT")
        assert (await running).output == "x"
        other.close()
        assert store.messages("a") == tuple(transcript.messages)


async def test_what_is_told_before_a_tool_runs_is_stored_before_it_runs(path: Path) -> None:
    with SessionStore(path) as store:

        @tool
        async def look() -> int:
            db = sqlite3.connect(path)
            stored: int = db.execute("SELECT count(*) FROM messages").fetchone()[0]
            db.close()
            return stored

        result = await Agent(ScriptedModel(call("look"), "x"), [look]).run("go", history=store.open("a"))
    assert isinstance(result.messages[2], ToolMessage) and result.messages[2].result.text == "2"


async def test_many_runs_share_a_store_and_one_that_fails_harms_no_other(path: Path) -> None:
    with SessionStore(path) as store, SessionStore(path) as elsewhere:
        transcripts = {name: store.open(name) for name in map(str, range(20))}

        async def one(name: str) -> None:
            agent = Agent(ScriptedModel(*[call("ls", path=str(n)) for n in range(5)], "done"), [ls])
            await agent.run("go", history=transcripts[name])

        elsewhere.open("7").append(UserMessage("in between"))
        results = await asyncio.gather(*map(one, transcripts), return_exceptions=True)
        failed = [name for name, result in zip(transcripts, results, strict=True) if result is not None]
        assert failed == ["7"] and isinstance(results[7], InputError)
        assert "continued or deleted elsewhere" in str(results[7])
        for name, transcript in transcripts.items():
            if name != "7":
                assert store.messages(name) == tuple(transcript.messages) and len(transcript) == 12


OLD = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    parent TEXT
);
CREATE TABLE messages (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session, at)
) WITHOUT ROWID;
INSERT INTO sessions (id, created) VALUES ('ada', '2026-01-02T03:04:05.678Z');
INSERT INTO messages VALUES ('ada', 0, '{"role": "user", "text": "hello"}');
INSERT INTO messages VALUES ('ada', 1,
    '{"role": "assistant", "text": "hi", "plan": "", "calls": []}');
PRAGMA user_version = 1;
"""


def test_a_file_of_the_first_version_is_brought_up_to_date_and_loses_nothing(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.executescript(OLD)
    db.close()
    stores: list[SessionStore] = []
    threads = [threading.Thread(target=lambda: stores.append(SessionStore(path))) for _ in range(4)]
    for thread in threads:  # several at once: one of them brings it up to date
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4
    for store in stores:
        (info,) = store.sessions()
        assert (info.id, info.messages, info.awaiting) == ("ada", 2, ())
        assert info.created == info.updated == "2026-01-02T03:04:05.678Z"
        assert store.messages("ada") == (UserMessage("hello"), AssistantMessage("hi"))
    stores[0].open("ada").append(UserMessage("again"))
    assert stores[1].sessions()[0].updated > "2026-01-03"
    for store in stores:
        store.close()


async def test_readers_in_other_threads_never_wait_for_a_writer(path: Path) -> None:
    with SessionStore(path) as store:
        store.open("a").append(UserMessage("x"))
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM messages")
        found = await asyncio.gather(*(asyncio.to_thread(store.messages, "a") for _ in range(8)))
        assert found == [(UserMessage("x"),)] * 8, "what was committed, not what is being written"
        writer.execute("ROLLBACK")
        writer.close()


def test_a_store_in_memory_works_like_one_in_a_file() -> None:
    with SessionStore(":memory:") as store:
        agent = Agent(ScriptedModel(call("ls"), "x"), [ls])
        result = agent.run_sync("go", history=store.open("a"))
        assert store.messages("a") == result.messages


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("how", ["closed", "continued"])
@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_an_error_that_ends_a_run_is_raised_though_its_session_is_gone(
    path: Path, how: str, calls: int, end: str
) -> None:
    reported: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about["exception"]))
    began, fail = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> None:
        began.set()
        await fail.wait()
        raise TimeoutError("the tool's own")

    with SessionStore(path) as store, SessionStore(path) as elsewhere:
        transcript = store.open("a")
        limits = Limits(max_seconds=3600)
        agent = Agent(ScriptedModel([call("hang")] * calls), [hang], on_tool_error="raise", limits=limits)
        running = asyncio.create_task(agent.run("go", history=transcript))
        await began.wait()
        if how == "closed":
            store.close()
        else:
            elsewhere.delete("a")
        if end == "cancelled":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            fail.set()
            with pytest.raises(TimeoutError, match="the tool's own"):
                await running
    (one,) = reported
    assert isinstance(one, InputError) and ("is closed" if how == "closed" else "elsewhere") in str(one)
