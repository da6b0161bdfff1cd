"""What a model's decoding at batch 1 can reach: bytes a token, the time to stream them, what exchanges add.

    time a token = bytes a device / bandwidth + exchanges * their cost + sums waited for * (link - slack)

Every term but the first comes from measurements on one card (docs/roofline.md has them, and how far the sum
is from what the kernel does). Knows shapes and cards; runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kogagent.errors import InputError
from kogagent.spec import ModelSpec

BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
"""Bytes a weight, scales of quantised formats not counted."""

EXCHANGES_A_LAYER = 5
"""Stream to q, k, v; these to attention; its splits to their merge; stream to gate and up; hidden to down."""
EXCHANGES_A_TOKEN = 2
"""The streams at the head, and the best candidate."""


@dataclass(frozen=True, slots=True)
class Card:
    """bandwidth: the datasheet's, bytes a second. stream: what a kernel that only streams was measured to
    reach; None where nobody measured, then the datasheet counts."""

    name: str
    bandwidth: float
    stream: float | None = None

    @property
    def limit(self) -> float:
        return self.stream or self.bandwidth


CARDS = {
    "h200": Card("NVIDIA H200", 4.8e12, 4.73e12),
    "h100": Card("NVIDIA H100 SXM", 3.35e12),
    "b200": Card("NVIDIA B200", 8.0e12),
    "mi300x": Card("AMD MI300X", 5.3e12),
}


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds. grid, group: one exchange among all multiprocessors of a card, or among the 16 of a lane,
    under a full weight stream (measured on one H200). link: from a store on one device to its sight on
    another."""

    grid: float = 2.3
    group: float = 1.5
    link: float = 5.0


@dataclass(frozen=True, slots=True)
class Work:
    """What one token takes. lanes: exchange groups a card may run side by side. delay_layers: how long a sum
    over devices may take, in layers; 0 where it is waited for at once, 0.5 for Ladder Residual."""

    name: str
    weight_bytes: float
    kv_bytes: float
    layers: int
    lanes: int = 1
    delay_layers: float = 0.0
    early_sums: int = 0
    """Sums waited for however long the delay: the early layers' of a model trained so."""

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes

    def mbu(self, tok_s: float, card: Card, devices: int) -> float:
        """Model bandwidth utilisation: the share of the datasheet's bandwidth that this rate streams."""
        return tok_s * self.bytes / (card.bandwidth * devices)

    def at_mbu(self, share: float, card: Card, devices: int) -> float:
        """Tokens a second at a share of the datasheet's bandwidth."""
        return share * card.bandwidth * devices / self.bytes


def work_of(spec: ModelSpec, bytes_per_weight: float, context: int) -> Work:
    """A model's work at the position `context`, 2 bytes a cached value. InputError beyond its context."""
    if not 0 <= context <= spec.context:
        raise InputError(
            f"context {context}: {spec.name or 'this model'} holds 0 to {spec.context} positions"
        )
    ladder = spec.residual == "ladder"
    return Work(
        name=spec.name,
        weight_bytes=spec.streamed_bytes(bytes_per_weight),
        kv_bytes=spec.kv_bytes(context),
        layers=spec.n_layers,
        lanes=spec.lanes,
        delay_layers=0.5 if ladder else float(spec.delay),
        early_sums=2 * spec.delay if spec.early == "present" and not ladder else 0,
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """Microseconds a token: floor (weights and cache streamed), exchanges in a card, waits for others."""

    floor: float
    exchanges: float
    links: float

    @property
    def total(self) -> float:
        return self.floor + self.exchanges + self.links

    @property
    def limit_tok_s(self) -> float:
        return 1e6 / self.floor

    @property
    def tok_s(self) -> float:
        return 1e6 / self.total


def predict(work: Work, card: Card, devices: int = 1, costs: Costs = Costs()) -> Prediction:
    """Time of one token over cards that hold equal parts. InputError where the parts cannot be equal."""
    if devices < 1:
        raise InputError(f"devices={devices} must be at least 1")
    if work.lanes > 1 and work.lanes % devices:
        raise InputError(
            f"{work.name} has {work.lanes} lanes: they cannot be dealt evenly to {devices} devices"
        )
    floor = work.bytes / devices / card.limit * 1e6
    # a lane that owns its card exchanges among all its multiprocessors; several share them out
    cost = costs.group if work.lanes > devices and work.delay_layers else costs.grid
    exchanges = (EXCHANGES_A_LAYER * work.layers + EXCHANGES_A_TOKEN) * cost
    if devices == 1:
        return Prediction(floor, exchanges, 0.0)
    slack = work.delay_layers * (floor + exchanges) / max(work.layers, 1)
    sums = 2 * work.layers
    waits = (sums - work.early_sums) * max(0.0, costs.link - slack) + work.early_sums * costs.link
    return Prediction(floor, exchanges, waits + EXCHANGES_A_TOKEN * costs.link)
