"""What made-up tools bring, and the sentences that pass it on."""

from __future__ import annotations

import json
import random
from pathlib import Path

from training.pools import Pools
from training.replies import result
from training.spoken import Param, verbatim
from training.tools import Tool

TOWN = Param("city", {"type": "string"}, verbatim(lambda r: "Oslo"), ("in {v}",), True, "")
UNIT = Param("unit", {"type": "string"}, verbatim(lambda r: "celsius"), ("in {v}",), True, "")
TOOL = Tool("get_weather", "The weather.", (TOWN, UNIT), lambda r, spoken: "", "weather")
CALL = ("get_weather", {"city": "Oslo", "unit": "celsius"})


def _fields(text: str) -> dict[str, object]:
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def test_an_answer_holds_what_it_quotes_and_a_question_about_it_is_answered_from_the_result(
    data_folder: Path, draws: random.Random
) -> None:
    pools = Pools(data_folder / "pools.json.gz")
    asked = 0
    for _ in range(400):
        found = result(draws, pools, TOOL, [CALL], 0)
        assert all(value in found.said for value in found.values), found
        for about in found.asked:
            assert about.question[-1] in "?." and all(v in about.answer for v in about.values), about
        asked += len(found.asked)
    assert asked > 200


def test_what_repeats_an_argument_is_left_out_and_what_only_shares_its_name_is_told(
    data_folder: Path, draws: random.Random
) -> None:
    pools = Pools(data_folder / "pools.json.gz")
    repeated = shared = 0
    while not (repeated > 20 and shared > 20):
        found = result(draws, pools, TOOL, [CALL], 0)
        town = _fields(found.text).get("city")
        if town == "Oslo":
            repeated += 1
            assert "city Oslo" not in found.said and "city for Oslo" not in found.said
        elif town is not None and not isinstance(town, bool):
            shared += 1
            assert f"city {town}" in found.said or f"city for Oslo is {town}" in found.said, found


def test_several_calls_are_told_apart(data_folder: Path, draws: random.Random) -> None:
    pools = Pools(data_folder / "pools.json.gz")
    calls = [CALL, ("get_weather", {"city": "Lima", "unit": "celsius"})]
    for _ in range(100):
        assert "oslo" in result(draws, pools, TOOL, calls, 0).said.lower()
        assert "lima" in result(draws, pools, TOOL, calls, 1).said.lower()
