# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Messages of a conversation, and the system texts and plans that any kind of it may have. Knows no tools."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training.naming import Split, pick
from training.pools import Pools
from training.tools import Call


@dataclass
class Message:
    """role: system, user, assistant, tool. trained: whether the loss counts this assistant message."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    trained: bool = True


@dataclass
class Conversation:
    kind: str
    tools: list[dict[str, Any]]
    messages: list[Message]
    expected: tuple[str, ...] = ()
    """Strings the final answer must hold; for runs."""
    execute: Callable[[Call], str] | None = None
    """Runs a call of the conversation's world; None where results are made up."""
    tags: tuple[str, ...] = field(default=())
    branches: tuple[list[Message], ...] = ()
    """Other continuations of `messages`, each as if it stood alone behind them."""


SYSTEMS = [
    "You are a helpful assistant.",
    "You are a helpful assistant with tools.",
    "Answer with the help of the tools.",
    "Use the tools when they help.",
    "You are an agent. Call tools, read their results, then answer.",
    "Be brief.",
    "You are a careful assistant. Use a tool for every fact.",
    "Call a function if one fits the request; otherwise say so.",
    "Help the user.",
    "You answer questions with the given tools. Say which value you found.",
    "You have access to functions. Do not invent arguments.",
    "Solve the task step by step with the tools.",
]
PLANS = [
    "I will {p}.",
    "I'll {p}.",
    "First I {p}.",
    "Let me {p}.",
    "I need to {p}.",
    "To answer this, I {p}.",
    "Plan: {p}.",
    "The next step is to {p}.",
]


def system(rng: random.Random, pools: Pools) -> list[Message]:
    roll = rng.random()
    if roll < 0.35:
        return []
    if roll < 0.9:
        return [Message("system", rng.choice(SYSTEMS))]
    return [
        Message(
            "system",
            f"You are the assistant of {pools.value(rng, 'company')}. {rng.choice(SYSTEMS)} {pools.value(rng, 'slogan').capitalize()}.",
        )
    ]


def plan(rng: random.Random, text: str, split: Split, chance: float) -> str:
    if rng.random() > chance:
        return ""
    return pick(rng, PLANS, split).format(p=text.strip().rstrip("."))
