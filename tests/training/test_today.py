"""Days told by who knows the date, in the notation of the parameter."""

from __future__ import annotations

import datetime
import random
import re
from dataclasses import replace
from pathlib import Path

from training.dialogues import Writer
from training.hints import HINTS, Hinted
from training.pools import Pools
from training.today import Today
from training.values import DATE_FORMATS


def test_a_day_is_told_by_the_date_that_the_sentence_holds(draws: random.Random) -> None:
    seen = set()
    for _ in range(600):
        today = Today.drawn(draws)
        notation = draws.choice(list(DATE_FORMATS))
        spoken, on = today.told(draws, f"When. (Format: {notation})")
        day = datetime.datetime.strptime(spoken.value, DATE_FORMATS[notation]).date()
        apart = (day - today.day).days
        assert 0 <= apart <= 300
        words = spoken.text
        fixed = {"today": 0, "tomorrow": 1, "the day after tomorrow": 2}
        if words in fixed:
            assert apart == fixed[words] and not on
        elif "week" in words:
            assert apart == 7 and not on
        elif re.search(r"\d", words):
            assert str(day.day) in words and day.strftime("%B") in words and on
        elif weekday := re.search(r"\w+day$", words):
            assert today.weekday_told and day.strftime("%A") == weekday[0] and 0 < apart < 7 and on
        else:
            assert words.endswith(" days") and 2 <= apart <= 6 and not on
        seen.add(words.split()[0])
    assert {"today", "tomorrow", "in", "this"} <= seen


def test_a_request_tells_its_day_by_the_date_or_asks_back_without_it(
    data_folder: Path, draws: random.Random
) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), "train")
    today = Today(datetime.date(2026, 12, 1), "Today is 2026-12-01.", weekday_told=False)
    hint = next(h for h in HINTS if any(s.kind == "date" and s.required for s in h.slots))
    day = next(s.key for s in hint.slots if s.kind == "date")
    hint = replace(
        hint, wordings={f"On {{{day}}} it is": ({},)}, slots=tuple(s for s in hint.slots if s.key == day)
    )
    told = 0
    while told < 5:
        made = Hinted.drawn(draws, writer.kinds, hint)
        task = made.task(draws, writer.kinds, alone=False, today=today)
        ((_, given),) = task.calls
        if task.request == "tomorrow it is":
            told += 1
            (value,) = given.values()
            assert re.findall(r"\d+", value) in (
                ["2026", "12", "02"],
                ["12", "02", "2026"],
                ["02", "12", "2026"],
            )
        assert "on tomorrow" not in task.request.lower()
    made = Hinted.drawn(draws, writer.kinds, hint)
    found = made.undated(draws, writer.kinds)
    assert found is not None
    request, param, value, asked = found
    assert request.split(" it")[0].lower() in ("today", "tomorrow", "yesterday", "the day after tomorrow")
    assert asked.calls[0][1] == {param.name: value.value}


def test_where_the_date_is_told_each_conversation_has_it(data_folder: Path, draws: random.Random) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), "train")
    dated = 0
    while dated < 3:
        made = writer.hinted(draws, 8)
        heads = {c.messages[0].text for c in made if c.messages[0].role == "system"}
        if any(re.search(r"(Today|[Dd]ate|Now|It is)\b.*\d{4}", head) for head in heads):
            dated += 1
            assert all(
                re.search(r"\d{4}", c.messages[0].text) and c.messages[0].role == "system" for c in made
            )
