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

Order: repetition penalty, mask, temperature, top-k, top-p, min-p, draw. Greedy is temperature 0 and stops
after the mask. Each filter is a threshold, so that it needs no order among equals:
    top-k  keeps z_i >= the k-th largest z (equals of the k-th all stay)
    top-p  keeps i while the mass of tokens with larger z is < top_p (softmax over what top-k left)
    min-p  keeps z_i >= max z + log(min_p)
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from kogagent.errors import ModelError
from kogagent.sampling import SamplingParams

__all__ = ["SamplingParams", "choose", "gumbel", "legal_mask", "log_softmax_at", "noise_key", "splitmix64"]

_M64 = (1 << 64) - 1
_ILLEGAL_LEGAL = np.array([-np.inf, 0.0], dtype=np.float32)


def splitmix64(x: int) -> int:
    """One step of the generator of that name: a mixed 64-bit integer."""
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
    key = splitmix64(seed ^ splitmix64(position))
    return key & 0xFFFFFFFF, key >> 32


def gumbel(seed: int, position: int, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    """Standard Gumbel noise of each token id at one position. ids [n] -> [n], FP32."""
    low, high = noise_key(seed, position)
    bits = _mix(_mix(ids.astype(np.uint32) ^ np.uint32(low)) + np.uint32(high))
    u = (bits.astype(np.float64) + 0.5) * 2.0**-32
    return (-np.log(-np.log(u))).astype(np.float32)


def legal_mask(mask: npt.NDArray[np.uint32], size: int) -> npt.NDArray[np.bool_]:
    """Bits of a token bit set as booleans [size]; ids past the end of the set are not legal."""
    bits = np.unpackbits(np.ascontiguousarray(mask, dtype="<u4").view(np.uint8), bitorder="little")
    legal = np.zeros(size, dtype=np.bool_)
    legal[: min(size, bits.size)] = bits[:size]
    return legal


def log_softmax_at(logits: npt.NDArray[np.float32], token: int) -> float:
    """Log-probability of one id under the whole row of logits."""
    top = logits.max()
    return float(logits[token] - top) - math.log(float(np.exp(logits - top).sum(dtype=np.float64)))


def choose(
    logits: npt.NDArray[np.float32],
    params: SamplingParams,
    position: int,
    seen: npt.NDArray[np.bool_] | None = None,
    mask: npt.NDArray[np.uint32] | None = None,
    legal_ids: int = 0,
) -> tuple[int, float]:
    """The id at `position`, and its log-probability under the model's own logits.

    logits [V]; seen [V] marks ids whose repetition is penalised, unread when the penalty is 1; mask: bit
    set of legal ids, None for all; ids at or above legal_ids never (0: V). Changes none of its arguments.
    Raises ModelError for NaN or infinite logits, and when no legal id has a finite logit.
    """
    top = logits.max()  # NaN wins a maximum
    if not math.isfinite(top):
        _refuse(logits, position)
    size = min(legal_ids, logits.size) if legal_ids else logits.size
    x = logits[:size]
    if params.repetition_penalty != 1.0 and seen is not None:
        x = _penalised(x, seen[:size], params.repetition_penalty)
    if mask is not None:
        legal = legal_mask(mask, size)
        if not legal.any():
            raise ModelError(f"no id is legal at position {position}: the grammar allows nothing here")
        x = x + np.take(_ILLEGAL_LEGAL, legal.view(np.uint8))  # branch-free: four times np.where
    token = int(x.argmax())
    if not np.isfinite(x[token]):
        raise ModelError(f"no legal id at position {position} has a finite logit")
    if params.temperature > 0.0:
        token = _draw(x, x[token], params, position)
    return token, log_softmax_at(logits, token)


def _draw(x: npt.NDArray[np.float32], top: np.float32, params: SamplingParams, position: int) -> int:
    """The id drawn from x [V], -inf where an id is not legal; top is its largest, finite."""
    temperature = np.float32(params.temperature)
    ids = np.flatnonzero(x > -np.inf)
    z = x[ids] / temperature
    keep = z >= _threshold(z, top / temperature, params)
    ids, z = ids[keep], z[keep]
    return int(ids[(z + gumbel(params.seed, position, ids)).argmax()])


def _threshold(z: npt.NDArray[np.float32], top: np.float32, params: SamplingParams) -> np.float32:
    """The smallest z that top-k, top-p and min-p all keep."""
    least = np.float32(-np.inf)
    if 0 < params.top_k < z.size:
        least = np.partition(z, z.size - params.top_k)[z.size - params.top_k]
    if params.top_p < 1.0:
        falling = np.sort(z[z >= least])[::-1]
        mass = np.cumsum(np.exp(falling - top, dtype=np.float64))
        # Past the first place where the mass reaches top_p, only equals of that place stay.
        last = int(np.searchsorted(mass, params.top_p * mass[-1]))
        least = falling[min(last, falling.size - 1)]
    if params.min_p > 0.0:
        least = max(least, np.float32(top + np.float32(math.log(params.min_p))))
    return least


def _penalised(
    x: npt.NDArray[np.float32], seen: npt.NDArray[np.bool_], penalty: float
) -> npt.NDArray[np.float32]:
    x = x.copy()
    old = x[seen]
    x[seen] = np.where(old > 0, old / np.float32(penalty), old * np.float32(penalty))
    return x


def _refuse(logits: npt.NDArray[np.float32], position: int) -> NoReturn:
    nan = np.flatnonzero(np.isnan(logits))
    if nan.size:
        raise ModelError(
            f"the logits at position {position} are NaN for {nan.size} of {logits.size} ids, first {nan[0]}. "
            "The weights hold NaN or overflow in this dtype: check the checkpoint, or load it in float32."
        )
    if np.isposinf(logits).any():
        raise ModelError(
            f"the logit of id {int(logits.argmax())} at position {position} is infinite: the model overflows"
            " in this dtype. Load it in float32."
        )
    raise ModelError(f"every logit at position {position} is -inf: the model gives no next id")
