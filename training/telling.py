"""Requests for tools that no sentence was written for: what is asked, and the values in the words of their
parameters. Knows no tools."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from training.asking import opening
from training.naming import Split, capital, pick, tidy, uncapital, words
from training.phrases import OPENERS
from training.spoken import LIST, Param, Spoken, is_list
from training.variety import BARE, Pair


@dataclass(frozen=True)
class Telling:
    """Writes requests: "list the invoices for Oslo, limit 3". core: what is asked, without values."""

    core: str
    split: Split
    params: tuple[Param, ...]
    joint: tuple[Pair, ...] = ()
    """Parameters that may be told in one breath."""

    def __call__(self, rng: random.Random, spoken: dict[str, Spoken]) -> str:
        texts = sum(p.name in spoken and p.is_text for p in self.params) > 1
        parts = self._parts(rng, spoken, texts)
        rng.shuffle(parts)
        said = self.core.rstrip(".")
        if rng.random() < 0.15:  # a person leaves small words out
            said = re.sub(r"(?<=\S) (the|a|an|of|my) ", " ", said, count=1)
        # where one text ends and the next begins must show
        glue = rng.choice([", ", " and ", "; ", ", "] if texts else [" ", " ", ", ", " and ", "; ", ", "])
        if glue == " and ":
            parts = [p.removeprefix("and ") for p in parts]
        opener = pick(rng, OPENERS, self.split)
        if not parts:
            body = said
        elif rng.random() < 0.15:  # what is given comes first
            ahead, rest = glue.join(parts).removeprefix("and "), opener.format(said)
            return tidy(f"{opening(ahead, spoken)}, {uncapital(rest, [])}")
        else:
            body = said + rng.choice([" ", " ", " ", ", ", ": "]) + glue.join(parts)
        text = opener.format(body)
        return tidy(capital(text) if rng.random() < 0.9 else text)

    def _parts(self, rng: random.Random, spoken: dict[str, Spoken], texts: bool) -> list[str]:
        """A telling of each value. texts: there are several of them, so that each is named."""
        parts, together = self._breaths(rng, spoken)
        by_name = {p.name: p for p in self.params}
        used: set[str] = set()
        for name, value in spoken.items():
            if name in together:
                continue
            told = by_name[name].phrases
            if texts and set(BARE) <= set(told):
                told = tuple(p for p in told if p not in BARE)
            for _ in range(6):  # two values are never told in one way: which is which must show
                phrase = pick(rng, told, self.split)
                if phrase not in used:
                    break
            else:
                phrase = f"{words(name)} {{v}}"
            used.add(phrase)
            quoted = texts and value.value == value.text and LIST.search(value.text)
            parts.append(phrase.replace("{v}", f'"{value.text}"' if quoted else value.text))
        return parts

    def _breaths(self, rng: random.Random, spoken: dict[str, Spoken]) -> tuple[list[str], set[str]]:
        """Tellings of two values each, and whose values these are."""
        parts: list[str] = []
        names: set[str] = set()
        for both in self.joint:
            if both.first not in spoken or both.second not in spoken or rng.random() >= 0.8:
                continue
            ends = {"a": spoken[both.first], "b": spoken[both.second]}
            if any(map(is_list, ends.values())):
                continue
            phrase = pick(rng, both.phrases, self.split).removeprefix(", ")
            if phrase[0] == "{" and len(spoken) > 2:  # nothing but values would run into those before
                phrase = f"for {phrase}"
            parts.append(re.sub(r"\{([ab])\}", lambda m: ends[m.group(1)].text, phrase))  # noqa: B023
            names |= {both.first, both.second}
        return parts, names
