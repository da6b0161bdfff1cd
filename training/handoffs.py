# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Specialists to whom a conversation is handed over, by the tools that kogagent makes of them. Knows no turns.

A line of specialists.txt: group | names | what it is asked about | its tools of training/domains, or - | requests
for it. Of one group there is at most one in a set, but for `service`, whose requests tell them apart.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.kinds import Kinds
from training.naming import Split, capital, in_split, pick, rename, words
from training.sketches import SKETCHES, Sketch

FRONT = (
    "You are the front desk. Hand each request over to who can serve it.",
    "Hand the conversation over to the agent that fits.",
    "Decide who can help and hand over.",
    "You are a triage agent. Route the user to the right agent.",
    "Send the user to the right specialist.",
    "Route each request. Answer small talk yourself.",
    "You are a receptionist with colleagues.",
    "Hand over to a colleague where one fits, otherwise say that nobody can help.",
    "You are a helpful assistant.",
)
BACK = (
    "You are the {n} agent.",
    "You help with {a}.",
    "You are in charge of {a}. Use your tools.",
    "You answer questions about {a} with the tools.",
    "You are a specialist for {a}.",
    "Be brief. You care for {a}.",
)
SAID = (
    "Answers questions about {a}.",
    "Helps with {a}.",
    "Takes care of {a}.",
    "Everything about {a}.",
    "Knows about {a}",
    "{a}",
    "{a}.",
    "For all that is about {a}.",
    "Agent for {a}",
    "Serves requests about {a}.",
)
VAGUE = (
    "I need help with {a}.",
    "I have a question about {a}.",
    "Can somebody help me with {a}?",
    "It's about {a}.",
    "I'd like to talk to someone about {a}.",
    "Who can help me with {a}?",
    "Connect me to {n}.",
    "Please put me through to {n}.",
    "Can I speak to {n}?",
    "I want to ask something about {a}.",
    "{n}, please",
    "Transfer me to {n}.",
    "help with {a}",
    "My question is about {a}.",
)
WHAT = (
    "What would you like to know about {a}?",
    "Sure, what do you need?",
    "I can help with {a}. What is it about?",
    "Tell me what you need, please.",
    "How can I help you with {a}?",
)
NOBODY = (
    "Sorry, none of my colleagues can help with that.",
    "There is nobody here for that.",
    "I have no agent for this request.",
    "I'm afraid nobody here can do that.",
    "None of the agents fits this request.",
)
REASONS = (
    "The user asks about {a}.",
    "question about {a}",
    "{a}",
    "Needs help with {a}.",
    "User request concerns {a}.",
)
_FORMS = (
    "{n}",
    "{n}",
    "{n}",
    "{n} agent",
    "{n}_agent",
    "{N}",
    "{N} agent",
    "{n} desk",
    "{n} expert",
    "{n}_expert",
    "{n}-team",
    "{n} specialist",
    "{n}_assistant",
    "{n}_helper",
    "The {n} team",
)


@dataclass(frozen=True)
class Specialist:
    """sketches: what its own tools are made of; requests: others that it serves."""

    group: str
    names: tuple[str, ...]
    about: str
    sketches: tuple[Sketch, ...]
    requests: tuple[str, ...]


def _read(path: Path) -> list[Specialist]:
    by_name = {s.names[0]: s for s in SKETCHES}
    out = []
    for line in path.read_text().strip().split("\n"):
        group, names, about, sketches, *requests = (part.strip() for part in line.split(" | "))
        own = [by_name[name.strip()] for name in sketches.split(",") if name.strip() != "-"]
        told = tuple(r.strip() for r in requests[0].split(" ; ")) if requests else ()
        out.append(Specialist(group, tuple(n.strip() for n in names.split(",")), about, tuple(own), told))
    return out


SPECIALISTS = _read(Path(__file__).with_name("specialists.txt"))


@dataclass(frozen=True)
class Desk:
    """A specialist under the agent name that it has in one conversation."""

    specialist: Specialist
    agent: str
    said: str = ""
    """What its agent's description says, if it has one."""

    @classmethod
    def drawn(cls, rng: random.Random, specialist: Specialist, split: Split) -> Desk:
        while True:
            name = rng.choice(specialist.names)
            if rng.random() < 0.5:
                name = name.replace("_", " ")
            form = rng.choice(_FORMS)
            agent = form.format(n=name, N="".join(w.capitalize() for w in words(name).split()))
            if split == "test":
                agent = rename(rng, name, "test")
            said = pick(rng, SAID, split).format(a=specialist.about) if rng.random() < 0.5 else ""
            made = cls(specialist, agent, capital(said) if said else "")
            if in_split(made.tool_name, split):
                return made

    @property
    def tool_name(self) -> str:
        """As kogagent.Handoff names it."""
        return "transfer_to_" + re.sub(r"\W+", "_", self.agent).strip("_")

    @property
    def note(self) -> str:
        """What the hand-over returns."""
        return f"{self.agent} goes on from here."

    def spec(self, rng: random.Random, split: Split) -> dict[str, Any]:
        """As the model is told of it: by what the agent says of itself, if anything, and how it is reached."""
        about = f"Hand the conversation over to {self.agent}."
        if self.said:
            stop = "" if self.said[-1] == "." else "."
            about = f"{self.said}{stop} Hands the conversation over to {self.agent}."
        reason = "reason" if in_split("reason", split) else rename(rng, "reason", split)
        return {
            "name": self.tool_name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": {reason: {"type": "string", "default": ""}},
                "additionalProperties": False,
            },
        }

    def fill(self, text: str) -> str:
        """With what it is asked about for {a} and its name in words for {n}."""
        return text.format(a=self.specialist.about, n=words(self.agent))

    def told(self, rng: random.Random, kinds: Kinds) -> str:
        """A request of its own list, or a vague one."""
        if self.specialist.requests and rng.random() < 0.8:
            asked = pick(rng, self.specialist.requests, kinds.split)
            return asked.format(n=rng.randint(2, 90), id=kinds.pools.identifier(rng))
        return self.fill(pick(rng, VAGUE, kinds.split))


def colleagues(rng: random.Random, split: Split) -> list[Desk]:
    """Two to four specialists that no request is meant for two of."""
    count = rng.choice([2, 2, 3, 3, 4])
    if rng.random() < 0.25:
        chosen = rng.sample([s for s in SPECIALISTS if s.group == "service"], count)
    else:
        chosen = []
        for one in rng.sample(SPECIALISTS, len(SPECIALISTS)):
            if len(chosen) < count and one.group not in {s.group for s in chosen}:
                chosen.append(one)
    return [Desk.drawn(rng, one, split) for one in chosen]
