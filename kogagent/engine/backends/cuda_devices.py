"""What a model on several GPUs needs of the host: cards, lanes, a cache on each. No kernel, no ids.

Each card keeps a cache of the whole shape. Decoding writes a lane's keys and values on the card that has the
lane, pre-fill runs on the first card alone: rows are copied to where they are needed before either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from kogagent.engine.backends.host import fork_length
from kogagent.engine.backends.tensor_kv import TensorKV
from kogagent.errors import ConfigError, InputError
from kogagent.spec import ModelSpec


def choose_cards(numbers: Sequence[int]) -> list[torch.device]:
    """The cards of these numbers, the current one for none. A number given twice is a card with two parts.

    Raises InputError for a card that is not there, and for cards that differ: all would wait for the slowest.
    """
    if not numbers:
        return [torch.device("cuda", torch.cuda.current_device())]
    count = torch.cuda.device_count()
    missing = [n for n in numbers if not 0 <= n < count]
    if missing:
        raise InputError(f"there is no cuda device {missing[0]}: this machine has {count}, numbered from 0")

    def kind(number: int) -> tuple[Any, ...]:
        card: Any = torch.cuda.get_device_properties(number)
        return card.name, card.multi_processor_count, card.shared_memory_per_block_optin

    for number in numbers[1:]:
        if kind(number) != kind(numbers[0]):
            raise InputError(
                f"cuda devices {numbers[0]} ({kind(numbers[0])[0]}) and {number} ({kind(number)[0]}) differ: "
                "a model is spread over equal cards"
            )
    return [torch.device("cuda", n) for n in numbers]


def spread(spec: ModelSpec, devices: int) -> ModelSpec:
    """The same model with a lane or more for each device. A plain transformer is cut by tensor parallelism.

    Raises ConfigError naming what cannot be dealt evenly.
    """
    if spec.lanes > 1 or devices == 1:
        if spec.lanes % devices:
            raise ConfigError(
                f"{spec.name or 'the model'} has {spec.lanes} lanes: they cannot be dealt evenly to "
                f"{devices} devices. Choose a number of devices that divides {spec.lanes}."
            )
        return spec
    for field in ("n_heads", "n_kv_heads", "ffn_dim"):
        value = getattr(spec, field)
        if value % devices:
            raise ConfigError(
                f"{field}={value} cannot be dealt evenly to {devices} devices. "
                "Choose a number of devices that divides it."
            )
    # All lanes' streams are alike, so that every head gives the same.
    even = spec.vocab_size % devices == 0
    return dataclasses.replace(spec, lanes=devices, head="vocab_parallel" if even else "replicate")


def cut_tensors(
    spec: ModelSpec, target: ModelSpec, tensors: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Tensors of `spec` as those of `spread(spec, ..)`: views wherever the order allows."""
    if spec.lanes == target.lanes:
        return dict(tensors)
    shapes = target.tensors()
    out = {}
    for name, tensor in tensors.items():
        shape = shapes[name]
        if name.endswith((".wo", ".w2")):  # [1, D, columns]: a lane's columns
            lanes, dim, columns = shape
            out[name] = tensor.view(dim, lanes, columns).transpose(0, 1).contiguous()
        else:
            out[name] = tensor.view(shape)
    return out


class SpreadKV(TensorKV):
    """One sequence's cache on several devices; `store` is the first one's.

    A device has the rows of its own lanes. The first one has all lanes' rows up to what was last gathered.
    """

    def __init__(
        self,
        spec: ModelSpec,
        capacity: int,
        dtype: torch.dtype,
        devices: Sequence[torch.device],
        *,
        _of: SpreadKV | None = None,
    ) -> None:
        self._others: list[TensorKV] = []
        super().__init__(spec, capacity, dtype, devices[0], _of=_of)
        self._devices = list(devices)
        if _of is None:
            self._others = [TensorKV(spec, capacity, dtype, device) for device in devices[1:]]
            self._gathered = 0
        else:
            self._others = [other.fork() for other in _of._others]
            self._gathered = _of._gathered

    @property
    def stores(self) -> list[torch.Tensor]:
        return [self.store, *(other.store for other in self._others)]

    def _heads(self, rank: int) -> slice:
        each = self._spec.n_kv_heads // len(self._devices)
        return slice(rank * each, (rank + 1) * each)

    def gather(self) -> None:
        if self._gathered < self._length:
            first, *others = self.stores
            for rank, store in enumerate(others, start=1):
                at = (slice(None), slice(None), self._heads(rank), slice(self._gathered, self._length))
                first[at] = store[at].to(first.device)
        self._gathered = self._length

    def scatter(self, rows: int) -> None:
        first, *others = self.stores
        for rank, store in enumerate(others, start=1):
            at = (slice(None), slice(None), self._heads(rank), slice(self._length, self._length + rows))
            store[at] = first[at].to(store.device)
        self._gathered = self._length + rows

    def advance(self, rows: int) -> None:
        super().advance(rows)
        for other in self._others:
            other.advance(rows)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        for other in self._others:
            other.rewind(length)
        self._gathered = min(self._gathered, length)

    def fork(self, length: int | None = None) -> SpreadKV:
        length = fork_length(self, length)
        other = SpreadKV(self._spec, self._capacity, self._open.dtype, self._devices, _of=self)
        other.rewind(length)
        return other

    def close(self) -> None:
        super().close()
        for other in self._others:
            other.close()

    @property
    def memory(self) -> Mapping[Hashable, int]:
        parts = dict(super().memory)
        for other in self._others:
            parts |= other.memory
        return parts

    def park(self) -> bool:
        for other in self._others:
            other.park()
        return super().park()

    def growth(self, length: int) -> int:
        return super().growth(length) + sum(other.growth(length) for other in self._others)
