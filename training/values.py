# ruff: noqa: E501 -- closed lists are data: one a line reads better than wrapped ones
"""Values of the everyday tools: places, money, percentages, dates in several notations, spans of time, closed lists.

Knows no tools. A sampler draws what the call holds and how a person says it.
"""

from __future__ import annotations

import datetime
import random
import re
from pathlib import Path
from typing import Any

from training.kinds import Kinds
from training.naming import capital
from training.shapes import (
    DAY_HOURS,
    EXAMPLES,
    Sort,
    between,
    conditions,
    equation,
    feet,
    geographic,
    hour,
    scores,
    told_options,
)
from training.spoken import Draw, Spoken, clock, date, integer, listed, number, number_list, verbatim

FOLDER = Path(__file__).parent / "domains"
LISTS = {
    name.strip(): [v.strip() for v in values.split(",")]
    for name, values in (
        line.split(":", 1) for line in (FOLDER / "lists.txt").read_text().splitlines() if line
    )
}
CITIES = [entry.split("/") for entry in LISTS.pop("us_cities")]  # city, state, its two letters
SPANS = {
    "days": {"a week": 7, "two weeks": 14, "a fortnight": 14, "three weeks": 21, "a month": 30, "a year": 365, "a day": 1, "a weekend": 2},
    "hours": {"a day": 24, "two days": 48, "an hour": 1, "half a day": 12, "three days": 72, "a week": 168},
    "minutes": {"an hour": 60, "half an hour": 30, "two hours": 120, "an hour and a half": 90, "a quarter of an hour": 15, "45 minutes": 45},
    "months": {"a year": 12, "two years": 24, "half a year": 6, "a quarter": 3, "three years": 36, "a month": 1},
    "years": {"a decade": 10, "a year": 1, "two decades": 20, "half a century": 50, "a century": 100},
    "seconds": {"a minute": 60, "two minutes": 120, "half a minute": 30, "an hour": 3600},
}  # fmt: skip
DATE_FORMATS = {
    "YYYY-MM-DD": "%Y-%m-%d",
    "MM/DD/YYYY": "%m/%d/%Y",
    "MM-DD-YYYY": "%m-%d-%Y",
    "DD/MM/YYYY": "%d/%m/%Y",
    "DD.MM.YYYY": "%d.%m.%Y",
    "DD-MM-YYYY": "%d-%m-%Y",
}


def money(rng: random.Random, low: int, high: int) -> Spoken:
    value = integer(rng, low, high).value
    forms = [
        f"${value}",
        f"${value:,}",
        f"{value} dollars",
        f"{value:,} dollars",
        f"${value}",
        f"{value} USD",
    ]
    if value >= 1_000_000 and value % 100_000 == 0:
        forms.append(f"${value / 1_000_000:g} million")
    elif value >= 1000 and value % 1000 == 0:
        forms.append(f"${value // 1000}k")
    return Spoken(value, rng.choice(forms))


def percentage(rng: random.Random, low: float, high: float, share: bool) -> Spoken:
    """share: the call holds 0.05 where 5 % is said."""
    value = number(rng, low, high).value if rng.random() < 0.5 else rng.randint(int(low), int(high))
    value = round(value, 2)
    text = rng.choice([f"{value}%", f"{value}%", f"{value}%", f"{value} percent", f"{value} %"])
    return Spoken(round(value / 100, 6) if share else value, text)


def span(rng: random.Random, unit: str, low: int, high: int) -> Spoken:
    """A time, sometimes told in another unit: 'two weeks' for 14 days."""
    known = {k: v for k, v in SPANS.get(unit, {}).items() if low <= v <= high}
    if known and rng.random() < 0.35:
        text = rng.choice(list(known))
        return Spoken(known[text], text)
    drawn = integer(rng, low, high)
    return Spoken(drawn.value, f"{drawn.text} {unit if drawn.value != 1 else unit[:-1]}")


def dated(fmt: str) -> Draw:
    def draw(r: random.Random) -> Spoken:
        drawn = date(r)
        day = datetime.date.fromisoformat(drawn.value)
        value = day.strftime(DATE_FORMATS[fmt])
        return Spoken(value, value if r.random() < 0.25 else drawn.text)

    return draw


def us_city(rng: random.Random) -> Spoken:
    """'Chicago, IL', however it is said."""
    city, state, letters = rng.choice(CITIES)
    return Spoken(
        f"{city}, {letters}",
        rng.choice([f"{city}, {letters}", f"{city}, {letters}", city, f"{city}, {state}"]),
    )


