# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Several calls told within the request: it is asked for with a mark in place of each value that differs, and what
stands around the marks is told for each call. Knows nothing of what may stand beside a request."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from training.naming import Split, choose, pick, series
from training.phrases import BEFORE_A_VALUE, CROSSED, LED_LINKS, LINKS, link
from training.several.sets import NO_LIST, UNIT, Sets, listing
from training.spoken import Spoken
from training.tools import Task, plain

# between groups that hold lists; in training also these
OUTER_LINKS = (
    ", as well as ",
    ", and then ",
    ", plus ",
    "; and ",
    "; then ",
    "; also ",
    "; and also ",
    "; as well as ",
    "; plus ",
    "; further ",
    ", and further ",
)
MARK = 0xE000  # one private character a value that differs
MARKS = re.compile("[\ue000-\ue0ff]")
# a value inside a word or formula
GLUED = re.compile("[\ue000-\ue0ff](?:[-\\w^*]| ?[+*=])|(?:[\\w/^]|[+*] )[\ue000-\ue0ff]")
PREPOSITION = re.compile(
    r"(?:^|(?<=\W))(?:in|on|at|of|for|from|to|with|between|by|near|around|about|over|after|against|within|through|under|named|called|titled|priority|dated)(?: an?| the)? $"
)
HEAD = re.compile(
    r"(?:^|(?<=\W))(?:(?:in|with|for|at|of|using|between|whose|where|from)(?: an?| the)?|an?|the) (?:(?!are|is|there|and|does)[a-z-]+ ){1,2}(?:of|is|for|in|to|at|between) $"
)


def spans(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
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
        told = series(groups, choose(rng, [", and ", "; ", ", then ", ", and also "], OUTER_LINKS, split))
        return Sets(drawn.tool, sets, drawn.varied).task(text[:low] + told + text[high:])
    groups = [_fill(text[low:high], drawn, s) for s in drawn.sets]
    if one and not led and rng.random() < 0.5:
        told = listing(rng, groups, split)
    else:
        if led[:1].isupper():
            groups[1:] = [g[0].lower() + g[1:] for g in groups[1:]]
        told = _linked(rng, groups, bool(led), split)
    if text[high:].strip(" .") or "?" in text[high:]:  # what follows belongs to all
        told = told.replace(". Also ", ", also ").replace(". And ", ", and ")
    lead = ""
    if one and not led and rng.random() < 0.15 and PREPOSITION.search(text, 0, low):
        lead = choose(
            rng,
            ["each of ", "these: ", "the following: ", "both " if len(groups) == 2 else "all of "],
            [
                "each of these: ",
                "all of these: ",
                "all of the following: ",
                "every one of ",
                "each of the following: ",
            ],
            split,
        )
    return drawn.task(text[:low] + lead + told + text[high:])


def _nested(
    rng: random.Random, drawn: Sets
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


def _linked(rng: random.Random, groups: Sequence[str], led: bool, split: Split) -> str:
    """Groups of values one after the other; the last link is not what stands within a group."""
    inner = any(" and " in g for g in groups)
    if led and rng.random() < 0.5:
        last = pick(rng, LED_LINKS, split) if rng.random() < 0.85 else " and also "
        between = last if len(groups) == 2 or rng.random() < 0.3 else ", "
    else:
        last = link(rng, BEFORE_A_VALUE, LINKS, split)
        between = ", " if last != "; " else last
    if inner and last in (" and ", " & ", " as well as "):
        last = rng.choice([", ", "; ", ", and ", " and also "])
        between = last if last == "; " else ", "
    return series(groups, last, between)


def crossed(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
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
        tail = choose(
            rng,
            [
                ", for each pair",
                ", in every combination",
                ", each with each",
                " (all combinations)",
                ", all four",
            ],
            CROSSED,
            split,
        )
        request = request.rstrip(".?!") + tail + (request[-1] if request[-1:] in ".?!" else ".")
    return Sets(drawn.tool, sets, drawn.varied).task(request)


def _marked(rng: random.Random, drawn: Sets) -> str | None:
    """The tool's request with a mark for each value that differs; None if one is lost, or told twice."""
    marks = {p.name: Spoken(None, chr(MARK + i)) for i, p in enumerate(drawn.varied)}
    text = drawn.tool.ask(rng, {**drawn.sets[0], **marks})
    if sorted(MARKS.findall(text)) != [m.text for m in marks.values()]:
        return None
    if GLUED.search(text):
        return None
    told = [v.text for k, v in drawn.sets[0].items() if k not in marks]
    return None if any(beside_another(text, m.start(), told) for m in MARKS.finditer(text)) else text


def beside_another(text: str, at: int, told: Sequence[str]) -> bool:
    """Whether a list at the mark would run into a value beside it: "of 61 and ..."."""
    before = re.search(r"(?:,| (?:and|or|x|by|plus|versus|vs|to|times))(?: the| a| an)? $", text[:at])
    if before and UNIT.sub("", text[: before.start()]).endswith(tuple(told)):
        return True
    rest = UNIT.sub("", text[at + 1 :], count=1) if UNIT.match(text, at + 1) else text[at + 1 :]
    after = re.match(r"(?:\W?\w+)?(?:,| (?:and|or|x|by|plus|versus|vs)) (?:the |an? )?", rest)
    return after is not None and rest[after.end() :].startswith(tuple(told))


def _fill(text: str, drawn: Sets, values: dict[str, Spoken]) -> str:
    told = MARKS.sub(lambda m: values[drawn.varied[ord(m.group()) - MARK].name].text, text)
    # "the next week", told as "a week"
    return re.sub(r"\b(last|next|past|coming|upcoming) an? ", r"\1 ", told)
