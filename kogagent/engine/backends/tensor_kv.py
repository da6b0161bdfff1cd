"""The cache of one sequence as one torch tensor, on any device. Knows shapes; no model, no sampling."""

from __future__ import annotations

import torch

from kogagent.engine.backend import KV
from kogagent.engine.backends.host import check_rewind
from kogagent.errors import EngineClosedError, InputError
from kogagent.spec import ModelSpec


class TensorKV:
    """Keys and values [N, 2, K, capacity, h]. Windows are read from the full store, so that rewinding never
    loses a key; the memory of what is not filled is not touched."""

    def __init__(self, spec: ModelSpec, capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        self._spec, self._capacity, self._length = spec, capacity, 0
        self.device = device
        shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
        self._store: torch.Tensor | None = torch.empty(shape, dtype=dtype, device=device)

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self._length = length

    def fork(self) -> TensorKV:
        store = self.store
        other = TensorKV(self._spec, self._capacity, store.dtype, self.device)
        other.store[:, :, :, : self._length] = store[:, :, :, : self._length]
        other._length = self._length
        return other

    def close(self) -> None:
        self._store = None

    @property
    def store(self) -> torch.Tensor:
        """The tensor itself; EngineClosedError after close."""
        if self._store is None:
            raise EngineClosedError("this KV cache is closed. Open a new session.")
        return self._store

    def advance(self, rows: int) -> None:
        """Count rows whose keys and values have been written in every layer."""
        self._length += rows


def own_kv(kv: KV, device: torch.device) -> TensorKV:
    """The cache as one of this device. Raises InputError for another backend's."""
    if not isinstance(kv, TensorKV) or kv.device != device:
        raise InputError(f"a {type(kv).__name__} belongs to another backend; use open_kv of this one")
    return kv
