# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Draws tools of all origins: everyday domains, families, real API operations, names composed at random, quantities.

Knows no turns and no tasks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from training.families import FAMILIES, Family, family_params
from training.kinds import Kinds
from training.naming import choose, pick, slots_of, tidy, tool_name, words
from training.natural import drawn
from training.operations import operation_tool, relatives
from training.phrases import MORE_VERBS, NOUNS, VERBS
from training.quantities import RESULTS, compute_tool
from training.quantities import VERBS as COMPUTE_VERBS
from training.sketches import DOMAINS, SKETCHES, Sketch, likeness
from training.spoken import Param, Spoken
from training.telling import Telling
from training.tools import Tool, ordered
from training.variety import Pair, any_param, decorated, pair, wordy


class Toolsmith:
    """Makes tools in one split."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.split = kinds.split
        self.pools = kinds.pools
        self._relatives = relatives(self.pools.operations)

    def tool(self, rng: random.Random) -> Tool:
        """A tool of any origin."""
        roll = rng.random()
        if roll < 0.46:
            return self.everyday(rng)
        if roll < 0.64:
            return self._ready(rng, self.family(rng))
        if roll < 0.76:
            return self._ready(rng, self.api(rng))
        if roll < 0.90:
            return self._ready(rng, self.composed(rng))
        return self._ready(rng, self.computing(rng))

    def everyday(self, rng: random.Random, sketch: Sketch | None = None, prefix: bool = False) -> Tool:
        """A tool of training/domains. prefix: its name begins with the domain's."""
        return self._ready(rng, drawn(rng, self.kinds, sketch or rng.choice(SKETCHES), prefix), 0.08)

    def near(self, rng: random.Random, given: Sequence[Tool]) -> Tool | None:
        """A tool of the domain of one of the given that serves none of their requests."""
        sketches = [t.sketch for t in given if t.sketch]
        if not sketches:
            return None
        topics = {s.topic for s in sketches}
        others = [s for s in DOMAINS[rng.choice(sketches).domain] if s.topic not in topics]
        return self.everyday(rng, rng.choice(others)) if others else None

    def siblings(self, rng: random.Random, count: int) -> list[Tool]:
        """Tools that must be told apart: those of one everyday domain, operations of one API on one thing, one verb
        for several things, several verbs for one thing, several results of one field. Maybe fewer than `count`."""
        roll = rng.random()
        made: list[Tool] = []
        if roll < 0.40:
            sketches = DOMAINS[rng.choice(list(DOMAINS))]
            chosen = rng.sample(sketches, min(count, len(sketches)))
            if rng.random() < 0.5:  # those that share most words with one
                chosen = sorted(rng.sample(sketches, len(sketches)), key=lambda s: -likeness(s, chosen[0]))
            prefix = rng.random() < 0.35
            made = [self.everyday(rng, s, prefix) for s in chosen[:count]]
            return list({t.name: t for t in made}.values())
        if roll < 0.57 and self._relatives:
            raws = rng.choice(self._relatives)
            made = [self.api(rng, raw) for raw in rng.sample(raws, min(count, len(raws)))]
        elif roll < 0.67:
            noun = self._noun(rng)
            verbs = _unlike(rng.sample(VERBS, len(VERBS)))
            made = [self.composed(rng, verb, noun) for verb in verbs[:count]]
        elif roll < 0.88:
            made = self._cousins(rng, count)
        else:
            field_ = rng.choice([self.pools.adjective, self.pools.noun])(rng)
            verb = rng.choice(COMPUTE_VERBS)
            made = [self.computing(rng, f"{field_} {r}", verb) for r in rng.sample(RESULTS, count)]
        unique = {t.name: self._ready(rng, t) for t in made}
        return list({t.topic: t for t in unique.values()}.values())

    def _cousins(self, rng: random.Random, count: int) -> list[Tool]:
        """Tools of one verb or one thing that one word of their names tells apart, half of the time with the same
        parameters: only the name shows which is meant."""
        verbs = rng.sample(VERBS, len(VERBS))
        head, other = rng.choice(NOUNS), self._noun(rng)
        form = rng.random()
        if form < 0.4:
            things = [(verbs[0], f"{head} {self.pools.noun(rng)}") for _ in range(count)]
        elif form < 0.7:
            things = [(verbs[0], f"{self.pools.adjective(rng)} {head}") for _ in range(count)]
        elif form < 0.85:
            things = [(verbs[0], f"{self.pools.noun(rng)} {head} {other.split()[-1]}") for _ in range(count)]
        else:
            things = [(verb, f"{head} {other}") for verb in _unlike(verbs)[:count]]
        first = self.composed(rng, *things[0])
        shared = first.params if rng.random() < 0.5 else None
        return [first, *(self.composed(rng, verb, noun, shared) for verb, noun in things[1:])]

    def _ready(self, rng: random.Random, tool: Tool, wordiness: float = 0.3) -> Tool:
        long = rng.random() < wordiness
        about = wordy(rng, self.pools, tool.about) if long else tool.about
        params = tuple(decorated(rng, self.pools, p, 0.4 if long else 0.03) for p in tool.params)
        # who tells the values must see the parameters as they are now
        ask = replace(tool.ask, params=params) if isinstance(tool.ask, Telling) else tool.ask
        return replace(tool, about=about, params=params, ask=ask)

    def family(self, rng: random.Random, family: Family | None = None) -> Tool:
        family = family or rng.choice(FAMILIES)
        style = rng.choice(["snake", "snake", "snake", "camel"])
        split = self.split
        params = family_params(rng, self.kinds, family, style)
        name = tool_name(rng, rng.choice(family.names), style, split)

        def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
            text = family.held_out if split == "test" else r.choice(family.requests)
            for _ in range(8):
                match = re.search(r"\[([^\[\]]*)\]", text)
                if not match:
                    break
                slots = slots_of(match.group(1))
                keep = all(params[s].name in spoken for s in slots)
                text = text[: match.start()] + (match.group(1) if keep else "") + text[match.end() :]
            # an optional argument whose template has no slot for it is said at the end
            said = set(slots_of(text))
            rest = [
                f"{words(p.name)} {spoken[p.name].text}"
                for s, p in params.items()
                if s not in said and p.name in spoken
            ]
            if rest:
                text = text + " " + ", ".join(rest)
            return tidy(re.sub(r"\{(\w+)\}", lambda m: spoken[params[m.group(1)].name].text, text))

        ordered = [params[s.name] for s in family.slots]
        return Tool(name, rng.choice(family.abouts), tuple(ordered), ask, words(family.names[0]), whole=True)

    def api(self, rng: random.Random, raw: dict[str, Any] | None = None) -> Tool:
        return operation_tool(rng, self.kinds, raw or rng.choice(self.pools.operations))

    def _noun(self, rng: random.Random) -> str:
        noun = self.pools.noun(rng) if rng.random() < 0.5 else rng.choice(NOUNS)
        if rng.random() < 0.5:
            noun = f"{self.pools.adjective(rng) if rng.random() < 0.6 else rng.choice(NOUNS)} {noun}"
        return noun

    def composed(
        self,
        rng: random.Random,
        verb_: tuple[str, str] | None = None,
        noun: str = "",
        like: Sequence[Param] | None = None,
    ) -> Tool:
        """like: its parameters, else new ones."""
        verb, said = verb_ or rng.choice(VERBS)
        noun = noun or self._noun(rng)
        style = rng.choice(["snake", "snake", "camel"])
        base = rng.choice([f"{verb} {noun}", f"{verb} {noun}", f"{noun} {verb}"])
        name = tool_name(rng, base, style, self.split)
        if "_" in name and rng.random() < 0.1:
            name = name.replace("_", ".", 1)
        params: dict[str, Param] = {p.name: p for p in like or ()}
        needed = rng.randint(1, 3)
        for i in range(0 if like else needed + rng.choice([0, 0, 1, 1, 2, 3])):
            roll = rng.random()
            if roll < 0.08:
                made = self.kinds.nested(rng, style, i < needed)
            elif roll < 0.5:
                made = any_param(rng, self.kinds, style, i < needed)
            else:
                made = self.kinds.semantic(rng, style, i < needed)
            # two of one kind would be told in the same words: which is which could not be read
            if all(p.phrases != made.phrases for p in params.values()):
                params.setdefault(made.name, made)
        article = (
            rng.choice(["the", "a", "all", ""])
            if verb in ("get", "list", "find", "search", "show")
            else rng.choice(["the", "a", "a new"])
        )
        about = pick(
            rng,
            [
                f"{said.split('|')[0].capitalize()} {article} {noun}.",
                f"{verb.capitalize()} {noun}.",
                f"Use this to {verb} {noun}.",
                f"{verb.capitalize()}s {article} {noun}.",
            ],
            self.split,
        )
        article = rng.choice(["the", "a", "my", "", "an" if noun[0] in "aeiou" else "a"])
        request = f"{choose(rng, said.split('|'), MORE_VERBS[verb], self.split)} {article} {noun}"
        joint: list[Pair] = []
        if not like and rng.random() < 0.3:
            first, second, both = pair(rng, self.kinds, style, True)
            if first.name not in params and second.name not in params and first.name != second.name:
                params |= {first.name: first, second.name: second}
                joint.append(both)
        shown = ordered(rng, params)
        ask = Telling(request, self.split, shown, tuple(joint))
        return Tool(name, tidy(about), shown, ask, f"{verb} {noun}")

    def computing(self, rng: random.Random, result: str = "", verb: str = "") -> Tool:
        return compute_tool(rng, self.kinds, result, verb)


def _unlike(verbs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The verbs of which no two are said in one word."""
    taken: set[str] = set()
    out = []
    for verb, said in verbs:
        if not taken & set(said.split("|")):
            taken |= set(said.split("|"))
            out.append((verb, said))
    return out
