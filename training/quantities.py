# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Tools that compute: two to five numbers, told apart by what they measure. Names and requests as data.

The family tools of families.py are whole sentences; here any quantities meet, so that which number belongs to
which parameter must be read from names, descriptions and units.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from training.kinds import Kinds
from training.naming import Split, joined, pick, plural, rename, styled, tool_name, uncapital, widened
from training.spoken import Param, Spoken, integer, is_list, number, number_list
from training.tools import Tool, ordered

# name in words | what it is | unit (or -) | low | high | whole numbers only
RAW = """
mass|Mass of the body|kg|1|900|0; initial velocity|Velocity at the start|m/s|0|90|0; final velocity|Velocity at the end|m/s|0|90|0; acceleration|Acceleration|m/s^2|1|30|0; time|Time that passes|seconds|1|500|0
distance|Distance covered|meters|1|900|0; height|Height above the ground|meters|1|500|0; angle|Angle to the ground|degrees|1|89|0; force|Force that acts|newtons|1|900|0; charge|Electric charge|coulombs|1|20|0
voltage|Voltage across the part|volts|1|400|0; current|Electric current|amperes|1|50|0; resistance|Resistance|ohms|1|900|0; power|Power|watts|1|3000|0; frequency|Frequency of the wave|hertz|1|9000|0
wavelength|Length of the wave|nanometers|200|900|0; temperature|Temperature|degrees|-40|300|0; pressure|Pressure of the gas|pascals|100|99999|1; volume|Volume of the vessel|liters|1|90|0; density|Density of the matter|kg/m^3|1|2000|0
moles|Amount of the substance|moles|1|20|0; concentration|Concentration of the solution|mol/l|1|9|0; radius|Radius|cm|1|90|0; diameter|Diameter|cm|1|90|0; side length|Length of one side|cm|1|90|0
base|Length of the base|cm|1|90|0; width|Width|meters|1|90|0; length|Length|meters|1|90|0; depth|Depth|meters|1|90|0; perimeter|Length around the shape|meters|4|400|0
principal|Money lent or invested|dollars|100|90000|1; interest rate|Rate of interest a year|percent|1|15|0; years|Number of years|years|1|40|1; months|Number of months|months|1|360|1; payment|Amount paid each time|dollars|10|5000|1
revenue|Money that came in|dollars|100|900000|1; costs|Money spent|dollars|100|500000|1; discount|Reduction of the price|percent|1|70|1; tax rate|Rate of the tax|percent|1|40|0; price|Price of one piece|dollars|1|900|0
quantity|Number of pieces|pieces|1|900|1; salary|Yearly salary|dollars|9000|200000|1; dividend|Dividend of one share|dollars|1|20|0; shares|Number of shares|shares|1|5000|1; inflation rate|Rate of inflation|percent|0|12|0
trials|Number of trials|trials|1|200|1; successes|Number of successes|successes|0|100|1; probability|Probability of one success|-|0|1|0; sample size|Size of the sample|-|5|5000|1; mean|Mean of the values|-|0|200|0
standard deviation|Standard deviation of the values|-|1|40|0; total outcomes|Number of possible outcomes|-|2|100|1; favorable outcomes|Number of outcomes that count|-|1|60|1; confidence level|Level of confidence|percent|80|99|1; degree|Degree of the polynomial|-|1|9|1
numerator|Upper part of the fraction|-|1|99|1; denominator|Lower part of the fraction|-|2|99|1; exponent|Power to raise to|-|2|12|1; coefficient|Factor of the term|-|-20|20|1; decimal places|Digits after the point|-|0|8|1
population|Number of inhabitants|people|100|9000000|1; birth rate|Births for each 1000 people|-|1|40|0; area|Area of the region|square kilometers|1|90000|0; rainfall|Rain that fell|mm|1|900|0; altitude|Height above the sea|meters|0|8000|1
weight|Body weight|kg|35|140|0; age|Age of the person|years|1|99|1; heart rate|Beats of the heart a minute|bpm|45|190|1; calories|Energy of the food|kcal|20|3000|1; dosage|Amount of the drug|mg|1|900|1
speed|Speed of travel|km/h|1|300|0; fuel consumption|Fuel used for 100 km|liters|3|20|0; passengers|Number of passengers|passengers|1|300|1; floors|Number of floors|floors|1|90|1; rooms|Number of rooms|rooms|1|60|1
rolls|Number of rolls|rolls|1|50|1; sides|Sides of the die|sides|4|20|1; cards|Number of cards drawn|cards|1|52|1; players|Number of players|players|2|22|1; goals|Goals scored|goals|0|12|1
iterations|Number of iterations|iterations|1|5000|1; learning rate|Step size of the training|-|0|1|0; max depth|Greatest depth of the tree|-|1|30|1; clusters|Number of clusters|clusters|2|20|1; threshold|Limit above which something counts|-|0|100|0
"""
QUANTITIES = [tuple(q.strip().split("|")) for line in RAW.strip().split("\n") for q in line.split(";")]
LISTS = [
    "numbers", "values", "data", "scores", "measurements", "prices", "temperatures", "grades", "samples", "weights", "distances", "points", "dataset", "observations", "heights", "ages", "lengths", "costs", "rates", "readings", "times", "marks", "frequencies", "amounts", "sales", "inputs", "x values", "y values", "features", "labels", "returns", "durations", "errors", "counts",
]  # fmt: skip
VERBS = ["calculate", "compute", "get", "find", "determine", "estimate", "predict", "solve", "evaluate"]
RESULTS = [
    "kinetic energy",
    "momentum",
    "work done",
    "final speed",
    "displacement",
    "electric field",
    "resistance",
    "heat",
    "growth",
    "profit",
    "future value",
    "monthly payment",
    "return on investment",
    "probability",
    "variance",
    "confidence interval",
    "correlation",
    "regression",
    "body index",
    "energy expenditure",
    "dose",
    "volume",
    "surface area",
    "slope",
    "intersection",
    "derivative",
    "integral",
    "root",
    "ratio",
    "percentage",
    "density",
    "travel time",
    "fuel cost",
    "population growth",
    "yield",
    "score",
    "break even point",
    "present value",
    "net worth",
    "efficiency",
    "entropy",
    "expected value",
    "binomial probability",
    "standard error",
    "sequence",
    "factorization",
    "remainder",
    "distance",
    "angle",
    "area",
    "concentration",
]
ASKS = [
    "What is the {r}", "Calculate the {r}", "Can you compute the {r}", "Find the {r}", "I need the {r}", "Determine the {r}",
    "Work out the {r}", "How large is the {r}", "Tell me the {r}", "Give me the {r}", "Help me find the {r}", "What's the {r}",
    "Compute the {r}", "I'd like to know the {r}", "Could you work out the {r}", "How much is the {r}", "Please calculate the {r}", "Evaluate the {r}", "Estimate the {r}", "Show me the {r}", "Could you determine the {r}", "We want the {r}", "Get the {r}", "Predict the {r}", "Solve for the {r}",
]  # fmt: skip
# in training also these
MORE_ASKS = (
    "What would the {r} be", "What will the {r} be", "What does the {r} come to", "What do you get for the {r}", "What {r} do we get", "What {r} results", "How big is the {r}", "How high is the {r}", "How do you get the {r}",
    "How great is the {r}", "Can you tell me the {r}", "Can you find the {r}", "Can I have the {r}", "Can you give me the {r}", "Can you figure out the {r}", "Figure out the {r}", "I would like the {r}", "I want to know the {r}",
    "I have to know the {r}", "I'm looking for the {r}", "I am after the {r}", "Let me know the {r}", "Let me have the {r}", "Please find the {r}", "Please tell me the {r}", "Please give me the {r}", "Please work out the {r}",
    "Please determine the {r}", "We need the {r}", "We'd like the {r}", "We have to find the {r}", "My task is to find the {r}", "My homework asks for the {r}", "Assess the {r}", "Derive the {r}", "Obtain the {r}", "Return the {r}",
    "Establish the {r}", "Calculate what the {r} is", "Find out the {r}", "Find out what the {r} is", "Say what the {r} is", "Help me with the {r}", "Help us determine the {r}", "Help me calculate the {r}", "Do the sums for the {r}",
    "Wanted is the {r}", "The {r} is wanted", "The {r} is needed", "The {r}, please",
)  # fmt: skip
SPELT = {
    "kg": "kilograms|kilos", "m/s": "meters per second|metres per second|m / s", "m/s^2": "m/s²|meters per second squared", "seconds": "s|sec|secs", "meters": "m|metres", "degrees": "°|deg",
    "newtons": "N", "coulombs": "C", "volts": "V", "amperes": "A|amps", "ohms": "Ω", "watts": "W|watt", "hertz": "Hz", "nanometers": "nm|nanometres", "pascals": "Pa", "liters": "l|L|litres",
    "kg/m^3": "kg/m³|kilograms per cubic meter", "moles": "mol", "mol/l": "mol/L|moles per liter", "cm": "centimeters|centimetres", "dollars": "USD|bucks", "years": "yrs", "people": "inhabitants",
    "square kilometers": "km²|sq km|square km", "mm": "millimeters|millimetres", "bpm": "beats per minute|beats a minute", "kcal": "kilocalories", "mg": "milligrams", "km/h": "kilometers per hour|kph|km per hour",
}  # fmt: skip
"""Unit -> other ways to write it."""
MORE_TOLD = (
    "{v} for the {n}", "the {n} being {v}", "{n} being {v}", "{n} equal to {v}", "{n} set to {v}", "{n} at {v}", "the {n} {v}", "the {n} of {v}", "{n} ({v})", "{v} ({n})", "{v} for {n}", "{v} as {n}", "{v} being the {n}",
    "the {n}: {v}", "the {n} = {v}", "{n} -> {v}", "{a} {n} equal to {v}", "{a} {n} that is {v}", "the {n} at {v}", "{n} {v}", "{n} of {v}", "{a} {n} of {v}", "the {n} is {v}", "{n}: {v}",
)  # fmt: skip
MORE_LISTED = (
    "the {n} being {v}", "{n} being {v}", "the {n}: {v}", "the {n} = {v}", "{n} of {v}", "the following {n}: {v}", "these {n}: {v}", "{n} ({v})", "{n} set to {v}", "the array {n} {v}",
    "the {n} are {v}",
)  # fmt: skip


