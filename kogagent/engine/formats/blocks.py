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
        return dequantised(self.code, data, (*data.shape[:-1], self.columns(data)))


FORMATS: dict[str, Format] = {
    "q8_0": Format(8, 34, 0, False, 128),
    "q4_0": Format(2, 18, 8, False, 8),
    "q4_1": Format(3, 20, 0, True, 15),
}


def _halves(blocks: Bytes, at: int) -> npt.NDArray[np.float32]:
    """The FP16 number at a place of each block [..., size]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0].astype(np.float32)


def dequantised(code: int, data: Bytes, shape: tuple[int, ...]) -> npt.NDArray[np.float16]:
    """Quantised data of GGML's type `code` as numbers of this shape, each rounded once; infinite beyond FP16.

    The CPU program, where it was built, knows blocks of 32 and is ten times as fast; the package `gguf`,
    which reads such files, gives the same bits.
    """
    out = np.empty(shape, np.float16)
    data = np.ascontiguousarray(data)
    if library.missing() is None:
        places = (data.ctypes.data, out.size // NUMBERS, out.ctypes.data)
        if library.load().kog_dequantise(code, *places, library.usable_cores()):
            return out
    import gguf

    with np.errstate(over="ignore"):
        rows = gguf.dequantize(data.reshape(*shape[:-1], -1), gguf.GGMLQuantizationType(code))
        return rows.reshape(shape).astype(np.float16)
