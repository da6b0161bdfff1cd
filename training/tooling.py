# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Tools of four origins (everyday domains and families, real API operations, names composed at random) with their
requests.

Knows no turns: a Task is a request and the calls that answer it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from training.asking import opening
from training.families import FAMILIES, Family, family_params
from training.kinds import (
    SCALARS,
    Kinds,
    Param,
    Split,
    Spoken,
    capital,
    in_split,
    joined,
    pick,
    rename,
    slots_of,
    styled,
    uncapital,
    words,
)
from training.natural import drawn
from training.phrases import (
    ANOTHER,
    ASIDES,
    BEFORE_A_REQUEST,
    BRIEF,
    CASES,
    FILLERS,
    JOINERS,
    NOUNS,
    OPENERS,
    ORDINALS,
    TAILS,
    VERBS,
    adverbial,
)
from training.quantities import LIST, RESULTS, compute_tool, is_list
from training.quantities import VERBS as COMPUTE_VERBS
from training.sketches import DOMAINS, SKETCHES, Sketch, likeness
from training.variety import BARE, Pair, any_param, decorated, pair, wordy

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Tool:
    """A tool as the model is told of it, and how people ask for it."""

    name: str
    about: str
    params: tuple[Param, ...]
    ask: Callable[[random.Random, dict[str, Spoken]], str]
    topic: str
    whole: bool = False
    """Requests are whole sentences that name every required argument."""
    sketch: Sketch | None = None
    """What a tool of an everyday domain was made of."""
    miss: Callable[[random.Random], str] | None = None
    """A request near by that a tool of an everyday domain does not serve."""

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "object", "properties": {p.name: p.json_schema() for p in self.params}}
        required = [p.name for p in self.params if p.required]
        if required:
            out["required"] = required
        return out

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.about, "parameters": self.schema()}


def _close(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\s+([.,?!;:)])", r"\1", text)
    text = re.sub(r"([?!])\.", r"\1", text)
    return text


