"""Requests of every day that no tool at hand serves, and the tools that do serve them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.naming import Split, kept, slots_of, words
from training.pools import Pools
from training.tasks import single
from training.unserved import SERVED, SUBJECTS, Unserved

SPLITS: tuple[Split, ...] = ("train", "test")


def test_a_tool_for_a_subject_keeps_its_requests_from_being_declined() -> None:
    for s in SERVED:
        for name in s.names:
            for about in s.abouts:
                told = re.findall("[a-z]+", f"{words(name)} {about}".lower())
                assert any(w.startswith(s.near) for w in told), (name, about)


@pytest.mark.parametrize("split", SPLITS)
def test_a_request_no_tool_serves_is_filled_and_answered_in_words(
    data_folder: Path, draws: random.Random, split: Split
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    for _ in range(300):
        tools = [t.spec() for t in writer.toolset(draws)]
        request, answer = writer.unserved.turn(draws, tools)
        assert request and answer
        assert not slots_of(request) and not slots_of(answer)


@pytest.mark.parametrize("split", SPLITS)
def test_the_tool_that_serves_a_request_is_called_with_the_values_said(
    data_folder: Path, draws: random.Random, split: Split
) -> None:
    unserved = Unserved(Pools(data_folder / "pools.json.gz"), split)
    for _ in range(300):
        tool = unserved.tool(draws)
        task = single(draws, tool)
        ((name, arguments),) = task.calls
        assert name == tool.name
        jsonschema.validate(arguments, tool.schema())
        for value in arguments.values():
            assert str(value).lower() in task.request.lower()


def test_a_request_declined_without_the_tool_is_one_that_the_tool_serves() -> None:
    for s in SERVED:
        assert set(s.served) <= set(s.requests)
        assert len(s.served) > 3
        assert set(s.served) - {kept(s.served)} - {kept(s.requests)}


def test_there_are_many_subjects_and_no_request_stands_in_two() -> None:
    requests = [r for s in SUBJECTS for r in s.requests]
    assert len(SUBJECTS) > 25
    assert len(requests) > 250
    assert len(set(requests)) == len(requests)
