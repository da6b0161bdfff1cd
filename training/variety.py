# ruff: noqa: E501 -- phrases are data: one list a line reads better than wrapped ones
"""Parameters named by any noun and values of any look: what no list of kinds foresees. Knows no tools."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from training.kinds import Kinds
from training.naming import Split, choose, rename, styled, widened, words
from training.pools import Pools
from training.spoken import Param, Spoken, clock, date, described, integer, listed, number, verbatim

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
REGIONS = [
    "CA",
    "NY",
    "TX",
    "WA",
    "IL",
    "FL",
    "MA",
    "CO",
    "GA",
    "OH",
    "Canada",
    "UK",
    "Australia",
    "Texas",
    "France",
    "Germany",
    "Japan",
    "India",
]
# parameters that come in twos and are told in one breath: names ~ kind ~ descriptions ~ phrases ~ in training also these
PAIRS_RAW = """
a b|x y|num1 num2|number1 number2|first_number second_number|value1 value2|n k|first second ~ number ~ The first number.|The second number. ~ of {a} and {b}|for {a} and {b}|with {a} and {b}|from {a} and {b}|given {a} and {b}|on the numbers {a} and {b}|for the two numbers {a} and {b}|, for example {a} and {b}|using {a} as well as {b} ~ out of {a} and {b}|by {a} and {b}|taking {a} and {b}|when given {a} and {b}|from the numbers {a} and {b}|on {a} and {b}|having {a} and {b}|where the numbers are {a} and {b}|the two numbers being {a} and {b}|applied to {a} and {b}|first {a}, then {b}|if the first is {a} and the second {b}|the first being {a}, the second {b}|with {a} first and {b} second|with {a} as the first and {b} as the second
start end|min max|low high|lower upper|minimum maximum|start_year end_year|from_value to_value|begin end ~ integer ~ Where it begins.|Where it ends. ~ from {a} to {b}|between {a} and {b}|in the range {a} to {b}|starting at {a} and ending at {b}|from {a} until {b}|in {a}-{b}|with limits of {a} and {b} ~ starting at {a} up to {b}|ranging from {a} to {b}|beginning with {a} and ending with {b}|anywhere from {a} to {b}|within {a} and {b}|within the range {a} to {b}|from {a} through {b}|from {a} up to {b}|going from {a} to {b}|over the range {a}-{b}|with {a} as the start and {b} as the end|no less than {a} and no more than {b}|at least {a} and at most {b}|limited to {a} to {b}|running from {a} to {b}|between the limits {a} and {b}
start_date end_date|from_date to_date|check_in check_out|first_day last_day|departure_date return_date ~ date ~ The first day, as YYYY-MM-DD.|The last day, as YYYY-MM-DD. ~ from {a} to {b}|between {a} and {b}|starting {a} until {b}|from {a} through {b}|beginning on {a} and ending on {b} ~ for the time from {a} to {b}|in the period {a} to {b}|from {a} up to {b}|running from {a} to {b}|with {a} as the first and {b} as the last day|starting on {a} and lasting until {b}|between the dates {a} and {b}|during the time {a} to {b}|arriving {a} and leaving {b}|out on {a} and back on {b}|not before {a} and not after {b}|since {a} and until {b}|valid from {a} to {b}|, first day {a}, last day {b}
origin destination|start_location end_location|from_city to_city|source target|city1 city2|departure arrival|pickup dropoff|location1 location2 ~ place ~ Where it starts.|Where it ends. ~ from {a} to {b}|between {a} and {b}|to {b} from {a}|starting in {a} and going to {b}|from {a} all the way to {b}|leaving {a} for {b} ~ starting from {a} towards {b}|out of {a} into {b}|with {a} as the start and {b} as the goal|from {a} over to {b}|from {a} towards {b}|on the way from {a} to {b}|departing {a} and arriving in {b}|departing from {a}, bound for {b}|beginning in {a} and ending in {b}|on the route {a} to {b}|that goes from {a} to {b}|for somebody in {a} who wants to get to {b}|with a start in {a} and an end in {b}|to {b}, starting from {a}|to {b}, coming from {a}|the start being {a} and the goal {b}
item1 item2|team1 team2|player1 player2|species1 species2|country1 country2|product_a product_b|object1 object2|name1 name2|first_text second_text ~ text ~ The first to compare.|The second to compare. ~ {a} and {b}|{a} with {b}|{a} versus {b}|{a} against {b}|between {a} and {b}|for {a} and {b}|of {a} and {b}|{a} compared to {b}|both {a} and {b} ~ {a} next to {b}|{a} beside {b}|{a} in comparison with {b}|comparing {a} and {b}|comparing {a} with {b}|when {a} meets {b}|of both {a} and {b}|for both {a} and {b}|with {a} and {b}|given {a} and {b}|taking {a} and {b}|the first being {a}, the second {b}|with {a} on one side and {b} on the other|where one is {a} and the other {b}|{a} on the one hand, {b} on the other|{a} as opposed to {b}|{a} in relation to {b}
from_unit to_unit|base_currency target_currency|source_language target_language|old_name new_name|from_format to_format|current_status new_status ~ word ~ What it is now.|What it shall be. ~ from {a} to {b}|{a} to {b}|into {b} from {a}|turning {a} into {b}|from {a} into {b} ~ with {a} becoming {b}|making {a} into {b}|replacing {a} by {b}|replacing {a} with {b}|changing {a} to {b}|changing from {a} to {b}|going from {a} to {b}|so that {a} becomes {b}|switching from {a} to {b}|out of {a} into {b}|with {b} in place of {a}|{b} instead of {a}|, old {a}, new {b}|that is {a} now and shall be {b}|where {a} turns into {b}|moving from {a} on to {b}
mass1 mass2|charge1 charge2|distance1 distance2|height1 height2|price1 price2|score1 score2|speed_a speed_b|weight_a weight_b ~ number ~ The first of the two.|The other one. ~ of {a} and {b}|with {a} and {b}|for {a} and {b}|at {a} and {b}|{a} and {b} each|one of {a}, the other of {b} ~ being {a} and {b}|given {a} and {b}|taking {a} and {b}|when they are {a} and {b}|where they are {a} and {b}|with {a} for one and {b} for the other|with values of {a} and {b}|having {a} and {b}|the one {a}, the other {b}|the first {a}, the second {b}|if one is {a} and the other {b}|if the first is {a} and the second is {b}|with {a} first and {b} second|measuring {a} and {b}|the two being {a} and {b}
x1 x2|n1 n2|left_number right_number|operand1 operand2|param1 param2|value_one value_two|input_a input_b ~ number ~ One of two numbers.|The second of two. ~ of {a} and {b}|for {a} and {b}|with {a} and {b}|on {a} and {b}|given {a} and {b} ~ taking {a} and {b}|using {a} and {b}|from {a} and {b}|first {a}, second {b}|, {a} and {b}|with {a} as the first and {b} as the second|applied to {a} and {b}|where the first is {a} and the second {b}
width height|length width|rows columns|columns rows|depth width|size_x size_y ~ integer ~ The one side.|The other side. ~ of {a} by {b}|measuring {a} by {b}|of {a} x {b}|with {a} by {b}|in the size {a} by {b} ~ sized {a} by {b}|in {a} x {b}|that is {a} by {b}|as large as {a} by {b}|at {a} by {b}|of the size {a} x {b}|which measures {a} by {b}
dividend divisor|numerator denominator|total parts|sum_total share_count ~ number ~ What is divided.|By what it is divided. ~ of {a} divided by {b}|for {a} over {b}|with {a} divided by {b}|dividing {a} by {b}|of {a} over {b} ~ when {a} is divided by {b}|when {a} is split into {b}|for {a} divided by {b}|from {a} divided by {b}|if you divide {a} by {b}
base exponent|number power|value order ~ integer ~ The base.|The exponent. ~ of {a} to the power of {b}|for {a} raised to {b}|of {a} to the power {b}|with {a} raised to the power of {b}|for {a} to the {b} ~ when {a} is raised to {b}|of {a} raised to the power {b}|raising {a} to {b}|for {a} with the exponent {b}
start_time end_time|opens closes|from_time until_time|begins_at ends_at|shift_start shift_end ~ time ~ When it begins, HH:MM.|When it ends, HH:MM. ~ from {a} to {b}|between {a} and {b}|from {a} until {b}|starting at {a} and ending at {b}|open from {a} to {b} ~ lasting from {a} to {b}|beginning at {a} and over by {b}|not before {a} and not after {b}|in the time from {a} to {b}|from {a} up to {b}|which begins at {a} and ends at {b}
min_price max_price|lowest highest|low_limit high_limit|min_value max_value|floor_price ceiling_price ~ number ~ The least.|The most. ~ between {a} and {b}|from {a} to {b}|at least {a} and at most {b}|not below {a} and not above {b}|in the range of {a} to {b} ~ within {a} and {b}|no less than {a} and no more than {b}|starting at {a} and not exceeding {b}|above {a} and under {b}|anywhere from {a} to {b}|with {a} as the least and {b} as the most|, minimum {a}, maximum {b}
sender receiver|giver taker|from_user to_user|from_account to_account|seller buyer|teacher pupil ~ text ~ From whom.|To whom. ~ from {a} to {b}|from {a} for {b}|by {a} to {b}|going from {a} to {b}|to {b} from {a} ~ that {a} gives to {b}|that goes from {a} to {b}|on the part of {a} for {b}|passed from {a} to {b}|handed from {a} to {b}|with {a} on this side and {b} on the other
word1 word2|string_a string_b|left_text right_text|text_one text_two|title_a title_b|topic1 topic2 ~ text ~ One of two.|The other of two. ~ of {a} and {b}|for {a} and {b}|between {a} and {b}|with {a} and {b}|{a} and {b} ~ given {a} and {b}|comparing {a} to {b}|of {a} as well as {b}|taking {a} first and {b} second|where the first is {a} and the second {b}|{a} together with {b}|{a} versus {b}
"""


@dataclass(frozen=True)
class Pair:
    """Names of two parameters and the ways to tell them together, with the slots {a} and {b}."""

    first: str
    second: str
    phrases: tuple[str, ...]


def pair(rng: random.Random, kinds: Kinds, style: str, required: bool) -> tuple[Param, Param, Pair]:
    """Two parameters of one kind, told in one breath: neither a list nor two calls."""
    names, kind, abouts, phrases, more = rng.choice(PAIRS)
    pools = kinds.pools
    schema: dict[str, Any] = {"type": "string"}
    draw: Callable[[random.Random], Spoken]
    if kind in ("number", "integer"):
        top = rng.choice([20, 100, 1000])
        whole = kind == "integer" or rng.random() < 0.5
        schema = {"type": "integer" if whole else "number"}
        draw = (lambda r: integer(r, 1, top)) if whole else (lambda r: number(r, 1, top))
    elif kind in ("date", "time"):
        draw = date if kind == "date" else clock
    else:

        def text(r: random.Random) -> Spoken:
            if kind == "place":
                value = pools.value(r, "city")
            else:
                value = pools.noun(r) if kind == "word" else free_text(r, pools)
            return Spoken(value, value)

        draw = text

    made = [
        Param(
            styled(rename(rng, name, kinds.split), style),
            schema,
            draw,
            told_by(words(name), kinds.split),
            required,
            about if rng.random() < 0.8 else f"The {words(name)}.",
        )
        for name, about in zip(rng.choice(names.split("|")).split(), abouts.split("|"), strict=True)
    ]
    together = widened(phrases.split("|"), more.split("|"), kinds.split)
    return made[0], made[1], Pair(made[0].name, made[1].name, tuple(together))


ABOUT = (
    "The {n}.", "The {n} to use.", "Name of the {n}.", "Which {n} is meant.", "{N}.", "The {n} that is asked for.", "{N} to look at.",
)  # fmt: skip
SAID = (
    "with {n} {v}", "with the {n} {v}", "for the {n} {v}", "{n} {v}", "whose {n} is {v}", "where the {n} is {v}", "using {v} as the {n}",
    "{n}: {v}", "the {n} being {v}", "and the {n} is {v}", "(the {n}: {v})", "of the {n} {v}", "taking {v} for the {n}",
)  # fmt: skip
# in training also these
MORE_ABOUT = (
    "A {n}.", "Any {n}.", "The {n} in question.", "The {n} that counts.", "{N} that is wanted.", "{N} that applies.", "Which {n} to take.", "What {n} it is.", "Value of the {n}.", "The {n} of it.",
    "{N} to go by.", "Holds the {n}.", "Says which {n}.", "Here goes the {n}.",
)  # fmt: skip
MORE_SAID = (
    "with {v} as the {n}", "with {v} for the {n}", "with {n} = {v}", "with {n}: {v}", "with {n} set to {v}", "with the {n} set to {v}", "with the {n} being {v}", "with {v} as {n}", "using {v} for the {n}",
    "using {n} {v}", "using the {n} {v}", "where {v} is the {n}", "where {n} = {v}", "where the {n} equals {v}", "when the {n} is {v}", "if the {n} is {v}", "given {v} as the {n}", "given the {n} {v}",
    "given that the {n} is {v}", "given {n} = {v}", "{n} = {v}", "{n} is {v}", "{n} being {v}", "{n} set to {v}", "the {n} is {v}", "the {n}: {v}", "the {n} {v}", "the {n} should be {v}", "the {n} must be {v}",
    "the {n} shall be {v}", "the {n} set to {v}", "and the {n} {v}", "and {v} as the {n}", "and {v} for the {n}", "and {n} {v}", "and {n}: {v}", "and {n} = {v}", "taking {v} as the {n}", "taking the {n} {v}",
    "having {v} as the {n}", "having the {n} {v}", "setting the {n} to {v}", "choosing {v} as the {n}", "choosing {v} for the {n}", "set the {n} to {v}", "let the {n} be {v}", "use {v} as the {n}",
    "use {v} for the {n}", "put {v} for the {n}", "take {v} as the {n}", "make the {n} {v}", "{v} as the {n}", "{v} for the {n}", "{v} being the {n}", "({n}: {v})", "({n} {v})", "({n} = {v})",
    "(the {n} is {v})", "(with the {n} {v})", "for {n} {v}", "by the {n} {v}", "its {n} being {v}", "that has {v} as the {n}", "that has the {n} {v}", "assuming the {n} is {v}", "knowing that the {n} is {v}",
    "on the {n} {v}", "as the {n} {v}", "provided the {n} is {v}", "in which the {n} is {v}", "such that the {n} is {v}",
)  # fmt: skip


@lru_cache(1 << 13)
def told_by(said: str, split: Split) -> tuple[str, ...]:
    """How the value of a parameter is told that nothing but its name tells of."""
    return tuple(p.replace("{n}", said) for p in widened(SAID, MORE_SAID, split))


BARE = ("for {v}", "of {v}", "about {v}", "{v}")
"""What tells a text and not which."""

PAIRS = [tuple(line.split(" ~ ")) for line in PAIRS_RAW.strip().split("\n")]


def formula(rng: random.Random) -> str:
    """A polynomial or the like, as people type it."""
    x = rng.choice("xxxtyn")
    power = rng.choice(["^", "^", "**"])
    terms = [
        f"{rng.choice(['', rng.randint(2, 12)])}{x}{power}{rng.randint(2, 4)}"
        for _ in range(rng.randint(1, 2))
    ]
    terms += rng.sample(
        [f"{rng.randint(2, 20)}{x}", str(rng.randint(1, 30)), f"sin({x})", f"e{power}{x}"], rng.randint(0, 2)
    )
    return "".join(t if not i else rng.choice([" + ", " - "]) + t for i, t in enumerate(terms))


def free_text(rng: random.Random, pools: Pools) -> str:
    """A short text: a word, a name, a title, a code, a place with its region."""
    roll = rng.random()
    if roll < 0.3:
        return pools.topic(rng) if rng.random() < 0.4 else pools.noun(rng)
    if roll < 0.5:
        title = " ".join(pools.noun(rng) for _ in range(rng.randint(1, 3))).title()
        return f"The {title}" if rng.random() < 0.2 else title
    if roll < 0.68:
        return pools.value(rng, rng.choice(["person", "company", "city", "country", "job", "dish", "last"]))
    if roll < 0.76:
        return f"{pools.value(rng, 'city')}, {rng.choice(REGIONS)}"
    if roll < 0.88:
        letters = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 4)))
        digits = str(rng.randint(1, 10 ** rng.randint(1, 7)))
        code = rng.choice(
            [letters, letters + digits, f"{letters}-{digits}", letters.lower() + digits, digits + letters]
        )
        return f"{code} {pools.noun(rng)}" if rng.random() < 0.15 else code
    if roll < 0.91:
        return formula(rng)
    if roll < 0.95:
        return f"{pools.noun(rng)} and {pools.noun(rng)}"
    return f"{pools.adjective(rng)} {pools.noun(rng)} of {pools.value(rng, rng.choice(['city', 'last', 'country']))}"


def any_param(rng: random.Random, kinds: Kinds, style: str, required: bool) -> Param:
    """A parameter whose meaning is nothing but its name and description."""
    pools = kinds.pools
    noun, gloss = pools.nouns[int(len(pools.nouns) * rng.random() ** 2)]
    said = f"{pools.adjective(rng)} {noun}" if rng.random() < 0.15 else noun
    about = (
        gloss.capitalize() + "."
        if rng.random() < 0.3
        else choose(rng, ABOUT, MORE_ABOUT, kinds.split).format(n=said, N=said.capitalize())
    )

    text = verbatim(lambda r: free_text(r, pools))
    roll = rng.random()
    schema: dict[str, Any] = {"type": "string"}
    draw = text
    if roll < 0.14:
        top = rng.choice([10, 100, 1000, 1000000])
        schema, draw = {"type": "integer"}, lambda r: integer(r, 1, top)
    elif roll < 0.24:
        top = rng.choice([1, 10, 500])
        schema, draw = {"type": "number"}, lambda r: number(r, 0, top)
    elif roll < 0.38:
        options = list(dict.fromkeys(pools.noun(rng) for _ in range(rng.randint(2, 6))))
        schema, draw = (
            {"type": "string", "enum": options},
            verbatim(lambda r: r.choice(options)),
        )
    elif roll < 0.5:
        schema, draw = {"type": "array", "items": {"type": "string"}}, lambda r: listed(r, text, 1, 4)
    phrases = told_by(said, kinds.split)
    if draw is text:
        phrases += BARE
    name = styled(rename(rng, said, kinds.split), style)
    return Param(name, schema, draw, phrases, required, about)


def remark(rng: random.Random, p: Param, default: Any) -> str:
    """What a description adds: a default, an example, the options. default: None when there is none to tell."""
    if default is not None:
        return rng.choice(
            [
                "Optional. Default is {d}.",
                "Default is {d}.",
                "If not provided, defaults to {d}.",
                "Defaults to {d}.",
                "Default: {d}.",
                "(optional, default {d})",
            ]
        ).format(d=repr(default) if isinstance(default, str) else default)
    options = p.schema.get("enum")
    if options:
        return rng.choice(["One of {o}.", "Either {o}.", "Can be {o}.", "Options: {o}."]).format(
            o=rng.choice([", ", " or "]).join(repr(o) if rng.random() < 0.7 else str(o) for o in options)
        )
    value = p.draw(rng).value
    shown = repr(value) if isinstance(value, str) else value
    return rng.choice(["For example {v}.", "E.g. {v}.", "e.g., {v}", "Such as {v}.", "Example: {v}."]).format(
        v=shown
    )


MORE = (
    "Returns the {a}.", "Works for {a} and {b}.", "A {a} is {g}.", "It looks the {a} up and gives back what belongs to it.", "Use it whenever the {a} matters.",
    "The result holds the {a}, the {b} and the time.", "All values are checked first.", "Results are sorted by {a}.", "It fails when there is no {a}.",
    "Needs access to the {a}.", "This does not change the {a}.", "The units are those of the {a}.", "Based on the {a} of the last {b}.",
)  # fmt: skip


def wordy(rng: random.Random, pools: Pools, about: str) -> str:
    """The description of a tool or parameter with sentences that say nothing of use, as many have."""
    for _ in range(rng.randint(1, 3)):
        noun, gloss = rng.choice(pools.nouns)
        about += " " + rng.choice(MORE).format(a=noun, b=pools.noun(rng), g=gloss)
    return about.strip()


def decorated(rng: random.Random, pools: Pools, p: Param, wordiness: float) -> Param:
    """The same parameter with a default, a null, bounds, a remark, or another order of keys in its schema.

    wordiness: how likely its description grows long.
    """
    schema = dict(p.schema)
    about = wordy(rng, pools, p.about) if rng.random() < wordiness else p.about
    if schema["type"] == "string" and "enum" not in schema and rng.random() < 0.06:
        schema |= {"minLength": 1, "maxLength": rng.choice([200, 255, 256, 500, 1000])}
    if "properties" in schema and rng.random() < 0.5:
        schema["additionalProperties"] = False
    default: dict[str, Any] = {}
    if not p.required and "Default" in about:  # it is told already
        pass
    elif not p.required:
        roll = rng.random()
        if roll < 0.1:
            schema = {"anyOf": [schema, {"type": "null"}]}
        elif roll < 0.3:
            default = {"default": p.draw(rng).value}
        if roll > 0.15 and about and rng.random() < 0.5:
            told = default["default"] if default else p.draw(rng).value
            if not isinstance(told, dict | list):
                about = f"{about} {remark(rng, p, told)}"
    elif "enum" in schema and rng.random() < 0.35:  # options that only the description tells
        about = f"{about} {remark(rng, p, None)}".strip()
        if rng.random() < 0.6:
            del schema["enum"]
    elif about and schema["type"] in ("string", "number") and "format" not in schema and rng.random() < 0.15:
        about = f"{about} {remark(rng, p, None)}"
    if rng.random() < 0.15 and about[1:2].islower() and ". " not in about:  # as docstrings have it
        about = about[0].lower() + about[1:].rstrip(".")
    roll = rng.random()
    if roll < 0.45 or not about:
        shown = described({**schema, **default}, about)
    elif roll < 0.85:
        kind = {k: v for k, v in schema.items() if k in ("type", "anyOf")}
        rest = {k: v for k, v in schema.items() if k not in kind}
        shown = {**described(kind, about), **rest, **default}
    else:
        shown = {"description": about, **schema, **default}
    if "enum" in shown and rng.random() < 0.12:  # its options tell the type
        shown = {k: v for k, v in shown.items() if k != "type"}
    return replace(p, shown=shown)
