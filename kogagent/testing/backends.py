"""What holds a backend to `engine/backend.py`: the conformance suite. Knows no particular backend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from kogagent.engine.backend import KV, Backend, Decode, DecodePlan, Emitted
from kogagent.engine.sampling import SamplingParams, log_softmax_at
from kogagent.errors import ConfigError, ContextError, EngineClosedError, InputError, ModelError
from kogagent.spec import ModelSpec
from kogagent.testing.toy import TINY, TINY_LANES, StepMatcher, finish

if TYPE_CHECKING:
    import torch

    MakeBackend: TypeAlias = Callable[[ModelSpec, Mapping[str, torch.Tensor]], Backend]

__all__ = ["BACKEND_CHECKS", "TINY", "TINY_LANES", "check_backend", "run_check"]


class _Case:
    """One fresh backend on seeded random weights, and what the checks do with it again and again."""

    def __init__(self, make: MakeBackend, spec: ModelSpec, tolerance: float) -> None:
        from kogagent.engine.weights import random_tensors

        self.make, self.spec, self.tolerance = make, spec, tolerance
        self.tensors = random_tensors(spec, seed=17)
        self.backend = make(spec, self.tensors)
        rng = np.random.default_rng(23)
        self.prompt = [int(i) for i in rng.integers(0, spec.vocab_size, min(11, spec.context // 3))]

    def kv(self, ids: Sequence[int] = (), capacity: int | None = None) -> KV:
        kv = self.backend.open_kv(self.spec.context if capacity is None else capacity)
        if ids:
            self.backend.prefill(kv, ids)
        return kv

    def segment(self, kv: KV, ids: Sequence[int], max_tokens: int, **fields: object) -> Decode:
        plan = DecodePlan(SamplingParams(), frozenset(), max_tokens)
        return self.backend.decode(kv, ids, replace(plan, **fields))  # type: ignore[arg-type]

    def run(self, max_tokens: int = 8, **fields: object) -> list[int]:
        """Ids that follow the prompt, all of it pending."""
        return [e.id for e in finish(self.segment(self.kv(), self.prompt, max_tokens, **fields))]

    def close_to(self, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], what: str) -> None:
        scale = float(np.abs(b).max())
        worst = float(np.abs(a - b).max())
        assert worst <= self.tolerance * scale, f"{what}: differ by {worst:.3g} of {scale:.3g}"

    def matcher(self, *steps: int | None) -> StepMatcher:
        """An id a step, None for any id."""
        everything = frozenset(range(self.spec.vocab_size))
        return StepMatcher([everything if s is None else frozenset([s]) for s in steps], self.spec.vocab_size)


def _caches_count_what_they_hold(case: _Case) -> None:
    kv = case.kv(capacity=len(case.prompt) + 2)
    assert (kv.length, kv.capacity) == (0, len(case.prompt) + 2)
    case.backend.prefill(kv, case.prompt)
    assert kv.length == len(case.prompt)
    kv.rewind(3)
    assert kv.length == 3
    _raises(InputError, lambda: kv.rewind(4), "rewinding past the end")
    _raises(InputError, lambda: kv.rewind(-1), "rewinding to a negative length")
    kv.close()
    kv.close()
    for capacity in (0, case.spec.context + 1):
        _raises(InputError, partial(case.backend.open_kv, capacity), f"a capacity of {capacity}")


def _step_by_step_equals_all_at_once(case: _Case) -> None:
    whole = case.backend.logits(case.kv(), case.prompt)
    assert whole.shape == (len(case.prompt), case.spec.vocab_size) and whole.dtype == np.float32
    kv = case.kv()
    for i, token in enumerate(case.prompt):
        case.close_to(case.backend.logits(kv, [token])[0], whole[i], f"row {i}, run alone")
    for cut in (1, len(case.prompt) // 2, len(case.prompt) - 1):
        kv = case.kv(case.prompt[:cut])
        case.close_to(case.backend.logits(kv, case.prompt[cut:]), whole[cut:], f"rows after {cut} pre-filled")


def _rewound_and_forked_caches_are_independent(case: _Case) -> None:
    half = len(case.prompt) // 2
    whole = case.backend.logits(case.kv(), case.prompt)
    kv = case.kv(case.prompt[:half])
    other = kv.fork()
    case.backend.prefill(kv, list(reversed(case.prompt)))
    kv.rewind(half)
    case.close_to(case.backend.logits(kv, case.prompt[half:]), whole[half:], "after a rewind")
    kv.close()
    assert other.length == half
    part = other.fork(half - 1)
    case.close_to(case.backend.logits(other, case.prompt[half:]), whole[half:], "in a fork of a closed cache")
    case.close_to(
        case.backend.logits(part, case.prompt[half - 1 :]), whole[half - 1 :], "in a fork of a part"
    )
    _raises(InputError, lambda: part.fork(part.length + 1), "a fork of more than there is")


def _greedy_takes_the_largest_logit(case: _Case) -> None:
    kv = case.kv()
    decode = case.segment(kv, case.prompt, 8)
    out = finish(decode)
    assert decode.reason == "length" and len(out) == 8 and decode.stats.steps == 8
    ids = [*case.prompt, *(e.id for e in out)]
    assert kv.length == len(ids) - 1, "all but the newest id are in the cache"
    rows = case.backend.logits(case.kv(), ids)[len(case.prompt) - 1 : -1]
    for row, emitted in zip(rows, out, strict=True):
        slack = case.tolerance * float(np.abs(row).max())
        assert row[emitted.id] >= row.max() - 2 * slack, f"id {emitted.id} is not the largest logit"
        assert abs(emitted.logprob - log_softmax_at(row, emitted.id)) <= 4 * slack + 1e-5
        assert not emitted.forced
    assert decode.drain_nowait() == []


def _pending_ids_may_be_cut_anywhere(case: _Case) -> None:
    expected = case.run()
    for cut in (1, len(case.prompt) // 2, len(case.prompt) - 1):
        kv = case.kv(case.prompt[:cut])
        assert [e.id for e in finish(case.segment(kv, case.prompt[cut:], 8))] == expected
    kv, out = case.kv(), list[int]()
    while len(out) < 8:
        pending = [*case.prompt, *out][kv.length :]
        out += [e.id for e in finish(case.segment(kv, pending, min(3, 8 - len(out))))]
    assert out == expected, "segments do not continue each other"


def _stop_ids_and_the_token_limit_end(case: _Case) -> None:
    expected = case.run()
    stop = expected[3]
    decode = case.segment(case.kv(), case.prompt, 8, stop_ids=frozenset([stop]))
    assert [e.id for e in finish(decode)] == expected[: expected.index(stop) + 1]
    assert decode.reason == "stop"
    decode = case.segment(case.kv(), case.prompt, 1, stop_ids=frozenset([expected[0]]))
    finish(decode)
    assert decode.reason == "stop", "a stop id that is also the last allowed one"


def _a_full_cache_ends(case: _Case) -> None:
    room = len(case.prompt) + 3
    kv = case.kv(capacity=room)
    decode = case.segment(kv, case.prompt, 100)
    assert len(finish(decode)) == 4 and decode.reason == "context" and kv.length == room
    small = case.kv(capacity=len(case.prompt) - 1)
    _raises(ContextError, lambda: case.segment(small, case.prompt, 1), "a prompt longer than the cache")
    _raises(ContextError, lambda: case.backend.prefill(small, case.prompt), "pre-filling past the cache")
    assert small.length == 0


def _bad_ids_are_refused(case: _Case) -> None:
    kv = case.kv()
    _raises(InputError, lambda: case.segment(kv, [], 1), "no pending id")
    for bad in (-1, case.spec.vocab_size):
        _raises(InputError, partial(case.segment, kv, [0, bad], 1), f"id {bad}")
        _raises(InputError, partial(case.backend.prefill, kv, [0, bad]), f"id {bad}")
        _raises(InputError, partial(case.backend.logits, kv, [0, bad]), f"id {bad}")
    assert kv.length == 0


def _stop_ends_at_a_token_border(case: _Case) -> None:
    kv = case.kv()
    decode = case.segment(kv, case.prompt, case.spec.context)
    out: list[Emitted] = []
    while not out:
        decode.wait(1.0)
        out += decode.drain_nowait()
    stopper = threading.Thread(target=decode.stop)
    stopper.start()
    stopper.join()
    decode.stop()
    out += finish(decode)
    assert decode.reason in ("cancelled", "context", "length")
    pending = [*case.prompt, *(e.id for e in out)][kv.length :]
    assert len(pending) >= 1, "the cache holds an id that was not handed over"
    again = finish(case.segment(kv, pending, 2)) if len(pending) + kv.length <= kv.capacity else []
    assert [e.id for e in again] == case.run(len(out) + 2)[len(out) :][: len(again)]


def _forcing_changes_only_the_number_of_passes(case: _Case) -> None:
    shape = (5, 6, 7, None, 1, 2, None, None, 3, 4)
    outs, steps = [], []
    for force in (False, True):
        decode = case.segment(case.kv(), case.prompt, 20, matcher=case.matcher(*shape), force=force)
        out = finish(decode)
        assert decode.reason == "grammar" and len(out) == len(shape)
        assert [e.forced for e in out] == [force and s is not None for s in shape]
        assert all(e.logprob == 0.0 for e in out if e.forced)
        outs.append([e.id for e in out])
        steps.append(decode.stats.steps)
    assert outs[0] == outs[1], f"{outs[0]} without forced runs, {outs[1]} with"
    # A pass a choice; one more for a run's first id where that pass had begun when the host saw the choice.
    assert steps[0] == len(shape) and 3 <= steps[1] <= 3 + 2, f"{steps} passes"


def _forced_runs_end_where_they_must(case: _Case) -> None:
    forced_end = case.segment(
        case.kv(), case.prompt, 20, matcher=case.matcher(None, 4, 2), stop_ids=frozenset([2])
    )
    assert [e.id for e in finish(forced_end)][1:] == [4, 2] and forced_end.reason == "stop"
    cut = case.segment(case.kv(), case.prompt, 3, matcher=case.matcher(None, 7, 8, 9, None))
    assert [e.id for e in finish(cut)][1:] == [7, 8] and cut.reason == "length"
    full = case.segment(
        case.kv(capacity=len(case.prompt) + 1), case.prompt, 9, matcher=case.matcher(None, 7, 8, 9)
    )
    assert [e.id for e in finish(full)][1:] == [7] and full.reason == "context"


def _only_legal_ids_are_emitted(case: _Case) -> None:
    legal = frozenset(range(3, case.spec.vocab_size, 7))
    for temperature in (0.0, 1.5):
        params = SamplingParams(temperature=temperature, seed=5)
        matcher = StepMatcher([legal] * 10, case.spec.vocab_size)
        assert set(case.run(10, sampling=params, matcher=matcher)) <= legal
        assert max(case.run(10, sampling=params, legal_ids=4)) < 4


def _the_noise_belongs_to_seed_position_and_id(case: _Case) -> None:
    params = SamplingParams(temperature=1.0, seed=7)
    expected = case.run(12, sampling=params)
    assert case.run(12, sampling=params) == expected
    assert case.run(12, sampling=replace(params, seed=8)) != expected
    kv, out = case.kv(), list[int]()
    while len(out) < 12:
        pending = [*case.prompt, *out][kv.length :]
        out += [e.id for e in finish(case.segment(kv, pending, 5 if not out else 7, sampling=params))]
    assert out == expected, "cutting a turn in two changed what was drawn"


def _filters_bite(case: _Case) -> None:
    greedy = case.run()
    free = SamplingParams(temperature=1.5, seed=3)
    for params in (replace(free, top_k=1), replace(free, top_p=1e-6), replace(free, min_p=1.0)):
        assert case.run(sampling=params) == greedy, f"{params} must leave the largest logit alone"
    history = tuple(range(0, case.spec.vocab_size, 2))
    out = case.run(8, sampling=SamplingParams(repetition_penalty=1e6), history=history)
    assert len({*out}) == 8 and not {*out} & {*history, *case.prompt}


def _nan_is_an_error_and_never_a_token(case: _Case) -> None:
    tensors = {name: tensor.clone() for name, tensor in case.tensors.items()}
    tensors["layers.0.w2"].view(-1)[::7] = float("nan")
    try:
        backend = case.make(case.spec, tensors)
    except ConfigError:
        return
    plan = DecodePlan(SamplingParams(), frozenset(), 4)
    kv = backend.open_kv(case.spec.context)
    decode = backend.decode(kv, case.prompt, plan)
    _raises(ModelError, lambda: finish(decode), "NaN weights")
    assert decode.reason is None and decode.drain_nowait() == []
    _raises(ModelError, lambda: finish(backend.decode(backend.open_kv(20), [1], plan)), "NaN, again")
    backend.close()


def _closing_is_final_and_idempotent(case: _Case) -> None:
    case.backend.close()
    case.backend.close()
    _raises(EngineClosedError, lambda: case.backend.open_kv(4), "a closed backend")


BACKEND_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _caches_count_what_they_hold,
    _step_by_step_equals_all_at_once,
    _rewound_and_forked_caches_are_independent,
    _greedy_takes_the_largest_logit,
    _pending_ids_may_be_cut_anywhere,
    _stop_ids_and_the_token_limit_end,
    _a_full_cache_ends,
    _bad_ids_are_refused,
    _stop_ends_at_a_token_border,
    _forcing_changes_only_the_number_of_passes,
    _forced_runs_end_where_they_must,
    _only_legal_ids_are_emitted,
    _the_noise_belongs_to_seed_position_and_id,
    _filters_bite,
    _nan_is_an_error_and_never_a_token,
    _closing_is_final_and_idempotent,
)
"""Every check, for a test runner that wants them one by one through `run_check`."""


def run_check(
    check: Callable[[_Case], None], make: MakeBackend, spec: ModelSpec = TINY, tolerance: float = 1e-4
) -> None:
    """One check on a backend of its own, closed afterwards."""
    case = _Case(make, spec, tolerance)
    try:
        check(case)
    finally:
        case.backend.close()


def check_backend(make: MakeBackend, spec: ModelSpec = TINY, tolerance: float = 1e-4) -> None:
    """Hold a backend to every sentence of `engine/backend.py`; AssertionError says which it breaks.

    make(spec, tensors) builds one; spec may be any with a context of at least 36 and 40 ids. tolerance is
    relative to the largest logit: 1e-4 fits FP32, 2e-2 half types.
    """
    for check in BACKEND_CHECKS:
        run_check(check, make, spec, tolerance)


def _raises(kind: type[Exception], act: Callable[[], object], what: str) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")
