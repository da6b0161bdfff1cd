# ruff: noqa: SIM905 -- words are data: one list a line reads better than wrapped ones
"""Names and phrases: which split each belongs to, how a sentence takes it in. Knows no values and no tools.

A name or phrase belongs to exactly one split, by its checksum: what the held-out split shows was never
trained on.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

Split = Literal["train", "test"]
HELD_OUT = 10  # one name in so many is kept for the test split


def held_out(name: str) -> bool:
    """Whether a name belongs to the test split, whatever its style of writing."""
    return zlib.crc32(re.sub(r"[^a-z0-9]", "", name.lower()).encode()) % HELD_OUT == 0


def in_split(name: str, split: Split) -> bool:
    return held_out(name) == (split == "test")


def pick(rng: random.Random, options: Sequence[str], split: Split) -> str:
    """One phrase of a list. Lists of four or more keep the phrase of lowest checksum for the test split."""
    if len(options) < 4:
        return rng.choice(options)
    test = kept(options)
    if split == "test":
        return test
    while (choice := rng.choice(options)) == test:
        pass
    return choice


def kept(options: Sequence[str]) -> str:
    """The phrase of a list that belongs to the test split."""
    return _kept(options) if isinstance(options, tuple) else min(options, key=checksum)


def choose(rng: random.Random, options: Sequence[str], more: Sequence[str], split: Split) -> str:
    """One of the options; in training also one of `more`, which the test split never shows."""
    return rng.choice([*options, *more] if split == "train" else options)


def widened(options: Sequence[str], more: Sequence[str], split: Split) -> list[str]:
    """The options; in training with more, of which none takes the place of the one kept for tests."""
    if split == "test":
        return list(options)
    low = checksum(kept(options)) if len(options) > 3 else -1
    return [*options, *(m for m in more if checksum(m) > low and m not in options)]


@lru_cache(1 << 12)
def _kept(options: tuple[str, ...]) -> str:
    return min(options, key=checksum)


@lru_cache(1 << 15)
def checksum(text: str) -> int:
    return zlib.crc32(text.encode())


_PREFIXES = (
    "the target new source base first main input given event item record request user "
    "search order my object local current selected primary default custom final start raw query"
).split()
SUFFIXES = "value param field input arg data option setting spec info".split()


def rename(rng: random.Random, name: str, split: Split) -> str:
    """The name itself where the split allows it, else a variant (target_city, cityValue…).

    In training every third name is a variant too: a name must be copied from the prompt, not remembered.
    """
    if in_split(name, split) and (split == "test" or rng.random() > 0.35):
        return name
    for attempt in range(2000):
        if attempt > 40:
            other = f"{rng.choice(_PREFIXES)}_{name}_{rng.choice(SUFFIXES)}"
        elif rng.random() < 0.7:
            other = f"{rng.choice(_PREFIXES)}_{name}"
        else:
            other = f"{name}_{rng.choice(SUFFIXES)}"
        if in_split(other, split):
            return other
    raise AssertionError(f"no variant of {name!r} lies in the {split} split")


def tool_name(rng: random.Random, base: str, style: str, split: Split) -> str:
    """The name of a tool in a style and in the split; dots stay half of the time."""
    base = base if in_split(base, split) else rename(rng, base.replace(".", "_"), split)
    if "." in base and rng.random() < 0.5:
        return base
    return styled(base, style)


@lru_cache(1 << 14)
def words(name: str) -> str:
    """A name in words: maxResults -> max results."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name)
    return re.sub(r"[_.\-\s]+", " ", name).strip().lower()


def styled(name: str, style: str) -> str:
    """A name in snake, camel or pascal case: of the same letters and digits, and so of the same split."""
    parts = words(name).split()
    if style == "camel":
        return parts[0] + "".join(p.capitalize() for p in parts[1:])
    if style == "pascal":
        return "".join(p.capitalize() for p in parts)
    return "_".join(parts)


def named(texts: str, name: str) -> list[str]:
    """The texts between bars, with the name for {n} and as the first word of a sentence for {N}."""
    return [t.replace("{N}", name.capitalize()).replace("{n}", name) for t in texts.split("|")]


def slots_of(phrase: str) -> list[str]:
    """The names in braces of a phrase, in order."""
    return re.findall(r"\{(\w+)\}", phrase)


def plural(noun: str) -> str:
    """Of a noun that may be in the plural already: costs, masses, velocities."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ss", "x", "ch", "sh")) else f"{noun}s"


def singular(noun: str) -> str:
    """Of a noun that may be in the singular already: queries, dishes; status, glass."""
    if noun in ("news", "sms") or not re.search("[a-z][^isu]s$", noun):
        return noun
    if noun.endswith("ies") and noun not in ("calories", "movies"):
        return f"{noun[:-3]}y"
    return noun[:-2] if re.search("(ss|x|ch|sh)es$", noun) else noun[:-1]


def articles(text: str) -> str:
    """With "an" where a vowel follows."""
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def capital(text: str) -> str:
    """With its first letter large."""
    return text[0].upper() + text[1:]


def uncapital(text: str, values: Sequence[str]) -> str:
    """A sentence as it goes on behind 'Also, ': its first letter small but for a name, a value or I."""
    first = re.match(r"\W*[\w'-]+", text)
    word = first.group() if first else ""
    if re.match(r"I\b", word) or (not word[1:].islower() and len(word) > 1):
        return text
    if any(v[:1].isupper() and v.startswith(word) for v in values):
        return text
    return text[:1].lower() + text[1:]


def stopped(text: str) -> str:
    """A sentence with the stop that it may lack."""
    return text if text[-1:] in ".?!" else f"{text}."


def series(items: Sequence[str], last: str, between: str = ", ") -> str:
    """'5, 10 and 15', where last is ' and '."""
    return between.join(items[:-1]) + last + items[-1]


def joined(items: Sequence[str], rng: random.Random) -> str:
    """A list in either of two ways that people write one; one item stands alone."""
    if len(items) == 1:
        return items[0]
    return series(items, rng.choice([" and ", ", and "])) if rng.random() < 0.6 else ", ".join(items)


def tidy(text: str) -> str:
    """Without the spaces and stops that filling a template leaves too many."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\s+([.,?!;:)])", r"\1", text)
    return re.sub(r"([?!])\.", r"\1", text)
