"""Tensors to what the CPU program reads: packed a thread, in the order in which it reads. Knows no pass.

Packing takes most of loading. What it makes depends on the tensors, the type, the number of threads and the
program alone, and can be kept: `Packed` goes in where tensors would.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kogagent.engine.tensor import STORED, HostTensor, Weight, alike, on_host, side_by_side
from kogagent.errors import ConfigError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec

_MATRICES = ("wq", "wk", "wv", "wo", "w1", "w3", "w2")  # of a layer


class Types(NamedTuple):
    """Of weights once packed: library.TYPES."""

    layers: str
    head: str


_OF_BLOCKS = {"q8_0": "int8", "q4_0": "int4", "q4_1": "int4"}


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A checkpoint as the program has it.

    types: of its weights. streams: of each thread, bytes; in the program's own memory where
    `Loader.pack` made them. vectors: FP32, norms and biases of layer after layer, then the last norm. table
    [V, D]: an embedding of its own, of a type STORED says, None where the head is the table. error: the
    largest of an integer weight, relative to its row's largest.
    """

    types: Types
    streams: tuple[npt.NDArray[np.uint8], ...]
    vectors: npt.NDArray[np.float32]
    table: npt.NDArray[Any] | None
    error: float


def asked_types(dtype: str) -> Types:
    """What a dtype that was asked for means: 4 bits are too few for a head."""
    return Types(dtype, "int8" if dtype == "int4" else dtype)


def exact_types(spec: ModelSpec, weights: Mapping[str, Weight]) -> Types:
    """The smallest types that hold what a checkpoint says without a loss: those of its blocks where all
    matrices of the layers have the same, else float16; the head by itself."""
    kinds = {name: w.kind if isinstance(w, HostTensor) else "" for name, w in weights.items()}
    matrices = {
        _OF_BLOCKS.get(kinds[f"layers.{i}.{name}"], "") for i in range(spec.n_layers) for name in _MATRICES
    }
    if len(matrices) > 1 or "" in matrices:
        return Types("float16", "float16")
    head = kinds["embed" if spec.tied_head else "head"]
    return Types(matrices.pop(), _OF_BLOCKS.get(head, "float16"))


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

            self._pack(f"{p}wq, wk or wv", i, library.QKV, side_by_side(parts("wq", "wk", "wv"), 1))
            self._pack(f"{p}wo", i, library.OUT, *parts("wo"))
            self._pack(f"{p}w1 or w3", i, library.GATE_UP, *parts("w1", "w3"))
            self._pack(f"{p}w2", i, library.DOWN, *parts("w2"))
            found = parts("attn_norm", "ffn_norm")
            if spec.qkv_bias:
                found.append(side_by_side(parts("bq", "bk", "bv"), 1))
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
        kept = None if packed.table is None else np.array(packed.table)
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
            kind = next(kind for kind, stored in STORED.items() if stored == packed.table.dtype)
            self._c.kog_set_embedding(self._model, library.TYPES[kind], packed.table.ctypes.data)
        return packed

    def _stream(self, thread: int) -> npt.NDArray[np.uint8]:
        size = self._c.kog_stream_bytes(self._model, thread)
        memory = (ctypes.c_uint8 * size).from_address(self._c.kog_stream(self._model, thread))
        return np.frombuffer(memory, np.uint8)

    def _pack(self, name: str, layer: int, matrix: int, *parts: HostTensor) -> None:
        """One matrix, or gate and up; the program makes its own type of the tensors'."""
        parts = tuple(alike(parts))
        kept = [np.ascontiguousarray(part.data) for part in parts]
        second = kept[1].ctypes.data if len(kept) > 1 else None
        blocks = parts[0].blocks
        kind = library.TYPES[parts[0].kind] if blocks is None else library.OF_BLOCKS + blocks.code
        error = self._c.kog_pack(self._model, layer, matrix, kind, kept[0].ctypes.data, second)
        if math.isinf(error):
            raise ConfigError(f"tensor {name!r} has weights beyond FP16's range. Load with dtype='float32'.")
        self._error = max(self._error, error)

    def _table(self, tensor: HostTensor) -> npt.NDArray[Any]:
        """An embedding of its own, read in place: in the layers' type, beside integers as it is or FP32."""
        kind = self._types.layers
        if kind.startswith("int"):
            kind = "float32" if tensor.blocks is not None else tensor.kind
        if kind == tensor.kind:
            return np.ascontiguousarray(tensor.data)
        floats = _floats(tensor)
        if kind == "float32":
            return floats
        out = np.empty(floats.shape, STORED[kind])
        if math.isinf(
            self._c.kog_narrow(library.TYPES[kind], floats.ctypes.data, floats.size, out.ctypes.data)
        ):
            raise ConfigError("tensor 'embed' has weights beyond FP16's range. Load with dtype='float32'.")
        return out


def _floats(tensor: HostTensor) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(tensor.float32())
