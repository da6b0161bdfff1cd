# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Requests for several calls of one tool, told as people tell them. Knows no turns.

The tool's own request is asked for with a mark in place of each value that differs between the calls; what stands
around the marks is then told once for each call: "3 kg in Oslo, 5 kg in Rome and 8 kg in Bern".
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.naming import SUFFIXES, Split, capital, joined, kept, pick, plural, uncapital, words
from training.phrases import (
    AGAIN,
    BEFORE_A_VALUE,
    COUNTED,
    EACH,
    LEADS,
    LED_LINKS,
    LINED,
    LINKS,
    ONES,
    PEOPLE,
    PLAIN,
    STARTS,
    TUPLES,
    adverbial,
)
from training.spoken import SCALARS, Param, Spoken
from training.tools import Task, Tool, arguments, plain

MARK = 0xE000  # one private character a value that differs
MARKS = re.compile("[\ue000-\ue0ff]")
# a value inside a word or formula
GLUED = re.compile("[\ue000-\ue0ff](?:[-\\w^*]| ?[+*=])|(?:[\\w/^]|[+*] )[\ue000-\ue0ff]")
NO_LIST = re.compile(r"[?!;\"\n]|\.(?!\d)")  # a text that cannot stand in a list of several
UNIT = re.compile(
    r"(?:%|°C|°F|°| ?(?:kg|km/h|km|cm|mm|mph|m/s\^?2?|m/s²|m/s|m|ft|lbs?|g|L|ml|kWh|J|N|V|A|W|K|Pa|Hz|USD|EUR|GBP|units?|percent|degrees(?: (?:Celsius|Fahrenheit|C|F))?"
    r"|dollars|euros|meters|metres|feet|inches|centimeters|liters|litres|kilograms|kilometers|kilometres|miles|pounds|grams|seconds|minutes|hours|days|nights|weeks|months|years"
    r"|people|guests|passengers|adults|rooms|pieces|items|points|words|characters|pixels|square feet|square meters|sq ft|ohms|volts|amps|joules|newtons|moles|kelvin|Kelvin))(?![\w/])",
)
PREPOSITION = re.compile(
    r"(?:^|(?<=\W))(?:in|on|at|of|for|from|to|with|between|by|near|around|about|over|after|against|within|through|under|named|called|titled|priority|dated)(?: an?| the)? $"
)
HEAD = re.compile(
    r"(?:^|(?<=\W))(?:(?:in|with|for|at|of|using|between|whose|where|from)(?: an?| the)?|an?|the) (?:(?!are|is|there|and|does)[a-z-]+ ){1,2}(?:of|is|for|in|to|at|between) $"
)
COUNT = {2: "two", 3: "three", 4: "four"}
NTH = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class _Sets:
    """Values of as many calls; the parameters that differ, in the order of the schema."""

    tool: Tool
    sets: list[dict[str, Spoken]]
    varied: list[Param]

    def task(self, request: str) -> Task:
        return Task(request, tuple((self.tool.name, plain(s)) for s in self.sets), tuple(self.sets))

    def shared(self) -> dict[str, Spoken]:
        """What all calls have in common."""
        names = {p.name for p in self.varied}
        return {k: v for k, v in self.sets[0].items() if k not in names}


def together(rng: random.Random, tool: Tool, split: Split) -> Task | None:
    """One request for two to four calls of the tool; None where this tool's requests do not allow the form drawn."""
    drawn = _sets(rng, tool)
    if not drawn:
        return None
    forms = (_spans, _cases, _again, _crossed, _pairs, _counted, _lines)
    weights = (38, 24, 16, 9, 8, 7, 7)
    for form in dict.fromkeys(rng.choices(forms, weights, k=3)):
        if task := form(rng, drawn, split):
            named = f"{rng.choice(['Use', 'Please use', 'Call'])} {tool.name}{rng.choice(['', ' for this', ' for each'])}."
            if rng.random() < 0.05 and task.request[-1:] in ".?!":
                return Task(f"{task.request} {named}", task.calls, task.spoken)
            return task
    return None


