"""Tools of everyday domains: their files are read, every value of a call is told, several calls differ."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jsonschema
import pytest

from training.asking import request
from training.dialogues import Writer
from training.families import FAMILIES, WORDINGS
from training.kinds import Kinds
from training.naming import Split, kept
from training.natural import drawn
from training.phrases import JOINERS
from training.pools import Pools
from training.several import together
from training.shapes import COMPARED, between, conditions, equation, feet, geographic, hour
from training.sketches import EXTRAS, SKETCHES, likeness, parse
from training.spoken import Spoken
from training.tools import arguments, plain
from training.toolsmith import Toolsmith
from training.values import DATE_FORMATS, dated, percentage, span, us_city


def _told(text: str, value: Spoken, said: str) -> bool:
    """Whether a value stands in what is said, in its words or in digits: "$ten" is told as "$10"."""
    return any(re.sub(r"\W+", " ", t).strip() in said for t in (text, str(value.value).lower()))


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
            text = re.sub(r"^(an?|with|for|in|of|and|using) ", "", value.text.lower())
            assert _told(text, value, said), (seed, sketch.topic, name, value, request)


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
                    assert _told(text, value, said), (seed, key, value, task)
    assert made > 60


def test_the_joiner_of_the_held_out_requests_stays_held_out() -> None:
    assert kept(JOINERS) == " Besides, "


def test_a_value_may_have_words_of_its_own(data_folder: Path) -> None:
    rng = random.Random(seed := random.randrange(10**6))
    (sketch,) = parse(
        "braking, brake | c | the way\nA Braking distance.\n"
        "speed,v int 5 90 : at {v} m/s ; =0 from a standstill # Speed.\nX Which brakes from {speed} m/s?",
        "roads",
    )
    kinds = Kinds(Pools(data_folder / "pools.json.gz"), "train")
    made = drawn(rng, kinds, sketch)
    while len(made.params) > 1:  # until nothing that other tools offer stands beside
        made = drawn(rng, kinds, sketch)
    (speed,) = made.params
    assert made.miss
    values = [speed.draw(rng) for _ in range(60)]
    assert {v.value == 0 for v in values} == {True, False}, seed
    for v in values:
        assert (v.text == "from a standstill") == v.whole == (v.value == 0), (seed, v)
        asked = made.ask(rng, {speed.name: v})
        assert ("standstill" in asked) == v.whole and "{" not in asked, (seed, asked)
        assert re.fullmatch(r"Which brakes from [\w,]+ m/s\?", made.miss(rng)), seed


def test_hours_heights_positions_and_formulas_are_read_as_people_tell_them() -> None:
    rng = random.Random(seed := random.randrange(10**6))
    for _ in range(300):
        at = hour(rng)
        if told := re.match(r"(\d+) ?(am|pm)", at.text.lower()):
            assert at.value == int(told[1]) % 12 + (12 if told[2] == "pm" else 0), (seed, at)
        tall = feet(rng)
        if told := re.match(r"(\d+)\D+(\d+)", tall.text):
            assert tall.value == int(told[1]) * 12 + int(told[2]), (seed, tall)
        place = geographic(rng)
        signs = [("S" in place.text, place.value[0]), ("W" in place.text, place.value[1])]
        if re.search("[NS]", place.text):
            assert all(negative == (v < 0) for negative, v in signs if v), (seed, place)
        line = equation(rng)
        assert line.text.strip("'").endswith(line.value) and "=" not in line.value, (seed, line)


def test_ranges_and_conditions_hold_what_the_request_says(data_folder: Path) -> None:
    kinds, rng = (
        Kinds(Pools(data_folder / "pools.json.gz"), "train"),
        random.Random(seed := random.randrange(10**6)),
    )
    for _ in range(100):
        limits, rules = between(kinds, rng, 100, 9999), conditions(kinds, rng)
        low_high, rows = limits.draw(rng), rules.draw(rng)
        jsonschema.validate(low_high.value, limits.schema)
        jsonschema.validate(rows.value, rules.schema)
        said = [int(n) for n in re.findall(r"\d+", low_high.text.replace(",", ""))]
        assert list(low_high.value.values()) == said and said[0] <= said[1], (seed, low_high)
        for name, sign, what in (row.values() for row in rows.value):
            forms = [w.format(v=v) for w in COMPARED[sign] for v in (what, f"'{what}'", f'"{what}"')]
            assert any(f"{name} {form}" in rows.text for form in forms), (seed, rows)


def test_a_family_keeps_its_held_out_request_out_of_training() -> None:
    assert {f.names[0] for f in FAMILIES} == WORDINGS.keys()
    for family in FAMILIES:
        assert (
            family.held_out not in family.requests and len(set(family.requests)) == len(family.requests) > 9
        )
        for text in (*family.requests, family.held_out):
            bare = re.sub(r"\[[^\[\]]*\]", "", text)
            for slot in family.slots:
                told = f"{{{slot.name}}}" in (bare if slot.required else text)
                assert told or not slot.required, (family.names[0], slot.name, text)


def test_tools_that_resemble_each_other_share_words_and_extras_none_of_their_names() -> None:
    named = {s.names[0]: s for s in SKETCHES}
    divisor = named["greatest_common_divisor"]
    others = sorted((s for s in SKETCHES if s is not divisor), key=lambda s: likeness(s, divisor))
    assert others[-1] is named["least_common_multiple"]
    for slots in EXTRAS.values():
        assert len({s.key for s in slots}) == len(slots) and not any(s.required for s in slots)


def test_a_search_box_drops_the_goals_article_and_no_values(draws: random.Random) -> None:
    (sketch,) = parse(
        "date_add | c | the eve of {start} ; {start} plus a week ; the week of {start} ; {start} less a day\n"
        "A Moves a date.\n"
        "start date : from {v} # The date.\n",
        "maths",
    )
    said = Spoken("2020-01-12", "the 12th of January, 2020")
    slots = {slot.key: slot for slot in sketch.slots}
    texts = [request(draws, sketch, slots, {"start": said}, "train") for _ in range(2000)]
    assert all(said.text.lower() in text.lower() for text in texts)
    assert any(text.lower().startswith(("eve ", "week ")) for text in texts)
