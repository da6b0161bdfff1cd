# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Several calls told beside the request: it is made without what differs, or once with it, and a case, a line, a
tuple or a "do the same" follows for each call. Knows nothing of how the request itself was worded."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from training.naming import (
    SUFFIXES,
    Split,
    capital,
    choose,
    joined,
    pick,
    plural,
    series,
    stopped,
    uncapital,
    words,
)
from training.phrases import (
    AGAIN,
    COUNTED,
    EACH,
    LEADS,
    LINED,
    MARKS,
    ONES,
    PEOPLE,
    PLAIN,
    STARTS,
    TUPLES,
    link,
)
from training.several.sets import (
    COUNT,
    NTH,
    Sets,
    bare,
    ended,
    holding,
    listing,
    phrases_of,
    unit_of,
    with_it,
)
from training.spoken import Spoken
from training.tools import Task

# ── case by case ─────────────────────────────────────────────────────────────────────────────

THING = re.compile(r"\b(?:of|for|in|from) an? ((?:[a-z]+ )?[a-z]+)$")
LABELS = (
    "case {a}", "the {nth} case", "the {nth} one", "number {i}", "option {a}", "group {i}", "the {nth} round", "team {a}", "day {i}", "plan {i}",
)  # fmt: skip

# in training also these
MORE_LABELS = (
    "case {i}", "option {i}", "group {a}", "team {i}", "plan {a}", "set {a}", "set {i}", "item {a}", "item {i}", "version {a}", "version {i}", "variant {a}", "variant {i}", "scenario {a}",
    "scenario {i}", "round {i}", "step {i}", "week {i}", "test {a}", "test {i}", "run {i}", "sample {a}", "sample {i}", "person {a}", "site {a}", "the {nth} time", "the {nth} item", "the {nth} option", "the {nth} test",
)  # fmt: skip
THINGS = ("example", "entry", "request", "variant", "instance", "scenario", "option", "round")
OTHERS = (
    "a second", "a second one", "the second", "the second one", "another one", "the next", "the next one", "one more", "a further one",
)  # fmt: skip
CHOSE = (
    "picked",
    "wants",
    "needs",
    "works with",
    "decided on",
    "went for",
    "asks for",
    "prefers",
    "gave",
    "wrote",
)
HAS = ("takes", "gets", "shows", "is to have", "should have", "needs", "uses", "goes with", "is said to have")
WHERE = (
    " when ",
    " - ",
    ", given that ",
    " given that ",
    ", if ",
    ", knowing that ",
    " provided that ",
    ", assuming that ",
)


