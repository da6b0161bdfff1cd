"""The kernel's phases again in torch, on any machine: same tapes, same buffers, same rounding points.

Every exchange buffer counts its arrivals: a word written twice, or read before it is written, is an
AssertionError. What a phase must not read is NaN. Slow, for small models; knows no ring and no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from kogagent.kernels.layout import COLUMNS, KEY_BLOCK, ROWS, TILE_BYTES, Layout, kind_of
from kogagent.kernels.pack import from_tiles


@dataclass(frozen=True)
class KeyStage:
    """Twin of csrc/keys.cuh: the chunks [low, high) of one split in one stage, whose first place is `start`.

    last_rows: positions copied of the last chunk.
    """

    start: int
    low: int
    high: int
    last_rows: int


def key_stages(at: int, window: int, split: int, splits: int, stage_chunks: int) -> list[KeyStage]:
    """Stages that bring a split's cached keys for a pass whose first row is at position `at`."""
    first = max(0, at + 1 - window) if window else 0
    low = -(-(first // KEY_BLOCK - split) // splits)
    high = -(-(-(-at // KEY_BLOCK) - split) // splits)
    base = low - low % 2
    out = []
    for start in range(base, high if high > low else base, stage_chunks):
        end = min(start + stage_chunks, high)
        last = ((end - 1) * splits + split) * KEY_BLOCK
        out.append(KeyStage(start, max(start, low), end, min(KEY_BLOCK, at - last)))
    return out


@dataclass
class Words:
    """One exchange buffer: values, and how often each was written since it was opened."""

    values: torch.Tensor
    writes: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.values.fill_(float("nan"))
        self.writes = torch.zeros(self.values.shape, dtype=torch.int32)

    def write(self, index: tuple[int | slice, ...], value: torch.Tensor) -> None:
        self.values[index] = value
        self.writes[index] += 1

    def read(self) -> torch.Tensor:
        """All values; every word must have arrived once."""
        assert bool((self.writes == 1).all()), f"{int((self.writes != 1).sum())} words did not arrive once"
        return self.values


def _words(*shape: int) -> Words:
    return Words(torch.empty(shape))


class Oracle:
    """One model as the blocks of a layout compute it, one row a pass.

    tapes: what pack() gave, on the CPU; steps: params.STEP records. kv [N, 2, K, capacity, h], of the tapes'
    type, belongs to the caller. bias [N, lanes, R] and qk_norm [N, 2, h] where the model has them.
    """

    def __init__(
        self,
        layout: Layout,
        tapes: torch.Tensor,
        embed: torch.Tensor,
        steps: npt.NDArray[np.void],
        *,
        bias: torch.Tensor | None = None,
        qk_norm: torch.Tensor | None = None,
    ) -> None:
        self.layout, self.spec, self.steps = layout, layout.spec, steps
        self._tapes, self._embed, self._bias, self._qk_norm = tapes, embed, bias, qk_norm
        self._frequencies = torch.tensor(self.spec.rope_frequencies(), dtype=torch.float64)
        self._dim_rows = [(u * ROWS, (u + n) * ROWS) for _, u, n in layout.ranges(1)]

    def row(self, kv: torch.Tensor, token: int, position: int) -> torch.Tensor:
        """Append one id at `position`; its logits [V]."""
        layout, spec = self.layout, self.spec
        lanes, dim = layout.lanes, spec.dim
        x = self._halves(self._embed[token]).expand(lanes, -1).clone()  # [lanes, D] as every block holds it
        streams = [x[0, low:high].clone() for low, high in self._dim_rows]  # each block's rows
        scale = torch.ones(lanes)
        outputs: list[Words] = []
        first_inverse = 1.0
        for module, step in enumerate(self.steps):
            phase = 2 * module
            inverse = torch.rsqrt(x.square().mean(1) + spec.norm_eps * scale.square())
            if module == 0:
                first_inverse = float(inverse[0])
            if module % 2 == 0:
                qkv = _words(lanes, layout.qkv_rows)
                for block, lane, low, y in self._product(phase, x):
                    bias = 0.0 if self._bias is None else self._bias[module // 2, lane, low : low + len(y)]
                    qkv.write((lane, slice(low, low + len(y))), y * inverse[lane] + bias)
                    del block
                x = self._attend(kv, qkv.read(), module // 2, position, int(step["window"]))
            else:
                hidden = _words(lanes, layout.ffn)
                for _, lane, low, y in self._product(phase, x):
                    gate, up = (y * inverse[lane]).view(-1, 2).unbind(1)
                    at = slice(low // 2, (low + len(y)) // 2)
                    hidden.write((lane, at), self._halves(torch.nn.functional.silu(gate) * up))
                x = hidden.read()
            scale = scale * inverse
            o = _words(lanes, dim)
            for _, lane, low, y in self._product(phase + 1, x):
                o.write((lane, slice(low, low + len(y))), y)
            outputs.append(o)
            published = _words(lanes, dim)
            for block, (low, high) in enumerate(self._dim_rows):
                lane = block // layout.group
                landed = self._land(step, outputs, module, lane, low, high)
                streams[block] = streams[block] + landed
                published.write((lane, slice(low, high)), self._halves(streams[block] * scale[lane]))
            x = published.read()
        return self._head(x, streams, scale, first_inverse)

    def _halves(self, x: torch.Tensor) -> torch.Tensor:
        """Rounded to the tapes' 16-bit type, as a tagged word carries it."""
        return x.to(self._tapes.dtype).float()

    def _product(self, phase: int, x: torch.Tensor) -> list[tuple[int, int, int, torch.Tensor]]:
        """(block, lane, first row, sums) of every block with rows in a phase. x [lanes, columns]."""
        layout = self.layout
        kind = kind_of(phase, self.spec)
        shape, starts = layout.shapes[kind], layout.offsets_in_tape(phase) // 2
        padded = torch.nn.functional.pad(x, (0, shape.tiles * COLUMNS - x.shape[1]))
        out = []
        for block, first, units in layout.ranges(phase):
            if not units:
                continue
            size = units * shape.tiles * TILE_BYTES // 2
            tape = self._tapes[block, int(starts[block]) : int(starts[block]) + size]
            weights = from_tiles(tape.view(units, shape.tiles, -1), units * ROWS, shape.tiles * COLUMNS)
            lane = block // layout.group
            row = padded[lane if padded.shape[0] > 1 else 0]
            rows = max(0, min(units * ROWS, layout.rows(kind) - first * ROWS))
            out.append((block, lane, first * ROWS, (weights.float() @ row)[:rows]))
        return out

    def _land(
        self, step: np.void, outputs: list[Words], module: int, lane: int, low: int, high: int
    ) -> torch.Tensor:
        def part(source: int, own: float, others: float) -> torch.Tensor:
            values = outputs[source].read()[:, low:high]
            factors = torch.full((self.layout.lanes, 1), others)
            factors[lane] = own
            return (values * factors).sum(0)

        out = part(module, float(step["own"]), float(step["others"]))
        if step["late"] >= 0:
            assert outputs[int(step["late"])] is not None
            assert self.steps[int(step["late"])]["sends"], "a module lands late that never sent its output"
            out = out + part(int(step["late"]), float(step["late_own"]), float(step["late_others"]))
        return out

    def _attend(
        self, kv: torch.Tensor, qkv: torch.Tensor, layer: int, position: int, window: int
    ) -> torch.Tensor:
        """Splits by blocks of keys, then their merge: [lanes, heads * h], rounded twice."""
        layout, spec = self.layout, self.spec
        h, heads, kv_heads = spec.head_dim, layout.heads, layout.kv_heads
        vectors = qkv.view(layout.lanes, kv_heads, heads // kv_heads + 2, h)
        turned = torch.cat([vectors[:, :, :-2].flatten(1, 2), vectors[:, :, -2]], 1)
        if self._qk_norm is not None:
            turned = turned * torch.rsqrt(turned.square().mean(-1, keepdim=True) + spec.norm_eps)
            weights = self._qk_norm[layer].repeat_interleave(torch.tensor([heads, kv_heads]), 0)
            turned = turned * weights
        angle = position * self._frequencies
        cos, sin = angle.cos().float(), angle.sin().float()
        even, odd = turned[..., ::2], turned[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(2)
        kv[layer, 0, :, position] = turned[:, heads:].flatten(0, 1).to(self._tapes.dtype)
        kv[layer, 1, :, position] = vectors[:, :, -1].flatten(0, 1).to(self._tapes.dtype)
        first = max(0, position + 1 - window) if window else 0
        keys = torch.arange(first, position + 1)
        splits = (keys // KEY_BLOCK) % layout.splits
        fresh = kv[layer, :, :, position : position + 1]
        seen = torch.cat([self._staged(kv[layer], position, window), fresh], 2)
        out = torch.empty(layout.lanes, heads, h)
        for lane in range(layout.lanes):
            for head in range(heads):
                cache = seen[:, lane * kv_heads + head * kv_heads // heads, first:].float()
                score = cache[0] @ turned[lane, head] / h**0.5
                parts, sums = [], []
                for split in range(layout.splits):
                    mine = splits == split
                    if bool(mine.any()):
                        parts.append(self._halves(score[mine].softmax(0) @ cache[1][mine]))
                        sums.append(torch.logsumexp(score[mine], 0))
                out[lane, head] = torch.stack(sums).softmax(0) @ torch.stack(parts)
        return self._halves(out.flatten(1))

    def _staged(self, cache: torch.Tensor, position: int, window: int) -> torch.Tensor:
        """Keys and values [2, K, position, h] that the ring brings, NaN where it brings none."""
        out = torch.full_like(cache[:, :, :position], float("nan"))
        layout = self.layout
        for split in range(layout.splits):
            for stage in key_stages(position, window, split, layout.splits, layout.stage_chunks):
                for place in range(stage.low, stage.high):
                    at = (place * layout.splits + split) * KEY_BLOCK
                    rows = slice(at, at + (stage.last_rows if place == stage.high - 1 else KEY_BLOCK))
                    assert bool(out[:, :, rows].isnan().all()), f"position {at} is brought twice"
                    out[:, :, rows] = cache[:, :, rows]
        return out

    def _head(
        self, x: torch.Tensor, streams: list[torch.Tensor], scale: torch.Tensor, first_inverse: float
    ) -> torch.Tensor:
        layout, spec = self.layout, self.spec
        equal = spec.lanes if layout.lanes == 1 and spec.head == "sum" else 1
        eps = spec.norm_eps / equal**2
        inverse = torch.rsqrt(x.square().mean(1) + eps * scale.square())  # [lanes]
        if layout.head_mode:
            mean = layout.head_mode == 1
            factors = (
                scale * inverse / layout.lanes if mean else torch.full((layout.lanes,), first_inverse / 32)
            )
            joined = _words(layout.lanes, spec.dim)
            for block, (low, high) in enumerate(self._dim_rows):
                lane = block // layout.group
                joined.write((lane, slice(low, high)), streams[block] * factors[lane])
            x = self._halves(joined.read().sum(0, keepdim=True))
            norm = torch.rsqrt(x.square().mean(1) + eps * (first_inverse / 32) ** 2)
            inverse = torch.ones(1) if mean else norm
        logits = _words(spec.vocab_size)
        for _, lane, low, y in self._product(4 * spec.n_layers, x):
            at = low if layout.head_grid else lane * layout.head_rows + low
            logits.write((slice(at, at + len(y)),), y * inverse[lane if len(inverse) > 1 else 0])
        return logits.read()
