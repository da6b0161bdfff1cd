"""What a choice means for a segment: csrc/hostlink.cuh compiled for this machine, and the rules in Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kogagent.kernels.answers import Answers
from kogagent.kernels.build import SOURCE
from kogagent.kernels.params import PARAMS, RUN
from kogagent.kernels.segment import Reason

FREE, ASK, LAST, FIRST_RUN, ANSWER_RUN = 1, 2, 3, 4, 0x1FFF
EPOCH = 77
_ENTRY = """
#include "hostlink.cuh"
extern "C" {
unsigned size_of_params() { return sizeof(Params); }
int choose(const void* params, int id, unsigned verdict, float logprob, unsigned flags, int emitted, int at) {
    __builtin_memcpy((void*)&p, params, sizeof p);
    int cut = 0;
    const Choice c = {id, verdict, logprob, flags};
    const Outcome o = outcome_of(c, &cut, emitted, at);
    emit_choice(c, o, emitted, 0, 1000);
    return 1 + o.count;
}
void guide(const void* params, unsigned* aborted, unsigned* verdicts, int first, int rows, int emitted) {
    __builtin_memcpy((void*)&p, params, sizeof p);
    int quit = 0;
    take_guidance(aborted, &quit, verdicts, first, rows, emitted, 0);
}
}
"""


@cache
def program() -> ctypes.CDLL:
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-w"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(SOURCE / "hostlink.cuh", folder)
        shutil.copy(Path(__file__).with_name("hostlink_on_host.cpp"), folder / "head.cuh")
        (folder / "model.cuh").write_text("struct Model {};\n")
        (folder / "entry.cpp").write_text(_ENTRY)
        out = folder / "hostlink.so"
        command = ["g++", *flags, f"-I{folder}", f"-I{SOURCE}", str(folder / "entry.cpp")]
        subprocess.run([*command, "-o", str(out)], check=True)
        found = ctypes.CDLL(str(out))
    assert found.size_of_params() == PARAMS.itemsize
    return found


def at(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Device:
    """Memory of a segment: a ring, runs, stop ids."""

    def __init__(self, rng: np.random.Generator, answers: Answers) -> None:
        self.ring = np.zeros((64, 2), np.uint64)
        self.seen = np.zeros(1000, np.uint8)
        self.stop = rng.integers(0, 1000, 2).astype(np.int32)
        self.runs = [rng.integers(0, 1000, int(rng.integers(1, 9))).tolist() for _ in range(4)]
        self.ends = [bool(rng.integers(2)) for _ in self.runs]
        self.params = params = np.zeros(1, PARAMS)
        self.table = np.zeros(4, RUN)
        self.ids = np.array([id for run in self.runs for id in run], np.int32)
        first = 0
        for i, run in enumerate(self.runs):
            self.table[i] = (first, len(run), LAST if self.ends[i] else FREE, 0)
            first += len(run)
        params["grammar"]["runs"], params["grammar"]["run_ids"] = self.table.ctypes.data, self.ids.ctypes.data
        params["token_ring"], params["seen"] = self.ring.ctypes.data, self.seen.ctypes.data
        params["stop_ids"], params["n_stop"] = self.stop.ctypes.data, len(self.stop)
        params["answer"], params["epoch"] = answers.address, EPOCH
        params["max_tokens"], params["capacity"] = int(rng.integers(1, 20)), int(rng.integers(1, 20))
        params["legal_ids"] = 990

    def tokens(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """(id, forced, reason) of some entries."""
        out = []
        for low, high in self.ring[first : first + count].tolist():
            assert low >> 32 == high >> 32 == EPOCH
            out.append((low & 0x7FFFFF, low >> 23 & 1, low >> 24 & 0xFF))
        return out


def test_a_choice_and_its_run_end_by_the_segments_rules(rng: np.random.Generator) -> None:
    reasons, answers = set(), Answers(1000)
    for _ in range(400):
        device = Device(rng, answers)
        emitted, position = int(rng.integers(0, 6)), int(rng.integers(0, 6))
        token, verdict = int(rng.integers(1000)), int(rng.choice([FREE, ASK, LAST, *range(4, 8)]))
        if rng.random() < 0.2:
            token = int(device.stop[0])
        answered = rng.integers(0, 1000, int(rng.integers(0, 7))).tolist()
        last = bool(answered) and bool(rng.integers(2))
        answers.say(EPOCH, emitted + 1, ANSWER_RUN if answered else FREE, answered, last=last)
        if rng.random() < 0.5 and answered:  # a stop id somewhere in the run
            answered[int(rng.integers(len(answered)))] = int(device.stop[1])
            answers.say(EPOCH, emitted + 1, ANSWER_RUN, answered, last=last)
        run, then = [], verdict
        if verdict == ASK:
            run, then = answered, LAST if last else FREE
        elif verdict >= FIRST_RUN:
            run = device.runs[verdict - FIRST_RUN]
            then = LAST if device.ends[verdict - FIRST_RUN] else FREE
        want: list[tuple[int, int, int]] = []
        most, capacity = int(device.params["max_tokens"][0]), int(device.params["capacity"][0])
        asked = False
        for i, id in enumerate([token, *run]):
            reason = Reason.RUNNING
            if id in device.stop:
                reason = Reason.STOP
            elif emitted + i + 1 >= most:
                reason = Reason.LENGTH
            elif position + i + 1 > capacity:
                reason = Reason.CONTEXT
            elif i == len(run) and then == LAST:
                reason = Reason.COMPLETE
            elif i == 0 and verdict == ASK:
                reason, asked = Reason.ASKED, True
            want.append((id, int(i > 0), int(reason)))
            if reason not in (Reason.RUNNING, Reason.ASKED):
                break
        count = program().choose(
            at(device.params),
            token,
            ctypes.c_uint(verdict),
            ctypes.c_float(-1.0),
            ctypes.c_uint(0),
            emitted,
            position,
        )
        assert device.tokens(emitted, count) == want and len(want) == count
        assert not device.ring[emitted + count :].any()
        assert set(np.flatnonzero(device.seen).tolist()) == {id for id, _, _ in want}
        reasons |= {want[-1][2], int(Reason.ASKED) if asked else 0}
    ends = (Reason.RUNNING, Reason.STOP, Reason.LENGTH, Reason.CONTEXT, Reason.COMPLETE, Reason.ASKED)
    assert reasons == {int(reason) for reason in ends}


def test_guidance_gives_legal_ids_the_hosts_verdict_and_nothing_ends_the_segment(
    rng: np.random.Generator,
) -> None:
    answers = Answers(1000)
    device = Device(rng, answers)
    for verdict in (FREE, ANSWER_RUN, LAST, 0):
        mask = rng.integers(0, 2**32, 32, dtype=np.uint32)
        emitted, first, rows = int(rng.integers(9)), int(rng.integers(900)), int(rng.integers(1, 100))
        answers.say(EPOCH, emitted, verdict, [4], mask=mask)
        aborted, verdicts = np.zeros(1, np.uint32), np.full(rows, 99, np.uint32)
        program().guide(at(device.params), at(aborted), at(verdicts), first, rows, emitted)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        want = [verdict if i < 990 and bits[i] else 0 for i in range(first, first + rows)]
        assert verdicts.tolist() == want and bool(aborted[0]) is (verdict == 0)
