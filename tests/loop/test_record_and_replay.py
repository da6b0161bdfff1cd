"""A recorded run plays back without its model, and notices when it is asked something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kogagent import Agent, InputError, ModelError, Usage, UserMessage, tool
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import RecordingModel, ReplayModel, ScriptedModel, ScriptedTurn, call


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def script() -> ScriptedModel:
    first = ScriptedTurn(
        "let me add", (call("add", a=1, b=2),), plan="plan é \ud800", usage=Usage(1, 2, 3, 4, 5)
    )
    return ScriptedModel(first, "three", delta=3)


@pytest.fixture
async def tape(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    await Agent(RecordingModel(script(), path), [add]).run("1 + 2?")
    return path


async def test_a_replay_comes_to_the_same_events_and_messages(tape: Path) -> None:
    async def events(agent: Agent) -> Sequence[object]:
        async with agent.stream("1 + 2?") as stream:
            return [event async for event in stream][:-1]

    def unclocked(events: Sequence[object]) -> list[str]:
        return [re.split("seconds=|timings=", repr(event))[0] for event in events]

    played = await events(Agent(ReplayModel(tape), [add]))
    assert unclocked(played) == unclocked(await events(Agent(script(), [add])))
    assert (await Agent(ReplayModel(tape), [add]).run("1 + 2?")).usage == Usage(1, 2, 3, 4, 5)


async def test_another_question_is_an_error_that_names_the_difference(tape: Path) -> None:
    with pytest.raises(ModelError, match=r"turn 1 .*/messages/0/text is '2 \+ 2\?', not '1 \+ 2\?'"):
        await Agent(ReplayModel(tape), [add]).run("2 + 2?")

    @tool(name="add")
    def other(a: int, b: int) -> int:
        """Add."""
        return a - b

    with pytest.raises(ModelError, match=r"turn 2 .*/messages/2/text is '-1', not '3'"):
        await Agent(ReplayModel(tape), [other]).run("1 + 2?")
    with pytest.raises(ModelError, match=r"/tools has 0 entries, not 1"):
        await Agent(ReplayModel(tape)).run("1 + 2?")


async def test_a_turn_too_many_is_an_error(tape: Path) -> None:
    model = ReplayModel(tape)
    await Agent(model, [add]).run("1 + 2?")
    with pytest.raises(ModelError, match="2 turns"):
        await Agent(model, [add]).run("1 + 2?")


async def test_a_recording_is_not_overwritten(tape: Path) -> None:
    with pytest.raises(InputError, match=r"exists.*ReplayModel"):
        RecordingModel(script(), tape)


async def test_a_turn_left_early_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    stream = RecordingModel(script(), path).stream(TurnRequest((UserMessage("go"),)))
    await anext(stream)
    await stream.aclose()
    assert path.read_text() == ""


async def test_a_source_is_recorded_and_closed(tmp_path: Path) -> None:
    closed: list[int] = []

    class Conversation(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(1)

    class Source:
        def as_model(self) -> Conversation:
            return Conversation("hi")

    model = RecordingModel(Source(), tmp_path / "a.jsonl")
    assert (await Agent(model).run("go")).output == "hi"
    await model.aclose()
    assert closed == [1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1, is not JSON"),
        ("[]", "neither a request nor an event"),
        ('{"event": "TextDelta", "text": "a"}', "neither a request"),
        ('{"request": {}}\n{"event": "Nothing"}', "known are ObserveDelta"),
        ('{"request": {}}\n{"event": "TextDelta", "words": "a"}', "no TextDelta"),
        ('{"request": {}}\n{"event": "CallReady", "call": {"id": "1"}}', "no CallReady"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(line: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=words):
        ReplayModel(path)
    path.unlink()
    with pytest.raises(InputError, match=r"bad\.jsonl is not there\. Record it"):
        ReplayModel(path)
