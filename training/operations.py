# ruff: noqa: E501 -- phrases are data: one list a line reads better than wrapped ones
"""Operations of real APIs as tools: parameters are told by their names or by the heads of their descriptions, and
drawn by what those mention. Knows no other tools."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from training.kinds import Kinds
from training.naming import named, rename, styled, tool_name, words
from training.spoken import Draw, Param, Spoken, date, integer, listed, number, verbatim
from training.telling import Telling
from training.tools import Tool, ordered

BY_NAME = "with {n} {v}|with the {n} {v}|{n}: {v}|using {v} as {n}|where {n} is {v}|set {n} to {v}|{n} = {v}|and {n} {v}"
BY_NOUN = "with the {n} {v}|with {v} as the {n}|where the {n} is {v}|{n}: {v}|the {n} being {v}"


def operation_tool(rng: random.Random, kinds: Kinds, raw: dict[str, Any]) -> Tool:
    """The tool of an operation, with some of its parameters."""
    style = rng.choice(["snake", "snake", "camel", "pascal"])
    base = words(raw["name"])
    if rng.random() < 0.3:
        base = f"{words(raw['group'])} {base}"
    name = tool_name(rng, base, style, kinds.split)
    inner = "camel" if style == "pascal" else style
    params: dict[str, Param] = {}
    for p in raw["params"][: rng.randint(1, 6)]:
        made = _param(rng, kinds, p, inner)
        params.setdefault(made.name, made)
    if rng.random() < 0.12:
        made = kinds.nested(rng, inner, rng.random() < 0.5)
        params.setdefault(made.name, made)
    about = raw["about"] if rng.random() >= 0.2 else base.capitalize() + "."
    shown = ordered(rng, params)
    return Tool(name, about, shown, Telling(_imperative(raw["about"]) or base, kinds.split, shown), base)


def relatives(operations: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Operations of one API that share a word of their names."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for raw in operations:
        for word in words(raw["name"]).split()[1:]:
            if len(word) > 3:
                groups.setdefault((raw["group"], word), []).append(raw)
    return [group for group in groups.values() if len(group) > 1]


def _param(rng: random.Random, kinds: Kinds, raw: dict[str, Any], style: str) -> Param:
    """A parameter of a real API: spoken of by its name or by its description."""
    name = styled(rename(rng, words(raw["name"]) or "value", kinds.split), style)
    said, about, required = words(name), raw.get("about", ""), raw["required"]
    kind = raw["type"]
    if kind == "boolean":
        return kinds.boolean(rng, words(raw["name"]), about, style, required)
    noun = _noun_phrase(about)
    phrases = tuple(named(BY_NOUN, noun) if noun and rng.random() < 0.6 else named(BY_NAME, said))
    item, draw = _values(rng, kinds, raw, f"{said} {about.lower()}")
    if kind != "array":
        return Param(name, item, draw, phrases, required, about)
    schema = {"type": "array", "items": item}
    return Param(name, schema, lambda r: listed(r, draw), phrases, required, about)


def _values(rng: random.Random, kinds: Kinds, raw: dict[str, Any], said: str) -> tuple[dict[str, Any], Draw]:
    """Schema and sampler of one value."""
    if "enum" in raw:
        return {"type": "string", "enum": raw["enum"]}, _option(raw["enum"])
    match raw["type"]:
        case "integer":
            top = rng.choice([10, 100, 1000, 100000])
            return {"type": "integer"}, lambda r: integer(r, 0, top)
        case "number":
            top = rng.choice([1, 10, 1000])
            return {"type": "number"}, lambda r: number(r, 0, top)
        case "date":
            return {"type": "string", "format": "date"}, date
        case _:
            return {"type": "string"}, _text(kinds, said)


def _option(options: list[str]) -> Draw:
    def draw(r: random.Random) -> Spoken:
        option = r.choice(options)
        return Spoken(option, option if r.random() < 0.5 else re.sub(r"[_\-]+", " ", option).lower())

    return draw


def _text(kinds: Kinds, said: str) -> Draw:
    """A sampler for a string of this name and description."""
    pools = kinds.pools
    draws: dict[str, Draw] = {
        "email": kinds.email,
        "domain": lambda r: kinds.text_sample(r, "domain"),
        "country": lambda r: kinds.text_sample(r, "country"),
        "city": lambda r: kinds.text_sample(r, "city"),
        "user": lambda r: kinds.text_sample(r, "user"),
        "description": lambda r: kinds.text_sample(r, r.choice(["sentence", "phrase"])),
        "title": lambda r: kinds.text_sample(r, "phrase"),
        "query": verbatim(pools.topic),
        "comment": lambda r: kinds.text_sample(r, "sentence"),
        "path": verbatim(pools.path),
        "file": verbatim(pools.path),
    }
    for word, draw in draws.items():
        if word in said:
            return draw
    return verbatim(lambda r: pools.identifier(r) if r.random() < 0.8 else pools.topic(r))


def _noun_phrase(about: str) -> str:
    """The head of a description: 'The maximum number of results to return.' -> maximum number of results."""
    match = re.match(r"(?:Required\. |Optional\. )?(?:The|A|An)\s+(.+)", about)
    if not match:
        return ""
    head = re.split(
        r"\s+(?:to|that|for|which|is|are|in|on|by|from|you|used|associated|whose|must)\b|[.,(:;]",
        match.group(1),
    )[0]
    return head.lower() if 1 <= len(head.split()) <= 5 and len(head) < 40 else ""


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
