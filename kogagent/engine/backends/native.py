"""The CPU backend in C++: weights packed for each thread, one call a pass, no torch while it runs.

Knows how tensors become what `kernels/cpu/src/native.h` takes; the arithmetic is there.

Rounding points: the weights, once, to the chosen type; by default keys and values to FP16 beside INT8
weights. Activations, norms, attention, residual streams and sums are FP32.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kogagent.engine.backend import HOST_PREFILL_CHUNK, KV, Decode, DecodePlan, TokenMatcher
from kogagent.engine.backends.host import (
    HostDecode,
    InHostMemory,
    NeverParked,
    check_capacity,
    check_pending,
    check_rewind,
    fork_length,
)
from kogagent.engine.backends.native_grammar import NativeGrammar
from kogagent.engine.backends.native_segment import NativeDecode
from kogagent.engine.backends.native_weights import Loader, Packed, asked_types, exact_types
from kogagent.engine.backends.pages import Pages
from kogagent.engine.grammar.matcher import Matcher
from kogagent.engine.lanes import LaneTable, lane_table
from kogagent.engine.tensor import Weight
from kogagent.engine.weights import check_tensors
from kogagent.errors import DeviceError, EngineClosedError, InputError, SchemaError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec

Dtype: TypeAlias = Literal["auto", "float32", "float16", "bfloat16", "int8", "int8_row", "int4"]
CacheDtype: TypeAlias = Literal["float32", "float16"]

_BYTES_A_THREAD = 1 << 20  # read in some 50 microseconds; a barrier costs a thread about one
_GRAMMARS = 16  # kept for one model
_STOPS = 16  # sets of stop ids: a program has one or two
_TILE = 16  # positions that lie side by side in the store of keys


class NativeKV(NeverParked):
    """Keys [N, K, tiles, h, 16] and values [N, K, capacity, h up to a multiple of 16] of one sequence.

    Pages are touched as they fill, and a fork shares those it has in common (pages.py). Windows are read from
    the full store, so that rewinding never loses a key.
    """

    def __init__(self, spec: ModelSpec, capacity: int, dtype: CacheDtype, pages: Pages | None = None) -> None:
        self._spec, self._capacity, self._dtype = spec, capacity, dtype
        self._length = 0
        heads, h = (spec.n_layers, spec.n_kv_heads), spec.head_dim
        keys, values = (*heads, _tiles(capacity), h, _TILE), (*heads, capacity, _tiles(h) * _TILE)
        bytes_ = [math.prod(shape) * np.dtype(dtype).itemsize for shape in (keys, values)]
        self._row_bytes = sum(bytes_) // capacity
        self._pages = Pages(sum(bytes_)) if pages is None else pages
        self._keys: npt.NDArray[Any] | None = self._pages.array(keys, dtype)
        self._values: npt.NDArray[Any] | None = self._pages.array(values, dtype, bytes_[0])

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def stores(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Keys and values; EngineClosedError after close."""
        if self._keys is None or self._values is None:
            raise EngineClosedError("this KV cache is closed. Open a new session.")
        return self._keys, self._values

    @property
    def places(self) -> tuple[int, int]:
        """The addresses of keys and values, for a pass that writes rows past the length."""
        keys, values = self.stores
        self._pages.write(self._length)
        return keys.ctypes.data, values.ctypes.data

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self._length = length

    def fork(self, length: int | None = None) -> NativeKV:
        keys, values = self.stores
        length = fork_length(self, length)
        pages, start = self._pages.fork(length)
        other = NativeKV(self._spec, self._capacity, self._dtype, pages)
        if start < length:
            new_keys, new_values = other.stores
            pages.write(start)
            tiles = slice(start // _TILE, _tiles(length))
            new_keys[:, :, tiles] = keys[:, :, tiles]
            new_values[:, :, start:length] = values[:, :, start:length]
        other.advance(length)
        return other

    def rows(self, length: int) -> Sequence[npt.NDArray[Any]]:
        """Whole tiles of keys, the keys of a last one that has begun [N, K, h, ..], values."""
        keys, values = self.stores
        tiles, rest = divmod(length, _TILE)
        last = (
            keys[:, :, tiles, :, :rest] if rest else np.zeros((*keys.shape[:2], keys.shape[3], 0), keys.dtype)
        )
        return keys[:, :, :tiles], last, values[:, :, :length]

    def restore(self, rows: Sequence[npt.NDArray[Any]], length: int) -> None:
        keys, values = self.stores
        tiles, rest = divmod(length, _TILE)
        if len(rows) != 3 or any(array.dtype != keys.dtype for array in rows):
            raise InputError(f"these rows are not those of a cache of {keys.dtype}")
        whole, last, given = rows
        self._pages.write(0)
        try:
            keys[:, :, :tiles] = whole[:, :, :tiles]
            if rest:
                keys[:, :, tiles, :, :rest] = (whole[:, :, tiles] if tiles < whole.shape[2] else last)[
                    ..., :rest
                ]
            values[:, :, :length] = given[:, :, :length]
        except (ValueError, IndexError) as error:
            raise InputError(f"these rows are not {length} of this model's: {error}") from error
        self.advance(length)

    @property
    def memory(self) -> Mapping[Hashable, int]:
        return {what: rows * self._row_bytes for what, rows in self._pages.parts}

    def growth(self, length: int) -> int:
        return max(0, length - self._pages.written) * self._row_bytes

    def close(self) -> None:
        self._keys = self._values = None
        self._pages.close()

    def advance(self, rows: int) -> None:
        """Count rows whose keys and values have been written in every layer."""
        self._length += rows
        self._pages.wrote(self._length)


class NativeBackend(InHostMemory):
    """A model in the CPU program. dtype "auto" is, of each matrix, the type that holds a GGUF file's blocks
    without a loss, else float16; int8 has one FP16 scale for 32 weights of a row, int4 a scale and a least
    value for the layers' and int8 for the head.

    cache: the type of keys and values, "auto" is float16 beside integer weights, else float32. threads: 0 for
    the cores the process may use, as far as the model has work for them. program: one of library.PROGRAMS, ""
    for the best this processor runs. weights: of `spec.tensors()`, or what such a backend has packed, which
    is copied. Raises ConfigError when they do not fit the spec or overflow the type, InputError for an option
    it cannot serve or where the program was not built.
    """

    prefill_chunk = HOST_PREFILL_CHUNK

    def __init__(
        self,
        spec: ModelSpec,
        weights: Mapping[str, Weight] | Packed,
        dtype: Dtype = "auto",
        *,
        cache: CacheDtype | Literal["auto"] = "auto",
        threads: int = 0,
        program: str = "",
    ) -> None:
        if dtype != "auto" and dtype not in library.DTYPES:
            raise InputError(f"dtype={dtype!r} must be one of 'auto', {', '.join(map(repr, library.DTYPES))}")
        if cache not in ("auto", "float32", "float16"):
            raise InputError(f"cache={cache!r} must be 'auto', 'float32' or 'float16'")
        if threads < 0:
            raise InputError(f"threads={threads}: must be at least 1, or 0 for as many as help")
        if not isinstance(weights, Packed):
            check_tensors(spec, weights)
        error = library.missing()
        if error is not None:
            raise error
        if dtype != "auto":
            types = asked_types(spec, dtype)
        else:
            types = weights.types if isinstance(weights, Packed) else exact_types(spec, weights)
        if cache == "auto":
            cache = "float16" if types.of_integers else "float32"
        self._spec, self._types, self._cache = spec, types, cache
        self._threads = threads or _threads_for(spec)
        self._c = library.load()
        self._packed: Packed | None = None
        self._grammars: OrderedDict[str, NativeGrammar | None] = OrderedDict()
        self._stops: dict[frozenset[int], array[int]] = {}
        self._model: int | None = self._open(lane_table(spec))
        try:
            if program and not self._c.kog_choose(self._model, program.encode()):
                raise InputError(
                    f"program={program!r}: this processor runs none of that name; "
                    f"there are {', '.join(map(repr, library.PROGRAMS))}"
                )
            loader = Loader(self._c, self._handle(), spec, types, self._threads)
            self._packed = loader.fill(weights) if isinstance(weights, Packed) else loader.pack(weights)
            self._quantisation_error = self._packed.error
        except BaseException:
            self.close()
            raise

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "native"

    @property
    def dtype(self) -> str:
        """Of the layers' weights: a type, or several with "+" between them."""
        return self._types.name

    @property
    def program(self) -> str:
        """The instruction set that runs: one of library.PROGRAMS."""
        name: bytes = self._c.kog_program(self._handle())
        return name.decode()

    @property
    def threads(self) -> int:
        return self._threads

    @property
    def quantisation_error(self) -> float:
        """The largest |weight - its integer's value|, relative to the largest weight of the row; else 0."""
        return self._quantisation_error

    @property
    def packed(self) -> Packed:
        """The weights, to make the same backend of; in this one's memory, so only while it is open."""
        if self._packed is None:
            raise EngineClosedError("this backend is closed. Load the engine again.")
        return self._packed

    def open_kv(self, capacity: int) -> NativeKV:
        self._handle()
        check_capacity(self._spec, capacity)
        return NativeKV(self._spec, capacity, self._cache)

    @property
    def kept_as(self) -> str:
        types = self._types
        which = hashlib.sha256(repr(types).encode()).hexdigest()[:8]  # of each matrix
        parts = (types.name, types.head, which, self._cache, str(self._threads))
        return f"native {library.identity()} {self.program} {' '.join(parts)}"

    def rows(self, kv: KV, length: int) -> Sequence[npt.NDArray[Any]]:
        return own_kv(kv).rows(length)

    def restore(self, kv: KV, rows: Sequence[npt.NDArray[Any]], length: int) -> None:
        own_kv(kv).restore(rows, length)

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        if ids:
            self._run(kv, ids, library.NONE, None)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        """A segment of the program; one of the host's for a grammar that is not the engine's or too large."""
        self._handle()
        if plan.matcher is None:
            return NativeDecode(self, own_kv(kv), ids, plan)
        grammar = self._grammar(plan.matcher)
        if grammar is None:
            return HostDecode(self, kv, ids, plan)
        return NativeDecode(self, own_kv(kv), ids, plan, grammar)

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        out = np.empty((len(ids), self._spec.vocab_size), np.float32)
        self._run(kv, ids, library.ALL, out)
        return out

    def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append ids; the logits [V] of the last."""
        out = np.empty(self._spec.vocab_size, np.float32)
        self._run(kv, ids, library.LAST, out)
        return out

    def close(self) -> None:
        if self._model is not None:
            self._c.kog_close(self._model)
        self._model = self._packed = None
        self._grammars.clear()

    def stops(self, ids: frozenset[int]) -> array[int]:
        """[V] bytes: 1 for these ids; not to be changed."""
        found = self._stops.get(ids)
        if found is None:
            if len(self._stops) >= _STOPS:
                self._stops.clear()
            vocab = self._spec.vocab_size
            found = self._stops[ids] = array("B", bytes(vocab))
            for i in ids:
                if 0 <= i < vocab:
                    found[i] = 1
        return found

    def _grammar(self, matcher: TokenMatcher) -> NativeGrammar | None:
        if not isinstance(matcher, Matcher):
            return None
        digest = matcher.grammar.digest
        if digest not in self._grammars:
            try:
                self._grammars[digest] = NativeGrammar(matcher.grammar)
            except SchemaError:  # too large for the tables
                self._grammars[digest] = None
            while len(self._grammars) > _GRAMMARS:
                self._grammars.popitem(last=False)
        self._grammars.move_to_end(digest)
        return self._grammars[digest]

    def _handle(self) -> int:
        if self._model is None:
            raise EngineClosedError("this backend is closed. Load the engine again.")
        return self._model

    def _run(self, kv: KV, ids: Sequence[int], want: int, out: npt.NDArray[np.float32] | None) -> None:
        model = self._handle()
        own = own_kv(kv)
        check_pending(kv, ids, self._spec.vocab_size)
        row = (ctypes.c_uint32 * len(ids))(*ids)
        stores = own.places
        to = None if out is None else out.ctypes.data
        if self._c.kog_run(model, *stores, kv.capacity, kv.length, row, len(ids), want, to) != 0:
            raise _no_memory(len(ids))
        self.advance(kv, len(ids))

    def run_segment(self, kv: KV, begin: int, segment: library.Segment) -> int:
        """Run a segment that began at position `begin`; why it came back. The cache is not counted on."""
        stores = own_kv(kv).places
        why: int = self._c.kog_run_segment(self._handle(), *stores, kv.capacity, begin, ctypes.byref(segment))
        if why == library.NO_MEMORY:
            raise _no_memory(segment.filled - segment.ran)
        return why

    def advance(self, kv: KV, rows: int) -> None:
        """Count rows whose keys and values have been written."""
        own_kv(kv).advance(rows)

    # ── loading ──

    def _open(self, table: LaneTable) -> int:
        spec, types = self._spec, self._types
        slots, free, count = _slots(table)
        landings = [landing for step in table.steps for landing in step.landings]
        first = [0]
        for step in table.steps:
            first.append(first[-1] + len(step.landings))

        def numbers(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
            return (ctypes.c_uint32 * max(1, len(values)))(*values)

        def floats(values: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
            return (ctypes.c_float * max(1, len(values)))(*values)

        frequencies = spec.rope_frequencies()
        shape = library.Shape(
            spec.vocab_size,
            spec.dim,
            spec.n_layers,
            spec.lanes,
            spec.n_heads,
            spec.n_kv_heads,
            spec.head_dim,
            spec.ffn_dim,
            library.HEADS[spec.head],
            library.TYPES[self._cache],
            self._threads,
            count,
            spec.norm_eps,
            numbers([library.TYPES[kind] for kind in (*chain(*types.layers), types.head)]),
            (ctypes.c_double * len(frequencies))(*frequencies),
            numbers(spec.windows),
            numbers(slots),
            numbers(free),
            numbers(first),
            numbers([landing.source for landing in landings]),
            floats([landing.own for landing in landings]),
            floats([landing.others for landing in landings]),
        )
        model: int | None = self._c.kog_open(ctypes.byref(shape))
        if model is None:
            size = types.packed_bytes(spec) / 1e9
            raise DeviceError(
                f"the CPU program found no memory for {size:.2f} GB of weights, or no {self._threads} "
                "threads. Free some, or load a smaller dtype."
            )
        return model


def own_kv(kv: KV) -> NativeKV:
    """The cache as this backend's own. Raises InputError for another's."""
    if not isinstance(kv, NativeKV):
        raise InputError(f"a {type(kv).__name__} belongs to another backend; use open_kv of this one")
    return kv


def _threads_for(spec: ModelSpec) -> int:
    """Every usable core, but no thread for less work than its part in the barriers costs."""
    return max(1, min(library.usable_cores(), spec.streamed_bytes(2.0) // _BYTES_A_THREAD))


def _tiles(n: int) -> int:
    return -(-n // _TILE)


def _slots(table: LaneTable) -> tuple[list[int], list[int], int]:
    """Where each module leaves its output; how many modules' landings must be over before it may; places.

    A place rests for some modules after its last landing, so that no lane waits for another to be done with
    it. A lane alone waits for nothing: there a place is used again at once.
    """
    rest = 4 if table.lanes > 1 else 0
    slots: list[int] = []
    free: list[int] = []
    last: list[int] = []  # of each place, the module after whose landings it is free; -1 while it waits
    for step in table.steps:
        found = next((i for i, end in enumerate(last) if end + rest < step.module), None)
        if found is None:
            found = len(last)
            last.append(-1)
            free.append(0)
        else:
            free.append(last[found] + 1)
        slots.append(found)
        last[found] = step.last_use
    return slots, free, len(last)


def _no_memory(rows: int) -> DeviceError:
    return DeviceError(f"the CPU program found no memory for a pass over {rows} ids")
