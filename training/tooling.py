# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Tools of three origins (everyday families, real API operations, names composed at random) with their requests.

Knows no turns: a Task is a request and the calls that answer it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from training.families import FAMILIES, Family, family_params
from training.kinds import Kinds, Param, Spoken, in_split, joined, pick, rename, styled, words
from training.quantities import compute_tool

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Tool:
    """A tool as the model is told of it, and how people ask for it."""

    name: str
    about: str
    params: tuple[Param, ...]
    ask: Callable[[random.Random, dict[str, Spoken]], str]
    topic: str

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


OPENERS = (
    "Please {}",
    "Could you {}?",
    "Can you {}?",
    "I want to {}.",
    "I'd like to {}.",
    "I need to {}.",
    "Help me {}.",
    "{}",
    "{}.",
    "Hey, {}",
    "Would you {}?",
    "My task is to {}.",
    "Go ahead and {}.",
    "We have to {}.",
)
FILLERS = (
    "",
    "",
    "",
    "",
    "Hi! ",
    "Hello, ",
    "Thanks in advance. ",
    "Quick one: ",
    "OK, ",
    "Good morning. ",
    "Next: ",
    "Listen, ",
)


class Toolsmith:
    """Makes tools in one split."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.split = kinds.split
        self.pools = kinds.pools

    def tool(self, rng: random.Random) -> Tool:
        roll = rng.random()
        if roll < 0.38:
            tool = self.family(rng)
        elif roll < 0.62:
            tool = self.api(rng)
        elif roll < 0.80:
            tool = self.composed(rng)
        else:
            tool = self.computing(rng)
        return replace(tool, params=tuple(p.decorated(rng) for p in tool.params))

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
            text = pick(r, family.requests, split)
            for _ in range(8):
                match = re.search(r"\[([^\[\]]*)\]", text)
                if not match:
                    break
                slots = re.findall(r"\{(\w+)\}", match.group(1))
                keep = all(params[s].name in spoken for s in slots)
                text = text[: match.start()] + (match.group(1) if keep else "") + text[match.end() :]
            # an optional argument whose template has no slot for it is said at the end
            said = set(re.findall(r"\{(\w+)\}", text))
            rest = [
                f"{words(p.name)} {spoken[p.name].text}"
                for s, p in params.items()
                if s not in said and p.name in spoken
            ]
            if rest:
                text = text + " " + ", ".join(rest)
            return _close(re.sub(r"\{(\w+)\}", lambda m: spoken[params[m.group(1)].name].text, text))

        ordered = [params[s.name] for s in family.slots]
        return Tool(name, rng.choice(family.abouts), tuple(ordered), ask, words(family.names[0]))

    def api(self, rng: random.Random) -> Tool:
        raw = rng.choice(self.pools.operations)
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

    def composed(self, rng: random.Random) -> Tool:
        verb, said = rng.choice(VERBS)
        noun = self.pools.noun(rng) if rng.random() < 0.5 else rng.choice(NOUNS)
        if rng.random() < 0.5:
            noun = f"{self.pools.adjective(rng) if rng.random() < 0.6 else rng.choice(NOUNS)} {noun}"
        style = rng.choice(["snake", "snake", "camel"])
        base = rng.choice([f"{verb} {noun}", f"{verb} {noun}", f"{noun} {verb}"])
        name = self._name(rng, base, style)
        if "_" in name and rng.random() < 0.1 and in_split(name, self.split):
            name = name.replace("_", ".", 1)
        params: dict[str, Param] = {}
        needed = rng.randint(1, 3)
        for i in range(needed + rng.choice([0, 0, 1, 1, 2, 3])):
            made = (
                self.kinds.nested(rng, style, i < needed)
                if rng.random() < 0.05
                else self.kinds.semantic(rng, style, i < needed)
            )
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
        request = f"{rng.choice(said.split('|'))} {rng.choice(['the', 'a', 'my', ''])} {noun}"
        return Tool(
            name, _close(about), self._ordered(rng, params), self._asker(rng, request), f"{verb} {noun}"
        )

    def computing(self, rng: random.Random) -> Tool:
        base, about, params, topic, ask = compute_tool(rng, self.kinds)
        name = self._name(rng, base, rng.choice(["snake", "snake", "snake", "camel"]))
        return Tool(name, about, self._ordered(rng, params), ask, topic)

    def _ordered(self, rng: random.Random, params: dict[str, Param]) -> tuple[Param, ...]:
        out = list(params.values())
        if rng.random() < 0.85:
            out.sort(key=lambda p: not p.required)
        return tuple(out)

    def _asker(self, rng: random.Random, core: str) -> Callable[[random.Random, dict[str, Spoken]], str]:
        split = self.split
        by_name: dict[str, Param] = {}

        def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
            parts = []
            for name, value in spoken.items():
                phrase = pick(r, by_name[name].phrases, split) if name in by_name else "{v}"
                parts.append(phrase.replace("{v}", value.text))
            r.shuffle(parts)
            said = core
            if r.random() < 0.15 and len(core.split()) > 3:  # a person leaves words out
                tokens = core.split()
                del tokens[r.randrange(1, len(tokens))]
                said = " ".join(tokens)
            glue = r.choice([" ", " ", ", ", " and "])
            body = (
                said.rstrip(".") + (" " if r.random() < 0.7 else ", ") + glue.join(parts) if parts else said
            )
            opener = pick(r, OPENERS, split)
            text = opener.format(body.rstrip(".") if "." in opener or "?" in opener else body)
            return _close(text[0].upper() + text[1:] if r.random() < 0.9 else text)

        ask.by_name = by_name  # type: ignore[attr-defined]  # filled by `bind` once the parameters exist
        return ask


def bind(tool: Tool) -> Tool:
    """Tells the tool's request writer its parameters."""
    table = getattr(tool.ask, "by_name", None)
    if table is not None:
        table.update({p.name: p for p in tool.params})
    return tool


