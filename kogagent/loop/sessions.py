"""Conversations kept in a SQLite file. Knows messages and rows; no model, no run.

A message is committed before the run goes on, so a process killed at any point leaves a whole history: opened
again, a call without a result gets a "cancelled" one. Write-ahead log: readers never wait for a writer.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from kogagent.errors import InputError
from kogagent.loop.transcript import Transcript, message_from_json, message_to_json
from kogagent.types import Message

# Each entry brings a database from its index to the next version; entries are only ever added.
_MIGRATIONS: Final = (
    """
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
    """,
)
_BUSY_MS = 10_000  # another process writes: commits take well under a millisecond


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One stored conversation. created is UTC, ISO 8601; parent is the session it was forked from, or ""."""

    id: str
    created: str
    messages: int
    parent: str


class SessionStore:
    """Conversations by id: `agent.run("…", history=store.open("ada"))`.

    durable: also survive the loss of power, at the price of a disk flush a message; without it a kill of the
    process loses nothing that was committed. One store belongs to one thread; several stores and processes
    may share a file. Raises InputError for a file that is no session store or comes from a newer version.
    """

    def __init__(self, path: str | Path, *, durable: bool = False) -> None:
        self._path = str(path)
        try:
            self._db = sqlite3.connect(self._path, isolation_level=None, timeout=_BUSY_MS / 1000)
        except sqlite3.OperationalError as error:  # a directory, or below one that is not there
            raise InputError(f"{self._path}: {error}. Pass a file in a directory that exists.") from error
        try:
            self._db.execute("PRAGMA journal_mode = WAL").fetchall()
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise InputError(f"{self._path} is no session store: {error}. Pass another path.") from error
        except InputError:
            self._db.close()
            raise

    def open(self, session: str) -> Transcript:
        """The session's transcript, made if there is none; everything a run appends to it is stored.

        Calls without a result, left by a process that was killed, are closed first.
        """
        if not session:
            raise InputError("a session needs an id that is not empty")
        self._db.execute("INSERT OR IGNORE INTO sessions (id) VALUES (?)", (session,))
        transcript = Transcript(self.messages(session), journal=_Rows(self._db, session))
        transcript.close_calls()
        return transcript

    def messages(self, session: str) -> tuple[Message, ...]:
        """What is stored now. Raises InputError for an id that is not there."""
        self._require(session)
        rows = self._db.execute("SELECT message FROM messages WHERE session = ? ORDER BY at", (session,))
        return tuple(
            message_from_json(json.loads(text), f"{self._path}, session {session!r}, message {at}")
            for at, (text,) in enumerate(rows.fetchall())
        )

    def sessions(self) -> tuple[SessionInfo, ...]:
        """All of them, oldest first."""
        rows = self._db.execute(
            "SELECT id, created, (SELECT count(*) FROM messages WHERE session = id), coalesce(parent, '')"
            " FROM sessions ORDER BY created, id"
        )
        return tuple(SessionInfo(*row) for row in rows.fetchall())

    def fork(self, session: str, new: str, *, messages: int | None = None) -> Transcript:
        """A new session of the first so many messages of another, all by default. Calls whose results are cut
        off are closed. Raises InputError for an id that is not there or is taken."""
        self._require(session)
        kept = self.messages(session)
        if messages is not None:
            if not 0 <= messages <= len(kept):
                raise InputError(f"session {session!r} has {len(kept)} messages, not {messages}")
            kept = kept[:messages]
        with _transaction(self._db):
            try:
                self._db.execute("INSERT INTO sessions (id, parent) VALUES (?, ?)", (new, session))
            except sqlite3.IntegrityError:
                raise InputError(f"there is a session {new!r} already. Choose another id.") from None
            _Rows(self._db, new).fill(kept)
        return self.open(new)

    def delete(self, session: str) -> None:
        """Forget a session. Raises InputError for an id that is not there."""
        self._require(session)
        self._db.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> SessionStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require(self, session: str) -> None:
        if self._db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is None:
            known = ", ".join(repr(one.id) for one in self.sessions()[-5:]) or "none at all"
            raise InputError(f"there is no session {session!r} in {self._path}; the newest are {known}")

    def _version(self) -> int:
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        return version

    def _migrate(self) -> None:
        if self._version() == len(_MIGRATIONS):
            return
        with _transaction(self._db):  # two processes may open a new file at once: one makes the tables
            version = self._version()
            if version > len(_MIGRATIONS):
                raise InputError(
                    f"{self._path} has version {version}, this package knows {len(_MIGRATIONS)}: update it"
                )
            if version == 0 and self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise InputError(f"{self._path} is a database of something else. Pass another path.")
            for step in _MIGRATIONS[version:]:
                for statement in step.split(";"):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")


class _Rows:
    """The journal of one session."""

    def __init__(self, db: sqlite3.Connection, session: str) -> None:
        self._db = db
        self._session = session

    def append(self, at: int, message: Message) -> None:
        try:
            self._insert(at, message)
        except sqlite3.IntegrityError:
            raise InputError(
                f"session {self._session!r} has been continued or deleted elsewhere. Open it again."
            ) from None

    def rewrite(self, messages: Sequence[Message]) -> None:
        with _transaction(self._db):
            self._db.execute("DELETE FROM messages WHERE session = ?", (self._session,))
            self.fill(messages)

    def fill(self, messages: Sequence[Message]) -> None:
        for at, message in enumerate(messages):
            self._insert(at, message)

    def _insert(self, at: int, message: Message) -> None:
        self._db.execute(
            "INSERT INTO messages (session, at, message) VALUES (?, ?, ?)",
            (self._session, at, json.dumps(message_to_json(message))),
        )


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
