"""The training forward of a LaneFormer: all lanes at once, delays read from the engine's lane table.

Knows ids and weights; no text. Shapes: N = B T tokens, L lanes; weights stacked over layers
[layers, L, out, in]. The streams between the modules are `training.streams`'. Equal to ReferenceBackend in
FP32 (tests/training); BF16 with block-sparse attention on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kogagent.engine.lanes import lane_table
from kogagent.spec import ModelSpec
from training.streams import Operations, Streams, moves

Program = Literal["eager", "compiled", "fused"]
TILES: Any = {
    "fwd_BLOCK_M": 64, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3,
    "bwd_BLOCK_M1": 32, "bwd_BLOCK_N1": 64, "bwd_BLOCK_M2": 64, "bwd_BLOCK_N2": 32,
    "bwd_num_warps": 4, "bwd_num_stages": 3,
}  # fmt: skip
"""Of the attention kernels. Most blocks of a row of branches are masked in part; what that takes beside
torch's own tiles of 128 does not fit the registers (docs/nano.md)."""
STACKED = ("attn_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w3", "w2")


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn interleaved pairs of x [B, T, heads, h] by cos, sin [B, T, 1, h/2]: without taking pairs apart, so
    that it fuses with what is around it."""
    pairs = x.view(*x.shape[:-1], -1, 2)
    turned: Tensor = pairs * cos[..., None] + pairs.flip(-1) * torch.stack((-sin, sin), -1)
    return turned.flatten(-2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
    """q, k, v [B, H, T, h]; mask: a flex BlockMask, or a boolean [B, 1, T, T]."""
    if isinstance(mask, Tensor):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    from torch.nn.attention.flex_attention import flex_attention

    out = flex_attention(q, k, v, block_mask=mask, kernel_options=TILES)
    assert isinstance(out, Tensor)
    return out


def turned(
    raw: Tensor, factor: Tensor, cos: Tensor, sin: Tensor, n_q: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [B, H, T, h], H heads of each, of the product behind the norm
    [N, L, (n_q + 2 n_kv) h] and the norm's factor [N, L, 1]. cos, sin [B, T, 1, h/2]."""
    batch, length, lanes = *cos.shape[:2], raw.shape[1]
    n_kv = (raw.shape[-1] // width - n_q) // 2
    heads = raw.view(batch, length, lanes, -1, width)
    factor = factor.view(batch, length, lanes, 1, 1)
    q, k, v = (t * factor for t in torch.split(heads, [n_q, n_kv, n_kv], 3))
    if n_q != n_kv:
        k, v = (t.repeat_interleave(n_q // n_kv, 3) for t in (k, v))
    q, k, v = (t.flatten(2, 3) for t in (q, k, v))
    parts = (rotate(q, cos, sin), rotate(k, cos, sin), v)
    q, k, v = (t.to(raw.dtype).contiguous().transpose(1, 2) for t in parts)
    return q, k, v


def mixed(q: Tensor, k: Tensor, v: Tensor, mask: Any, lanes: int) -> Tensor:
    """What attention mixes, [N, L, n_q h]."""
    out = attend(q, k, v, mask)
    return out.transpose(1, 2).reshape(out.shape[0] * out.shape[2], lanes, -1)


def mlp_core(raw: Tensor, factor: Tensor) -> Tensor:
    """The hidden side of an MLP [N, L, f], of gate and up behind the norm [N, L, 2f]."""
    gate, up = (t * factor for t in raw.chunk(2, -1))
    return (F.silu(gate) * up).to(raw.dtype)


def head_logits(x: Tensor, factor: Tensor, norm: Tensor, head: Tensor, kind: str, eps: float) -> Tensor:
    """Logits [N, V] of the streams x [N, L, D], or [N, D] where all lanes are equal, and the factor of their
    norm [N, L, 1]."""
    lanes, wide = factor.shape[1], x.float().view(len(x), -1, x.shape[-1])
    w = head.to(x.dtype)
    if kind == "sum":
        total = wide.sum(1) * (lanes // wide.shape[1])
        return (total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * norm).to(x.dtype) @ w.T
    if kind == "replicate":
        return ((wide * factor).mean(1) * norm).to(x.dtype) @ w.T
    normed = (wide * factor * norm).to(x.dtype)
    return torch.einsum("nld,lvd->nlv", normed, w.view(lanes, -1, x.shape[-1])).flatten(1)


def head_loss(
    x: Tensor, factor: Tensor, norm: Tensor, head: Tensor, kind: str, eps: float, targets: Tensor,
    weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(weighted sum of losses, losses [B, T], right guesses [B, T])."""
    logits = head_logits(x, factor, norm, head, kind, eps).float()
    losses = F.cross_entropy(logits, targets.flatten(), reduction="none").view_as(targets)
    return (losses * weights).sum(), losses.detach(), (logits.argmax(-1).view_as(targets) == targets)


class LaneModel(nn.Module):
    """Weights of a spec, stacked over layers, and their forward pass.

    program: "compiled" compiles each kind of step once, to be shared by the layers; "fused" also makes the
    streams and the gradients of rotation and MLP by Triton kernels, on a GPU.
    """

    def __init__(
        self, spec: ModelSpec, seed: int, dtype: torch.dtype = torch.float32, program: Program = "eager"
    ) -> None:
        super().__init__()
        if spec.qkv_bias or spec.qk_norm:
            raise ValueError("the trainer has no QKV bias and no QK norm; leave both off")
        self.spec = spec
        self.dtype = dtype
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
        self._plan = moves(lane_table(spec))
        compiled = program != "eager"
        wrap: Callable[[Any], Any] = (
            (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        )
        self._turn, self._mix = wrap(turned), wrap(mixed)
        self._mlp, self._head_loss = wrap(mlp_core), wrap(head_loss)
        self._operations = Operations(compiled)
        if program == "fused":
            from training.fused import FusedOperations, fused_mlp, fused_turn

            self._operations = FusedOperations(compiled)
            self._turn, self._mlp = fused_turn(self._turn), fused_mlp(self._mlp)

    def streams(self, ids: Tensor, places: Tensor, masks: dict[int, Any]) -> tuple[Tensor, Tensor]:
        """The streams behind the last layer and the factor of their norm, as head_logits takes them. ids,
        places [B, T]; masks: the mask of each window width."""
        spec = self.spec
        cos, sin = (t[places][:, :, None] for t in (self.cos, self.sin))
        embedded = F.embedding(ids.flatten(), self.embed)
        streams = Streams(embedded, spec.lanes, self._plan, self._operations, self.dtype, spec.norm_eps)
        n_q = spec.n_heads // spec.lanes
        layers = zip(*(getattr(self, n).unbind(0) for n in STACKED), spec.windows, strict=True)
        for attn_norm, wq, wk, wv, wo, ffn_norm, w1, w3, w2, window in layers:
            read = streams.read(torch.cat((wq, wk, wv), 1) * attn_norm)
            heads = self._turn(*read, cos, sin, n_q, spec.head_dim)
            streams.put(self._mix(*heads, masks[window], spec.lanes), wo)
            read = streams.read(torch.cat((w1, w3), 1) * ffn_norm)
            streams.put(self._mlp(*read), w2)
        return streams.last()

    def output_weight(self) -> Tensor:
        return self.embed if self.spec.tied_head else self.head

    def forward(self, ids: Tensor, places: Tensor, masks: dict[int, Any]) -> Tensor:
        """Logits [B, T, V]."""
        logits = head_logits(
            *self.streams(ids, places, masks),
            self.norm,
            self.output_weight(),
            self.spec.head,
            self.spec.norm_eps,
        )
        return logits.view(*ids.shape, -1)

    def loss(
        self, ids: Tensor, places: Tensor, targets: Tensor, weights: Tensor, masks: dict[int, Any]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """head_loss of the whole batch."""
        out: tuple[Tensor, Tensor, Tensor] = self._head_loss(
            *self.streams(ids, places, masks),
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
    before the first branch, and itself: as if each branch stood alone behind that start. All [B, T], int32,
    since a mask compares them for every pair.
    """

    place: Tensor
    """Position of a token in what it sees."""
    group: Tensor
    """Number of the branch or shared start that a token belongs to."""
    seen: Tensor
    """Group of the shared start of its document."""

    @classmethod
    def of(cls, ids: Tensor, starts: Tensor, end: int) -> Layout:
        index = torch.arange(ids.shape[1], device=ids.device, dtype=torch.int32).expand_as(ids)
        opens = F.pad(ids[:, :-1] == end, (1, 0), value=True)
        borders = opens | starts
        document = torch.where(opens, index, 0).cummax(1).values
        begin = torch.where(borders, index, 0).cummax(1).values
        # a document's first branch is the one behind a group that begins where the document does
        first = starts & (index > 0) & (begin.roll(1, 1) == document)
        lead = torch.where(first, index, 0).cummax(1).values
        shared = torch.where(lead > document, lead - document, 0)
        group = borders.cumsum(1, dtype=torch.int32)
        return cls(index - begin + shared, group, group.gather(1, document.long()))


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
    return {w: torch.tensor(w or context, device=device, dtype=torch.int32) for w in sorted(set(windows))}


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
