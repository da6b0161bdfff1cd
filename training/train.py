"""Trains a LaneFormer on generated conversations and prose. One command, seeded, resumable, logged as JSON
lines.

    python -m training.train --data build/nano --out build/run --seconds 480   # the schedule fits the time
    python -m training.train --data build/nano --out build/run --steps 3000    # the same curve again
    torchrun --nproc-per-node 2 -m training.train …                            # on two GPUs

The learning rate warms up, stays, and falls to zero over the last part; progress is elapsed time over
--seconds or step over --steps. --resume keeps the whole state in --out and goes on from it. --weights takes
up only the weights of an exported checkpoint, and --span 0.5 1 runs that part of the schedule: a run that
must move to another machine is two runs with two seeds. The weights are exported as FP16 shards at every
evaluation.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kogagent.spec import ModelSpec
from training.data import DataConfig, Ids, Packer, shards
from training.model import Program
from training.naming import Split
from training.profiling import FIRST, STEPS, StepProfile
from training.render import IM_END
from training.trainer import Team, TrainConfig, Trainer, export, schedule

NANO = ModelSpec(
    name="laneformer-nano",
    vocab_size=8192,
    dim=512,
    n_layers=10,
    n_heads=8,
    n_kv_heads=8,
    head_dim=64,
    ffn_dim=1024,
    context=4096,
    lanes=8,
    delay=2,
    early="present",
    head="replicate",
    windows=(512, 512, 512, 0, 512, 0, 512, 0, 512, 0),
    tied_head=True,
    eos_ids=(IM_END,),
)
"""30.4 million parameters."""

TINY = replace(
    NANO, name="tiny", dim=64, n_layers=4, head_dim=8, ffn_dim=128, context=512, windows=(64, 0, 64, 0)
)
"""For tests on a CPU."""


@dataclass(frozen=True)
class RunConfig:
    """How long, how watched. One of seconds, steps, finish_at (an epoch second) ends the schedule."""

    seconds: float | None = None
    steps: int | None = None
    finish_at: float | None = None
    span: tuple[float, float] = (0.0, 1.0)
    """The part of the schedule that this run makes."""
    start: Path | None = None
    """A checkpoint whose weights it begins with."""
    workers: int = 0
    eval_rows: int = 64
    eval_every: float = 60
    resume: bool = False
    pause: float | None = None
    """Seconds of this call after which the run rests, to be resumed."""
    program: Program = "fused"
    profile: Path | None = None
    """Where a table of a few early steps' kernels goes."""
    quiet: bool = False


class Log:
    """JSON lines in a file and on the screen; silent but on the first process of a team."""

    def __init__(self, path: Path, active: bool, quiet: bool) -> None:
        self._path = path if active else None
        self._quiet = quiet
        self._opened = time.perf_counter()

    def note(self, **values: Any) -> None:
        if self._path is None:
            return
        line = json.dumps({**values, "at": round(time.perf_counter() - self._opened, 1)})
        with self._path.open("a") as file:
            file.write(line + "\n")
        if not self._quiet:
            print(line, flush=True)


SPLITS: tuple[Split, ...] = ("train", "test")


def validation(data: DataConfig, rows: int, split: Split) -> Ids:
    """Rows that training never sees: another seed, and for `test` other names and templates."""
    return Packer(replace(data, seed=data.seed + 7_000_000, split=split, rows=rows, prose=0.0)).shard(0)


def batches(data: DataConfig, workers: int, size: int, team: Team, step: int = 0) -> Iterator[Ids]:
    """The batches of this process from a step on. The data processes start with the call."""
    in_shard = data.rows // size
    first = team.rank + step // in_shard * team.size
    source = shards(data, workers, range(first, 1_000_000, team.size))

    def cut(step: int) -> Iterator[Ids]:
        for shard in source:
            for i in range(step % in_shard, in_shard):
                yield shard[i * size : (i + 1) * size]
            step = 0

    return cut(step)


