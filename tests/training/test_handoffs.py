"""Agents that hand over: named as kogagent names them, called where they fit, and what they do then."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest

from kogagent import Agent, Handoff
from kogagent.loop.handoff import handoff_tool
from kogagent.testing import ScriptedModel
from training.dialogues import Writer
from training.handoffs import SPECIALISTS, Desk, colleagues
from training.naming import Split, held_out
from training.pools import Pools


def test_a_desk_is_the_tool_that_kogagent_makes_of_an_agent(draws: random.Random) -> None:
    said = set()
    for specialist in SPECIALISTS:
        for _ in range(4):
            desk = Desk.drawn(draws, specialist, "train")
            agent = Agent(ScriptedModel([]), name=desk.agent, description=desk.said)
            tool, spec = handoff_tool(Handoff(agent)), desk.spec(draws, "train")
            assert (tool.spec.name, tool.spec.description) == (spec["name"], spec["description"])
            assert tool.spec.parameters == spec["parameters"]
            said.add(bool(desk.said))
    assert len(said) == 2


@pytest.mark.parametrize("split", ["train", "test"])
def test_colleagues_serve_different_requests(split: Split, draws: random.Random) -> None:
    for _ in range(40):
        desks = colleagues(draws, split)
        assert 2 <= len(desks) == len({d.specialist.about for d in desks})
        assert {held_out(d.tool_name) for d in desks} == {split == "test"}
        groups = [d.specialist.group for d in desks]
        assert set(groups) == {"service"} or len(set(groups)) == len(groups)


@pytest.mark.parametrize("split", ["train", "test"])
def test_hand_overs_are_called_and_taken_up(data_folder: Path, split: Split, draws: random.Random) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    handed = behind = alone = 0
    for _ in range(60):
        made = writer.handovers(draws, 16)
        assert all(c.tools == made[0].tools for c in made)
        for c in made:
            schemas = {t["name"]: t["parameters"] for t in c.tools}
            for m in c.messages:
                for name, arguments in m.calls if m.trained else ():
                    jsonschema.validate(arguments, schemas[name])
                    handed += "transfer" in name
                if not m.trained:  # said by the agent before, whose tools are not these
                    assert m.calls[0][0] not in schemas
                    behind += 1
                if "[Handed over: " in m.text:
                    alone += 1
                    assert json.loads(m.text.split("[Handed over: ")[1][:-1])["reason"]
    assert handed and behind and alone
