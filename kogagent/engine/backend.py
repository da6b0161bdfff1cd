"""The seam between the engine and what computes: Backend, KV, Decode, DecodePlan. Token ids only.

A sequence is its ids. The KV cache holds the keys and values of its first `kv.length` ids; the rest, the
*pending* ids, have not passed through the model. `decode` takes the pending ids (at least one), runs them and
samples what follows; the newest sampled id is always pending, since nothing has needed its keys yet.

All calls come from one thread, the engine's worker; only `Decode.stop` and `PreparesGrammars.prepare` may
come from others.
`kogagent.testing.check_backend` holds every backend to this page.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kogagent.engine.sampling import SamplingParams
from kogagent.spec import ModelSpec
from kogagent.types import FinishReason
from kogagent.types.quick import quick

HOST_PREFILL_CHUNK = 256
"""`Backend.prefill_chunk` of the backends that compute on the host."""


class TokenMatcher(Protocol):
    """One walk through a grammar. Not shared between sequences."""

    def mask(self) -> npt.NDArray[np.uint32]:
        """Legal next ids as a bit set [ceil(V/32)], bit i%32 of word i//32; valid until `advance`.

        End ids are legal exactly where the text so far is complete.
        """

    def forced(self) -> tuple[int, ...]:
        """The run of ids that must come next, canonical at its borders; empty where there is a choice.

        Does not advance.
        """

    def advance(self, token: int) -> None:
        """Take one id. Raises ModelError if it is not legal here."""

    @property
    def finished(self) -> bool:
        """True when nothing may follow, an end id included."""

    def fork(self) -> TokenMatcher:
        """An independent walk from here."""


class TokenGrammar(Protocol):
    """A compiled grammar for one vocabulary: immutable, shared, cached by `digest`."""

    @property
    def digest(self) -> str: ...

    def start(self) -> TokenMatcher: ...


@quick
@dataclass(frozen=True, slots=True)
class DecodePlan:
    """All a decode segment needs to know before it starts; while it runs a device asks the host for nothing
    but what the matcher says.

    history: ids whose repetition is penalised, the whole sequence so far; unread when the penalty is 1.
    stop_ids end the segment and are emitted as its last token. max_tokens >= 1 counts emitted ids.
    force: whether forced runs are taken without sampling; the text is the same either way.
    legal_ids: ids at or above it are never emitted, whatever their logits (a model's logits may be wider than
    its tokenizer); 0 means all of the model's vocabulary.
    patient: who reads the tokens may be given them some 50 ms late, so that what computes on the reader's own
    processors need not stop for each handful, and a device goes on before the first is handed over.
    The segment takes the matcher over and advances it.
    """

    sampling: SamplingParams
    stop_ids: frozenset[int]
    max_tokens: int
    history: tuple[int, ...] = ()
    matcher: TokenMatcher | None = None
    force: bool = True
    legal_ids: int = 0
    patient: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Emitted:
    """One id of the segment. logprob: log-softmax of the model's own logits, 0.0 for a forced id."""

    id: int
    logprob: float
    forced: bool


@quick
@dataclass(frozen=True, slots=True)
class DecodeStats:
    """What the segment cost so far. steps: passes of the model, the first (over the pending ids) included.

    The time of a first pass over several pending ids is prefill_s; that of a later pass is shared between
    forced_s and sampled_s by its rows: forced ids against the sampled one. The grammar's own time counts
    where it is spent: masks with the pass, forced runs as forced.
    """

    prefill_s: float
    sampled_s: float
    forced_s: float
    steps: int


class KV(Protocol):
    """The cache of one sequence."""

    @property
    def length(self) -> int:
        """Ids whose keys and values are here."""

    @property
    def capacity(self) -> int: ...

    def rewind(self, length: int) -> None:
        """Forget everything past `length`; InputError when length exceeds what is here."""

    def fork(self, length: int | None = None) -> KV:
        """A cache with the same content, or its first `length` ids, independent; what both have in common
        they may share. InputError when length exceeds what is here."""

    @property
    def memory(self) -> Mapping[Hashable, int]:
        """Bytes of each part of it, by what the part is: a part that several caches share has the same name
        in each. On the device, or on the host while parked."""

    def growth(self, length: int) -> int:
        """Bytes of the device's memory that it would take beyond those it has, to be used and to hold so
        many ids."""

    @property
    def parked(self) -> bool:
        """Whether its content waits in the host's memory; the next pass brings it back."""

    def park(self) -> bool:
        """Move the content to the host's memory; False where the backend has none apart. Caches that share it
        are parked with it."""

    def close(self) -> None:
        """Give the memory back. Idempotent."""


class Decode(Protocol):
    """One running segment."""

    @property
    def resident(self) -> bool:
        """True when the segment holds the device until it ends, so that nothing else may be asked of the
        backend meanwhile; False when other segments may take turns with it between two `wait`s."""

    def drain_nowait(self) -> list[Emitted]:
        """Ids emitted since the last call, in order. Never blocks."""

    def wait(self, seconds: float) -> None:
        """Until there is something to drain, the segment has ended, or `seconds` have passed.

        A host backend computes here: at least one step a call. Raises ModelError on NaN logits or when no
        id is legal; DeviceError when the device failed. After an error `reason` stays None and the KV holds
        whole steps only.
        """

    def stop(self) -> None:
        """Ask for an end at the next token border. Idempotent; from any thread."""

    def settle(self) -> None:
        """Until the device has let go of everything the segment was given. Once it has ended, and whoever
        waits for its last id has that: a device may have launches queued behind it, which find nothing to
        do. Nothing else may be asked of the backend before. DeviceError when the device failed."""

    @property
    def reason(self) -> FinishReason | None:
        """Why it ended, None while it runs. Ids may still wait to be drained."""

    @property
    def stats(self) -> DecodeStats: ...


class Backend(Protocol):
    """A loaded model on a device."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def name(self) -> str:
        """Its name in `engine.backends`: "cuda", "native", "torch" or "reference"."""

    @property
    def dtype(self) -> str:
        """The type of its weights: "float32", "float16", "bfloat16", "int8" …"""

    @property
    def prefill_chunk(self) -> int:
        """Ids of one `prefill` at most, for whoever cuts a long one: other sessions get their turn, and a
        cancelled one ends, at its border."""

    def open_kv(self, capacity: int) -> KV:
        """Room for `capacity` ids (1 .. spec.context)."""

    def kv_bytes(self, capacity: int) -> int:
        """Bytes that `open_kv` takes at once; 0 where a cache takes memory as it fills."""

    def cache_room(self) -> tuple[int, int]:
        """(bytes all caches may take unless told otherwise, bytes of host memory for parked ones)."""

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        """Append ids to the cache without sampling. ContextError when they do not fit."""

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        """Run the pending ids (at least one) and start emitting.

        An id may be emitted while all ids before it fit the cache: a cache of C ids and a sequence of n gives
        at most C - n + 1 more, then the segment ends with "context". ContextError when the pending ids
        themselves do not fit. A forced run is emitted at once and joins the pending ids of the next pass.
        """

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Append ids and return their logits [len(ids), V], FP32. For tests and scoring."""

    def close(self) -> None:
        """Give everything back. Idempotent; later calls raise EngineClosedError."""


@runtime_checkable
class PreparesGrammars(Protocol):
    """What a backend can besides, whose device needs something made of a grammar before it walks it."""

    def prepare(self, grammar: TokenGrammar) -> None:
        """Make it now, so that no segment does. From any thread, also while a segment runs: no device is
        touched. Returns at once where it is made already, or the device does not walk this grammar."""
