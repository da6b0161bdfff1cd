"""How a model lies on cards: lanes, the kernel's steps, layouts of one row a pass and of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backends.cuda_devices import spread
from kogagent.engine.lanes import lane_table
from kogagent.errors import ConfigError
from kogagent.kernels.layout import Layout
from kogagent.kernels.layout import plan as plan_layout
from kogagent.kernels.params import STEP
from kogagent.spec import ModelSpec


def kernel_steps(spec: ModelSpec, *, apart: bool = False) -> tuple[npt.NDArray[np.void], bool]:
    """The lane table as the kernel reads it [2N], and whether all lanes' streams are one.

    apart: keep a stream for each lane though they are equal, as lanes on several devices need.
    """
    table = lane_table(spec)
    one_stream = table.one_stream and not (apart and spec.lanes > 1)
    out = np.zeros(len(table.steps), dtype=STEP)
    for row, step in zip(out, table.steps, strict=True):
        row["late"] = -1
        for landing in step.landings:
            others = 0.0 if one_stream else landing.others
            if landing.lag == 0:
                row["own"], row["others"] = landing.own, others
            else:
                row["late"], row["late_own"], row["late_others"] = landing.source, landing.own, others
        row["sends"] = (step.sends and not one_stream) or step.last_use > step.module
        row["window"] = spec.windows[step.layer]
    return out, one_stream


def wide_layout(
    spec: ModelSpec,
    sms: int,
    shared_limit: int,
    *,
    one_stream: bool,
    devices: int = 1,
    like: Layout | None = None,
) -> Layout | None:
    """Of the widths that share a pass the widest whose inputs leave room for the ring."""
    for width in (8, 4):
        try:
            return plan_layout(
                spec, sms, shared_limit, one_stream=one_stream, width=width, devices=devices, like=like
            )
        except ConfigError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A model on cards: the lanes it decodes with, their steps, layouts of one row and of several a pass."""

    spec: ModelSpec
    steps: npt.NDArray[np.void]
    layout: Layout
    wide: Layout | None


def arrange(spec: ModelSpec, cards: Sequence[torch.device], splits: int = 0) -> Arrangement:
    """A model over cards; one that is named several times is cut into as many equal parts.

    Sums are those of one kernel of the same lanes on one such card, to the bit, however many cards there are.
    Raises ConfigError for what cannot be dealt evenly or does not fit.
    """
    card: Any = torch.cuda.get_device_properties(cards[0])
    return arrange_for(
        spec,
        len(cards),
        max(cards.count(each) for each in cards),
        card.multi_processor_count,
        card.shared_memory_per_block_optin,
        splits,
    )


def arrange_for(
    spec: ModelSpec, devices: int, parts: int, sms: int, shared: int, splits: int = 0
) -> Arrangement:
    """`arrange` without a card: `parts` of the devices share one of `sms` multiprocessors."""
    lanes = spread(spec, devices)
    steps, one_stream = kernel_steps(lanes, apart=devices > 1)
    like = None if devices == 1 else plan_layout(lanes, sms, shared, one_stream=one_stream)
    own = sms // parts
    layout = plan_layout(lanes, own, shared, one_stream=one_stream, devices=devices, like=like, splits=splits)
    wide = wide_layout(lanes, own, shared, one_stream=one_stream, devices=devices, like=like)
    if wide is not None and (wide.splits, wide.shapes) != (layout.splits, layout.shapes):
        wide = None  # only where splits were asked for
    return Arrangement(lanes, steps, layout, wide)
