# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Tools of everyday domains as people write and ask for them: geometry, law, travel, biology… Data in
training/domains/*.txt; requests are composed of a goal and a phrase for each value, in many orders.

A block of a file:

    names, of, the, tool | c or g (computed or got) | goals ; noun phrases or ?question stems or !imperatives
    A descriptions ~ of the tool
    name,other_name? kind arguments : phrases with {v} ; from {v} to {other} ; ~phrase of a false one # description
    X questions near by that the tool does not answer ; …

A `?` marks a parameter that may be left out. The first name is the slot that goals and phrases refer to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.kinds import Kinds, Param, Split, Spoken, in_split, joined, pick, rename, styled, words
from training.values import FOLDER, sort

OPENERS = {
    "c": (
        "What is {g}?", "Calculate {g}.", "Compute {g}.", "Find {g}.", "Determine {g}.", "Work out {g}.", "What's {g}?", "Can you calculate {g}?",
        "I need to know {g}.", "Could you compute {g}?", "Help me calculate {g}.", "Please find {g}.", "I want to calculate {g}.", "Tell me {g}.",
        "Can you find {g}?", "How do I get {g}?", "Give me {g}.", "I'd like to know {g}.", "Estimate {g}.", "Please calculate {g}.", "Evaluate {g}.",
        "Could you work out {g} for me?", "Can you help me determine {g}?", "My teacher wants {g}.", "We need {g}.",
    ),
    "g": (
        "Get {g}.", "Find {g}.", "Show me {g}.", "Look up {g}.", "Retrieve {g}.", "Give me {g}.", "Tell me {g}.", "Fetch {g}.", "I want to see {g}.",
        "Can you find {g}?", "I'm looking for {g}.", "Could you get me {g}?", "Search for {g}.", "I need {g}.", "Please find {g}.", "Can you tell me {g}?",
        "Provide me with {g}.", "Find me {g}.", "I'd like {g}.", "Can you show me {g}?", "Please look up {g}.", "Could you look up {g} for me?", "Find out {g}.",
        "Would you check {g}?", "Help me find {g}.",
    ),
    "!": (
        "{g}.", "{g}.", "{g}", "Please {g}.", "Can you {g}?", "Could you {g}?", "I want to {g}.", "I'd like to {g}.", "I need to {g}.", "Help me {g}.",
        "Could you please {g}?", "I want you to {g}.", "Would you {g}?", "We would like to {g}.", "Go ahead and {g}.", "Let's {g}.", "My plan is to {g}.",
    ),
}  # fmt: skip
STORIES = (
    "I am working on a problem. {s} {q}", "{s} {q}", "Here is what I know: {s} {q}", "We have the following. {s} {q}", "For my homework: {s} {q}",
    "Suppose this: {s} {q}", "I have a question. {s} {q}", "These are the details. {s} {q}", "{q} {s}", "Let me explain. {s} {q}", "{s} Now, {q}",
)  # fmt: skip
NAMED = (
    "with the {n} {v}", "{n}: {v}", "with {n} set to {v}", "where the {n} is {v}", "with {v} as the {n}", "using {n} {v}", "and {n} {v}", "({n} {v})",
)  # fmt: skip


GIVEN = (
    " based on {n}", " given the {n}", ", given {n}", " by {n}", " using the provided {n}", " for the specified {n}", "; needs {n}", ", depending on {n}",
)  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """A parameter of a domain tool, in the notation of the file."""

    names: tuple[str, ...]
    kind: str
    args: str
    phrases: tuple[str, ...]
    about: str
    required: bool

    @property
    def key(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class Sketch:
    """A tool of a domain before its names are drawn."""

    domain: str
    names: tuple[str, ...]
    opened: str
    goals: tuple[str, ...]
    abouts: tuple[str, ...]
    slots: tuple[Slot, ...]
    misses: tuple[str, ...]
    """Requests near by that it does not serve."""

    @property
    def topic(self) -> str:
        return words(self.names[0])


def _split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(mark) if part.strip())


def _slot(line: str) -> Slot:
    spec, about = line.split(" # ")
    head, _, phrases = f"{spec} ".partition(" : ")
    names, kind, *args = head.split(None, 2)
    return Slot(
        tuple(names.replace("?", "").split(",")), kind, args[0].strip() if args else "", _split(phrases, " ; "), about.strip(), "?" not in names,
    )  # fmt: skip


def parse(text: str, domain: str) -> list[Sketch]:
    """The tools of a file. ValueError tells the block that is not in its notation."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.strip().split("\n")
        try:
            names, opened, goals = lines[0].split(" | ")
            made = {mark: [x[2:] for x in lines[1:] if x.startswith(f"{mark} ")] for mark in "AX"}
            slots = tuple(_slot(x) for x in lines[1:] if x[:2] not in ("A ", "X "))
            out.append(
                Sketch(
                    domain, _split(names, ","), opened.strip(), _split(goals, " ; "), _split(made["A"][0], " ~ "), slots, _split(" ; ".join(made["X"]), " ; "),
                )
            )  # fmt: skip
        except (ValueError, IndexError) as error:
            raise ValueError(f"training/domains/{domain}.txt: cannot read the block {lines[0]!r}") from error
    return out


DOMAINS = {p.stem: parse(p.read_text(), p.stem) for p in sorted(FOLDER.glob("*.txt")) if p.stem != "lists"}
SKETCHES = [s for sketches in DOMAINS.values() for s in sketches]


@dataclass(frozen=True)
class Drawn:
    """What a tool is made of: see tooling.Tool."""

    name: str
    about: str
    params: tuple[Param, ...]
    ask: Callable[[random.Random, dict[str, Spoken]], str]
    sketch: Sketch


def drawn(rng: random.Random, kinds: Kinds, sketch: Sketch) -> Drawn:
    """The tool under names of the split."""
    style = rng.choice(["snake", "snake", "snake", "snake", "camel"])
    params: dict[str, Param] = {}
    for slot in sketch.slots:
        about, required = slot.about, slot.required
        if not required and rng.random() < 0.12:
            required = True
            if rng.random() < 0.6:
                about = re.sub(r" *Default [^.]*(\.\d[^.]*)?\.", "", about)
        made = sort(kinds, rng, slot.kind, slot.args, about)
        if made.note:
            about = f"{about} {made.note}"
        elif rng.random() < 0.06:
            about = ""
        draw = _truth(slot.phrases) if slot.kind == "bool" else made.draw
        names = [styled(n, style) for n in slot.names]
        name = _named(rng, names, kinds.split, style, 0.12)
        while name in {p.name for p in params.values()}:
            name = _named(rng, names, kinds.split, style, 1.0)
        plain = tuple(p for p in slot.phrases if set(re.findall(r"\{(\w+)\}", p)) == {"v"})
        phrases = (
            ("{v}",)
            if slot.kind == "bool"
            else plain or tuple(n.replace("{n}", words(slot.key)) for n in NAMED[:4])
        )
        params[slot.key] = Param(name, made.schema, draw, phrases, required, about)
    said = {slot.key: slot for slot in sketch.slots}
    by_key = {key: p.name for key, p in params.items()}

    def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
        given = {key: spoken[name].text for key, name in by_key.items() if name in spoken}
        return _request(r, sketch, said, given, kinds.split)

    ordered = list(params.values())
    if rng.random() < 0.9:
        ordered.sort(key=lambda p: not p.required)
    about = rng.choice(sketch.abouts)
    needed = [words(key) for key, p in params.items() if p.required]
    if needed and rng.random() < 0.35:
        about = f"{about.rstrip('.')}{rng.choice(GIVEN).format(n=joined(needed, rng))}."
    return Drawn(_tool_name(rng, sketch, kinds.split, style), about, tuple(ordered), ask, sketch)


def _truth(phrases: Sequence[str]) -> Callable[[random.Random], Spoken]:
    yes = [p for p in phrases if not p.startswith("~")]
    no = [p[1:] for p in phrases if p.startswith("~")]

    def draw(r: random.Random) -> Spoken:
        value = not no or r.random() < 0.65
        return Spoken(value, r.choice(yes if value else no))

    return draw


def _named(rng: random.Random, names: Sequence[str], split: Split, style: str, other: float) -> str:
    """One of the names, or a variant of one."""
    own = [n for n in names if in_split(n, split)]
    if own and rng.random() >= other:
        return rng.choice(own)
    return styled(_varied(rng, rng.choice(names), split), style)


def _varied(rng: random.Random, name: str, split: Split) -> str:
    for _ in range(2000):
        made = rename(rng, words(name).replace(" ", "_"), split)
        if in_split(styled(made, "snake"), split):
            return made
    raise AssertionError(f"no variant of {name!r} lies in the {split} split")


def _tool_name(rng: random.Random, sketch: Sketch, split: Split, style: str) -> str:
    base = rng.choice(sketch.names)
    _, _, rest = base.partition("_")
    options = [base, base, f"{sketch.domain}.{base}", f"{sketch.domain}_{base}"]
    if rest and "." not in base:
        options += [f"{rest}.{base.split('_')[0]}", rest]
    name = rng.choice(options)
    if not in_split(name, split) or rng.random() < 0.12:
        name = _varied(rng, name.replace(".", "_"), split)
    if "." in name:
        return name if rng.random() < 0.5 else name.replace(".", "_")
    return styled(name, style if rng.random() < 0.9 else "pascal")


# ── requests ─────────────────────────────────────────────────────────────────────────────────


def _request(
    rng: random.Random, sketch: Sketch, slots: dict[str, Slot], given: dict[str, str], split: Split
) -> str:
    usable = [g for g in sketch.goals if set(re.findall(r"\{(\w+)\}", g)) <= set(given)]
    goal = pick(rng, usable or [sketch.topic], split)
    left = {k: v for k, v in given.items() if f"{{{k}}}" not in goal}
    goal = re.sub(r"\{(\w+)\}", lambda m: given[m.group(1)], goal)
    if left and all(slots[k].phrases and slots[k].kind != "bool" for k in left) and rng.random() < 0.12:
        return _story(rng, sketch, goal, slots, left, split)
    parts = _parts(rng, slots, left, split)
    if parts and rng.random() < 0.14:
        return _led(rng, sketch, goal, parts, split)
    tail = _flowing(parts) if rng.random() < 0.85 else ", ".join(p.lstrip(",; ") for p in parts)
    body = re.sub(r" +([,;])", r"\1", f"{goal} {tail}".strip())
    return _sentence(rng, sketch, re.sub(r"\b(last|next|past|coming|upcoming) an? ", r"\1 ", body), split)


def _sentence(rng: random.Random, sketch: Sketch, body: str, split: Split) -> str:
    if body.startswith("?"):
        return f"{body[1:]}?" if rng.random() < 0.93 else body[1:]
    kind = "!" if body.startswith("!") else sketch.opened
    text = pick(rng, OPENERS[kind], split).replace("{g}", body.lstrip("!"))
    if rng.random() < 0.06:  # as typed into a search box
        text = body.lstrip("!").removeprefix("the ")
    return text[0].upper() + text[1:] if rng.random() < 0.95 else text


def _parts(rng: random.Random, slots: dict[str, Slot], left: dict[str, str], split: Split) -> list[str]:
    """A phrase for each value; one phrase may tell two."""
    out: list[str] = []
    told: set[str] = set()
    for key, text in left.items():
        if key in told:
            continue
        slot = slots[key]
        told.add(key)
        if slot.kind == "bool":
            out.append(text)
            continue
        fitting = [p for p in slot.phrases if set(re.findall(r"\{(\w+)\}", p)) - {"v"} <= set(left) - told]
        together = [p for p in fitting if p.count("{") > 1]
        if not fitting or rng.random() < 0.08:
            phrase = pick(rng, NAMED, split).replace("{n}", words(key))
        elif together and rng.random() < 0.75:
            phrase = pick(rng, together, split)
        else:
            phrase = pick(rng, fitting, split)
        used = set(re.findall(r"\{(\w+)\}", phrase)) - {"v"}
        told |= used
        out.append(re.sub(r"\{(\w+)\}", lambda m: text if m.group(1) == "v" else left[m.group(1)], phrase))  # noqa: B023
    if rng.random() < 0.35:
        rng.shuffle(out)
    return out


def _flowing(parts: Sequence[str]) -> str:
    """Phrases as one runs into the next: 'with a mass of 2 kg and a height of 3 m in Oslo'."""
    text = ""
    last = ""
    for part in parts:
        first, _, rest = part.partition(" ")
        if first == last and rest and first in ("with", "for", "in", "of", "and", "using"):
            text += f" and {rest}"
        elif part.startswith((",", ";")):
            text += part
        else:
            text += f" {part}"
        last = first
    return text.strip()


def _led(rng: random.Random, sketch: Sketch, goal: str, parts: Sequence[str], split: Split) -> str:
    """What is given comes first: 'Given a mass of 2 kg, what is …?'"""
    ahead = _flowing(parts).lstrip(",; ")
    if re.match(r"with .*\d", ahead):
        ahead = rng.choice(["With ", "Given ", "Assuming ", "For "]) + ahead[5:]
    rest = _sentence(rng, sketch, goal, split)
    if not re.match(r"(I|I'd|I'm|[A-Z]{2,})\b", rest):
        rest = rest[0].lower() + rest[1:]
    return f"{ahead[0].upper()}{ahead[1:]}, {rest}"


def _story(
    rng: random.Random, sketch: Sketch, goal: str, slots: dict[str, Slot], left: dict[str, str], split: Split
) -> str:
    """The values in sentences of their own."""
    told = []
    for key, text in left.items():
        phrase = next((p for p in slots[key].phrases if p.count("{") == 1), "")
        unit = phrase.partition("{v}")[2]
        if len(unit) > 16 or key in unit:
            unit = ""
        form = rng.choice(
            [
                "The {n} is {v}.",
                "The {n} is {v}.",
                "My {n} is {v}.",
                "{N}: {v}.",
                "I have a {n} of {v}.",
                "Take {v} as the {n}.",
            ]
        )
        told.append(form.format(n=words(key), N=words(key).capitalize(), v=f"{text}{unit}"))
    question = _sentence(rng, sketch, goal, split)
    story = pick(rng, STORIES, split)
    if "Now, " in story and not question.startswith("I"):
        question = question[0].lower() + question[1:]
    if story.startswith("{q}") and question[-1:] not in ".?!":
        question += "."
    return story.replace("{s}", " ".join(told)).replace("{q}", question)
