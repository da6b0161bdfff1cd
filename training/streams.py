"""The lanes' streams, moved by narrow outputs that are never made wide. Knows the lane table; no model.

A landing adds own * o_l + others * sum_{j != l} o_j to stream l, which is others * S + (own - others) * o_l
with S the sum over all lanes. An output o_l = z_l w_l^T has D columns, its z 64 or 128; so between two
readings, the modules' and last the head's,

    X_l += sum of S = sum_l z_l w_l^T, one dense product,    + sum of (own - others) z_l w_l^T, one a lane

and no o is written. As long as nothing private has landed, all lanes are equal and are one stream: in the
early layers of mode "present", and in every layer of plain tensor parallelism. `moves` turns a lane table
into what lands between readings, and `Read` does it, forward and backward.

Shapes: N tokens, L lanes, D wide. S [N, D], z [N, L, c], w [L, D, c]; X [N, L, D], or [N, D] where all lanes
are equal. Tokens come first, so that S is one product and is read once for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kogagent.engine.lanes import LaneTable

Scaled = tuple[tuple[int, float], ...]
"""(module, factor) pairs."""


@dataclass(frozen=True)
class Move:
    """What lands between two readings: sums over all lanes, and each lane's own output."""

    sums: Scaled
    private: Scaled


def moves(table: LaneTable) -> tuple[Move, ...]:
    """What lands ahead of each module's reading, and last ahead of the head's."""
    found = [Move((), ())]
    for step in table.steps:
        landed = [(p.source, p.own, p.own if table.lanes == 1 else p.others) for p in step.landings]
        sums = tuple((source, others) for source, _, others in landed if others)
        private = tuple((source, own - others) for source, own, others in landed if own != others)
        found.append(Move(sums, private))
    return tuple(found)


def lane_product(x: Tensor, w: Tensor) -> Tensor:
    """x_l w_l^T of every lane, [N, L, out], of x [N, L, in], w [L, out, in]."""
    out = x.new_empty(x.shape[0], *w.shape[:2])
    torch.bmm(x.transpose(0, 1), w.transpose(1, 2), out=out.transpose(0, 1))
    return out


def lane_gram(x: Tensor, y: Tensor) -> Tensor:
    """x_l^T y_l of every lane, [L, in x, in y]: the gradient of a weight."""
    return torch.bmm(x.permute(1, 2, 0), y.transpose(0, 1))


def land(before: Tensor, s: Tensor, added: Tensor | None, count: int, eps: float) -> tuple[Tensor, Tensor]:
    """(X = before + s + added, the factor of its norm [N, L, 1]); added [N, L, D] or None."""
    wide = before.float()
    if added is not None or before.ndim == 3:
        wide = (wide if before.ndim == 3 else wide[:, None]) + s[:, None]
        wide = wide if added is None else wide + added
    else:
        wide = wide + s
    x = wide.to(s.dtype)
    factor = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return x, factor if x.ndim == 3 else factor[:, None].expand(-1, count, -1).contiguous()