class Toolsmith:
    """Makes tools in one split."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.split = kinds.split
        self.pools = kinds.pools
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for raw in self.pools.operations:
            for word in words(raw["name"]).split()[1:]:
                if len(word) > 3:
                    groups.setdefault((raw["group"], word), []).append(raw)
        self._relatives = {k: v for k, v in groups.items() if len(v) > 1}

    def tool(self, rng: random.Random) -> Tool:
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
        made = drawn(rng, self.kinds, sketch or rng.choice(SKETCHES), prefix)
        tool = Tool(
            made.name,
            made.about,
            made.params,
            made.ask,
            made.sketch.topic,
            sketch=made.sketch,
            miss=made.miss,
        )
        return self._ready(rng, tool, 0.08)

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
            raws = self._relatives[rng.choice(list(self._relatives))]
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
        return bind(replace(tool, about=about, params=params))

    def _name(self, rng: random.Random, base: str, style: str) -> str:
        """A tool name in the split; dots stay."""
        base = base if in_split(base, self.split) else rename(rng, base.replace(".", "_"), self.split)
        if "." in base and rng.random() < 0.5:
            return base
        name = styled(base, style)
        return name if in_split(name, self.split) else styled(rename(rng, words(name), self.split), style)

    def family(self, rng: random.Random, family: Family | None = None) -> Tool:
        family = family or rng.choice(FAMILIES)
        style = rng.choice(["snake", "snake", "snake", "camel"])
        params = family_params(rng, self.kinds, family, style)
        name = self._name(rng, rng.choice(family.names), style)
        split = self.split

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
            return _close(re.sub(r"\{(\w+)\}", lambda m: spoken[params[m.group(1)].name].text, text))

        ordered = [params[s.name] for s in family.slots]
        return Tool(name, rng.choice(family.abouts), tuple(ordered), ask, words(family.names[0]), whole=True)

    def api(self, rng: random.Random, raw: dict[str, Any] | None = None) -> Tool:
        raw = raw or rng.choice(self.pools.operations)
        style = rng.choice(["snake", "snake", "camel", "pascal"])
        base = words(raw["name"])
        if rng.random() < 0.3:
            base = f"{words(raw['group'])} {base}"
        name = self._name(rng, base, style)
        inner = "camel" if style == "pascal" else style
        params: dict[str, Param] = {}
        for p in raw["params"][: rng.randint(1, 6)]:
            made = self.kinds.generic(rng, p, inner)
            params.setdefault(made.name, made)
        if rng.random() < 0.12:
            made = self.kinds.nested(rng, inner, rng.random() < 0.5)
            params.setdefault(made.name, made)
        about = raw["about"]
        if rng.random() < 0.2:
            about = base.capitalize() + "."
        return Tool(
            name, about, self._ordered(rng, params), self._asker(rng, _imperative(raw["about"]) or base), base
        )

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
        name = self._name(rng, base, style)
        if "_" in name and rng.random() < 0.1 and in_split(name, self.split):
            name = name.replace("_", ".", 1)
        params: dict[str, Param] = {p.name: p for p in like or ()}
        needed = rng.randint(1, 3)
        for i in range(0 if like else needed + rng.choice([0, 0, 1, 1, 2, 3])):
            roll = rng.random()
            if roll < 0.05:
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
        request = f"{rng.choice(said.split('|'))} {article} {noun}"
        joint: list[Pair] = []
        if not like and rng.random() < 0.3:
            first, second, both = pair(rng, self.kinds, style, True)
            if first.name not in params and second.name not in params and first.name != second.name:
                params |= {first.name: first, second.name: second}
                joint.append(both)
        ask = self._asker(rng, request, joint)
        return Tool(name, _close(about), self._ordered(rng, params), ask, f"{verb} {noun}")

    def computing(self, rng: random.Random, result: str = "", verb: str = "") -> Tool:
        base, about, params, topic, ask = compute_tool(rng, self.kinds, result, verb)
        name = self._name(rng, base, rng.choice(["snake", "snake", "snake", "camel"]))
        return Tool(name, about, self._ordered(rng, params), ask, topic)

    def _ordered(self, rng: random.Random, params: dict[str, Param]) -> tuple[Param, ...]:
        out = list(params.values())
        if rng.random() < 0.85:
            out.sort(key=lambda p: not p.required)
        return tuple(out)

    def _asker(
        self, rng: random.Random, core: str, joint: Sequence[Pair] = ()
    ) -> Callable[[random.Random, dict[str, Spoken]], str]:
        split = self.split
        by_name: dict[str, Param] = {}

        def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
            parts = []
            used: set[str] = set()
            together: set[str] = set()
            for both in joint:
                if both.first in spoken and both.second in spoken and r.random() < 0.8:
                    ends = {"a": spoken[both.first], "b": spoken[both.second]}
                    if any(map(is_list, ends.values())):
                        continue
                    phrase = pick(r, both.phrases, split)
                    values = {k: v.text for k, v in ends.items()}
                    if phrase[0] == "{" and len(spoken) > 2:  # nothing but values would run into those before
                        phrase = f"for {phrase}"
                    parts.append(re.sub(r"\{([ab])\}", lambda m: values[m.group(1)], phrase))  # noqa: B023
                    together |= {both.first, both.second}
            # of several texts each is named
            free = (
                sum(
                    p.schema["type"] == "string" and "enum" not in p.schema
                    for n, p in by_name.items()
                    if n in spoken
                )
                > 1
            )
            for name, value in spoken.items():
                if name in together:
                    continue
                told = by_name[name].phrases if name in by_name else ("{v}",)
                if free and set(BARE) <= set(told):
                    told = tuple(p for p in told if p not in BARE)
                for _ in range(6):  # two values are never told in one way: which is which must show
                    phrase = pick(r, told, split)
                    if phrase not in used:
                        break
                else:
                    phrase = f"{words(name)} {{v}}"
                used.add(phrase)
                several_words = free and value.value == value.text and LIST.search(value.text)
                parts.append(phrase.replace("{v}", f'"{value.text}"' if several_words else value.text))
            r.shuffle(parts)
            said = core.rstrip(".")
            if r.random() < 0.15:  # a person leaves small words out
                said = re.sub(r"(?<=\S) (the|a|an|of|my) ", " ", said, count=1)
            # where one text ends and the next begins must show
            glue = r.choice([", ", " and ", "; ", ", "] if free else [" ", " ", ", ", " and ", "; ", ", "])
            opener = pick(r, OPENERS, split)
            if not parts:
                body = said
            elif r.random() < 0.15:  # what is given comes first
                ahead, rest = glue.join(parts), opener.format(said)
                return _close(f"{opening(ahead, spoken)}, {uncapital(rest, [])}")
            else:
                body = said + r.choice([" ", " ", " ", ", ", ": "]) + glue.join(parts)
            text = opener.format(body)
            return _close(capital(text) if r.random() < 0.9 else text)

        ask.by_name = by_name  # type: ignore[attr-defined]  # filled by `bind` once the parameters exist
        return ask


def bind(tool: Tool) -> Tool:
    """Tells the tool's request writer its parameters."""
    table = getattr(tool.ask, "by_name", None)
    if table is not None:
        table.update({p.name: p for p in tool.params})
    return tool