def _phrases(name: str, unit: str, split: Split) -> tuple[str, ...]:
    """Ways to say a quantity with its value."""
    base, article = _phrases_kept(name, unit), "an" if name[0] in "aeiou" else "a"
    spelt = [] if unit == "-" or name.endswith(unit) else [unit, *SPELT.get(unit, unit).split("|")]
    values = [f"{{v}}{'' if u == '°' else ' '}{u}" for u in spelt] or ["{v}"]
    values += [f"{{v}}{u}" for u in spelt if len(u) < 3]
    more = [form.replace("{v}", v).format(n=name, a=article, v="{v}") for form in MORE_TOLD for v in values]
    return tuple(widened(base, more, split))


def _phrases_kept(name: str, unit: str) -> tuple[str, ...]:
    """Those of both splits."""
    value = "{v}" if unit == "-" or name.endswith(unit) else f"{{v}} {unit}"
    article = "an" if name[0] in "aeiou" else "a"
    return (
        f"{{v}} {name}" if name.endswith(unit) else f"{article} {name} of {value}",
        f"{name} {value}",
        f"the {name} is {value}",
        f"{name} = {value if unit == 'percent' else '{v}'}",
        f"{value} as the {name}",
        f"{name} of {value}",
        f"{name}: {value}",
    )