def _sets(rng: random.Random, tool: Tool) -> _Sets | None:
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
    return _Sets(tool, sets, varied)


FROM = re.compile(r"origin|from|start|source|departure|pickup", re.I)
TO = re.compile(r"dest|to(?:_|$)|[a-z]To|end|target|arriv|dropoff", re.I)


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


def _marked(rng: random.Random, drawn: _Sets) -> str | None:
    """The tool's request with a mark for each value that differs; None if one is lost, or told twice."""
    marks = {p.name: Spoken(None, chr(MARK + i)) for i, p in enumerate(drawn.varied)}
    text = drawn.tool.ask(rng, {**drawn.sets[0], **marks})
    if sorted(MARKS.findall(text)) != [m.text for m in marks.values()]:
        return None
    if GLUED.search(text):
        return None
    told = [v.text for k, v in drawn.sets[0].items() if k not in marks]
    return None if any(_beside(text, m.start(), told) for m in MARKS.finditer(text)) else text


def _beside(text: str, at: int, told: Sequence[str]) -> bool:
    """Whether a list at the mark would run into a value beside it: "of 61 and ..."."""
    before = re.search(r"(?:,| (?:and|or|x|by|plus|versus|vs|to|times))(?: the| a| an)? $", text[:at])
    if before and UNIT.sub("", text[: before.start()]).endswith(tuple(told)):
        return True
    after = re.match(r"(?:\W?\w+)?(?:,| (?:and|or|x|by|plus|versus|vs)) (?:the |an? )?", text[at + 1 :])
    return after is not None and text[at + 1 + after.end() :].startswith(tuple(told))


def _fill(text: str, drawn: _Sets, values: dict[str, Spoken]) -> str:
    told = MARKS.sub(lambda m: values[drawn.varied[ord(m.group()) - MARK].name].text, text)
    # "the next week", told as "a week"
    return re.sub(r"\b(last|next|past|coming|upcoming) an? ", r"\1 ", told)


# ── what stands around the values, told for each call ────────────────────────────────────────


