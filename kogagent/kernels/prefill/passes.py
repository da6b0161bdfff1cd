"""One pass of the model over the rows of a bucket: which kernel and which product follows which.

Knows the lane table (params.STEP), the phases' matrices as pack.py arranges them, and its own buffers,
allocated once; no sequence, no graph. Products are the weights' type with FP32 sums. The one stream of a
plain model is FP32; lanes' streams are factored where the weights are FP16 (device.py, decision 0022).

A pass is a body and, where logits are wanted, an end. The body stops once the last layer's keys and values
are in the cache: what follows is needed of the last row alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from kogagent.errors import MissingExtraError
from kogagent.kernels.layout import Layout, log2_scale
from kogagent.kernels.pack import matrix
from kogagent.kernels.prefill.products import Products
from kogagent.kernels.rank import bias_rows, qk_norm_rows

META = 8
"""int64 words before bits and ids: four that device.py names, the number of legal ids, whether bits hold."""
LEGAL = 4
MAX_SPLITS = 16
GREEDY_BLOCK = 4096
FULL = 1 << 30
"""The window of a layer without one."""
FEW_ROWS = 64
"""Rows up to which a product is bound by its weights, and cuBLAS is not used where the card can be filled."""
LEAST = 128 * 128
"""Results for each multiprocessor from which on it matters how a product is made: those of a tile."""


@dataclass(frozen=True, slots=True)
class _Output:
    """What a module has put out [S, rows, D]. compact: of the tail's rows only."""

    values: torch.Tensor
    compact: bool


