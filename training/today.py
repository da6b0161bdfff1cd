"""Days as people tell them to somebody who knows the date: tomorrow, on Friday, in three days, May 3rd."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass

from training.spoken import MONTHS, Spoken, ordinal
from training.values import DATE_FORMATS

SENTENCES = (
    "Today is {iso}.",
    "Today is {weekday}, {iso}.",
    "Today is {weekday}, {long}.",
    "The date is {long}.",
    "Current date: {iso} ({weekday}).",
    "Date: {iso}",
    "It is {weekday}, {long}.",
    "Today's date is {iso}.",
    "Now: {weekday} {iso}, {hour:02}:{minute:02}.",
)
COUNTS = ("two", "three", "four", "five", "six")


@dataclass(frozen=True)
class Today:
    """The day that a system message tells, with its weekday or without."""

    day: datetime.date
    sentence: str
    weekday_told: bool

    @classmethod
    def drawn(cls, rng: random.Random) -> Today:
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=rng.randrange(1460))
        sentence = rng.choice(SENTENCES)
        long = rng.choice(
            [
                f"{MONTHS[day.month - 1]} {day.day}, {day.year}",
                f"{day.day} {MONTHS[day.month - 1]} {day.year}",
            ]
        )
        told = sentence.format(
            iso=day.isoformat(),
            weekday=day.strftime("%A"),
            long=long,
            hour=rng.randrange(24),
            minute=rng.randrange(60),
        )
        return cls(day, told, "{weekday}" in sentence)

    def told(self, rng: random.Random, about: str) -> tuple[Spoken, bool]:
        """A day in the notation that a parameter's description names, and whether "on" stands before it."""
        words, days, on = self._near(rng)
        notation = next((n for n in DATE_FORMATS if n in about), "YYYY-MM-DD")
        day = self.day + datetime.timedelta(days=days)
        return Spoken(day.strftime(DATE_FORMATS[notation]), words), on

    def _near(self, rng: random.Random) -> tuple[str, int, bool]:
        """Words, how many days from today they mean, and whether they go with "on"."""
        roll, count = rng.random(), rng.randrange(len(COUNTS))
        if roll < 0.25:
            return "tomorrow", 1, False
        if roll < 0.4:
            return "today", 0, False
        if roll < 0.47:
            return "the day after tomorrow", 2, False
        if roll < 0.55:
            return f"in {COUNTS[count]} days", count + 2, False
        if roll < 0.6:
            return rng.choice(["in a week", "a week from today", "today in a week"]), 7, False
        if roll < 0.8 and self.weekday_told:
            days = rng.randint(1, 6)
            weekday = (self.day + datetime.timedelta(days=days)).strftime("%A")
            return rng.choice([weekday, weekday, f"this {weekday}"]), days, True
        days = rng.randint(1, 300)
        day = self.day + datetime.timedelta(days=days)
        month = MONTHS[day.month - 1]
        forms = ("{m} {o}", "{d} {m}", "the {o} of {m}", "{m} {d}")
        return rng.choice(forms).format(m=month, o=ordinal(day.day), d=day.day), days, True
