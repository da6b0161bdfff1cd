"""Tools of the desk beside others, and small talk: who is called, and who is not."""

from __future__ import annotations

import random
from pathlib import Path

import jsonschema
import pytest

from training.beside import ASKS, Shelf
from training.desk.world import run_call
from training.dialogues import Writer
from training.greetings import FIRST, LAST, OPENINGS, exchange
from training.naming import Split, kept
from training.pools import Pools
from training.turns import Conversation

SPLITS: tuple[Split, ...] = ("train", "test")


def _writer(folder: Path, split: Split) -> Writer:
    return Writer(Pools(folder / "pools.json.gz"), split)


def _right(c: Conversation) -> int:
    """How many calls of it are trained; all of them fit their tools."""
    schemas = {t["name"]: t["parameters"] for t in c.tools}
    calls = [call for m in c.messages if m.trained for call in m.calls]
    for name, arguments in calls:
        jsonschema.validate(arguments, schemas[name])
    return len(calls)


@pytest.mark.parametrize("split", SPLITS)
def test_desk_tools_stand_beside_others_that_are_called(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = _writer(data_folder, split)
    for _ in range(25):
        made = writer.beside(draws, 16)
        assert all(c.tools == made[0].tools for c in made)
        assert all(_right(c) for c in made if c.kind in ("call", "run"))
        assert not any(_right(c) for c in made if c.kind in ("decline", "chat"))
        assert len(writer.beside(draws, 3)) == 3


@pytest.mark.parametrize("split", SPLITS)
def test_plain_requests_for_files_and_tables_are_answered_by_their_world(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer, roles = _writer(data_folder, split), set()
    for _ in range(60):
        shelf = Shelf.drawn(draws, writer.kinds)
        asked, call = shelf.plain_request(draws)
        roles.add(shelf.world.role(call))
        assert asked and not run_call(shelf.world, call).startswith("SQL error")
        assert all(str(v) in asked for v in call[1].values() if shelf.world.role(call) in ("read", "search"))
        schema = next(t["parameters"] for t in shelf.specs if t["name"] == call[0])
        jsonschema.validate(call[1], schema)
    assert {"list", "read", "search", "query"} <= roles


@pytest.mark.parametrize("split", SPLITS)
def test_small_talk_is_answered_without_a_call(data_folder: Path, split: Split, draws: random.Random) -> None:
    writer = _writer(data_folder, split)
    bare = 0
    for _ in range(30):
        for c in writer.courtesies(draws, 16):
            first = next(m for m in c.messages if m.role != "system")
            assert first.role == "user" and c.messages[-1].role == "assistant" and not c.messages[-1].calls
            assert _right(c) == 0 or c.tools
            bare += not c.tools
    assert bare


def test_what_can_you_do_is_answered_with_what_the_tools_are_for(draws: random.Random) -> None:
    _, answer = exchange(draws, "train", ["setAlarm", "read_file"], ["able"])
    assert "set alarm" in answer and "read file" in answer
    _, answer = exchange(draws, "train", [], ["able"])
    assert "tool" in answer


def test_openings_kept_for_the_test_split_are_said_there_alone(draws: random.Random) -> None:
    assert {*FIRST, *LAST} == set(OPENINGS)
    for kind, options in OPENINGS.items():
        held = kept(options).lower().rstrip("?!")
        assert exchange(draws, "test", [], [kind])[0].lower().startswith(held)
        assert all(
            exchange(draws, "train", [], [kind])[0].lower().rstrip("?!.: )") != held for _ in range(20)
        )
    assert all(len(asks.split("|")) > 3 for asks in ASKS.values())
