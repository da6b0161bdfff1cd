"""Quantised tensors as GGUF files have them: rows of blocks of 32 or 256 numbers. Knows no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from kogagent.kernels.cpu import library

BlockKind: TypeAlias = Literal["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"]
BLOCK_KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Format:
    """How a block lies; what its numbers are, kernels/cpu/src/blocks.h says."""

    code: int
    """GGML's number of the type."""
    count: int
    """Numbers of a block."""
    size: int
    """Bytes of it."""
    shared: tuple[tuple[int, int], ...]
    """FP16 numbers it has: where, and what they are multiplied by at most; their sum bounds every number."""

    def columns(self, data: Bytes) -> int:
        """Numbers of a row of data [..., row bytes]."""
        return int(data.shape[-1]) // self.size * self.count

    def is_finite(self, data: Bytes) -> bool:
        """Whether no number is NaN or beyond FP16's range; by what a block shares alone."""
        blocks = data.reshape(-1, self.size)
        with np.errstate(invalid="ignore"):
            sizes = sum(np.abs(_halves(blocks, at)) * most for at, most in self.shared)
        return bool((sizes < np.finfo(np.float16).max).all())  # false for NaN

    def numbers(self, data: Bytes) -> npt.NDArray[np.float16]:
        """data [..., row bytes] as [..., columns], each rounded once; infinite beyond FP16.

        The CPU program, where it was built, is ten times as fast; the package `gguf`, which reads such files,
        gives the same bits.
        """
        out = np.empty((*data.shape[:-1], self.columns(data)), np.float16)
        data = np.ascontiguousarray(data)
        if library.missing() is None:
            count, cores = out.size // self.count, library.usable_cores()
            library.load().kog_dequantise(self.code, data.ctypes.data, count, out.ctypes.data, cores)
            return out
        import gguf

        with np.errstate(over="ignore"):
            rows = gguf.dequantize(data, gguf.GGMLQuantizationType(self.code))
            return rows.reshape(out.shape).astype(np.float16)


FORMATS: dict[str, Format] = {
    "q4_0": Format(2, 32, 18, ((0, 8),)),
    "q4_1": Format(3, 32, 20, ((0, 15), (2, 1))),
    "q5_0": Format(6, 32, 22, ((0, 16),)),
    "q5_1": Format(7, 32, 24, ((0, 31), (2, 1))),
    "q8_0": Format(8, 32, 34, ((0, 128),)),
    "q4_k": Format(12, 256, 144, ((0, 63 * 15), (2, 63))),
    "q5_k": Format(13, 256, 176, ((0, 63 * 31), (2, 63))),
    "q6_k": Format(14, 256, 210, ((208, 128 * 32),)),
}


def _halves(blocks: Bytes, at: int) -> npt.NDArray[np.float32]:
    """The FP16 number at a place of each block [..., size]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0].astype(np.float32)
