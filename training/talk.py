# ruff: noqa: E501 -- phrases are data: they read better than wrapped ones
"""Turns without a call: declining, questions no tool serves, small talk. Knows no tools but their names."""

from __future__ import annotations

import random

from training.naming import Split, pick
from training.pools import Pools

DECLINES = [
    "None of the available tools can do this.",
    "I have no tool for that.",
    "I can't do that with the tools I have.",
    "Sorry, no tool here fits this request.",
    "That is outside what my tools can do.",
    "There is no function for this among my tools.",
    "My tools do not cover that.",
    "I'm afraid none of my tools helps with this request.",
    "I cannot help with that: no suitable tool is available.",
    "No available function matches your request.",
]


WONDERED = (
    "What is a {n}?", "Who invented the {n}?", "What is the history of {ns}?", "Which is the best {n} in the world?", "How does a {n} work?", "Is a {n} worth the money?", "Why do people like {ns}?",
    "What's the difference between a {n} and a {m}?", "How many {ns} are there in the world?", "Which famous people have a {n}?", "What should I know about {ns}?", "Do animals have {ns}?",
    "How do I choose a good {n}?", "What do experts say about {ns}?", "Is it true that every {n} is different?", "What would you do with a {n}?", "Are {ns} bad for the environment?",
    "How old is the oldest {n}?", "Can a {n} be dangerous?", "What does {n} mean in Latin?", "Why is it called a {n}?", "How long does it take to learn about {ns}?", "Which book on {ns} should I read?",
    "Is a {n} better than a {m}?", "What makes a good {n}?", "Could I live without a {n}?", "What's your opinion on {ns}?", "Write me a short text about {ns}.", "What are the advantages of a {n}?",
)  # fmt: skip
"""Questions about a thing itself, which no tool answers that keeps, finds or changes such things."""


def plain_question(rng: random.Random, pools: Pools, split: Split) -> str:
    """A request that no tool of ours serves."""
    noun, other = pools.topic(rng), pools.noun(rng)
    return pick(
        rng,
        [
            f"Who invented the {noun}?",
            f"Write a poem about the {noun}.",
            f"What is the history of the {noun}?",
            f"Why do people like {noun}?",
            f"Tell me a joke about {noun}.",
            f"What's the difference between {noun} and {other}?",
            f"How do I get better at {noun}?",
            f"Draw me a picture of {noun}.",
            f"Explain {noun} to a child.",
            f"Which {noun} is the best?",
            f"What did {pools.value(rng, 'person')} say about {noun}?",
            f"How much does the {noun} cost in {pools.value(rng, 'city')}?",
            f"What is the chemical formula of {noun}?",
            f"When was {pools.value(rng, 'company')} founded?",
            f"Who is the president of {pools.value(rng, 'country')}?",
            f"Solve this riddle about {noun} and {other}.",
            f"How many {other}s are in a {noun}?",
            f"What are the main parts of a {noun}?",
        ],
        split,
    )


def small_talk(rng: random.Random, pools: Pools, split: Split, tools: list[str]) -> list[tuple[str, str]]:
    """(user, assistant) turns of a short conversation; tools: names of those in sight."""
    out = []
    name = rng.choice(pools.values["first"])
    for _ in range(rng.randint(1, 3)):
        roll = rng.random()
        if roll < 0.15:
            ask = pick(
                rng,
                ["Hello", "Hi!", "Hey there", "Good morning", "Good evening", "Hi, how are you?"],
                split,
            )
            answer = rng.choice(
                [
                    "Hello! How can I help you?",
                    "Hi! What can I do for you?",
                    "Good to see you. What do you need?",
                ]
            )
        elif roll < 0.25:
            ask = pick(
                rng,
                [
                    "Who are you?",
                    "What are you?",
                    "What's your name?",
                    "Are you a person?",
                    "Introduce yourself.",
                ],
                split,
            )
            answer = rng.choice(
                [
                    "I am LaneFormer-nano, a small model that calls tools.",
                    "My name is LaneFormer-nano. I am a small language model made to use tools.",
                ]
            )
        elif roll < 0.35:
            ask = pick(
                rng,
                [
                    "What can you do?",
                    "How can you help me?",
                    "Which tools do you have?",
                    "What are you able to do?",
                    "List your functions.",
                ],
                split,
            )
            answer = (
                ("I can use these tools: " + ", ".join(tools) + ".")
                if tools
                else rng.choice(
                    [
                        "I can call tools when you give me some, and talk a little.",
                        "Give me tools and I will call them. I can also explain a word.",
                    ]
                )
            )
        elif roll < 0.45:
            ask = pick(
                rng,
                [
                    "Thanks!",
                    "Thank you very much.",
                    "Great, thanks.",
                    "That helped, thank you.",
                    "Perfect.",
                ],
                split,
            )
            answer = rng.choice(["You're welcome!", "Glad to help.", "Any time."])
        elif roll < 0.52:
            ask = pick(rng, ["Bye", "Goodbye!", "See you later.", "That's all.", "Have a nice day."], split)
            answer = rng.choice(["Goodbye!", "See you soon.", "Have a good day!"])
        elif roll < 0.58:
            ask = rng.choice([f"My name is {name}.", f"I'm {name}.", f"Call me {name}."])
            answer = rng.choice(
                [f"Nice to meet you, {name}.", f"Hello {name}!", f"Hi {name}, how can I help?"]
            )
        elif roll < 0.66:
            phrase = rng.choice([pools.value(rng, "sentence"), pools.value(rng, "phrase"), pools.topic(rng)])
            ask = rng.choice(
                ["Repeat after me: {p}", 'Say "{p}".', "Please repeat: {p}", 'Write "{p}" again.']
            ).format(p=phrase)
            answer = phrase
        elif tools and roll < 0.7:
            ask, answer = plain_question(rng, pools, split), pick(rng, DECLINES, split)
        else:
            part = rng.choice(["nouns", "nouns", "verbs", "adjectives"])
            word, gloss = rng.choice(getattr(pools, part)[:4000])
            ask = pick(
                rng,
                [
                    "What does {w} mean?",
                    "Explain the word {w}.",
                    "What is the meaning of {w}?",
                    "Define {w}.",
                    "What is meant by {w}?",
                    "Can you explain {w}?",
                ],
                split,
            ).format(w=f'"{word}"' if rng.random() < 0.5 else word)
            answer = rng.choice(
                [f"{word.capitalize()} means: {gloss}.", f'"{word}" means {gloss}.', f"It means {gloss}."]
            )
        out.append((ask, answer))
    return out