def _listed(name: str, split: Split) -> tuple[str, ...]:
    """Ways to say a list of numbers."""
    told = ("the {n} {v}", "{n} {v}", "{n}: {v}", "{v} as {n}", "{n} = {v}", "the list of {n} {v}")
    base, more = ([form.format(n=name, v="{v}") for form in forms] for forms in (told, MORE_LISTED))
    return tuple(widened(base, more, split))


SHARES = (
    "{a}, as a decimal.", "{a} (decimal).", "{a} as a fraction.", "{a}, between 0 and 1.", "{a}, e.g. 0.05 for 5%.", "{a}, as a number from 0 to 1.",
)  # fmt: skip
TWICE = (
    "{q} of {a} and {b}{u}", "{q} {a}{u} and {b}{u}", "two {q} of {a}{u} and {b}{u}", "{a}{u} and {b}{u} as the {q}", "{q} {a} and {b}",
    "the {q} being {a}{u} and {b}{u}", "{q}: {a} and {b}", "{q} of {a}{u} for the first and {b}{u} for the second",
)  # fmt: skip
# in training also these
MORE_TWICE = (
    "the {q} {a}{u} and {b}{u}", "the {q} of {a} and {b}{u}", "the two {q} {a}{u} and {b}{u}", "both {q}, {a}{u} and {b}{u}", "{q} = {a}{u} and {b}{u}", "{a}{u} and {b}{u} for the {q}", "{a}{u} and {b}{u} as {q}",
    "{q} equal to {a}{u} and {b}{u}", "{q} ({a}{u} and {b}{u})", "two {q}, {a}{u} and {b}{u}", "two {q}: {a}{u} and {b}{u}", "{q} of first {a}{u} and then {b}{u}", "{q} of {a}{u} and of {b}{u}",
    "{q} of {a}{u} on the one hand and {b}{u} on the other", "the {q} set to {a}{u} and {b}{u}",
)  # fmt: skip


