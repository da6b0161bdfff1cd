"""The segment loop on the host, on a toy backend whose logits betray any wrong id in the cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kogagent.engine.backend import DecodePlan, Emitted
from kogagent.engine.sampling import SamplingParams, log_softmax_at
from kogagent.errors import ContextError, InputError, ModelError
from kogagent.testing.toy import TINY, StepMatcher, ToyBackend, finish

V = TINY.vocab_size
EVERYTHING = frozenset(range(V))


def plan(max_tokens: int = 8, **changes: object) -> DecodePlan:
    fields = {"sampling": SamplingParams(), "stop_ids": frozenset(), "max_tokens": max_tokens, **changes}
    return DecodePlan(**fields)  # type: ignore[arg-type]


def ids_of(emitted: Sequence[Emitted]) -> list[int]:
    return [e.id for e in emitted]


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return [int(i) for i in rng.integers(0, V, 7)]


def test_greedy_emits_the_largest_logits_with_their_log_probabilities(prompt: list[int]) -> None:
    backend = ToyBackend()
    kv = backend.open_kv(40)
    decode = backend.decode(kv, prompt, plan(5))
    out = finish(decode)
    assert ids_of(out) == backend.greedy(prompt, 5)
    assert decode.reason == "length"
    for i, emitted in enumerate(out):
        row = backend.expected(prompt + ids_of(out[:i]))
        assert emitted.logprob == pytest.approx(log_softmax_at(row, emitted.id))
        assert not emitted.forced
    assert kv.ids == prompt + ids_of(out[:-1]), "the newest id stays pending"
    assert decode.stats.steps == 5
    assert backend.passes == [7, 1, 1, 1, 1]


def test_every_wait_computes_one_step_and_drain_never_computes(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(backend.open_kv(40), prompt, plan(3))
    assert decode.drain_nowait() == []
    assert backend.passes == []
    decode.wait(0.0)
    assert len(decode.drain_nowait()) == 1
    assert decode.drain_nowait() == []
    assert len(backend.passes) == 1


def test_a_stop_id_is_emitted_and_ends(prompt: list[int]) -> None:
    backend = ToyBackend()
    expected = backend.greedy(prompt, 6)
    stop = expected[3]
    decode = backend.decode(backend.open_kv(40), prompt, plan(50, stop_ids=frozenset([stop])))
    out = ids_of(finish(decode))
    assert out == expected[: expected.index(stop) + 1]
    assert decode.reason == "stop"


def test_a_stop_id_that_is_also_the_last_allowed_one_counts_as_a_stop(prompt: list[int]) -> None:
    backend = ToyBackend()
    first = backend.greedy(prompt, 1)[0]
    decode = backend.decode(backend.open_kv(40), prompt, plan(1, stop_ids=frozenset([first])))
    finish(decode)
    assert decode.reason == "stop"


def test_a_full_cache_ends_the_segment_and_gives_one_id_more_than_its_room(prompt: list[int]) -> None:
    backend = ToyBackend()
    kv = backend.open_kv(10)
    decode = backend.decode(kv, prompt, plan(100))
    out = finish(decode)
    assert len(out) == 10 - len(prompt) + 1
    assert decode.reason == "context"
    assert kv.length == 10


def test_stop_ends_at_the_next_token_border_without_a_pass(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(backend.open_kv(40), prompt, plan(100))
    decode.wait(0.0)
    decode.wait(0.0)
    decode.stop()
    decode.stop()
    decode.wait(0.0)
    assert decode.reason == "cancelled"
    assert len(decode.drain_nowait()) == len(backend.passes) == 2
    decode.wait(0.0)
    assert len(backend.passes) == 2


def test_stop_before_the_first_wait_runs_nothing(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(backend.open_kv(40), prompt, plan(100))
    decode.stop()
    assert finish(decode) == []
    assert decode.reason == "cancelled"
    assert backend.passes == []


def steps_of(*spec: Sequence[int] | int | None) -> StepMatcher:
    """One position each: an id is forced, a sequence is a choice, None is any id."""
    sets = [EVERYTHING if s is None else frozenset([s]) if isinstance(s, int) else frozenset(s) for s in spec]
    return StepMatcher(sets, V)


SHAPES: list[tuple[Sequence[int] | int | None, ...]] = [
    (5, 6, 7, None, 8, 9, None, None, 10, 11, 12),  # opens and closes with a run
    (None, None, 3, None),  # a run of one
    ((1, 2), 3, (4, 5), 6, 6, 6),
    (7, 7),  # nothing but forced
    (None,),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forcing_changes_nothing_but_the_number_of_passes(
    shape: tuple[Sequence[int] | int | None, ...], temperature: float, prompt: list[int]
) -> None:
    results = []
    for force in (False, True):
        backend = ToyBackend()
        kv = backend.open_kv(40)
        params = SamplingParams(temperature=temperature, seed=3)
        decode = backend.decode(kv, prompt, plan(30, sampling=params, matcher=steps_of(*shape), force=force))
        out = finish(decode)
        assert decode.reason == "grammar"
        assert len(out) == len(shape)
        assert kv.ids == (prompt + ids_of(out))[: kv.length]
        results.append((ids_of(out), backend.passes, [e.forced for e in out], decode.stats.steps))
    plain, forced = results
    assert plain[0] == forced[0]
    assert plain[3] == len(shape)
    choices = sum(not isinstance(s, int) for s in shape)
    assert forced[3] == len(forced[1]) == choices, "a pass a choice, none for a forced id"
    assert forced[2] == [isinstance(s, int) for s in shape]
    assert plain[2] == [False] * len(shape)


def test_a_forced_run_and_the_sampled_id_before_it_are_one_pass(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(
        backend.open_kv(40), prompt, plan(30, matcher=steps_of(5, 6, None, 7, 8, 9, None, None))
    )
    out = finish(decode)
    assert backend.passes == [len(prompt) + 2, 4, 1]
    assert [e.logprob for e in out if e.forced] == [0.0] * 5
    assert decode.stats.forced_s > 0 and decode.stats.prefill_s > 0 and decode.stats.sampled_s > 0


def test_a_forced_run_is_handed_over_before_the_pass_that_runs_it(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(backend.open_kv(40), prompt, plan(30, matcher=steps_of(None, 7, 8, None)))
    decode.wait(0.0)
    assert [e.forced for e in decode.drain_nowait()] == [False, True, True]
    assert len(backend.passes) == 1


def test_a_forced_end_id_ends_with_stop(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(
        backend.open_kv(40), prompt, plan(30, matcher=steps_of(None, 4, 2), stop_ids=frozenset([2]))
    )
    out = finish(decode)
    assert ids_of(out)[1:] == [4, 2]
    assert decode.reason == "stop"
    assert decode.stats.steps == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_the_token_limit_cuts_a_forced_run(limit: int, prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(
        backend.open_kv(40), prompt, plan(limit, matcher=steps_of(None, 7, 8, 9, 10, None))
    )
    assert ids_of(finish(decode))[1:] == [7, 8, 9][: limit - 1]
    assert decode.reason == "length"


def test_a_full_cache_cuts_a_forced_run(prompt: list[int]) -> None:
    backend = ToyBackend()
    kv = backend.open_kv(len(prompt) + 2)
    decode = backend.decode(kv, prompt, plan(30, matcher=steps_of(None, 7, 8, 9, 10, None)))
    assert ids_of(finish(decode))[1:] == [7, 8]
    assert decode.reason == "context"


def test_a_grammar_that_allows_nothing_from_the_start_ends_at_once(prompt: list[int]) -> None:
    backend = ToyBackend()
    decode = backend.decode(backend.open_kv(40), prompt, plan(30, matcher=steps_of()))
    assert finish(decode) == []
    assert decode.reason == "grammar"
    assert backend.passes == []


def test_sampled_ids_stay_inside_the_grammar(prompt: list[int]) -> None:
    legal = (3, 40, 64, 82)
    backend = ToyBackend()
    params = SamplingParams(temperature=2.0)
    decode = backend.decode(
        backend.open_kv(40), prompt, plan(20, sampling=params, matcher=steps_of(*[legal] * 20))
    )
    assert set(ids_of(finish(decode))) <= set(legal)


def test_ids_past_the_tokenizer_are_never_emitted(prompt: list[int]) -> None:
    for params in (SamplingParams(), SamplingParams(temperature=3.0)):
        backend = ToyBackend()
        decode = backend.decode(backend.open_kv(40), prompt, plan(30, sampling=params, legal_ids=9))
        assert max(ids_of(finish(decode))) < 9


def test_the_noise_is_keyed_by_the_place_in_the_sequence(prompt: list[int]) -> None:
    params = SamplingParams(temperature=1.0, seed=11)
    whole = ToyBackend()
    expected = ids_of(finish(whole.decode(whole.open_kv(40), prompt, plan(10, sampling=params))))
    backend = ToyBackend()
    kv = backend.open_kv(40)
    out: list[int] = []
    while len(out) < 10:  # in segments of three, the newest id pending each time
        pending = (prompt + out)[kv.length :]
        out += ids_of(finish(backend.decode(kv, pending, plan(min(3, 10 - len(out)), sampling=params))))
    assert out == expected


def test_a_repetition_penalty_sees_the_history_the_prompt_and_the_segment(prompt: list[int]) -> None:
    params = SamplingParams(repetition_penalty=1e6)
    backend = ToyBackend()
    history = (*prompt, 80, 81)
    decode = backend.decode(backend.open_kv(40), prompt, plan(12, sampling=params, history=history))
    out = ids_of(finish(decode))
    assert len(set(out)) == 12 and not set(out) & set(history)
    seen = set(history)
    for i, token in enumerate(out):
        row = backend.expected(prompt + out[:i])
        fresh = [j for j in range(V) if j not in seen]
        assert token == max(fresh, key=lambda j: row[j])
        seen.add(token)


def test_an_error_in_a_pass_leaves_whole_steps_and_no_reason(prompt: list[int]) -> None:
    def explode(rows: Sequence[int]) -> None:
        if len(backend.passes) == 2:
            raise ModelError("planted")

    backend = ToyBackend(on_pass=explode)
    kv = backend.open_kv(40)
    decode = backend.decode(kv, prompt, plan(30))
    decode.wait(0.0)
    decode.wait(0.0)
    with pytest.raises(ModelError, match="planted"):
        decode.wait(0.0)
    assert decode.reason is None
    out = ids_of(decode.drain_nowait())
    assert kv.ids == prompt + out[:1]


def test_plans_and_ids_that_cannot_run_are_refused_before_any_pass(prompt: list[int]) -> None:
    backend = ToyBackend()
    kv = backend.open_kv(6)
    with pytest.raises(ContextError, match="7 ids after the 0 already there do not fit a context of 6"):
        backend.decode(kv, prompt, plan())
    with pytest.raises(InputError, match="at least one pending id"):
        backend.decode(kv, [], plan())
    with pytest.raises(InputError, match=f"token id {V} lies outside"):
        backend.decode(kv, [V], plan())
    with pytest.raises(InputError, match="token id -1 lies outside"):
        backend.decode(kv, [-1], plan())
    with pytest.raises(InputError, match="max_tokens=0"):
        backend.decode(kv, [1], plan(0))
    assert backend.passes == [] and kv.length == 0
