"""A checkpoint for the CPU program, packed once and found packed from then on. Knows a cache on disk.

What is kept is named by all that decides it: the checkpoint's files (path, size, time of change), the type,
the cores, the instruction set, and the sources of the program and of what reads checkpoints.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kogagent.disk_cache import Damaged, DiskCache, Found
from kogagent.engine.backends.native import Dtype, NativeBackend
from kogagent.engine.backends.native_weights import Packed, Types
from kogagent.engine.tensor import HostTensor
from kogagent.engine.weights import identity, load_checkpoint
from kogagent.errors import ConfigError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec, RopeScaling

KIND = "weights"


def open_prepared(path: Path, dtype: Dtype, disk: DiskCache) -> NativeBackend:
    """The backend of a checkpoint, of kept weights where there are any; else they are kept now.

    Raises what `load_checkpoint` and NativeBackend raise; nothing for what is wrong with the cache.
    """
    key = _key(path, dtype)
    found = disk.find(KIND, key)
    if found is not None:
        backend = _opened(found, dtype)
        if backend is not None:
            return backend
        disk.drop(found)
    checkpoint = load_checkpoint(path)
    backend = NativeBackend(checkpoint.spec, checkpoint.weights, dtype)
    packed = backend.packed
    parts: dict[str, Any] = {f"stream{i}": stream for i, stream in enumerate(packed.streams)}
    parts["vectors"] = packed.vectors
    if packed.table is not None:
        parts["table"] = packed.table.data
    meta = {
        "types": packed.types,
        "table": packed.table and packed.table.kind,
        "spec": dataclasses.asdict(checkpoint.spec),
        "threads": backend.threads,
        "program": backend.program,
        "error": packed.error,
        "model": str(path),
    }
    disk.put(KIND, key, meta, parts)
    return backend


def _key(path: Path, dtype: Dtype) -> str:
    told = (identity(path), dtype, library.usable_cores(), library.identity(), library.best_program())
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def _opened(found: Found, dtype: Dtype) -> NativeBackend | None:
    """The backend of a file; None where that is not what this program would have packed."""
    meta = found.meta
    try:
        streams = tuple(found.part(f"stream{i}") for i in range(meta["threads"]))
        table = None if meta["table"] is None else HostTensor(meta["table"], found.part("table"))
        layers, head = meta["types"]
        types = Types(tuple(tuple(layer) for layer in layers), head)
        packed = Packed(types, streams, found.part("vectors"), table, meta["error"])
        return NativeBackend(_spec(meta["spec"]), packed, dtype, threads=meta["threads"])
    except (Damaged, ConfigError, KeyError, TypeError):
        return None


def _spec(told: Mapping[str, Any]) -> ModelSpec:
    """A spec from the JSON of its fields. Raises TypeError for other fields, ConfigError for their values."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in told.items()
    }
    if fields["rope_scaling"] is not None:
        fields["rope_scaling"] = RopeScaling(**fields["rope_scaling"])
    return ModelSpec(**fields)
