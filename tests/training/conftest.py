"""A folder of training data small enough to make in a second: a few operations, values and words, all made
up.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def draws(rng: np.random.Generator) -> random.Random:
    """Fresh random choices of the kind that the generators take."""
    return random.Random(int(rng.integers(2**62)))


def _words(rng: random.Random, n: int) -> list[str]:
    parts = ["ba", "ke", "lo", "mi", "nu", "ra", "so", "ti", "vu", "we", "zan", "dor", "fel", "gim", "hul"]
    return sorted({"".join(rng.choice(parts) for _ in range(rng.randint(2, 3))) for _ in range(n)})


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds pools.json.gz, tokenizer.json and prose.npy."""
    from training.data import prose_ids
    from training.tokenizer import sample, train

    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(5)
    words = _words(rng, 300)
    names = [w.capitalize() for w in words]
    kinds = [
        "person",
        "city",
        "company",
        "country",
        "job",
        "dish",
        "street",
        "phrase",
        "sentence",
        "user",
        "domain",
        "colour",
        "device",
        "fruit",
        "drink",
        "isbn",
        "first",
        "last",
        "slogan",
        "vegetable",
        "spice",
        "address",
        "cpu",
    ]
    values = {k: [f"{rng.choice(names)} {rng.choice(names)}" for _ in range(40)] for k in kinds}
    values["user"] = rng.sample(words, 30)
    values["domain"] = [f"{w}.com" for w in rng.sample(words, 30)]
    values["city_world"] = ["Łódź", "東京", "Αθήνα", "Besançon"]
    types = ("string", "integer", "number", "boolean", "array", "date")
    operations = [
        {
            "name": f"{rng.choice(['Get', 'List', 'Create'])}{rng.choice(names)}",
            "group": rng.choice(words),
            "about": f"Creates a {rng.choice(words)} of the {rng.choice(words)}.",
            "params": [
                {
                    "name": rng.choice(words),
                    "type": t,
                    "about": f"The {rng.choice(words)}.",
                    "required": i < 2,
                }
                for i, t in enumerate(rng.sample(types, 3))
            ]
            + [
                {
                    "name": "mode",
                    "type": "string",
                    "about": "",
                    "required": True,
                    "enum": ["FAST_ONE", "SLOW"],
                }
            ],
        }
        for _ in range(60)
    ]
    wordnet = {
        part: [[w, f"a kind of {rng.choice(words)}"] for w in words] for part in ("noun", "verb", "adj")
    }
    sentences = [f"The {a} was beside the {b}." for a, b in zip(words, reversed(words), strict=True)]
    pools = {"operations": operations, "values": values, "wordnet": wordnet, "sentences": sentences}
    with gzip.open(folder / "pools.json.gz", "wt") as file:
        json.dump(pools, file)
    documents = [" ".join(rng.choice(words) for _ in range(120)) for _ in range(150)]
    with gzip.open(folder / "prose.txt.gz", "wt") as file:
        file.write("\x00".join(documents))
    tokenizer = train(sample(folder / "pools.json.gz", None, 3, 200), vocab=1024)
    tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "prose.npy", prose_ids(folder / "prose.txt.gz", tokenizer))
    return folder