VERBS = [
    ("get", "get|show me|fetch|look up|give me|retrieve|tell me"),
    ("list", "list|show|enumerate|show me all of"),
    ("find", "find|search for|look for|locate"),
    ("search", "search|look through|find"),
    ("create", "create|make|add|set up"),
    ("delete", "delete|remove|get rid of|erase"),
    ("update", "update|change|modify|edit"),
    ("calculate", "calculate|compute|work out|determine"),
    ("check", "check|verify|test|have a look at"),
    ("send", "send|deliver|submit"),
    ("book", "book|reserve|arrange"),
    ("convert", "convert|turn|change"),
    ("analyze", "analyze|examine|study"),
    ("generate", "generate|produce|make"),
    ("schedule", "schedule|plan|arrange"),
    ("compare", "compare|contrast"),
    ("estimate", "estimate|guess|predict|forecast"),
    ("start", "start|launch|run|begin"),
    ("stop", "stop|end|halt|cancel"),
    ("measure", "measure|gauge|determine"),
    ("assign", "assign|give|allocate"),
    ("export", "export|download|save"),
    ("import", "import|load|upload"),
    ("validate", "validate|check|confirm"),
    ("summarize", "summarize|sum up|condense"),
    ("rank", "rank|sort|order"),
    ("order", "order|buy|purchase"),
    ("monitor", "monitor|watch|observe"),
]
NOUNS = [
    "report",
    "invoice",
    "order",
    "ticket",
    "user",
    "account",
    "device",
    "sensor",
    "report",
    "budget",
    "meeting",
    "project",
    "contract",
    "price",
    "route",
    "flight",
    "hotel",
    "room",
    "recipe",
    "workout",
    "lesson",
    "course",
    "exam",
    "grade",
    "song",
    "album",
    "movie",
    "actor",
    "player",
    "team",
    "match",
    "score",
    "tournament",
    "planet",
    "star",
    "molecule",
    "cell",
    "gene",
    "protein",
    "reaction",
    "equation",
    "matrix",
    "vector",
    "distance",
    "speed",
    "temperature",
    "pressure",
    "energy",
    "voltage",
    "loan",
    "mortgage",
    "stock",
    "portfolio",
    "tax",
    "salary",
    "dividend",
    "currency",
    "rate",
    "city",
    "country",
    "river",
    "mountain",
    "population",
    "law",
    "case",
    "court",
    "patent",
    "statute",
    "painting",
    "sculpture",
    "museum",
    "concert",
    "festival",
    "restaurant",
    "menu",
    "wine",
    "garden",
    "plant",
    "animal",
    "species",
    "bird",
    "fish",
    "patient",
    "medicine",
    "diagnosis",
    "appointment",
    "insurance",
    "server",
    "database",
    "table",
    "index",
    "backup",
    "branch",
    "commit",
    "build",
    "log",
    "alert",
    "metric",
    "dashboard",
    "playlist",
    "photo",
    "video",
    "file",
]


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
    return (verb + rest)[:90]


