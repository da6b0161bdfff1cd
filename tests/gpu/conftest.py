"""Tests here need a CUDA device: they run, or they say why not, or, when one is required, they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from kogagent.engine.backends import unavailable

sys.path.append(str(Path(__file__).resolve().parent.parent / "grammar"))  # its made schemas

REASON = unavailable("cuda")
Figures: TypeAlias = Callable[[str], None]
_FIGURES: list[str] = []


@pytest.fixture
def figures() -> Figures:
    """Takes lines that are shown after the run: what a test measured on its way."""
    return _FIGURES.append


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if "/tests/gpu/" in item.path.as_posix()]
    for item in here:
        item.add_marker(pytest.mark.gpu)
    if REASON is None or not here or os.environ.get("KOGAGENT_REQUIRE_GPU") == "1":
        return
    items[:] = [item for item in items if item not in here]
    config.hook.pytest_deselected(items=here)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if REASON is not None:
        pytest.fail(f"KOGAGENT_REQUIRE_GPU=1, but {REASON}", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _FIGURES:
        terminalreporter.write_line(line)
    if REASON is not None and os.environ.get("KOGAGENT_REQUIRE_GPU") != "1":
        terminalreporter.write_line(
            f"tests/gpu deselected: {REASON}. KOGAGENT_REQUIRE_GPU=1 makes their absence a failure."
        )
