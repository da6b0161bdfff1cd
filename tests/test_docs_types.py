"""The Python blocks of README and docs pass mypy --strict. Runs after `make check`, whose cache it shares."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from docs_blocks import ROOT, programs

WRONG = "number: int = 'a text'\n"  # shows that errors are found


def test_the_python_blocks_of_the_docs_pass_mypy_strict(tmp_path: Path) -> None:
    places = {}
    for one in programs():
        file = tmp_path / f"block_{re.sub(r'[^A-Za-z0-9]+', '_', one.where)}.py"
        file.write_text(one.source, encoding="utf-8")
        places[file.name] = one.where.partition(":")[0]
    assert len(places) == len(programs()) > 20
    wrong = tmp_path / "block_that_is_wrong.py"
    wrong.write_text(WRONG)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--show-absolute-path",
        "--hide-error-context",
    ]
    command += ["--config-file", "pyproject.toml", *(str(tmp_path / name) for name in places), str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout.replace(f"{tmp_path}/", "")
    assert not done.stderr and f"{wrong.name}:1: error" in said, done.stderr + said
    lines = [line for line in said.splitlines() if ": error:" in line and not line.startswith(wrong.name)]
    for name, page in places.items():  # the lines are the page's own
        lines = [line.replace(name, page) for line in lines]
    assert not lines, "\n".join(lines)
