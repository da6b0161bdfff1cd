"""The weighted average of checkpoints of one shape: each is a folder and its share.

    python -m training.average build/run/checkpoint:0.7 build/before:0.3 --out build/average

What the shipped weights are made by (docs/nano.md). Sums are taken in FP32; the shares must add up to one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from training.trainer import SHARD_BYTES


def average(parts: Sequence[tuple[Path, float]], out: Path) -> None:
    """Write the average to out, in the first part's types. ValueError for shares or shapes that don't fit."""
    from kogagent.engine.weights import load_checkpoint, save_checkpoint

    if not math.isclose(math.fsum(share for _, share in parts), 1.0, abs_tol=1e-6):
        raise ValueError(f"the shares {[share for _, share in parts]} do not add up to 1")
    loaded = [(folder, share, load_checkpoint(folder)) for folder, share in parts]
    _, _, first = loaded[0]
    for folder, _, one in loaded[1:]:
        if one.spec != first.spec or one.tensors.keys() != first.tensors.keys():
            raise ValueError(f"{folder} has another shape than {loaded[0][0]}")
    mean = {
        name: torch.stack([share * one.tensors[name].float() for _, share, one in loaded])
        .sum(0)
        .to(value.dtype)
        for name, value in first.tensors.items()
    }
    save_checkpoint(out, first.spec, mean, max_shard_bytes=SHARD_BYTES)


def _part(text: str) -> tuple[Path, float]:
    folder, _, share = text.rpartition(":")
    return Path(folder), float(share)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", type=_part, metavar="FOLDER:SHARE")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    average(args.parts, args.out)


if __name__ == "__main__":
    main()
