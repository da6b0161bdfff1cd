"""Tools that keep records: each verb's words mean its call, whatever the noun."""

from __future__ import annotations

import random
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.hints import Hinted
from training.naming import Split, held_out, slots_of
from training.pools import Pools
from training.records import ACTS, UNSEEN, VERBS, family

SPLITS: tuple[Split, ...] = ("train", "test")


def test_each_verb_has_words_that_give_every_value_once() -> None:
    assert {verb.groups[0] for verb in VERBS} > ACTS
    for verb in VERBS:
        keys, helpers = {s.key for s in verb.slots}, {s.key for s in verb.helpers}
        for text, calls in verb.wordings.items():
            said = [key for key in slots_of(text) if key not in ("noun", "plural")]
            assert len(said) == len(set(said))
            used = {key for told in calls for value in told.values() for key in slots_of(str(value))}
            assert used == set(said) & helpers
            for told in calls:
                given = [*(key for key in said if key in keys), *told]
                assert sorted(given) == sorted(keys), text


@pytest.mark.parametrize("split", SPLITS)
def test_a_family_is_of_one_noun_and_its_calls_fit(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    for _ in range(20):
        count = draws.randint(1, 6)
        kept, lacking = family(draws, writer.kinds, count)
        verbs = {v.groups[0] for v in VERBS}
        assert (
            len(kept) == count
            and {v.groups[0] for v in lacking} == (verbs - {v.groups[0] for v in kept}) & ACTS
        )
        (noun,) = {verb.words["noun"] for verb in (*kept, *lacking)}
        assert noun not in UNSEEN and held_out(noun) == (split == "test")
        for verb in (*kept, *lacking):
            made = Hinted.drawn(draws, writer.kinds, verb)
            task = made.task(draws, writer.kinds)
            said = [made.tool.name, made.tool.about, task.request, *(p.about for p in made.tool.params)]
            assert not any("{" in text for text in said)
            for _, arguments in task.calls:
                jsonschema.validate(arguments, made.tool.schema())
