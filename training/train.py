"""Trains a LaneFormer on generated conversations and prose. One command, seeded, resumable, logged as JSON lines.

    python -m training.train --data build/nano --out build/run --seconds 480   # the schedule fits the time
    python -m training.train --data build/nano --out build/run --steps 3000    # the same curve again

The learning rate warms up, stays, and falls to zero over the last part; progress is elapsed time over
--seconds or step over --steps. --resume keeps the whole state in --out and goes on from it. The weights are exported as
FP16 shards at every evaluation.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.spec import ModelSpec
from training.data import ID_MASK, DataConfig, Packer, shards
from training.model import LaneModel, block_masks, dense_masks, reaches
from training.optim import Muon
from training.render import END_OF_TEXT, IGNORED, IM_END, SPECIAL, TRAINED

CALL = SPECIAL.index("<tool_call>")

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
class TrainConfig:
    batch: int = 16
    lr: float = 3e-3
    """Of Muon's matrices; the embedding and the norms take `lr_embed`."""
    lr_embed: float = 3e-3
    decay: float = 0.1
    warmup: float = 0.015
    cooldown: float = 0.7
    """Shares of the whole run."""
    prompt_weight: float = 0.05
    """Loss weight of what the model need not write: prompts, results, prose."""
    seed: int = 1


def schedule(config: TrainConfig, progress: float) -> float:
    """Factor of the learning rate at a progress in 0..1: warm up, stay, fall linearly to zero."""
    if progress < config.warmup:
        return progress / config.warmup
    return min(1.0, max(0.0, (1 - progress) / config.cooldown))


