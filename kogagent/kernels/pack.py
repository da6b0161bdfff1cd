"""A model's weights as the monokernel multiplies them, into the tapes that layout.py has planned, and back.

Knows canonical tensors and where they go; no plan of its own, no device. torch is imported where a tensor is
touched: a layout alone needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kogagent.errors import ConfigError
from kogagent.kernels.layout import COLUMNS, PHASES, ROWS, Layout, kind_of

if TYPE_CHECKING:
    import torch


def to_tiles(matrix: torch.Tensor) -> torch.Tensor:
    """[rows, columns] of halves -> [units, tiles, 256], padded with zeros to whole tiles.

    Element order in a tile: row g 0..7, quarter t 0..3, pair 0..1, half 0..1, element 0..1, where the column
    is 16*half + 4*t + 2*pair + element: what thread 4g+t of a warp loads is its A operand.
    """
    import torch

    rows, columns = matrix.shape
    padded = torch.nn.functional.pad(matrix, (0, -columns % COLUMNS, 0, -rows % ROWS))
    units, tiles = padded.shape[0] // ROWS, padded.shape[1] // COLUMNS
    cut = padded.view(units, ROWS, tiles, 2, 4, 2, 2)  # [u, g, tile, half, t, pair, element]
    return cut.permute(0, 2, 1, 4, 5, 3, 6).reshape(units, tiles, ROWS * COLUMNS)


def from_tiles(tiles: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The inverse of `to_tiles`."""
    units, count, _ = tiles.shape
    cut = tiles.view(units, count, ROWS, 4, 2, 2, 2).permute(0, 2, 1, 5, 3, 4, 6)
    return cut.reshape(units * ROWS, count * COLUMNS)[:rows, :columns]


def by_kv_head(layout: Layout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Rows of q, k and v of one lane as the kernel orders them: for each kv head its q, its k, its v."""
    import torch

    parts = [t.reshape(layout.kv_heads, -1, *t.shape[1:]) for t in (q, k, v)]
    return torch.cat(parts, 1).flatten(0, 1)


def matrix(layout: Layout, tensors: Mapping[str, torch.Tensor], phase: int, lane: int) -> torch.Tensor:
    """The matrix of one phase as the kernel multiplies it [rows, columns], FP32, norms folded.

    Gate and up rows alternate. With one stream the lanes' matrices are joined: their sum is what lands.
    """
    import torch

    spec = layout.spec
    kind = kind_of(phase, spec)
    if kind == 4:
        head = tensors["embed"] if spec.tied_head else tensors["head"]
        if not layout.head_grid:
            head = head[lane * layout.head_rows : (lane + 1) * layout.head_rows]
        return head.float() * tensors["norm"].float()
    prefix = f"layers.{phase // 4}."
    own = slice(None) if layout.lanes == 1 else slice(lane, lane + 1)

    def rows(name: str) -> torch.Tensor:  # [lanes, rows, D] -> [rows of these lanes, D]
        return tensors[prefix + name][own].flatten(0, 1).float()

    def columns(name: str) -> torch.Tensor:  # [lanes, D, columns] -> [D, columns of these lanes]
        return tensors[prefix + name][own].transpose(0, 1).flatten(1).float()

    if kind == 0:
        return by_kv_head(layout, rows("wq"), rows("wk"), rows("wv")) * tensors[prefix + "attn_norm"].float()
    if kind == 1:
        return columns("wo")
    if kind == 2:
        both = torch.stack([rows("w1"), rows("w3")], 1).flatten(0, 1)
        return both * tensors[prefix + "ffn_norm"].float()
    return columns("w2")


def half_type(tensors: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The 16-bit type a model runs in: BF16 where its tensors are, else FP16."""
    import torch

    return torch.bfloat16 if tensors["embed"].dtype is torch.bfloat16 else torch.float16


def pack(layout: Layout, tensors: Mapping[str, torch.Tensor], rank: int = 0) -> torch.Tensor:
    """The tapes of one device's blocks [device_blocks, tape_bytes / 2] of `half_type`, where the tensors are.

    Bytes past a block's last phase are zero and never read. Raises ConfigError naming the phase when a folded
    weight leaves that type's range.
    """
    import torch

    spec = layout.spec
    mine = range(rank * layout.device_blocks, (rank + 1) * layout.device_blocks)
    lanes = range(rank * layout.device_lanes, (rank + 1) * layout.device_lanes)
    tapes = torch.zeros(
        (len(mine), layout.tape_bytes // 2), dtype=half_type(tensors), device=tensors["embed"].device
    )
    for phase in range(4 * spec.n_layers + 1):
        starts = layout.offsets_in_tape(phase) // 2
        grid = phase == 4 * spec.n_layers and layout.head_grid
        for lane in (0,) if grid else lanes:
            half = matrix(layout, tensors, phase, lane).to(tapes.dtype)
            if not bool(torch.isfinite(half).all()):
                name = "BF16" if half.dtype is torch.bfloat16 else "FP16"
                where = "head" if phase == 4 * spec.n_layers else f"layer {phase // 4}"
                raise ConfigError(
                    f"{where}: {PHASES[kind_of(phase, spec)]} weights leave {name}'s range once the norm is "
                    "folded in. Load the model on device='cpu' with dtype='float32'."
                )
            tiles = to_tiles(half)
            for block, first, count in layout.ranges(phase):
                if count and block in mine and (grid or block // layout.group == lane):
                    part = tiles[first : first + count].reshape(-1)
                    at = int(starts[block])
                    tapes[block - mine.start, at : at + part.numel()] = part
    return tapes


def unpack(layout: Layout, tapes: torch.Tensor, phase: int, lane: int) -> torch.Tensor:
    """One phase's matrix [rows, columns] back from the tapes: what `matrix` gave, rounded."""
    import torch

    shape = layout.shapes[kind_of(phase, layout.spec)]
    starts = layout.offsets_in_tape(phase) // 2
    grid = phase == 4 * layout.spec.n_layers and layout.head_grid
    parts = [
        tapes[block, int(starts[block]) : int(starts[block]) + count * shape.tiles * 256]
        for block, _, count in layout.ranges(phase)
        if grid or block // layout.group == lane
    ]
    kind = kind_of(phase, layout.spec)
    columns = (
        layout.spec.dim,
        layout.heads * layout.spec.head_dim,
        layout.spec.dim,
        layout.ffn,
        layout.spec.dim,
    )[kind]
    tiles = torch.cat(parts).view(-1, shape.tiles, ROWS * COLUMNS)
    return from_tiles(tiles, layout.rows(kind), columns)
