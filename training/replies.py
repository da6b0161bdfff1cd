# ruff: noqa: E501, SIM905 -- words are data: one list a line reads better than wrapped ones
"""What made-up tools answer, right and wrong, and the sentences that pass it on. Knows no turns."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from training.naming import uncapital, words
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


@dataclass(frozen=True)
class Asked:
    """A question about what was found, its answer, and the values that this quotes."""

    question: str
    answer: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """What a tool answered, the sentence that passes it on, the values that this quotes, and questions that
    need no other call.
    """

    text: str
    said: str
    values: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()


def failure(rng: random.Random, c: Call) -> Found:
    """A tool that fails, and the sentence that passes on why."""
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
    said = rng.choice([f"The tool {c[0]} failed: {reason}.", f"That did not work: {reason}."])
    return Found(text, said, (reason,))


def result(rng: random.Random, pools: Pools, tool: Tool, calls: Sequence[Call], i: int) -> Found:
    """What the i-th call of a turn brought. Among several calls the sentence says what it is about."""
    c = calls[i]
    able = {
        k: v
        for k, v in c[1].items()
        if isinstance(v, str | int | float) and not isinstance(v, bool) and len(str(v)) < 40
    }
    twins = [o[1] for j, o in enumerate(calls) if j != i and o[0] == c[0]]
    apart = [v for k, v in able.items() if all(o.get(k) != v for o in twins)] or list(able.values())
    named = [v for v in apart if isinstance(v, str)] if len(calls) == 1 else apart
    subject = str(named[0]) if named else None
    makers = (_value, _record, _converted, _names, _rows, _done, _sentence)
    kind = rng.choices(makers, (17, 28, 7, 10, 19, 12, 7))[0]
    made = kind(rng, pools, words(tool.name), subject, able)
    about = words(tool.name) if subject is None else subject
    if len(calls) > 1 and about.lower() not in made.said.lower():
        made = replace(made, said=f"For {about}: {uncapital(made.said, made.values)}")
    return made


# Assistants pass results on in one manner: what must be learnt is which words and numbers to take.

Args = dict[str, str | int | float]
ASKING = frozenset(
    "get find calculate compute search check list fetch look lookup show read query retrieve determine estimate".split()
)
DOING = frozenset("convert translate evaluate open run exec print write call send".split())
FIELDS = (
    *("status", "price", "name", "temperature", "id", "date", "total", "count", "owner", "city", "rating"),
    *("distance", "duration", "humidity", "start_time", "available", "stock", "weight", "email", "phone"),
    *("departs", "arrives", "author", "title", "size", "score", "level", "language", "opens", "closes"),
)
NUMBERS = (
    *("price", "rating", "distance", "duration", "stock", "weight", "score", "total", "size", "cost"),
    *("temperature", "humidity", "speed", "height", "length", "balance", "fee"),
)
UNITS = "celsius km kg EUR USD minutes hours percent miles GBP points litres".split()
CODES = "USD EUR GBP JPY CHF CAD INR lb oz inches feet gallons °F kWh MB GB".split()
AMOUNTS = "amount value result converted total converted_amount output answer".split()
COUNTED = "currency unit to target code units in target_currency".split()
STATUS = "sent saved updated booked removed scheduled queued started created added".split()


def _scalar(rng: random.Random, pools: Pools) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: rng.randint(0, 99999),
        lambda: rng.randint(0, 99),
        lambda: round(rng.uniform(0, 1000), rng.choice([1, 2, 2, 3])),
        lambda: pools.value(rng, rng.choice(["person", "city", "company", "phrase", "colour"])),
        lambda: pools.topic(rng),
        lambda: f"{rng.randint(2020, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        lambda: f"{rng.randint(0, 23):02}:{rng.choice([0, 15, 30, 45, rng.randint(0, 59)]):02}",
        lambda: rng.choice(["yes", "no", "open", "closed", "sunny", "light rain", "delayed", "on time"]),
        lambda: pools.identifier(rng),
    ]
    return rng.choice(makers)()


def _field(rng: random.Random, pools: Pools) -> str:
    name = pools.noun(rng) if rng.random() < 0.4 else rng.choice(FIELDS)
    return re.sub(r"\W+", "_", name)


def _shown(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def found(items: Sequence[str]) -> str:
    return f"I found {len(items)}: {', '.join(items)}."


def done(told: str) -> str:
    return f"Done: {told}." if told else "Done."


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]


def _value(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    v = _scalar(rng, pools)
    text = rng.choice([str(v), json.dumps({"result": v}, ensure_ascii=False), str(v)])
    verb, _, thing = topic.partition(" ")
    if not thing and verb not in ASKING | DOING:  # the tool `population`
        thing = verb
    elif verb not in ASKING:
        thing = ""
    if not thing:
        said = f"It is {v}." if subject is None else f"The answer for {subject} is {v}."
    else:
        said = f"The {thing} is {v}." if subject is None else f"The {thing} for {subject} is {v}."
    return Found(text, said, (str(v),))


def _record(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    """Fields; some repeat the arguments, which nobody needs to hear again; a unit belongs to its number."""
    fields: dict[str, Any] = {}
    for _ in range(rng.choice([1, 2, 2, 3, 3, 4])):
        fields[_field(rng, pools)] = rng.random() < 0.5 if rng.random() < 0.06 else _scalar(rng, pools)
    if given and rng.random() < 0.2:  # named as an argument is, and another value: no repetition
        key = rng.choice(list(given))
        while fields.setdefault(key, _scalar(rng, pools)) == given[key]:
            del fields[key]
    measure = ""
    if rng.random() < 0.35:
        measure = rng.choice(NUMBERS)
        fields[measure] = round(rng.uniform(-20, 500), rng.choice([0, 1, 1, 2]))
        fields = {k: fields[k] for k in rng.sample(list(fields), len(fields))}
    echo: dict[str, Any] = {}
    if given and rng.random() < 0.45:
        echo = {k: v for k, v in rng.sample(list(given.items()), min(len(given), 2)) if k not in fields}
    told = {words(k): _shown(v) for k, v in fields.items()}
    amounts = [k for k, v in fields.items() if isinstance(v, int | float) and not isinstance(v, bool)]
    units = [k for k, v in echo.items() if "unit" in words(k).split() and isinstance(v, str)]
    if units and len(amounts) == 1:  # asked for in a unit
        told[words(amounts[0])] += f" {echo[units[0]]}"
    elif measure and not units:
        unit, name = rng.choice(UNITS), rng.choice(["unit", "unit", "units"]) if len(amounts) == 1 else ""
        items = list(fields.items())
        place = rng.choice([len(items), [k for k, _ in items].index(measure) + 1, rng.randint(0, len(items))])
        fields = dict([*items[:place], (name or f"{measure}_unit", unit), *items[place:]])
        told[words(measure)] += f" {unit}"
    fields = echo | fields if rng.random() < 0.8 else fields | echo
    text = json.dumps(fields, ensure_ascii=False)
    if len(told) == 1:
        ((k, v),) = told.items()
        said = f"The {k} is {v}." if subject is None else f"The {k} for {subject} is {v}."
    elif subject is None:
        said = (
            "The "
            + _joined([f"{'the ' if n else ''}{k} is {v}" for n, (k, v) in enumerate(told.items())])
            + "."
        )
    else:
        said = f"For {subject}: " + ", ".join(f"{k} {v}" for k, v in told.items()) + "."
    k, v = rng.choice(list(told.items()))
    question = rng.choice(
        [
            *(f"What is the {k}?", f"What is the {k}?", f"And the {k}?", f"I only want to know the {k}."),
            *(f"Just tell me the {k}.", f"Tell me the {k}.", f"The {k} is what I want to know."),
        ]
    )
    return Found(text, said, tuple(told.values()), (Asked(question, f"The {k} is {v}.", (v,)),))


def _converted(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    """A number and what it counts, each in a field: no property of what was asked about."""
    codes = [v for v in given.values() if isinstance(v, str) and re.fullmatch(r"[A-Za-z°/%]{1,10}", v)]
    code = codes[-1] if codes and rng.random() < 0.7 else rng.choice([*UNITS, *CODES])
    amount, unit = rng.choice(AMOUNTS), rng.choice(COUNTED)
    value = round(rng.uniform(0, 2000), rng.choice([0, 1, 2, 2, 2, 4]))
    fields: dict[str, Any] = {amount: value, unit: code}
    if given and rng.random() < 0.4:
        fields = dict(rng.sample(list(given.items()), 1)) | fields
    if rng.random() < 0.3:
        fields = dict(reversed(fields.items()))
    told = f"{fields[amount]} {fields[unit]}"
    asked = Asked(f"What is the {words(amount)}?", f"The {words(amount)} is {told}.", (told,))
    return Found(json.dumps(fields, ensure_ascii=False), f"That is {told}.", (told,), (asked,))


def _names(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    items = list(dict.fromkeys(str(_scalar(rng, pools)) for _ in range(rng.randint(2, 5))))
    text = rng.choice([json.dumps(items, ensure_ascii=False), ", ".join(items), "\n".join(items)])
    asked = (
        Asked("How many are there?", f"There are {len(items)}.", (str(len(items)),)),
        Asked("Which one is the first?", f"The first is {items[0]}.", (items[0],)),
        Asked("Which is the last of them?", f"The last is {items[-1]}.", (items[-1],)),
    )
    return Found(text, found(items), tuple(items), asked)


def _rows(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    """Objects of the same fields: the first field names each, a number tells the least and the most."""
    head = rng.choice(["name", "title", "id", "flight", "hotel", "item", "product"])
    number = rng.choice(NUMBERS)
    kind = rng.choice(["company", "person", "city", "phrase"])
    named = list(
        dict.fromkeys(
            pools.identifier(rng) if head in ("id", "flight") else pools.value(rng, kind)
            for _ in range(rng.choice([2, 2, 3, 3, 4]))
        )
    )
    places = rng.choice([0, 1, 2])
    base, near = rng.uniform(20, 900), rng.random() < 0.5  # near ones must be compared
    low, high = (0.85 * base, 1.15 * base) if near else (1.0, 900.0)
    amounts = [round(rng.uniform(low, high), places) for _ in named]
    numbers = [int(a) if places == 0 else a for a in amounts]
    further = _field(rng, pools) if rng.random() < 0.5 else ""
    rows = [
        {head: n, number: a, **({further: _scalar(rng, pools)} if further not in ("", head, number) else {})}
        for n, a in zip(named, numbers, strict=True)
    ]
    shape = rng.random()
    whole: Any = (
        rows if shape < 0.6 else {"results": rows} if shape < 0.8 else {"count": len(rows), "items": rows}
    )
    parts = [
        f"{r[head]} (" + ", ".join(f"{words(k)} {v}" for k, v in r.items() if k != head) + ")" for r in rows
    ]
    values = tuple(str(v) for r in rows for v in r.values())
    asked = []
    if len(set(numbers)) == len(numbers):
        order = sorted(range(len(rows)), key=lambda i: numbers[i])
        for i, many, of_prices in (
            (order[0], ("lowest", "smallest", "least"), "cheapest"),
            (order[-1], ("highest", "largest", "most"), "most expensive"),
        ):
            which = f"the {rng.choice(many)} {number}"
            questions = [f"Which one has {which}?", f"Which has {which}?", f"Tell me which has {which}."]
            if number in ("price", "cost", "total") and rng.random() < 0.7:
                questions = [
                    f"Which is the {of_prices}?",
                    f"Tell me the {of_prices}.",
                    f"I want the {of_prices} one.",
                    f"Just the {of_prices}, please.",
                    f"What is the {of_prices} of them?",
                ]
            answer = f"{named[i]}, with {number} {numbers[i]}."
            asked.append(Asked(rng.choice(questions), answer, (named[i], str(numbers[i]))))
    i = rng.randrange(len(rows))
    answer = f"The {number} of {named[i]} is {numbers[i]}."
    asked.append(Asked(f"And the {number} of {named[i]}?", answer, (str(numbers[i]),)))
    return Found(json.dumps(whole, ensure_ascii=False), found(parts), values, tuple(asked))


def _done(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    number = str(rng.choice([rng.randint(1, 99999), pools.identifier(rng)]))
    word = rng.choice(STATUS)
    text, told = rng.choice(
        [
            ("ok", ""),
            ("done", ""),
            (json.dumps({"success": True}), ""),
            (word, word),
            (json.dumps({"status": word}), word),
            (f"{word} {number}", f"{word} {number}"),
            (f"{word} as {number}", f"{word} as {number}"),
            (f"{word} #{number}", f"{word} #{number}"),
            (json.dumps({"status": "ok", "id": number}), f"id {number}"),
            (json.dumps({"status": word, "id": number}), f"{word}, id {number}"),
            (f"OK, number {number}", f"number {number}"),
        ]
    )
    return Found(text, done(told), (number,) if number in told else ())


def _sentence(rng: random.Random, pools: Pools, topic: str, subject: str | None, given: Args) -> Found:
    """A sentence is passed on as it is."""
    noun, other = pools.noun(rng), pools.topic(rng)
    about = subject or f"the {noun}"
    text = rng.choice(
        [
            rng.choice(pools.sentences),
            f"The {noun} is {pools.adjective(rng)}.",
            f"The {noun} is {rng.choice(STATUS)} for {about}.",
            f"No {noun} found for {about}.",
            f"There are {rng.randint(2, 90)} {noun}s left.",
            f"Your {other} is {rng.choice(STATUS)}, number {rng.randint(10, 99999)}.",
            f"{about[:1].upper()}{about[1:]} has {rng.randint(2, 400)} {noun}s.",
        ]
    )
    text = text if text[-1] in ".!?" else text + "."
    return Found(text, text, (text,))
