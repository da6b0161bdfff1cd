"""Quantised tensors as GGUF files have them: rows of blocks, 32 numbers with one scale. Knows no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kogagent.kernels.cpu import library

BlockKind: TypeAlias = Literal["q8_0", "q4_0", "q4_1"]
Bytes: TypeAlias = npt.NDArray[np.uint8]

NUMBERS = 32
"""Of a block."""


@dataclass(frozen=True, slots=True)
class Format:
    """A block is an FP16 scale, then, with `least`, an FP16 number that is added, then the integers: bytes,
    or halves of bytes, the first 16 in the low ones. A number is scale * (integer - zero) + least."""

    code: int
    """GGML's number of the type."""
    size: int
    """Bytes of a block."""
    zero: int
    least: bool
    largest: int
    """Of |integer - zero|."""

    def columns(self, data: Bytes) -> int:
        """Numbers of a row of data [..., row bytes]."""
        return int(data.shape[-1]) // self.size * NUMBERS

    def is_finite(self, data: Bytes) -> bool:
        """Whether no number is NaN or beyond FP16's range; by the scales alone."""
        blocks = data.reshape(-1, self.size)
        with np.errstate(invalid="ignore"):
            sizes = np.abs(_halves(blocks, 0)) * self.largest
            if self.least:
                sizes += np.abs(_halves(blocks, 2))
        return bool((sizes < np.finfo(np.float16).max).all())  # false for NaN

    def with_least(self, data: Bytes) -> Bytes:
        """Blocks whose integers stand around `zero`, -8 .. 7, as q4_1 has them: the same numbers."""
        blocks = data.reshape(*data.shape[:-1], -1, self.size)
        least = (_halves(blocks, 0) * -self.zero).astype("<f2")[..., None].view(np.uint8)
        return np.concatenate([blocks[..., :2], least, blocks[..., 2:]], -1).reshape(*data.shape[:-1], -1)

    def numbers(self, data: Bytes) -> npt.NDArray[np.float16]:
        """data [..., row bytes] as [..., columns], each rounded once."""
        whole = np.ascontiguousarray(data)
        out = np.empty((*data.shape[:-1], self.columns(data)), np.float16)
        if library.missing() is None:
            places = (whole.ctypes.data, out.size // NUMBERS, out.ctypes.data)
            library.load().kog_dequantise(self.code, *places, library.usable_cores())
            return out
        blocks = whole.reshape(-1, self.size)
        if self.size - 2 == NUMBERS:
            integers = blocks[:, 2:].view(np.int8).astype(np.float32)
        else:
            pairs = blocks[:, -NUMBERS // 2 :]
            integers = np.concatenate([pairs & 15, pairs >> 4], 1).astype(np.float32) - self.zero
        found = integers * _halves(blocks, 0)[:, None]
        if self.least:
            found += _halves(blocks, 2)[:, None]
        return found.astype(np.float16).reshape(out.shape)


FORMATS: dict[str, Format] = {
    "q8_0": Format(8, 34, 0, False, 128),
    "q4_0": Format(2, 18, 8, False, 8),
    "q4_1": Format(3, 20, 0, True, 15),
}


def _halves(blocks: Bytes, at: int) -> npt.NDArray[np.float32]:
    """The FP16 number at a place of each block [..., size]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0].astype(np.float32)
