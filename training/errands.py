# ruff: noqa: E501, SIM905 -- sentences and words are data: one list a line reads better than wrapped ones
"""What people note, write to each other and reckon every day, and how they name towns and currencies. Knows no tools."""

from __future__ import annotations

import random
from typing import Any

from training.kinds import Kinds
from training.naming import plural
from training.shapes import Sort
from training.spoken import DAYS, Spoken, integer, number, verbatim
from training.values import CITIES, LISTS

# {n} is any noun, {ns} many of it, {m} another, {a} an adjective, {p} a person, {q} another, {i} an ingredient, {o} a company, {c} a town, {d} a day, {k} a number
ERRANDS = (
    "fix the {n}", "buy a new {n}", "renew my {n}", "return the {n} to {p}", "pick up {p} from the {n}", "call {p} about the {n}", "email {p} the {n}", "clean the {n}",
    "pay {o} for the {n}", "send the {n} to {o}", "write to {p}", "ask {p} for the {n}", "look for a {a} {n}", "sell the old {n}", "paint the {n}", "order {i}", "buy {k} {ns}",
    "get {i} and {i2}", "bring {i} on {d}", "visit {p} in {c}", "book a trip to {c}", "cancel the {n}", "feed the {n}", "check the {n}", "prepare the {n} for {d}", "iron the shirts",
    "wrap the present for {p}", "tidy the {n}", "charge the {n}", "move the {n} to the {m}", "measure the {n}", "learn {k} new words", "read about the {n}", "practise the {n}",
    "phone {o}", "apply at {o}", "finish the {n} before {d}", "print the {n}", "sign the {n}", "thank {p}", "apologise to {p}", "meet {p} and {q}", "lend {p} the {n}", "take the {n} to the {m}",
    "tell {p} about the {n}", "throw away the {a} {n}", "repair the {a} {n}", "empty the {n}", "defrost the {n}", "back up the {n}", "vote", "mow the lawn", "take out the rubbish",
    "book the vet", "wash the car", "change the sheets", "do my taxes", "go for a run", "bake a cake with {i}", "cook {i} for {p}", "invite {p} for {d}", "make room for the {n}", "count the {ns}",
)  # fmt: skip
NEWS = (
    "I am {k} minutes late", "I'm on the train", "I got home safely", "I'm stuck at the {n}", "I forgot the {n}", "I found the {n}", "I can't come on {d}", "I will bring {i}", "I need {i}",
    "I moved to {c}", "I got the job at {o}", "I will call back on {d}", "I have the {n}", "I sold the {n}", "I won't be there", "I'll be back on {d}", "I passed the exam", "I am at {o}",
    "we meet at the {n}", "we are out of {i}", "we have a new {n}", "we won", "we are expecting a {n}", "we leave on {d}", "we need {k} more {ns}", "the {n} is {a}", "the {n} has arrived",
    "the {n} is broken", "the {n} starts on {d}", "the {n} is at the {m}", "the keys are in the {n}", "the meeting is off", "the meeting is moved to {d}", "the train is {k} minutes late",
    "{q} is ill", "{q} has the {n}", "{q} sends greetings", "{q} is waiting at the {n}", "dinner is ready", "dinner is on {d}", "lunch is at the {n}", "there is {i} in the {n}", "there are {k} guests",
    "my {n} is {a}", "my flight to {c} was cancelled", "my phone is nearly empty", "everything is fine", "nobody is home", "it starts in {k} minutes", "it will be {a}", "the price is {k} dollars",
    "the parcel from {o} is here", "the party is on {d}", "the shop has no {i}", "the door is open", "your {n} is ready", "your {n} is at {o}", "that {n} was {a}",
)  # fmt: skip
GREETINGS = (
    "good luck", "well done", "thank you", "see you on {d}", "happy birthday", "get well soon", "congratulations", "sleep well", "sorry", "call me", "where are you", "are you home", "have fun in {c}",
    "bring {i}, please", "on my way", "can't talk now", "{k} minutes", "what about {d}", "how is the {n}", "don't forget the {n}", "is the {n} {a}", "miss you", "yes", "no", "not today", "all set", "lunch on {d}",
)  # fmt: skip
EVENTS = (
    "dentist", "haircut", "team lunch", "parents evening", "yoga class", "job interview", "{p}'s birthday", "call with {p}", "lunch with {p}", "meeting with {o}", "{n} fair", "{n} club", "{n} exam",
    "choir", "piano lesson", "football practice", "check-up", "visit of {p}", "trip to {c}", "wedding of {p} and {q}", "school play", "{n} workshop", "talk about the {n}", "stand-up", "blood test",
    "date with {p}", "eye test", "{a} {n} show", "interview at {o}", "flight to {c}", "review of the {n}", "barbecue", "vet", "swimming", "inspection of the {n}", "concert", "class reunion",
)  # fmt: skip
TOWNS = (
    "Amsterdam Athens Auckland Bangkok Barcelona Beijing Belgrade Berlin Bogota Bratislava Brussels Bucharest Budapest Cairo Calgary Caracas Copenhagen Dakar Delhi Dubai Dublin Edinburgh Florence "
    "Geneva Glasgow Hamburg Hanoi Helsinki Istanbul Jakarta Johannesburg Karachi Kyiv Kyoto Lagos Lima Lisbon London Lyon Manila Marseille Melbourne Milan Montreal Mumbai Munich Nairobi Naples "
    "Osaka Oslo Ottawa Oxford Paris Perth Porto Prague Quito Reykjavik Riga Santiago Sarajevo Seoul Seville Shanghai Singapore Sofia Stockholm Sydney Taipei Tallinn Tokyo Toronto Tunis Turin "
    "Valencia Vancouver Venice Vienna Vilnius Warsaw Zagreb Zurich"
).split()
STREETS = "Mill Church Station Park Harbour Castle Bridge Garden Forest School King Queen Market River Hill Abbey Elm Oak Maple Cedar North South".split()
WAYS = (
    "{} Street", "{} Street", "{} Road", "{} Lane", "{} Avenue", "{} Row", "{} Drive", "{} Square", "{} Close", "{} Way", "{} Court",
    "Rue {} #", "Via {} #", "Calle {} #", "Avenida {} #", "{}weg #", "{}straße #", "{}gatan #", "ul. {} #", "Plaza {} #",
)  # fmt: skip
COINS = {
    "USD": "dollars|US dollars|American dollars|bucks", "EUR": "euros|euro", "GBP": "pounds|British pounds|pounds sterling", "JPY": "yen|Japanese yen", "CHF": "Swiss francs|francs",
    "CAD": "Canadian dollars", "AUD": "Australian dollars", "NZD": "New Zealand dollars", "INR": "rupees|Indian rupees", "PLN": "zloty|Polish zloty", "SEK": "Swedish kronor|Swedish crowns",
    "NOK": "Norwegian kroner|Norwegian crowns", "DKK": "Danish kroner|Danish crowns", "CZK": "Czech crowns|koruna", "MXN": "Mexican pesos", "BRL": "reais|Brazilian reais", "CNY": "yuan|Chinese yuan",
    "KRW": "won|Korean won", "TRY": "Turkish lira", "ZAR": "rand|South African rand", "HUF": "forints|Hungarian forints", "THB": "baht|Thai baht", "ILS": "shekels",
}  # fmt: skip
TOLD = {
    "+": ("{a} plus {b}", "{a} and {b} added up"),
    "-": ("{a} minus {b}", "{a} less {b}"),
    "*": ("{a} times {b}", "{a} multiplied by {b}"),
    "/": ("{a} divided by {b}", "{a} over {b}"),
}
COUNTRIES = {
    "DE": "Germany", "FR": "France", "GB": "the UK|Britain|the United Kingdom", "US": "the US|the United States|America", "IT": "Italy", "ES": "Spain", "PT": "Portugal", "NL": "the Netherlands|Holland",
    "BE": "Belgium", "CH": "Switzerland", "AT": "Austria", "PL": "Poland", "CZ": "the Czech Republic|Czechia", "SE": "Sweden", "NO": "Norway", "DK": "Denmark", "FI": "Finland", "IE": "Ireland",
    "GR": "Greece", "TR": "Turkey", "UA": "Ukraine", "RO": "Romania", "HU": "Hungary", "JP": "Japan", "CN": "China", "KR": "South Korea|Korea", "IN": "India", "AU": "Australia", "NZ": "New Zealand",
    "CA": "Canada", "MX": "Mexico", "BR": "Brazil", "AR": "Argentina", "CL": "Chile", "CO": "Colombia", "PE": "Peru", "ZA": "South Africa", "EG": "Egypt", "MA": "Morocco", "KE": "Kenya", "NG": "Nigeria",
    "IL": "Israel", "SA": "Saudi Arabia", "AE": "the Emirates", "TH": "Thailand", "VN": "Vietnam", "ID": "Indonesia", "PH": "the Philippines", "SG": "Singapore", "IS": "Iceland", "HR": "Croatia",
}  # fmt: skip
LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese", "nl": "Dutch", "sv": "Swedish", "no": "Norwegian", "da": "Danish", "fi": "Finnish", "pl": "Polish",
    "cs": "Czech", "hu": "Hungarian", "ro": "Romanian", "el": "Greek", "tr": "Turkish", "ru": "Russian", "uk": "Ukrainian", "ar": "Arabic", "he": "Hebrew", "hi": "Hindi", "zh": "Chinese", "ja": "Japanese",
    "ko": "Korean", "th": "Thai", "vi": "Vietnamese", "id": "Indonesian",
}  # fmt: skip
FIRMS = (
    "{l} & {m}", "{l} & Sons", "{l} and {m}", "{n} Supplies", "{l} Ltd", "{l} GmbH", "{l} Group", "{n} Works", "{a} {n}", "{n} & Co", "{c} {n} Company", "{l} Brothers", "{n}Soft", "{l} Logistics",
    "The {n} Shop", "{n} Partners", "{l} & {m} Inc", "Studio {l}", "{l} AG", "{n} Foods", "{c} Trading", "{l} Industries", "{n}ly",
)  # fmt: skip
SIGNS = {"*": ("x", "×", "*"), "/": ("÷", ":", "/")}


