"""README and docs are run: Python blocks execute, figures equal recorded results, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def _blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            line = page.read_text(encoding="utf-8")[: match.start()].count("\n") + 1
            found.append((f"{page.relative_to(ROOT)}:{line}", match.group(1)))
    return found


def _docs_numbers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_numbers", ROOT / "scripts" / "docs_numbers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_at_least_one_block_in_the_readme() -> None:
    assert any(where.startswith("README.md") for where, _ in _blocks())


@pytest.mark.parametrize(("where", "code"), _blocks(), ids=[where for where, _ in _blocks()])
def test_a_python_block_of_the_docs_runs(
    where: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a block that writes files writes them here
    exec(compile(code, where, "exec"), {"__name__": "__docs__"})


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
    with pytest.raises(KeyError, match="no record"):
        numbers.newest("x", "c", "tok_s", tmp_path)


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