class Passes:
    """Buffers and weights of one model for passes of up to `rows` rows.

    kernels: another module of device.py's names, for a machine without a card.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        steps: npt.NDArray[np.void],
        rope: torch.Tensor,
        rows: int,
        kernels: Any = None,
    ) -> None:
        if kernels is None:
            try:
                from kogagent.kernels.prefill import device as kernels
            except ImportError as error:
                raise MissingExtraError("pre-fill", "triton", "cuda") from error
        self._device = kernels
        spec = layout.spec
        self._products = Products()
        self._layout, self._spec, self._steps, self._rope = layout, spec, steps, rope
        self._embed = tensors["embed"]
        self._head = tensors["embed"] if spec.tied_head else tensors["head"]
        self._norm = tensors["norm"].float()
        self._type = self._embed.dtype
        lanes, dim, h, heads = layout.lanes, spec.dim, spec.head_dim, spec.n_kv_heads

        def weights(phase: int) -> torch.Tensor:
            parts = [matrix(layout, tensors, phase, lane).to(self._type) for lane in range(lanes)]
            return torch.stack(parts)

        self._weights = [weights(phase) for phase in range(4 * spec.n_layers)]
        device_of = self._embed.device
        empty = torch.zeros(1, device=device_of)
        self._bias = bias_rows(layout, tensors) if spec.qkv_bias else empty
        self._qk_norm = qk_norm_rows(spec, tensors) if spec.qk_norm else empty

        def buffer(*shape: int, dtype: torch.dtype = self._type) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device_of)

        self._rows, self._rep = rows, spec.n_heads // spec.n_kv_heads
        self.ids_at = META + 2 * -(-spec.vocab_size // 128)  # even, that kernels find them aligned
        self.inputs = buffer(self.ids_at + rows, dtype=torch.int64)  # meta, bits, ids
        self._bits, self._ids = self.inputs[META : self.ids_at].view(torch.int32), self.inputs[self.ids_at :]
        self.logits = buffer(spec.vocab_size, dtype=torch.float32)
        # Where the host reads it without asking for it: the kernel's own stores go there.
        self.best = torch.zeros(
            (-(-spec.vocab_size // GREEDY_BLOCK), 4),
            device="cpu" if device_of.type == "cuda" else device_of,
            pin_memory=device_of.type == "cuda",
        )
        self._factored = lanes > 1 and self._type == torch.float16
        self._normed = buffer(lanes, rows, dim)
        self._rms = buffer(lanes, rows if self._factored else 1, dtype=torch.float32)
        self._streams = self._normed if self._factored else buffer(lanes, rows, dim, dtype=torch.float32)
        self._qkv = buffer(lanes, rows, layout.qkv_rows, dtype=torch.float32)
        self._queries = buffer(heads, rows * self._rep, h)
        self._mixed = buffer(lanes, rows, layout.heads * h)
        self._both = buffer(lanes, rows, 2 * layout.ffn)
        self._hidden = buffer(lanes, rows, layout.ffn)
        kept = 1 + max((k - int(s["late"]) for k, s in enumerate(steps) if s["late"] >= 0), default=0)
        self._outputs = buffer(kept, lanes, rows, dim)
        tiles = self._processors()
        self._tiles = tiles
        cells = max(
            self._splits(count) * count * self._rep * heads for count in (1, *range(16, rows + 1, 16), rows)
        )
        self._partial = buffer(cells * h, dtype=torch.float32)
        self._sums = buffer(cells, dtype=torch.float32)
        self._scale = log2_scale(spec)
        equal = spec.lanes if lanes == 1 and spec.head == "sum" else 1
        self._head_eps = spec.norm_eps / equal**2  # norm(L x) = norm of x, eps / L²

    def _processors(self) -> int:
        if self._embed.device.type == "cpu":
            return 4
        properties: Any = torch.cuda.get_device_properties(self._embed.device)
        return int(properties.multi_processor_count)

    def choose_products(self, rows: int) -> None:
        """Find how the large products of a body of this many rows are made, once, before it runs."""
        outputs = self._outputs[0]
        attention = ((self._normed, self._qkv), (self._mixed, outputs))
        mlp = ((self._normed, self._both), (self._hidden, outputs))
        for phase, (x, out) in enumerate((*attention, *mlp)):
            matrices = self._weights[phase::4]
            if out[:, :rows].numel() >= LEAST * self._tiles and not self._few(matrices[0], rows):
                self._products.choose(x[:, :rows], matrices, out[:, :rows])

    # ── whole passes ──

    def body(self, rows: int) -> None:
        """The first `rows` rows through all layers, up to the last one's keys and values."""
        d, dim = self._device, self._spec.dim
        d.embed_rows[(rows, self._layout.lanes)](
            self._ids,
            self._embed,
            self._streams,
            self._rms,
            self._normed,
            self._rows,
            dim,
            self._layout.lanes,
            self._spec.norm_eps,
            block=_power(dim),
            factored=self._factored,
            num_warps=self._warps(),
        )
        last = self._spec.n_layers - 1
        outputs: dict[int, _Output] = {}
        for layer in range(last):
            self._keys(layer, rows)
            for module in (2 * layer, 2 * layer + 1):
                outputs[module] = self._body_output(module)
                self._module(module, rows, self._normed, outputs[module].values, tail=False)
                self._land(module, rows, outputs, self._normed, tail=False)
        self._keys(last, rows)

    def last_row(self) -> None:
        """The last real row of the body through the rest: `logits`, and `best` by device.py's greedy."""
        lanes, dim = self._layout.lanes, self._spec.dim
        normed = self._streams.new_empty((lanes, 1, dim), dtype=self._type)
        self._end(1, normed, tail=True)
        self._device.greedy[(len(self.best),)](
            self.logits,
            self.best,
            self.inputs[LEGAL:],
            self._bits,
            self._spec.vocab_size,
            block=GREEDY_BLOCK,
            num_warps=4,
        )

    def all_rows(self, rows: int) -> torch.Tensor:
        """The same of all rows: their logits [rows, V]."""
        return self._end(rows, self._normed, tail=False)

    def _end(self, rows: int, normed: torch.Tensor, *, tail: bool) -> torch.Tensor:
        layers = self._spec.n_layers
        outputs = {m: self._body_output(m) for m in range(2 * layers - 2)}
        for module in (2 * layers - 2, 2 * layers - 1):
            to = torch.empty_like(normed)
            self._module(module, rows, normed, to, tail=tail)
            outputs[module] = _Output(to, compact=True)
            self._land(module, rows, outputs, normed, tail=tail)
        return self._vocabulary(normed, rows, tail=tail)

    # ── parts ──

    def _body_output(self, module: int) -> _Output:
        """Where a module of the body puts out."""
        return _Output(self._outputs[module % len(self._outputs)], compact=False)

    def _keys(self, layer: int, rows: int) -> None:
        """q, k and v of all rows; k and v reach the cache."""
        spec, layout, w = self._spec, self._layout, self._weights[4 * layer]
        if self._few(w, rows) and not spec.qk_norm:
            grid, blocks = self._blocks(w, rows)
            self._device.multiply_and_turn[grid](
                self.inputs,
                self._normed,
                w,
                self._bias,
                self._rope,
                self._queries,
                self._scale,
                layer,
                layout.kv_heads,
                spec.n_kv_heads,
                self._rep,
                spec.head_dim,
                self._rows,
                rows,
                *w.shape[1:],
                has_bias=spec.qkv_bias,
                **blocks,
            )
            return
        self._product(self._normed, w, self._qkv, rows)
        self._device.turn_and_append[(rows, spec.n_kv_heads)](
            self.inputs,
            self._qkv,
            self._bias,
            self._qk_norm,
            self._rope,
            self._queries,
            self._scale,
            spec.norm_eps,
            layer,
            layout.kv_heads,
            spec.n_kv_heads,
            self._rep,
            spec.head_dim,
            self._rows,
            vectors=_power(self._rep + 2),
            block=_power(spec.head_dim),
            has_bias=spec.qkv_bias,
            has_norm=spec.qk_norm,
            num_warps=2,
        )

    def _module(self, module: int, rows: int, normed: torch.Tensor, to: torch.Tensor, *, tail: bool) -> None:
        """Attention (its keys are there) or MLP of `rows` rows into `to`."""
        inner, outer = self._weights[2 * module], self._weights[2 * module + 1]
        if module % 2 == 0:
            self._attend(module // 2, rows, tail=tail)
            self._product(self._mixed, outer, to, rows)
            return
        if self._few(inner, rows):
            self._multiply_few(normed, inner, self._hidden, rows, gated=True)
        else:
            self._product(normed, inner, self._both, rows)
            block = min(1024, _power(self._layout.ffn))
            self._device.gate[(rows, -(-self._layout.ffn // block), self._layout.lanes)](
                self._both, self._hidden, self._rows, self._layout.ffn, block=block, num_warps=4
            )
        self._product(self._hidden, outer, to, rows)

    def _attend(self, layer: int, count: int, *, tail: bool) -> None:
        spec, layout = self._spec, self._layout
        h, heads, rep = spec.head_dim, spec.n_kv_heads, self._rep
        splits, block_m = self._splits(count), self._block_m(count)
        low = max(16, 1 << (h.bit_length() - 1))
        shape = (layout.kv_heads, heads, rep, h, self._rows, count)
        self._device.attend[(-(-count * rep // block_m), heads, splits)](
            self.inputs,
            self._queries,
            self._mixed,
            self._partial,
            self._sums,
            layer,
            *shape,
            spec.windows[layer] or FULL,
            splits,
            int(tail),
            low=low,
            high=_power(max(h - low, 16)) if h > low else 0,
            block_m=block_m,
            block_n=64 if h <= 128 else 32,
            whole=splits == 1,
            num_warps=8 if block_m >= 128 or h > 128 else 4,
            num_stages=3 if h <= 128 else 2,
        )
        if splits > 1:
            self._device.merge_splits[(count * rep, heads)](
                self._partial,
                self._sums,
                self._mixed,
                *shape,
                splits,
                most=MAX_SPLITS,
                block=_power(h),
                num_warps=1,
            )

    def _block_m(self, count: int) -> int:
        if count * self._rep <= 16:
            return 16
        return 128 if count * self._rep >= 512 and self._spec.head_dim <= 128 else 64

    def _splits(self, count: int) -> int:
        """Parts of the keys: as many as fill the card once; twice as many cost more in merging."""
        tiles = -(-count * self._rep // self._block_m(count)) * self._spec.n_kv_heads
        return 1 << min(max(self._tiles // tiles, 1).bit_length() - 1, MAX_SPLITS.bit_length() - 1)

    def _land(
        self, module: int, rows: int, outputs: Mapping[int, _Output], normed: torch.Tensor, *, tail: bool
    ) -> None:
        step, lanes, dim = self._steps[module], self._layout.lanes, self._spec.dim
        output = outputs[module]
        late = outputs[int(step["late"])] if step["late"] >= 0 else output
        together = lanes if rows >= self._tiles else 1  # few rows: a program for each lane fills the card
        head = module == 2 * self._spec.n_layers - 1
        self._device.land[(rows, lanes // together)](
            self.inputs,
            self._streams,
            self._rms,
            output.values,
            late.values,
            normed,
            self._norm,
            float(step["own"]),
            float(step["others"]),
            float(step["late_own"]),
            float(step["late_others"]),
            self._head_eps if head else self._spec.norm_eps,
            self._rows,
            output.values.shape[1],
            late.values.shape[1],
            int(late.compact),
            int(tail),
            dim,
            lanes=lanes,
            together=together,
            block=_power(dim),
            sums=bool(step["others"] != 0),
            has_late=bool(step["late"] >= 0),
            late_sums=bool(step["late"] >= 0 and step["late_others"] != 0),
            factored=self._factored,
            weighted=head and self._layout.head_mode == 0,
            num_warps=self._warps(),
        )

    def _vocabulary(self, normed: torch.Tensor, rows: int, *, tail: bool) -> torch.Tensor:
        """Logits [rows, V] FP32 of the normed streams [S, rows.., D]; of the tail they are in `logits`."""
        mode, x = self._layout.head_mode, normed  # 0: they have the norm's weight
        if mode == 1:
            x = self._weighted(normed[:, :rows].float().mean(0, keepdim=True))
        elif mode == 2:  # the sum of the lanes is normed, not each
            row = (self.inputs[3:4] - 1).clamp(min=0)

            def real(t: torch.Tensor) -> torch.Tensor:
                return t.index_select(1, row) if tail else t[:, :rows]

            streams = real(self._streams)
            if self._factored:
                streams = streams * real(self._rms).unsqueeze(-1)
            total = streams.sum(0, keepdim=True)
            x = self._weighted(F.rms_norm(total, (self._spec.dim,), eps=self._spec.norm_eps))
        head = self._head.view(x.shape[0], -1, self._spec.dim)
        shape = (x.shape[0], rows, head.shape[1])
        out = self.logits.view(shape) if tail else self.logits.new_empty(shape)
        self._product(x, head, out, rows)
        return out.transpose(0, 1).reshape(rows, -1)

    def _weighted(self, x: torch.Tensor) -> torch.Tensor:
        """Normed FP32 rows times the head's norm's weight, as the head reads them."""
        return (x * self._norm).to(self._type)

    def _product(self, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, rows: int) -> None:
        if self._few(w, rows):
            self._multiply_few(x, w, out, rows, gated=False)
        else:
            self._products.multiply(x[:, :rows], w, out[:, :rows])

    def _few(self, w: torch.Tensor, rows: int) -> bool:
        """Whether a product is multiply_few's: bound by its weights, with a program for each processor."""
        lanes, size, _ = w.shape
        return rows <= FEW_ROWS and lanes * (size // 32) >= self._tiles

    def _multiply_few(
        self, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, rows: int, *, gated: bool
    ) -> None:
        grid, blocks = self._blocks(w, rows)
        self._device.multiply_few[grid](
            x, w, out, x.shape[1], out.shape[1], rows, *w.shape[1:], gated=gated, **blocks
        )

    def _blocks(self, w: torch.Tensor, rows: int) -> tuple[tuple[int, int], dict[str, int]]:
        """The grid and the blocks of a product of few rows. Programs of 64 rows of weights that leave a third
        of the card idle are faster than twice as many of 32, and want one more stage than a full card."""
        lanes, size, _ = w.shape
        programs = lanes * (size // 64)
        block_n, block_t = 64 if 3 * programs >= 2 * self._tiles else 32, max(16, _power(rows))
        stages = 4 if programs < self._tiles and block_n + block_t <= 96 else 3  # 96 KB: an sm_86 has no more
        blocks = {"block_n": block_n, "block_t": block_t, "block_k": 128}
        return (-(-size // block_n), lanes), {**blocks, "num_warps": 4, "num_stages": stages}

    def _warps(self) -> int:
        return 16 if self._spec.dim >= 2048 else 4  # at 3072 16 take less than 8: 0.035 ms of 512 ids' 5.0


def _power(n: int) -> int:
    """The least power of two that holds n."""
    return 1 << (n - 1).bit_length()
