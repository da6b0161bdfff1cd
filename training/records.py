# ruff: noqa: SIM905 -- words are data
"""Tools that keep records of one kind of thing: list, look up, enter, cancel, move. Each verb has its words,
which fit any noun: a tool is told from its siblings by the verb, for the noun is in all of them.

records.txt has the verbs in the notation of training/indirect, with {noun} and {plural} in every line.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

from training.hints import Hint, read
from training.kinds import Kinds
from training.naming import articles, in_split, plural
from training.sketches import Slot

VERBS = read(Path(__file__).with_name("records.txt"))
ACTS = frozenset(("create", "cancel", "move", "assign", "close", "note"))
"""Verbs of which no other does the work: asked for in vain where they are lacking."""
NOUNS = (
    "subscription appointment membership claim lease shipment visit lesson course rental loan task "
    "project meeting interview contract policy permit licence request case complaint repair inspection "
    "tour trip concert class workshop locker key badge account card donation offer quote campaign article "
    "photo backup job build release certificate sample test prescription treatment plot shift report form "
    "survey vote proposal candidate audit rehearsal match training fitting tasting screening consultation "
    "removal cleaning charter booth stall exhibit pass voucher transfer"
).split()


UNSEEN = frozenset(("order", "refund", "address", "product", "booking", "room", "invoice"))
"""What benchmarks/data/counter.json keeps records of: tools that no training shows."""


def family(rng: random.Random, kinds: Kinds, count: int) -> tuple[list[Hint], list[Hint]]:
    """So many verbs of one noun, and those lacking of which no other does the work."""
    noun = _noun(rng, kinds)
    verbs = [_of(verb, noun) for verb in rng.sample(VERBS, len(VERBS))]
    return verbs[:count], [verb for verb in verbs[count:] if verb.groups[0] in ACTS]


def _noun(rng: random.Random, kinds: Kinds) -> str:
    """One that records are kept of in three cases of five, else any."""
    while True:
        noun = rng.choice(NOUNS) if rng.random() < 0.6 else kinds.pools.noun(rng)
        if re.fullmatch("[a-z]{3,14}", noun) and noun not in UNSEEN and in_split(noun, kinds.split):
            return noun


def _of(verb: Hint, noun: str) -> Hint:
    verb = replace(verb, words={"noun": noun, "plural": plural(noun)})

    def slot(one: Slot) -> Slot:
        return replace(one, names=tuple(map(verb.filled, one.names)), about=verb.filled(one.about))

    return replace(
        verb,
        names=tuple(map(verb.filled, verb.names)),
        abouts=tuple(articles(verb.filled(about)) for about in verb.abouts),
        slots=tuple(map(slot, verb.slots)),
    )
