# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Requests for the tools of everyday domains: a goal and a phrase for each value, in many orders and tellings.

Knows sketches and values; nothing of schemas.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from training.naming import Split, capital, pick, series, slots_of, stopped, uncapital, words
from training.sketches import Sketch, Slot
from training.spoken import Spoken

OPENERS = {
    "c": (
        "What is {g}?", "Calculate {g}.", "Compute {g}.", "Find {g}.", "Determine {g}.", "Work out {g}.", "What's {g}?", "Can you calculate {g}?",
        "I need to know {g}.", "Could you compute {g}?", "Help me calculate {g}.", "Please find {g}.", "I want to calculate {g}.", "Tell me {g}.",
        "Can you find {g}?", "How do I get {g}?", "Give me {g}.", "I'd like to know {g}.", "Estimate {g}.", "Please calculate {g}.", "Evaluate {g}.",
        "Could you work out {g} for me?", "Can you help me determine {g}?", "My teacher wants {g}.", "We need {g}.", "I wonder what {g} is.",
        "Any idea what {g} is?", "How big is {g}?", "Let me know {g}.", "Do you know {g}?", "Please determine {g}.", "Please compute {g}.", "I must find {g}.",
        "Help me with {g}.", "I have to calculate {g}.", "Can you work out {g}?", "I would like to calculate {g}.", "Figure out {g}.", "Could you tell me {g}?",
        "For my notes: {g}.", "Question: what is {g}?", "I am trying to find {g}.", "Quick: {g}?", "Show me {g}.", "I'm asked for {g}.",
        "Will you compute {g}?", "I can't work out {g}.",
    ),
    "g": (
        "Get {g}.", "Find {g}.", "Show me {g}.", "Look up {g}.", "Retrieve {g}.", "Give me {g}.", "Tell me {g}.", "Fetch {g}.", "I want to see {g}.",
        "Can you find {g}?", "I'm looking for {g}.", "Could you get me {g}?", "Search for {g}.", "I need {g}.", "Please find {g}.", "Can you tell me {g}?",
        "Provide me with {g}.", "Find me {g}.", "I'd like {g}.", "Can you show me {g}?", "Please look up {g}.", "Could you look up {g} for me?",
        "Find out {g}.", "Would you check {g}?", "Help me find {g}.", "I wonder about {g}.", "Get me {g}, please.", "Where can I find {g}?", "Do you have {g}?",
        "Let me see {g}.", "Bring up {g}.", "Please get {g}.", "I would like to see {g}.", "Could you find {g}?", "What about {g}?", "Is there {g}?",
        "Pull up {g}.", "We are looking for {g}.", "I'd love to have {g}.", "Please show me {g}.", "Could you show me {g}?", "Please tell me {g}.",
        "Any news on {g}?", "Let me know {g}.", "We want {g}.", "Please search for {g}.", "May I see {g}?", "Do look for {g}.",
    ),
    "!": (
        "{g}.", "{g}.", "{g}", "Please {g}.", "Can you {g}?", "Could you {g}?", "I want to {g}.", "I'd like to {g}.", "I need to {g}.", "Help me {g}.",
        "Could you please {g}?", "I want you to {g}.", "Would you {g}?", "We would like to {g}.", "Go ahead and {g}.", "Let's {g}.", "My plan is to {g}.",
        "Let us {g}.", "Now {g}.", "I have to {g}.", "Is it possible to {g}?", "Would you mind helping me {g}?", "Time to {g}.", "Please help me {g}.",
        "It would be great to {g}.", "We need to {g}.", "I was going to {g}.", "Just {g}.", "I intend to {g}.", "Will you {g}?", "I'd love to {g}.",
        "Kindly {g}.",
    ),
}  # fmt: skip
STORIES = (
    "I am working on a problem. {s} {q}", "{s} {q}", "Here is what I know: {s} {q}", "We have the following. {s} {q}", "For my homework: {s} {q}",
    "Suppose this: {s} {q}", "I have a question. {s} {q}", "These are the details. {s} {q}", "{q} {s}", "Let me explain. {s} {q}", "{s} Now, {q}",
    "{s} That is all I know. {q}", "Imagine the following. {s} {q}", "My case: {s} {q}", "{s} So: {q}", "Some facts first. {s} {q}", "{q} What I know: {s}",
    "{q} The data: {s}", "From my notes: {s} {q}", "We know this much: {s} {q}",
)  # fmt: skip
NAMED = (
    "with the {n} {v}", "{n}: {v}", "with {n} set to {v}", "where the {n} is {v}", "with {v} as the {n}", "using {n} {v}", "and {n} {v}", "({n} {v})",
    "having {v} as the {n}", "whose {n} is {v}", "taking {v} as the {n}", "for the {n} {v}", "with {n} = {v}", "at a {n} of {v}", "and with the {n} {v}",
)  # fmt: skip
# several values in one breath: their names, the values in the same order, or each beside its name
JOINT = (
    "given {ns} as {vs}", "with {ns} of {vs}", "with {ns} of {vs}, respectively", "given {eqs}", "with {eqs}", "where {eqs}", "({eqs})", "; {cols}", "if {are}",
    "where {are}", "using {vs} as {ns}", "with {vs} for {ns}, in that order", ", {ns} being {vs}", "when {are}", ", say {eqs}", "given that {are}",
    "using {eqs}", "for {cols}", "with the values {cols}", "having {ns} of {vs}", "whose {ns} are {vs}", "at {eqs}", "taking {vs} for {ns}",
    "knowing that {are}", ", as {are}", "provided that {are}",
)  # fmt: skip

