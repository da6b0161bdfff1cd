"""Shows that a training run repeats: the same seed twice on one device, the two loss curves compared.

    python -m training.reproduce --data build/nano --steps 160
    python -m training.reproduce --data build/nano --steps 160 --programs fused compiled   # and their times

Both runs make their data and weights anew from the seed and share nothing but the compiled program. Prints a
line of JSON and ends with status 1 when the curves differ by more than the bound: a mean difference of
--bound times the loss's own scatter from step to step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from training.data import DataConfig, Ids
from training.model import Program
from training.train import NANO, TINY, batches, to_device
from training.trainer import Team, TrainConfig, Trainer, schedule


def compare(first: Sequence[float], second: Sequence[float], bound: float) -> dict[str, Any]:
    """Differences of two loss curves of equal length, in nats; `within`: the mean is at most bound times the
    mean difference of neighbouring steps, and no loss is missing."""
    a, b = np.array(first, np.float64), np.array(second, np.float64)
    if a.shape != b.shape or len(a) < 2:
        raise ValueError(f"curves of {len(a)} and {len(b)} steps: they must have the same, two or more")
    difference = np.abs(a - b)
    scatter = float((np.abs(np.diff(a)).mean() + np.abs(np.diff(b)).mean()) / 2)
    return {
        "steps": len(a),
        "largest": float(difference.max()),
        "mean": float(difference.mean()),
        "equal_steps": int((difference == 0).sum()),
        "scatter": scatter,
        "bound": bound * scatter,
        "last": [first[-1], second[-1]],
        "within": bool(difference.mean() <= bound * scatter),  # False for NaN
    }


def curve(trainer: Trainer, rows: Sequence[Ids]) -> tuple[list[float], float]:
    """The loss of every step on these batches, and the ms a step."""
    losses = []
    began = time.perf_counter()
    for step, batch in enumerate(rows):
        factor = schedule(trainer.config, step / len(rows))
        losses.append(trainer.step(to_device(batch, trainer.device), factor))
    made: list[float] = torch.stack(losses).tolist()
    return made, (time.perf_counter() - began) * 1e3 / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch", type=int, default=TrainConfig.batch)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=0.25, help="share of the loss's own scatter")
    parser.add_argument("--workers", type=int, default=7, help="data processes a run")
    parser.add_argument(
        "--programs", nargs=2, choices=get_args(Program), default=("fused", "fused"), help="of the two runs"
    )
    parser.add_argument("--tiny", action="store_true", help="the test shape, on a CPU")
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps takes two or more: one loss has no scatter")
    spec = TINY if args.tiny else NANO
    config = TrainConfig(batch=args.batch, seed=args.seed)
    data = DataConfig(
        args.data, seed=args.seed, length=spec.context, rows=max(8, args.batch) if args.tiny else 64
    )
    # data processes are forked before the device is touched
    sources = [batches(data, args.workers, args.batch, Team()) for _ in range(2)]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    began = time.perf_counter()
    trainers = []
    for program in args.programs:
        torch.manual_seed(args.seed)
        trainers.append(Trainer(spec, config, device, Team(), program))
        if device == "cuda":  # compiles, while the rows are made
            trainers[-1].warm_up()
    rows = [list(islice(source, args.steps)) for source in sources]
    for source in sources:
        source.close()  # type: ignore[attr-defined]  # ends the data processes
    runs = [curve(trainer, own) for trainer, own in zip(trainers, rows, strict=True)]
    result = compare(runs[0][0], runs[1][0], args.bound)
    print(
        json.dumps(
            {
                **result,
                "programs": args.programs,
                "ms_a_step": [round(ms, 2) for _, ms in runs],
                "seconds": round(time.perf_counter() - began, 1),
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
            }
        ),
        flush=True,
    )
    if not result["within"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
