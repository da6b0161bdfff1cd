"""A missed deadline of the kernel in words. Knows the status words of csrc/params.cuh; launches nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kogagent.kernels.layout import PHASES, Layout, kind_of

BEAT = 2  # what a beat says more than its progress: csrc/landings.cuh
_INPUTS = (
    "the stream",
    "attention from its splits",
    "the stream",
    "hidden values",
    "the head's input, candidates or the host's answer",
)
"""What a block waits for at the start of each kind of phase, unless it is weights or late landings."""


def what_was_missed(layout: Layout, status: npt.NDArray[np.uint32], epoch: int) -> str:
    """A missed deadline of the segment `epoch` in words, "" where nobody has missed one. status
    [devices, STATUS_WORDS]: a device that noticed says what it saw; one that hangs says nothing."""
    said = [[int(word) for word in words] for words in status]
    noticed = next((words for words in said if words[9] == epoch), None)
    if noticed is None:
        return ""
    silent = [d for d, words in enumerate(said) if words[12] != epoch]
    spec = layout.spec
    phases = 4 * spec.n_layers + 1

    def place(progress: int) -> str:
        passes, phase = divmod(progress, phases)
        kind = kind_of(phase, spec)
        return f"pass {passes}, layer {phase // 4}, phase {PHASES[kind]}, waiting for {_INPUTS[kind]}"

    block, seen = noticed[2], noticed[3]
    if layout.devices == 1:
        return f"the kernel missed its deadline: block {block} stood in {place(seen)}. Load the engine again."
    beats = noticed[16 : 16 + layout.devices]
    one_hangs = 0 < len(silent) < len(said)
    slowest = min(silent if one_hangs else range(layout.devices), key=lambda d: beats[d])
    waited = f"device {block // layout.device_blocks} waited for it"
    if beats[slowest] == 0:
        return (
            f"device {slowest} did not come: its kernel never began this launch while {waited}. "
            "All devices have given up; load the engine again."
        )
    if seen == 0xFFFFFFFF:  # it was there a moment later
        return f"device {slowest} came too late: {waited} beyond the deadline. Load the engine again."
    if len({*beats}) == 1 and not one_hangs:
        return (
            f"the kernel missed its deadline: block {block} of device {block // layout.device_blocks} stood "
            f"in {place(seen)}. All devices have given up; load the engine again."
        )
    return (
        f"device {slowest} did not come: it stood in {place(beats[slowest] - BEAT)} while {waited} in "
        f"{place(seen)}. All devices have given up; load the engine again."
    )
