"""One update, one evaluation, one export of a LaneFormer in training, on one device or several. Knows no
schedule
in time and no files of text.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec
from training import parcel
from training.model import LaneModel, Layout, Program, block_masks, dense_masks, reaches
from training.optim import Muon
from training.render import BRANCH, END_OF_TEXT, ID_MASK, IGNORED, SPECIAL, TRAINED

CALL = SPECIAL.index("<tool_call>")
SHARD_BYTES = 15_500_000  # of a checkpoint's files, at most


class Team:
    """The processes that train together, one a GPU; alone unless torchrun started several."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))

    def join(self) -> None:
        if self.size > 1:
            import torch.distributed as dist

            on_gpu = torch.cuda.is_available()
            if on_gpu:
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl" if on_gpu else "gloo")

    def leave(self) -> None:
        if self.size > 1:
            import torch.distributed as dist

            dist.destroy_process_group()

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """x summed over the team, in place."""
        if self.size > 1:
            import torch.distributed as dist

            dist.all_reduce(x)
        return x

    def agree(self, value: float, device: str) -> float:
        """The first process's value."""
        if self.size == 1:
            return value
        import torch.distributed as dist

        shared = torch.tensor(value, device=device, dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared.item())


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


@dataclass(frozen=True)
class Batch:
    """Stored rows [B, T+1] taken apart: ids, targets and loss weights [B, T], and where branches begin."""

    ids: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    starts: torch.Tensor

    @classmethod
    def of(cls, rows: torch.Tensor, prompt_weight: float) -> Batch:
        rows = rows.long()
        targets = rows[:, 1:]
        weights = torch.where((targets & TRAINED) > 0, 1.0, prompt_weight) * ((targets & IGNORED) == 0)
        starts = (rows[:, :-1] & BRANCH) > 0
        return cls(rows[:, :-1] & ID_MASK, targets & ID_MASK, weights, starts)


class Trainer:
    """Model, optimisers and their state."""

    def __init__(
        self, spec: ModelSpec, config: TrainConfig, device: str, team: Team, program: Program = "fused"
    ) -> None:
        """program: of LaneModel, on a GPU; a CPU takes "eager"."""
        self.spec, self.config, self.device, self.team = spec, config, device, team
        self.gpu = device == "cuda"
        program = program if self.gpu else "eager"
        self.compiled = program != "eager"
        self.model = LaneModel(spec, config.seed, torch.bfloat16 if self.gpu else torch.float32, program).to(
            device
        )
        matrices = [p for p in self.model.parameters() if p.ndim == 4]
        rest = [p for p in self.model.parameters() if p.ndim < 4]
        self.muon = Muon(matrices, lr=config.lr, decay=config.decay)
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

    def warm_up(self) -> None:
        """Compile, by one step on ids that mean nothing, whose trace is wiped. To be called before weights or
        state are taken up from elsewhere."""
        ids = np.random.default_rng(0).integers(
            0, self.spec.vocab_size, (self.config.batch, self.spec.context + 1)
        )
        self.step(torch.from_numpy(ids).int().to(self.device), 0.0).item()
        self.muon.state.clear()
        self.adam.state.clear()
        self.step_number = 0

    def losses(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """LaneModel.loss of a batch."""
        layout = Layout.of(batch.ids, batch.starts, END_OF_TEXT)
        masks: dict[int, Any]
        if self.compiled:
            masks = block_masks(layout, self._reaches, self._make)
        else:
            masks = dict(dense_masks(layout, self.spec.windows))
        return self.model.loss(batch.ids, layout.place, batch.targets, batch.weights, masks)

    def step(self, rows: torch.Tensor, factor: float) -> torch.Tensor:
        """One update on stored rows [B, T+1]; the weighted mean loss, still on the device."""
        batch = Batch.of(rows, self.config.prompt_weight)
        total, _, _ = self.losses(batch)
        counted = self.team.sum(batch.weights.sum())
        loss = total / counted
        torch.autograd.backward(loss)
        for weight in self.model.parameters():
            assert weight.grad is not None
            self.team.sum(weight.grad)
        for group in self.muon.param_groups:
            group["lr"] = self.config.lr * factor
        for group in self.adam.param_groups:
            group["lr"] = self.config.lr_embed * factor
        self.muon.step()
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        self.step_number += 1
        return self.team.sum(loss.detach())

    def evaluate(self, rows: npt.NDArray[np.uint16]) -> dict[str, float]:
        """Mean loss over trained tokens and over the rest; share of calls all of whose tokens are guessed
        right, which is what greedy decoding would write exactly."""
        sums = np.zeros(4)
        exact: list[bool] = []
        size = self.config.batch
        for start in range(0, len(rows) // size * size, size):
            part = torch.from_numpy(rows[start : start + size].astype(np.int32)).to(self.device)
            batch = Batch.of(part, 0.0)
            _, losses, right = self.losses(batch)
            trained = batch.weights > 0
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

    def begin_with(self, folder: Path) -> None:
        """Take the weights of an exported checkpoint or a parcel of the same shape. ConfigError for another
        shape."""
        from kogagent.engine.weights import load_checkpoint

        found = parcel.read(folder) or dict(load_checkpoint(folder).tensors)
        if {n: tuple(t.shape) for n, t in found.items()} != self.spec.tensors():
            raise ConfigError(f"{folder}: its tensors have other names or shapes than {self.spec.name}'s")
        self.model.load(found)

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


def export(trainer: Trainer, folder: Path, dtype: torch.dtype) -> None:
    """The checkpoint the engine loads, in shards of at most 15.5 MB."""
    from kogagent.engine.weights import save_checkpoint

    shutil.rmtree(folder, ignore_errors=True)
    save_checkpoint(folder, trainer.spec, trainer.model.tensors(dtype), max_shard_bytes=SHARD_BYTES)
