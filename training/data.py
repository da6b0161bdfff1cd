"""Rows of training tokens: conversations and prose packed to a fixed length. A shard is a pure function of
its seed.

Stored ids are uint16 with three flag bits: TRAINED (the model learns to write it), IGNORED (it must not),
BRANCH (another continuation of what the document began with).
"""

from __future__ import annotations

import copy
import gzip
import multiprocessing
import os
import random
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import numpy.typing as npt

from training.dialogues import Writer
from training.naming import Split
from training.pools import Pools
from training.render import BRANCH, END_OF_TEXT, IGNORED, Renderer

Ids = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class DataConfig:
    """folder holds pools.json.gz, tokenizer.json and prose.npy. prose: share of tokens."""

    folder: Path
    seed: int = 1
    length: int = 4096
    rows: int = 256
    prose: float = 0.05
    split: Split = "train"
    branches: int = 16
    """At most so many continuations behind one tool set."""


class Packer:
    """Makes shards [rows, length + 1]."""

    def __init__(self, config: DataConfig) -> None:
        from tokenizers import Tokenizer

        self.config = config
        self.renderer = Renderer(Tokenizer.from_file(str(config.folder / "tokenizer.json")))
        self.writer = Writer(Pools(config.folder / "pools.json.gz"), config.split)
        self.prose = _prose(config)

    def like(self, config: DataConfig) -> Packer:
        """Of another seed, size or share of prose, without reading the sources again."""
        if (config.folder, config.split) != (self.config.folder, self.config.split):
            raise ValueError(f"{config} has another folder or split than {self.config}: make a new Packer")
        out = copy.copy(self)
        out.config, out.prose = config, _prose(config)
        return out

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
        while misses < 25 and open_rows:
            ids = self.conversation(rng)
            # best of a few rows: the fullest in which it fits, else as much as fits into the emptiest
            rooms = [width - used for _, used in open_rows[:24]]
            i = min((i for i, r in enumerate(rooms) if r >= len(ids)), key=rooms.__getitem__, default=-1)
            if i < 0:
                i = max(range(len(rooms)), key=rooms.__getitem__)
                ids = shortened(ids, rooms[i])
            if not len(ids):
                misses += 1
                if len(open_rows) > 24 and misses > 4:  # give the fullest row up
                    del open_rows[min(range(24), key=rooms.__getitem__)]
                    misses = 0
                continue
            row, used = open_rows[i]
            out[row, used : used + len(ids)] = ids
            open_rows[i] = (row, used + len(ids))
        order = list(range(c.rows))
        rng.shuffle(order)
        return out[order]

    def conversation(self, rng: random.Random) -> Ids:
        while True:
            ids = shortened(
                self.renderer.training(self.writer.bundle(rng, self.config.branches)), self.config.length
            )
            if len(ids):
                return ids


def _prose(config: DataConfig) -> Ids:
    if not config.prose:
        return np.zeros(0, np.uint16)
    out: Ids = np.load(config.folder / "prose.npy", mmap_mode="r")
    return out


def shortened(ids: Ids, room: int) -> Ids:
    """The conversation with as many of its branches as there is room for; empty when not one fits."""
    if len(ids) <= room:
        return ids
    later = np.flatnonzero(ids & BRANCH)[1:]
    fitting = later[later < room]
    return np.append(ids[: fitting[-1]], np.uint16(END_OF_TEXT)) if len(fitting) else ids[:0]


PROSE_HELD_OUT = 0.02  # the end of the prose belongs to the test split
AHEAD = 3  # shards a worker may have waiting
FAILURES = 20  # shards that may be lost to an error in the generator before a run gives up


def _work(config: DataConfig, numbers: range, out: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a process a core: threads of its own would only wait
    packer = Packer(config)
    for i in numbers:
        try:
            out.put(packer.shard(i))
        except Exception:
            out.put(f"shard {i} of seed {config.seed} could not be made:\n{traceback.format_exc()}")


def shards(config: DataConfig, workers: int, numbers: range) -> Iterator[Ids]:
    """The shards of these numbers in order. Worker w of n makes every n-th ahead of use, from this call on; 0
    workers: here. Closing the iterator ends them."""
    if workers == 0:
        packer = Packer(config)
        return (packer.shard(i) for i in numbers)
    # forked before the device is touched: nothing is imported twice
    context = multiprocessing.get_context("fork")
    queues = [context.Queue(AHEAD) for _ in range(workers)]
    team = [
        context.Process(target=_work, args=(config, numbers[w::workers], queues[w]), daemon=True)
        for w in range(workers)
    ]
    for process in team:
        process.start()
    return _drained(queues, team, len(numbers))


def _drained(queues: list[Any], team: list[Any], count: int) -> Iterator[Ids]:
    failures = 0
    try:
        for i in range(count):
            made = _next(queues[i % len(team)], team[i % len(team)])
            if not isinstance(made, str):
                yield made
                continue
            # a rare conversation that the generator cannot write costs a shard, not the run on the device
            failures += 1
            print(made, file=sys.stderr, flush=True)
            if failures > FAILURES:
                raise RuntimeError(f"{failures} shards could not be made, see above: mend the generator")
    finally:
        for process in team:
            process.kill()


def _next(queue: Any, process: Any) -> Ids | str:
    while True:
        try:
            made: Ids | str = queue.get(timeout=5)
            return made
        except Empty:
            if not process.is_alive():
                raise RuntimeError(
                    f"a data process ended with {process.exitcode}: see its error above"
                ) from None


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
