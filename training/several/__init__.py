# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Requests for several calls of one tool, told as people tell them. Knows no turns.

Within the request (within.py): what stands around the values that differ is told once for each call: "3 kg in Oslo,
5 kg in Rome and 8 kg in Bern". Beside it (beside.py): the request without them, and then a case, a line, a tuple for
each call, or the request once more.
"""

from __future__ import annotations

import random

from training.naming import Split, choose
from training.several.beside import again, cases, counted, lines, pairs
from training.several.sets import drawn_sets
from training.several.within import crossed, spans
from training.tools import Task, Tool

FORMS = {spans: 38, cases: 24, again: 16, crossed: 9, pairs: 8, counted: 7, lines: 7}
"""How often each is tried."""
# in training also these
USE = (
    "Please call",
    "Do it with",
    "Do this with",
    "Make use of",
    "I want you to use",
    "Run",
    "Take",
    "Work with",
    "You can use",
    "Go with",
)
TO_WHAT = (
    " for that",
    " for it",
    " each time",
    " for all of them",
    " for each of them",
    " every time",
    ", please",
    " here",
)


def together(rng: random.Random, tool: Tool, split: Split) -> Task | None:
    """One request for two to four calls of the tool; None where this tool's requests do not allow the form drawn."""
    drawn = drawn_sets(rng, tool)
    if not drawn:
        return None
    for form in dict.fromkeys(rng.choices(list(FORMS), list(FORMS.values()), k=3)):
        if task := form(rng, drawn, split):
            use = choose(rng, ["Use", "Please use", "Call"], USE, split)
            named = f"{use} {tool.name}{choose(rng, ['', ' for this', ' for each'], TO_WHAT, split)}."
            if rng.random() < 0.05 and task.request[-1:] in ".?!":
                return Task(f"{task.request} {named}", task.calls, task.spoken)
            return task
    return None
