"""What the delay costs: one small model trained as every kind of tensor parallelism, equal tokens, several
seeds.

    python -m training.experiment run --data build/nano --out build/dtp [--part 0/2] [--finish-at …]
    python -m training.experiment report --out build/dtp --docs docs/dtp.md

`run` makes the tokens of all seeds with all cores while the first variant compiles, and keeps them in --out
(`rows` does only that); trains each variant on each seed's and appends one line a run to out/dtp_loss.jsonl;
what is there already is skipped, so an interrupted experiment goes on. --part k/n makes every n-th run, for
one GPU of n; the parts share the tokens. --finish-at (an epoch second): no run starts that would not end by
then. `report` makes the table (mean, sd over seeds; differences seed by seed) and the plot. The seed decides
weights and data; every variant of a seed sees the same tokens in the same order.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kogagent.spec import ModelSpec
from training.data import DataConfig, Ids, Packer
from training.train import NANO, TINY, to_device
from training.trainer import Team, TrainConfig, Trainer, schedule

BASE = replace(NANO, name="dtp", dim=384, ffn_dim=1024, n_layers=12, context=2048, windows=())
"""8 lanes, full attention, 27 million parameters."""


@dataclass(frozen=True)
class Variant:
    name: str
    changes: dict[str, Any]
    said: str

    def spec(self, base: ModelSpec) -> ModelSpec:
        return replace(base, name=self.name, **self.changes)


VARIANTS = (
    Variant("tp", {"delay": 0}, "synchronous tensor parallelism"),
    Variant("dtp1-none", {"delay": 1, "early": "none"}, "delay 1, early layers without communication"),
    Variant("dtp1-present", {"delay": 1, "early": "present"}, "delay 1, early layers with a blocking sum"),
    Variant("dtp2-none", {"delay": 2, "early": "none"}, "delay 2, early layers without communication"),
    Variant("dtp2-present", {"delay": 2, "early": "present"}, "delay 2, early layers with a blocking sum"),
    Variant("dtp4-none", {"delay": 4, "early": "none"}, "delay 4, early layers without communication"),
    Variant("dtp4-present", {"delay": 4, "early": "present"}, "delay 4, early layers with a blocking sum"),
    Variant("ladder", {"delay": 0, "residual": "ladder"}, "Ladder Residual"),
    Variant("alone", {"delay": 0, "comm_attention": False, "comm_mlp": False}, "no communication"),
)
METRICS = ("prose_loss", "call_loss")


@dataclass(frozen=True)
class Part:
    """The first `rows` rows of some data, in a file."""

    path: Path
    data: DataConfig
    rows: int

    def numbers(self) -> range:
        return range(-(-self.rows // self.data.rows))

    def read(self) -> Ids:
        out: Ids = np.load(self.path, mmap_mode="r")
        return out


def parts(args: argparse.Namespace, data: DataConfig) -> dict[str, Part]:
    """The rows of each seed, and those that no run trains on: the test split's prose, another seed's
    conversations."""

    def part(name: str, data: DataConfig, rows: int) -> Part:
        return Part(args.out / f"{name}.npy", replace(data, rows=min(data.rows, rows)), rows)

    other = replace(data, seed=7_000_000)
    rows = args.steps * args.batch
    return {
        **{str(s): part(f"rows-{s}-{args.steps}", replace(data, seed=s), rows) for s in args.seeds},
        "prose": part("prose", replace(other, split="test", prose=1.0), args.eval_rows),
        "calls": part("calls", replace(other, prose=0.0), args.eval_rows),
    }


_packers: dict[DataConfig, Packer] = {}  # made before the fork: its processes share their pages


def _shard(config: DataConfig, number: int) -> Ids:
    return _packers[config].shard(number)


def write(wanted: Sequence[Part], workers: int) -> None:
    """Make the files that are not there, once by all cores. Whoever comes second waits and finds them."""
    with (wanted[0].path.parent / "rows.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [p for p in wanted if not p.path.exists()]
        for data in (p.data for p in missing if p.data not in _packers):
            like = next(
                (p for d, p in _packers.items() if (d.folder, d.split) == (data.folder, data.split)), None
            )
            _packers[data] = like.like(data) if like else Packer(data)
        tasks = [(p.data, i) for p in missing for i in p.numbers()]
        if workers:
            os.nice(10)  # what compiles meanwhile goes first
            context = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(workers, context) as pool:
                made = list(pool.map(_shard, *zip(*tasks, strict=True))) if tasks else []
        else:
            made = [_shard(*task) for task in tasks]
        for p in missing:
            own, made = made[: len(p.numbers())], made[len(p.numbers()) :]
            half = p.path.with_suffix(".part.npy")
            np.save(half, np.concatenate(own)[: p.rows])
            half.rename(p.path)


def train_variant(
    variant: Variant,
    base: ModelSpec,
    config: TrainConfig,
    rows: Ids,
    held: dict[str, Ids],
    device: str,
) -> dict[str, Any]:
    """One pass over the rows; its losses on held-out prose (all tokens) and conversations (what the model
    writes)."""
    torch.manual_seed(config.seed)
    trainer = Trainer(variant.spec(base), config, device, Team())
    steps = len(rows) // config.batch
    began = time.perf_counter()
    first = 0.0
    for step in range(steps):
        batch = rows[step * config.batch : (step + 1) * config.batch]
        loss = trainer.step(to_device(batch, device), schedule(config, step / steps))
        if not step:
            loss.item()
            first = time.perf_counter() - began
    losses = {name: trainer.evaluate(part) for name, part in held.items()}
    return {
        "bench": "dtp_loss",
        "variant": variant.name,
        "seed": config.seed,
        "prose_loss": losses["prose"]["prompt_loss"],
        "call_loss": losses["calls"]["loss"],
        "tokens": steps * config.batch * base.context,
        "parameters": trainer.spec.parameters,
        "seconds": round(time.perf_counter() - began, 1),
        "first_step_seconds": round(first, 1),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def run(args: argparse.Namespace) -> None:
    opened = time.time()
    torch.set_float32_matmul_precision("high")
    base = replace(TINY, delay=0, windows=(), n_layers=6) if args.tiny else BASE
    data = DataConfig(args.data, length=base.context, rows=64, prose=0.5)
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "dtp_loss.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    tokens = args.steps * args.batch * data.length
    done = {(r["variant"], r["seed"]) for r in lines if r["tokens"] == tokens}
    chosen = [v for v in VARIANTS if not args.only or v.name in args.only]
    part, of = (int(x) for x in args.part.split("/"))
    wanted = [(s, v) for s in args.seeds for v in chosen][part::of]
    pieces = parts(args, data)
    everything = list(pieces.values())
    if args.what == "rows" or not args.workers:
        write(everything, args.workers)
        maker = None
    else:  # forked before the device is touched, and at work while it compiles
        maker = multiprocessing.get_context("fork").Process(target=write, args=(everything, args.workers))
        maker.start()
    if args.what == "rows":
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if maker:
        Trainer(wanted[0][1].spec(base), settings(args.batch, 0), device, Team()).warm_up()
        note(opened, event="compiled")
        maker.join()
        if maker.exitcode:
            raise SystemExit("the rows could not be made: see the error above")
        note(opened, event="rows")
    held = {name: pieces[name].read() for name in ("prose", "calls")}
    slowest = 0.0
    for seed, variant in wanted:
        if args.finish_at and time.time() + slowest > args.finish_at:
            return
        if (variant.name, seed) in done:
            continue
        began = time.time()
        config = settings(args.batch, seed)
        result = train_variant(variant, base, config, pieces[str(seed)].read(), held, device)
        slowest = max(slowest, time.time() - began)
        with log.open("a") as file:
            file.write(json.dumps(result) + "\n")
        note(opened, **result)


def note(opened: float, **values: Any) -> None:
    print(json.dumps({**values, "at": round(time.time() - opened, 1)}), flush=True)


def settings(batch: int, seed: int) -> TrainConfig:
    """The prose wants all its tokens counted alike; half the tokens are prose."""
    return TrainConfig(batch=batch, seed=seed, prompt_weight=1.0, cooldown=0.5)


# ── report ───────────────────────────────────────────────────────────────────────────────────


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown: one row a variant, in order; each loss as mean ± sd over seeds, and its difference from tp's
    of the same seed (same first weights, same tokens), which the seeds' own differences do not blur."""
    rows = [
        "| variant | what | seeds | tokens | prose loss | against tp | call loss | against tp |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = {r["seed"]: r for r in lines if r["variant"] == "tp"}
    for variant in VARIANTS:
        own = [r for r in lines if r["variant"] == variant.name]
        if not own:
            continue
        cells = [f"| {variant.name} | {variant.said} | {len(own)} | {own[0]['tokens'] / 1e6:.1f}M"]
        for metric in METRICS:
            differences = [r[metric] - base[r["seed"]][metric] for r in own if r["seed"] in base]
            cells.append(spread([r[metric] for r in own], ""))
            cells.append("" if variant.name == "tp" else spread(differences, "+"))
        rows.append(" | ".join(cells) + " |")
    return "\n".join(rows)


def spread(values: list[float], sign: str) -> str:
    """Mean ± sd."""
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.4f}{deviation}"


