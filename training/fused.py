"""Triton kernels that make a reading's streams and gradients, and the gradients of rotation and MLP, in one
pass each. Know tiles; no module.

What `streams.Operations`, their definition, does with a product and a second kernel, without writing and
reading the product in between. `maxnreg` leaves room for two or three programs a multiprocessor, of which one
multiplies while another waits for memory.
"""

import functools
from collections.abc import Callable
from typing import Any

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


@_kernel
def mlp_gradients_kernel(  # type: ignore[no-untyped-def]
    raw, factor, dhidden, draw, dfactor, count, width: tl.constexpr, high: tl.constexpr
):  # fmt: skip
    """Gradients of silu(gate * factor) * up * factor; rows are tokens and lanes.

    raw, draw [rows, 2 width]: gate, up.
    """
    row = tl.program_id(0).to(tl.int64) * high + tl.arange(0, high)
    inside = row < count
    col = tl.arange(0, width)[None, :]
    at, mask = row[:, None] * (2 * width) + col, inside[:, None]
    scale = tl.load(factor + row, mask=inside, other=0.0)
    gate = tl.load(raw + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(raw + at + width, mask=mask, other=0.0).to(tl.float32)
    dh = tl.load(dhidden + row[:, None] * width + col, mask=mask, other=0.0).to(tl.float32)
    g = gate * scale[:, None]
    opened = 1 / (1 + tl.exp(-g))
    dgate = dh * up * scale[:, None] * opened * (1 + g * (1 - opened))
    dup = dh * g * opened
    tl.store(draw + at, (dgate * scale[:, None]).to(draw.dtype.element_ty), mask=mask)
    tl.store(draw + at + width, (dup * scale[:, None]).to(draw.dtype.element_ty), mask=mask)
    tl.store(dfactor + row, tl.sum(dgate * gate + dup * up, 1), mask=inside)


@triton.jit
def _untwisted(grad, at, col, c, s, mask):  # type: ignore[no-untyped-def]
    """The gradient of interleaved pairs before they were turned."""
    own = tl.load(grad + at + col, mask=mask, other=0.0).to(tl.float32)
    other = tl.load(grad + at + (col ^ 1), mask=mask, other=0.0).to(tl.float32)
    return own * c + other * s


@_kernel
def turn_gradients_kernel(  # type: ignore[no-untyped-def]
    dq, dk, dv, raw, factor, cos, sin, draw, dfactor, count, length, by_row, by_head, by_token,
    width: tl.constexpr, n_lanes: tl.constexpr, high: tl.constexpr,
):  # fmt: skip
    """Gradients of `training.model.turned` for one head a lane; rows are tokens and lanes.

    dq, dk, dv [B, L, T, width] of these strides; raw, draw [rows, 3 width]: q, k, v.
    """
    row = tl.program_id(0).to(tl.int64) * high + tl.arange(0, high)
    inside = row < count
    mask = inside[:, None]
    token = row // n_lanes
    at = (token // length * by_row + row % n_lanes * by_head + token % length * by_token)[:, None]
    col = tl.arange(0, width)[None, :]
    angle = token[:, None] * (width // 2) + col // 2
    c = tl.load(cos + angle, mask=mask, other=0.0)
    s = tl.load(sin + angle, mask=mask, other=0.0)
    s = tl.where(col % 2 == 0, s, -s)
    scale = tl.load(factor + row, mask=inside, other=0.0)
    to = row[:, None] * (3 * width) + col
    q = _untwisted(dq, at, col, c, s, mask)
    k = _untwisted(dk, at, col, c, s, mask)
    v = tl.load(dv + at + col, mask=mask, other=0.0).to(tl.float32)
    total = q * tl.load(raw + to, mask=mask, other=0.0).to(tl.float32)
    total += k * tl.load(raw + to + width, mask=mask, other=0.0).to(tl.float32)
    total += v * tl.load(raw + to + 2 * width, mask=mask, other=0.0).to(tl.float32)
    tl.store(draw + to, (q * scale[:, None]).to(draw.dtype.element_ty), mask=mask)
    tl.store(draw + to + width, (k * scale[:, None]).to(draw.dtype.element_ty), mask=mask)
    tl.store(draw + to + 2 * width, (v * scale[:, None]).to(draw.dtype.element_ty), mask=mask)
    tl.store(dfactor + row, tl.sum(total, 1), mask=inside)


ROWS = 32
"""Rows that a program of the element-wise kernels takes."""


def mlp_gradients(raw: Tensor, factor: Tensor, dhidden: Tensor) -> tuple[Tensor, Tensor]:
    """Those of `training.model.mlp_core`'s raw [N, L, 2f] and factor [N, L, 1]."""
    draw, dfactor = torch.empty_like(raw), torch.empty_like(factor)
    count = factor.numel()
    mlp_gradients_kernel[(triton.cdiv(count, ROWS),)](
        raw, factor, dhidden.contiguous(), draw, dfactor, count,
        width=raw.shape[-1] // 2, high=ROWS, num_warps=4,
    )  # fmt: skip
    return draw, dfactor


def turn_gradients(
    raw: Tensor, factor: Tensor, cos: Tensor, sin: Tensor, dq: Tensor, dk: Tensor, dv: Tensor
) -> tuple[Tensor, Tensor]:
    """Those of `training.model.turned`'s raw [N, L, 3h] and factor [N, L, 1]."""
    if not dq.stride() == dk.stride() == dv.stride() or dq.stride(-1) != 1:
        dq, dk, dv = dq.contiguous(), dk.contiguous(), dv.contiguous()
    draw, dfactor = torch.empty_like(raw), torch.empty_like(factor)
    count = factor.numel()
    turn_gradients_kernel[(triton.cdiv(count, ROWS),)](
        dq, dk, dv, raw, factor, cos, sin, draw, dfactor, count, cos.shape[1], *dq.stride()[:3],
        width=dq.shape[-1], n_lanes=raw.shape[1], high=ROWS, num_warps=4,
    )  # fmt: skip
    return draw, dfactor


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, core: Callable[..., Tensor], raw: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(raw, factor)
        return core(raw.detach(), factor.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, *mlp_gradients(*ctx.saved_tensors, *grads)


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, core: Callable[..., tuple[Tensor, ...]], raw: Tensor, factor: Tensor, cos: Tensor,
        sin: Tensor, n_q: int, width: int,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        ctx.save_for_backward(raw, factor, cos, sin)
        return core(raw.detach(), factor.detach(), cos, sin, n_q, width)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, *turn_gradients(*ctx.saved_tensors, *grads), None, None, None, None


def _takes(width: int) -> bool:
    return width & (width - 1) == 0


def fused_mlp(core: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """training.model.mlp_core, compiled or not, with its gradients by a kernel where that takes the width."""

    def mlp(raw: Tensor, factor: Tensor) -> Tensor:
        if not _takes(raw.shape[-1] // 2):
            return core(raw, factor)
        out: Tensor = _Mlp.apply(core, raw, factor)  # type: ignore[no-untyped-call]
        return out

    return mlp


def fused_turn(core: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The same of training.model.turned, where every lane has one head."""

    def turn(
        raw: Tensor, factor: Tensor, cos: Tensor, sin: Tensor, n_q: int, width: int
    ) -> tuple[Tensor, ...]:
        if n_q != 1 or raw.shape[-1] != 3 * width or not _takes(width):
            return core(raw, factor, cos, sin, n_q, width)
        out: tuple[Tensor, ...] = _Turn.apply(core, raw, factor, cos, sin, n_q, width)  # type: ignore[no-untyped-call]
        return out

    return turn


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
