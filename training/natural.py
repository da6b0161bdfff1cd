# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Tools of everyday domains as people write and ask for them: geometry, law, travel, biology… Data in
training/domains/*.txt; requests are composed of a goal and a phrase for each value, in many orders.

A block of a file:

    names, of, the, tool | c or g (computed or got) | goals ; noun phrases or ?question stems or !imperatives or .whole sentences.
    A descriptions ~ of the tool
    name,other_name? kind arguments : phrases with {v} ; from {v} to {other} ; ~phrase of a false one ; =0 from rest # description
    X questions near by that the tool does not answer, with its {values} or without ; …

A `?` marks a parameter that may be left out. The first name is the slot that goals and phrases refer to. A phrase
that begins with `=` tells one value in words of its own.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from training.kinds import Kinds, Param, Split, Spoken, in_split, joined, pick, rename, styled, words
from training.shapes import Draw
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
# several values in one breath: their names, the values in the same order, or each beside its name
JOINT = (
    "given {ns} as {vs}", "with {ns} of {vs}", "with {ns} of {vs}, respectively", "given {eqs}", "with {eqs}", "where {eqs}", "({eqs})", "; {cols}", "if {are}",
    "where {are}", "using {vs} as {ns}", "with {vs} for {ns}, in that order", ", {ns} being {vs}", "when {are}", ", say {eqs}", "given that {are}",
)  # fmt: skip

LATER = (
    "The {n} should be {v}.", "Use {v} as the {n}.", "Please use {v} for the {n}.", "Take {v} for the {n}.", "For the {n}, use {v}.", "By the way, the {n} is {v}.",
    "I want {v} as the {n}.", "Set the {n} to {v}.", "Make it {v} for the {n}.", "{v} is the {n}.",
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
    special: tuple[Spoken, ...] = ()
    """Values that have words of their own."""

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
    told = _split(phrases, " ; ")
    return Slot(
        tuple(names.replace("?", "").split(",")), kind, args[0].strip() if args else "", tuple(p for p in told if p[0] != "="), about.strip(), "?" not in names,
        tuple(_special(p) for p in told if p[0] == "="),
    )  # fmt: skip


def _special(phrase: str) -> Spoken:
    """'=0 from rest'"""
    value, _, text = phrase[1:].partition(" ")
    return Spoken(
        json.loads(value) if re.fullmatch(r"-?[\d.]+|true|false", value) else value, text, whole=True
    )


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


DOMAINS = {
    p.stem: parse(p.read_text(), p.stem)
    for p in sorted(FOLDER.glob("*.txt"))
    if p.stem not in ("lists", "extras")
}
SKETCHES = [s for sketches in DOMAINS.values() for s in sketches]
EXTRAS = {
    opened: [_slot(line) for line in lines.strip().split("\n")]
    for opened, lines in zip("cg", (FOLDER / "extras.txt").read_text().split("\n\n"), strict=True)
}


def likeness(a: Sketch, b: Sketch) -> float:
    """How much two tools have in common in names and descriptions: rare words count most."""
    return sum(1 / _tools_with()[word] for word in _vocabulary(a) & _vocabulary(b))


@functools.cache
def _vocabulary(sketch: Sketch) -> frozenset[str]:
    said = " ".join([*map(words, sketch.names), *sketch.abouts]).lower()
    return frozenset(word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", said))


@functools.cache
def _tools_with() -> Counter[str]:
    return Counter(word for sketch in SKETCHES for word in _vocabulary(sketch))


@dataclass(frozen=True)
class Drawn:
    """What a tool is made of: see tooling.Tool."""

    name: str
    about: str
    params: tuple[Param, ...]
    ask: Callable[[random.Random, dict[str, Spoken]], str]
    miss: Callable[[random.Random], str]
    """A request near by that it does not serve."""
    sketch: Sketch


def drawn(rng: random.Random, kinds: Kinds, sketch: Sketch, prefix: bool = False) -> Drawn:
    """The tool under names of the split. prefix: its name begins with the domain's."""
    style = rng.choice(["snake", "snake", "snake", "snake", "camel"])
    params: dict[str, Param] = {}
    slots = sketch.slots
    if rng.random() < 0.3:  # what tools of any topic offer beside, and people seldom use
        taken = {n for slot in slots for n in slot.names}
        extras = [s for s in EXTRAS[sketch.opened] if not taken & set(s.names)]
        slots = (*slots, *rng.sample(extras, rng.choice([1, 1, 2, 3])))
    for slot in slots:
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
        if slot.special:
            draw = _sometimes(slot.special, draw)
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
    said = {slot.key: slot for slot in slots}
    by_key = {key: p.name for key, p in params.items()}

    def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
        given = {key: spoken[name] for key, name in by_key.items() if name in spoken}
        return _request(r, sketch, said, given, kinds.split)

    def miss(r: random.Random) -> str:
        alike = [m for m in sketch.misses if "{" in m]
        text = pick(r, alike if alike and r.random() < 0.6 else sketch.misses, kinds.split)
        return re.sub(r"\{(\w+)\}", lambda m: _apart(params[m.group(1)].draw, r), text)

    ordered = list(params.values())
    if rng.random() < 0.9:
        ordered.sort(key=lambda p: not p.required)
    about = rng.choice(sketch.abouts)
    needed = [words(key) for key, p in params.items() if p.required]
    if needed and rng.random() < 0.35:
        about = f"{about.rstrip('.')}{rng.choice(GIVEN).format(n=joined(needed, rng))}."
    if rng.random() < 0.25:
        about, ordered = _explained(rng, about, needed, ordered)
    name = _tool_name(rng, sketch, kinds.split, style, prefix)
    return Drawn(name, about, tuple(ordered), ask, miss, sketch)


PURPOSES = (
    "This function takes {n} and returns the result.", "It needs {n} to work.", "Provide {n} to get an answer.", "Use this function whenever the user asks for it.",
    "The function can be used for planning as well as for checking a result that is known already.", "Returns an object with the result and the values that led to it.",
    "Optional parameters need not be given.", "Note that all parameters must be in the units that their descriptions name.", "Only one request is handled by each call.",
)  # fmt: skip
NOTES = {
    "number": ("It must be a number.", "Should be a positive number unless stated otherwise.", "Used in the calculation.", "Do not include the unit.", "A decimal number is accepted."),
    "integer": ("It must be a whole number.", "An integer is expected.", "Should be given as a plain number without the unit.", "Used in the calculation."),
    "string": ("It should be given as a string.", "This must not be empty.", "Use the name as it is commonly written.", "For instance: '{e}'.", "e.g. {e}", "Upper and lower case do not matter."),
    "array": ("It must be a list.", "Provide one or more items.", "Each item is looked at on its own.", "Given as an array."),
    "boolean": ("Set to true to enable it.", "True or false.", "If true, it is done; otherwise it is not."),
    "object": ("An object with the fields listed.", "Fields that are not needed may be left out."),
}  # fmt: skip


def _explained(
    rng: random.Random, about: str, needed: Sequence[str], params: Sequence[Param]
) -> tuple[str, list[Param]]:
    """Long descriptions, as of a documented function."""
    for text in rng.sample(PURPOSES, rng.randint(1, 2)):
        if "{n}" not in text or needed:
            about = f"{about.rstrip('.')}. {text.format(n=joined(['the ' + n for n in needed], rng) if needed else '')}"
    out = []
    for p in params:
        notes = NOTES[p.schema["type"]]
        if p.about and "{e}" not in p.about and rng.random() < 0.6:
            example = p.draw(rng).value if p.schema["type"] == "string" else ""
            note = rng.choice(notes).replace("{e}", example)
            out.append(replace(p, about=f"{p.about.rstrip('.')}. {note}"))
        else:
            out.append(p)
    return about, out


def _apart(draw: Draw, rng: random.Random) -> str:
    """A value in words that fit into any phrase."""
    while (spoken := draw(rng)).whole:
        pass
    return spoken.text


def _sometimes(special: Sequence[Spoken], draw: Draw) -> Draw:
    return lambda r: r.choice(special) if r.random() < 0.3 else draw(r)


def _truth(phrases: Sequence[str]) -> Callable[[random.Random], Spoken]:
    yes = [p for p in phrases if not p.startswith("~")]
    no = [p[1:] for p in phrases if p.startswith("~")]

    def draw(r: random.Random) -> Spoken:
        value = not no or r.random() < 0.65
        return Spoken(value, r.choice(yes if value else no), whole=True)

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


def _tool_name(rng: random.Random, sketch: Sketch, split: Split, style: str, prefix: bool) -> str:
    base = rng.choice(sketch.names)
    _, _, rest = base.partition("_")
    options = [f"{sketch.domain}.{base}", f"{sketch.domain}_{base}"]
    if not prefix:
        options += [base, base]
    if not prefix and rest and "." not in base:
        options += [f"{rest}.{base.split('_')[0]}", rest]
    name = rng.choice(options)
    if not in_split(name, split) or rng.random() < 0.12:
        name = _varied(rng, name.replace(".", "_"), split)
    if "." in name:
        return name if rng.random() < 0.5 else name.replace(".", "_")
    return styled(name, style if rng.random() < 0.9 else "pascal")


# ── requests ─────────────────────────────────────────────────────────────────────────────────


def _request(
    rng: random.Random, sketch: Sketch, slots: dict[str, Slot], given: dict[str, Spoken], split: Split
) -> str:
    plain = {k for k, v in given.items() if not v.whole}
    usable = [g for g in sketch.goals if set(re.findall(r"\{(\w+)\}", g)) <= plain]
    goal = pick(rng, usable or [sketch.topic], split)
    left = {k: v for k, v in given.items() if f"{{{k}}}" not in goal}
    goal = re.sub(r"\{(\w+)\}", lambda m: given[m.group(1)].text, goal)
    own = {s.key for s in sketch.slots if s.phrases} & plain
    if goal[0] != "." and left and own >= left.keys() and rng.random() < 0.08:
        return _story(rng, sketch, goal, slots, left, split)
    later = ""
    able = [k for k in left if k in own and left[k].value is not None and not isinstance(left[k].value, dict)]
    if able and rng.random() < 0.1:  # one value comes in a sentence of its own
        key = rng.choice(able)
        later = " " + pick(rng, LATER, split).format(n=words(key), v=left.pop(key).text)
    parts = _parts(rng, slots, left, split)
    if goal[0] == ".":
        text = _close(re.sub(r"([.?!]?)$", lambda m: f" {_flowing(parts)}{m.group()}", goal[1:], count=1))
        return text + later if text[-1] in ".?!" else f"{text}.{later}"
    if parts and rng.random() < 0.14:
        text = _led(rng, sketch, goal, parts, split)
    else:
        tail = _flowing(parts) if rng.random() < 0.85 else ", ".join(p.lstrip(",; ") for p in parts)
        text = _sentence(rng, sketch, _close(f"{goal} {tail}"), split)
    return text + later if not later or text[-1] in ".?!" else f"{text}.{later}"


def _close(text: str) -> str:
    text = re.sub(r" +([,;.?!])", r"\1", text.strip())
    return re.sub(r"\b(last|next|past|coming|upcoming) an? ", r"\1 ", text)


def _sentence(rng: random.Random, sketch: Sketch, body: str, split: Split) -> str:
    if body.startswith("?"):
        return f"{body[1:]}?" if rng.random() < 0.93 else body[1:]
    kind = "!" if body.startswith("!") else sketch.opened
    text = pick(rng, OPENERS[kind], split).replace("{g}", body.lstrip("!"))
    if rng.random() < 0.06:  # as typed into a search box
        text = body.lstrip("!").removeprefix("the ")
    return text[0].upper() + text[1:] if rng.random() < 0.95 else text


def _parts(rng: random.Random, slots: dict[str, Slot], left: dict[str, Spoken], split: Split) -> list[str]:
    """A phrase for each value; one phrase may tell two."""
    out: list[str] = []
    told: set[str] = set()
    # never where a text tells the values of several calls
    counted = [k for k, s in left.items() if slots[k].kind in COUNTED and not s.whole and s.value is not None]
    if len(counted) > 1 and rng.random() < 0.14:
        out.append(_jointly(rng, {k: left[k].text for k in counted}, split))
        told |= set(counted)
    plain = {k for k, v in left.items() if not v.whole}
    for key, spoken in left.items():
        if key in told:
            continue
        slot, text = slots[key], spoken.text
        told.add(key)
        if spoken.whole:
            out.append(text)
            continue
        fitting = [p for p in slot.phrases if set(re.findall(r"\{(\w+)\}", p)) - {"v"} <= plain - told]
        together = [p for p in fitting if p.count("{") > 1]
        if not fitting or rng.random() < 0.08:
            phrase = pick(rng, NAMED, split).replace("{n}", words(key))
        elif together and rng.random() < 0.75:
            phrase = pick(rng, together, split)
        else:
            phrase = pick(rng, fitting, split)
        used = set(re.findall(r"\{(\w+)\}", phrase)) - {"v"}
        told |= used
        out.append(
            re.sub(r"\{(\w+)\}", lambda m: text if m.group(1) == "v" else left[m.group(1)].text, phrase)  # noqa: B023
        )
    if rng.random() < 0.35:
        rng.shuffle(out)
    return out


COUNTED = ("int", "num", "usd", "pct", "span", "point", "geo")


def _jointly(rng: random.Random, given: dict[str, str], split: Split) -> str:
    """'given the base and the height as 6 and 10', 'with a = 3 and b = -11'."""
    form = pick(rng, JOINT, split)
    names = [rng.choice(["the ", "", "its "]) + words(k) for k in given]
    sign = rng.choice([" = ", "=", " = ", " is ", ": "] if form[0] == "(" else [" = ", "=", " = ", " is "])
    return form.format(
        ns=_both(names, rng),
        vs=_both(list(given.values()), rng),
        eqs=_both([f"{words(k)}{sign}{v}" for k, v in given.items()], rng),
        cols=", ".join(f"{words(k)}: {v}" for k, v in given.items()),
        are=_both([f"the {words(k)} is {v}" for k, v in given.items()], rng),
    )


def _both(items: Sequence[str], rng: random.Random) -> str:
    comma = ", and " if len(items) > 2 and rng.random() < 0.5 else " and "
    return ", ".join(items[:-1]) + comma + items[-1]


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
    rng: random.Random,
    sketch: Sketch,
    goal: str,
    slots: dict[str, Slot],
    left: dict[str, Spoken],
    split: Split,
) -> str:
    """The values in sentences of their own."""
    told = []
    for key, spoken in left.items():
        phrase = next((p for p in slots[key].phrases if p.count("{") == 1), "")
        unit = phrase.partition("{v}")[2]
        if len(unit) > 16 or key in unit or re.search("[\"'?]", unit):
            unit = ""
        form = rng.choice(
            [
                "The {n} is {v}.",
                "The {n} is {v}.",
                "The {n} should be {v}.",
                "{N}: {v}.",
                "I have {a} {n} of {v}.",
                "Take {v} as the {n}.",
            ]
        )
        name = words(key)
        if isinstance(spoken.value, list):
            form = rng.choice(["{N}: {v}.", "Take {v} as the {n}."])
        a = "an" if name[0] in "aeiou" else "a"
        told.append(form.format(n=name, N=name.capitalize(), v=f"{spoken.text}{unit}", a=a))
    question = _sentence(rng, sketch, goal, split)
    story = pick(rng, STORIES, split)
    if "Now, " in story and not question.startswith("I"):
        question = question[0].lower() + question[1:]
    if story.startswith("{q}") and question[-1:] not in ".?!":
        question += "."
    return story.replace("{s}", " ".join(told)).replace("{q}", question)
