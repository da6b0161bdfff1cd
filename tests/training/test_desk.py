"""Agent-loop tasks: what is asked is what files and tables say, slips are mended, no call is made twice."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from pathlib import Path

import pytest

from training.desk.combined import cell_and_fact, share, two_cells, two_facts, two_prices, two_rows
from training.desk.facts import KINDS, NAMED, SAYINGS, draw_fact
from training.desk.tables import GOODS, NUMBERS, database, draw_question, draw_tables
from training.desk.tasks import Desk
from training.desk.world import MEASURES, make_world, run_call
from training.dialogues import Writer
from training.kinds import Kinds
from training.naming import Split, slots_of
from training.pools import Pools
from training.toolsmith import Toolsmith

SPLITS: tuple[Split, ...] = ("train", "test")


def _smith(folder: Path, split: Split = "train") -> Toolsmith:
    return Toolsmith(Kinds(Pools(folder / "pools.json.gz"), split))


def test_sayings_use_the_words_they_declare_and_no_others() -> None:
    assert len(SAYINGS) > 30 and NAMED
    for kind in SAYINGS:
        said = {name for name, _ in kind.slots}
        forms = {f"{n}{i}" for n, options in kind.slots for i in range(2, options[0].count("/") + 2)}
        assert all(o.count("/") == options[0].count("/") for _, options in kind.slots for o in options)
        for text in (*kind.sentences, *kind.questions, kind.answer):
            assert set(slots_of(text)) <= {*"onuev"} | said | forms, (kind.answer, text)
        assert len(kind.questions) >= 4 and len(kind.sentences) >= 4, kind.answer
        assert len({bool("{e}" in s) for s in kind.sentences}) == 1, kind.answer
        if not kind.named:  # of the one place that nobody names, too
            assert all(re.search(r"(?i)(of|at|from) \{e\}", q) for q in kind.questions), kind.answer


@pytest.mark.parametrize("split", SPLITS)
def test_a_fact_stands_in_its_sentence_and_its_answer(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    kinds = _smith(data_folder, split).kinds
    for kind in (*KINDS, *NAMED):
        fact = draw_fact(draws, kinds, "the Lomi mill", "lomi.txt", kind)
        assert fact.text.lower() in fact.sentence.lower() and fact.text in fact.answer(fact.value), fact
        texts = [fact.sentence, fact.question, fact.answer(fact.value), fact.in_unit.replace("{u}", "feet")]
        assert not any("{" in t for t in texts), fact
        assert ("{u}" in fact.in_unit) == bool(fact.in_unit)
        assert ("the lomi mill" in fact.sentence.lower()) == kind.named, fact


def test_every_question_to_a_database_is_answered_by_its_sql(data_folder: Path, draws: random.Random) -> None:
    kinds = _smith(data_folder).kinds
    forms: set[str] = set()
    while len(forms) < 16:
        tables = draw_tables(draws, kinds)
        asked = draw_question(draws, kinds, tables)
        with database(tables) as db:
            try:
                db.execute(asked.sql).fetchall()
            except sqlite3.Error as error:
                pytest.fail(f"{asked}: {error}")
        db.close()
        assert "{" not in asked.text and asked.answer.count("{v}") == 1, asked
        forms.add(re.sub(r"'[^']*'|\d[\d.]*|\w+ (?=FROM)|(?<=FROM )\w+", "_", asked.sql))
    assert set(GOODS) <= set(NUMBERS) and set(MEASURES) <= set(NUMBERS)


def test_several_results_are_put_together_as_the_question_says(
    data_folder: Path, draws: random.Random
) -> None:
    kinds = _smith(data_folder).kinds
    made = dict.fromkeys((two_facts, two_cells, two_rows, share, cell_and_fact, two_prices), 0)
    roles = ["list", "read", "search", "query", "compute", "convert"]
    while min(made.values()) < 4:
        world = make_world(draws, kinds)
        for maker in made:
            chain = maker(draws, world, roles)
            if not chain:
                continue
            made[maker] += 1
            results = [run_call(world, call) for call in chain.calls]
            assert not any("error" in r or "No file" in r for r in results), (chain, results)
            answer = chain.answer(results)
            assert all(value in answer for value in chain.quoted(results)), (answer, chain)
            if maker is share:
                part, whole = map(int, re.match(r"(\d+) of (\d+)", answer).groups())  # type: ignore[union-attr]
                assert f"{part * 100 / whole:.2f}".rstrip("0").rstrip(".")[:4] in answer


def test_a_file_is_read_only_where_its_name_is_known_and_tells_what_it_says(
    data_folder: Path, draws: random.Random
) -> None:
    smith = _smith(data_folder)
    read = 0
    while read < 60:
        desk = Desk.drawn(draws, smith)
        about = " ".join(t["description"] + json.dumps(t["parameters"]) for t in desk.tools)
        seen: list[str] = [about]
        for m in desk.conversation(draws).messages:
            for call in m.calls if m.trained else ():
                if desk.world.role(call) == "read":
                    (file,) = call[1].values()
                    assert any(file in text for text in seen), (file, m)
                    assert file not in desk.world.blind, file
                    read += 1
            seen += [m.text] if m.role == "tool" else []


@pytest.mark.parametrize("split", SPLITS)
def test_a_call_is_made_once_and_a_slip_is_mended(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), split)
    slips = untold = 0
    while slips < 20 or not untold:  # untold: a later request that what was read before answers
        c = writer.desk(draws)
        right = [json.dumps(call) for m in c.messages if m.trained for call in m.calls]
        assert len(set(right)) == len(right), c.messages
        for i, m in enumerate(c.messages):
            if not m.trained:
                slips += 1
                assert (
                    json.dumps(m.calls[0])
                    not in right[: sum(len(o.calls) for o in c.messages[:i] if o.trained)]
                )
                later = next(o for o in c.messages[i + 1 :] if o.role == "assistant" and o.trained)
                assert later.calls and later.calls != m.calls
            untold += m.role == "user" and not c.messages[i + 1].calls


def test_what_a_conversation_read_is_not_remembered_by_the_next(
    data_folder: Path, draws: random.Random
) -> None:
    smith = _smith(data_folder)
    for _ in range(40):
        desk = Desk.drawn(draws, smith)
        for _ in range(3):
            first = next(m for m in desk.conversation(draws).messages if m.role == "assistant")
            assert first.calls