def _noun(part: str) -> str:
    """'the mass is 3 kg' behind a 'with'."""
    return re.sub(r"^the (.+?) is ", r"\1 of ", part)


def _there(part: str) -> str:
    """'a mass of 3 kg' behind an 'if'."""
    return re.sub("^an? ", lambda m: f"there is {m.group()}", part)


def _arranged(rng: random.Random, head: str, parts: Sequence[str]) -> str:
    """What is asked with what is given, in further orders."""
    asked, given = uncapital(head, ()), joined([_noun(p) for p in parts], rng)
    form = rng.choice(
        [
            "{head}, given {given}",
            "{head} using {given}",
            "{head} from {given}",
            "{head} based on {given}",
            "{head}, having {given}",
            "{head} on the basis of {given}",
            "{head} ({list})",
            "{head}; {list}",
            "With {given}, {asked}",
            "For {given}, {asked}",
            "From {given}, {asked}",
            "Using {given}, {asked}",
            "If {there}, {asked}",
            "Suppose {there}. {head}",
            "{head}, where {there}",
            "{head} when {there}",
            "{head}, knowing that {there}",
        ]
    )
    return form.format(
        head=head,
        asked=asked,
        given=given,
        list=", ".join(parts),
        there=joined([_there(p) for p in parts], rng),
    )


def _share(percent: Spoken) -> Spoken:
    return Spoken(round(percent.value / 100, 6), percent.text)


