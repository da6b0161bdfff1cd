"""One segment: what the kernel is asked for, and what it says of each token. Ids only; knows no device."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class Reason(enum.IntEnum):
    """Why a segment ended, as the kernel writes it; after RUNNING and ASKED it goes on."""

    RUNNING = 0
    STOP = 1
    LENGTH = 2
    CONTEXT = 3
    CANCELLED = 4
    NOT_A_NUMBER = 5
    NO_LEGAL_ID = 6
    FED = 7
    COMPLETE = 8
    ASKED = 9


@dataclass(frozen=True, slots=True)
class Token:
    """One word pair of the ring.

    id means nothing where reason is CANCELLED, NOT_A_NUMBER, NO_LEGAL_ID or FED.
    forced: it belongs to a run the grammar left no choice about, and was not sampled.
    """

    id: int
    logprob: float
    reason: Reason
    forced: bool = False


@dataclass(frozen=True, slots=True)
class GrammarPlace:
    """A grammar on the device and where in it a segment begins.

    tables: for each device a record of params.GRAMMAR, its addresses valid until the segment has ended.
    start: one of params.RELAY, of which state and frames are read.
    """

    tables: npt.NDArray[np.void]
    start: npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Segment:
    """What one segment does: feed the pending ids, then sample. Fields as in the kernel's Params.

    want_head False: feed only. guided: the host says before each choice what is legal, see `answer`.
    mask: device tensor of bits or None. seen: whether the penalty needs history.
    """

    pending: Sequence[int]
    position: int
    max_tokens: int = 1
    stop_ids: Sequence[int] = ()
    legal_ids: int = 0
    seed: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    history: Sequence[int] = ()
    mask: npt.NDArray[np.uint32] | None = None
    want_head: bool = True
    grammar: GrammarPlace | None = None
    guided: bool = False
