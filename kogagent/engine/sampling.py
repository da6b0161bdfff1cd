"""Choosing the next token from logits: Gumbel-max keyed by (seed, position, token). Knows no model.

The noise of a token is a pure function of (seed, position, token id), so that one GPU, eight GPUs and a CPU
draw the same token from the same logits, whatever the order in which they look at the vocabulary. The CUDA
twin is csrc/head.cuh; both must change together.

    key  = splitmix64(seed xor splitmix64(position))          once a position
    bits = mix(mix(token xor low32(key)) + high32(key))       mix: the "lowbias32" integer hash
    u    = (bits + 0.5) / 2**32, in (0, 1)
    G    = -log(-log(u))
    id   = argmax over kept tokens of logit / temperature + G (ties: the lowest id)

`position` is the index the drawn id gets in its sequence: the number of ids before it.

Order: repetition penalty, mask, temperature, top-k, top-p, min-p, draw. Greedy is temperature 0 and stops after
the mask. Each filter is a threshold, so that it needs no order among equals:
    top-k  keeps z_i >= the k-th largest z (equals of the k-th all stay)
    top-p  keeps i while the mass of tokens with larger z is < top_p (softmax over what top-k left)
    min-p  keeps z_i >= max z + log(min_p)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kogagent.errors import InputError

_M64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a token is drawn. The default is greedy.

    temperature >= 0, 0 is greedy; top_k >= 0, 0 keeps all; 0 < top_p <= 1; 0 <= min_p <= 1;
    repetition_penalty > 0 divides positive and multiplies negative logits of ids in the history;
    seed in 0 .. 2**64-1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        def check(ok: bool, field: str, rule: str) -> None:
            if not ok:
                raise InputError(f"SamplingParams.{field}={getattr(self, field)!r}: {rule}")

        check(
            math.isfinite(self.temperature) and self.temperature >= 0,
            "temperature",
            "must be a number >= 0",
        )
        check(
            isinstance(self.top_k, int) and self.top_k >= 0,
            "top_k",
            "must be an integer >= 0 (0 keeps all)",
        )
        check(0 < self.top_p <= 1, "top_p", "must lie in (0, 1]")
        check(0 <= self.min_p <= 1, "min_p", "must lie in [0, 1]")
        check(
            math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0,
            "repetition_penalty",
            "must be a number > 0 (1 changes nothing)",
        )
        check(
            isinstance(self.seed, int) and 0 <= self.seed <= _M64,
            "seed",
            "must be an integer in 0 .. 2**64-1",
        )


def _splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _M64
    return x ^ (x >> 31)


def _mix(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def noise_key(seed: int, position: int) -> tuple[int, int]:
    """(low, high) 32-bit halves of the key of one position."""
    key = _splitmix64(seed ^ _splitmix64(position))
    return key & 0xFFFFFFFF, key >> 32


def gumbel(seed: int, position: int, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    """Standard Gumbel noise of each token id at one position. ids [n] -> [n], FP32."""
    low, high = noise_key(seed, position)
    bits = _mix(_mix(ids.astype(np.uint32) ^ np.uint32(low)) + np.uint32(high))
    u = (bits.astype(np.float64) + 0.5) * 2.0**-32
    return (-np.log(-np.log(u))).astype(np.float32)