LATER = (
    "The {n} should be {v}.", "Use {v} as the {n}.", "Please use {v} for the {n}.", "Take {v} for the {n}.", "For the {n}, use {v}.",
    "By the way, the {n} is {v}.", "I want {v} as the {n}.", "Set the {n} to {v}.", "Make it {v} for the {n}.", "{v} is the {n}.", "Let the {n} be {v}.",
    "I think {v} is right for the {n}.", "With {v} for the {n}, please.", "Keep in mind that the {n} is {v}.", "And the {n}? {v}.", "Put {v} for the {n}.",
    "Enter {v} as the {n}.", "I forgot: the {n} is {v}.", "As the {n} I want {v}.", "I want {v} as {n}.", "Regarding the {n}: {v}.", "Choose {v} for the {n}.",
    "Choose {v} as {n}.", "My {n} is {v}, by the way.", "My {n}: {v}.", "Its {n} is {v}.", "It has {v} as its {n}.", "Note: the {n} is {v}.",
    "The {n} has to be {v}.", "The {n} needs to be {v}.", "And the {n} is {v}.", "Oh, the {n} is {v}.", "Please go with {v} for the {n}.",
    "Have the {n} be {v}.", "We take {v} as the {n}.", "We want the {n} to be {v}.", "{v} will do as the {n}.", "{v} as the {n}, please.",
    "I'd like the {n} to be {v}.", "Give {v} as the {n}.",
)  # fmt: skip


def request(
    rng: random.Random, sketch: Sketch, slots: dict[str, Slot], given: dict[str, Spoken], split: Split
) -> str:
    plain = {k for k, v in given.items() if not v.whole}
    usable = [g for g in sketch.goals if set(slots_of(g)) <= plain]
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
        return stopped(text) + later
    if parts and rng.random() < 0.14:
        text = _led(rng, sketch, goal, parts, split, given)
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
    return capital(text) if rng.random() < 0.95 else text


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
        fitting = [p for p in slot.phrases if set(slots_of(p)) - {"v"} <= plain - told]
        together = [p for p in fitting if p.count("{") > 1]
        if not fitting or rng.random() < 0.08:
            phrase = pick(rng, NAMED, split).replace("{n}", words(key))
        elif together and rng.random() < 0.75:
            phrase = pick(rng, together, split)
        else:
            phrase = pick(rng, fitting, split)
        if "${v}" in phrase and not text[0].isdigit():
            text = str(spoken.value) if spoken.value is not None else text  # "$one"
        used = set(slots_of(phrase)) - {"v"}
        told |= used
        out.append(
            re.sub(r"\{(\w+)\}", lambda m: text if m.group(1) == "v" else left[m.group(1)].text, phrase)  # noqa: B023
        )
    if rng.random() < 0.35:
        rng.shuffle(out)
        out.sort(key=lambda part: part.startswith(("and ", ",")))  # these go on from what was said
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
    return series(items, comma)


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


def opening(text: str, given: dict[str, Spoken]) -> str:
    """Words at the head of a sentence: with a capital, unless a value stands there, which is copied as it is."""
    return (
        text
        if any(text.startswith(s.text) for s in given.values() if s.text)
        else text[:1].upper() + text[1:]
    )


def _led(
    rng: random.Random,
    sketch: Sketch,
    goal: str,
    parts: Sequence[str],
    split: Split,
    given: dict[str, Spoken],
) -> str:
    """What is given comes first: 'Given a mass of 2 kg, what is …?'"""
    ahead = _flowing(parts).lstrip(",; ")
    if re.match(r"with .*\d", ahead):
        ahead = rng.choice(["With ", "Given ", "Assuming ", "For "]) + ahead[5:]
    rest = uncapital(_sentence(rng, sketch, goal, split), [s.text for s in given.values()])
    return _close(f"{opening(ahead, given)}, {rest}")


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
