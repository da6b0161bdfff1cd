"""The kernels that the collected tests will ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kogagent.engine.backends.arrangement import arrange_for, kernel_steps, wide_layout
from kogagent.engine.weights import load_checkpoint
from kogagent.errors import InputError
from kogagent.kernels.build import Job
from kogagent.kernels.layout import plan
from kogagent.local.names import find_model
from kogagent.spec import ModelSpec

Wanted = tuple[ModelSpec | str, Sequence[int], bool]
"""A module's BUILDS: spec or name of a model, widths (0: what a backend makes of it), BF16."""
Spread = tuple[ModelSpec, Sequence[int], Sequence[str]]
"""A module's SPREAD: a model over cards of these numbers, with these defines; one card: lanes apart."""


def jobs(wanted: Iterable[Wanted], capability: int, sms: int, shared: int) -> list[Job]:
    """Each kernel once. Models that are not here are left out."""
    found: dict[Job, None] = {}
    for spec, widths, bf16 in wanted:
        if isinstance(spec, str):
            try:
                spec = load_checkpoint(find_model(spec)).spec
            except InputError:
                continue
        _, one_stream = kernel_steps(spec)
        for width in widths:
            wide = wide_layout(spec, sms, shared, one_stream=one_stream) if width == 0 else None
            layouts = [plan(spec, sms, shared, one_stream=one_stream, width=width or 1)]
            layouts += [] if wide is None else [wide]
            for layout in layouts:
                found[capability, ("KOGAGENT_BF16",) if bf16 else (), layout.model_source()] = None
    return list(found)


def spread_jobs(wanted: Iterable[Spread], capability: int, sms: int, shared: int) -> list[Job]:
    """`jobs` of models over several devices."""
    found: dict[Job, None] = {}
    for spec, numbers, defines in wanted:
        parts = max(list(numbers).count(n) for n in numbers)
        made = arrange_for(spec, len(numbers), parts, sms, shared)
        layouts = [made.layout] if made.wide is None else [made.layout, made.wide]
        if len(numbers) == 1:  # its lanes kept apart
            layouts = [plan(spec, sms, shared, one_stream=kernel_steps(spec, apart=True)[1])]
        for layout in layouts:
            found[capability, tuple(defines), layout.model_source()] = None
    return list(found)
