"""Tools of everyday domains: their files are read, every value of a call is told, several calls differ."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.kinds import Kinds, Pools, Split, Spoken, kept
from training.natural import SKETCHES, parse
from training.several import together
from training.tooling import JOINERS, Toolsmith, arguments, plain
from training.values import DATE_FORMATS, dated, percentage, span, us_city


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_everyday_tool_is_asked_for_with_all_its_values(data_folder: Path, split: Split) -> None:
    kinds = Kinds(Pools(data_folder / "pools.json.gz"), split)
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    smith = Toolsmith(kinds)
    for sketch in rng.sample(SKETCHES, 60):
        tool = smith.everyday(rng, sketch)
        spoken = arguments(rng, tool, 0.5)
        jsonschema.validate(plain(spoken), tool.schema())
        request = tool.ask(rng, spoken)
        said = re.sub(r"\W+", " ", request.lower())
        for name, value in spoken.items():
            # first words run into others: "the last (a) month", "with a radius of 2 and (with) details"
            text = re.sub(r"\W+", " ", re.sub(r"^(an?|with|for|in|of) ", "", value.text.lower()))
            assert text.strip() in said, (seed, sketch.topic, name, value, request)


def test_goals_and_phrases_name_parameters_that_exist() -> None:
    for sketch in SKETCHES:
        keys = {slot.key for slot in sketch.slots}
        told = {m for goal in sketch.goals for m in re.findall(r"\{(\w+)\}", goal)}
        for slot in sketch.slots:
            used = {m for phrase in slot.phrases for m in re.findall(r"\{(\w+)\}", phrase)}
            assert used <= keys | {"v"}, (sketch.topic, slot.key, used)
            told |= used
            assert slot.phrases or slot.key in told, (sketch.topic, slot.key)
        assert told - {"v"} <= keys, (sketch.topic, told)
        assert sketch.misses and sketch.goals and sketch.abouts


def test_a_block_that_is_not_in_the_notation_is_named() -> None:
    with pytest.raises(ValueError, match=r"zoo\.txt: cannot read the block 'count_lions'"):
        parse("count_lions\nA Counts.", "zoo")


def test_what_is_said_in_other_words_is_the_value_of_the_call() -> None:
    rng = random.Random(seed := random.randrange(10**6))
    for _ in range(200):
        asked = percentage(rng, 1, 20, share=True)
        assert abs(float(re.sub(r"[^\d.]", "", asked.text)) / 100 - asked.value) < 1e-6, (seed, asked)
        days = span(rng, "days", 1, 40)
        if days.text == "two weeks":
            assert days.value == 14
        city = us_city(rng)
        assert city.value.split(",")[0] == city.text.split(",")[0]
    for fmt in DATE_FORMATS:
        day: Spoken = dated(fmt)(rng)
        assert re.fullmatch(re.sub(r"[YMD]", r"\\d", re.escape(fmt).replace("\\-", "-")), day.value)


def test_several_calls_of_one_request_differ(data_folder: Path) -> None:
    writer, rng = (
        Writer(Pools(data_folder / "pools.json.gz"), "train"),
        random.Random(random.randrange(10**6)),
    )
    several = 0
    for _ in range(150):
        task, _ = writer.task(rng, writer.toolset(rng))
        assert all(c not in task.calls[:i] for i, c in enumerate(task.calls)), task
        several += len(task.calls) > 1
    assert several > 20


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_request_for_several_calls_tells_what_differs_between_them(data_folder: Path, split: Split) -> None:
    smith = Toolsmith(Kinds(Pools(data_folder / "pools.json.gz"), split))
    rng = random.Random(seed := random.randrange(10**6))
    made = 0
    for _ in range(200):
        tool = smith.tool(rng)
        task = together(rng, tool, split)
        if not task:
            continue
        made += 1
        assert 2 <= len(task.calls) <= 4 and all(c not in task.calls[:i] for i, c in enumerate(task.calls)), (
            seed
        )
        said = re.sub(r"\W+", " ", task.request.lower())
        for (name, values), spoken in zip(task.calls, task.spoken, strict=True):
            assert name == tool.name
            jsonschema.validate(values, tool.schema())
            for key, value in spoken.items():
                if any(value.value != s[key].value for s in task.spoken):
                    text = re.sub(r"^an? ", "", value.text.lower())  # "the last (a) month"
                    assert re.sub(r"\W+", " ", text).strip() in said, (seed, key, value, task)
    assert made > 60


def test_the_joiner_of_the_held_out_requests_stays_held_out() -> None:
    assert kept(JOINERS) == " Besides, "
