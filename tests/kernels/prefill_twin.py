"""The pre-fill kernels again in torch, by the same names and arguments: what passes.py calls on a machine
without a card, and what each Triton kernel is held to. Grids and block sizes mean nothing here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch


class _Kernel:
    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *arguments, **options: self._function(grid, *arguments, **options)


def _first(meta: torch.Tensor, tail: bool) -> int:
    return max(int(meta[3]) - 1, 0) if tail else 0


def _rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / _rms(x, eps)


def _cache(meta: torch.Tensor, heads: int, layer: int, h: int, dtype: torch.dtype) -> torch.Tensor:
    """Keys and values of one layer [2, K, capacity, h], at the address that meta holds."""
    capacity = int(meta[1])
    size = 2 * heads * capacity * h
    raw = (ctypes.c_int16 * size).from_address(int(meta[0]) + 2 * layer * size)
    return torch.frombuffer(raw, dtype=torch.int16).view(dtype).view(2, heads, capacity, h)


@_Kernel
def embed_rows(
    grid: tuple[int, ...],
    ids: torch.Tensor,
    table: torch.Tensor,
    streams: torch.Tensor,
    rms: torch.Tensor,
    normed: torch.Tensor,
    rows: int,
    dim: int,
    lanes: int,
    eps: float,
    *,
    factored: bool,
    **_: Any,
) -> None:
    x = table[ids[: grid[0]]].float()
    if factored:
        rms[:, : grid[0]] = _rms(x, eps)[..., 0]
    else:
        streams[:, : grid[0]] = x
    normed[:, : grid[0]] = _norm(x, eps).to(normed.dtype)


@_Kernel
def land(
    grid: tuple[int, ...],
    meta: torch.Tensor,
    streams: torch.Tensor,
    rms: torch.Tensor,
    output: torch.Tensor,
    late: torch.Tensor,
    normed: torch.Tensor,
    weights: torch.Tensor,
    own: float,
    others: float,
    late_own: float,
    late_others: float,
    eps: float,
    rows: int,
    output_rows: int,
    late_rows: int,
    late_compact: int,
    tail: int,
    dim: int,
    *,
    has_late: bool,
    factored: bool,
    weighted: bool,
    **_: Any,
) -> None:
    count, first = grid[0], _first(meta, bool(tail))
    here = slice(first, first + count)

    def landed(o: torch.Tensor, own: float, others: float) -> torch.Tensor:
        return own * o + others * (o.sum(0, keepdim=True) - o)

    x = streams[:, here].float()
    if factored:
        x = x * rms[:, here, None]
    x = x + landed(output[:, :count].float(), own, others)
    if has_late:
        at = slice(count) if late_compact else here
        x = x + landed(late[:, at].float(), late_own, late_others)
    normed[:, :count] = _norm(x, eps).to(normed.dtype)
    if weighted:
        normed[:, :count] = (normed[:, :count].float() * weights).to(normed.dtype)
    if factored:
        rms[:, here] = _rms(x, eps)[..., 0]
    if tail or not factored:  # else they are normed
        streams[:, here] = normed[:, :count] if factored else x


@_Kernel
def turn_and_append(
    grid: tuple[int, ...],
    meta: torch.Tensor,
    qkv: torch.Tensor,
    bias: torch.Tensor,
    weights: torch.Tensor,
    rope: torch.Tensor,
    queries: torch.Tensor,
    scale: float,
    eps: float,
    layer: int,
    lane_heads: int,
    heads: int,
    rep: int,
    h: int,
    rows: int,
    *,
    has_bias: bool,
    has_norm: bool,
    **_: Any,
) -> None:
    count, lanes = grid[0], qkv.shape[0]
    position, real = int(meta[2]), int(meta[3])
    x = qkv[:, :count].view(lanes, count, -1, rep + 2, h)
    if has_bias:
        x = x + bias[layer].view(lanes, 1, -1, rep + 2, h)
    x = x.transpose(1, 2).flatten(0, 1)  # [K, T, rep + 2, h]
    y = x
    if has_norm:
        which = torch.tensor([0] * rep + [1, 1])
        y = _norm(x, eps) * weights[layer][which]
    rows_of = torch.arange(count)
    cos, sin = rope[torch.where(rows_of < real, position + rows_of, 0)].unsqueeze(1).unbind(-1)
    even, odd = y[..., ::2], y[..., 1::2]
    y = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    queries.view(heads, -1, rep, h)[:, :count] = (y[:, :, :rep] * scale).to(queries.dtype)
    if real:
        cache = _cache(meta, heads, layer, h, queries.dtype)
        cache[0, :, position : position + real] = y[:, :real, rep].to(queries.dtype)
        cache[1, :, position : position + real] = x[:, :real, rep + 1].to(queries.dtype)


@_Kernel
def attend(
    grid: tuple[int, ...],
    meta: torch.Tensor,
    queries: torch.Tensor,
    mixed: torch.Tensor,
    partial: torch.Tensor,
    sums: torch.Tensor,
    layer: int,
    lane_heads: int,
    heads: int,
    rep: int,
    h: int,
    rows: int,
    count: int,
    window: int,
    splits: int,
    tail: int,
    **_: Any,
) -> None:
    first, position, real = _first(meta, bool(tail)), int(meta[2]), int(meta[3])
    end = position + real
    lanes = mixed.shape[0]
    q = queries.view(heads, -1, rep, h)[:, first : first + count].float()
    keys, values = (t[:, :end].float() for t in _cache(meta, heads, layer, h, queries.dtype))
    age = position + first + torch.arange(count).unsqueeze(1) - torch.arange(end)
    visible = (age >= 0) & (age < window)
    score = torch.einsum("ktre,kne->ktrn", q, keys).masked_fill(~visible[:, None], float("-inf"))
    top = score.amax(-1, keepdim=True).clamp(min=-1e30)
    weight = torch.exp2(score - top)
    out = torch.einsum("ktrn,kne->ktre", weight / weight.sum(-1, keepdim=True).clamp(min=1e-30), values)
    out = out.view(lanes, -1, count, rep, h).transpose(1, 2).reshape(lanes, count, -1)
    mixed[:, :count] = out.to(mixed.dtype)


@_Kernel
def merge_splits(grid: tuple[int, ...], *_: Any, **__: Any) -> None:
    """`attend` of this twin has no splits."""


@_Kernel
def gate(grid: tuple[int, ...], both: torch.Tensor, hidden: torch.Tensor, *_: Any, **__: Any) -> None:
    both = both[:, : grid[0]].float()
    g, u = both[..., ::2], both[..., 1::2]
    hidden[:, : grid[0]] = (torch.nn.functional.silu(g) * u).to(hidden.dtype)


@_Kernel
def multiply_few(
    grid: tuple[int, ...],
    x: torch.Tensor,
    w: torch.Tensor,
    out: torch.Tensor,
    rows: int,
    output_rows: int,
    count: int,
    size: int,
    columns: int,
    *,
    gated: bool,
    **_: Any,
) -> None:
    y = torch.bmm(x[:, :count].float(), w.float().mT)
    if gated:
        y = torch.nn.functional.silu(y[..., ::2]) * y[..., 1::2]
    out[:, :count] = y.to(out.dtype)


@_Kernel
def multiply_and_turn(
    grid: tuple[int, ...],
    meta: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor,
    rope: torch.Tensor,
    queries: torch.Tensor,
    scale: float,
    layer: int,
    lane_heads: int,
    heads: int,
    rep: int,
    h: int,
    rows: int,
    count: int,
    size: int,
    columns: int,
    *,
    has_bias: bool,
    **_: Any,
) -> None:
    qkv = torch.bmm(x[:, :count].float(), w.float().mT)
    shape = (layer, lane_heads, heads, rep, h, rows)
    given = (meta, qkv, bias, bias, rope, queries, scale, 0.0, *shape)
    turn_and_append[(count, heads)](*given, has_bias=has_bias, has_norm=False)


@_Kernel
def greedy(
    grid: tuple[int, ...],
    logits: torch.Tensor,
    out: torch.Tensor,
    legal: torch.Tensor,
    bits: torch.Tensor,
    vocab: int,
    *,
    block: int,
    **_: Any,
) -> None:
    allowed = torch.arange(len(logits)) < int(legal[0])
    if int(legal[1]):
        allowed &= torch.tensor([bool(int(bits[i // 32]) >> i % 32 & 1) for i in range(len(logits))])
    for part in range(grid[0]):
        x = logits[part * block : (part + 1) * block]
        z = x.where(allowed[part * block : (part + 1) * block], float("-inf"))
        best = int(z.argmax())
        at = best + part * block if float(z[best]) > float("-inf") else part * block
        wrong = not bool((x < float("inf")).all())
        out[part, 0] = float("nan") if wrong else z[best]
        out[part, 1], out[part, 2] = at % 65536, at // 65536
        out[part, 3] = x.logsumexp(0) / torch.log(torch.tensor(2.0))