CITY_STATE = (
    "The city and state, e.g. San Francisco, CA.", "In the form 'City, ST'.", "It should be in the format of City, State.", "Given as city and state abbreviation, such as Austin, TX.",
    "Format: City, State.", "(city and state, for example Denver, CO)",
)  # fmt: skip


def option(said: str) -> str:
    """An option as people write it in a sentence: SIX_MONTHS -> six months."""
    # a code, a name of its own spelling (Wi-Fi) or a letter stays as it is
    if len(said) == 1 or re.search(r"[A-Z]{2}|\d|[a-z-][A-Z]", said):
        return said
    return re.sub(r"[_\-]+", " ", said).lower()


def sort(kinds: Kinds, rng: random.Random, kind: str, args: str, about: str) -> Sort:
    """The sort of a kind in the notation of training/domains. ValueError names a kind that is none."""
    pools = kinds.pools
    text: dict[str, Any] = {"type": "string"}
    options = [a.strip() for a in args.split("|")]
    numbers = [float(a) for a in args.split()] if re.fullmatch(r"[-\d. ]+", args) else []
    whole = [int(n) for n in numbers]
    match kind:
        case "int":
            return Sort({"type": "integer"}, lambda r: integer(r, whole[0], whole[1]))
        case "num":
            return Sort({"type": "number"}, lambda r: _number(r, numbers[0], numbers[1]))
        case "usd":
            return Sort({"type": rng.choice(["integer", "number"])}, lambda r: money(r, whole[0], whole[1]))
        case "pct":
            share = "percent" not in about and "%" not in about
            return Sort({"type": "number"}, lambda r: percentage(r, numbers[0], numbers[1], share))
        case "span":
            unit, low, high = args.split()
            return Sort({"type": "integer"}, lambda r: span(r, unit, int(low), int(high)))
        case "year":
            written = str if rng.random() < 0.08 else int  # some take it as text
            return Sort(
                {"type": "string" if written is str else "integer"},
                lambda r: (lambda y: Spoken(written(y), str(y)))(r.randint(whole[0], whole[1])),
            )
        case "date":
            fmt = rng.choice(list(DATE_FORMATS)) if rng.random() < 0.4 else "YYYY-MM-DD"
            note = rng.choice([f"Format: {fmt}.", f"In the format {fmt}.", f"As {fmt}.", f"({fmt})"])
            if fmt == "YYYY-MM-DD" and rng.random() < 0.5:
                return Sort({"type": "string", "format": "date"}, dated(fmt), rng.choice(["", note]))
            return Sort(text, dated(fmt), note)
        case "time":
            return Sort(text, clock, "As HH:MM, 24 hours.")
        case "hour":
            return Sort({"type": "integer"}, hour, rng.choice(DAY_HOURS))
        case "minute":  # beside an hour: 6:05
            return Sort(
                {"type": "integer"},
                lambda r: (lambda m: Spoken(m, f"{m:02}"))(
                    r.choice([0, 5, 10, 15, 20, 30, 45, r.randrange(60)])
                ),
            )
        case "feet":
            return Sort({"type": "integer"}, feet)
        case "geo":
            return Sort({"type": "array", "items": {"type": "number"}}, geographic)
        case "range":
            return between(kinds, rng, whole[0], whole[1])
        case "conditions":
            return conditions(kinds, rng)
        case "scores":
            return scores(kinds, rng, options, about)
        case "enum":
            shown = list(options)
            if rng.random() < 0.3:
                shown = [o.replace(" ", "_") for o in shown]
            style = rng.random()
            shown = (
                [o.upper() for o in shown]
                if style < 0.08 and not any("/" in o for o in shown)
                else [capital(o) for o in shown]
                if style < 0.2
                else shown
            )
            said = 0.6 if len({o.lower() for o in shown}) == len(shown) else 0.0  # not where Aa is not aa
            draw = lambda r: (lambda o: Spoken(o, option(o) if r.random() < said else o))(r.choice(shown))  # noqa: E731
            roll = rng.random()
            if roll < 0.26:  # told by the description alone
                return Sort(text, draw, told_options(rng, shown))
            if roll < 0.5:  # not told but for an example: what the request says is the value
                note = rng.choice(EXAMPLES).format(e=rng.choice(options)) if roll < 0.36 else ""
                return Sort(text, verbatim(lambda r: r.choice(options)), note)
            return Sort({"type": "string", "enum": shown}, draw)
        case "map":
            pairs = [o.split("=") for o in options]
            digits = all(re.fullmatch(r"-?\d+", v) for v, _ in pairs)
            draw = lambda r: (lambda p: Spoken(int(p[0]) if digits else p[0], p[1]))(r.choice(pairs))  # noqa: E731
            if digits:
                return Sort({"type": "integer"}, draw)
            note = ", ".join(f"'{v}' for {said}" for v, said in pairs)
            return Sort(
                {**text, "enum": list(dict.fromkeys(v for v, _ in pairs))} if rng.random() < 0.5 else text,
                draw,
                f"{note}.",
            )
        case "alias":  # 'water (H2O)' is H2O
            known = [o.split("=") for o in options]
            return Sort(text, lambda r: (lambda p: Spoken(p[0], p[1]))(r.choice(known)))
        case "some":  # several of a closed list
            shown = [capital(o) for o in options] if rng.random() < 0.4 else options
            one = lambda r: (lambda o: Spoken(o, option(o)))(r.choice(shown))  # noqa: E731
            return Sort(
                {"type": "array", "items": {"type": "string", "enum": shown}}, lambda r: listed(r, one, 1, 3)
            )
        case "list":
            of, _, rest = args.partition(" ")
            inner = sort(kinds, rng, of, rest, about)
            return Sort({"type": "array", "items": inner.schema}, lambda r: listed(r, inner.draw, 2, 4))
        case "ints" | "nums":
            item = "integer" if kind == "ints" else "number"
            return Sort({"type": "array", "items": {"type": item}}, lambda r: number_list(r, kind == "ints"))
        case "point":
            return Sort({"type": "array", "items": {"type": "number"}}, _point)
        case "bool":
            return Sort({"type": "boolean"}, lambda r: Spoken(True, ""))
        case "of":
            values = LISTS[args]
            return Sort(text, verbatim(lambda r: r.choice(values)))
        case "citystate":
            return Sort(
                text,
                us_city,
                rng.choice(CITY_STATE),
            )
        case "state":
            return Sort(text, verbatim(lambda r: r.choice(CITIES)[1]))
        case "uscity":
            return Sort(text, verbatim(lambda r: r.choice(CITIES)[0]))
        case "place":
            return Sort(text, verbatim(lambda r: _place(kinds, r)))
        case "formula":
            return Sort(text, equation)
        case "id":
            return Sort(text, verbatim(pools.identifier))
        case "path":
            return Sort(text, verbatim(pools.path))
        case "email":
            return Sort(text, kinds.email)
        case "noun":
            return Sort(text, verbatim(pools.noun))
        case "topic":
            return Sort(text, verbatim(pools.topic))
        case "title":
            return Sort(
                text, verbatim(lambda r: " ".join(pools.noun(r) for _ in range(r.randint(1, 3))).title())
            )
        case "dna":
            return Sort(text, verbatim(lambda r: "".join(r.choice("ACGT") for _ in range(r.randint(6, 14)))))
        case "hex":
            return Sort(text, verbatim(lambda r: f"#{r.randrange(1 << 24):06X}"))
        case "ticker":
            return Sort(
                text,
                verbatim(
                    lambda r: "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 4)))
                ),
            )
        case "pool":
            return Sort(text, lambda r: kinds.text_sample(r, args))
    raise ValueError(f"unknown kind {kind!r}: see the cases of training.values.sort")


def _number(rng: random.Random, low: float, high: float) -> Spoken:
    if high <= 1:
        value = round(rng.uniform(low, high), rng.choice([1, 2, 2, 3]))
        return Spoken(value, str(value))
    if high - low > 20 and rng.random() < 0.55:
        return integer(rng, int(low), int(high))
    return number(rng, low, high)


def _point(rng: random.Random) -> Spoken:
    fine = rng.random() < 0.3
    values = [round(rng.uniform(-90, 90), 4) if fine else rng.randint(-20, 20) for _ in range(2)]
    inner = rng.choice([", ", ", ", ","]).join(map(str, values))
    return Spoken(values, rng.choice([f"({inner})", f"({inner})", f"[{inner}]"]))


def _place(kinds: Kinds, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.3:
        return kinds.pools.value(rng, "city")
    city, state, letters = rng.choice(CITIES)
    if roll < 0.55:
        return city
    if roll < 0.75:
        return f"{city}, {rng.choice([state, letters])}"
    if roll < 0.88:
        return kinds.pools.value(rng, "country")
    return f"{kinds.pools.value(rng, 'city')}, {kinds.pools.value(rng, 'country')}"
