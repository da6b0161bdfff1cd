"""Conversations kept in a SQLite file. Knows messages and rows; no model, no run.

What a run says is committed before it acts on it, so a process killed at any point leaves a whole history:
opened again, a call without a result gets a "cancelled" one. Results of calls that run side by side are kept
as they come, beside the messages, until they enter the history in the order of the calls. Write-ahead log:
readers never wait for a writer.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from kogagent.errors import InputError
from kogagent.loop.database import Database
from kogagent.loop.notation import message_from_json, message_to_json, parse
from kogagent.loop.transcript import Transcript
from kogagent.types import Message, ToolMessage, ToolResult

_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One stored conversation.

    created and updated are UTC, ISO 8601; parent is the session it was forked from, or "". awaiting: ids of
    the calls whose results come later and that nobody has begun, see `Agent.run(answers=…)`.
    """

    id: str
    created: str
    messages: int
    parent: str
    updated: str = ""
    awaiting: tuple[str, ...] = ()


class SessionStore:
    """Conversations by id: `agent.run("…", history=store.open("ada"))`.

    durable: also survive the loss of power, at the price of a disk flush a step; without it a kill of the
    process loses nothing that was committed. A run's messages are written by a thread of the store, so that
    the event loop never waits for a disk; the methods here block, for well under a millisecond as a rule, and
    may be called from any thread. Several stores and processes may share a file. Raises InputError for a file
    that is no session store or comes from a newer version, and for every use after `close`.
    """

    def __init__(self, path: str | Path, *, durable: bool = False) -> None:
        self._path = str(path)
        self._db = Database(self._path, durable=durable)

    def open(self, session: str) -> Transcript:
        """The session's transcript, made if there is none; everything a run appends to it is stored.

        Calls without a message, left by a process that was killed, are closed first, with their results where
        they were done; those whose results come later wait on, unless they were approved and had begun.
        """
        if not isinstance(session, str) or not session:
            raise InputError(f"session={session!r} must be a text that is not empty")
        self._db.write(f"INSERT OR IGNORE INTO sessions (id, updated) VALUES (?, {_NOW})", (session,))
        transcript = Transcript(self.messages(session))
        kept = self._kept(session, transcript)
        for result in kept:
            transcript.keep(result)
        rows = _Rows(self._db, session, [call.id for call in transcript.awaiting])
        ((awaiting, begun),) = self._db.read("SELECT awaiting, begun FROM sessions WHERE id = ?", (session,))
        rows.begun = [call for call in json.loads(begun) if call in rows.awaiting]
        if json.loads(awaiting) != rows.waiting:  # of a fork, or written before calls could wait
            rows.post(rows.saying_waiting())
        transcript.journal = rows
        transcript.close_calls(waiting=False)
        for call in rows.begun:
            transcript.close_calls(only=call)
        if kept:
            rows.post(rows.forgetting_kept())
        transcript.flush()
        return transcript

    def _kept(self, session: str, transcript: Transcript) -> list[ToolResult]:
        """Results of calls of the last turn that have no message yet."""
        calls = {call.id for call in (*transcript.open_calls, *transcript.awaiting)}
        if not calls:
            return []
        rows = self._db.read(
            "SELECT call, message FROM results WHERE session = ? AND turn = ?",
            (session, transcript.last_turn),
        )
        found = (
            self._message(text, session, f"the result of call {call!r}")
            for call, text in rows
            if call in calls
        )
        return [one.result for one in found if isinstance(one, ToolMessage)]

    def messages(self, session: str) -> tuple[Message, ...]:
        """What is stored now. Raises InputError for an id that is not there and for what cannot be read."""
        self._require(session)
        rows = self._db.read("SELECT message FROM messages WHERE session = ? ORDER BY at", (session,))
        return tuple(self._message(text, session, f"message {at}") for at, (text,) in enumerate(rows))

    def _message(self, text: str, session: str, what: str) -> Message:
        """A row's. Raises InputError that names it where it cannot be read."""
        where = f"{self._path}, session {session!r}, {what}"
        return message_from_json(parse(text, where), where)

    def sessions(self) -> tuple[SessionInfo, ...]:
        """All of them, oldest first."""
        rows = self._db.read(
            "SELECT id, created, (SELECT count(*) FROM messages WHERE session = id), coalesce(parent, ''),"
            " updated, awaiting FROM sessions ORDER BY created, rowid"  # created is in milliseconds
        )
        return tuple(
            SessionInfo(id, created, messages, parent, updated, tuple(json.loads(awaiting)))
            for id, created, messages, parent, updated, awaiting in rows
        )

    def fork(self, session: str, new: str, *, messages: int | None = None) -> Transcript:
        """A new session of the first so many messages of another, all by default. Calls whose results are cut
        off are closed. Raises InputError for an id that is not there or is taken."""
        self._require(session)

        def copy(db: sqlite3.Connection) -> None:  # reads too: a run of another process may write meanwhile
            ((there,),) = db.execute("SELECT count(*) FROM messages WHERE session = ?", (session,))
            most = there if messages is None else messages
            if type(most) is not int or not 0 <= most <= there:
                raise InputError(f"session {session!r} has {there} messages, not {messages!r}")
            try:
                made = db.execute(
                    "INSERT INTO sessions (id, parent, updated, begun)"
                    f" SELECT ?, id, {_NOW}, begun FROM sessions WHERE id = ?",
                    (new, session),
                )
            except sqlite3.IntegrityError:
                raise InputError(f"there is a session {new!r} already. Choose another id.") from None
            if made.rowcount == 0:
                raise InputError(f"session {session!r} has been deleted meanwhile")
            db.execute(
                "INSERT INTO messages SELECT ?, at, message FROM messages WHERE session = ? AND at < ?",
                (new, session, most),
            )
            if most == there:
                db.execute(
                    "INSERT INTO results SELECT ?, turn, call, message FROM results WHERE session = ?",
                    (new, session),
                )

        self._db.transact(copy)
        return self.open(new)

    def delete(self, session: str) -> None:
        """Forget a session. Raises InputError for an id that is not there."""
        self._require(session)
        self._db.write("DELETE FROM sessions WHERE id = ?", (session,))

    def close(self) -> None:
        """Write what is left and give the file back. Idempotent."""
        self._db.close()

    def __enter__(self) -> SessionStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require(self, session: str) -> None:
        if not self._db.read("SELECT 1 FROM sessions WHERE id = ?", (session,)):
            known = ", ".join(repr(one.id) for one in self.sessions()[-5:]) or "none at all"
            raise InputError(f"there is no session {session!r} in {self._path}; the newest are {known}")


