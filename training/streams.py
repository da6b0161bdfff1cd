"""The lanes' streams without the streams: what a module reads, rebuilt from narrow outputs. Knows the lane
table; no model, no ids.

A landing adds own * o_l + others * sum_{j != l} o_j to stream l, which is others * S + (own - others) * o_l
with S the sum over all lanes. So at any time

    X_l = C + sum_m p_m o_l[m],      o_l[m] = z_l[m] W_l[m]^T

with one common stream C, and few modules whose p is not zero ("private"): those of the last δ layers, or
none at all. Only z, 64 or 128 numbers wide in a lane where o has 512, is ever kept. `readings` turns a lane
table into what each module does to its streams, and `Read` does it, forward and backward.

Shapes: N tokens, L lanes, D wide. C and S [N, D], z [N, L, c], W [L, D, c], X [N, L, D]: tokens
first, so that C is read once for all lanes and S is one dense product.
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
class Reading:
    """How the streams come about that a module reads.

    sums: landed in C since the reading before. parts: outputs added lane by lane to C, or with `moves` to
    the streams of the reading before; none: all lanes read C. kept: these streams themselves are wanted, to
    be moved by the next reading or for the head.
    """

    sums: Scaled
    parts: Scaled
    moves: bool
    kept: bool


def readings(table: LaneTable, columns: Sequence[int]) -> tuple[Reading, ...]:
    """The reading of each module, and last the head's. columns: width of a lane's z, by kind (0, 1).

    An attention's streams are rebuilt from C while that multiplies at most three times the columns that
    moving them would; an MLP's are its attention's, moved. Rebuilding keeps BF16's rounding from adding up
    over the layers, moving bounds the work where outputs stay private for ever.
    """
    factors: dict[int, float] = {}
    plain: list[tuple[Scaled, Scaled, bool]] = []
    apart = False  # the reading before saw streams that differ
    for module in range(len(table.steps) + 1):
        sums: dict[int, float] = {}
        changes: dict[int, float] = {}
        for landing in table.steps[module - 1].landings if module else ():
            others = landing.own if table.lanes == 1 else landing.others
            if others:
                sums[landing.source] = others
            if landing.own != others:
                changes[landing.source] = landing.own - others
        for source, change in changes.items():
            factors[source] = factors.get(source, 0.0) + change
        private = {m: p for m, p in factors.items() if p}
        width, moved = (sum(columns[m % 2] for m in ms) for ms in (private, changes))
        moves = apart and bool(private) and (module % 2 == 1 or width > 3 * moved)
        parts = changes if moves else private
        plain.append((tuple(sorted(sums.items())), tuple(sorted(parts.items())), moves))
        apart = bool(private)
    kept = [*(moves for _, _, moves in plain[1:]), True]
    return tuple(Reading(*row, keeps) for row, keeps in zip(plain, kept, strict=True))


def lane_product(x: Tensor, w: Tensor) -> Tensor:
    """x_l w_l^T of every lane, [N, L, out], of x [N, L, in], w [L, out, in]."""
    out = x.new_empty(x.shape[0], *w.shape[:2])
    torch.bmm(x.transpose(0, 1), w.transpose(1, 2), out=out.transpose(0, 1))
    return out


def lane_gram(x: Tensor, y: Tensor) -> Tensor:
    """x_l^T y_l of every lane, [L, in x, in y]: the gradient of a weight."""
    return torch.bmm(x.permute(1, 2, 0), y.transpose(0, 1))


def combine(
    common: Tensor, s: Tensor, lanes: Tensor | None, added: Tensor | None, count: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(C + S, X, the norm's factor [N, L, 1]). X is C + S itself where all lanes are equal.

    lanes: the streams that S and `added` move; without them `added` is what the streams have beyond C.
    """
    wide = common.float() + s
    total = wide.to(s.dtype)
    if added is None:
        factor = norm_factor(total, eps)[:, None].expand(-1, count, -1).contiguous()
        return total, total, factor
    wide = wide[:, None] + added if lanes is None else lanes.float() + s[:, None] + added
    x = wide.to(s.dtype)
    return total, x, norm_factor(x, eps)


def norm_factor(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)


