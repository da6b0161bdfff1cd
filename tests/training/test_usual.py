"""The tools that most agents are given: what is asked determines the call, and what it brings the answer."""

from __future__ import annotations

import random
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.naming import Split, slots_of
from training.pools import Pools
from training.usual import FACTS, ROLES, SHELL, Bench

SPLITS: tuple[Split, ...] = ("train", "test")


def test_no_wording_stands_for_two_commands_and_each_names_what_its_command_needs() -> None:
    meant: dict[str, str] = {}
    for line in SHELL.strip().splitlines():
        asked, command = line.split(" ~ ")
        for wording in asked.split("|"):
            assert meant.setdefault(wording.lower().rstrip("?."), command) == command, wording
            assert set(slots_of(command)) <= set(slots_of(wording)), wording


def test_an_answer_is_about_what_was_asked() -> None:
    for line in FACTS.strip().splitlines():
        asked, told = line.split(" ~ ")
        for question in asked.split("|"):
            assert set(slots_of(question)) <= set(slots_of(told)), question


@pytest.mark.parametrize("split", SPLITS)
def test_a_step_is_a_call_that_its_tool_takes_with_values_out_of_the_request(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    pools = Pools(data_folder / "pools.json.gz")
    seen: set[str] = set()
    while len(seen) < len(ROLES):
        bench = Bench(draws, pools, split)
        schemas = {t["name"]: t["parameters"] for t in bench.specs}
        assert len(schemas) == len(bench.specs)
        for _ in range(20):
            step = bench.step(draws)
            name, arguments = step.call
            jsonschema.validate(arguments, {**schemas[name], "additionalProperties": False})
            role = next(r for r, n in bench.names.items() if n == name)
            seen.add(role)
            assert step.answer and all(v in step.answer and v in step.result for v in step.values)
            if role not in ("shell", "calc"):
                assert all(str(v) in step.request for v in arguments.values()), step


@pytest.mark.parametrize("split", SPLITS)
def test_only_tools_in_sight_are_called_and_what_none_of_them_does_is_declined(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    declined = 0
    while declined < 20:
        for c in writer.usual(draws, 16):
            declared = {t["name"] for t in c.tools}
            assert len(declared) == len(c.tools)
            assert {name for m in c.messages for name, _ in m.calls} <= declared
            if c.kind == "decline":
                declined += 1
                assert not any(m.calls for m in c.messages)
