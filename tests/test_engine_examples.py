"""The examples of the engine run as they stand, on a tiny model instead of a real one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from kogagent.testing.tiny import write_tiny_model

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("01_stream.py", ["prompt tokens", "generated"]),
        ("05_fork_session.py", ["The sheep says", "tokens reused", "seed 2: The horse says"]),
    ],
)
def test_an_example_runs(
    name: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    monkeypatch.setattr("kogagent.local.engine.find_model", lambda name: model)
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert all(word in printed for word in words), printed