def _unlike(verbs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The verbs of which no two are said in one word."""
    taken: set[str] = set()
    out = []
    for verb, said in verbs:
        if not taken & set(said.split("|")):
            taken |= set(said.split("|"))
            out.append((verb, said))
    return out


def _imperative(about: str) -> str:
    """'Creates a vault.' -> 'create a vault'."""
    text = about.rstrip(".")
    match = re.match(r"([A-Z][a-z]+)\b(.*)", text)
    if not match:
        return ""
    verb, rest = match.group(1).lower(), match.group(2)
    if verb in ("this", "the", "use", "you", "for", "a", "an", "deprecated", "required", "grants"):
        return ""
    if verb.endswith(("sses", "shes", "ches", "xes")):
        verb = verb[:-2]
    elif verb.endswith("ies") and len(verb) > 4:
        verb = verb[:-3] + "y"
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    said = verb + rest
    return said if len(said) <= 90 else said[:90].rpartition(" ")[0]


# ── tasks ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Task:
    """A request and the calls that answer it, in order."""

    request: str
    calls: tuple[Call, ...]
    spoken: tuple[dict[str, Spoken], ...]


def arguments(rng: random.Random, tool: Tool, optional: float = 0.45) -> dict[str, Spoken]:
    """A value for each required parameter and some optional ones, in schema order."""
    out: dict[str, Spoken] = {}
    for p in tool.params:
        if p.required or rng.random() < optional:
            drawn = p.draw(rng)
            for _ in range(3):  # from Rome to Rome?
                if not isinstance(drawn.value, str) or all(drawn.value != o.value for o in out.values()):
                    break
                drawn = p.draw(rng)
            out[p.name] = drawn
    return out


def plain(spoken: dict[str, Spoken]) -> dict[str, Any]:
    return {name: s.value for name, s in spoken.items()}


def single(rng: random.Random, tool: Tool) -> Task:
    spoken = arguments(rng, tool, rng.choice([0.0, 0.3, 0.5]))
    request = tool.ask(rng, spoken)
    if request[-1:] in ".?!" and rng.random() < 0.5:
        request += rng.choice(TAILS)
    if rng.random() < 0.06:  # numbers that no argument is
        request = rng.choice(ASIDES).format(n=rng.randint(2, 60)) + request
    elif rng.random() < 0.45:
        request = rng.choice(FILLERS) + request
    return Task(request, ((tool.name, plain(spoken)),), (spoken,))


def several(rng: random.Random, tools: list[Tool], split: Split) -> Task:
    """One request that needs a call of each tool in the list (a tool may stand there twice)."""
    drawn = [arguments(rng, t, 0.3) for t in tools]
    parts = [t.ask(rng, s) for t, s in zip(tools, drawn, strict=True)]
    calls = tuple((t.name, plain(s)) for t, s in zip(tools, drawn, strict=True))
    if rng.random() < 0.12:
        mark = rng.choice(["{i}. ", "{i}) ", "({i}) ", "- "])
        gap = rng.choice([" ", "\n"]) if mark != "- " else "\n"
        lines = gap.join(mark.format(i=i) + part for i, part in enumerate(parts, 1))
        return Task(
            rng.choice(["", "Please do this: ", "Two things: " if len(parts) == 2 else "My list: "]) + lines,
            calls,
            tuple(drawn),
        )
    text = parts[0]
    for part, spoken in zip(parts[1:], drawn[1:], strict=True):
        # any word may stand there, also one that no list here has
        wild = split == "train" and rng.random() < 0.25
        joiner = adverbial(rng, BEFORE_A_REQUEST) if wild else pick(rng, JOINERS, split)
        if re.search("[a-z]", joiner) and not joiner.endswith(". "):
            part = uncapital(part, [s.text for s in spoken.values()])
        if joiner[0] != " " or joiner[1:2] == "-":
            text = text.rstrip(".?!") if joiner[0] != "\n" else text
        elif text[-1:] not in ".?!" and len(joiner) > 6:
            text += ";"
        text += joiner + part
    return Task(text, calls, tuple(drawn))


def parallel(rng: random.Random, tool: Tool, split: Split) -> Task | None:
    """One request with two to four values of some arguments: as many calls of the tool."""
    spoken = arguments(rng, tool, 0.25)
    varied = [p for p in tool.params if p.name in spoken and p.schema["type"] in SCALARS]
    if not varied:
        return None
    in_turn = rng.random() < 0.45
    most = len(varied) if in_turn else min(2, len(varied))
    chosen = rng.sample(varied, rng.randint(1, most) if rng.random() < 0.5 else 1 if not in_turn else most)
    sets = [spoken]
    for _ in range(rng.randint(2, 4) * 2):
        made = {**spoken, **{p.name: p.draw(rng) for p in chosen}}
        if all(plain(made) != plain(o) for o in sets):
            sets.append(made)
    sets = sets[: rng.choice([2, 2, 2, 3, 3, 4])]
    told = [s[p.name] for s in sets for p in chosen]
    if len(sets) < 2 or any(t.whole or re.search(r"[,?!;]|\.(?!\d)", t.text) for t in told):
        return None
    if len(chosen) == 2 and rng.random() < 0.25:
        return _crossed(rng, tool, spoken, chosen)
    calls = tuple((tool.name, plain(s)) for s in sets)
    if in_turn:
        return Task(_in_turn(rng, tool, sets, chosen, split), calls, tuple(sets))
    texts = {p.name: [s[p.name].text for s in sets] for p in chosen}
    lists = {
        k: Spoken(None, f"{', '.join(t[:-1])}{rng.choice([' and ', ', and '])}{t[-1]}")
        for k, t in texts.items()
    }
    request = tool.ask(rng, {**spoken, **lists})
    if _enclosed(request, lists):
        return None
    if len(chosen) > 1:
        request = request.rstrip(".?!") + rng.choice(
            [", respectively.", " respectively.", " (respectively)."]
        )
    elif len({plain(s)[chosen[0].name] for s in sets}) < len(sets):
        return None
    return Task(request, calls, tuple(sets))


def _enclosed(request: str, lists: dict[str, Spoken]) -> bool:
    """Whether a list stands inside a word, a formula or quotes: "3 and 5x^2", "called 'Ann and Bo'"."""
    texts = [re.escape(t.text) for t in lists.values()]
    return any(re.search(rf"[+*'\"] ?{t}|{t}(?:[-\w^*'\"]| ?[+*=])", request) for t in texts)


def _crossed(rng: random.Random, tool: Tool, spoken: dict[str, Spoken], chosen: list[Param]) -> Task | None:
    """Each of two values with each of two others: four calls."""
    first, second = chosen
    columns = []
    for p in chosen:
        values = [spoken[p.name]] + [p.draw(rng) for _ in range(4)]
        apart = [
            v
            for v in values[1:]
            if v.value != values[0].value and not v.whole and not re.search(r"[,?!;]|\.(?!\d)", v.text)
        ]
        if not apart:
            return None
        columns.append([values[0], apart[0]])
    sets = [{**spoken, first.name: a, second.name: b} for a in columns[0] for b in columns[1]]
    shown = {
        p.name: Spoken(None, " and ".join(v.text for v in c)) for p, c in zip(chosen, columns, strict=True)
    }
    request = tool.ask(rng, {**spoken, **shown}).rstrip(".?!")
    if _enclosed(request, shown):
        return None
    request += rng.choice(
        [
            ", each with each.",
            ", in every combination.",
            " (all combinations).",
            ", for each pair.",
            ", all four of them.",
        ]
    )
    return Task(request, tuple((tool.name, plain(s)) for s in sets), tuple(sets))


def _in_turn(
    rng: random.Random, tool: Tool, sets: list[dict[str, Spoken]], chosen: list[Param], split: Split
) -> str:
    """A whole request for the first set, and for each other only what differs."""
    request = tool.ask(rng, sets[0]).rstrip(".?!")
    link = pick(rng, ANOTHER, split)
    ordered = rng.sample(chosen, len(chosen))
    style = rng.random()
    counted, brief = pick(rng, CASES, split), pick(rng, BRIEF, split)
    for i, s in enumerate(sets[1:]):
        if style < 0.4:  # in the words that belong to the parameter
            phrases = [pick(rng, p.phrases, split).replace("{v}", s[p.name].text) for p in ordered]
            request += brief.format(w=" ".join(phrases).lstrip(",; "))
            continue
        if style < 0.65:  # one sentence a case
            told = [
                rng.choice(
                    ["with a {n} of {v}", "with {n} {v}", "{n} {v}", "the {n} is {v}", "has {v} as its {n}"]
                ).format(n=words(p.name), v=s[p.name].text)
                for p in ordered
            ]
            request += ". " + counted.format(i=ORDINALS[i], w=joined(told, rng)).rstrip(".")
            continue
        told = []
        for p in ordered:
            value, name = s[p.name].text, words(p.name)
            forms = [f"{name} {value}", f"{name} of {value}", f"{value} as the {name}", f"the {name} {value}"]
            told.append(rng.choice([*forms, value] if len(ordered) == 1 else forms))
        if link[:1] == " " and link[1:2].isupper():  # a sentence of its own
            request += "."
        request += link.format(w=joined(told, rng)).rstrip(".")
    return request + rng.choice([".", ".", "?", ""])
