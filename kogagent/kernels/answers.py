"""What the host says to a kernel that waits for it: one record in pinned memory. Knows its words, no grammar.

The kernel asks where only the host knows which ids are forced, and before every choice of a guided segment.
A run is read from the record, by some blocks while the host has already seen its ids, and fed from there: it
stays until another one, which may only be given once the kernel has made a later choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kogagent.errors import ModelError
from kogagent.kernels.params import ANSWER, ANSWER_IDS

_FREE, _LAST = 1, 3  # verdicts of csrc/grammar.cuh


class Answers:
    """The record for a model of `vocabulary` ids. address: where the device finds it."""

    def __init__(self, vocabulary: int) -> None:
        import torch

        size = ANSWER.itemsize + 4 * -(-vocabulary // 32)
        self._memory = torch.zeros(size, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        raw = self._memory.numpy()
        self._record: npt.NDArray[np.void] = raw[: ANSWER.itemsize].view(ANSWER)
        fields = ANSWER.fields
        assert fields is not None
        self._mask: npt.NDArray[np.uint32] = raw[fields["mask"][1] :].view(np.uint32)
        self.address: int = self._memory.data_ptr()

    def say(
        self,
        epoch: int,
        index: int,
        verdict: int,
        ids: Sequence[int] = (),
        *,
        last: bool = False,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        """Answer for the id behind `index` others of the segment with this epoch.

        ids: the run of a verdict ANSWER_RUN; last: the text ends with it. mask: legal ids [words], of a
        guided segment, to all of which the verdict applies.
        """
        record = self._record
        if len(ids) > ANSWER_IDS:
            raise ModelError(f"{len(ids)} ids are forced at once; the kernel takes {ANSWER_IDS}")
        if len(ids):  # else some block may still be reading the run before
            record["count"], record["then"] = len(ids), _LAST if last else _FREE
            record["ids"][0, : len(ids)] = ids
        if mask is not None:
            words = np.asarray(mask, np.uint32)[: len(self._mask)]
            self._mask[: len(words)], self._mask[len(words) :] = words, 0
        # The word last: a processor that keeps the order of its stores shows the rest first.
        record["word"] = epoch << 32 | (index & 0x7FFFF) << 13 | verdict