# ── tasks ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Task:
    """A request and the calls that answer it, in order."""

    request: str
    calls: tuple[Call, ...]
    spoken: tuple[dict[str, Spoken], ...]


def arguments(rng: random.Random, tool: Tool, optional: float = 0.45) -> dict[str, Spoken]:
    """A value for each required parameter and some optional ones, in schema order."""
    return {p.name: p.draw(rng) for p in tool.params if p.required or rng.random() < optional}


def plain(spoken: dict[str, Spoken]) -> dict[str, Any]:
    return {name: s.value for name, s in spoken.items()}


def single(rng: random.Random, tool: Tool) -> Task:
    spoken = arguments(rng, tool)
    return Task(rng.choice(FILLERS) + tool.ask(rng, spoken), ((tool.name, plain(spoken)),), (spoken,))


JOINERS = (" Also, ", " And ", " Then ", " After that, ", " Besides, ", "\n", " Furthermore, ", "; ", " ")


def several(rng: random.Random, tools: list[Tool], split: Any) -> Task:
    """One request that needs a call of each tool in the list (a tool may stand there twice)."""
    drawn = [arguments(rng, t, 0.3) for t in tools]
    parts = [t.ask(rng, s) for t, s in zip(tools, drawn, strict=True)]
    text = parts[0]
    for part in parts[1:]:
        joiner = pick(rng, JOINERS, split)
        if joiner.strip(" ;\n") and part[:1].isupper() and not part.startswith("I "):
            part = part[0].lower() + part[1:]
        text += (
            joiner
            if text[-1:] in ".?!" or joiner[0] != " " or joiner in (" And ", " Then ")
            else ";" + joiner
        ) + part
    return Task(text, tuple((t.name, plain(s)) for t, s in zip(tools, drawn, strict=True)), tuple(drawn))


def parallel(rng: random.Random, tool: Tool) -> Task | None:
    """One request with two to four values of one argument, or of two "respectively": as many calls of the tool."""
    spoken = arguments(rng, tool, 0.25)
    varied = [
        p for p in tool.params if p.name in spoken and p.schema["type"] in ("string", "integer", "number")
    ]
    if not varied:
        return None
    count = rng.randint(2, 4)
    chosen = rng.sample(varied, 2 if len(varied) > 1 and rng.random() < 0.3 else 1)
    drawn: dict[str, list[Spoken]] = {}
    for param in chosen:
        values: list[Spoken] = []
        for _ in range(count * 3):
            v = param.draw(rng)
            fresh = all(v.value != o.value for o in values) or len(chosen) > 1
            if len(values) < count and fresh and not re.search(r"[.,?!]$", v.text):
                values.append(v)
        drawn[param.name] = values
    count = min(len(v) for v in drawn.values())
    if count < 2:
        return None
    shown = dict(spoken)
    for name, values in drawn.items():
        shown[name] = Spoken(None, joined([v.text for v in values[:count]], rng))
    request = tool.ask(rng, shown)
    if len(chosen) > 1:
        request = request.rstrip(".?!") + rng.choice(
            [", respectively.", " respectively.", " (respectively)."]
        )
    all_spoken = [{**spoken, **{n: values[i] for n, values in drawn.items()}} for i in range(count)]
    calls = [(tool.name, plain(s)) for s in all_spoken]
    if any(a == b for i, a in enumerate(calls) for b in calls[:i]):
        return None
    return Task(request, tuple(calls), tuple(all_spoken))
