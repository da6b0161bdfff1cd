"""A backend and a grammar without a model, and small shapes for tests. Knows the engine's seam only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kogagent.engine.backend import HOST_PREFILL_CHUNK, KV, Decode, DecodePlan, Emitted
from kogagent.engine.backends.host import HostDecode, check_pending, fork_length
from kogagent.errors import EngineClosedError, InputError, ModelError
from kogagent.spec import ModelSpec

TINY = ModelSpec(
    name="tiny",
    vocab_size=83,  # no multiple of 32: the last word of a bit set is partly padding
    dim=32,
    n_layers=3,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    ffn_dim=48,
    context=40,
    windows=(0, 6, 0),
    bos_id=1,
    eos_ids=(2,),
)
"""A transformer small enough to run hundreds of times in a test."""

TINY_LANES = replace(TINY, name="tiny-lanes", lanes=2, delay=1, n_layers=4, windows=(6, 6, 0, 0))
"""The same in two lanes whose exchanges land one layer late."""


# ── a backend without a model ────────────────────────────────────────────────────────────────


class ToyKV:
    """Remembers the ids themselves: a cache whose content a test can read."""

    def __init__(self, capacity: int, ids: Sequence[int] = ()) -> None:
        self.ids = list(ids)
        self._capacity = capacity
        self.closed = self.parked = False

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def capacity(self) -> int:
        return self._capacity

    def rewind(self, length: int) -> None:
        if not 0 <= length <= len(self.ids):
            raise InputError(f"rewind to {length}: the cache holds {len(self.ids)} ids")
        del self.ids[length:]

    def fork(self, length: int | None = None) -> ToyKV:
        return ToyKV(self._capacity, self.ids[: fork_length(self, length)])

    @property
    def memory(self) -> Mapping[Hashable, int]:
        """A byte an id."""
        return {} if self.closed else {id(self): len(self.ids)}

    def growth(self, length: int) -> int:
        return length if self.parked else max(0, length - len(self.ids))

    def park(self) -> bool:
        self.parked = True
        return True

    def close(self) -> None:
        self.closed = True


class ToyBackend:
    """Logits that are a pure function of the whole sequence: one wrong id in a cache changes what follows.

    on_pass, when given, is called with the rows of each pass before it runs, on the engine's thread; what it
    raises is the pass's error. `passes` lists the rows of every pass so far, `opened` every cache.
    """

    prefill_chunk = HOST_PREFILL_CHUNK

    name, dtype = "toy", "none"

    def __init__(
        self,
        spec: ModelSpec = TINY,
        *,
        seed: int = 0,
        on_pass: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        self._spec = spec
        self._seed = seed
        self._on_pass = on_pass
        self._closed = False
        self.passes: list[int] = []
        self.opened: list[ToyKV] = []

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def expected(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """The logits [V] after a sequence."""
        seed = np.random.SeedSequence([self._seed, len(ids), *ids])
        return np.random.default_rng(seed).normal(0, 2, self._spec.vocab_size).astype(np.float32)

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """The ids greedy decoding gives, by definition."""
        out = list(ids)
        for _ in range(count):
            out.append(int(self.expected(out).argmax()))
        return out[len(ids) :]

    def open_kv(self, capacity: int) -> ToyKV:
        self._check_open()
        if not 1 <= capacity <= self._spec.context:
            raise InputError(f"capacity={capacity}: must lie in 1 .. {self._spec.context}")
        kv = ToyKV(capacity)
        self.opened.append(kv)
        return kv

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        self._append(kv, ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self._check_open()
        return HostDecode(self, kv, ids, plan)

    def kv_bytes(self, capacity: int) -> int:
        return 0

    def cache_room(self) -> tuple[int, int]:
        return 1 << 40, 0

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        before = list(self._toy(kv).ids)
        self._append(kv, ids)
        return np.stack([self.expected([*before, *ids[: i + 1]]) for i in range(len(ids))])

    def last_logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        self._append(kv, ids)
        return self.expected(self._toy(kv).ids)

    def close(self) -> None:
        self._closed = True

    def _append(self, kv: KV, ids: Sequence[int]) -> None:
        self._check_open()
        check_pending(kv, ids, self._spec.vocab_size)
        if self._toy(kv).closed:
            raise AssertionError("a closed cache was used")
        if self._on_pass is not None:
            self._on_pass(ids)
        self._toy(kv).parked = False
        self.passes.append(len(ids))
        self._toy(kv).ids += ids

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosedError("the backend is closed")

    @staticmethod
    def _toy(kv: KV) -> ToyKV:
        assert isinstance(kv, ToyKV)
        return kv


def comes(wait: Callable[[float], bool]) -> bool:
    """Whether what `wait(seconds)` waits for, as `threading.Event.wait` does, comes within five minutes.

    For what always comes, so that a hang is a failure. Waits in slices: of those a process that was stopped
    for a while has lost one, where a deadline would have passed.
    """
    return any(wait(5.0) for _ in range(60))


class Brake:
    """A `ToyBackend`'s on_pass: lets some passes through, then holds the next until released.

    A stream is half-way for sure while it is held, however fast either thread is. A pass held for five
    minutes is an AssertionError.
    """

    def __init__(self, passes: int = 1) -> None:
        self._permits = threading.Semaphore(passes)
        self._released = False

    def __call__(self, rows: Sequence[int]) -> None:
        if not self._released:
            held = comes(lambda seconds: self._permits.acquire(timeout=seconds))
            assert held, "the test never released the brake"

    def release(self) -> None:
        """Let this pass and all that follow through."""
        self._released = True
        self._permits.release()


# ── a grammar without a compiler ─────────────────────────────────────────────────────────────


class StepMatcher:
    """A grammar given position by position: the ids legal at each; after the last nothing may follow.

    A position with one legal id is forced.
    """

    def __init__(self, steps: Sequence[frozenset[int]], vocab_size: int, at: int = 0) -> None:
        self._steps = tuple(steps)
        self._vocab = vocab_size
        self._at = at

    def mask(self) -> npt.NDArray[np.uint32]:
        words = np.zeros((self._vocab + 31) // 32, dtype=np.uint32)
        if not self.finished:
            for token in self._steps[self._at]:
                words[token // 32] |= np.uint32(1 << (token % 32))
        return words

    def forced(self) -> tuple[int, ...]:
        run: list[int] = []
        for legal in self._steps[self._at :]:
            if len(legal) != 1:
                break
            run += legal
        return tuple(run)

    def advance(self, token: int) -> None:
        if self.finished or token not in self._steps[self._at]:
            raise ModelError(f"token id {token} is not legal here")
        self._at += 1

    @property
    def finished(self) -> bool:
        return self._at == len(self._steps)

    def fork(self) -> StepMatcher:
        return StepMatcher(self._steps, self._vocab, self._at)


def finish(decode: Decode, *, most: int = 10_000) -> list[Emitted]:
    """Wait for a segment to its end and return everything it emitted."""
    out: list[Emitted] = []
    for _ in range(most):
        out += decode.drain_nowait()
        if decode.reason is not None:
            decode.settle()
            return out + decode.drain_nowait()
        decode.wait(1.0)
    raise AssertionError(f"the segment has not ended after {most} waits, having emitted {len(out)} ids")
