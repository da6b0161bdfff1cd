"""docs/grammar.md says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogagent.engine.grammar.describe import TABLES, filled

PAGE = Path(__file__).parents[2] / "docs" / "grammar.md"


def test_the_tables_in_the_docs_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run: python -m kogagent.engine.grammar.describe docs/grammar.md"


def test_a_page_without_a_place_for_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        filled("nothing here")
    assert all(f"<!-- table {name} -->" in PAGE.read_text(encoding="utf-8") for name in TABLES)
