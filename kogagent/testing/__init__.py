"""For tests of agents, models and backends: doubles and conformance suites. Public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.testing.backends import check_backend
    from kogagent.testing.conformance import check_model
    from kogagent.testing.models import FunctionModel, MeasuredModel, ScriptedModel, ScriptedTurn, call
    from kogagent.testing.replay import RecordingModel, ReplayModel

__all__ = [
    "FunctionModel",
    "MeasuredModel",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "ScriptedTurn",
    "call",
    "check_backend",
    "check_model",
]

_HOMES = {
    "check_backend": "backends",
    "check_model": "conformance",
    "RecordingModel": "replay",
    "ReplayModel": "replay",
}


def __getattr__(name: str) -> Any:
    # Lazy: a test of an agent should not load torch because a suite for backends lives next door.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'models')}"), name)
