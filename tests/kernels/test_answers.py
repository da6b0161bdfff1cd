"""The record in which the host answers a waiting kernel, word by word as csrc/hostlink.cuh reads it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from kogagent.errors import ModelError
from kogagent.kernels.answers import Answers
from kogagent.kernels.params import ANSWER, ANSWER_IDS


def test_an_answer_names_its_segment_and_place_and_leaves_a_run_to_be_read(rng: np.random.Generator) -> None:
    vocabulary = int(rng.integers(40, 3000))
    words = -(-vocabulary // 32)
    answers = Answers(vocabulary)
    raw: Any = (ctypes.c_uint8 * (ANSWER.itemsize + 4 * words)).from_address(answers.address)
    assert ANSWER.fields is not None
    mask_at = ANSWER.fields["mask"][1]
    kept: tuple[list[int], int] = [], 0
    for size in (words, 1, words + 3):  # a mask may be shorter or longer than the model's vocabulary
        epoch, index, verdict = (
            int(rng.integers(1, 2**32)),
            int(rng.integers(2**19)),
            int(rng.integers(2**13)),
        )
        ids = rng.integers(0, vocabulary, int(rng.integers(0, 9))).tolist()
        mask = rng.integers(0, 2**32, size, dtype=np.uint32)
        last = bool(rng.integers(2))
        answers.say(epoch, index, verdict, ids, last=last, mask=mask)
        record = np.frombuffer(raw, ANSWER, 1)[0]
        word = int(record["word"])
        assert (word >> 32, word >> 13 & 0x7FFFF, word & 0x1FFF) == (epoch, index, verdict)
        if ids:
            kept = ids, 3 if last else 1
        assert (record["ids"][: int(record["count"])].tolist(), int(record["then"])) == kept
        shown = np.frombuffer(raw, np.uint32, words, mask_at)
        want = np.zeros(words, np.uint32)
        want[: min(size, words)] = mask[:words]
        assert shown.tolist() == want.tolist()
    with pytest.raises(ModelError, match="forced at once"):
        answers.say(1, 0, 1, range(ANSWER_IDS + 1))