def _spans(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """'… 3 kg in Oslo, 5 kg in Rome and 8 kg in Bern': the words from the first to the last value, for each call."""
    text = _marked(rng, drawn)
    span = text and _span(text)
    if not text or not span:
        return None
    low, high = span
    unit = UNIT.match(text, high)
    if unit and (len(drawn.varied) > 1 or rng.random() < 0.5):
        high = unit.end()
    one = len(drawn.varied) == 1
    reach = rng.random()
    led = ""
    # the words before: "the factorial of 5, the factorial of 7", "in Oslo and in Rome", or nothing
    if match := (
        HEAD.search(text, 0, low)
        if reach < 0.3
        else PREPOSITION.search(text, 0, low)
        if reach < 0.65
        else None
    ):
        led = match.group()
        low = match.start()
    if (nested := _nested(rng, drawn)) and not led[:1].isupper():
        pairs, sets = nested
        groups = [_fill(text[low:high], drawn, p) for p in pairs]
        told = ", ".join(groups[:-1]) + rng.choice([", and ", "; ", ", then ", ", and also "]) + groups[-1]
        return _Sets(drawn.tool, sets, drawn.varied).task(text[:low] + told + text[high:])
    groups = [_fill(text[low:high], drawn, s) for s in drawn.sets]
    if one and not led and rng.random() < 0.5:
        told = _listed(rng, groups)
    else:
        if led[:1].isupper():
            groups[1:] = [g[0].lower() + g[1:] for g in groups[1:]]
        told = _linked(rng, groups, bool(led), split)
    if text[high:].strip(" .") or "?" in text[high:]:  # what follows belongs to all
        told = told.replace(". Also ", ", also ").replace(". And ", ", and ")
    lead = ""
    if one and not led and rng.random() < 0.15 and PREPOSITION.search(text, 0, low):
        lead = rng.choice(
            ["each of ", "these: ", "the following: ", "both " if len(groups) == 2 else "all of "]
        )
    return drawn.task(text[:low] + lead + told + text[high:])


def _nested(
    rng: random.Random, drawn: _Sets
) -> tuple[list[dict[str, Spoken]], list[dict[str, Spoken]]] | None:
    """'basil in May and June, and mint in July and August': what is told for each group, and the calls."""
    if (
        len(drawn.varied) != 2
        or any(p.schema["type"] == "array" for p in drawn.varied)
        or rng.random() > 0.12
    ):
        return None
    outer, inner = rng.sample(drawn.varied, 2)
    told, sets = [], []
    for s in drawn.sets[:2]:
        values = [s[inner.name], inner.draw(rng)]
        if values[0].value == values[1].value or any(NO_LIST.search(v.text) or "," in v.text for v in values):
            return None
        told.append({**s, inner.name: Spoken(None, " and ".join(v.text for v in values))})
        sets += [{**s, inner.name: v} for v in values]
    return None if plain(told[0])[outer.name] == plain(told[1])[outer.name] else (told, sets)


def _span(text: str) -> tuple[int, int] | None:
    """From the first mark to the last, quotes with them; None if sentences or many words lie between."""
    at = [m.start() for m in MARKS.finditer(text)]
    low, high = at[0], at[-1] + 1
    if (
        high < len(text)
        and text[low - 1 : low] in ("'", '"', "(", "[")
        and low
        and text[high] in ("'", '"', ")", "]")
    ):
        low, high = low - 1, high + 1
    elif text[low - 1 : low] == "$" and low:
        low -= 1
    inside = text[low:high]
    if (
        len(inside) > 70
        or re.search(r"[.?!;]\s|\n", inside)
        or inside.count('"') % 2
        or inside.count("(") != inside.count(")")
    ):
        return None
    if (high < len(text) and re.match(r"[-\w'\"]", text[high])) or (
        low and re.match(r"[-\w'\"/]", text[low - 1])
    ):
        return None
    return low, high


def _listed(rng: random.Random, texts: Sequence[str]) -> str:
    """Values as people type lists: '5,10 and 15', 'both 5 and 10', "Oslo & Rome"."""
    tight = all(re.fullmatch(r"-?\d{1,2}|-?\d+\.\d+|[A-Z]{2,5}", t) for t in texts)
    if tight and rng.random() < 0.45:
        return ",".join(texts[:-1]) + rng.choice([",", " and ", ", ", " and ", ", and ", "& "]) + texts[-1]
    if any("," in t for t in texts):
        return rng.choice(["; ", " and ", "; and "] if len(texts) == 2 else ["; "]).join(texts)
    if rng.random() < 0.12:
        return " and ".join(texts)
    if rng.random() < 0.12:
        return (
            ", ".join(texts[:-1])
            + rng.choice([" & ", " plus ", " as well as ", " and also ", " and then "])
            + texts[-1]
        )
    if rng.random() < 0.1:
        return rng.choice(["both ", "", "each of "]) * (len(texts) == 2) + " and ".join(texts)
    return joined(texts, rng)


def _linked(rng: random.Random, groups: Sequence[str], led: bool, split: Split) -> str:
    """Groups of values one after the other; the last link is not what stands within a group."""
    inner = any(" and " in g for g in groups)
    if led and rng.random() < 0.5:
        link = pick(rng, LED_LINKS, split) if rng.random() < 0.85 else " and also "
        between = link if len(groups) == 2 or rng.random() < 0.3 else ", "
    else:
        wild = split == "train" and rng.random() < 0.25
        link = adverbial(rng, BEFORE_A_VALUE) if wild else pick(rng, LINKS, split)
        between = ", " if link != "; " else link
    if inner and link in (" and ", " & ", " as well as "):
        link = rng.choice([", ", "; ", ", and ", " and also "])
        between = link if link == "; " else ", "
    return between.join(groups[:-1]) + link + groups[-1]


# ── case by case ─────────────────────────────────────────────────────────────────────────────

THING = re.compile(r"\b(?:of|for|in|from) an? ((?:[a-z]+ )?[a-z]+)$")
LABELS: tuple[Callable[[random.Random, int], str], ...] = (
    lambda r, i: f"case {'ABCD'[i]}",
    lambda r, i: f"the {NTH[i]} case",
    lambda r, i: f"the {NTH[i]} one",
    lambda r, i: f"number {i + 1}",
    lambda r, i: f"option {'ABCD'[i]}",
    lambda r, i: f"group {i + 1}",
    lambda r, i: f"the {NTH[i]} round",
    lambda r, i: f"team {'ABCD'[i]}",
    lambda r, i: f"day {i + 1}",
    lambda r, i: f"plan {i + 1}",
)


def _bare(rng: random.Random, drawn: _Sets) -> str | None:
    """The request without what differs, without its full stop; None where the tool cannot be asked for so."""
    tool = drawn.tool
    if tool.whole or (tool.sketch and not any("{" not in g for g in tool.sketch.goals)):
        return None
    return tool.ask(rng, drawn.shared())


def _with_it(rng: random.Random, drawn: _Sets, values: dict[str, Spoken], phrases: Sequence[str]) -> str:
    told = [
        phrase.replace("{v}", values[p.name].text) for p, phrase in zip(drawn.varied, phrases, strict=True)
    ]
    out = told[0]
    for part in told[1:]:
        first, _, rest = part.partition(" ")
        out += f" and {rest}" if out.startswith(f"{first} ") and rest and " and " not in out else f" {part}"
    return out


def _phrases(rng: random.Random, drawn: _Sets, split: Split, like: str = "") -> list[str] | None:
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
            out.append(f"with {_holding(words(p.name), '{v}' + _unit(p))}")
    return out if len(set(out)) == len(out) else None


def _unit(p: Param) -> str:
    """What stands behind its value: ' kg', '%'."""
    tails = (UNIT.match(f, f.index("{v}") + 3) for f in p.phrases if "{v}" in f)
    return next((m.group() for m in tails if m), "")


def _holding(noun: str, value: str) -> str:
    """'a mass of 2 kg', 'days of 3', 'a = 3'."""
    return f"{noun} = {value}" if len(noun) < 2 else f"{_article(noun)} of {value}"


def _article(noun: str) -> str:
    if (noun.endswith("s") and not noun.endswith("ss")) or re.match(r"(?:the|my|given) ", noun):
        return noun
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


def _cases(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """'… two circles, one with …, the other with …'; 'The first has …'; 'For Anna, …; for Ben, …'."""
    asked = _bare(rng, drawn)
    phrases = _phrases(rng, drawn, split)
    if not asked or not phrases:
        return None
    n = len(drawn.sets)
    goals = drawn.tool.sketch.goals if drawn.tool.sketch else ()
    things = [m.group(1) for g in goals if "{" not in g and (m := THING.search(g))]
    thing = rng.choice(things) if things else rng.choice(["case", "case", "item", "one"])
    things_ = "cases" if thing == "one" else plural(thing)
    told = [_with_it(rng, drawn, s, phrases) for s in drawn.sets]
    style = rng.random()
    if style < 0.3:
        form = pick(rng, ONES, split)
        rest = [f"one {w}" for w in told[1:]]
        if n == 2:
            rest = [f"{rng.choice(['the other', 'the other one', 'another', 'one'])} {told[1]}"]
        link = rng.choice([" and ", ", and ", ", "])
        first = form.format(q=asked.rstrip(".?!"), n=COUNT[n], w=told[0])
        end = (
            "?"
            if asked.endswith("?") and ":" not in form and ". " not in form
            else rng.choice([".", ".", ""])
        )
        return drawn.task(", ".join([first, *rest[:-1]]) + link + rest[-1] + end)
    if style < 0.65:
        nouns = [words(p.name) for p in drawn.varied]
        subjects = rng.sample(PEOPLE, n) if rng.random() < 0.25 else []
        verb = rng.choice(
            ["chose", "takes", "has", "uses"] if subjects else ["has", "has", "comes with", "is given"]
        )

        def line(i: int, s: dict[str, Spoken]) -> str:
            who = subjects[i] if subjects else f"the {NTH[i]} {thing}"
            if i == n - 1 and n > 2 and mark_last and not subjects:
                who = f"the last {thing}"
            parts = []
            for p, phrase, noun in zip(drawn.varied, phrases, nouns, strict=True):
                value = s[p.name].text
                if phrase.startswith("with "):
                    parts.append(phrase[5:].replace("{v}", value))
                else:
                    parts.append(_holding(noun, value + _unit(p)))
            return f"{who} {verb} {joined(parts, rng) if len(parts) < 3 else ', '.join(parts[:-1]) + ' and ' + parts[-1]}"

        mark_last = rng.random() < 0.3
        lines = [line(i, s) for i, s in enumerate(drawn.sets)]
        if rng.random() < 0.4:
            body = (
                asked.rstrip(".?!")
                + rng.choice([", where ", " if ", ": ", "; "])
                + ", ".join(lines[:-1])
                + rng.choice([", and ", " and ", ", "])
                + lines[-1]
            )
            return drawn.task(body + ("?" if asked.endswith("?") else "."))
        if subjects and n == 2 and rng.random() < 0.6:
            lines = [rng.choice(["{}, while {}", "{}, and {}", "{}; {}"]).format(*lines)]
        story = " ".join(f"{capital(x)}." for x in lines)
        if rng.random() < 0.4:
            each = pick(rng, EACH, split)
            each = each if n == 2 or "both" not in each else " for each of them"
            end = asked[-1:] if asked[-1:] in ".?!" else ""
            asked = asked.rstrip(".?!") + each + end
        lead = (
            pick(rng, LEADS, split).format(n=COUNT[n], N=COUNT[n].capitalize(), t=things_)
            if rng.random() < 0.7
            else ""
        )
        ask = asked if asked[-1:] in ".?!" else f"{asked}."
        return drawn.task(f"{lead}{story} {ask}" if rng.random() < 0.5 else f"{lead}{ask} {story}")
    if rng.random() < 0.5:
        names = rng.sample(PEOPLE, n)
        label: Callable[[int], str] = lambda i: names[i]  # noqa: E731
    else:
        form_ = rng.choice(LABELS)
        label = lambda i: form_(rng, i)  # noqa: E731
    glue = rng.choice([", ", " ", ": "])
    lines = [f"for {label(i)}{glue}{w}" for i, w in enumerate(told)]
    if rng.random() < 0.5:
        story = " ".join(f"{capital(x)}." for x in lines)
        return drawn.task(f"{asked if asked[-1:] in '.?!' else asked + '.'} {story}")
    body = (
        asked.rstrip(".?!")
        + rng.choice([", ", ": ", " "])
        + rng.choice(["; ", ", "]).join(lines[:-1])
        + rng.choice([" and ", ", and ", "; "])
        + lines[-1]
    )
    return drawn.task(body + ("?" if asked.endswith("?") else "."))


def _counted(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """'… I need it for three cities: Oslo, Rome and Bern.'; 'The first city is Oslo, the second Rome.'"""
    asked = _bare(rng, drawn)
    noun = words(drawn.varied[0].name)
    if not asked or len(drawn.varied) > 1 or len(noun) < 3 or noun.endswith("s"):
        return None
    unit = _unit(drawn.varied[0])
    texts = [f"{s[drawn.varied[0].name].text}{unit}" for s in drawn.sets]
    ask = asked if asked[-1:] in ".?!" else f"{asked}."
    if rng.random() < 0.3:
        told = [
            f"the {NTH[i]} {noun if not i or rng.random() < 0.3 else ''} {'is' if not i or rng.random() < 0.5 else ''} {t}"
            for i, t in enumerate(texts)
        ]
        text = re.sub(
            " +", " ", joined(told, rng) if len(told) == 2 else ", ".join(told[:-1]) + " and " + told[-1]
        )
        story = f"{capital(text)}."
        return drawn.task(f"{story} {ask}" if rng.random() < 0.4 else f"{ask} {story}")
    tail = pick(rng, COUNTED, split).format(n=COUNT[len(texts)], t=plural(noun), l=_listed(rng, texts))
    return drawn.task(ask + tail if not tail.startswith(" (") else ask.rstrip(".?!") + tail)


def _lines(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """'… for each of these:' and a line for each call."""
    asked = _bare(rng, drawn)
    if not asked:
        return None
    names = [words(p.name) for p in drawn.varied]
    sign = rng.choice([" ", ": ", " = ", " of "])
    rows = []
    for s in drawn.sets:
        texts = [f"{s[p.name].text}{_unit(p)}" for p in drawn.varied]
        if len(names) > 1 or rng.random() < 0.3:
            texts = [f"{n}{sign}{t}" for n, t in zip(names, texts, strict=True)]
        rows.append(rng.choice([", ", "; "]).join(texts))
    mark = rng.choice(["- ", "* ", "{i}. ", "{i}) ", "", "({i}) "])
    head = pick(rng, LINED, split).format(t=plural(names[0]) if len(names) == 1 else "cases")
    lines = [mark.format(i=i) + row for i, row in enumerate(rows, 1)]
    return drawn.task(asked.rstrip(".?!") + head + "\n" + "\n".join(lines))


# ── once more, with what differs ─────────────────────────────────────────────────────────────

SAME = re.compile(r"(?:^|(?<=\W))(?:in|of|for|from|to|at|against|by|near|on|about|with|around) $")


def _again(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """The whole request once, then 'Do the same with …' for each other; or whole sentences with 'the same city'."""
    tool = drawn.tool
    if rng.random() < 0.4 and (text := _whole_again(rng, drawn, split)):
        return drawn.task(text)
    phrases = _phrases(rng, drawn, split, r"(?:with|in|at|for|from|to|on|over|near) ")
    if not phrases:
        return None
    text = tool.ask(rng, drawn.sets[0])
    text = text if text[-1:] in ".?!" else f"{text}."
    rest = [_with_it(rng, drawn, s, phrases) for s in drawn.sets[1:]]
    if len(drawn.varied) == 1 and len(rest) > 1 and rng.random() < 0.5:  # 'Do the same for Oslo and Rome.'
        texts = [s[drawn.varied[0].name].text for s in drawn.sets[1:]]
        rest = [phrases[0].replace("{v}", _listed(rng, texts))]
    for told in rest:
        again = pick(rng, AGAIN, split).format(w=told)
        if not tool.sketch or tool.sketch.opened != "c":
            again = again.replace("same calculation", "same thing")
        text += again
    return drawn.task(text)


def _whole_again(rng: random.Random, drawn: _Sets, split: Split) -> str | None:
    """A sentence for each call; what they share stands there again, or as 'the same city'."""
    tool = drawn.tool
    shared = [
        p
        for p in tool.params
        if p.name in drawn.shared() and p.schema["type"] == "string" and "enum" not in p.schema
    ]
    nouns = {p.name: words(p.name).split()[-1] for p in tool.params}
    shared = [
        p
        for p in shared
        if list(nouns.values()).count(nouns[p.name]) == 1
        and nouns[p.name].isalpha()
        and nouns[p.name] not in SUFFIXES
    ]
    sentences = []
    for i, s in enumerate(drawn.sets):
        if not i or not shared:
            part = tool.ask(rng, s)
        else:
            p = rng.choice(shared)
            mark = chr(MARK)
            part = tool.ask(rng, {**s, p.name: Spoken(None, mark)})
            at = part.find(mark)
            fits = at >= 0 and SAME.search(part, 0, at) and re.match(r"[ ,.?]|$", part[at + 1 :])
            part = part.replace(mark, f"the same {nouns[p.name]}" if fits else s[p.name].text)
        part = part if part[-1:] in ".?!" else f"{part}."
        if i:
            wild = split == "train" and rng.random() < 0.25
            start = adverbial(rng, ("{A}, ",)) if wild else pick(rng, STARTS, split)
            part = start + uncapital(part, [v.text for v in s.values()]) if rng.random() < 0.8 else part
        sentences.append(part)
    return " ".join(sentences)


# ── each with each, and tuples ───────────────────────────────────────────────────────────────


def _crossed(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """Two lists without 'respectively': each of the one with each of the other, the first told the outer."""
    if len(drawn.varied) != 2 or any(p.schema["type"] == "array" for p in drawn.varied):
        return None
    text = _marked(rng, drawn)
    if not text:
        return None
    between = MARKS.split(text)[1]
    between = between[unit.end() :] if (unit := UNIT.match(between)) else between
    between = between.strip(" ,")
    if between in ("", "and", "or", "to", "x", "as well as", "and also", "plus"):
        return None  # two lists side by side read as one
    by_place = [drawn.varied[ord(m) - MARK] for m in MARKS.findall(text)]
    columns: list[list[Spoken]] = []
    for p in by_place:
        values: list[Spoken] = []
        for s in drawn.sets:
            if all(s[p.name].value != v.value for v in values) and "," not in s[p.name].text:
                values.append(s[p.name])
        columns.append(values[:2])
    if min(map(len, columns)) < 2 or any(" and " in v.text for c in columns for v in c):
        return None
    outer, inner = by_place
    sets = [{**drawn.sets[0], outer.name: a, inner.name: b} for a in columns[0] for b in columns[1]]
    # each in the quotes that stand around the first
    around = [q if (q := text[m.start() - 1 : m.start()]) in ("'", '"') else "" for m in MARKS.finditer(text)]
    lists = {
        p.name: Spoken(None, f"{q} and {q}".join(v.text for v in c))
        for p, c, q in zip(by_place, columns, around, strict=True)
    }
    request = _fill(text, drawn, lists)
    if rng.random() < 0.7:
        tail = rng.choice(
            [
                ", for each pair",
                ", in every combination",
                ", each with each",
                " (all combinations)",
                ", all four",
            ]
        )
        request = request.rstrip(".?!") + tail + (request[-1] if request[-1:] in ".?!" else ".")
    return _Sets(drawn.tool, sets, drawn.varied).task(request)


LIKE_PAIR = re.compile(
    r"(?:^|[a-z]_?)(?:a|b|c|x|y|z|1|2|first|second|one|two)$|^(?:first|second|from|to|start|end|base|target)_|number|side|value"
)


def _pairs(rng: random.Random, drawn: _Sets, split: Split) -> Task | None:
    """'the pairs (45, 60) and (81, 27)', in the order of the schema."""
    varied = drawn.varied
    if len(varied) < 2 or any(
        p.schema["type"] == "array" or "%" in _unit(p) or "percent" in _unit(p) for p in varied
    ):
        return None
    rows = [[s[p.name].text for p in varied] for s in drawn.sets]
    if any("," in t or " and " in t for row in rows for t in row):
        return None
    asked = _bare(rng, drawn)
    if not asked or asked.endswith('"'):
        return None
    kind = "pairs" if len(varied) == 2 else "sets of values"
    forms: list[Callable[[list[str]], str]] = [
        lambda r: f"({', '.join(r)})",
        lambda r: f"({', '.join(r)})",
        lambda r: f"[{', '.join(r)}]",
    ]
    if len(varied) == 2:
        forms += [lambda r: " and ".join(r), lambda r: " / ".join(r), lambda r: " with ".join(r)]
    form = rng.choice(forms)
    groups = [form(r) for r in rows]
    inner = " and " in groups[0]
    told = (
        "; ".join(groups)
        if inner and rng.random() < 0.5
        else ", ".join(groups)
        if inner or rng.random() < 0.3
        else joined(groups, rng)
    )
    # without their names only where the order alone tells which is which
    plainly = (
        all(LIKE_PAIR.search(p.name.lower()) for p in varied) and len({p.schema["type"] for p in varied}) == 1
    )
    names = (
        " and ".join(words(p.name) for p in varied)
        if len(varied) == 2
        else ", ".join(words(p.name) for p in varied)
    )
    tail = pick(rng, PLAIN if plainly and rng.random() < 0.7 else TUPLES, split).format(
        k=kind, n=names, l=told, c=COUNT[len(groups)]
    )
    if asked.endswith("?"):
        tail = tail.rstrip(".") + "?"
    return drawn.task(asked.rstrip(".?!") + tail)
