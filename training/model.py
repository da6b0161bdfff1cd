"""The training forward of a LaneFormer: all lanes as one batch dimension, delays read from the engine's
lane table.

Knows ids, weights, and the lane table; no text. Shapes: X and o [L, B, T, D]; weights stacked over layers
[N, L, out, in]. Equal to ReferenceBackend in FP32 (tests/training); BF16 with block-sparse attention on a
GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kogagent.engine.lanes import lane_table
from kogagent.spec import ModelSpec

ATTENTION = ("attn_norm", "wq", "wk", "wv", "wo")
MLP = ("ffn_norm", "w1", "w3", "w2")
STACKED = ATTENTION + MLP
Coefficients = tuple[tuple[float, float], ...]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def normed_product(x: Tensor, norm: Tensor, w: Tensor, eps: float) -> Tensor:
    """rms_norm(x) w^T in FP32, [L, B*T, out], of x [L, B, T, D], w [L, out, D].

    The norm's weight goes into w and its factor behind the product, so that the normed streams are never
    written: reading and writing streams is what a step's time goes into.
    """
    lanes, _, _, dim = x.shape
    rows = x.view(lanes, -1, dim)
    factor = torch.rsqrt(rows.float().square().mean(-1, keepdim=True) + eps)
    return torch.bmm(rows, (w * norm).to(x.dtype).transpose(1, 2)).float() * factor


def land(x: Tensor, outputs: Sequence[Tensor], coefficients: Coefficients) -> Tensor:
    """X_l += own * o_l + others * sum_{j != l} o_j for each output."""
    total = x.float()
    for o, (own, others) in zip(outputs, coefficients, strict=True):
        wide = o.float()
        if others:
            total = total + (own - others) * wide + others * wide.sum(0, keepdim=True)
        else:
            total = total + own * wide
    return total.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn interleaved pairs of x [B, L, heads, T, h] by cos, sin [B, 1, 1, T, h/2]."""
    pairs = x.float().view(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
    """q, k, v [B, H, T, h]; mask: a flex BlockMask, or a boolean [B, 1, T, T]."""
    if isinstance(mask, Tensor):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    from torch.nn.attention.flex_attention import flex_attention

    out = flex_attention(q, k, v, block_mask=mask)
    assert isinstance(out, Tensor)
    return out


def attention_step(
    x: Tensor, older: Sequence[Tensor], coefficients: Coefficients, keeps_own: bool,
    norm: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor,
    mask: Any, cos: Tensor, sin: Tensor, width: int, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(X after the landings, o). older: outputs that land besides, first in `coefficients`."""
    lanes, batch, length, _ = x.shape
    qkv = normed_product(x, norm, torch.cat((wq, wk, wv), 1), eps)
    qkv = qkv.view(lanes, batch, length, -1, width).permute(1, 0, 3, 2, 4)
    n_q, n_kv = wq.shape[1] // width, wk.shape[1] // width
    q, k, v = torch.split(qkv, [n_q, n_kv, n_kv], 2)  # [B, L, heads, T, h]
    if n_q != n_kv:
        k, v = (t.repeat_interleave(n_q // n_kv, 2) for t in (k, v))
    turned = (rotate(q, cos, sin), rotate(k, cos, sin), v)
    q, k, v = (t.to(x.dtype).reshape(batch, -1, length, width) for t in turned)
    mixed = attend(q, k, v, mask).view(batch, lanes, n_q, length, width).permute(1, 0, 3, 2, 4)
    o = torch.bmm(mixed.reshape(lanes, batch * length, -1), wo.to(x.dtype).transpose(1, 2)).view_as(x)
    return land(x, [*older, o] if keeps_own else older, coefficients), o


def mlp_step(
    x: Tensor, older: Sequence[Tensor], coefficients: Coefficients, keeps_own: bool,
    norm: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    gate, up = normed_product(x, norm, torch.cat((w1, w3), 1), eps).chunk(2, -1)
    o = torch.bmm((F.silu(gate) * up).to(x.dtype), w2.to(x.dtype).transpose(1, 2)).view_as(x)
    return land(x, [*older, o] if keeps_own else older, coefficients), o


def head_logits(x: Tensor, norm: Tensor, head: Tensor, kind: str, eps: float) -> Tensor:
    """Logits [B, T, V] of the streams x [L, B, T, D]."""
    w = head.to(x.dtype)
    if kind == "sum":
        return rms_norm(x.float().sum(0).to(x.dtype), norm, eps) @ w.T
    normed = rms_norm(x, norm, eps)
    if kind == "replicate":
        return normed.float().mean(0).to(x.dtype) @ w.T
    rows = w.view(x.shape[0], -1, x.shape[-1])
    return torch.einsum("lbtd,lvd->btlv", normed, rows).flatten(-2)


def head_loss(
    x: Tensor, norm: Tensor, head: Tensor, kind: str, eps: float, targets: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(weighted sum of losses, losses [B, T], right guesses [B, T])."""
    logits = head_logits(x, norm, head, kind, eps).float()
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return (losses * weights).sum(), losses.detach(), (logits.argmax(-1) == targets)


class LaneModel(nn.Module):
    """Weights of a spec, stacked over layers, and their forward pass.

    compiled: each kind of step is compiled once and shared by the layers.
    """

    def __init__(
        self, spec: ModelSpec, seed: int, dtype: torch.dtype = torch.float32, compiled: bool = False
    ) -> None:
        super().__init__()
        if spec.qkv_bias or spec.qk_norm:
            raise ValueError("the trainer has no QKV bias and no QK norm; leave both off")
        self.spec = spec
        self.dtype = dtype
        self.table = lane_table(spec)
        g = torch.Generator().manual_seed(seed)
        shapes = spec.tensors()
        self.embed = nn.Parameter(torch.randn(shapes["embed"], generator=g) * 0.02)
        if not spec.tied_head:
            self.head = nn.Parameter(torch.randn(shapes["head"], generator=g) * 0.02)
        self.norm = nn.Parameter(torch.ones(shapes["norm"]))
        # what is added to a stream starts small: sqrt of the number of additions a full sum makes
        quiet = 1 / math.sqrt(2 * spec.n_layers * spec.lanes)
        for name in STACKED:
            shape = (spec.n_layers, *shapes[f"layers.0.{name}"])
            if name.endswith("norm"):
                value = torch.ones(shape)
            else:
                value = (
                    torch.randn(shape, generator=g)
                    * shape[-1] ** -0.5
                    * (quiet if name in ("wo", "w2") else 0.7)
                )
            self.register_parameter(name, nn.Parameter(value))
        angles = torch.outer(
            torch.arange(spec.context, dtype=torch.float64),
            torch.tensor(spec.rope_frequencies(), dtype=torch.float64),
        )
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        wrap: Callable[[Any], Any] = (
            (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        )
        self._attention, self._mlp, self._head_loss = wrap(attention_step), wrap(mlp_step), wrap(head_loss)

    def streams(self, ids: Tensor, places: Tensor, masks: dict[int, Any]) -> Tensor:
        """X [L, B, T, D] after the last layer. ids, places [B, T]; masks: the mask of each window width."""
        spec = self.spec
        cos, sin = (t[places][:, None, None] for t in (self.cos, self.sin))
        x = F.embedding(ids, self.embed).to(self.dtype).expand(spec.lanes, -1, -1, -1).contiguous()
        layers = [
            dict(zip(STACKED, ws, strict=True))
            for ws in zip(*(getattr(self, n).unbind(0) for n in STACKED), strict=True)
        ]
        outputs: dict[int, Tensor] = {}
        for step in self.table.steps:
            w = layers[step.layer]
            older = [outputs[p.source] for p in step.landings if p.source != step.module]
            own = any(p.source == step.module for p in step.landings)
            ordered = sorted(step.landings, key=lambda p: p.source == step.module)
            coefficients = tuple((p.own, p.others) for p in ordered)
            if step.kind == "attention":
                mask = masks[spec.windows[step.layer]]
                x, o = self._attention(
                    x,
                    older,
                    coefficients,
                    own,
                    *(w[n] for n in ATTENTION),
                    mask,
                    cos,
                    sin,
                    spec.head_dim,
                    spec.norm_eps,
                )
            else:
                x, o = self._mlp(x, older, coefficients, own, *(w[n] for n in MLP), spec.norm_eps)
            if step.last_use > step.module:
                outputs[step.module] = o
            for module in [m for m in outputs if self.table.steps[m].last_use <= step.module]:
                del outputs[module]
        return x

    def output_weight(self) -> Tensor:
        return self.embed if self.spec.tied_head else self.head

    def forward(self, ids: Tensor, places: Tensor, masks: dict[int, Any]) -> Tensor:
        """Logits [B, T, V]."""
        return head_logits(
            self.streams(ids, places, masks),
            self.norm,
            self.output_weight(),
            self.spec.head,
            self.spec.norm_eps,
        )

    def loss(
        self, ids: Tensor, places: Tensor, targets: Tensor, weights: Tensor, masks: dict[int, Any]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """head_loss of the whole batch."""
        out: tuple[Tensor, Tensor, Tensor] = self._head_loss(
            self.streams(ids, places, masks),
            self.norm,
            self.output_weight(),
            self.spec.head,
            self.spec.norm_eps,
            targets,
            weights,
        )
        return out

    def tensors(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The canonical tensors, for save_checkpoint."""
        out = {"embed": self.embed, "norm": self.norm}
        if not self.spec.tied_head:
            out["head"] = self.head
        for i in range(self.spec.n_layers):
            for name in STACKED:
                out[f"layers.{i}.{name}"] = getattr(self, name)[i]
        return {n: out[n].detach().to("cpu", dtype).contiguous() for n in self.spec.tensors()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take canonical tensors over."""
        with torch.no_grad():
            for name, value in tensors.items():
                if name.startswith("layers."):
                    _, i, part = name.split(".")
                    getattr(self, part)[int(i)].copy_(value)
                else:
                    getattr(self, name).copy_(value)


@dataclass(frozen=True)
class Layout:
    """Who may see whom in rows that hold several documents, each with a start that its branches share.

    A document ends with the id `end`. A branch begins where `starts` says so and sees its document's tokens
    before the first branch, and itself: as if each branch stood alone behind that start. All [B, T].
    """

    place: Tensor
    """Position of a token in what it sees."""
    group: Tensor
    """Number of the branch or shared start that a token belongs to."""
    seen: Tensor
    """Group of the shared start of its document."""

    @classmethod
    def of(cls, ids: Tensor, starts: Tensor, end: int) -> Layout:
        index = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        opens = F.pad(ids[:, :-1] == end, (1, 0), value=True)
        borders = opens | starts
        document = torch.where(opens, index, 0).cummax(1).values
        begin = torch.where(borders, index, 0).cummax(1).values
        # a document's first branch is the one behind a group that begins where the document does
        first = starts & (index > 0) & (begin.roll(1, 1) == document)
        lead = torch.where(first, index, 0).cummax(1).values
        shared = torch.where(lead > document, lead - document, 0)
        group = borders.long().cumsum(1)
        return cls(index - begin + shared, group, group.gather(1, document))


def dense_masks(layout: Layout, windows: Sequence[int]) -> dict[int, Tensor]:
    """Boolean masks [B, 1, T, T]: causal, within the window, within what the layout shows."""
    group, place = layout.group[:, None], layout.place[:, None]
    seen = (group[..., None] == group[..., None, :]) | (layout.seen[:, None, :, None] == group[..., None, :])
    index = torch.arange(layout.group.shape[1], device=layout.group.device)
    seen = seen & (index[:, None] >= index)
    age = place[..., None] - place[..., None, :]
    return {w: seen & (age < w) if w else seen for w in set(windows)}


def reaches(windows: Sequence[int], context: int, device: torch.device | str) -> dict[int, Tensor]:
    """How far back each window sees, as device scalars: one compiled mask serves all widths."""
    return {w: torch.tensor(w or context, device=device) for w in sorted(set(windows))}


def block_masks(layout: Layout, reach_of: dict[int, Tensor], make: Any) -> dict[int, Any]:
    """The same as flex BlockMasks; make: create_block_mask, compiled or not."""
    group, place, shared = layout.group, layout.place, layout.seen
    batch, length = group.shape

    def mask_for(reach: Tensor) -> Any:
        def visible(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            near = (q >= k) & (place[b, q] - place[b, k] < reach)
            return near & ((group[b, k] == group[b, q]) | (group[b, k] == shared[b, q]))

        return make(visible, batch, None, length, length, device=group.device)

    return {w: mask_for(reach) for w, reach in reach_of.items()}