def split_batch(rows: torch.Tensor, prompt_weight: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(ids, targets, weights) of stored rows [B, T+1]."""
    rows = rows.long()
    targets = rows[:, 1:]
    weights = torch.where((targets & TRAINED) > 0, 1.0, prompt_weight) * ((targets & IGNORED) == 0)
    return rows[:, :-1] & ID_MASK, targets & ID_MASK, weights


class Trainer:
    """Model, optimisers and their state."""

    def __init__(self, spec: ModelSpec, config: TrainConfig, device: str, eager: bool = False) -> None:
        self.spec, self.config, self.device = spec, config, device
        self.gpu = device == "cuda"
        self.compiled = self.gpu and not eager
        self.model = LaneModel(
            spec, config.seed, torch.bfloat16 if self.gpu else torch.float32, compiled=self.compiled
        ).to(device)
        matrices = [p for p in self.model.parameters() if p.ndim == 4]
        rest = [p for p in self.model.parameters() if p.ndim < 4]
        self.muon = Muon(matrices, lr=config.lr, decay=config.decay, compiled=self.compiled)
        self.adam = torch.optim.AdamW(
            rest, lr=config.lr_embed, betas=(0.9, 0.95), weight_decay=0.0, fused=self.gpu
        )
        self.step_number = 0
        self.elapsed = 0.0
        self.step_loss = 0.0  # the last one read
        if self.compiled:
            from torch.nn.attention.flex_attention import create_block_mask

            self._reaches = reaches(spec.windows, spec.context, device)
            self._make: Any = torch.compile(create_block_mask, dynamic=False)

    def masks(self, ids: torch.Tensor) -> dict[int, Any]:
        if self.compiled:
            return block_masks(ids, self._reaches, END_OF_TEXT, self._make)
        return dict(dense_masks(ids, self.spec.windows, END_OF_TEXT))

    def step(self, rows: torch.Tensor, factor: float) -> torch.Tensor:
        """One update on stored rows [B, T+1]; the weighted mean loss, still on the device."""
        ids, targets, weights = split_batch(rows, self.config.prompt_weight)
        total, _, _ = self.model.loss(ids, targets, weights, self.masks(ids))
        loss = total / weights.sum()
        loss.backward()
        for group in self.muon.param_groups:
            group["lr"] = self.config.lr * factor
        for group in self.adam.param_groups:
            group["lr"] = self.config.lr_embed * factor
        self.muon.step()
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        self.step_number += 1
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, rows: npt.NDArray[np.uint16]) -> dict[str, float]:
        """Mean loss over trained tokens and over the rest; share of calls all of whose tokens are guessed
        right, which is what greedy decoding would write exactly."""
        sums = np.zeros(4)
        exact: list[bool] = []
        size = self.config.batch
        for start in range(0, len(rows) // size * size, size):
            part = torch.from_numpy(rows[start : start + size].astype(np.int32)).to(self.device)
            ids, targets, weights = split_batch(part, 0.0)
            _, losses, right = self.model.loss(ids, targets, weights, self.masks(ids))
            trained = weights > 0
            prompt = ~trained & ((part[:, 1:] & IGNORED) == 0)
            sums += [
                x.item() for x in (losses[trained].sum(), trained.sum(), losses[prompt].sum(), prompt.sum())
            ]
            exact += exact_calls(part[:, 1:].cpu().numpy(), right.cpu().numpy())
        return {
            "loss": sums[0] / max(sums[1], 1),
            "prompt_loss": sums[2] / max(sums[3], 1),
            "exact": float(np.mean(exact)) if exact else 0.0,
            "calls": len(exact),
        }

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "step": self.step_number,
            "elapsed": self.elapsed,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.step_number, self.elapsed = state["step"], state["elapsed"]


def exact_calls(targets: npt.NDArray[Any], right: npt.NDArray[np.bool_]) -> list[bool]:
    """For each assistant turn with calls: whether every token after its first call tag is guessed right."""
    out = []
    for row, ok in zip(targets, right, strict=True):
        inside, good = False, True
        for t, correct in zip(row.tolist(), ok.tolist(), strict=True):
            if t & TRAINED:
                if inside:
                    good = good and correct
                elif (t & ID_MASK) == CALL:
                    inside, good = True, True
            elif inside:
                out.append(good)
                inside = False
    return out


def batches(source: Iterator[npt.NDArray[np.uint16]], size: int) -> Iterator[npt.NDArray[np.uint16]]:
    for shard in source:
        for start in range(0, len(shard) - size + 1, size):
            yield shard[start : start + size]


def validation(data: DataConfig, rows: int) -> dict[str, npt.NDArray[np.uint16]]:
    """Rows of both splits that training never sees: other seeds, and for `test` other names and templates."""
    return {
        split: Packer(replace(data, seed=data.seed + 7_000_000, split=split, rows=rows, prose=0.0)).shard(0)
        for split in ("train", "test")
    }


def export(trainer: Trainer, folder: Path, dtype: torch.dtype) -> None:
    """Shards of at most 15.5 MB."""
    from kogagent.engine.weights import save_checkpoint

    shutil.rmtree(folder, ignore_errors=True)
    save_checkpoint(folder, trainer.spec, trainer.model.tensors(dtype), max_shard_bytes=15_500_000)


def run(
    spec: ModelSpec,
    config: TrainConfig,
    data: DataConfig,
    out: Path,
    *,
    seconds: float | None,
    steps: int | None,
    workers: int,
    eval_rows: int,
    eval_every: float,
    finish_at: float | None = None,
    resume: bool = False,
    eager: bool = False,
    device: str = "",
    quiet: bool = False,
) -> dict[str, Any]:
    """Train, log to out/log.jsonl, export to out/checkpoint; the last evaluation."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(config.seed)
    torch.set_float32_matmul_precision("high")
    out.mkdir(parents=True, exist_ok=True)
    log = (out / "log.jsonl").open("a")

    def note(**values: Any) -> None:
        line = json.dumps(values)
        log.write(line + "\n")
        log.flush()
        if not quiet:
            print(line, flush=True)

    opened = time.perf_counter()
    source = batches(shards(data, workers, 0, 100_000), config.batch)
    first_batch = next(source)  # starts the workers, which run ahead while the model compiles
    trainer = Trainer(spec, config, device, eager)
    if resume and (out / "state.pt").exists():
        trainer.restore(torch.load(out / "state.pt", map_location=device))
        for _ in range(trainer.step_number):
            first_batch = next(source)
    held = validation(data, eval_rows)
    note(
        event="start",
        parameters=spec.parameters,
        config=asdict(config),
        data={**asdict(data), "folder": str(data.folder)},
        spec=asdict(spec),
        device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
        torch=torch.__version__,
        batch_tokens=config.batch * data.length,
    )
    if device == "cuda":  # compile outside the clock: one step that changes nothing
        warm = torch.from_numpy(first_batch.astype(np.int32)).to(device)
        trainer.step(warm, 0.0)
        trainer.step_number -= 1
        trainer.evaluate(held["train"][: config.batch])
        torch.cuda.synchronize()
        note(
            event="compiled",
            seconds=round(time.perf_counter() - opened, 1),
            memory=torch.cuda.max_memory_allocated(),
        )
    if finish_at is not None:
        seconds = finish_at - time.time()
        note(event="clock", seconds=round(seconds, 1))
    began = time.perf_counter() - trainer.elapsed
    good = copy.deepcopy(trainer.state())
    paused = 0.0
    marked, marked_step, waited = time.perf_counter(), trainer.step_number, 0.0
    next_eval = trainer.elapsed + eval_every
    batch: npt.NDArray[np.uint16] | None = first_batch
    while True:
        trainer.elapsed = time.perf_counter() - began
        progress = trainer.elapsed / seconds if seconds else trainer.step_number / (steps or 1)
        if progress >= 1:
            break
        if batch is None:
            before = time.perf_counter()
            batch = next(source)
            waited += time.perf_counter() - before
        rows = (
            torch.from_numpy(batch.astype(np.int32)).pin_memory().to(device, non_blocking=True)
            if device == "cuda"
            else torch.from_numpy(batch.astype(np.int32))
        )
        loss = trainer.step(rows, schedule(config, progress))
        batch = None
        if trainer.step_number % 20 == 0 or trainer.step_number <= 5:
            value = trainer.step_loss = loss.item()
            now = time.perf_counter()
            done = trainer.step_number - marked_step
            rate = done * config.batch * data.length / (now - marked)
            note(
                step=trainer.step_number,
                seconds=round(now - began, 1),
                loss=round(value, 4),
                lr=round(schedule(config, progress), 4),
                tokens_s=round(rate),
                waited=round(waited, 2),
            )
            marked, marked_step, waited = now, trainer.step_number, 0.0
            if not math.isfinite(value):  # back to the last evaluation, at half the rate
                trainer.restore({**copy.deepcopy(good), "step": trainer.step_number})
                trainer.config = config = replace(config, lr=config.lr / 2, lr_embed=config.lr_embed / 2)
                note(event="diverged", lr=config.lr)
                if config.lr < 1e-5:
                    raise SystemExit("the loss is not finite at any rate")
        if time.perf_counter() - began > next_eval:
            next_eval += eval_every
            before = time.perf_counter()
            note(
                event="eval",
                step=trainer.step_number,
                **{k: trainer.evaluate(v[: max(config.batch, eval_rows // 4)]) for k, v in held.items()},
            )
            paused += time.perf_counter() - before
            if math.isfinite(trainer.step_loss):
                good = copy.deepcopy(trainer.state())
                export(trainer, out / "checkpoint", torch.float16)
            if resume:
                torch.save(trainer.state(), out / "state.pt")
            marked, marked_step = time.perf_counter(), trainer.step_number
    export(trainer, out / "checkpoint", torch.float16)
    final: dict[str, Any] = {k: trainer.evaluate(v) for k, v in held.items()}
    note(
        event="end",
        step=trainer.step_number,
        tokens=trainer.step_number * config.batch * data.length,
        seconds=round(trainer.elapsed, 1),
        eval_seconds=round(paused, 1),
        **final,
    )
    if resume:
        torch.save(trainer.state(), out / "state.pt")
    source.close()  # type: ignore[attr-defined]  # ends the workers
    log.close()
    return final


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--finish-at", type=float, help="epoch second at which the schedule ends")
    parser.add_argument("--eager", action="store_true", help="no compilation, dense masks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=TrainConfig.lr)
    parser.add_argument("--prompt-weight", type=float, default=TrainConfig.prompt_weight)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--eval-rows", type=int, default=64)
    parser.add_argument("--eval-every", type=float, default=60)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="the test shape, on a CPU")
    args = parser.parse_args()
    if [args.seconds, args.steps, args.finish_at].count(None) != 2:
        parser.error("give one of --seconds, --steps and --finish-at")
    spec = TINY if args.tiny else NANO
    config = TrainConfig(batch=args.batch, lr=args.lr, prompt_weight=args.prompt_weight, seed=args.seed)
    data = DataConfig(args.data, seed=args.seed, length=spec.context, rows=64 if args.tiny else 256)
    run(
        spec,
        config,
        data,
        args.out,
        seconds=args.seconds,
        steps=args.steps,
        workers=args.workers,
        eval_rows=args.eval_rows,
        eval_every=args.eval_every,
        finish_at=args.finish_at,
        eager=args.eager,
        resume=args.resume,
    )


if __name__ == "__main__":
    main()