def sort(kinds: Kinds, kind: str) -> Sort | None:
    """The sort of a kind of these; None if it is none of them."""
    schema: dict[str, Any] = {"type": "string"}
    match kind:
        case "errand":
            return Sort(schema, verbatim(lambda r: _text(kinds, r, ERRANDS)))
        case "news":
            return Sort(schema, verbatim(lambda r: _text(kinds, r, NEWS)))
        case "greeting":
            return Sort(schema, verbatim(lambda r: _text(kinds, r, NEWS if r.random() < 0.4 else GREETINGS)))
        case "event":
            return Sort(schema, verbatim(lambda r: _text(kinds, r, EVENTS)))
        case "sum":
            return Sort(schema, reckoning)
        case "coin":
            return Sort(schema, coin)
        case "town":
            return Sort(schema, verbatim(lambda r: _town(kinds, r)))
        case "address":
            return Sort(schema, verbatim(lambda r: _address(kinds, r)))
        case "firm":
            return Sort(schema, verbatim(lambda r: _firm(kinds, r)))
        case "isocountry":
            return Sort(schema, lambda r: _coded(r, COUNTRIES), "Two-letter country code.")
        case "isolanguage":
            return Sort(schema, lambda r: _coded(r, LANGUAGES), "Two-letter language code, such as en.")
    return None


