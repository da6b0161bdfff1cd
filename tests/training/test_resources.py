"""Tools over one kind of thing: each wording gives what its tool takes, and what is lacking is asked for."""

from __future__ import annotations

import random
from pathlib import Path

import jsonschema
import pytest

from training.dialogues import Writer
from training.hints import Hinted, thinned
from training.naming import Split, held_out, slots_of
from training.pools import Pools
from training.resources import CLASSES, family


def test_each_property_has_words_for_all_that_is_done_with_it() -> None:
    nouns = [noun for one in CLASSES for noun in one.nouns]
    assert len(nouns) > 80
    for one in CLASSES:
        assert len({p.key for p in one.properties}) == len(one.properties) > 6
        for p in one.properties:
            assert len(p.asked) > 2 and len(p.wished) > 2
            assert all(form.count("{x}") == 1 and "{v}" not in form for form in (*p.asked, *p.vague))
            for form in p.wished:
                assert form.count("{x}") == 1 and form.count("{v}") == (" =" not in form)
            assert all(form.count("{v}") == 1 for form in (*p.more, *p.less, *p.being))


@pytest.mark.parametrize("split", ("train", "test"))
def test_each_wording_is_a_call_that_its_tool_takes(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    for _ in range(30):
        kept, lacking = family(draws, writer.kinds, draws.randint(1, 6))
        assert kept and not {h.names for h in kept} & {h.names for h in lacking}
        for hint in (*kept, *lacking):
            required = {s.key for s in hint.slots if s.required}
            keys = {s.key for s in hint.slots}
            for text, calls in hint.wordings.items():
                said = [key for key in slots_of(text) if key in keys]
                for told in calls:
                    given = [*said, *told]
                    assert len(given) == len(set(given)) and required <= set(given) <= keys
            for text, missing in hint.unfinished.items():
                assert set(slots_of(text)) <= keys and (required or {"key"}) - set(slots_of(text)) == {
                    missing
                }
            made = Hinted.drawn(draws, writer.kinds, thinned(draws, hint))
            task = made.task(draws, writer.kinds)
            assert not any("{" in text for text in (made.tool.name, made.tool.about, task.request))
            assert held_out(made.tool.name) == (split == "test")
            for _, arguments in task.calls:
                jsonschema.validate(arguments, made.tool.schema())
