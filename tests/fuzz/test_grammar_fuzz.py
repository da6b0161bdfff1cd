"""A short run of the fuzz target on fresh random inputs; `python -m tests.fuzz.grammar` runs longer ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def test_two_hundred_random_schemas_patterns_and_turns_find_nothing(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    command = [sys.executable, "-m", "tests.fuzz.grammar", "--cases", "200", "--seed", str(seed)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counted = re.search(r"(\d+) cases, (\d+) accepted", ran.stdout)
    assert counted is not None, ran.stdout
    assert int(counted[2]) >= 5, f"too few inputs were accepted to show anything: {ran.stdout}"