_Told: TypeAlias = tuple[str, tuple[object, ...]]


class _Rows:
    """The journal of one session. Its steps are written in order, those of one `settled` in one
    transaction.

    awaiting: ids of the calls whose results come later, begun: those of them that are being run.
    """

    def __init__(self, db: Database, session: str, awaiting: list[str]) -> None:
        self._db = db
        self._session = session
        self.posted = self.written = 0
        self.awaiting = awaiting
        self.begun: list[str] = []
        self._kept: set[str] = set()  # calls whose results are stored beside the messages

    def append(self, at: int, message: Message) -> None:
        told = self._changed_by(message.result) if isinstance(message, ToolMessage) else ()
        self.post(*told, at=at, messages=(message,))

    def keep(self, turn: int, result: ToolResult) -> None:
        self._kept.add(result.call_id)
        message = json.dumps(message_to_json(ToolMessage(result)))
        self.post(("INSERT INTO results VALUES (?, ?, ?, ?)", (self._session, turn, result.call_id, message)))
        self._db.begin()

    def begin(self, calls: Sequence[str]) -> None:
        self.begun = [*self.begun, *calls]
        self.post(self.saying_waiting())

    def cut(self, length: int, awaiting: Sequence[str]) -> None:
        self.awaiting, self.begun = list(awaiting), []
        self._kept.clear()
        self.post(self._forgetting(length), self.saying_waiting(), self.forgetting_kept())

    def rewrite(self, messages: Sequence[Message]) -> None:
        self.post(self._forgetting(0), messages=tuple(messages))

    def flush(self) -> None:
        self._db.flush(self)

    def soon(self) -> None:
        self._db.begin(patient=True)

    async def settled(self) -> None:
        await self._db.settled(self)

    def refusal(self) -> InputError:
        """What to say when another writer's rows are in the way."""
        return InputError(
            f"session {self._session!r} has been continued or deleted elsewhere. Open it again."
        )

    def post(self, *told: _Told, at: int = 0, messages: Sequence[Message] = ()) -> None:
        """Statements and then messages, from this place on, as one step."""

        def step(db: sqlite3.Connection) -> None:
            for one in told:
                db.execute(*one)
            if messages:  # made into text by the thread that writes
                rows = [
                    (self._session, n, json.dumps(message_to_json(m))) for n, m in enumerate(messages, at)
                ]
                db.executemany("INSERT INTO messages (session, at, message) VALUES (?, ?, ?)", rows)
                db.execute(f"UPDATE sessions SET updated = {_NOW} WHERE id = ?", (self._session,))

        self._db.post(self, step)

    @property
    def waiting(self) -> list[str]:
        """Calls that wait for somebody now."""
        return [call for call in self.awaiting if call not in self.begun]

    def saying_waiting(self) -> _Told:
        """What writes which calls wait for somebody now, and which were begun."""
        return (
            "UPDATE sessions SET awaiting = ?, begun = ? WHERE id = ?",
            (json.dumps(self.waiting), json.dumps(self.begun), self._session),
        )

    def _forgetting(self, start: int) -> _Told:
        """What removes the messages from this place on."""
        return "DELETE FROM messages WHERE session = ? AND at >= ?", (self._session, start)

    def forgetting_kept(self) -> _Told:
        """What removes results that have their messages by now."""
        return "DELETE FROM results WHERE session = ?", (self._session,)

    def _changed_by(self, result: ToolResult) -> list[_Told]:
        """What is to be written besides the message of a result."""
        told = []
        waited, waits = result.call_id in self.awaiting, result.status == "deferred"
        if waits and not waited:
            self.awaiting = [*self.awaiting, result.call_id]
        elif waited and not waits:
            self.awaiting = [one for one in self.awaiting if one != result.call_id]
        if waits or waited:
            self.begun = [one for one in self.begun if one != result.call_id]
            told.append(self.saying_waiting())
        if result.call_id in self._kept:
            self._kept.discard(result.call_id)
            if not self._kept:
                told.append(self.forgetting_kept())
        return told
