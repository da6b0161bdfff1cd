# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""The values of several calls of one tool, and the words in which any form tells them. Knows no form of request."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from training.naming import Split, joined, kept, series, words
from training.phrases import BEFORE_A_VALUE, LINKS, link
from training.spoken import SCALARS, Param, Spoken
from training.tools import Task, Tool, arguments, plain

NO_LIST = re.compile(r"[?!;\"\n]|\.(?!\d)")  # a text that cannot stand in a list of several
UNIT = re.compile(
    r"(?:%|°C|°F|°|Ω| ?(?:(?:kilom|m)(?:eters|etres) per (?:hour|second)(?: squared)?|km per hour|kph|m / s|beats (?:per|a) minute|moles per liter|kilograms per cubic meter|kg/m\^?3|kg/m³|mol/l|mol/L"
    r"|square kilometers|square km|sq km|km²|pascals|hertz|nanometers|nanometres|nm|millimeters|millimetres|milligrams|kilocalories|kcal|mg|bpm|mol|amperes|coulombs|inhabitants|bucks|kilos|yrs|secs?|centimetres|deg"
    r"|kg|km/h|km|cm|mm|mph|m/s\^?2?|m/s²|m/s|m|ft|lbs?|g|L|ml|kWh|J|N|V|A|W|K|Pa|Hz|USD|EUR|GBP|units?|percent|degrees(?: (?:Celsius|Fahrenheit|C|F))?"
    r"|dollars|euros|meters|metres|feet|inches|centimeters|liters|litres|kilograms|kilometers|kilometres|miles|pounds|grams|seconds|minutes|hours|days|nights|weeks|months|years"
    r"|people|guests|passengers|adults|rooms|pieces|items|points|words|characters|pixels|square feet|square meters|sq ft|ohms|volts|amps|joules|newtons|moles|kelvin|Kelvin))(?![\w/])",
)
FROM = re.compile(r"origin|from|start|source|departure|pickup", re.I)
TO = re.compile(r"dest|to(?:_|$)|[a-z]To|end|target|arriv|dropoff", re.I)
COUNT = {2: "two", 3: "three", 4: "four"}
NTH = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Sets:
    """Values of as many calls; the parameters that differ, in the order of the schema."""

    tool: Tool
    sets: list[dict[str, Spoken]]
    varied: list[Param]

    def task(self, request: str) -> Task:
        return Task.of(request, self.tool, self.sets)

    def shared(self) -> dict[str, Spoken]:
        """What all calls have in common."""
        names = {p.name for p in self.varied}
        return {k: v for k, v in self.sets[0].items() if k not in names}


def drawn_sets(rng: random.Random, tool: Tool) -> Sets | None:
    """Two to four calls that differ in one to three arguments; None where the tool has none that can be listed."""
    base = arguments(rng, tool, rng.choice([0.0, 0.2, 0.4]))
    able = [
        p
        for p in tool.params
        if p.name in base and (p.schema["type"] in SCALARS or p.schema["type"] == "array")
    ]
    scalar = [p for p in able if p.schema["type"] != "array"]
    if not scalar:
        return None
    count = min(len(able), rng.choice([1, 1, 2, 2, 2, 3]))
    chosen = {rng.choice(scalar).name}
    chosen |= {p.name for p in rng.sample(able, len(able))[: count - 1]}
    varied = [p for p in able if p.name in chosen]
    wanted = rng.choice([2, 2, 2, 2, 3, 3, 4])
    sets = [base]
    for _ in range(wanted * 3):
        made = {**base, **{p.name: p.draw(rng) for p in varied}}
        if all(plain(made) != plain(o) for o in sets):
            sets.append(made)
        if len(sets) == wanted:
            break
    told = [s[p.name] for s in sets for p in varied]
    if len(varied) == 2 and FROM.search(varied[0].name) and TO.search(varied[1].name) and rng.random() < 0.4:
        sets = _onward(sets, *varied)
    if len(sets) < 2 or any(t.whole or NO_LIST.search(t.text) for t in told):
        return None
    return Sets(tool, sets, varied)


def _onward(sets: list[dict[str, Spoken]], first: Param, second: Param) -> list[dict[str, Spoken]]:
    """From Oslo to Rome, and from Rome to Bern: each begins where the one before ended."""
    if first.schema != {"type": "string"} or second.schema != first.schema:
        return sets
    out = [sets[0]]
    for s in sets[1:]:
        made = {**s, first.name: out[-1][second.name]}
        if made[second.name].value != made[first.name].value and all(plain(made) != plain(o) for o in out):
            out.append(made)
    return out


def ended(text: str, asked: str) -> str:
    """A sentence with the stop that the request has."""
    return text + ("?" if asked.endswith("?") else ".")