def plot(lines: list[dict[str, Any]], path: Path) -> None:
    """Every run a dot, every mean a bar, one panel a metric."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [v.name for v in VARIANTS if any(r["variant"] == v.name for r in lines)]
    figure, axes = pyplot.subplots(1, len(METRICS), figsize=(11, 4), sharey=True)
    for axis, metric in zip(axes, METRICS, strict=True):
        for y, name in enumerate(names):
            values = [r[metric] for r in lines if r["variant"] == name]
            axis.plot(values, [y] * len(values), "o", alpha=0.5, color="tab:blue")
            axis.plot([statistics.mean(values)], [y], "|", markersize=22, color="black")
        axis.set_xlabel(metric.replace("_", " ") + " (nats a token)")
        axis.set_yticks(range(len(names)), names)
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


BEGIN, END = "<!-- losses: written by training.experiment report -->", "<!-- end of losses -->"


def report(args: argparse.Namespace) -> None:
    lines = [json.loads(line) for line in (args.out / "dtp_loss.jsonl").read_text().splitlines()]
    if len(lengths := {r["tokens"] for r in lines}) > 1:
        raise SystemExit(f"runs of {sorted(lengths)} tokens: keep those of one length in dtp_loss.jsonl")
    text = table(lines)
    print(text)
    pictures = args.docs.parent / "assets" if args.docs else args.out
    pictures.mkdir(exist_ok=True)
    plot(lines, pictures / "dtp-loss.png")
    if args.docs:
        old = args.docs.read_text()
        if BEGIN not in old or END not in old:
            raise SystemExit(f"{args.docs} has no line {BEGIN!r} and {END!r} to write the table between")
        head, rest = old.split(BEGIN)
        args.docs.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["rows", "run", "report"])
    parser.add_argument("--data", type=Path, default=Path("build/nano"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="*", choices=[v.name for v in VARIANTS])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--finish-at", type=float, help="epoch second")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--eval-rows", type=int, default=64)
    parser.add_argument("--tiny", action="store_true", help="the test shape, on a CPU")
    args = parser.parse_args()
    (report if args.what == "report" else run)(args)


if __name__ == "__main__":
    main()
