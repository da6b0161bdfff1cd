"""A database asked by a model: reads alone, bounded, whatever the statement."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from toolkit_calls import Asked

from kogagent import InputError
from kogagent.toolkit import sqlite_tools


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "a b?#%.sqlite"  # a name that a URI must quote
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE fossils (name TEXT, kg REAL, data BLOB)")
        db.executemany(
            "INSERT INTO fossils VALUES (?, ?, ?)",
            [("Ada", 1.5, b"abc"), ("Bo\nb", None, None), ("C | é", 2, None)],
        )
    db.close()
    return path


def content(path: Path) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT * FROM fossils").fetchall()
    finally:
        db.close()


async def test_rows_are_told_with_their_columns(base: Path) -> None:
    ask = Asked(sqlite_tools(base))
    assert (await ask("query", sql="SELECT * FROM fossils")).splitlines() == [
        "name | kg | data",
        "Ada | 1.5 | <3 bytes>",
        "Bo\\nb | NULL | NULL",
        "C | é | 2.0 | NULL",
    ]
    told = await ask("query", sql="SELECT count(*) AS n FROM fossils WHERE kg > ?", parameters=[1.6])
    assert told == "n\n1"
    assert await ask("query", sql="SELECT 1 AS one WHERE 0") == "one\n[no rows]"
    assert "CREATE TABLE fossils" in await ask("schema")
    assert "kg" in await ask("query", sql="PRAGMA table_info(fossils)")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM fossils",
        "INSERT INTO fossils VALUES ('x', 1, NULL)",
        "DROP TABLE fossils",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA table_info",
        "SELECT load_extension('x')",
        "BEGIN",
        "WITH x AS (SELECT 1) DELETE FROM fossils",
        "EXPLAIN DELETE FROM fossils",
        "SELECT 1; DELETE FROM fossils",
        "nonsense",
        "",
    ],
)
async def test_nothing_but_reading_is_possible(base: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base.parent)
    before = content(base)
    if sql != "PRAGMA table_info":  # which reads, and has nothing to tell
        await Asked(sqlite_tools(base)).refused("query", sql=sql)
    assert content(base) == before
    assert [path.name for path in base.parent.iterdir()] == [base.name]


async def test_time_rows_and_values_are_bounded(base: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
    hasty = Asked(sqlite_tools(base, seconds=0.1))
    assert "longer than 0.1 s" in await hasty.refused("query", sql=endless.format("count(*)"))
    ask = Asked(sqlite_tools(base, seconds=60, max_rows=3))
    told = await ask("query", sql=endless.format("x"))
    assert told.splitlines() == ["x", "1", "2", "3", "[… more than 3 rows: use LIMIT, or count and group]"]
    assert "too big" in await ask.refused("query", sql="SELECT zeroblob(1000000000)")
    assert "NULL" in await ask("query", sql="SELECT printf('%2000000d', 1)")
    assert len(await ask("query", sql="SELECT printf('%900000d', 1)")) < 1000


async def test_writing_is_asked_for_and_all_or_nothing(base: Path) -> None:
    query, schema = sqlite_tools(base, write=True, seconds=60)
    assert query.needs_approval and not schema.needs_approval
    assert not sqlite_tools(base)[0].needs_approval
    ask = Asked([query, schema])
    assert await ask("query", sql="UPDATE fossils SET kg = 3 WHERE name = 'Ada'") == "[1 rows changed]"
    assert content(base)[0][1] == 3
    assert "leaves" in await ask("query", sql="CREATE TABLE leaves (x)") + await ask("schema")
    slow = (
        "INSERT INTO fossils SELECT 'x', x, NULL FROM"
        " (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n)"
    )
    hasty = Asked(sqlite_tools(base, write=True, seconds=0.1))
    assert "longer than" in await hasty.refused("query", sql=slow)
    assert len(content(base)) == 3
    for sql in ("ATTACH 'x' AS y", "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = ''"):
        await ask.refused("query", sql=sql)
    assert await ask("query", sql="DELETE FROM fossils RETURNING name") == "name\nAda\nBo\\nb\nC | é"
    assert content(base) == []


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be one" * 50)
    with pytest.raises(InputError, match="no SQLite database"):
        sqlite_tools(tmp_path / "text")
    for bad in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="no file"):
            sqlite_tools(bad)
    assert not (tmp_path / "none").exists()