def listing(rng: random.Random, texts: Sequence[str], split: Split) -> str:
    """Values as people type lists: '5,10 and 15', 'both 5 and 10', "Oslo & Rome", 'first 5, then 10'."""
    tight = all(re.fullmatch(r"-?\d{1,2}|-?\d+\.\d+|[A-Z]{2,5}", t) for t in texts)
    if tight and rng.random() < 0.45:
        return series(texts, rng.choice([",", " and ", ", ", " and ", ", and ", "& "]), ",")
    if any("," in t for t in texts):
        return rng.choice(["; ", " and ", "; and "] if len(texts) == 2 else ["; "]).join(texts)
    if split == "train" and rng.random() < 0.25:
        return _enumerated(rng, texts)
    if rng.random() < 0.12:
        return " and ".join(texts)
    if rng.random() < 0.12:
        return series(texts, rng.choice([" & ", " plus ", " as well as ", " and also ", " and then "]))
    if rng.random() < 0.1:
        return rng.choice(["both ", "", "each of "]) * (len(texts) == 2) + " and ".join(texts)
    return joined(texts, rng)


def _enumerated(rng: random.Random, texts: Sequence[str]) -> str:
    """One after the other, with a word or a mark for the turn or for their number."""
    roll = rng.random()
    if roll < 0.45:
        return series(texts, link(rng, BEFORE_A_VALUE, LINKS, "train"))
    if roll < 0.6:
        then = rng.choice([", then ", ", and then ", ", next ", ", after that "])
        return f"first {then.join(texts)}"
    if roll < 0.7:
        mark = rng.choice(["({i}) ", "{i}) ", "no. {i}: ", "({a}) ", "{a}) "])
        return rng.choice([", ", "; ", " "]).join(
            mark.format(i=i + 1, a="abcd"[i]) + t for i, t in enumerate(texts)
        )
    if roll < 0.8 and not any(re.search(r"[\d/]", t) for t in texts):
        return rng.choice([" / ", "/", " | "]).join(texts)
    told, many = joined(texts, rng), COUNT[len(texts)]
    return told + rng.choice(
        [
            f" (all {many})",
            f" ({many} of them)",
            f", all {many}",
            f", so {many} in all",
            f" ({many} in all)",
            f" - {many} of them",
        ]
    )


def bare(rng: random.Random, drawn: Sets) -> str | None:
    """The request without what differs, without its full stop; None where the tool cannot be asked for so."""
    tool = drawn.tool
    if tool.whole or (tool.sketch and not any("{" not in g for g in tool.sketch.goals)):
        return None
    return tool.ask(rng, drawn.shared())


def with_it(rng: random.Random, drawn: Sets, values: dict[str, Spoken], phrases: Sequence[str]) -> str:
    """What differs in one call, in these phrases: 'with a mass of 2 kg and a length of 3 m'."""
    told = [
        phrase.replace("{v}", values[p.name].text) for p, phrase in zip(drawn.varied, phrases, strict=True)
    ]
    out = told[0]
    for part in told[1:]:
        first, _, rest = part.partition(" ")
        out += f" and {rest}" if out.startswith(f"{first} ") and rest and " and " not in out else f" {part}"
    return out


def phrases_of(rng: random.Random, drawn: Sets, split: Split, like: str = "") -> list[str] | None:
    """A way to tell each value that differs, the same for all calls: 'with a mass of {v} kg'."""
    out = []
    for p in drawn.varied:
        fitting = [
            f
            for f in p.phrases
            if re.match(like or r"(?:with|of|in|at|for|from|to|on|by|between|over|near) ", f)
            and f.count("{") == 1
        ]
        allowed = (
            [f for f in fitting if len(p.phrases) < 4 or f != kept(p.phrases)]
            if split == "train"
            else fitting
        )
        if allowed and len(words(p.name)) > 1 and rng.random() < 0.7:
            out.append(rng.choice(allowed))
        else:
            out.append(f"with {holding(words(p.name), '{v}' + unit_of(p))}")
    return out if len(set(out)) == len(out) else None


def unit_of(p: Param) -> str:
    """What stands behind its value: ' kg', '%'."""
    tails = (UNIT.match(f, f.index("{v}") + 3) for f in p.phrases if "{v}" in f)
    return next((m.group() for m in tails if m), "")


def holding(noun: str, value: str) -> str:
    """'a mass of 2 kg', 'days of 3', 'a = 3'."""
    return f"{noun} = {value}" if len(noun) < 2 else f"{_article(noun)} of {value}"


def _article(noun: str) -> str:
    if (noun.endswith("s") and not noun.endswith("ss")) or re.match(r"(?:the|my|given) ", noun):
        return noun
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"