def compute_tool(rng: random.Random, kinds: Kinds, result: str = "", verb: str = "") -> Tool:
    """A tool that works out the result from quantities; result and verb are drawn where not given."""
    split, pools = kinds.split, kinds.pools
    style = rng.choice(["snake", "snake", "snake", "camel"])
    if not result:
        result = rng.choice(RESULTS)
        if rng.random() < 0.4:
            result = f"{rng.choice([pools.adjective, pools.noun])(rng)} {result}"
    verb = verb or rng.choice(VERBS)
    base = rng.choice([f"{verb} {result}", f"{verb} {result}", result, f"{result} {verb}"])
    params: dict[str, Param] = {}
    said: dict[str, str] = {}
    chosen = rng.sample(QUANTITIES, rng.randint(1, 5))
    for i, (name, about, unit, low, high, whole) in enumerate(chosen):
        variant = (
            name
            if rng.random() < 0.7
            else f"{rng.choice(['first', 'second', 'initial', 'total', 'average', 'target'])} {name}"
        )
        key = styled(rename(rng, variant, split), style)
        lo, hi = float(low), float(high)
        is_whole = whole == "1"

        def draw(r: random.Random, lo: float = lo, hi: float = hi, is_whole: bool = is_whole) -> Spoken:
            if is_whole or (hi > 1 and r.random() < 0.5):
                return integer(r, int(lo), int(hi))
            return (
                number(r, lo, hi)
                if hi > 1
                else (lambda v: Spoken(v, str(v)))(round(r.uniform(0.01, 0.99), 2))
            )

        kind = "integer" if is_whole else "number" if rng.random() < 0.7 or hi <= 1 else "integer"
        if kind == "integer" and not is_whole:
            draw = lambda r, lo=lo, hi=hi: integer(r, int(lo), int(hi))  # type: ignore[misc, assignment]  # noqa: E731
        text = f"{about}{'' if unit == '-' or rng.random() < 0.4 else f', in {unit}'}."
        if unit == "percent" and rng.random() < 0.5:  # told in percent, wanted as a share
            kind, text = "number", rng.choice(SHARES).format(a=about)
            draw = lambda r, percent=draw: _share(percent(r))  # type: ignore[misc, assignment]  # noqa: E731
        if key not in params:
            params[key] = Param(
                key, {"type": kind}, draw, _phrases(variant, unit, split), i < 3 or rng.random() < 0.5, text
            )
            said[key] = variant
    twice: list[str] = []
    of_both = plural(said[next(iter(params))])
    measure = "" if chosen[0][2] == "-" else f" {chosen[0][2]}"
    if rng.random() < 0.25:  # one quantity of two things
        key = next(iter(params))
        twin = params.pop(key)
        percent = "percent" if measure == " percent" else "-"  # 5 and 5 percent may be two values
        for suffix in rng.choice([("1", "2"), ("_a", "_b")]):
            name = styled(rename(rng, f"{said[key]}{suffix}", split), style)
            params[name] = replace(
                twin, name=name, phrases=_phrases(f"{said[key]} {suffix.strip('_')}", percent, split)
            )
            twice.append(name)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        name = rng.choice(LISTS) + rng.choice(["", "", " a", " b", "1", "2"])
        key = styled(rename(rng, name, split), style)
        whole_list = rng.random() < 0.6
        schema: dict[str, Any] = {"type": "array", "items": {"type": "integer" if whole_list else "number"}}
        if key not in params:
            params[key] = Param(
                key,
                schema,
                lambda r, w=whole_list: number_list(r, w),  # type: ignore[misc]
                _listed(name, split),
                True,
                rng.choice([f"The {name}.", f"List of {name}.", f"The {name} to use.", f"Array of {name}."]),
            )
    if rng.random() < 0.25:
        made = kinds.semantic(rng, style, rng.random() < 0.3)
        params.setdefault(made.name, made)
    about = rng.choice(
        [
            f"{verb.capitalize()} the {result}.",
            f"{verb.capitalize()}s the {result} from the given values.",
            f"Use this to {verb} the {result}.",
            f"{result.capitalize()}.",
        ]
    )
    for_what = pools.noun(rng)

    def ask(r: random.Random, spoken: dict[str, Spoken]) -> str:
        head = pick(r, widened(ASKS, MORE_ASKS, split), split).format(r=result)
        if r.random() < 0.3:
            head += f" of the {for_what}"
        parts = []
        apart = dict(spoken)
        if (
            len(twice) == 2
            and all(n in spoken and not is_list(spoken[n]) for n in twice)
            and r.random() < 0.8
        ):
            a, b = (apart.pop(n).text for n in twice)
            both = pick(r, widened(TWICE, MORE_TWICE, split), split)
            both += "{u}" if measure == " percent" and "{u}" not in both else ""
            parts.append(both.format(q=of_both, a=a, b=b, u=measure))
        for key, value in apart.items():
            options = params[key].phrases
            phrase = pick(r, options, split)
            parts.append(phrase.replace("{v}", value.text))
        if r.random() < 0.4:
            r.shuffle(parts)
        roll = r.random()
        if not parts:
            text = head
        elif split == "train" and r.random() < 0.25:
            text = _arranged(r, head, parts)
        elif roll < 0.45:
            text = f"{head} with {joined([_noun(p) for p in parts], r)}"
        elif roll < 0.6:
            text = f"{head} for {joined([_noun(p) for p in parts], r)}"
        elif roll < 0.75:
            text = f"{head} if {joined([_there(p) for p in parts], r)}"
        elif roll < 0.9:
            text = f"Given {joined(parts, r)}, {uncapital(head, ())}"
        else:
            text = f"{head}: {', '.join(parts)}"
        if r.random() < 0.5:
            text = re.sub(r" percent\b", "%", text)
        return text + ("?" if head.startswith(("What", "How", "Can")) or r.random() < 0.1 else ".")

    name = tool_name(rng, base, rng.choice(["snake", "snake", "snake", "camel"]), split)
    return Tool(name, about, ordered(rng, params), ask, result)
