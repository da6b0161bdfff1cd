"""Tensors to what the CPU program reads: packed a thread, in the order in which it reads. Knows no pass.

Packing takes most of loading. What it makes depends on the tensors, the type, the number of threads and the
program alone, and can be kept: `Packed` goes in where tensors would.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kogagent.engine.tensor import STORED, HostTensor, Kind, Weight, on_host
from kogagent.errors import ConfigError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec

_MATRICES = (("wq",), ("wk",), ("wv",), ("wo",), ("w1", "w3"), ("w2",))
"""Of a layer, those together that have one type."""

_HOLDS = {
    "q4_k": {"q4_k"},
    "int4": {"q4_0", "q4_1"},
    "q5_k": {"q4_k", "q5_k"},
    "int5": {"q4_0", "q4_1", "q5_0", "q5_1"},
    "q6_k": {"q6_k"},
    "int8": {"q4_0", "q5_0", "q8_0"},
}
"""The blocks whose numbers a type has without a loss; fewer bytes first."""

_ROWS = 16
"""Of a packed block; of q, k and v of several types, each begins at a multiple of so many."""
_GROUP = 32
"""Columns of integers that share what leads them; q4_k, q5_k and q6_k have eight such groups together."""
_BITS = {"int4": 4, "int5": 5, "q4_k": 4, "q5_k": 5, "q6_k": 6}


class Types(NamedTuple):
    """Of weights once packed: library.TYPES. layers: of each, those of _MATRICES."""

    layers: tuple[tuple[str, ...], ...]
    head: str

    @property
    def name(self) -> str:
        """Of the layers': "int4"; "q4_k+q6_k"."""
        found = {kind for layer in self.layers for kind in layer}
        return "+".join(kind for kind in library.TYPES if kind in found)

    @property
    def of_integers(self) -> bool:
        return any(kind in library.INTEGERS for layer in self.layers for kind in layer)

    def packed_bytes(self, spec: ModelSpec) -> int:
        """What all matrices of a model take once packed, an embedding of its own aside."""
        q, kv, ffn = spec.lane_heads * spec.head_dim, spec.lane_kv_heads * spec.head_dim, spec.lane_ffn
        total = 0
        for layer in self.layers:
            if len(set(layer[:3])) == 1:  # q, k and v share the block where one ends and the next begins
                blocks = [(layer[0], q + 2 * kv, spec.dim)]
            else:
                blocks = [(layer[0], q, spec.dim), (layer[1], kv, spec.dim), (layer[2], kv, spec.dim)]
            out, pair, down = layer[3:]
            blocks += [
                (out, spec.dim, q),
                (pair, ffn, spec.dim),
                (pair, ffn, spec.dim),
                (down, spec.dim, ffn),
            ]
            total += spec.lanes * sum(_blocks_bytes(*block) for block in blocks)
        parts = spec.lanes if spec.head == "vocab_parallel" else 1
        return total + parts * _blocks_bytes(self.head, spec.vocab_size // parts, spec.dim)


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A checkpoint as the program has it.

    types: of its weights. streams: of each thread, bytes; in the program's own memory where
    `Loader.pack` made them. vectors: FP32, norms and biases of layer after layer, then the last norm.
    table [V, D]: an embedding of its own, None where the head is the table. error: the largest of an integer
    weight, relative to its row's largest.
    """

    types: Types
    streams: tuple[npt.NDArray[np.uint8], ...]
    vectors: npt.NDArray[np.float32]
    table: HostTensor | None
    error: float


def asked_types(spec: ModelSpec, dtype: str) -> Types:
    """What a dtype that was asked for means: 4 bits are too few for a head."""
    return Types(((dtype,) * len(_MATRICES),) * spec.n_layers, "int8" if dtype == "int4" else dtype)


def exact_types(spec: ModelSpec, weights: Mapping[str, Weight]) -> Types:
    """Of each matrix the smallest type that holds what a checkpoint's blocks say without a loss, float16
    where it has no blocks or no type holds all that lie together."""

    def holding(*names: str) -> str:
        tensors = [weights[name] for name in names]
        kinds = {w.kind if isinstance(w, HostTensor) else "" for w in tensors}
        return next((kind for kind, held in _HOLDS.items() if kinds <= held), "float16")

    wide, narrow = (heads * spec.head_dim // spec.lanes for heads in (spec.n_heads, spec.n_kv_heads))
    apart = wide % _ROWS == 0 and narrow % _ROWS == 0
    layers: list[tuple[str, ...]] = []
    for i in range(spec.n_layers):
        types = [holding(*(f"layers.{i}.{name}" for name in names)) for names in _MATRICES]
        if not apart:
            types[:3] = [holding(*(f"layers.{i}.{name}" for name in ("wq", "wk", "wv")))] * 3
        layers.append(tuple(types))
    return Types(tuple(layers), holding("embed" if spec.tied_head else "head"))


class Loader:
    """Fills one opened model of the program. types: of its weights."""

    def __init__(self, program: ctypes.CDLL, model: int, spec: ModelSpec, types: Types, threads: int) -> None:
        self._c, self._model, self._spec, self._types, self._threads = program, model, spec, types, threads
        self._error = 0.0

    def pack(self, tensors: Mapping[str, Weight]) -> Packed:
        """Raises ConfigError for weights beyond the type's range."""
        spec = self._spec
        vectors: list[npt.NDArray[np.float32]] = []
        for i in range(spec.n_layers):
            p = f"layers.{i}."

            def parts(*names: str, p: str = p) -> list[HostTensor]:
                return [on_host(tensors[p + name]) for name in names]

            self._pack(f"{p}wq, wk or wv", i, library.QKV, *parts("wq", "wk", "wv"))
            self._pack(f"{p}wo", i, library.OUT, *parts("wo"))
            self._pack(f"{p}w1 or w3", i, library.GATE_UP, *parts("w1", "w3"))
            self._pack(f"{p}w2", i, library.DOWN, *parts("w2"))
            found = parts("attn_norm", "ffn_norm")
            if spec.qkv_bias:
                bias = [_floats(part) for part in parts("bq", "bk", "bv")]
                found.append(HostTensor("float32", np.concatenate(bias, 1)))
            if spec.qk_norm:
                found += parts("q_norm", "k_norm")
            vectors += (_floats(vector).reshape(-1) for vector in found)
        vectors.append(_floats(on_host(tensors["norm"])))
        name = "embed" if spec.tied_head else "head"
        self._pack(name, library.HEAD, library.HEAD, on_host(tensors[name]))
        table = None if spec.tied_head else self._table(on_host(tensors["embed"]))
        streams = tuple(self._stream(thread) for thread in range(self._threads))
        return self._give(Packed(self._types, streams, np.concatenate(vectors), table, self._error))

    def fill(self, packed: Packed) -> Packed:
        """Take what a model of the same shape has packed, and copy it. Raises ConfigError where
        that is no such thing."""
        spec = self._spec
        sizes = [self._c.kog_stream_bytes(self._model, thread) for thread in range(self._threads)]
        table = None if spec.tied_head else (spec.vocab_size, spec.dim)
        if (
            packed.types != self._types
            or [stream.nbytes for stream in packed.streams] != sizes
            or packed.vectors.shape != (sum(self._widths()) * spec.n_layers + spec.dim,)
            or (None if packed.table is None else packed.table.shape) != table
        ):
            raise ConfigError("packed weights do not fit the spec, the type or the number of threads")
        places = (ctypes.c_void_p * self._threads)(*(stream.ctypes.data for stream in packed.streams))
        self._c.kog_fill(self._model, places)
        own = tuple(self._stream(thread) for thread in range(self._threads))
        kept = packed.table and HostTensor(packed.table.kind, np.array(packed.table.data))
        return self._give(replace(packed, streams=own, table=kept))

    # ── inside ──

    def _widths(self) -> list[int]:
        """Of a layer's vectors."""
        spec = self._spec
        bias = [(spec.n_heads + 2 * spec.n_kv_heads) * spec.head_dim] if spec.qkv_bias else []
        return [spec.dim, spec.dim, *bias, *([spec.head_dim] * 2 if spec.qk_norm else [])]

    def _give(self, packed: Packed) -> Packed:
        """Vectors and table to the program: it copies the first and reads the other in place."""
        spec, at = self._spec, packed.vectors.ctypes.data
        for i in range(spec.n_layers):
            places: list[int | None] = []
            for width in self._widths():
                places.append(at)
                at += 4 * width
            bias = places.pop(2) if spec.qkv_bias else None
            norms = places[2:] or [None, None]
            self._c.kog_set_vectors(self._model, i, *places[:2], bias, *norms)
        self._c.kog_set_norm(self._model, at)
        if packed.table is not None:
            self._c.kog_set_embedding(self._model, _source(packed.table), packed.table.data.ctypes.data)
        return packed

    def _stream(self, thread: int) -> npt.NDArray[np.uint8]:
        size = self._c.kog_stream_bytes(self._model, thread)
        memory = (ctypes.c_uint8 * size).from_address(self._c.kog_stream(self._model, thread))
        return np.frombuffer(memory, np.uint8)

    def _pack(self, name: str, layer: int, matrix: int, *parts: HostTensor) -> None:
        """One matrix of its tensors; the program makes its own types of theirs."""
        kept = [HostTensor(part.kind, np.ascontiguousarray(part.data)) for part in parts]
        tensors = (library.Tensor * len(kept))(
            *(library.Tensor(_source(part), part.data.ctypes.data) for part in kept)
        )
        error = self._c.kog_pack(self._model, layer, matrix, tensors)
        if math.isinf(error):
            raise ConfigError(f"tensor {name!r} has weights beyond FP16's range. Load with dtype='float32'.")
        self._error = max(self._error, error)

    def _table(self, tensor: HostTensor) -> HostTensor:
        """An embedding of its own, read in place: in the layers' type, beside integers as it is."""
        kinds: tuple[Kind, ...] = ("float32", "float16", "bfloat16")
        kind = next((kind for kind in kinds if kind == self._types.name), tensor.kind)
        if kind == tensor.kind:
            copied = tensor.blocks is not None  # a file of blocks is not needed once it was read
            return HostTensor(kind, np.array(tensor.data) if copied else np.ascontiguousarray(tensor.data))
        floats = _floats(tensor)
        if kind == "float32":
            return HostTensor(kind, floats)
        out = np.empty(floats.shape, STORED[kind])
        if math.isinf(
            self._c.kog_narrow(library.TYPES[kind], floats.ctypes.data, floats.size, out.ctypes.data)
        ):
            raise ConfigError("tensor 'embed' has weights beyond FP16's range. Load with dtype='float32'.")
        return HostTensor(kind, out)


def _blocks_bytes(kind: str, rows: int, columns: int) -> int:
    """Of a matrix as kernels.h packs it."""
    groups = -(-columns // _GROUP)
    if kind in _BITS:
        lead, together = (64, 1) if kind.startswith("int") else (64 + 8 * 32, 8)
        block = -(-groups // together) * (lead + together * _BITS[kind] * _GROUP * _ROWS // 8)
    elif kind == "int8":
        block = groups * _GROUP * _ROWS + -(-groups // 2) * 64
    elif kind == "int8_row":
        block = groups * _GROUP * _ROWS + 64
    elif kind == "bfloat16":
        block = -(-columns // 2) * 4 * _ROWS
    else:
        block = columns * np.dtype(kind).itemsize * _ROWS
    return -(-rows // _ROWS) * block


def _source(tensor: HostTensor) -> int:
    """A tensor's type as the program knows it."""
    blocks = tensor.blocks
    return library.TYPES[tensor.kind] if blocks is None else library.OF_BLOCKS + blocks.code


def _floats(tensor: HostTensor) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(tensor.float32())
