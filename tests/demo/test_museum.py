"""The demo's data and tools: what they say, what they refuse, that nothing escapes them."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any, get_args

import numpy as np
import pytest

from kogagent.demo import database, museum
from kogagent.demo.arithmetic import evaluate, number
from kogagent.errors import Retry
from kogagent.tools.tool import tool
from kogagent.tools.toolbox import Toolbox
from kogagent.types import RunContext, ToolCall, ToolOutcome


def _dump(connection: sqlite3.Connection) -> list[str]:
    return list(connection.iterdump())


def test_the_committed_database_is_what_its_sql_makes() -> None:
    made = sqlite3.connect(":memory:")
    made.executescript((museum.DATA / "museum.sql").read_text(encoding="utf-8"))
    with sqlite3.connect(f"file:{database.DATABASE}?mode=ro", uri=True) as committed:
        assert _dump(committed) == _dump(made)
    committed.close()
    made.close()


def test_the_names_a_grammar_allows_are_the_files_that_are_there() -> None:
    assert sorted(get_args(museum.FileName)) == sorted(path.name for path in museum.FILES.iterdir())
    assert museum.list_files().split(", ") == sorted(get_args(museum.FileName))


@pytest.mark.parametrize("name", get_args(museum.FileName))
def test_a_file_is_read_whole_and_stays_short(name: Any) -> None:
    text = (museum.FILES / name).read_text(encoding="utf-8").strip()
    assert museum.read_file(name) == text
    assert len(text.splitlines()) <= museum.MAX_LINES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("night guard", "safety.txt: The night guard is Petra Lund."),
        ("cook of Merlin", "merlin.txt: Cook: Ada Renn."),
        ("how far the Kestrel team walked", "kestrel.txt: The team walked 84 miles"),
        ("ALARM ring", "safety.txt: When the alarm rings"),
    ],
)
def test_search_finds_the_line_with_the_rarest_words(words: str, said: str) -> None:
    found = museum.search(words)
    assert found.splitlines()[0].startswith(said)
    assert len(found.splitlines()) <= museum.MAX_HITS


def test_search_for_what_is_nowhere_says_what_to_do() -> None:
    with pytest.raises(Retry, match="No line contains 'xylophone'"):
        museum.search("xylophone")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COUNT(*) FROM fossils WHERE expedition = 'Merlin'", "count: 8"),
        ("SELECT SUM(mass) FROM fossils WHERE kind = 'bone'", "sum of mass: 358"),
        ("SELECT name FROM fossils ORDER BY mass DESC LIMIT 1", "name: Garnet"),
        ("SELECT leader FROM expeditions WHERE name = 'Osprey'", "leader: Lena Marsh"),
        ("SELECT name, mass FROM fossils WHERE room = 2 AND mass > 40", "Bramble, 62\nSaffron, 45"),
        ("SELECT name FROM fossils WHERE mass = 12345", "no rows"),
        ("SELECT AVG(mass) FROM fossils WHERE name = 'nobody'", "avg of mass: none"),
    ],
)
def test_a_query_answers_in_short_lines(sql: str, said: str) -> None:
    assert museum.query(sql) == said


def test_a_query_of_many_rows_is_cut() -> None:
    lines = museum.query("SELECT name, room FROM fossils").splitlines()
    assert len(lines) == database.MAX_ROWS + 1 and lines[-1] == "(more rows)"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM fossils",
        "INSERT INTO shop VALUES ('x', 1, 1, 1)",
        "DROP TABLE fossils",
        "ATTACH DATABASE '/tmp/stolen.db' AS other",
        "PRAGMA writable_schema = 1",
        "SELECT weight FROM fossils",
        "SELECT name FROM fossils; DELETE FROM fossils",
        "SELECT load_extension('x')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
        "not sql",
        "",
    ],
)
def test_a_statement_that_writes_escapes_or_never_ends_is_refused(sql: str) -> None:
    before = database.DATABASE.read_bytes()
    with pytest.raises(Retry, match="SQL error"):
        museum.query(sql)
    assert database.DATABASE.read_bytes() == before


def test_every_statement_of_the_pattern_is_one_sqlite_runs(rng: np.random.Generator) -> None:
    """Random walks through the pattern's own words: what the grammar allows, the database understands."""
    tables = {
        "fossils": (["name", "kind", "expedition"], ["mass", "room"]),
        "expeditions": (["name", "leader"], ["year", "days", "cost"]),
        "shop": (["item"], ["price", "stock", "sold"]),
    }
    pattern = re.compile(database.PATTERN)
    for _ in range(60):
        table = str(rng.choice(list(tables)))
        texts, numbers = tables[table]
        what = str(rng.choice([*texts, *numbers, "COUNT(*)", f"SUM({rng.choice(numbers)})"]))
        sql = f"SELECT {what} FROM {table}"
        if rng.random() < 0.6:
            column = str(rng.choice(texts))
            sql += f" WHERE {column} = '{rng.choice(database.names(f'SELECT {column} FROM {table}'))}'"
        if rng.random() < 0.4:
            sql += f" ORDER BY {rng.choice(numbers)} {rng.choice(['ASC', 'DESC'])} LIMIT 1"
        assert pattern.fullmatch(sql), sql
        assert museum.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT weight FROM fossils",
        "SELECT mass FROM shop",
        "SELECT mass FROM fossils WHERE name = 'Nobody'",
        "DELETE FROM fossils",
        "SELECT name FROM fossils; SELECT 1",
    ],
)
def test_the_pattern_allows_no_name_that_is_not_there(sql: str) -> None:
    assert not re.fullmatch(database.PATTERN, sql)


