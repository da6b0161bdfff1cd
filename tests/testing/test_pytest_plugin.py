"""The pytest plugin, in tests of its own that pytest runs here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch  # noqa: F401 - a run within this one forgets what it imported, and torch cannot be imported twice

pytest_plugins = ["pytester"]

TOOL = """
import asyncio

import pytest

from kogagent import Agent, InputError, tool, Retry
from kogagent.testing import ScriptedModel, call

@tool
def weather(city: str) -> str:
    "Tell the weather."
    if city == "Atlantis":
        raise Retry("no such city")
    return f"3 degrees in {city}"
"""


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def go(code: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_inner=TOOL + code)
        plugins = ("-p", "kogagent.testing.plugin", "-p", "no:cacheprovider", "-p", "no:asyncio")
        return pytester.runpytest_inprocess(*plugins, *options)

    return go


def test_an_agent_runs_on_a_script_without_a_model(run: Run) -> None:
    result = run(
        """
def test_good(run_agent):
    turns = (call("weather", city="Oslo"), "Cold.")
    result = run_agent([weather], *turns, prompt="Warm?", instructions="Be brief.")
    assert (result.output, result.messages[3].result.text) == ("Cold.", "3 degrees in Oslo")

def test_tool(call_tool):
    assert call_tool(weather, city="Oslo").text == "3 degrees in Oslo"
    assert call_tool(weather, city="Atlantis").status == "retry"
    assert call_tool(weather, city=3).status == "invalid"

def test_within_a_loop(call_tool):
    async def inner():
        call_tool(weather, city="Oslo")

    with pytest.raises(InputError, match="not async"):
        asyncio.run(inner())
"""
    )
    result.assert_outcomes(passed=3)


def test_a_script_that_is_not_played_to_its_end_fails(run: Run) -> None:
    result = run(
        """
def test_short(run_agent):
    run_agent([weather], "An answer at once.", "never said")

def test_unused(scripted_model):
    scripted_model("made, and never asked")
    scripted_model("again", repeat=True)
"""
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*a script of 2 turns was played for 1 of them*"])


def test_a_failing_test_tells_what_its_runs_did_and_writes_their_pages(
    run: Run, pytester: pytest.Pytester
) -> None:
    code = """
def test_bad(run_agent):
    assert run_agent([weather], call("weather", city="Oslo"), "Cold.").output == "Warm."

def test_good(run_agent):
    run_agent([weather], "Fine.")
"""
    result = run(code, "--kogagent-reports", "pages")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*kogagent run 1*", '*"event": "run_started"*', "*3 degrees in Oslo*"])
    (page,) = (pytester.path / "pages").iterdir()
    assert "test_bad" in page.name and "3 degrees in Oslo" in page.read_text()


def test_a_recording_is_made_once_and_played_after(run: Run, pytester: pytest.Pytester) -> None:
    code = """
import os

def real():
    assert os.environ.get("ALLOWED"), "the real model was asked"
    return ScriptedModel(call("weather", city="Oslo"), "Cold.")

def test_recorded(recorded_model):
    agent = Agent(recorded_model(real), [weather])
    assert agent.run_sync("Warm?").output == "Cold."
"""
    missing = run(code)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*Record it: pytest --kogagent-record*"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALLOWED", "1")
        run(code, "--kogagent-record").assert_outcomes(passed=1)
        run(code, "--kogagent-record").assert_outcomes(passed=1)
    assert [path.name for path in (pytester.path / "recordings").iterdir()] == [
        "test_inner-test_recorded.jsonl"
    ]
    run(code).assert_outcomes(passed=1)
    changed = run(code.replace("Warm?", "Cold?"))
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(["*/messages/0/text is 'Cold?', not 'Warm?'*"])


def test_an_engine_of_random_weights_calls_tools_under_its_grammar(run: Run) -> None:
    result = run(
        """
from kogagent import Limits

def test_engine(tiny_engine):
    agent = Agent(tiny_engine, [weather], tool_choice="weather", limits=Limits(max_turns=1, turn_tokens=400))
    result = agent.run_sync("Warm?")
    assert result.messages[1].calls and result.messages[1].calls[0].name == "weather"

def test_the_same_one(tiny_engine):
    assert not tiny_engine.closed
"""
    )
    result.assert_outcomes(passed=2)


def test_the_plugin_is_an_entry_point_under_its_own_name() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {
        "kogagent.testing.plugin": "kogagent.testing.plugin"
    }
