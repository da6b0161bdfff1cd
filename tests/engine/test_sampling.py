"""Choosing a token: against an independent implementation, and against the distribution it draws from."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.engine.sampling import SamplingParams, choose, gumbel, legal_mask, log_softmax_at
from kogagent.errors import InputError, ModelError

Row = npt.NDArray[np.float32]


def bit_set(legal: set[int], vocab: int) -> npt.NDArray[np.uint32]:
    words = np.zeros((vocab + 31) // 32, dtype=np.uint32)
    for i in legal:
        words[i // 32] |= np.uint32(1 << (i % 32))
    return words


ROUNDING = 1e-5  # more than FP32 makes of the logits here, of their sums and probabilities


def kept_by_definition(
    row: Row, params: SamplingParams, seen: set[int], legal: set[int] | None, slack: float
) -> list[int]:
    """The ids the filters keep, written from their definitions, one id at a time, in double precision.
    slack: by how much each threshold is moved, to let more ids through."""
    z: dict[int, float] = {}
    for i, value in enumerate(row.tolist()):
        if legal is not None and i not in legal:
            continue
        if i in seen:
            value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        z[i] = value / params.temperature
    if params.top_k and params.top_k < len(z):
        kth = sorted(z.values(), reverse=True)[params.top_k - 1]
        z = {i: v for i, v in z.items() if v >= kth - max(slack, 0)}
    top = max(z.values())
    total = sum(math.exp(v - top) for v in z.values())
    probability = {i: math.exp(v - top) / total for i, v in z.items()}
    if params.top_p < 1:
        larger = {i: sum(p for j, p in probability.items() if z[j] > v) for i, v in z.items()}
        z = {i: v for i, v in z.items() if v == top or larger[i] < params.top_p + slack}
    return [i for i, v in z.items() if v == top or math.exp(v - top) >= params.min_p - slack]


def splitmix64(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def noise_of_many_positions(
    seed: int, positions: npt.NDArray[np.uint64], vocab: int
) -> npt.NDArray[np.float64]:
    """[positions, vocab]: the noise written a second time, all positions at once."""

    def mix(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))

    key = splitmix64(np.uint64(seed) ^ splitmix64(positions))
    low, high = (key & np.uint64(0xFFFFFFFF)).astype(np.uint32), (key >> np.uint64(32)).astype(np.uint32)
    ids = np.arange(vocab, dtype=np.uint32)
    bits = mix(mix(ids[None, :] ^ low[:, None]) + high[:, None])
    return -np.log(-np.log((bits.astype(np.float64) + 0.5) / 2.0**32))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_a_million_draws_follow_the_softmax(temperature: float, rng: np.random.Generator) -> None:
    vocab, draws = 12, 1_000_000
    row = rng.uniform(-2, 2, vocab).astype(np.float32)  # each is expected often enough for a chi-square
    seed = int(rng.integers(2**63))
    z = row / np.float32(temperature)
    counts = np.zeros(vocab)
    for start in range(0, draws, 100_000):
        positions = np.arange(start, start + 100_000, dtype=np.uint64)
        counts += np.bincount(
            (z + noise_of_many_positions(seed, positions, vocab)).argmax(1), minlength=vocab
        )
    expected = np.exp(z - z.max(), dtype=np.float64)
    expected *= draws / expected.sum()
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # 11 degrees of freedom: 52.4 is passed by chance once in four million runs.
    assert chi_square < 52.4, f"chi-square {chi_square:.1f} with counts {counts} for {expected}"


def test_the_vectorised_noise_and_choose_draw_the_same_ids(rng: np.random.Generator) -> None:
    vocab, seed = 40, int(rng.integers(2**63))
    row = rng.normal(0, 2, vocab).astype(np.float32)
    noise = noise_of_many_positions(seed, np.arange(500, dtype=np.uint64), vocab)
    for position in range(500):
        mine = gumbel(seed, position, np.arange(vocab))
        np.testing.assert_allclose(mine, noise[position], rtol=1e-6, atol=1e-6)
        token, _ = choose(row, SamplingParams(temperature=1.0, seed=seed), position)
        assert token == int((row + mine).argmax())


def test_draws_of_neighbouring_positions_ids_and_seeds_are_independent(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**62))
    noise = noise_of_many_positions(seed, np.arange(100_000, dtype=np.uint64), 8)
    flat = np.concatenate(
        [noise, noise_of_many_positions(seed + 1, np.arange(100_000, dtype=np.uint64), 8)], axis=1
    )
    shifted = np.concatenate([flat[:-1], flat[1:]], axis=1)
    correlation = np.corrcoef(shifted.T) - np.eye(32)
    # Columns: 8 ids, two seeds, this position and the next. 6 standard deviations of 496 pairs.
    assert np.abs(correlation).max() < 6 / math.sqrt(100_000)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(temperature=1.0, top_k=1),
        SamplingParams(temperature=1.0, top_k=7),
        SamplingParams(temperature=1.3, top_k=1000),
        SamplingParams(temperature=1.0, top_p=0.5),
        SamplingParams(temperature=0.8, top_p=0.95),
        SamplingParams(temperature=1.0, top_p=1e-6),
        SamplingParams(temperature=1.0, min_p=0.1),
        SamplingParams(temperature=1.0, min_p=1.0),
        SamplingParams(temperature=1.0, repetition_penalty=1.4),
        SamplingParams(temperature=0.9, repetition_penalty=0.7, top_k=12, top_p=0.8, min_p=0.02),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_filters_keep_what_their_definitions_keep(
    params: SamplingParams, masked: bool, rng: np.random.Generator
) -> None:
    vocab, position = 67, 0
    while position < 30:
        row = rng.normal(0, 2.5, vocab).astype(np.float32)
        seen = set(rng.choice(vocab, 15, replace=False).tolist())
        legal = set(rng.choice(vocab, 25, replace=False).tolist()) if masked else None
        least, kept, most = (
            np.array(kept_by_definition(row, params, seen, legal, slack))
            for slack in (-ROUNDING, 0, ROUNDING)
        )
        z = row.astype(np.float64)
        for i in seen:
            p = params.repetition_penalty
            z[i] = z[i] / p if z[i] > 0 else z[i] * p
        noisy = z[kept] / params.temperature + gumbel(params.seed, position, kept)
        if len(least) < len(most) or np.diff(np.sort(noisy))[-1:].min(initial=1) < ROUNDING:
            continue  # rounding decides it, not the definition
        flags = np.zeros(vocab, dtype=np.bool_)
        flags[list(seen)] = True
        before = row.copy()
        drawn, logprob = choose(
            row, params, position, flags, None if legal is None else bit_set(legal, vocab)
        )
        assert drawn == int(kept[noisy.argmax()])
        assert math.isclose(
            logprob, row[drawn] - math.log(np.exp(row.astype(np.float64)).sum()), abs_tol=1e-5
        )
        assert (row == before).all(), "the logits were changed"
        position += 1


def test_the_same_seed_draws_the_same_and_another_seed_another(rng: np.random.Generator) -> None:
    row = rng.normal(0, 1, 1000).astype(np.float32)

    def run(seed: int) -> list[int]:
        return [choose(row, SamplingParams(temperature=1.0, seed=seed), p)[0] for p in range(50)]

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_greedy_takes_the_largest_logit_and_the_lowest_id_of_equals() -> None:
    row = np.array([1, 5, 2, 5, 5], dtype=np.float32)
    assert choose(row, SamplingParams(), 0)[0] == 1
    assert choose(row, SamplingParams(), 0, mask=bit_set({0, 3, 4}, 5))[0] == 3


def test_greedy_with_a_penalty_avoids_what_was_seen() -> None:
    row = np.array([1.0, 2.0, 1.9], dtype=np.float32)
    seen = np.array([False, True, False])
    assert choose(row, SamplingParams(repetition_penalty=1.2), 0, seen)[0] == 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_ids_past_the_tokenizer_are_never_chosen(temperature: float) -> None:
    row = np.zeros(64, dtype=np.float32)
    row[40:] = 50.0
    everything = np.full(2, 0xFFFFFFFF, dtype=np.uint32)
    for mask in (None, everything):
        for position in range(50):
            params = SamplingParams(temperature=temperature)
            assert choose(row, params, position, mask=mask, legal_ids=40)[0] < 40
    for position in range(50):  # a bit set that ends early makes the rest illegal
        params = SamplingParams(temperature=temperature)
        assert choose(row, params, position, mask=everything[:1])[0] < 32


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_is_an_error_that_says_where(temperature: float) -> None:
    row = np.zeros(10, dtype=np.float32)
    row[[3, 6]] = np.nan
    with pytest.raises(ModelError, match=r"position 41 are NaN for 2 of 10 ids, first 3"):
        choose(row, SamplingParams(temperature=temperature), 41)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_leave_no_choice_at_all_are_errors(temperature: float) -> None:
    params = SamplingParams(temperature=temperature)
    row = np.zeros(10, dtype=np.float32)
    with pytest.raises(ModelError, match="no id is legal at position 5"):
        choose(row, params, 5, mask=np.zeros(1, dtype=np.uint32))
    row[:] = -np.inf
    with pytest.raises(ModelError, match="every logit at position 5 is -inf"):
        choose(row, params, 5)
    row[0] = 1.0
    with pytest.raises(ModelError, match="no legal id at position 5 has a finite logit"):
        choose(row, params, 5, mask=bit_set({4}, 10))
    row[2] = np.inf
    with pytest.raises(ModelError, match="id 2 at position 5 is infinite"):
        choose(row, params, 5)


def test_an_id_of_probability_zero_is_never_drawn() -> None:
    row = np.full(8, -np.inf, dtype=np.float32)
    row[5] = 0.0
    assert {choose(row, SamplingParams(temperature=1.0), p)[0] for p in range(100)} == {5}


def test_legal_mask_reads_bits_and_stops_at_either_end(rng: np.random.Generator) -> None:
    legal = set(rng.choice(70, 20, replace=False).tolist())
    words = bit_set(legal, 70)
    assert set(np.flatnonzero(legal_mask(words, 70)).tolist()) == legal
    assert set(np.flatnonzero(legal_mask(words, 33)).tolist()) == {i for i in legal if i < 33}
    assert set(np.flatnonzero(legal_mask(words, 200)).tolist()) == legal


def test_log_softmax_survives_large_logits() -> None:
    row = np.array([30000.0, 29999.0, -30000.0], dtype=np.float32)
    assert math.isclose(log_softmax_at(row, 1), -1 - math.log1p(math.exp(-1)), abs_tol=1e-6)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.01),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 0.5),
        ("seed", True),
        ("temperature", "hot"),
        ("top_p", None),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"SamplingParams\.{field}="):
        SamplingParams(**{field: value})  # type: ignore[arg-type]
