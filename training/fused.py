"""Triton kernels that make a reading's streams, and their gradients, in one pass each. Know tiles; no module.

What `streams.Operations`, their definition, does with a product and a second kernel, without writing and
reading the product in between. `maxnreg` leaves room for two or three programs a multiprocessor, of which one
multiplies while another waits for memory.
"""

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from training.streams import Operations

_kernel = functools.partial(triton.jit, do_not_specialize=["count"])

DEEP, WIDE = 64, 128
"""Columns of a product's inner side taken at a time, and of its result."""


@_kernel
def streams_kernel(  # type: ignore[no-untyped-def]
    z, w, before, s, x, squares, count,
    columns: tl.constexpr, dim: tl.constexpr, n_lanes: tl.constexpr, apart: tl.constexpr,
    high: tl.constexpr, wide: tl.constexpr, deep: tl.constexpr,
):  # fmt: skip
    """x = before + s + z_l w_l^T, squares = sums of x^2 over each tile.

    Grid [blocks of tokens * lanes * tiles of D]: what reads the same tokens runs together. z [N, L, columns],
    w [L, D, columns], squares [N, L, tiles]; before [N, L, D], or [N, D] unless `apart`.
    """
    tiles: tl.constexpr = dim // wide
    tile = tl.program_id(0) % tiles
    lane = tl.program_id(0) // tiles % n_lanes
    # one address a tensor and short offsets from it: long ones take the registers that the sums need
    start = (tl.program_id(0) // tiles // n_lanes).to(tl.int64) * high
    row = tl.arange(0, high)
    inside = row[:, None] < count - start
    k = tl.arange(0, deep)
    left = z + (start * n_lanes + lane) * columns + row[:, None] * (n_lanes * columns) + k[None, :]
    right = w + (lane * dim + tile * wide) * columns + tl.arange(0, wide)[None, :] * columns + k[:, None]
    sums = tl.zeros((high, wide), tl.float32)
    for at in range(0, columns, deep):
        a = tl.load(left + at, mask=inside, other=0.0)
        sums = tl.dot(a, tl.load(right + at), sums, input_precision="ieee")
    col = tl.arange(0, wide)[None, :]
    place = row[:, None] * dim + col
    to_place = start * dim + tile * wide
    own = row[:, None] * (n_lanes * dim) + col
    to_own = (start * n_lanes + lane) * dim + tile * wide
    sums += tl.load(s + to_place + place, mask=inside, other=0.0).to(tl.float32)
    if apart:
        sums += tl.load(before + to_own + own, mask=inside, other=0.0).to(tl.float32)
    else:
        sums += tl.load(before + to_place + place, mask=inside, other=0.0).to(tl.float32)
    made = sums.to(x.dtype.element_ty)
    tl.store(x + to_own + own, made, mask=inside)
    rounded = made.to(tl.float32)
    square = tl.sum(rounded * rounded, 1)
    to_square = (start * n_lanes + lane) * tiles + tile
    tl.store(squares + to_square + row * (n_lanes * tiles), square, mask=row < count - start)


@_kernel
def gradients_kernel(  # type: ignore[no-untyped-def]
    draw, w, x, slope, later, dx, ds, count,
    columns: tl.constexpr, dim: tl.constexpr, n_lanes: tl.constexpr,
    high: tl.constexpr, wide: tl.constexpr, deep: tl.constexpr,
):  # fmt: skip
    """dx = draw_l w_l + slope * x + later, ds = the sum of dx over the lanes.

    Grid [blocks of tokens * tiles of D]; a program takes all lanes in turn. draw [N, L, columns],
    w [L, columns, D], slope [N, L].
    """
    tiles: tl.constexpr = dim // wide
    tile = tl.program_id(0) % tiles
    start = (tl.program_id(0) // tiles).to(tl.int64) * high
    row = tl.arange(0, high)
    inside = row[:, None] < count - start
    col = tl.arange(0, wide)[None, :]
    place = row[:, None] * dim + col
    to_place = start * dim + tile * wide
    k = tl.arange(0, deep)
    both = tl.zeros((high, wide), tl.float32)
    for lane in range(n_lanes):
        left = draw + (start * n_lanes + lane) * columns + row[:, None] * (n_lanes * columns) + k[None, :]
        right = w + lane * columns * dim + tile * wide + k[:, None] * dim + col
        sums = tl.zeros((high, wide), tl.float32)
        for at in range(0, columns, deep):
            a = tl.load(left + at, mask=inside, other=0.0)
            sums = tl.dot(a, tl.load(right + at * dim), sums, input_precision="ieee")
        to_own = (start * n_lanes + lane) * dim + tile * wide
        own = row[:, None] * (n_lanes * dim) + col
        steep = tl.load(slope + start * n_lanes + lane + row * n_lanes, mask=row < count - start, other=0.0)
        sums += steep[:, None] * tl.load(x + to_own + own, mask=inside, other=0.0).to(tl.float32)
        sums += tl.load(later + to_own + own, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + to_own + own, sums.to(dx.dtype.element_ty), mask=inside)
        both += sums
    tl.store(ds + to_place + place, both.to(ds.dtype.element_ty), mask=inside)


class FusedOperations(Operations):
    """The same by these kernels, wherever a width is a multiple of their tiles."""

    def streams(
        self, before: Tensor, s: Tensor, z: Tensor | None, w: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor, Tensor]:
        n, dim = s.shape
        if z is None or w is None or z.shape[-1] % DEEP or dim % WIDE:
            return super().streams(before, s, z, w, count, eps)
        columns = z.shape[-1]
        x, squares = s.new_empty(n, count, dim), s.new_empty(n, count, dim // WIDE, dtype=torch.float32)
        # a short product waits for its streams: small tiles, many at a time; a long one for weights from L2
        high, warps, stages, registers = (64, 4, 2, 168) if columns <= 2 * DEEP else (128, 8, 3, 128)
        streams_kernel[(triton.cdiv(n, high) * count * (dim // WIDE),)](
            z, w, before, s, x, squares, n,
            columns=columns, dim=dim, n_lanes=count, apart=before.ndim == 3, high=high, wide=WIDE, deep=DEEP,
            num_warps=warps, num_stages=stages, maxnreg=registers,
        )  # fmt: skip
        return x, torch.rsqrt(squares.sum(-1, keepdim=True) / dim + eps)

    def gradients(
        self, draw: Tensor | None, w: Tensor | None, later: Tensor | None, x: Tensor, factor: Tensor,
        dfactor: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        n, dim = x.shape[0], x.shape[-1]
        if x.ndim == 2 or draw is None or w is None or later is None or w.shape[1] % DEEP or dim % WIDE:
            return super().gradients(draw, w, later, x, factor, dfactor)
        slope = (dfactor * factor.pow(3) * (-1 / dim)).contiguous()
        dx, ds = torch.empty_like(x), x.new_empty(n, dim)
        high, wide = 64, WIDE // 2  # two sums a program
        gradients_kernel[(triton.cdiv(n, high) * (dim // wide),)](
            draw.contiguous(), w, x, slope, later.contiguous(), dx, ds, n,
            columns=w.shape[1], dim=dim, n_lanes=x.shape[1], high=high, wide=wide, deep=DEEP,
            num_warps=4, num_stages=3, maxnreg=128,
        )  # fmt: skip
        return dx, ds
