"""What sources.py gathered, to draw from: operations, values, words. Knows no parameters and no splits."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

from training.naming import checksum

_CRUDE = frozenset(
    int(checksum, 16)
    for checksum in re.findall(
        "[0-9a-f]{8}",
        """
    cc614ca6 7b4a72b6 0601ecbb 3dbf7a3b 22dad126 b38c8e3d dfec8b58 033330db f6fbde46 cada2bed
    75f1cb2c 17bdbf93 9559c34b f9835dcc 73fe0531 e1bcb11a 8ccef82b 66df1e8c 96e2bc3e 31b4780a
    5216b6bb 61448318 5af64758 1387f6fe 0c7206a1 8d2bebf9 c063859c bef3a4b6 16f68578 dba090a2
    6c924623 186d72d8 bb80fa3d 2c399cb7 efa269f7 a9f573ac fd5d2f3d 1c23dabc 6cbb5832 4b6ebe39
    e8d73970 6a007340 10181690
    """,
    )
)
"""Checksums of slurs and of words about sex, which a dictionary holds and no tool is named after."""


def _decent(text: str) -> bool:
    return _CRUDE.isdisjoint(map(checksum, re.findall("[a-z]+", text.lower())))


ENDINGS = ("txt", "md", "csv", "json", "py", "pdf", "png", "log", "xml", "yaml", "docx", "html")


def without_crude(gathered: dict[str, Any]) -> dict[str, Any]:
    """What sources.py gathered without crude words and sentences; marked, so that it is looked at once."""
    if gathered.get("decent"):
        return gathered
    words = {part: [w for w in entries if _decent(w[0])] for part, entries in gathered["wordnet"].items()}
    said = [sentence for sentence in gathered["sentences"] if _decent(sentence)]
    return {**gathered, "wordnet": words, "sentences": said, "decent": True}


class Pools:
    """What sources.py gathered, but for crude words."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt") as file:
            raw = without_crude(json.load(file))  # a file made before they were left out there has no mark
        self.operations: list[dict[str, Any]] = raw["operations"]
        self.values: dict[str, list[str]] = raw["values"]
        self.nouns: list[list[str]] = raw["wordnet"]["noun"]
        self.verbs: list[list[str]] = raw["wordnet"]["verb"]
        self.adjectives: list[list[str]] = raw["wordnet"]["adj"]
        self.sentences: list[str] = raw["sentences"]
        """Statements about anything."""

    def value(self, rng: random.Random, kind: str) -> str:
        world = f"{kind}_world"
        if world in self.values and rng.random() < 0.25:
            return rng.choice(self.values[world])
        return rng.choice(self.values[kind])

    def noun(self, rng: random.Random) -> str:
        return self.nouns[int(len(self.nouns) * rng.random() ** 2)][0]

    def adjective(self, rng: random.Random) -> str:
        return self.adjectives[int(len(self.adjectives) * rng.random() ** 2)][0]

    def topic(self, rng: random.Random) -> str:
        return f"{self.adjective(rng)} {self.noun(rng)}" if rng.random() < 0.5 else self.noun(rng)

    def identifier(self, rng: random.Random) -> str:
        """'fern-12', 'KX-4711', '9f03ab', …: any of the looks that identifiers have."""
        letters = "abcdefghijklmnopqrstuvwxyz"
        shape = rng.random()
        if shape < 0.05:  # 4B, C12
            letter, number = rng.choice(letters).upper(), str(rng.randint(1, 60))
            return number + letter if rng.random() < 0.6 else letter + number
        if shape < 0.3:
            stem = re.sub(r"[^a-z]+", "-", self.noun(rng).lower()).strip("-")
            return f"{stem}-{rng.randint(1, 9999)}"
        if shape < 0.5:
            head = "".join(rng.choice(letters).upper() for _ in range(rng.randint(1, 3)))
            return f"{head}{rng.choice(['-', '-', '-', ''])}{rng.randint(1, 10 ** rng.randint(1, 5))}"
        if shape < 0.65:
            return "".join(rng.choice("0123456789abcdef") for _ in range(rng.choice([6, 8, 12])))
        if shape < 0.8:
            return "-".join(re.sub(r"[^a-z]+", "", self.noun(rng).lower()) or "x" for _ in range(2))
        if shape < 0.9:
            return f"{re.sub(r'[^a-z]+', '_', self.noun(rng).lower()).strip('_')}_{rng.randint(1, 99):02}"
        return str(rng.randint(1000, 99999999))

    def path(self, rng: random.Random) -> str:
        """The name of a file, or a path to it."""
        stem = re.sub(r"[^a-z0-9]+", rng.choice("_-"), self.topic(rng).lower()).strip("_-") or "notes"
        name = f"{stem}.{rng.choice(ENDINGS)}"
        shape = rng.random()
        if shape < 0.5:
            return name
        folders = [re.sub(r"[^a-z]+", "", self.noun(rng).lower()) or "data" for _ in range(rng.randint(1, 2))]
        return ("/" if rng.random() < 0.4 else "") + "/".join([*folders, name])
