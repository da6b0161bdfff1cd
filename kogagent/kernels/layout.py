"""Where every weight of a model will lie for the monokernel: one tape a block, in the order of use.

Knows shapes, bytes and shared memory; no weights (pack.py has those), no device. A tape is a run of tiles of
512 bytes: 8 rows x 32 columns of FP16 or BF16 in the order of the tensor core's registers, so that a thread's
share of a tile is one 16-byte load. Phases follow each other as the kernel runs them: for each layer qkv,
out, gate-and-up, down; then the head. RMSNorm weights are multiplied into the columns of what reads the norm.

Blocks are cut into groups, one for each stream of the model (one stream: all blocks). A phase's rows go to
the blocks of a group in units of 8, contiguous, as even as units allow; the spare units of a phase go to the
blocks that have read least so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kogagent.errors import ConfigError
from kogagent.kernels.params import MAX_DEVICES
from kogagent.spec import ModelSpec

TILE_BYTES = 512
ROWS, COLUMNS = 8, 32  # of a tile
WARPS = 8  # that compute
MAX_STAGES = 24
MAX_SPLITS = 16
HEAD_SCRATCH = 2496
MISC = 944
KEY_BLOCK = 8  # positions that go to one split together: a chunk
_PACED_BYTES = 40_000  # of a phase on a block
_LONG_BYTES = 700_000  # of one whose weights take so long that an early look at words costs nothing
_STAGGER_BYTES = 193  # of a block's tape of one layer, for each cycle between two lanes
# Pieces of the merge of splits, 4 values of up to 4 splits each, that a block does all by itself.
DIRECT_PIECES = 288  # SmolLM2's 8 splits: 2,733 tok/s against 2,707 with 16 merged by slices
HALVINGS = 1  # of the number of splits, where that lets every block merge them by itself
_CONSTANTS = (
    *("devices", "device_blocks", "blocks", "group", "lanes", "heads", "kv_heads", "ffn", "width"),
    *("qkv_rows", "splits", "direct_combine", "head_mode", "head_rows", "head_grid", "x_stride"),
    *("stage_bytes", "max_dim_rows", "max_head_rows", "stage_chunks", "replicas"),
)
PHASES = ("qkv", "out", "gate_up", "down", "head")


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of phase is cut into stages of the ring; the kernel's struct of the same name."""

    tiles: int
    part_tiles: int
    parts: int
    per_stage: int
    warps: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrangement of one model on one card for one width. Everything the kernel needs but the numbers.

    devices: that share the lanes, each the next lanes / devices of them; blocks count on from device to
    device. lanes: streams kept apart, 1 where all are equal; group: blocks of one lane.
    schedule [blocks, 4N+1]: first unit << 16 | units of each phase. heads, kv_heads, ffn are of one lane.
    stage_chunks: chunks of keys and their values in a stage of the ring, even.
    """

    spec: ModelSpec
    width: int
    devices: int
    lanes: int
    group: int
    heads: int
    kv_heads: int
    ffn: int
    splits: int
    direct_combine: bool
    head_mode: int
    head_rows: int
    head_grid: bool
    shapes: tuple[Shape, ...]
    schedule: npt.NDArray[np.uint32]
    tape_bytes: int
    x_stride: int
    stage_bytes: int
    stages: int
    max_dim_rows: int
    max_head_rows: int
    stage_chunks: int
    offsets: Mapping[str, int]
    shared_bytes: int

    @property
    def blocks(self) -> int:
        return self.lanes * self.group

    @property
    def device_lanes(self) -> int:
        return self.lanes // self.devices

    @property
    def device_blocks(self) -> int:
        return self.blocks // self.devices

    @property
    def lands_late(self) -> bool:
        """Whether any module's output lands behind a later one: else the kernel has no code for it."""
        return self.spec.delay > 0 or self.spec.residual == "ladder"

    @property
    def plain(self) -> bool:
        """Whether every module adds its own output to the one stream there is: no step says anything else."""
        return self.lanes == 1 and not self.lands_late

    @property
    def stagger(self) -> int:
        """Cycles between the starts of two lanes of one card, that their exchanges do not fall together.

        LaneFormer-2B on one H200: 912 tok/s with none, 946 with 12,000, 8 lanes over two thirds of a layer
        (docs/lanes.md); other shapes in proportion to what a block streams a layer. None where lanes wait
        for each other, nor over several devices, where it was not measured.
        """
        if self.lanes == 1 or self.devices > 1 or self.spec.delay == 0:
            return 0
        return self.tape_bytes // self.spec.n_layers // _STAGGER_BYTES

    @property
    def pace(self) -> int:
        """Cycles between two pieces of 8 KiB that a block asks the memory for; 0: as fast as there is room.

        What is asked for in a burst queues before the words that blocks wait for. None where lanes of one
        card wait in turns, since the others need what a waiting one leaves, nor where a phase's weights
        fit into the ring. Measured on H200: docs/kernel.md.
        """
        if self.device_lanes > 1 or self._phase_bytes < _PACED_BYTES:
            return 0
        if self._phase_bytes >= _LONG_BYTES:
            return 375
        return 440 if self.devices > 1 else 400

    @property
    def poll_first(self) -> int:
        """Cycles before a block looks for the words of an exchange for the first time, see docs/kernel.md."""
        if self._phase_bytes < _PACED_BYTES:
            return 0
        if self.device_lanes > 1:
            return 800
        return 100 if self._phase_bytes >= _LONG_BYTES else 400

    @property
    def _phase_bytes(self) -> int:
        """What a block streams in a phase."""
        return self.tape_bytes // (4 * self.spec.n_layers)

    @property
    def replicas(self) -> int:
        """Copies of the words that all blocks of a group read, so that not all readers queue for one. Over
        several devices, where a block reads more than its lane's words; else nothing was gained."""
        return 4 if self.devices > 1 and self.group > 64 else 1

    @property
    def qkv_rows(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.spec.head_dim

    def model_source(self) -> str:
        """C++ of the constants that the kernel is compiled for: csrc/params.cuh says what each means."""
        spec = self.spec
        same = spec.lanes if self.lanes == 1 and spec.head == "sum" else 1  # norm(L x) = norm of x, eps / L²
        numbers = {
            **{name: getattr(self, name) for name in _CONSTANTS},
            "layers": spec.n_layers,
            "dim": spec.dim,
            "head_dim": spec.head_dim,
            "vocab": spec.vocab_size,
            "has_bias": spec.qkv_bias,
            "has_qk_norm": spec.qk_norm,
            "stagger": self.stagger,
            "pace": self.pace,
            "poll_first": self.poll_first,
            "lands_late": self.lands_late,
            "plain": self.plain,
            "split_log2": self.splits.bit_length() - 1,
            **{f"off_{name}": offset for name, offset in self.offsets.items()},
        }
        reals = {
            "eps": spec.norm_eps,
            "head_eps": spec.norm_eps / same**2,
            "attn_scale_log2": log2_scale(spec),
        }
        lines = [f"static constexpr int {name} = {int(value)};" for name, value in numbers.items()]
        lines += [
            f"static constexpr float {name} = {float(np.float32(value)).hex()}f;"
            for name, value in reals.items()
        ]
        for field in ("tiles", "part_tiles", "parts", "per_stage", "warps"):
            a, b, c, d, e = (getattr(shape, field) for shape in self.shapes)
            value = f"kind == 0 ? {a} : kind == 1 ? {b} : kind == 2 ? {c} : kind == 3 ? {d} : {e}"
            lines.append(f"static constexpr int {field}(int kind) {{ return {value}; }}")
        return "\n".join(["#pragma once", "struct Model {", *lines, "};", ""])

    def rows(self, kind: int) -> int:
        """Rows of one group in a kind of phase."""
        return (self.qkv_rows, self.spec.dim, 2 * self.ffn, self.spec.dim, self.head_rows)[kind]

    def ranges(self, phase: int) -> Iterator[tuple[int, int, int]]:
        """(block, first unit, units) of every block in one phase."""
        for block, entry in enumerate(self.schedule[:, phase]):
            yield block, int(entry) >> 16, int(entry) & 0xFFFF

    def offsets_in_tape(self, phase: int) -> npt.NDArray[np.int64]:
        """Where one phase begins in each block's tape, bytes."""
        units = (self.schedule[:, :phase] & 0xFFFF).astype(np.int64)
        tiles = np.array([self.shapes[kind_of(i, self.spec)].tiles for i in range(phase)], dtype=np.int64)
        out: npt.NDArray[np.int64] = (units * tiles).sum(1) * TILE_BYTES
        return out


def kind_of(phase: int, spec: ModelSpec) -> int:
    """Kind of a phase: 0 qkv, 1 out, 2 gate and up, 3 down, 4 head."""
    return 4 if phase == 4 * spec.n_layers else phase % 4


def plan(
    spec: ModelSpec,
    sms: int,
    shared_limit: int,
    *,
    one_stream: bool,
    width: int = 1,
    stages: int = 0,
    splits: int = 0,
    devices: int = 1,
    like: Layout | None = None,
) -> Layout:
    """Arrange a model on a card of `sms` multiprocessors with shared_limit bytes of shared memory a block.

    one_stream: all lanes' streams are equal, so that one is kept and all blocks are one group. stages limits
    the depth of the ring (0: all that fits). splits: of a kv head's keys, a power of two (0: as many as there
    are blocks for). devices: equal cards, or parts of one with `sms` multiprocessors each, that share the
    lanes. like: a layout of the same model whose sums are kept to the bit: its splits, its cut of stages and
    of columns among warps.
    Raises ConfigError for a shape the kernel cannot run.
    """
    lanes = 1 if one_stream else spec.lanes
    if not 1 <= devices <= MAX_DEVICES or lanes % devices:
        raise ConfigError(f"devices={devices}: {lanes} lanes need an even share each, of 1 .. {MAX_DEVICES}")
    heads, kv_heads, ffn = spec.n_heads // lanes, spec.n_kv_heads // lanes, spec.ffn_dim // lanes
    for name, value, multiple in (
        ("dim", spec.dim, 8),
        ("head_dim", spec.head_dim, 8),
        ("ffn_dim of a lane", ffn, 4),
    ):
        if value % multiple:
            raise ConfigError(f"{name}={value}: the cuda backend needs a multiple of {multiple}")
    if spec.head_dim > 256:
        raise ConfigError(f"head_dim={spec.head_dim}: the cuda backend runs heads of at most 256")
    if spec.vocab_size >= 1 << 19:
        raise ConfigError(f"vocab_size={spec.vocab_size}: the cuda backend takes at most {1 << 19}")
    if lanes // devices > sms:
        raise ConfigError(f"lanes={lanes}: the cuda backend needs a multiprocessor each, this card has {sms}")
    # Every block must have hidden rows in each layer: that is what keeps a block from falling behind by more
    # than the double buffers hold.
    group = min(sms // (lanes // devices), ffn // 4)
    head_mode = 0 if lanes == 1 or spec.head == "vocab_parallel" else 1 if spec.head == "replicate" else 2
    head_grid = head_mode != 0 or lanes == 1
    head_rows = spec.vocab_size if head_grid else spec.vocab_size // lanes
    most = 1 << min(max(group // kv_heads, 1).bit_length() - 1, MAX_SPLITS.bit_length() - 1)
    quads = heads * spec.head_dim // 4
    fewer = (most >> halved for halved in range(HALVINGS + 1) if most >> halved)
    if not splits and like:
        splits = like.splits
    splits = splits or next((s for s in fewer if _pieces(quads, s) <= DIRECT_PIECES), most)
    if splits.bit_count() != 1 or splits > MAX_SPLITS:
        raise ConfigError(f"splits={splits}: must be a power of two up to {MAX_SPLITS}")
    attention = heads * spec.head_dim
    columns = (spec.dim, attention, spec.dim, ffn, spec.dim)
    tiles = [-(-c // COLUMNS) for c in columns]
    qkv_rows = (heads + 2 * kv_heads) * spec.head_dim
    rows = (qkv_rows, spec.dim, 2 * ffn, spec.dim, head_rows)
    units = [-(-r // ROWS) for r in rows]
    schedule = _schedule(spec, lanes, group, units, tiles, head_grid)
    max_dim_rows = int((schedule[:, 1] & 0xFFFF).max()) * ROWS
    max_head_rows = int((schedule[:, -1] & 0xFFFF).max()) * ROWS

    x_stride = max(tiles) * COLUMNS + 16
    rep, h = heads // kv_heads, spec.head_dim
    direct = _pieces(quads, splits) <= DIRECT_PIECES

    def regions(rows: int) -> dict[str, int]:
        """Shared memory beside the ring, bytes."""
        attend = rows * (rep + 1) * h * 4 + WARPS * min(rep, 8) * (h * 4 + 8)
        sizes = {
            "x": rows * x_stride * 2,
            "attn": max(attend, HEAD_SCRATCH),
            "red": 2 * (24 if rows == 1 else 8) * ROWS * WARPS * rows * 4,  # 2 batches
            "stream": rows * max_dim_rows * 4,
            "late": 2 * rows * max_dim_rows * 4,
            "logits": max_head_rows * 4,
            "z": max_head_rows * 4,
            "rope": rows * h * 4,
            "schedule": (5 * spec.n_layers + 1) * 4,  # the windows behind it
            "misc": MISC,
        }
        return {name: -(-size // 128) * 128 for name, size in sizes.items()}

    def room(rows: int) -> int:  # 256: the kernel's static variables
        return (shared_limit - 256 - sum(regions(rows).values())) // TILE_BYTES

    weights = [
        t * u * (spec.n_layers if i < 4 else 1) for i, (t, u) in enumerate(zip(tiles, units, strict=True))
    ]
    # Every width cuts its stages alike, so that sums are taken in the same order: widths agree to the bit.
    stage_tiles = like.stage_bytes // TILE_BYTES if like else _stage(room(1), tiles, weights)
    fits = min(room(width) // stage_tiles, MAX_STAGES)
    if fits < 2:
        raise ConfigError(
            f"{spec.name or 'the model'}: the inputs of {width} rows leave {room(width) * TILE_BYTES} bytes "
            "of shared memory for weights, too few"
        )
    stages = min(fits, stages) if stages else fits
    sizes = regions(width)
    offsets, at = {}, 0
    for name, size in {**sizes, "ring": stages * stage_tiles * TILE_BYTES}.items():
        offsets[name] = at
        at += size
    each = [-(-u // (lanes * group if i == 4 and head_grid else group)) for i, u in enumerate(units)]
    cut = tuple(_shape(t, stage_tiles, n) for t, n in zip(tiles, each, strict=True))
    shapes = like.shapes if like else cut
    counts = (schedule & 0xFFFF).astype(np.int64)
    per_phase = np.array([tiles[kind_of(i, spec)] for i in range(counts.shape[1])], dtype=np.int64)
    return Layout(
        spec=spec,
        width=width,
        devices=devices,
        lanes=lanes,
        group=group,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        splits=splits,
        direct_combine=direct,
        head_mode=head_mode,
        head_rows=head_rows,
        head_grid=head_grid,
        shapes=shapes,
        schedule=schedule,
        tape_bytes=int((counts * per_phase).sum(1).max()) * TILE_BYTES,
        x_stride=x_stride,
        stage_bytes=stage_tiles * TILE_BYTES,
        stages=stages,
        max_dim_rows=max_dim_rows,
        max_head_rows=max_head_rows,
        stage_chunks=stage_tiles * TILE_BYTES // (2 * KEY_BLOCK * h * 2) // 2 * 2,
        offsets=offsets,
        shared_bytes=at,
    )


def _pieces(quads: int, splits: int) -> int:
    return quads * max(splits // 4, 1)


def _shape(tiles: int, stage_tiles: int, units: int = WARPS) -> Shape:
    """How stages cut units of `tiles`, and how many warps share one where a block has `units` of them."""
    if tiles > stage_tiles:
        parts = -(-tiles // stage_tiles)
        return Shape(tiles, -(-tiles // parts), parts, 1, WARPS)
    per_stage = stage_tiles // tiles

    def rounds(warps: int) -> int:  # loads of the busiest warp over one stage
        return -(-min(per_stage, units) * warps // WARPS) * -(-tiles // warps)

    return Shape(tiles, tiles, 1, per_stage, min((1, 2, 4, 8), key=rounds))


def _stage(room_tiles: int, tiles: list[int], weights: list[int]) -> int:
    """Tiles of a stage: the cut that keeps most bytes in flight, the larger stage among near equals."""
    best = (0.0, 48)
    for size in range(48, 97):
        stages = min(room_tiles // size, MAX_STAGES)
        used = 0.0
        for t, weight in zip(tiles, weights, strict=True):
            shape = _shape(t, size)
            used += weight * (shape.per_stage * t if shape.parts == 1 else t / shape.parts)
        flight = stages * used / sum(weights)
        if flight >= best[0] * 0.99:
            best = (flight, size)
    return best[1]


def _schedule(
    spec: ModelSpec, lanes: int, group: int, units: list[int], tiles: list[int], head_grid: bool
) -> npt.NDArray[np.uint32]:
    if max(units) > 0xFFFF:
        raise ConfigError(
            f"{spec.name or 'the model'}: a matrix has more than {0xFFFF * 8} rows in one group"
        )
    read = np.zeros(group, dtype=np.int64)  # tiles so far
    phases = []
    spare = np.arange(group) < units[1] % group  # the residual's rows stay where they are
    for phase in range(4 * spec.n_layers):
        kind = phase % 4
        extra = spare if kind in (1, 3) else _least(read, units[kind] % group)
        phases.append(_ranges(units[kind] // group + extra))
        read += (units[kind] // group + extra) * tiles[kind]
    one = np.stack(phases, 1)
    body = np.tile(one, (lanes, 1))
    blocks = lanes * group if head_grid else group
    extra = _least(np.tile(read, lanes)[:blocks], units[4] % blocks)
    head = _ranges(units[4] // blocks + extra)
    head = head if head_grid else np.tile(head, lanes)
    return np.concatenate([body, head[:, None]], 1).astype(np.uint32)


def _least(read: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    out = np.zeros(read.size, dtype=np.bool_)
    out[np.argsort(read, kind="stable")[:count]] = True
    return out


def _ranges(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    first = np.cumsum(counts) - counts
    out: npt.NDArray[np.int64] = (first << 16) | counts
    return out


def log2_scale(spec: ModelSpec) -> float:
    """What a query is multiplied by, so that attention weights are powers of two."""
    return math.log2(math.e) / math.sqrt(spec.head_dim)
