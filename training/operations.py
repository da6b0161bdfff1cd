# ruff: noqa: E501, SIM905 -- phrases are data: one list a line reads better than wrapped ones
"""Operations of real APIs as tools: parameters are told by their names or by the heads of their descriptions, and
drawn by what those mention. Knows no other tools."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from training.kinds import Kinds
from training.naming import named, rename, styled, tool_name, widened, words
from training.spoken import Draw, Param, Spoken, date, integer, listed, number, verbatim
from training.telling import Telling
from training.tools import Tool, ordered

BY_NAME = "with {n} {v}|with the {n} {v}|{n}: {v}|using {v} as {n}|where {n} is {v}|set {n} to {v}|{n} = {v}|and {n} {v}"
BY_NOUN = "with the {n} {v}|with {v} as the {n}|where the {n} is {v}|{n}: {v}|the {n} being {v}"
# only in training
MORE_BY_NAME = (
    "with {n}: {v}|with {n} = {v}|with {n} set to {v}|with {n} being {v}|with {v} as {n}|with {v} for {n}|with {v} as the {n}|with the {n} set to {v}|with the {n} being {v}"
    "|using {v} for {n}|using {v} as the {n}|using {n} {v}|using {n} = {v}|using the {n} {v}|where {n} = {v}|where {n} equals {v}|where the {n} is {v}|where {v} is the {n}|when {n} is {v}"
    "|given {n} {v}|given {n} = {v}|given the {n} {v}|given {v} as {n}|{n} {v}|{n}={v}|{n} is {v}|{n} set to {v}|{n} being {v}|{n} equal to {v}|the {n} is {v}|the {n}: {v}|the {n} {v}|the {n} being {v}"
    "|setting {n} to {v}|set the {n} to {v}|and set {n} to {v}|and {n} = {v}|and {n}: {v}|and {n} set to {v}|and {v} as {n}|and the {n} {v}|passing {v} as {n}|passing {n} {v}|taking {v} as {n}|taking {v} for {n}"
    "|having {n} {v}|having {v} as {n}|use {v} as {n}|use {v} for {n}|let {n} be {v}|put {v} for {n}|{v} as {n}|{v} as the {n}|{v} for {n}|({n} {v})|({n}: {v})|({n} = {v})|for the {n} {v}|for {n} {v}|by {n} {v}"
    "|of the {n} {v}|whose {n} is {v}|that has {n} {v}|its {n} being {v}|{n} should be {v}|{n} must be {v}|the {n} should be {v}"
)
MORE_BY_NOUN = (
    "with {v} for the {n}|with the {n}: {v}|with the {n} set to {v}|with the {n} being {v}|with a {n} of {v}|with {n} {v}|with {n}: {v}|with {n} = {v}|where {v} is the {n}|where the {n} equals {v}|when the {n} is {v}"
    "|if the {n} is {v}|using {v} as the {n}|using {v} for the {n}|using the {n} {v}|given the {n} {v}|given {v} as the {n}|given that the {n} is {v}|taking {v} as the {n}|taking {v} for the {n}|passing {v} as the {n}"
    "|having {v} as the {n}|setting the {n} to {v}|set the {n} to {v}|and the {n} {v}|and the {n} is {v}|and {v} as the {n}|and {v} for the {n}|the {n} is {v}|the {n}: {v}|the {n} {v}|the {n} set to {v}|the {n} should be {v}"
    "|the {n} must be {v}|{n} {v}|{n} = {v}|{n} being {v}|{v} as the {n}|{v} being the {n}|{v} for the {n}|use {v} as the {n}|use {v} for the {n}|let the {n} be {v}|put {v} for the {n}|for the {n} {v}|of the {n} {v}|its {n} being {v}"
    "|whose {n} is {v}|that has {v} as the {n}|({n}: {v})|({n} {v})|({n} = {v})|(the {n} is {v})|({v} as the {n})"
)


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
    by_noun = noun and rng.random() < 0.6
    told, more = (BY_NOUN, MORE_BY_NOUN) if by_noun else (BY_NAME, MORE_BY_NAME)
    called = noun if by_noun else said
    phrases = tuple(widened(named(told, called), named(more, called), kinds.split))
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


NO_VERBS = frozenset(
    "this the use you your for a an deprecated required grants task service services amazon origin cloud internal operation operations information if in when while after before we by to similar only used given natural global "
    "feedback detective paginated description from using called default text method step action advice all hard soft quick on async sync rpc not currently agentic fully application api it its there these those with as at "
    "each one note details http optional alias aws data does has is are".split()
)
"""What a description may begin with that is not what the operation does."""
DANGLING = frozenset(
    "the a an and or of for to in is are was be been that which who by with your you from on whose as at it its into their this these if when where than can may must not only any all each whether using such given has have being".split()
)
"""Words that no request ends with."""
FURTHER = re.compile(r"(?:,? (?:and|or|then) |, (?:and |or |then )?)([a-z]+s)\b(?=[ ,])")


def _imperative(about: str) -> str:
    """'Creates a vault.' -> 'create a vault'; empty where the description does not begin with what is done."""
    text = about.rstrip(".")
    match = re.match(
        r"([A-Z][a-z]+ly (?:(?:and|or) [a-z]+ly )?(?=[a-z]))?([A-Za-z][a-z]+)\b(?![/-])(.*)", text
    )
    if not match:
        return ""
    how, verb, rest = (match[1] or "").lower(), match[2].lower(), match[3]
    if verb in NO_VERBS or verb.endswith(("ing", "ed", "ly")):
        return ""
    if verb != _plain(verb):
        while further := FURTHER.match(rest):  # 'creates and starts'
            start, end = further.span(1)
            how, verb, rest = f"{how}{_plain(verb)}{rest[:start]}", further[1], rest[end:]
    said = how + _plain(verb) + rest
    if len(said) > 90:
        said = said[:90].rpartition(" ")[0]
    if said.count("(") > said.count(")"):
        said = said[: said.rindex("(")].rstrip()
    kept = said.split(" ")
    while len(kept) > 2 and kept[-1].lower().strip(",;:(") in DANGLING:
        kept.pop()
    return " ".join(kept).rstrip(" ,;:")


def _plain(verb: str) -> str:
    """A verb of the third person as one says it to somebody: 'creates' -> 'create'."""
    if verb.endswith(("sses", "shes", "ches", "xes")):
        return verb[:-2]
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb
