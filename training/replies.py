"""What made-up tools answer, right and wrong, and the sentences that pass it on. Knows no turns."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from training.naming import Split, pick, uncapital, words
from training.pools import Pools
from training.tools import Call, Tool


def wrong(rng: random.Random, tool: Tool, good: Call) -> tuple[Call, str] | None:
    """A call with one argument wrong, and what the tool says to it."""
    strings = [p for p in tool.params if p.name in good[1] and p.schema["type"] == "string"]
    if not strings:
        return None
    p = rng.choice(strings)
    value = good[1][p.name]
    if len(value) < 4:
        return None
    i = rng.randrange(len(value) - 1)
    typo = value[:i] + value[i + 1] + value[i] + value[i + 2 :]
    if typo == value:
        return None
    error = rng.choice(
        [
            f"Error: unknown {p.name} {typo!r}. Did you mean {value!r}?",
            f"{p.name}: {typo!r} not found. Known: {value}.",
            f"Error in argument {p.name}: {typo!r} does not exist, but {value!r} does.",
            f"No such {words(p.name)}: {typo}. Available: {value}",
        ]
    )
    return (tool.name, {**good[1], p.name: typo}), error


def failure(rng: random.Random, c: Call, split: Split) -> tuple[str, str, list[str]]:
    """Error text, the sentence that passes it on, and what that quotes."""
    reason = rng.choice(
        [
            "the service is not available",
            "permission denied",
            "the tool timed out after 30 s",
            "the connection was refused",
            "no data for this request",
            "not found",
            "quota exceeded",
            "internal error",
        ]
    )
    text = rng.choice(
        [f"Error: {reason}.", f"error: {reason}", f"Failed: {reason}.", json.dumps({"error": reason})]
    )
    said = pick(
        rng,
        [
            f"The tool {c[0]} failed: {reason}.",
            f"I could not do this, because {reason}.",
            f"That did not work: {reason}.",
            f"Sorry, the call failed: {reason}.",
        ],
        split,
    )
    return text, said, [reason]


def result(
    rng: random.Random, pools: Pools, tool: Tool, calls: Sequence[Call], i: int, split: Split
) -> tuple[str, str, list[str]]:
    """Result text of the i-th call of a turn, the sentence that quotes it, and the values quoted.

    Among several calls the sentence says what it is about.
    """
    c = calls[i]
    topic = words(tool.name)
    able = {
        k: v
        for k, v in c[1].items()
        if isinstance(v, str | int | float) and not isinstance(v, bool) and len(str(v)) < 40
    }
    twins = [o[1] for j, o in enumerate(calls) if j != i and o[0] == c[0]]
    first = next(
        (v for k, v in able.items() if all(o.get(k) != v for o in twins)), next(iter(able.values()), None)
    )
    text, said, values = _result(rng, pools, topic, first, split)
    about = topic if first is None else str(first)
    if len(calls) > 1 and about.lower() not in said.lower():
        said = f"For {about}: {uncapital(said, values)}"
    return text, said, values


def _result(
    rng: random.Random, pools: Pools, topic: str, first: Any, split: Split
) -> tuple[str, str, list[str]]:
    where = f" for {first}" if first is not None else ""
    roll = rng.random()

    def scalar() -> Any:
        makers: list[Callable[[], Any]] = [
            lambda: rng.randint(0, 99999),
            lambda: round(rng.uniform(0, 1000), rng.choice([1, 2, 2, 3])),
            lambda: pools.value(rng, rng.choice(["person", "city", "company", "phrase", "colour"])),
            lambda: pools.topic(rng),
            lambda: f"{rng.randint(2020, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            lambda: rng.choice(["yes", "no", "open", "closed", "sunny", "delayed"]),
        ]
        return rng.choice(makers)()

    if roll < 0.3:
        v = scalar()
        text = rng.choice([str(v), json.dumps({"result": v}, ensure_ascii=False), f"{v}"])
        said = pick(
            rng,
            [
                f"The result of {topic}{where} is {v}.",
                f"It is {v}.",
                f"The answer{where} is {v}.",
                f"{topic.capitalize()}{where}: {v}.",
                f"I found {v}{where}.",
            ],
            split,
        )
        return text, said, [str(v)]
    if roll < 0.65:
        fields = {
            re.sub(
                r"\W+",
                "_",
                pools.noun(rng)
                if rng.random() < 0.5
                else rng.choice(
                    [
                        "status",
                        "price",
                        "name",
                        "temperature",
                        "id",
                        "date",
                        "total",
                        "count",
                        "owner",
                        "city",
                        "rating",
                        "distance",
                        "duration",
                    ]
                ),
            ): scalar()
            for _ in range(rng.randint(1, 4))
        }
        text = json.dumps(fields, ensure_ascii=False)
        quoted = list(fields.items())[:3]
        said = pick(
            rng,
            [
                "Here is what I found" + where + ": " + ", ".join(f"{words(k)} {v}" for k, v in quoted) + ".",
                " ".join(f"The {words(k)} is {v}." for k, v in quoted),
                f"{topic.capitalize()}{where}: " + ", ".join(f"{words(k)} {v}" for k, v in quoted) + ".",
                "The " + ", the ".join(f"{words(k)} is {v}" for k, v in quoted) + ".",
            ],
            split,
        )
        return text, said, [str(v) for _, v in quoted]
    if roll < 0.82:
        items = list(dict.fromkeys(str(scalar()) for _ in range(rng.randint(2, 5))))
        text = rng.choice([json.dumps(items, ensure_ascii=False), ", ".join(items), "\n".join(items)])
        said = pick(
            rng,
            [
                f"I found {len(items)}: {', '.join(items)}.",
                f"The results{where} are {', '.join(items)}.",
                f"Here they are: {', '.join(items)}.",
                f"There are {len(items)} results: {', '.join(items)}.",
            ],
            split,
        )
        return text, said, items
    number = rng.randint(100, 99999)
    text = rng.choice(
        [
            "ok",
            "done",
            f"created {number}",
            json.dumps({"status": "ok", "id": number}),
            json.dumps({"success": True}),
            f"OK, number {number}",
        ]
    )
    has = str(number) in text
    said = pick(
        rng,
        [f"Done{where}.", f"Done: {topic}{where}.", f"It worked{where}.", f"That is done{where}."],
        split,
    )
    if has:
        said = said[:-1] + f", number {number}."
    return text, said, [str(number)] if has else []
