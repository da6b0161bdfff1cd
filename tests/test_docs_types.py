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
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--config-file", "pyproject.toml"]
    files = [str(tmp_path / name) for name in (*places, wrong.name)]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    # Without the folder: an error that mypy has kept from the last time names that of the last time.
    errors = [re.sub(r"^.*?(?=block_\w+\.py:)", "", line) for line in errors]
    found = [line for line in errors if line.startswith(f"{wrong.name}:1:")]
    assert len(found) == 1 and not done.stderr, done.stdout + done.stderr
    errors.remove(found[0])
    for name, page in places.items():  # the lines are the page's own
        errors = [line.replace(name, page) for line in errors]
    assert not errors, "\n".join(errors)