def combine_backward(
    dx: Tensor, later: Tensor | None, x: Tensor, factor: Tensor, dfactor: Tensor, dtotal: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of X and of S, which is C's too.

    dx: what comes through the product; later: through the reading that moves these streams.
    """
    slope = dfactor * factor.pow(3) * (-1 / x.shape[-1])
    if x.ndim == 2:
        lanes = [dx.float() + slope.sum(1) * x]
    else:  # lane by lane, so that one kernel makes the lanes' gradients and their sum
        lanes = [dx[:, lane].float() + slope[:, lane] * x[:, lane] for lane in range(x.shape[1])]
        if later is not None:
            lanes = [wide + later[:, lane] for lane, wide in enumerate(lanes)]
        dx = torch.stack([wide.to(x.dtype) for wide in lanes], 1)
    both = sum(lanes[1:], lanes[0])
    return dx, (both if dtotal is None else both + dtotal).to(x.dtype)


@dataclass(frozen=True)
class Operations:
    """The two steps of a reading that no product does, as they are or compiled."""

    combine: Callable[..., tuple[Tensor, Tensor, Tensor]] = combine
    combine_backward: Callable[..., tuple[Tensor, Tensor]] = combine_backward

    @classmethod
    def compiled(cls) -> Operations:
        return cls(torch.compile(combine, dynamic=False), torch.compile(combine_backward, dynamic=False))


class Read(torch.autograd.Function):
    """One reading and the product behind its norm.

    Takes C [N, D], S, the streams of the reading before or None, the module's w [L, out, D] or for the head
    None, the joined weights [L, D, K] of the parts or None, and the parts' z [N, L, c]. Gives C + S; X w^T
    [N, L, out], or None; the norm's factor [N, L, 1] that belongs behind it; and X, where it is kept.
    """

    @staticmethod
    def forward(
        ctx: Any, ops: Operations, how: Reading, eps: float, common: Tensor, s: Tensor, lanes: Tensor | None,
        count: int, w: Tensor | None, joined: Tensor | None, *parts: Tensor,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:  # fmt: skip
        # one compiled graph serves those with and without a gradient
        common, s, lanes = common.detach(), s.detach(), lanes if lanes is None else lanes.detach()
        z = torch.cat(parts, -1) if parts else None
        added = None if z is None or joined is None else lane_product(z, joined)
        total, x, factor = ops.combine(common, s, lanes, added, count, eps)
        raw = None
        if w is not None:
            equal = x.ndim == 2
            raw = (x @ w.flatten(0, 1).T).view(-1, *w.shape[:2]) if equal else lane_product(x, w)
        ctx.save_for_backward(x, factor, w, z, joined)
        ctx.ops, ctx.how, ctx.widths = ops, how, [part.shape[-1] for part in parts]
        ctx.set_materialize_grads(False)
        return total, raw, factor, x.view_as(x) if how.kept else None

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        dtotal, draw, dfactor, later = grads
        x, factor, w, z, joined = ctx.saved_tensors
        equal, dw = x.ndim == 2, None
        dfactor = torch.zeros_like(factor) if dfactor is None else dfactor  # a head that sums before its norm
        if w is None:
            dx, later = later, None
        elif equal:
            flat = draw.flatten(1)
            dx, dw = flat @ w.flatten(0, 1), (flat.T @ x).view_as(w)
        else:
            dx, dw = lane_product(draw, w.transpose(1, 2)), lane_gram(draw, x)
        dx, ds = ctx.ops.combine_backward(dx, later, x, factor, dfactor, dtotal)
        dcommon, dlanes, djoined = ds, None, None
        dparts: Sequence[Tensor] = ()
        if not equal:
            djoined = lane_gram(dx, z)
            dparts = torch.split(lane_product(dx, joined.transpose(1, 2)), ctx.widths, -1)
        if ctx.how.moves:
            dcommon, dlanes = dtotal, dx
        return None, None, None, dcommon, ds, dlanes, None, dw, djoined, *dparts


def scaled(w: Tensor, factor: float) -> Tensor:
    """w * factor, and no kernel for 1."""
    return w if factor == 1 else w * factor


class Streams:
    """The lanes' streams through one pass: C, and the outputs that are not in it yet."""

    def __init__(
        self, embedded: Tensor, lanes: int, plan: Sequence[Reading], ops: Operations, dtype: torch.dtype,
        eps: float,
    ) -> None:  # fmt: skip
        """embedded [N, D]."""
        self._common, self._lanes, self._plan = embedded.to(dtype), lanes, plan
        self._ops, self._dtype, self._eps = ops, dtype, eps
        self._outputs: list[tuple[Tensor, Tensor]] = []
        self._kept: Tensor | None = None

    def read(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(X w^T [N, L, out], the factor of X's norm [N, L, 1]) of the next module's w [L, out, D]."""
        raw, factor, _ = self._next(w.to(self._dtype))
        assert raw is not None
        return raw, factor

    def last(self) -> tuple[Tensor, Tensor]:
        """X behind the last module, [N, L, D] or where all lanes are equal [N, D], and its norm's factor."""
        _, factor, x = self._next(None)
        assert x is not None
        return x, factor

    def put(self, z: Tensor, w: Tensor) -> None:
        """The output z_l w_l^T of the module that has read last. z [N, L, c], w [L, D, c]."""
        self._outputs.append((z, w))

    def _next(self, w: Tensor | None) -> tuple[Tensor | None, Tensor, Tensor | None]:
        how = self._plan[len(self._outputs)]
        zs, joined = [self._outputs[m][0] for m, _ in how.parts], None
        if zs:
            joined = torch.cat([scaled(self._outputs[m][1], p) for m, p in how.parts], -1).to(self._dtype)
        kept = self._kept if how.moves else None
        self._common, raw, factor, self._kept = Read.apply(  # type: ignore[no-untyped-call]
            self._ops, how, self._eps, self._common, self._sum(how.sums), kept, self._lanes, w, joined, *zs
        )
        return raw, factor, self._kept

    def _sum(self, sums: Scaled) -> Tensor:
        """What lands in C: the sum over lanes of each output, scaled. [N, D]."""
        total: Tensor | None = None
        for module, factor in sums:
            z, w = self._outputs[module]
            weight = scaled(w, factor).to(self._dtype).transpose(1, 2).flatten(0, 1)
            product = z.flatten(1) @ weight
            total = product if total is None else total + product
        return torch.zeros_like(self._common) if total is None else total
