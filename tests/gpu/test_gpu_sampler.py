"""The in-kernel sampler draws from the distribution it is asked for: a million draws from known logits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from test_cuda_kernel import make_kernel, poisoned_cache, run

from kogagent.engine.sampling import SamplingParams
from kogagent.engine.weights import random_tensors
from kogagent.kernels.segment import Segment
from kogagent.testing.backends import TINY

SPEC = dataclasses.replace(TINY, name="one layer", n_layers=1, windows=(8,), context=1 << 17)
BUILDS = [(SPEC, (1,), False)]
CASES = [
    (SamplingParams(temperature=1.0), 600_000),
    (SamplingParams(temperature=0.6, top_k=9), 80_000),
    (SamplingParams(temperature=1.4, top_p=0.7), 80_000),
    (SamplingParams(temperature=1.2, min_p=0.15), 80_000),
    (SamplingParams(temperature=0.9, repetition_penalty=1.6), 80_000),
    (SamplingParams(temperature=1.1, top_k=30, top_p=0.85, min_p=0.05, repetition_penalty=0.7), 80_000),
]


def distribution(logits: npt.NDArray[np.float32], sampling: SamplingParams) -> npt.NDArray[np.float64]:
    """What one draw must follow when every id has been seen, written down again from its definition."""
    x = logits.astype(np.float64)
    penalty = sampling.repetition_penalty
    z = np.where(x > 0, x / penalty, x * penalty) / sampling.temperature
    keep = np.ones(len(z), dtype=np.bool_)
    if sampling.top_k:
        keep &= z >= np.sort(z)[-sampling.top_k]
    weights = np.where(keep, np.exp(z - z.max()), 0.0)
    if sampling.top_p < 1:
        larger = np.array([weights[z > value].sum() for value in z])
        keep &= larger < sampling.top_p * weights.sum()
    keep &= z >= z.max() + (math.log(sampling.min_p) if sampling.min_p else -math.inf)
    weights = np.where(keep, weights, 0.0)
    out: npt.NDArray[np.float64] = weights / weights.sum()
    return out


@pytest.mark.parametrize("sampling, draws", CASES, ids=lambda value: str(value)[:60])
def test_draws_follow_the_distribution(
    sampling: SamplingParams, draws: int, rng: np.random.Generator, figures: Callable[[str], None]
) -> None:
    tensors = {n: t.half() for n, t in random_tensors(SPEC, int(rng.integers(2**31))).items()}
    tensors["embed"][:] = tensors["embed"][0]  # every id gives the same stream,
    tensors["layers.0.wo"].zero_()  # to which no module adds:
    tensors["layers.0.w2"].zero_()  # every position has the same logits
    kernel, kv = make_kernel(SPEC, tensors), poisoned_cache(SPEC)
    run(kernel, Segment([0], 0), kv, logits=True)
    expected = distribution(kernel.logits(), sampling)
    observed = np.zeros(SPEC.vocab_size, dtype=np.int64)
    while draws:
        segment = Segment(
            [0],
            0,
            max_tokens=min(draws, SPEC.context - 1),
            seed=int(rng.integers(2**63)),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            penalty=sampling.repetition_penalty,
            history=range(SPEC.vocab_size),
        )
        ids = [token.id for token in run(kernel, segment, kv)]
        assert len(ids) == segment.max_tokens
        observed += np.bincount(ids, minlength=SPEC.vocab_size)
        draws -= len(ids)
    assert int(observed[expected == 0].sum()) == 0, "a filtered id was drawn"
    mean = expected * observed.sum()
    common = mean >= 5
    cells = np.append(mean[common], mean[~common].sum())
    counts = np.append(observed[common], observed[~common].sum())
    there = cells > 0
    chi = float(((counts[there] - cells[there]) ** 2 / cells[there]).sum())
    freedom = int(there.sum()) - 1
    deviate = ((chi / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / math.sqrt(2 / (9 * freedom))
    figures(f"{sampling}: chi-square {chi:.1f} of {freedom} degrees, {deviate:+.2f} standard deviations")
    assert deviate < 6  # Wilson-Hilferty: a fair sampler is beyond once in a thousand million runs
    assert not torch.isnan(kv[:, :, :, 0]).any()
