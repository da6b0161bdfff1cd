"""The examples around the demo run as they stand, with a scripted model in the engine's place."""

from __future__ import annotations

import contextlib
import runpy
from pathlib import Path

import pytest

from kogagent.testing.models import ScriptedModel, ScriptedTurn, call

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_a_model_of_ones_own_stands_in_for_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "04_own_model.py"), run_name="__main__")
    assert capsys.readouterr().out == "It has 3.\n"


def test_the_museum_answers_in_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel(
        ScriptedTurn(plan="I look.", calls=(call("search", text="night guard"),)), "Petra Lund.", delta=4
    )
    monkeypatch.setattr("kogagent.local.Engine.load", lambda name: contextlib.nullcontext())
    monkeypatch.setattr("kogagent.demo.demo_model", lambda engine: model)
    monkeypatch.setattr("kogagent.demo.demo_history", lambda engine, question: [])
    monkeypatch.setattr("sys.argv", ["03_museum.py", "Who is the night guard?"])
    runpy.run_path(str(EXAMPLES / "03_museum.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert '-> search {"text": "night guard"}' in printed
    assert "<- safety.txt: The night guard is Petra Lund." in printed
    assert "Petra Lund." in printed and "2 turns" in printed
    assert getattr(model.requests[0].messages[-1], "text", "") == "Who is the night guard?"