def land_backward(
    through: Tensor, later: Tensor | None, x: Tensor, factor: Tensor, dfactor: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of X and, its sum over the lanes, of S.

    through: what comes through the reading's product; later: through the streams of the next reading.
    """
    slope = dfactor * factor.pow(3) * (-1 / x.shape[-1])
    if x.ndim == 2:
        wide = through.float() + slope.sum(1) * x
        dx = (wide if later is None else wide + later).to(x.dtype)
        return dx, dx
    # lane by lane, so that one kernel makes the lanes' gradients and their sum
    lanes = [through[:, lane].float() + slope[:, lane] * x[:, lane] for lane in range(x.shape[1])]
    if later is not None:
        lanes = [wide + later[:, lane] for lane, wide in enumerate(lanes)]
    return torch.stack([wide.to(x.dtype) for wide in lanes], 1), sum(lanes[1:], lanes[0]).to(x.dtype)


class Operations:
    """The two steps of a reading that are more than a product. Compiled: what is no product is one kernel."""

    def __init__(self, compiled: bool = False) -> None:
        self._land: Callable[..., tuple[Tensor, Tensor]] = land
        self._land_backward: Callable[..., tuple[Tensor, Tensor]] = land_backward
        if compiled:
            self._land = torch.compile(land, dynamic=False)
            self._land_backward = torch.compile(land_backward, dynamic=False)

    def streams(
        self, before: Tensor, s: Tensor, z: Tensor | None, w: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor, Tensor]:
        """`land` of z_l w_l^T; z [N, L, K], w [L, D, K]."""
        return self._land(before, s, None if z is None or w is None else lane_product(z, w), count, eps)

    def gradients(
        self, draw: Tensor | None, w: Tensor | None, later: Tensor | None, x: Tensor, factor: Tensor,
        dfactor: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """`land_backward` of draw, the gradient of X w^T [N, L, out]; without a product `later` is all."""
        if draw is None or w is None:
            through, later = later, None
        elif x.ndim == 2:
            through = draw.flatten(1) @ w.flatten(0, 1)
        else:
            through = lane_product(draw, w.transpose(1, 2))
        return self._land_backward(through, later, x, factor, dfactor)


class Read(torch.autograd.Function):
    """One reading and the product behind its norm.

    Takes the streams of the reading before, S, the module's w [L, out, D] or for the head None, and what is
    private: the joined weights [L, D, K] or None, and each z [N, L, c]. Gives the streams X; X w^T
    [N, L, out], or None; and the factor of X's norm [N, L, 1], which belongs behind the product.
    """

    @staticmethod
    def forward(
        ctx: Any, ops: Operations, count: int, eps: float, before: Tensor, s: Tensor, w: Tensor | None,
        joined: Tensor | None, *parts: Tensor,
    ) -> tuple[Tensor, Tensor | None, Tensor]:  # fmt: skip
        z = torch.cat(parts, -1) if parts else None
        # detached: one compiled graph serves those with and without a gradient
        x, factor = ops.streams(before.detach(), s.detach(), z, joined, count, eps)
        raw = None
        if w is not None:
            raw = lane_product(x, w) if x.ndim == 3 else (x @ w.flatten(0, 1).T).view(-1, *w.shape[:2])
        ctx.save_for_backward(x, factor, w, z, joined)
        ctx.ops, ctx.spread, ctx.widths = ops, x.ndim > before.ndim, [part.shape[-1] for part in parts]
        ctx.set_materialize_grads(False)
        return x, raw, factor

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        later, draw, dfactor = grads
        x, factor, w, z, joined = ctx.saved_tensors
        if dfactor is None:  # a head that sums before its norm
            dfactor = torch.zeros_like(factor)
        dx, ds = ctx.ops.gradients(draw, w, later, x, factor, dfactor)
        dw = djoined = None
        if w is not None:
            dw = lane_gram(draw, x) if x.ndim == 3 else (draw.flatten(1).T @ x).view_as(w)
        dparts: Sequence[Tensor] = ()
        if z is not None:
            djoined = lane_gram(dx, z)
            dparts = torch.split(lane_product(dx, joined.transpose(1, 2)), ctx.widths, -1)
        return None, None, None, ds if ctx.spread else dx, ds, dw, djoined, *dparts


def scaled(w: Tensor, factor: float) -> Tensor:
    """w * factor, and no kernel for 1."""
    return w if factor == 1 else w * factor


class Streams:
    """The lanes' streams through one pass, and the outputs that land on them."""

    def __init__(
        self, embedded: Tensor, lanes: int, plan: Sequence[Move], ops: Operations, dtype: torch.dtype,
        eps: float,
    ) -> None:  # fmt: skip
        """embedded [N, D]."""
        self._x, self._lanes, self._plan = embedded.to(dtype), lanes, plan
        self._ops, self._dtype, self._eps = ops, dtype, eps
        self._outputs: list[tuple[Tensor, Tensor]] = []

    def read(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(X w^T [N, L, out], the factor of X's norm [N, L, 1]) of the next module's w [L, out, D]."""
        raw, factor = self._next(w.to(self._dtype))
        assert raw is not None
        return raw, factor

    def last(self) -> tuple[Tensor, Tensor]:
        """X behind the last module, [N, L, D] or where all lanes are equal [N, D], and its norm's factor."""
        _, factor = self._next(None)
        return self._x, factor

    def put(self, z: Tensor, w: Tensor) -> None:
        """The output z_l w_l^T of the module that has read last. z [N, L, c], w [L, D, c]."""
        self._outputs.append((z, w))

    def _next(self, w: Tensor | None) -> tuple[Tensor | None, Tensor]:
        move = self._plan[len(self._outputs)]
        private = [(*self._outputs[m], factor) for m, factor in move.private]
        joined = torch.cat([scaled(w, f) for _, w, f in private], -1).to(self._dtype) if private else None
        self._x, raw, factor = Read.apply(  # type: ignore[no-untyped-call]
            self._ops, self._lanes, self._eps, self._x, self._sum(move.sums), w, joined,
            *(z for z, _, _ in private),
        )  # fmt: skip
        return raw, factor

    def _sum(self, sums: Scaled) -> Tensor:
        """The sum over lanes of each output, scaled. [N, D]."""
        total: Tensor | None = None
        for module, factor in sums:
            z, w = self._outputs[module]
            weight = scaled(w, factor).to(self._dtype).transpose(1, 2).flatten(0, 1)
            product = z.flatten(1) @ weight
            total = product if total is None else total + product
        if total is None:
            return self._x.new_zeros(self._x.shape[0], self._x.shape[-1])
        return total
