"""Everyday tools that are asked for by hints: each wording means one call that its tool takes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.errands import COINS, reckoning
from training.hints import HINTS, Hinted
from training.naming import Split, held_out, kept, plural, singular, slots_of
from training.pools import Pools
from training.records import VERBS

SPLITS: tuple[Split, ...] = ("train", "test")


def test_each_wording_gives_every_required_value_once() -> None:
    assert len({hint.names[0] for hint in HINTS}) == len(HINTS) > 40
    for hint in HINTS:
        assert len(hint.wordings) > 4
        keys, helpers = {s.key for s in hint.slots}, {s.key for s in hint.helpers}
        assert not keys & helpers
        for text, calls in hint.wordings.items():
            said = slots_of(text)
            assert len(said) == len(set(said))
            used = {key for told in calls for value in told.values() for key in slots_of(str(value))}
            beside = {key for key in said if key.startswith("other")}
            assert used == set(said) & helpers - beside and all(told != calls[0] for told in calls[1:])
            for told in calls:
                given = [*(key for key in said if key in keys), *told]
                assert len(given) == len(set(given))
                assert {s.key for s in hint.slots if s.required} <= set(given) <= keys


@pytest.mark.parametrize("split", SPLITS)
def test_a_hint_is_a_call_that_its_tool_takes(data_folder: Path, split: Split, draws: random.Random) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    for hint in HINTS:
        for _ in range(6):
            made = Hinted.drawn(draws, writer.kinds, hint)
            names = [made.tool.name, *made.keys.values()]
            assert {held_out(n) for n in names} == {split == "test"}
            task = made.task(draws, writer.kinds)
            assert {name for name, _ in task.calls} == {made.tool.name}
            arguments = [arguments for _, arguments in task.calls]
            told = [str(v) for given in arguments for v in given.values()]
            assert not any("{" in text for text in [task.request, *told])
            assert all(given != arguments[0] for given in arguments[1:])
            for given in arguments:
                jsonschema.validate(given, made.tool.schema())
            held = kept(tuple(hint.wordings)).split("{")[0].strip(" .?!").lower()
            assert split == "train" or held.replace("'", "") in task.request.lower().replace("'", "")


@pytest.mark.parametrize("split", SPLITS)
def test_hints_are_called_beside_other_tools_and_declined_without_theirs(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    for _ in range(25):
        made = writer.hinted(draws, 16)
        schemas = {t["name"]: t["parameters"] for t in made[0].tools}
        assert len(schemas) == len(made[0].tools)
        for c in made:
            calls = [call for m in c.messages for call in m.calls]
            assert bool(calls) == (c.kind in ("call", "clarify"))
            for name, arguments in calls:
                jsonschema.validate(arguments, schemas[name])


def test_what_lacks_a_value_lacks_one_that_must_be_given(data_folder: Path, draws: random.Random) -> None:
    unfinished = [hint for hint in (*HINTS, *VERBS) if hint.unfinished]
    assert len(unfinished) > 20
    writer = Writer(Pools(data_folder / "pools.json.gz"), "train")
    for hint in unfinished:
        required = {s.key for s in hint.slots if s.required}
        for text, missing in hint.unfinished.items():
            said = set(slots_of(text)) - {"noun", "plural"}
            assert said <= {s.key for s in hint.slots} and required - said == {missing}
    for hint in HINTS:
        made = Hinted.drawn(draws, writer.kinds, hint)
        found = made.unfinished(draws, writer.kinds)
        assert (found is None) == (not hint.unfinished)
        if found is not None:
            request, missing_param, value, task = found
            ((_, arguments),) = task.calls
            jsonschema.validate(arguments, made.tool.schema())
            assert arguments[missing_param.name] == value.value and "{" not in request


def test_two_dates_of_a_request_are_in_the_notation_of_the_parameter(
    data_folder: Path, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), "train")
    (hint,) = (verb for verb in VERBS if verb.groups[0] == "day")
    hint = replace(
        hint,
        words={"noun": "tour", "plural": "tours"},
        wordings={"{a}, {b}": hint.wordings["Is {a} or {b} fuller?"]},
    )
    looks = set()
    for _ in range(40):
        made = Hinted.drawn(draws, writer.kinds, hint)
        task = made.task(draws, writer.kinds)
        (one, other) = (re.sub(r"\d", "0", str(v)) for _, given in task.calls for v in given.values())
        assert one == other
        (date,) = made.tool.params
        assert one == "0000-00-00" or re.search("[DMY]{2,4}[^ ]+[DMY]{2}", date.about), date.about
        looks.add(one)
    assert len(looks) > 1


def test_a_sum_that_is_told_is_the_sum_of_the_call(draws: random.Random) -> None:
    told = 0
    while told < 10:
        drawn = reckoning(draws)
        assert re.fullmatch(r"[\d.()+*/ -]+", drawn.value)
        assert re.findall(r"[\d.]+", drawn.text) == re.findall(r"[\d.]+", drawn.value)
        told += drawn.text != drawn.value and any(w in drawn.text for w in ("plus", "times", "minus", "over"))


def test_a_currency_is_said_by_one_code_alone() -> None:
    names = [name for told in COINS.values() for name in told.split("|")]
    assert len(names) == len(set(names)) and not set(names) & set(COINS)


def test_one_of_many_is_named_as_people_do() -> None:
    for one in ("query", "dish", "box", "case", "calorie", "photo", "pass", "lens cap", "day"):
        assert singular(plural(one)) == one
    for one in ("status", "bus", "glass", "news", "thesaurus", "basis", "tool"):
        assert singular(one) == one
