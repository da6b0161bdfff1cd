"""The cache of one sequence as one torch tensor, on any device. Knows shapes; no model, no sampling.

A fork shares the tensor. One of those that share it, its writer, goes on writing behind what the others
read; any other copies its rows into a tensor of its own before it first writes. Of a cache that never runs
on, and of one that outlives the others, no copy is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import torch

from kogagent.engine.backend import KV
from kogagent.engine.backends.host import check_rewind, fork_length
from kogagent.errors import EngineClosedError, InputError
from kogagent.spec import ModelSpec


class _Store:
    """A tensor [N, 2, K, capacity, h] on its device, or its first rows on the host while it is parked.

    users: by identity the rows each reads here. writer: the one that may write behind the others' rows.
    filled: rows that have ever been written: on a host, all that takes memory.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.tensor: torch.Tensor | None = torch.empty(shape, dtype=dtype, device=device)
        self.parked: torch.Tensor | None = None
        self.users: dict[int, int] = {}
        self.writer: int | None = None
        self.filled = 0

    def bytes_of(self, rows: int) -> int:
        """What so many rows take on the device."""
        capacity = self.shape[3]
        whole = math.prod(self.shape) * self.dtype.itemsize
        return whole if self.device.type != "cpu" else whole // capacity * rows

    @property
    def bytes(self) -> int:
        if self.parked is not None:
            return self.parked.numel() * self.parked.element_size()
        return 0 if self.tensor is None else self.bytes_of(self.filled)

    def park(self) -> None:
        """Rows that are read to the host, in memory that the device copies from at full speed."""
        assert self.tensor is not None
        layers, _, heads, _, h = self.shape
        rows = max(self.users.values(), default=0)
        pinned = self.device.type == "cuda"
        self.parked = torch.empty((layers, 2, heads, rows, h), dtype=self.dtype, pin_memory=pinned)
        for layer in range(layers):  # one by one: a strided copy passes through a buffer of its own
            self.parked[layer].copy_(self.tensor[layer, :, :, :rows], non_blocking=True)
        self._wait()
        self.tensor = None

    def restore(self) -> None:
        assert self.parked is not None
        self.tensor = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        rows = self.parked.shape[3]
        for layer in range(self.shape[0]):
            self.tensor[layer, :, :, :rows].copy_(self.parked[layer], non_blocking=True)
        self._wait()
        self.parked = None

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()


class TensorKV:
    """Keys and values [N, 2, K, capacity, h]. Windows are read from the full store, so that rewinding never
    loses a key; the memory of what is not filled is not touched."""

    def __init__(
        self,
        spec: ModelSpec,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        _of: TensorKV | None = None,
    ) -> None:
        self._spec, self._capacity, self._length = spec, capacity, 0
        self.device = device
        shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
        self._store: _Store | None = None
        if _of is None:
            self._store = _Store(shape, dtype, device)
            self._store.writer = id(self)
        else:
            self._store, self._length = _of._open, _of._length
        self._note()

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self._length = length
        self._note()

    def fork(self, length: int | None = None) -> TensorKV:
        length = fork_length(self, length)
        other = TensorKV(self._spec, self._capacity, self._open.dtype, self.device, _of=self)
        other.rewind(length)
        return other

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            _leave(store, id(self))

    def __del__(self) -> None:
        self.close()

    @property
    def store(self) -> torch.Tensor:
        """The tensor, to read and to write rows past the length; EngineClosedError after close."""
        store = self._open
        if store.tensor is None:
            store.restore()
        if self._may_write:
            store.writer = id(self)
        else:
            store = self._copied(store)
        assert store.tensor is not None
        return store.tensor

    @property
    def stores(self) -> list[torch.Tensor]:
        """`store` of each device."""
        return [self.store]

    def gather(self) -> None:
        """All rows to the first device, for what runs there alone. Here there is no other."""

    def scatter(self, rows: int) -> None:
        """The rows behind the length, which the first device has written, to the others."""

    def _copied(self, store: _Store) -> _Store:
        own = _Store(store.shape, store.dtype, store.device)
        assert own.tensor is not None and store.tensor is not None
        own.tensor[:, :, :, : self._length] = store.tensor[:, :, :, : self._length]
        own.writer = id(self)
        _leave(store, id(self))
        self._store = own
        self._note()
        return own

    # ── memory ──

    @property
    def memory(self) -> Mapping[Hashable, int]:
        return {} if self._store is None else {id(self._store): self._store.bytes}

    @property
    def parked(self) -> bool:
        return self._store is not None and self._store.parked is not None

    def park(self) -> bool:
        if not self.parked:
            self._open.park()
        return True

    def growth(self, length: int) -> int:
        store = self._open
        restored = store.bytes_of(store.filled) if store.tensor is None else 0
        if not self._may_write:
            return restored + store.bytes_of(length)
        return restored + max(0, store.bytes_of(length) - store.bytes_of(store.filled))

    # ── inside ──

    @property
    def _open(self) -> _Store:
        if self._store is None:
            raise EngineClosedError("this KV cache is closed. Open a new session.")
        return self._store

    @property
    def _may_write(self) -> bool:
        """Whether what it writes next is no row of another's."""
        store = self._open
        others = max((rows for user, rows in store.users.items() if user != id(self)), default=0)
        return store.writer in (None, id(self)) and others <= self._length

    def _note(self) -> None:
        if self._store is not None:
            self._store.users[id(self)] = self._length
            self._store.filled = max(self._store.filled, self._length)

    def advance(self, rows: int) -> None:
        """Count rows whose keys and values have been written in every layer."""
        self._length += rows
        self._note()


def _leave(store: _Store, user: int) -> None:
    store.users.pop(user, None)
    if store.writer == user:
        store.writer = None
    if not store.users:
        store.tensor = store.parked = None


def own_kv(kv: KV, device: torch.device) -> TensorKV:
    """The cache as one of this device. Raises InputError for another backend's."""
    if not isinstance(kv, TensorKV) or kv.device != device:
        raise InputError(f"a {type(kv).__name__} belongs to another backend; use open_kv of this one")
    return kv
