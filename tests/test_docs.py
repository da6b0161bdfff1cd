"""README and docs are run: Python blocks execute, figures equal recorded results, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from docs_blocks import PAGES, ROOT, Program, programs

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def _docs_numbers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_numbers", ROOT / "scripts" / "docs_numbers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_at_least_one_block_in_the_readme() -> None:
    assert any(one.where.startswith("README.md") for one in programs())


@pytest.mark.parametrize("program", programs(), ids=[one.where for one in programs()])
def test_the_python_blocks_of_the_docs_run(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a block that writes files writes them here
    names: dict[str, object] = {"__name__": "__docs__"}
    for number, code in enumerate(program.blocks, 1):
        exec(compile(code, f"{program.where}, block {number}", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    dead = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not dead, f"{page.name} links to missing files: {dead}"


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_figures_in_the_docs_equal_the_recorded_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _docs_numbers().refreshed(text) == text, "run: make docs-numbers"


def test_a_figure_that_differs_from_its_record_is_rewritten(tmp_path: Path) -> None:
    numbers = _docs_numbers()
    (tmp_path / "x.jsonl").write_text(
        '{"case": "a b", "metric": "tok_s", "value": 1.0, "peers": {}}\n'
        '{"case": "a b", "metric": "tok_s", "value": 63.4, "peers": {"llama.cpp F16": 84.2}}\n'
    )
    assert numbers.newest("x", "a_b", "tok_s", tmp_path)["value"] == 63.4
    with (tmp_path / "y.jsonl").open("w") as file:
        for backend, value in (("cuda", 1), ("native", 2), ("cuda", 3), ("native", 4), ("cpu", 5)):
            print(f'{{"case": "a", "backend": "{backend}", "metric": "ms", "value": {value}}}', file=file)
    assert [numbers.newest("y", f"a{of}", "ms", tmp_path)["value"] for of in ("", "@cuda", "@native")] == [
        5,
        3,
        4,
    ]
    with pytest.raises(KeyError, match="no record"):
        numbers.newest("x", "c", "tok_s", tmp_path)


def test_a_table_has_a_row_for_each_case_and_what_is_not_recorded_is_said(tmp_path: Path) -> None:
    numbers = _docs_numbers()
    common = '"backend": "none", "card": "a machine", "commit": "c", "date": "d", "note": "a note"'
    (tmp_path / "x.jsonl").write_text(
        f'{{"case": "p/1", "metric": "us", "value": 1, "peers": {{}}, {common}}}\n'
        f'{{"case": "p/1", "metric": "us", "value": 2000.4, "peers": {{"a": 3, "b": 4}}, {common}}}\n'
        f'{{"case": "p/2", "metric": "us", "value": 5, "peers": {{"b": 6}}, {common}}}\n'
        f'{{"case": "p/2", "metric": "ms", "value": 7, "peers": {{}}, {common}}}\n'
    )
    rows = numbers.table("x", "p/", "us", ",.0f", tmp_path).splitlines()
    assert rows[0] == "|  | ours | a | b |" and rows[2:4] == ["| 1 | 2,000 | 3 | 4 |", "| 2 | 5 |  | 6 |"]
    assert rows[-1] == "a machine, commit c, d. a note"
    assert numbers.table("x", "p/", "us,ms", ".1f", tmp_path).splitlines()[3] == "| 2 | 5.0 | 7.0 |"
    assert numbers.table("x", "q/", "us", ".1f", tmp_path) == "Not recorded yet."
    with (tmp_path / "x.jsonl").open("a") as file:
        print(f'{{"case": "p/1", "metric": "us", "value": 99, "peers": {{}}, {common}}}', file=file)
    assert numbers.newest("x", "p/1", "us", tmp_path)["value"] == 99
    assert numbers.newest("x", "p/1", "us+peers", tmp_path)["peers"], "measured beside peers"
    page = "<!--table x q/ us .1f-->\nold\n<!--/table-->"
    assert (
        numbers.refreshed(numbers.refreshed(page))
        == "<!--table x q/ us .1f-->\n\nNot recorded yet.\n\n<!--/table-->"
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` does: a dead link, an anchor or a name that is not there ends a strict build."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "agents" / "index.html").read_text(encoding="utf-8")
    assert "Runs a model and tools in a loop" in page, "the reference is made of the docstrings"
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
