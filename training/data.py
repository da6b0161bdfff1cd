"""Rows of training tokens: conversations and prose packed to a fixed length. A shard is a pure function of
its seed.

Stored ids are uint16 with two flag bits: TRAINED (the model learns to write it), IGNORED (it must not).
"""

from __future__ import annotations

import gzip
import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.dialogues import Writer
from training.kinds import Pools, Split
from training.render import END_OF_TEXT, IGNORED, Renderer

Ids = npt.NDArray[np.uint16]
ID_MASK = IGNORED - 1


@dataclass(frozen=True)
class DataConfig:
    """folder holds pools.json.gz, tokenizer.json and prose.npy. prose: share of tokens."""

    folder: Path
    seed: int = 1
    length: int = 4096
    rows: int = 256
    prose: float = 0.15
    split: Split = "train"
    kinds: tuple[str, ...] = ()
    """Only these kinds of conversation; all when empty."""


class Packer:
    """Makes shards [rows, length + 1]."""

    def __init__(self, config: DataConfig) -> None:
        from tokenizers import Tokenizer

        self.config = config
        self.renderer = Renderer(Tokenizer.from_file(str(config.folder / "tokenizer.json")))
        self.writer = Writer(Pools(config.folder / "pools.json.gz"), config.split)
        self.prose: Ids = (
            np.load(config.folder / "prose.npy", mmap_mode="r") if config.prose else np.zeros(0, np.uint16)
        )

    def shard(self, index: int) -> Ids:
        c = self.config
        rng = random.Random(f"{c.seed}/{c.split}/{index}")
        width = c.length + 1
        out = np.full((c.rows, width), END_OF_TEXT | IGNORED, dtype=np.uint16)
        n_prose = round(c.rows * c.prose)
        border = round(len(self.prose) * (1 - PROSE_HELD_OUT))
        low, high = (0, border - width) if c.split == "train" else (border, len(self.prose) - width)
        for row in range(n_prose):
            start = rng.randrange(low, high)
            out[row] = self.prose[start : start + width]
        open_rows = [(row, 0) for row in range(n_prose, c.rows)]
        misses = 0
        while misses < 40 and open_rows:
            ids = self.conversation(rng)
            # best of a few rows: the fullest in which it fits
            fit = max(
                ((used, i) for i, (row, used) in enumerate(open_rows[:24]) if used + len(ids) <= width),
                default=None,
            )
            if fit is None:
                misses += 1
                if len(open_rows) > 24 and misses > 4:  # give the fullest row up
                    fullest = max(range(24), key=lambda i: open_rows[i][1])
                    del open_rows[fullest]
                    misses = 0
                continue
            used, i = fit
            row = open_rows[i][0]
            out[row, used : used + len(ids)] = ids
            open_rows[i] = (row, used + len(ids))
        order = list(range(c.rows))
        rng.shuffle(order)
        return out[order]

    def conversation(self, rng: random.Random) -> Ids:
        while True:
            c = self.writer.conversation(rng)
            if not self.config.kinds or c.kind in self.config.kinds:
                ids = self.renderer.training(c)
                if len(ids) <= self.config.length:
                    return ids


PROSE_HELD_OUT = 0.02  # the end of the prose belongs to the test split
AHEAD = 3  # shards a worker may have waiting


def _work(config: DataConfig, numbers: range, out: Any) -> None:
    packer = Packer(config)
    for i in numbers:
        out.put(packer.shard(i))


def shards(config: DataConfig, workers: int, numbers: range) -> Iterator[Ids]:
    """The shards of these numbers in order. Worker w of n makes every n-th ahead of use; 0 workers: here."""
    if workers == 0:
        packer = Packer(config)
        yield from (packer.shard(i) for i in numbers)
        return
    # forked before the device is touched: nothing is imported twice
    context = multiprocessing.get_context("fork")
    queues = [context.Queue(AHEAD) for _ in range(workers)]
    team = [
        context.Process(target=_work, args=(config, numbers[w::workers], queues[w]), daemon=True)
        for w in range(workers)
    ]
    for process in team:
        process.start()
    try:
        for i in range(len(numbers)):
            yield queues[i % workers].get()
    finally:
        for process in team:
            process.kill()


def prose_ids(prose: Path, tokenizer: Any) -> Ids:
    """All prose documents, joined by end of text."""
    with gzip.open(prose, "rt") as file:
        documents = file.read().split("\x00")
    encodings = (
        encoding
        for start in range(0, len(documents), 500)
        for encoding in tokenizer.encode_batch(documents[start : start + 500], add_special_tokens=False)
    )
    return np.concatenate([np.array([*e.ids, END_OF_TEXT], dtype=np.uint16) for e in encodings])


def main() -> None:
    import argparse

    from tokenizers import Tokenizer

    parser = argparse.ArgumentParser(description="Write prose.npy.")
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    ids = prose_ids(args.folder / "prose.txt.gz", Tokenizer.from_file(str(args.folder / "tokenizer.json")))
    np.save(args.folder / "prose.npy", ids)
    print(len(ids))


if __name__ == "__main__":
    main()
