"""Delayed tensor parallelism as a table: which module's output lands where, how scaled, who waits. Pure data.

Knows the spec alone; no tensors, no device. The forward pass of every host backend and the kernel's packer
read this table and have no branches of their own.

Modules are numbered in the order in which they run: module 2n is the attention of layer n, module 2n+1 its
MLP. Each lane l keeps its own stream X_l; all start as the same embedding row. Module k of lane l yields
o_l[k], full width, from RMSNorm(X_l) before anything is reduced. Then the landings of step k are added:

    X_l += own * o_l[source] + others * sum_{j != l} o_j[source]            for each landing of step k

With δ = delay in layers (2δ modules; each kind of module is delayed against its own kind), the rows are

    plain, δ=0                      (k, own 1, others 1)              blocking: ordinary tensor parallelism
    n <  δ, early "none"            (k, own sqrt(L), others 0)        no communication
    n <  δ, early "present"         (k, own 1, others 1)              blocking full sum
    n >= δ                          (k, own 1, others 0), (k-2δ, own 0, others 1)
        where the source k-2δ lies in an early layer of mode "present", its sum has landed already and the
        second entry is left out, unless early_resent says the weights were trained with it landing twice
    n >= δ, kind not communicated   (k, own sqrt(L), others 0)
    ladder residual                 (k-1, own 1, others 1): module k has read the stream before the sum of
        module k-1 was there; the last step lands its own sum too, since the head waits for it

L=1 has no others: each row becomes (source, own 1, others 0), an ordinary transformer whatever δ says. The
outputs of the last δ layers reach no other lane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kogagent.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Landing:
    """One addition to every lane's stream: own * o_l[source] + others * sum_{j != l} o_j[source].

    lag: modules that have run since the source did, 0 for the module of this step.
    """

    source: int
    own: float
    others: float
    lag: int

    @property
    def blocking(self) -> bool:
        """True when lanes must wait here for an exchange that nothing hides."""
        return self.others != 0 and self.lag == 0


@dataclass(frozen=True, slots=True)
class Step:
    """One module and what lands once it has run.

    sends: some later (or this) landing gives this module's output to other lanes.
    last_use: the step after whose landings this module's output is needed no more.
    """

    module: int
    layer: int
    kind: Literal["attention", "mlp"]
    landings: tuple[Landing, ...]
    sends: bool
    last_use: int

    @property
    def blocking(self) -> bool:
        return any(landing.blocking for landing in self.landings)


@dataclass(frozen=True, slots=True)
class LaneTable:
    """The steps of one pass, in order. steps[k].module == k.

    one_stream: every landing adds the same to every lane, so that all streams stay equal and one suffices.
    """

    lanes: int
    steps: tuple[Step, ...]
    one_stream: bool


def lane_table(spec: ModelSpec) -> LaneTable:
    """The table of a model: 2 * n_layers steps."""
    rows = [_landings(spec, module) for module in range(2 * spec.n_layers)]
    last_use = list(range(len(rows)))
    sends = [False] * len(rows)
    for step, row in enumerate(rows):
        for landing in row:
            last_use[landing.source] = step
            sends[landing.source] |= landing.others != 0
    steps = tuple(
        Step(k, k // 2, "mlp" if k % 2 else "attention", row, sends[k], last_use[k])
        for k, row in enumerate(rows)
    )
    one_stream = spec.lanes == 1 or all(landing.own == landing.others for row in rows for landing in row)
    return LaneTable(spec.lanes, steps, one_stream)


def _landings(spec: ModelSpec, module: int) -> tuple[Landing, ...]:
    lanes, last = spec.lanes, 2 * spec.n_layers - 1
    alone = math.sqrt(lanes)

    def landing(source: int, own: float, others: float) -> Landing:
        return Landing(source, own, others if lanes > 1 else 0.0, module - source)

    if spec.residual == "ladder":
        before = (landing(module - 1, 1.0, 1.0),) if module else ()
        return (*before, landing(module, 1.0, 1.0)) if module == last else before

    layer = module // 2
    communicates = spec.comm_mlp if module % 2 else spec.comm_attention
    if layer < spec.delay:
        if spec.early == "present":
            return (landing(module, 1.0, 1.0),)
        return (landing(module, alone, 0.0),)
    if not communicates:
        return (landing(module, alone, 0.0),)
    if spec.delay == 0:
        return (landing(module, 1.0, 1.0),)
    source = module - 2 * spec.delay
    landed_already = source // 2 < spec.delay and spec.early == "present" and not spec.early_resent
    if lanes == 1 or landed_already:
        return (landing(module, 1.0, 0.0),)
    return (landing(module, 1.0, 0.0), landing(source, 0.0, 1.0))
