"""Names that a world gives to its places and things."""

from __future__ import annotations

import random

from training.kinds import Kinds


def proper_name(rng: random.Random, kinds: Kinds) -> str:
    roll = rng.random()
    if roll < 0.5:
        return kinds.pools.noun(rng).split()[0].split("-")[0].capitalize()
    if roll < 0.75:
        return kinds.pools.value(rng, "last").split()[0]
    return rng.choice(kinds.pools.values["city"]).split()[-1]
