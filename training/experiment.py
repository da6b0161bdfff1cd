"""What the delay costs: one small model trained as every kind of tensor parallelism, equal tokens, several
seeds.

    python -m training.experiment rows --data build/nano --out build/dtp
    python -m training.experiment run --data build/nano --out build/dtp [--part 0/2] [--finish-at …]
    python -m training.experiment report --out build/dtp --docs docs/dtp.md

`rows` makes the tokens of each seed with all cores and keeps them in --out (`run` would, too). `run` trains
each variant on each seed's and appends one line a run to out/dtp_loss.jsonl; what is there already is
skipped, so an interrupted experiment goes on. --part k/n makes every n-th run, for one GPU of n.
--finish-at (an epoch second): no run starts that would not end by then. `report` makes the table (mean, sd
over seeds) and the plot. The seed decides weights and data; every variant of a seed sees the same tokens in
the same order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kogagent.spec import ModelSpec
from training.data import DataConfig, Ids, shards
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


def written(path: Path, data: DataConfig, rows: int, workers: int) -> Ids:
    """The first `rows` rows of the data, made once by all cores and kept: every variant reads the same."""
    if not path.exists():
        data = replace(data, rows=min(data.rows, rows))
        made = shards(data, workers, range(-(-rows // data.rows)))
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, np.concatenate(list(made))[:rows])
        part.rename(path)
    out: Ids = np.load(path, mmap_mode="r")
    return out


def held_out(folder: Path, data: DataConfig, rows: int, workers: int) -> dict[str, Ids]:
    """Prose and conversations that no run trains on: the test split's prose, other seeds' conversations."""
    other = replace(data, seed=7_000_000)
    return {
        "prose": written(folder / "prose.npy", replace(other, split="test", prose=1.0), rows, workers),
        "calls": written(folder / "calls.npy", replace(other, prose=0.0), rows, workers),
    }


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
    for step in range(steps):
        batch = rows[step * config.batch : (step + 1) * config.batch]
        trainer.step(to_device(batch, device), schedule(config, step / steps))
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
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def run(args: argparse.Namespace) -> None:
    torch.set_float32_matmul_precision("high")
    # every variant adds other outputs with other factors: each such step is a graph of its own
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
    base = replace(TINY, delay=0, windows=(), n_layers=6) if args.tiny else BASE
    data = DataConfig(args.data, length=base.context, rows=64, prose=0.5)
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "dtp_loss.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    tokens = args.steps * args.batch * data.length
    done = {(r["variant"], r["seed"]) for r in lines if r["tokens"] == tokens}
    part, parts = (int(x) for x in args.part.split("/"))
    rows = {  # before the device is touched: the data processes are forked
        seed: written(
            args.out / f"rows-{seed}-{args.steps}.npy",
            replace(data, seed=seed),
            args.steps * args.batch,
            args.workers,
        )
        for seed in args.seeds
    }
    held = held_out(args.out, data, args.eval_rows, args.workers)
    if args.what == "rows":
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    slowest = 0.0
    chosen = [v for v in VARIANTS if not args.only or v.name in args.only]
    for seed, variant in [(s, v) for s in args.seeds for v in chosen][part::parts]:
        if args.finish_at and time.time() + slowest > args.finish_at:
            return
        if (variant.name, seed) in done:
            continue
        began = time.time()
        # the prose wants all its tokens counted alike; half the tokens are prose
        config = TrainConfig(batch=args.batch, seed=seed, prompt_weight=1.0, cooldown=0.5)
        result = train_variant(variant, base, config, rows[seed], held, device)
        slowest = max(slowest, time.time() - began)
        with log.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)


# ── report ───────────────────────────────────────────────────────────────────────────────────


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown: one row a variant, in order, each loss as mean ± sd and its difference from tp."""
    rows = [
        "| variant | what | seeds | tokens | prose loss | against tp | call loss | against tp |",
        "|---|---|---|---|---|---|---|---|",
    ]
    means: dict[str, dict[str, float]] = {}
    for variant in VARIANTS:
        own = [r for r in lines if r["variant"] == variant.name]
        if not own:
            continue
        cells = [f"| {variant.name} | {variant.said} | {len(own)} | {own[0]['tokens'] / 1e6:.1f}M"]
        means[variant.name] = {}
        for metric in METRICS:
            values = [r[metric] for r in own]
            mean = statistics.mean(values)
            means[variant.name][metric] = mean
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            base = means.get("tp", {}).get(metric)
            cells.append(f"{mean:.4f}{spread} | {'' if base is None else f'{mean - base:+.4f}'}")
        rows.append(" | ".join(cells) + " |")
    return "\n".join(rows)


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
    text = table(lines)
    print(text)
    plot(lines, args.out / "dtp_loss.png")
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