def cases(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
    """'… two circles, one with …, the other with …'; 'The first has …'; 'For Anna, …; for Ben, …'."""
    asked = bare(rng, drawn)
    phrases = phrases_of(rng, drawn, split)
    if not asked or not phrases:
        return None
    goals = drawn.tool.sketch.goals if drawn.tool.sketch else ()
    things = [m.group(1) for g in goals if "{" not in g and (m := THING.search(g))]
    thing = rng.choice(things) if things else choose(rng, ["case", "case", "item", "one"], THINGS, split)
    told = [with_it(rng, drawn, s, phrases) for s in drawn.sets]
    style = rng.random()
    if style < 0.3:
        return drawn.task(_ones(rng, asked, told, split))
    if style < 0.65:
        return drawn.task(_story(rng, drawn, asked, phrases, thing, split))
    return drawn.task(_labelled(rng, asked, told, split))


def _ones(rng: random.Random, asked: str, told: Sequence[str], split: Split) -> str:
    """'… two of them, one with …, the other with …'."""
    form = pick(rng, ONES, split)
    rest = [f"one {w}" for w in told[1:]]
    if len(told) == 2:
        other = choose(rng, ["the other", "the other one", "another", "one"], OTHERS, split)
        rest = [f"{other} {told[1]}"]
    last = rng.choice([" and ", ", and ", ", "])
    first = form.format(q=asked.rstrip(".?!"), n=COUNT[len(told)], w=told[0])
    goes_on = asked.endswith("?") and ":" not in form and ". " not in form
    return series([first, *rest], last) + ("?" if goes_on else rng.choice([".", ".", ""]))


def _story(
    rng: random.Random, drawn: Sets, asked: str, phrases: Sequence[str], thing: str, split: Split
) -> str:
    """'The first circle has …, the second …', or 'Anna chose …', before the request, behind it or in it."""
    n = len(drawn.sets)
    subjects = rng.sample(PEOPLE, n) if rng.random() < 0.25 else []
    verb = (
        choose(rng, ["chose", "takes", "has", "uses"], CHOSE, split)
        if subjects
        else choose(rng, ["has", "has", "comes with", "is given"], HAS, split)
    )
    names = subjects or [f"the {nth} {thing}" for nth in NTH[:n]]
    if rng.random() < 0.3 and n > 2 and not subjects:
        names[-1] = f"the last {thing}"
    lines = []
    for name, values in zip(names, drawn.sets, strict=True):
        parts = []
        for p, phrase in zip(drawn.varied, phrases, strict=True):
            value = values[p.name].text
            led = phrase.startswith("with ")
            parts.append(
                phrase[5:].replace("{v}", value) if led else holding(words(p.name), value + unit_of(p))
            )
        lines.append(f"{name} {verb} {joined(parts, rng) if len(parts) < 3 else series(parts, ' and ')}")
    if rng.random() < 0.4:
        lead = asked.rstrip(".?!") + choose(rng, [", where ", " if ", ": ", "; "], WHERE, split)
        return ended(lead + series(lines, rng.choice([", and ", " and ", ", "])), asked)
    if subjects and n == 2 and rng.random() < 0.6:
        both = choose(
            rng,
            ["{}, while {}", "{}, and {}", "{}; {}"],
            ["{}, whereas {}", "{}, but {}", "{} and {}"],
            split,
        )
        lines = [both.format(*lines)]
    story = " ".join(f"{capital(x)}." for x in lines)
    if rng.random() < 0.4:
        each = pick(rng, EACH, split)
        each = each if n == 2 or "both" not in each else " for each of them"
        asked = asked.rstrip(".?!") + each + (asked[-1:] if asked[-1:] in ".?!" else "")
    lead = ""
    if rng.random() < 0.7:
        many = "cases" if thing == "one" else plural(thing)
        lead = pick(rng, LEADS, split).format(n=COUNT[n], N=COUNT[n].capitalize(), t=many)
    ask = stopped(asked)
    return f"{lead}{story} {ask}" if rng.random() < 0.5 else f"{lead}{ask} {story}"


def _labelled(rng: random.Random, asked: str, told: Sequence[str], split: Split) -> str:
    """'… for Anna, with …; for Ben, with …'."""
    if rng.random() < 0.5:
        names = rng.sample(PEOPLE, len(told))
    else:
        label = choose(rng, LABELS, MORE_LABELS, split)
        names = [label.format(a="ABCD"[i], i=i + 1, nth=NTH[i]) for i in range(len(told))]
    glue = rng.choice([", ", " ", ": "])
    lines = [f"for {name}{glue}{w}" for name, w in zip(names, told, strict=True)]
    if rng.random() < 0.5:
        return f"{stopped(asked)} {' '.join(f'{capital(x)}.' for x in lines)}"
    lead = asked.rstrip(".?!") + rng.choice([", ", ": ", " "])
    rows = series(lines, between=rng.choice(["; ", ", "]), last=rng.choice([" and ", ", and ", "; "]))
    return ended(lead + rows, asked)


def counted(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
    """'… I need it for three cities: Oslo, Rome and Bern.'; 'The first city is Oslo, the second Rome.'"""
    asked = bare(rng, drawn)
    noun = words(drawn.varied[0].name)
    if not asked or len(drawn.varied) > 1 or len(noun) < 3 or noun.endswith("s"):
        return None
    unit = unit_of(drawn.varied[0])
    texts = [f"{s[drawn.varied[0].name].text}{unit}" for s in drawn.sets]
    ask = stopped(asked)
    if rng.random() < 0.3:
        told = [
            f"the {NTH[i]} {noun if not i or rng.random() < 0.3 else ''} {'is' if not i or rng.random() < 0.5 else ''} {t}"
            for i, t in enumerate(texts)
        ]
        text = re.sub(" +", " ", joined(told, rng) if len(told) == 2 else series(told, " and "))
        story = f"{capital(text)}."
        return drawn.task(f"{story} {ask}" if rng.random() < 0.4 else f"{ask} {story}")
    tail = pick(rng, COUNTED, split).format(n=COUNT[len(texts)], t=plural(noun), l=listing(rng, texts, split))
    return drawn.task(ask + tail if not tail.startswith(" (") else ask.rstrip(".?!") + tail)


def lines(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
    """'… for each of these:' and a line for each call."""
    asked = bare(rng, drawn)
    if not asked:
        return None
    names = [words(p.name) for p in drawn.varied]
    sign = choose(rng, [" ", ": ", " = ", " of "], [" is ", "=", ":", " -> "], split)
    rows = []
    for s in drawn.sets:
        texts = [f"{s[p.name].text}{unit_of(p)}" for p in drawn.varied]
        if len(names) > 1 or rng.random() < 0.3:
            texts = [f"{n}{sign}{t}" for n, t in zip(names, texts, strict=True)]
        rows.append(rng.choice([", ", "; "]).join(texts))
    mark = choose(rng, ["- ", "* ", "{i}. ", "{i}) ", "", "({i}) "], MARKS, split)
    head = pick(rng, LINED, split).format(t=plural(names[0]) if len(names) == 1 else "cases")
    below = [mark.format(i=i) + row for i, row in enumerate(rows, 1)]
    return drawn.task(asked.rstrip(".?!") + head + "\n" + "\n".join(below))


# ── tuples ───────────────────────────────────────────────────────────────────────────────────

LIKE_PAIR = re.compile(
    r"(?:^|[a-z]_?)(?:a|b|c|x|y|z|1|2|first|second|one|two)$|^(?:first|second|from|to|start|end|base|target)_|number|side|value"
)


def pairs(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
    """'the pairs (45, 60) and (81, 27)', in the order of the schema."""
    varied = drawn.varied
    if len(varied) < 2 or any(
        p.schema["type"] == "array" or "%" in unit_of(p) or "percent" in unit_of(p) for p in varied
    ):
        return None
    rows = [[s[p.name].text for p in varied] for s in drawn.sets]
    if any("," in t or " and " in t for row in rows for t in row):
        return None
    asked = bare(rng, drawn)
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


# ── once more, with what differs ─────────────────────────────────────────────────────────────

SAME = re.compile(r"(?:^|(?<=\W))(?:in|of|for|from|to|at|against|by|near|on|about|with|around) $")
MARK = "\ue000"  # one private character for a value that all share


def again(rng: random.Random, drawn: Sets, split: Split) -> Task | None:
    """The whole request once, then 'Do the same with …' for each other; or whole sentences with 'the same city'."""
    tool = drawn.tool
    if rng.random() < 0.4 and (text := _whole_again(rng, drawn, split)):
        return drawn.task(text)
    phrases = phrases_of(rng, drawn, split, r"(?:with|in|at|for|from|to|on|over|near) ")
    if not phrases:
        return None
    text = stopped(tool.ask(rng, drawn.sets[0]))
    rest = [with_it(rng, drawn, s, phrases) for s in drawn.sets[1:]]
    if len(drawn.varied) == 1 and len(rest) > 1 and rng.random() < 0.5:  # 'Do the same for Oslo and Rome.'
        texts = [s[drawn.varied[0].name].text for s in drawn.sets[1:]]
        rest = [phrases[0].replace("{v}", listing(rng, texts, split))]
    for told in rest:
        more = pick(rng, AGAIN, split).format(w=told)
        if not tool.sketch or tool.sketch.opened != "c":
            more = more.replace("same calculation", "same thing")
        text += more
    return drawn.task(text)


def _whole_again(rng: random.Random, drawn: Sets, split: Split) -> str | None:
    """A sentence for each call; what they share stands there again, or as 'the same city'."""
    tool = drawn.tool
    shared = [p for p in tool.params if p.name in drawn.shared() and p.is_text]
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
            part = tool.ask(rng, {**s, p.name: Spoken(None, MARK)})
            at = part.find(MARK)
            fits = at >= 0 and SAME.search(part, 0, at) and re.match(r"[ ,.?]|$", part[at + 1 :])
            part = part.replace(MARK, f"the same {nouns[p.name]}" if fits else s[p.name].text)
        part = stopped(part)
        if i:
            start = link(rng, ("{A}, ",), STARTS, split)
            part = start + uncapital(part, [v.text for v in s.values()]) if rng.random() < 0.8 else part
        sentences.append(part)
    return " ".join(sentences)
