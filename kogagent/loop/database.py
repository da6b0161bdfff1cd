"""One SQLite file: steps written in order by a thread, reads beside it. Knows rows; no messages.

A *step* is a function of the connection. Whoever needs steps to be safe either blocks until they are
(`flush`) or waits on its event loop while a thread writes (`settled`); all steps that wait at that moment
share one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol, TypeAlias

from kogagent import forks
from kogagent.errors import InputError

# Each entry brings a database from its index to the next version; entries are only ever added.
MIGRATIONS: Final = (
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
    """
    ALTER TABLE sessions ADD COLUMN updated TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN awaiting TEXT NOT NULL DEFAULT '[]';
    UPDATE sessions SET updated = created;
    """,
    "ALTER TABLE sessions ADD COLUMN begun TEXT NOT NULL DEFAULT '[]';",
    """
    CREATE TABLE results (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn INTEGER NOT NULL,
        call TEXT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (session, turn, call)
    ) WITHOUT ROWID;
    """,
)
_BUSY_MS = 10_000  # another process writes: commits take well under a millisecond
_PATIENCE_S = 0.005  # a model that speaks sooner shares the transaction with what was before
Step: TypeAlias = Callable[[sqlite3.Connection], None]
_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]


class Writer(Protocol):
    """Whose steps they are; used by one thread at a time. posted and written count them, and start at 0."""

    posted: int
    written: int

    def refusal(self) -> InputError:
        """What to raise when a row was there already, or its parent was not."""


class Database:
    """A file and the thread that writes it. Any thread may call anything; after `close` all raise
    InputError."""

    def __init__(self, path: str, *, durable: bool) -> None:
        self._path = path
        self._lock = threading.RLock()  # held by whoever uses the writing connection
        self._steps: deque[tuple[Writer, Step]] = deque()
        self._failed: dict[Writer, InputError] = {}
        self._waiting: queue.SimpleQueue[_Waiter | Literal["now", "soon", "end"]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = self._forked = False
        self._db = self._connect(durable)
        # A second connection reads: in a write-ahead log it never waits for the first.
        self._read_lock = self._lock if path == ":memory:" else threading.RLock()
        self._reading = self._db if path == ":memory:" else sqlite3.connect(path, check_same_thread=False)
        forks.leave_to_parent(self)

    def _connect(self, durable: bool) -> sqlite3.Connection:
        if not self._path:  # to SQLite a file that each connection has to itself
            raise InputError("a session store needs a path that is not empty")
        try:
            db = sqlite3.connect(
                self._path, isolation_level=None, timeout=_BUSY_MS / 1000, check_same_thread=False
            )
        except sqlite3.OperationalError as error:  # a directory, or below one that is not there
            raise InputError(f"{self._path}: {error}. Pass a file in a directory that exists.") from error
        try:
            _keep_log(db)
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            db.execute("PRAGMA foreign_keys = ON")
            _migrate(db, self._path)
        except sqlite3.DatabaseError as error:
            db.close()
            if _busy(error):
                raise InputError(f"{self._path}: {error}. Another program holds it; try again.") from error
            raise InputError(f"{self._path} is no session store: {error}. Pass another path.") from error
        except InputError:
            db.close()
            raise
        return db

    # ── reading ──

    def read(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows, those of steps posted before included."""
        self.flush(None)
        with self._read_lock:
            self._check_open()
            with self._told():
                return self._reading.execute(sql, values).fetchall()

    # ── writing ──

    def write(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        """One statement, done when this returns."""
        self.transact(lambda db: db.execute(sql, values))

    def transact(self, step: Callable[[sqlite3.Connection], object]) -> None:
        """One step in a transaction of its own, after those posted before; done when this returns."""
        self.flush(None)
        with self._lock:
            self._check_open()
            with self._told(), _transaction(self._db):
                step(self._db)

    def post(self, writer: Writer, step: Step) -> None:
        """Write a step, soon."""
        self._check_open()
        writer.posted += 1
        self._steps.append((writer, step))

    def flush(self, writer: Writer | None) -> None:
        """Write what was posted, in this thread. Raises the writer's InputError."""
        with self._lock:
            self._check_open()
            self._write_all()
        self._raise(writer)

    async def settled(self, writer: Writer) -> None:
        """`flush`, by the database's own thread. A cancelled wait loses nothing: the steps are written."""
        if writer.written < writer.posted:
            loop = asyncio.get_running_loop()
            written: asyncio.Future[None] = loop.create_future()
            self._wake((loop, written))
            await written
        self._raise(writer)

    def begin(self, *, patient: bool = False) -> None:
        """Have the database's own thread write what was posted; nobody waits for it. patient: with what is
        posted in the next milliseconds, if anything is."""
        self._wake("soon" if patient else "now")

    def _wake(self, waiter: _Waiter | Literal["now", "soon"]) -> None:
        with self._lock if self._thread is None else contextlib.nullcontext():
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kogagent store", daemon=True)
                self._thread.start()
        self._waiting.put(waiter)
        self._check_open()  # closed meanwhile: the thread may have gone without it

    def _work(self) -> None:
        """The thread: write, then wake everybody who waited for it."""
        going = True
        while going:
            waiting = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                if waiting[0] == "soon":
                    waiting.append(self._waiting.get(timeout=_PATIENCE_S))
                while True:
                    waiting.append(self._waiting.get_nowait())
            with self._lock:
                self._write_all()
            for one in waiting:
                if isinstance(one, str):
                    going = going and one != "end"
                    continue
                loop, written = one
                with contextlib.suppress(RuntimeError):  # loop closed meanwhile: nobody waits any more
                    loop.call_soon_threadsafe(_resolve, written)

    def _write_all(self) -> None:
        """Write what was posted, under the lock. Never raises: a failure belongs to whose step it was."""
        steps: list[tuple[Writer, Step]] = []
        while self._steps:
            steps.append(self._steps.popleft())
        if not steps:
            return
        try:
            with _transaction(self._db):
                for writer, step in steps:
                    if writer not in self._failed:
                        step(self._db)
        except Exception:
            for writer, step in steps:  # again, each alone: one writer's failure is not another's
                self._write_one(writer, step)
        for writer, _ in steps:
            writer.written += 1

    def _write_one(self, writer: Writer, step: Step) -> None:
        if writer in self._failed:
            return
        try:
            with _transaction(self._db):
                step(self._db)
        except sqlite3.IntegrityError:
            self._failed[writer] = writer.refusal()
        except Exception as error:
            self._failed[writer] = self._trouble(error)

    def _raise(self, writer: Writer | None) -> None:
        if writer is not None and writer in self._failed:
            raise self._failed[writer]

    # ── the end ──

    def close(self) -> None:
        """Write what is left, end the thread, give the file back. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._write_all()
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._waiting.put("end")
            thread.join()
        with self._read_lock, self._lock:
            self._reading.close()
            self._db.close()

    def leave_to_parent(self) -> None:
        """Refuse everything from now on: this process was forked, and has neither the thread nor the right to
        use the parent's connections."""
        self._lock = self._read_lock = threading.RLock()  # a thread that is not here may hold the others
        self._closed = self._forked = True

    def _check_open(self) -> None:
        if self._forked:
            raise InputError(
                f"the session store {self._path} was opened before this process was forked. "
                "Open it in each process."
            )
        if self._closed:
            raise InputError(f"the session store {self._path} is closed. Open it again.")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's own errors as this package's."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> InputError:
        return InputError(f"{self._path} cannot be used: {error}. Check the file and its disk.")


def _busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _keep_log(db: sqlite3.Connection) -> None:
    """Turn the write-ahead log on. Of two connections that do so at once SQLite refuses one, however long it
    may wait for a lock: the waiting is done here."""
    end = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if not _busy(error) or time.monotonic() > end:
                raise
        time.sleep(0.002)


def _migrate(db: sqlite3.Connection, path: str) -> None:
    def version() -> int:
        number: int = db.execute("PRAGMA user_version").fetchone()[0]
        return number

    if version() == len(MIGRATIONS):
        return
    with _transaction(db):  # two processes may open a new file at once: one makes the tables
        found = version()
        if found > len(MIGRATIONS):
            raise InputError(f"{path} has version {found}, this package knows {len(MIGRATIONS)}: update it")
        if found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise InputError(f"{path} is a database of something else. Pass another path.")
        for migration in MIGRATIONS[found:]:
            for statement in migration.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk ends it by itself
            db.execute("ROLLBACK")
        raise


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