def run(
    spec: ModelSpec, config: TrainConfig, data: DataConfig, out: Path, how: RunConfig, device: str = ""
) -> dict[str, Any]:
    """Train, log to out/log.jsonl, export to out/checkpoint; the last evaluation (of the first process)."""
    team = Team()
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "log.jsonl", team.rank == 0, how.quiet)
    # data processes are forked before the device is touched, and work while it compiles
    state = out / "state.pt"
    saved = torch.load(state, map_location="cpu") if how.resume and state.exists() else None
    source = batches(data, how.workers, config.batch, team, saved["step"] if saved else 0)
    pool: Executor = (
        ProcessPoolExecutor(len(SPLITS), multiprocessing.get_context("fork"))
        if how.workers
        else ThreadPoolExecutor(1)
    )
    held: dict[str, Future[Ids]] = {
        s: pool.submit(validation, data, how.eval_rows, s) for s in SPLITS if team.rank == 0
    }
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    team.join()
    torch.manual_seed(config.seed)
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(spec, config, device, team, how.program)
    if device == "cuda":  # outside the clock, beside the first shards
        trainer.warm_up()
        log.note(event="compiled", memory=torch.cuda.max_memory_allocated())
    if how.start is not None:
        trainer.begin_with(how.start)
    if saved:
        trainer.restore(saved)
    log.note(
        event="start",
        parameters=spec.parameters,
        config=asdict(config),
        data={**asdict(data), "folder": str(data.folder)},
        spec=asdict(spec),
        device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
        devices=team.size,
        span=how.span,
        start=None if how.start is None else str(how.start),
        torch=torch.__version__,
        batch_tokens=config.batch * data.length * team.size,
    )
    finished = _loop(trainer, source, next(source), held, out, how, log)
    final: dict[str, Any] = {}
    if team.rank == 0:
        export(trainer, out / "checkpoint", torch.float16)
        final = {k: trainer.evaluate(v.result()) for k, v in held.items()}
        tokens = trainer.step_number * config.batch * data.length * team.size
        log.note(
            event="end" if finished else "rest",
            step=trainer.step_number,
            tokens=tokens,
            seconds=round(trainer.elapsed, 1),
            **final,
        )
        if how.resume:
            torch.save(trainer.state(), state)
    source.close()  # type: ignore[attr-defined]  # ends the data processes
    pool.shutdown()
    team.leave()
    return final


