"""A set of tools that are asked for by hints, and what is asked of them or in vain."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from training import hints, records, resources
from training.beside import Shelf
from training.hints import Hint, Hinted
from training.kinds import Kinds
from training.naming import articles, pick, plural, singular, stopped, uncapital, words
from training.spoken import Param, Spoken
from training.talk import WONDERED
from training.tasks import one_after_another
from training.today import Today
from training.tools import Call, Task

FAMILIES = ((0.2, records.family), (0.25, resources.family), (0.3, hints.family), (0.25, None))
"""Shares of the sets: tools of one kind of thing, siblings of one group, any."""
KNOWING = frozenset(("facts", "library", "text", "translate"))
"""Groups of which a tool may answer a question about a thing itself."""


@dataclass(frozen=True)
class Kit:
    """drawn: the tools. lacking: near to them, not among them. strangers: hints that none of them serves.
    shelf: tools for files beside them. today: where a system message tells the date."""

    kinds: Kinds
    drawn: list[Hinted]
    lacking: list[Hint]
    strangers: list[Hint]
    shelf: Shelf | None
    specs: list[dict[str, Any]]
    today: Today | None

    @classmethod
    def of(cls, rng: random.Random, kinds: Kinds) -> Kit:
        count = rng.choice([1, 2, 3, 3, 4, 4, 5])
        family = rng.choices([f for _, f in FAMILIES], [share for share, _ in FAMILIES])[0]
        kept, lacking = family(rng, kinds, max(count, 2)) if family else (rng.sample(hints.HINTS, count), [])
        others = _apart(kept)
        more = rng.choice([0, 0, 0, 1, 2]) if family else 0
        drawn = hints.toolset(rng, kinds, [*kept, *rng.sample(others, more)])
        specs, shelf = [h.tool.spec() for h in drawn], Shelf.drawn(rng, kinds)
        beside = rng.random() < 0.45 and all(shelf.apart(h.tool) for h in drawn)
        if beside:
            specs = rng.sample([*specs, *shelf.specs], len(specs) + len(shelf.specs))
        strangers = _apart([h.hint for h in drawn])
        dated = any(h.dates() for h in drawn)
        today = Today.drawn(rng) if rng.random() < (0.5 if dated else 0.08) else None
        return cls(kinds, drawn, lacking, strangers, shelf if beside else None, specs, today)

    def one(self, rng: random.Random) -> tuple[str, tuple[Call, ...]]:
        """A request of one tool, and its calls."""
        task = rng.choice(self.drawn).task(rng, self.kinds, today=self.today)
        return task.request, task.calls

    def more(self, rng: random.Random) -> tuple[str, tuple[Call, ...]]:
        """A request of two or three tools; or of two for one thing, which the second time is only meant."""
        chosen = rng.sample(self.drawn, min(len(self.drawn), rng.choice([2, 2, 2, 3])))
        tasks = [h.task(rng, self.kinds, len(chosen) == 1, self.today) for h in chosen]
        again = self._of_the_same(rng, chosen, tasks) if rng.random() < 0.6 else None
        if again is None:
            return self._at_once(rng, tasks), tuple(call for t in tasks for call in t.calls)
        link = rng.choice(["", "", "And: ", "Then: ", "Also, "])
        return f"{stopped(tasks[0].request)} {link}{again.request}", (*tasks[0].calls, *again.calls)

    def open(self, rng: random.Random) -> tuple[str, Param, Spoken, Task] | None:
        """A request that lacks a value, whose it is, the value, and the task once it is told; None where no
        wording is so. Where nobody told the date, "tomorrow" is none."""
        one = rng.choice(self.drawn)
        if self.today is None and rng.random() < 0.3:
            return one.undated(rng, self.kinds)
        return one.unfinished(rng, self.kinds)

    def none(self, rng: random.Random) -> str:
        """A request near by or of another kind that no tool here serves; "" where one may."""
        things = [w for w in words(rng.choice(self.drawn).hint.names[0]).split() if len(w) > 3]
        knows = any(not KNOWING.isdisjoint(h.hint.groups) for h in self.drawn)
        if rng.random() < 0.2 and things and not knows:
            one = singular(things[-1])  # the tools of many are named so
            asked = pick(rng, WONDERED, self.kinds.split)
            asked = articles(asked.format(n=one, ns=plural(one), m=self.kinds.pools.noun(rng)))
        else:
            near = self.lacking if self.lacking and rng.random() < 0.5 else self.strangers
            asked = Hinted.drawn(rng, self.kinds, rng.choice(near)).task(rng, self.kinds).request
        return "" if self.shelf and self.shelf.serves(asked) else asked

    def _of_the_same(self, rng: random.Random, chosen: list[Hinted], tasks: list[Task]) -> Task | None:
        """What a second tool of a family does with the thing that the first was asked about."""
        if len(chosen) < 2 or len(tasks[0].calls) != 1:
            return None
        (first, second), (spoken,) = chosen[:2], tasks[0].spoken
        one, other = (h.hint.slots[0] if h.hint.words and h.hint.slots else None for h in (first, second))
        if one is None or other is None or (one.key, one.kind) != (other.key, other.kind):
            return None
        key = spoken.get(first.keys[one.key])
        if key is None or one.kind == "pool" or not one.required:  # "it" is no person
            return None
        return second.of_the_same(rng, self.kinds, key)

    def _at_once(self, rng: random.Random, tasks: list[Task]) -> str:
        """Hints in one breath, or as sentences of their own."""
        parts = [t.request for t in tasks]
        if len(parts) < 2:
            return parts[0]
        if rng.random() < 0.3:
            return " ".join(map(stopped, parts))
        values = [[s.text for spoken in t.spoken for s in spoken.values()] for t in tasks]
        if rng.random() < 0.5:
            return one_after_another(rng, parts, values, self.kinds.split)
        link = rng.choice([" and ", ", and ", ", then ", " and then ", ", and also "])
        rest = [uncapital(p, v) for p, v in zip(parts[1:], values[1:], strict=True)]
        return link.join([*(p.rstrip(".!?") for p in [parts[0], *rest[:-1]]), rest[-1]])


def _apart(given: list[Hint]) -> list[Hint]:
    """The hints that are near none of these."""
    groups = {group for hint in given for group in hint.groups}
    return [hint for hint in hints.HINTS if groups.isdisjoint(hint.groups)]
