# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Requests for one call, for calls of several tools, and for a tool's calls as lists or turns. Knows no conversations.

How people tell several calls of one tool in more natural ways: training/several.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from training.naming import Split, choose, joined, pick, series, uncapital, words
from training.phrases import (
    ANOTHER,
    ASIDES,
    BEFORE_A_REQUEST,
    BRIEF,
    CASES,
    CROSSED,
    FILLERS,
    HEADS,
    JOINERS,
    MARKS,
    ORDINALS,
    RESPECTIVELY,
    TAILS,
    link,
)
from training.several.within import beside_another
from training.spoken import SCALARS, Param, Spoken
from training.tools import Task, Tool, arguments, plain

# in training also these
MORE_TOLD = (
    "{n} = {v}",
    "{n}: {v}",
    "{n} is {v}",
    "{n} of {v}",
    "with {v} as the {n}",
    "with {v} for the {n}",
    "with the {n} {v}",
    "with {n} = {v}",
    "{v} as the {n}",
    "{v} for the {n}",
    "the {n} being {v}",
    "where the {n} is {v}",
    "using {v} as the {n}",
)
RUNS_ON = re.compile(r"[,?!;]|\.(?!\d)")  # a text that cannot stand in a list


def single(rng: random.Random, tool: Tool) -> Task:
    """A request for one call, perhaps with talk around it."""
    spoken = arguments(rng, tool, rng.choice([0.0, 0.3, 0.5, 0.7]))
    return Task.of(surrounded(rng, tool.ask(rng, spoken)), tool, [spoken])


def surrounded(rng: random.Random, request: str) -> str:
    """The request, perhaps with talk around it."""
    if request[-1:] in ".?!" and rng.random() < 0.5:
        request += rng.choice(TAILS)
    if rng.random() < 0.06:  # numbers that no argument is
        return rng.choice(ASIDES).format(n=rng.randint(2, 60)) + request
    return rng.choice(FILLERS) + request if rng.random() < 0.45 else request


def several(rng: random.Random, tools: list[Tool], split: Split) -> Task:
    """One request that needs a call of each tool in the list (a tool may stand there twice)."""
    drawn = [arguments(rng, t, rng.choice([0.1, 0.3, 0.5])) for t in tools]
    parts = [t.ask(rng, s) for t, s in zip(tools, drawn, strict=True)]
    calls = tuple((t.name, plain(s)) for t, s in zip(tools, drawn, strict=True))
    if rng.random() < 0.12:
        mark = choose(rng, ["{i}. ", "{i}) ", "({i}) ", "- "], MARKS, split)
        gap = rng.choice([" ", "\n"]) if "{i}" in mark else "\n"
        lines = gap.join(mark.format(i=i) + part for i, part in enumerate(parts, 1))
        return Task(
            choose(
                rng,
                ["", "Please do this: ", "Two things: " if len(parts) == 2 else "My list: "],
                rng.sample(HEADS, 3),
                split,
            )
            + lines,
            calls,
            tuple(drawn),
        )
    values = [[spoken.text for spoken in s.values()] for s in drawn]
    return Task(one_after_another(rng, parts, values, split), calls, tuple(drawn))


def one_after_another(
    rng: random.Random, parts: Sequence[str], values: Sequence[Sequence[str]], split: Split
) -> str:
    """Requests in one text, with words between them. values: those of each, which keep their capitals."""
    text = parts[0]
    for part, told in zip(parts[1:], values[1:], strict=True):
        joiner = link(rng, BEFORE_A_REQUEST, JOINERS, split)
        if re.search("[a-z]", joiner) and not joiner.endswith(". "):
            part = uncapital(part, told)
        if joiner[0] != " " or joiner[1:2] == "-":
            text = text.rstrip(".?!") if joiner[0] != "\n" else text
        elif text[-1:] not in ".?!" and len(joiner) > 6:
            text += ";"
        text += joiner + part
    return text


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
    if len(sets) < 2 or any(t.whole or RUNS_ON.search(t.text) for t in told):
        return None
    if len(chosen) == 2 and rng.random() < 0.25:
        return _crossed(rng, tool, spoken, chosen, split)
    if in_turn:
        return Task.of(_in_turn(rng, tool, sets, chosen, split), tool, sets)
    texts = {p.name: [s[p.name].text for s in sets] for p in chosen}
    lists = {k: Spoken(None, series(t, rng.choice([" and ", ", and "]))) for k, t in texts.items()}
    request = tool.ask(rng, {**spoken, **lists})
    if _enclosed(request, lists) or _run_on(request, lists, spoken):
        return None
    if len(chosen) > 1:
        orders = [", respectively", " respectively", " (respectively)"]
        request = request.rstrip(".?!") + choose(rng, orders, rng.sample(RESPECTIVELY, 6), split) + "."
    elif len({plain(s)[chosen[0].name] for s in sets}) < len(sets):
        return None
    return Task.of(request, tool, sets)


def _enclosed(request: str, lists: dict[str, Spoken]) -> bool:
    """Whether a list stands inside a word, a formula or quotes: "3 and 5x^2", "called 'Ann and Bo'"."""
    texts = [re.escape(t.text) for t in lists.values()]
    return any(re.search(rf"[+*'\"] ?{t}|{t}(?:[-\w^*'\"]| ?[+*=])", request) for t in texts)


def _run_on(request: str, lists: dict[str, Spoken], given: dict[str, Spoken]) -> bool:
    """Whether a list goes on in the value of another argument: "between 9 and 39, and 20"."""
    others = [s.text for name, s in given.items() if name not in lists and s.text]
    for told in lists.values():
        before, _, after = request.partition(told.text)
        if beside_another(f"{before} {after}", len(before), others):
            return True
    return False


def _crossed(
    rng: random.Random, tool: Tool, spoken: dict[str, Spoken], chosen: list[Param], split: Split
) -> Task | None:
    """Each of two values with each of two others: four calls."""
    first, second = chosen
    columns = []
    for p in chosen:
        values = [spoken[p.name]] + [p.draw(rng) for _ in range(4)]
        apart = [
            v for v in values[1:] if v.value != values[0].value and not v.whole and not RUNS_ON.search(v.text)
        ]
        if not apart:
            return None
        columns.append([values[0], apart[0]])
    sets = [{**spoken, first.name: a, second.name: b} for a in columns[0] for b in columns[1]]
    shown = {
        p.name: Spoken(None, " and ".join(v.text for v in c)) for p, c in zip(chosen, columns, strict=True)
    }
    request = tool.ask(rng, {**spoken, **shown}).rstrip(".?!")
    if _enclosed(request, shown) or _run_on(request, shown, spoken):
        return None
    told = [
        ", each with each",
        ", in every combination",
        " (all combinations)",
        ", for each pair",
        ", all four of them",
    ]
    request += choose(rng, told, CROSSED, split) + "."
    return Task.of(request, tool, sets)


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
                choose(
                    rng,
                    ["with a {n} of {v}", "with {n} {v}", "{n} {v}", "the {n} is {v}", "has {v} as its {n}"],
                    MORE_TOLD,
                    split,
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