def _loop(
    trainer: Trainer,
    source: Iterator[Ids],
    batch: Ids,
    held: dict[str, Future[Ids]],
    out: Path,
    how: RunConfig,
    log: Log,
) -> bool:
    """Steps until the schedule ends (True) or the run is to rest (False).

    Evaluates, exports and keeps a state to go back to on the way.
    """
    team, device = trainer.team, trainer.device
    seconds = how.seconds if how.finish_at is None else how.finish_at - time.time()
    called = time.perf_counter()
    began = called - trainer.elapsed
    good = copy.deepcopy(trainer.state())
    next_eval = trainer.elapsed + how.eval_every
    marked, marked_step = time.perf_counter(), trainer.step_number
    watch = StepProfile(how.profile, device) if how.profile and team.rank == 0 else None
    while True:
        trainer.elapsed = time.perf_counter() - began
        progress = trainer.elapsed / seconds if seconds else trainer.step_number / (how.steps or 1)
        progress = team.agree(progress, device)
        if progress >= 1:
            return True
        if how.pause is not None and team.agree(time.perf_counter() - called, device) >= how.pause:
            return False
        factor = schedule(trainer.config, how.span[0] + progress * (how.span[1] - how.span[0]))
        if how.start is not None:  # the optimisers' averages begin anew
            factor *= min(1.0, progress / trainer.config.warmup)
        if watch:
            watch.before_step()
        loss = trainer.step(to_device(batch, device), factor)
        batch = next(source)
        if trainer.step_number % 20 == 0 or trainer.step_number <= 5:
            value = loss.item()
            now = time.perf_counter()
            tokens = (trainer.step_number - marked_step) * batch[:, 1:].size * team.size
            log.note(
                step=trainer.step_number,
                seconds=round(now - began, 1),
                loss=round(value, 4),
                lr=round(factor, 4),
                tokens_s=round(tokens / (now - marked)),
            )
            marked, marked_step = now, trainer.step_number
            if not math.isfinite(value):
                _go_back(trainer, good, log)
        if team.agree(time.perf_counter() - began, device) > next_eval:
            next_eval += how.eval_every
            if math.isfinite(loss.item()):
                good = copy.deepcopy(trainer.state())
                if team.rank == 0:
                    few = max(trainer.config.batch, how.eval_rows // 4)
                    scores = {k: trainer.evaluate(v.result()[:few]) for k, v in held.items()}
                    log.note(event="eval", step=trainer.step_number, **scores)
                    export(trainer, out / "checkpoint", torch.float16)
                    if how.resume:
                        torch.save(trainer.state(), out / "state.pt")
            marked, marked_step = time.perf_counter(), trainer.step_number


def _go_back(trainer: Trainer, good: dict[str, Any], log: Log) -> None:
    """The weights of the last evaluation, at half the rate. SystemExit when no rate helps."""
    step, elapsed = trainer.step_number, trainer.elapsed
    trainer.restore({**copy.deepcopy(good), "step": step, "elapsed": elapsed})
    config = trainer.config
    trainer.config = replace(config, lr=config.lr / 2, lr_embed=config.lr_embed / 2)
    log.note(event="diverged", lr=trainer.config.lr)
    if trainer.config.lr < 1e-5:
        raise SystemExit("the loss is not finite at any rate: look at the data")


def to_device(batch: Ids, device: str) -> torch.Tensor:
    rows = torch.from_numpy(batch.astype(np.int32))
    return rows.pin_memory().to(device, non_blocking=True) if device == "cuda" else rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--finish-at", type=float, help="epoch second at which the schedule ends")
    parser.add_argument("--span", type=float, nargs=2, default=(0.0, 1.0), metavar=("FROM", "TO"))
    parser.add_argument("--weights", type=Path, help="a checkpoint to take the first weights from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=TrainConfig.batch, help="rows a step and GPU")
    parser.add_argument("--lr", type=float, default=TrainConfig.lr, help="of the layers' matrices")
    parser.add_argument(
        "--lr-embed", type=float, default=TrainConfig.lr_embed, help="of the embedding and the norms"
    )
    parser.add_argument(
        "--cooldown",
        type=float,
        default=TrainConfig.cooldown,
        help="share of the schedule in which the rate falls",
    )
    parser.add_argument("--prompt-weight", type=float, default=TrainConfig.prompt_weight)
    parser.add_argument("--workers", type=int, default=10, help="data processes a GPU")
    parser.add_argument("--eval-rows", type=int, default=64)
    parser.add_argument("--eval-every", type=float, default=60)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--pause", type=float, help="rest after so many seconds; --resume goes on")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="a table of some early steps' kernels")
    parser.set_defaults(program="fused")
    program = parser.add_mutually_exclusive_group()
    for flag, name, said in (
        ("--plain", "compiled", "without the Triton kernels of training.fused"),
        ("--eager", "eager", "no compilation, dense masks"),
    ):
        program.add_argument(flag, action="store_const", const=name, dest="program", help=said)
    parser.add_argument("--tiny", action="store_true", help="the test shape, on a CPU")
    args = parser.parse_args()
    if [args.seconds, args.steps, args.finish_at].count(None) != 2:
        parser.error("give one of --seconds, --steps and --finish-at")
    if not 0 <= args.span[0] < args.span[1] <= 1:
        parser.error("--span takes two shares of the schedule, 0 <= FROM < TO <= 1")
    if not 0 < args.cooldown <= 1:
        parser.error("--cooldown takes a share of the schedule, 0 < SHARE <= 1")
    if args.profile and args.steps is not None and args.steps <= FIRST + STEPS:
        parser.error(f"--profile needs more than {FIRST + STEPS} steps")
    spec = TINY if args.tiny else NANO
    config = TrainConfig(
        batch=args.batch,
        lr=args.lr,
        lr_embed=args.lr_embed,
        cooldown=args.cooldown,
        prompt_weight=args.prompt_weight,
        seed=args.seed,
    )
    data = DataConfig(
        args.data, seed=args.seed, length=spec.context, rows=max(8, args.batch) if args.tiny else 64
    )
    how = RunConfig(
        seconds=args.seconds,
        steps=args.steps,
        finish_at=args.finish_at,
        span=tuple(args.span),
        start=args.weights,
        workers=args.workers,
        eval_rows=args.eval_rows,
        eval_every=args.eval_every,
        resume=args.resume or args.pause is not None,
        pause=args.pause,
        program=args.program,
        profile=args.profile,
    )
    run(spec, config, data, args.out, how)


if __name__ == "__main__":
    main()
