"""The museum's database: read-only questions in SQL, and which SQL there is to ask. Knows no tools.

`PATTERN` is made from the database itself: a table, a column or a name that is not there cannot be written
where a grammar enforces it. SQLite still checks every statement, and only reading is allowed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from kogagent.demo.arithmetic import number
from kogagent.errors import Retry

DATABASE = Path(__file__).resolve().parent / "data" / "museum.db"
MAX_ROWS = 8
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
SQL_STEPS = 200_000  # SQLite virtual machine instructions before a query is stopped


def ask(sql: str) -> list[str]:
    """The rows of one SELECT as lines; one column is one line with its name. Raises Retry."""
    try:
        with closing(_connect()) as connection:
            connection.set_authorizer(_only_reads)
            connection.set_progress_handler(lambda: 1, SQL_STEPS)
            cursor = connection.execute(sql)
            rows = cursor.fetchmany(MAX_ROWS + 1)
            columns = [column[0] for column in cursor.description or ()]
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise Retry(f"SQL error: {error}. Write one SELECT.") from None
    if not columns:
        raise Retry("SQL error: there is no statement. Write one SELECT.")
    more = ["(more rows)"] if len(rows) > MAX_ROWS else []
    lines = [", ".join(_cell(value) for value in row) for row in rows[:MAX_ROWS]]
    if len(columns) == 1 and lines:
        return [f"{_label(columns[0])}: {', '.join(lines + more)}"]
    return lines + more if lines else ["no rows"]


def _label(column: str) -> str:
    """A column's name in words: "SUM(mass)" is "sum of mass"."""
    function, _, of = column.lower().rstrip(")").partition("(")
    return f"{function} of {of}" if of and of != "*" else function


def names(sql: str) -> list[str]:
    """The first column of a trusted query, as text."""
    with closing(_connect()) as connection:
        return [str(row[0]) for row in connection.execute(sql)]


@cache
def kinds_of_words() -> dict[str, str]:
    """Lower-case names in the database, singular and plural, each with its kind in brackets."""
    return {
        form: f"[{kind}]"
        for kind, column, table in (
            ("fossil", "name", "fossils"),
            ("kind", "kind", "fossils"),
            ("expedition", "name", "expeditions"),
            ("item", "item", "shop"),
        )
        for name in names(f"SELECT DISTINCT {column} FROM {table}")
        for form in (name.lower(), name.lower() + "s")
    }


def _pattern() -> str:
    """SELECT one column or one sum FROM a table [WHERE column = value] [ORDER BY a number LIMIT 1]."""
    statements = []
    for table in names("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"):
        with closing(_connect()) as connection:
            columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
        numbers = [name for name, kind in columns if kind != "TEXT"]
        texts = [name for name, kind in columns if kind == "TEXT"]
        what = [r"COUNT\(\*\)", rf"(SUM|AVG)\({_any(numbers)}\)", *dict(columns)]
        where = [f"{name} = '{_any(_quoted(name, table))}'" for name in texts]
        where.append(f"{_any(numbers)} = [0-9]{{1,5}}")
        statements.append(
            f"{_any(what)} FROM {table}( WHERE {_any(where)})?( ORDER BY {_any(numbers)} (ASC|DESC) LIMIT 1)?"
        )
    return f"^SELECT {_any(statements)}$"


def _quoted(column: str, table: str) -> list[str]:
    """The values of a column as SQL literals inside quotes, as a regular expression."""
    values = names(f"SELECT DISTINCT {column} FROM {table}")
    return [_SPECIAL.sub(r"\\\g<0>", value.replace("'", "''")) for value in values]


def _any(patterns: Sequence[str]) -> str:
    return f"({'|'.join(patterns)})"


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(f"file:{DATABASE}?mode=ro&immutable=1", uri=True)


def _only_reads(action: int, *_: str | None) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _cell(value: object) -> str:
    return number(value) if isinstance(value, int | float) else "none" if value is None else str(value)


PATTERN = _pattern()