def _text(kinds: Kinds, rng: random.Random, forms: tuple[str, ...]) -> str:
    pools = kinds.pools
    noun = pools.noun(rng)
    people, goods = [pools.value(rng, "first") for _ in "pq"], rng.sample(LISTS["ingredient"], 2)
    return rng.choice(forms).format(
        n=noun,
        ns=plural(noun),
        m=pools.noun(rng),
        a=pools.adjective(rng),
        p=people[0],
        q=people[1],
        i=goods[0],
        i2=goods[1],
        o=rng.choice(LISTS["company"]),
        c=_town(kinds, rng),
        d=rng.choice(DAYS),
        k=rng.randint(2, 60),
    )


def _town(kinds: Kinds, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.4:
        return rng.choice(TOWNS)
    return rng.choice(CITIES)[0] if roll < 0.75 else kinds.pools.value(rng, "city")


def _address(kinds: Kinds, rng: random.Random) -> str:
    """A house as it is written where people live: with its town or without, the number before or behind; or
    a crossing."""
    pools = kinds.pools

    def stem() -> str:
        return rng.choice([pools.value(rng, "last"), pools.noun(rng).title(), rng.choice(STREETS)])

    if rng.random() < 0.1:
        ways = [way for way in WAYS if way[-1] != "#"]
        one, other = rng.choice(ways).format(stem()), rng.choice(ways).format(stem())
        if rng.random() < 0.2:
            other = f"{rng.choice(['1st', '2nd', '3rd', '5th', '8th', '11th', '42nd'])} {rng.choice(['Street', 'Avenue'])}"
        return rng.choice(["{} and {}", "{} and {}", "corner of {} and {}", "{} at {}"]).format(one, other)
    street, count = rng.choice(WAYS).format(stem()), rng.randint(1, 240)
    if street[-1] == "#":  # Lindenweg 7, Calle Mayor 12
        place = street.replace("#", str(count))
    else:
        place = f"{count}{rng.choice(['', '', '', '', 'a', 'b'])} {street}"
    if rng.random() < 0.2:
        return place
    code = rng.choice(["", "", "", f"{rng.randint(10000, 99999)} "])
    return f"{place}, {code}{_town(kinds, rng)}"


def _firm(kinds: Kinds, rng: random.Random) -> str:
    """A company by what it does, by whose it is, or by a made-up word."""
    pools = kinds.pools
    last, other = pools.value(rng, "last"), pools.value(rng, "last")
    return rng.choice(FIRMS).format(
        l=last, m=other, n=pools.noun(rng).title(), a=pools.adjective(rng).title(), c=_town(kinds, rng)
    )


def _coded(rng: random.Random, names: dict[str, str]) -> Spoken:
    """What has a code, by its name or, now and then, by its code."""
    code = rng.choice(list(names))
    return Spoken(code, code if rng.random() < 0.15 else rng.choice(names[code].split("|")))


def coin(rng: random.Random) -> Spoken:
    """A currency by its code, or by its name: 'yen' is JPY."""
    code = rng.choice(list(COINS))
    return Spoken(code, code if rng.random() < 0.5 else rng.choice(COINS[code].split("|")))


def reckoning(rng: random.Random) -> Spoken:
    """A sum as it is typed, or told: '12 times 7' is 12 * 7."""

    def term() -> str:
        return str(number(rng, 1, 500).value if rng.random() < 0.3 else integer(rng, 1, 999).value)

    count = rng.choice([2, 2, 2, 3, 3, 4])
    terms, signs = [term() for _ in range(count)], [rng.choice("+-*/") for _ in range(count - 1)]
    roll = rng.random()
    if roll < 0.3 and count == 2:
        value = f"{terms[0]} {signs[0]} {terms[1]}"
        return Spoken(value, rng.choice(TOLD[signs[0]]).format(a=terms[0], b=terms[1]))
    if roll < 0.4 and count == 2 and signs[0] in SIGNS:  # as signs are written by hand
        sign = rng.choice(SIGNS[signs[0]])
        return Spoken(f"{terms[0]} {signs[0]} {terms[1]}", f"{terms[0]} {sign} {terms[1]}")
    if count > 2 and rng.random() < 0.5:
        first = rng.randrange(count - 1)
        last = rng.randrange(first + 1, count)
        if (first, last) != (0, count - 1):
            terms[first], terms[last] = f"({terms[first]}", f"{terms[last]})"
    gap = rng.choice([" ", " ", ""])
    text = terms[0] + "".join(f"{gap}{s}{gap}{t}" for s, t in zip(signs, terms[1:], strict=True))
    return Spoken(text, text)
