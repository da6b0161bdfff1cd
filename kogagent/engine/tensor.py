"""A tensor in memory, without torch: numpy's numbers, BF16 as its bits, or quantised blocks. Knows no model
and no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kogagent.engine.formats.blocks import FORMATS, BlockKind, Format

if TYPE_CHECKING:
    import torch

Kind: TypeAlias = Literal["float32", "float16", "bfloat16"]

STORED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),  # its bits: numpy has no such type
}
_BITS: dict[str, tuple[type[np.unsignedinteger[Any]], int]] = {  # as integers, and infinity among them
    "float32": (np.uint32, 0x7F800000),
    "float16": (np.uint16, 0x7C00),
    "bfloat16": (np.uint16, 0x7F80),
}
_AT_ONCE = 1 << 18  # numbers looked at in one go: they stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class HostTensor:
    """kind: what the numbers are; data: how they lie, of the type STORED says. Of blocks, bytes [..., bytes
    of a row]."""

    kind: Kind | BlockKind
    data: npt.NDArray[Any]

    @property
    def blocks(self) -> Format | None:
        """None for numbers."""
        return FORMATS.get(self.kind)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers."""
        blocks = self.blocks
        return self.data.shape if blocks is None else (*self.data.shape[:-1], blocks.columns(self.data))

    def reshaped(self, shape: Sequence[int]) -> HostTensor:
        """The same numbers; blocks keep their rows."""
        last = shape[-1] if self.blocks is None else -1
        return HostTensor(self.kind, self.data.reshape(*shape[:-1], last))

    def plain(self) -> HostTensor:
        """Blocks as FP16 numbers, which takes time and memory; numbers as they are."""
        blocks = self.blocks
        return self if blocks is None else HostTensor("float16", blocks.numbers(self.data))

    def is_finite(self) -> bool:
        """Neither NaN nor infinity anywhere, in blocks nothing beyond FP16's range."""
        if self.blocks is not None:
            return self.blocks.is_finite(self.data)
        kind, infinity = _BITS[self.kind]
        bits = np.ascontiguousarray(self.data).reshape(-1).view(kind)
        below = (1 << (8 * bits.itemsize - 1)) - 1  # every bit but the sign's
        return all(
            int((bits[i : i + _AT_ONCE] & below).max()) < infinity for i in range(0, len(bits), _AT_ONCE)
        )

    def float32(self) -> npt.NDArray[np.float32]:
        """The numbers, in memory of their own unless they are FP32 already."""
        if self.kind == "bfloat16":
            return (self.data.astype(np.uint32) << 16).view(np.float32)
        return self.plain().data.astype(np.float32, copy=False)

    def torch(self) -> torch.Tensor:
        """The same memory as a tensor of torch; blocks as FP16, in memory of its own."""
        import torch

        if self.kind == "bfloat16":
            return torch.from_numpy(self.data.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(self.plain().data)


Weight: TypeAlias = "HostTensor | torch.Tensor"
"""What a checkpoint holds: files give the first, random weights and tests the second."""


def on_host(tensor: Weight) -> HostTensor:
    """A tensor as numpy has it, in the same memory where torch keeps it contiguous and on the host."""
    if isinstance(tensor, HostTensor):
        return tensor
    import torch

    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return HostTensor("bfloat16", tensor.view(torch.int16).numpy().view(np.uint16))
    if tensor.dtype == torch.float16:
        return HostTensor("float16", tensor.numpy())
    return HostTensor("float32", tensor.float().numpy())