def test_arithmetic_agrees_with_python(rng: np.random.Generator) -> None:
    for _ in range(200):
        a, b, c = (int(n) for n in rng.integers(1, 1000, 3))
        first, second = (str(op) for op in rng.choice(["+", "-", "*", "/"], 2))
        text = f"({a} {first} {b}) {second} {c}"
        assert evaluate(text) == pytest.approx(eval(text, {"__builtins__": {}}))


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').getcwd()",
        "(1).__class__",
        "[1, 2]",
        "x + 1",
        "'a' * 3",
        "True + 1",
        "2 ** 1000",
        "(((9**64)**64)**64)**64",
        "1 / 0",
        "1e400",
        "(-8) ** 0.5",
        "((" * 30,
        "",
        "1; 2",
        "lambda: 1",
    ],
)
def test_what_is_no_finite_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(Retry):
        museum.compute(expression)


@pytest.mark.parametrize(
    ("value", "text"),
    [(2255.0, "2255"), (573.8095, "573.81"), (1.5, "1.5"), (0.79251, "0.793"), (-9, "-9"), (15.80, "15.8")],
)
def test_a_number_is_written_as_a_person_would(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "to", "said"),
    [
        (84, "miles", "kilometres", "kilometres: 135.18"),
        (71, "kilograms", "pounds", "pounds: 156.53"),
        (38, "litres", "gallons", "gallons: 10.04"),
        (-9, "celsius", "fahrenheit", "fahrenheit: 15.8"),
        (15.8, "fahrenheit", "celsius", "celsius: -9"),
        (2, "hours", "minutes", "minutes: 120"),
        (34, "celsius", "celsius", "celsius: 34"),
    ],
)
def test_units_are_converted(value: float, unit: Any, to: Any, said: str) -> None:
    assert museum.convert(value, unit, to) == said


@pytest.mark.parametrize(("unit", "to"), [("miles", "pounds"), ("celsius", "litres"), ("hours", "celsius")])
def test_units_of_two_kinds_are_refused_with_both_kinds_named(unit: Any, to: Any) -> None:
    with pytest.raises(Retry, match="measure"):
        museum.convert(1, unit, to)


async def test_the_tools_take_their_arguments_as_a_model_writes_them() -> None:
    box = Toolbox([tool(function) for function in museum.TOOLS])

    async def call(name: str, arguments: str) -> ToolOutcome:
        one = ToolCall("1", name, arguments)
        return await box.call(one, RunContext(None, one))

    right = json.dumps({"sql": "SELECT COUNT(*) FROM fossils"})
    assert (await call("query", right)).result.text == "count: 22"
    unknown = json.dumps({"sql": "SELECT COUNT(*) FROM secrets"})
    assert (await call("query", unknown)).result.status == "invalid", (
        "the pattern holds without a grammar too"
    )
    outside = json.dumps({"file": "../museum.sql"})
    assert (await call("read_file", outside)).result.status == "invalid"
    assert (await call("compute", '{"expression": "1 / 0"}')).result.status == "retry"
