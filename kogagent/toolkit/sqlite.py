"""A tool that asks a SQLite database, bounded in time, rows and memory. Knows SQL; no models."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

from pydantic import Field

from kogagent.errors import InputError, Retry
from kogagent.tools.tool import Tool

_STEPS = 1000  # of SQLite's machine between two looks at the clock
_CELL_CHARS = 500
_VALUE_BYTES = 1 << 20  # no text or blob is longer: repetition in SQL is cheap to write
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_WRITES = {
    *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_TRANSACTION),
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW),
    *(sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX),
    *(sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_DROP_TRIGGER, sqlite3.SQLITE_ALTER_TABLE),
    *(sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_ANALYZE),
}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"}
_NO_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}

Value: TypeAlias = str | int | float | None


def sqlite_tools(
    path: str | Path,
    *,
    write: bool = False,
    needs_approval: bool | None = None,
    seconds: float = 5.0,
    max_rows: int = 200,
) -> tuple[Tool[..., Any], ...]:
    """`query`, one SQL statement, and `schema`, the tables. Only reading, unless write is set: then each
    query needs approval, if needs_approval does not say otherwise.

    An authorizer allows what is listed and nothing else: no other database, no extension, no setting. A
    statement that takes longer is interrupted, and undone. Raises InputError for what is no database.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"{str(path)!r} is no file. Pass a SQLite database that exists.")
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(f"sqlite_tools seconds={seconds!r} must be a number > 0")
    if not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 1:
        raise InputError(f"sqlite_tools max_rows={max_rows!r} must be a positive integer")
    database = _Database(file, write, seconds, max_rows)
    try:
        with closing(database.open()) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{str(path)!r} is no SQLite database: {error}. Pass another path.") from error
    asked = write if needs_approval is None else needs_approval
    limit = seconds + 30  # SQLite's own comes first, and says what to do
    return (Tool(database.query, needs_approval=asked, timeout=limit), Tool(database.schema, timeout=limit))


class _Database:
    """The tools, bound to their file and limits. A connection lasts for one call."""

    def __init__(self, file: Path, write: bool, seconds: float, max_rows: int) -> None:
        self._uri = f"file:{quote(str(file))}?mode={'rw' if write else 'ro'}"
        self._write = write
        self._seconds = seconds
        self._max_rows = max_rows

    def open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, isolation_level=None, timeout=self._seconds)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_authorizer(self._allow)
        end = time.monotonic() + self._seconds
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        return connection

    def _allow(self, action: int, one: str | None, other: str | None, *_: Any) -> int:
        allowed = action in _READS or (self._write and action in _WRITES)
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = str(other).lower() not in _NO_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = str(one).lower() in _PRAGMAS
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def query(
        self,
        sql: Annotated[str, Field(min_length=1, max_length=20_000)],
        parameters: Annotated[list[Value], Field(max_length=100)] = [],  # noqa: B006 - a default to show
    ) -> str:
        """Run one SQL statement of SQLite. The result is a line of column names, then a line for each row.

        Args:
            sql: the statement, with ? for parameters
            parameters: their values, in order
        """
        with closing(self.open()) as connection:
            try:
                if self._write:
                    connection.execute("BEGIN")
                cursor = connection.execute(sql, parameters)
                text = self._rows(cursor)
                if self._write and connection.in_transaction:
                    connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise Retry(self._explained(error)) from error  # closing rolls back
        return text

    def schema(self) -> str:
        """Show how the tables, indexes and views are defined."""
        with closing(self.open()) as connection:
            try:
                rows = connection.execute(
                    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
                )
                return ";\n".join(sql for (sql,) in rows.fetchmany(1000)) or "[no tables]"
            except sqlite3.Error as error:
                raise Retry(self._explained(error)) from error

    def _rows(self, cursor: sqlite3.Cursor) -> str:
        if cursor.description is None:
            return f"[{max(cursor.rowcount, 0)} rows changed]"
        lines = [" | ".join(column[0] for column in cursor.description)]
        for number, row in enumerate(cursor):
            if number == self._max_rows:
                lines.append(f"[… more than {self._max_rows} rows: use LIMIT, or count and group]")
                break
            lines.append(" | ".join(map(_cell, row)))
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n[no rows]"

    def _explained(self, error: sqlite3.Error) -> str:
        said = str(error)
        if "interrupted" in said:
            return f"the statement took longer than {self._seconds:g} s and was stopped. Make it cheaper"
        if "not authorized" in said or "prohibited" in said or "readonly" in said:
            what = (
                "only statements that read are" if not self._write else "only reading and changing tables is"
            )
            return f"{said}: {what} allowed"
        return said


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text if len(text) <= _CELL_CHARS else f"{text[:_CELL_CHARS]}…"
