"""For tests of agents, models and backends: doubles, evaluations, conformance suites. Public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.testing.backends import check_backend
    from kogagent.testing.conformance import check_model
    from kogagent.testing.evals import Evaluation, Trial, cases_from_lines, evaluate
    from kogagent.testing.models import FunctionModel, MeasuredModel, ScriptedModel, ScriptedTurn, Turn, call
    from kogagent.testing.replay import RecordingModel, ReplayModel
    from kogagent.testing.scorers import Case, Scorer
    from kogagent.testing.tiny import write_tiny_model

__all__ = [
    "Case",
    "Evaluation",
    "FunctionModel",
    "MeasuredModel",
    "RecordingModel",
    "ReplayModel",
    "Scorer",
    "ScriptedModel",
    "ScriptedTurn",
    "Trial",
    "Turn",
    "call",
    "cases_from_lines",
    "check_backend",
    "check_model",
    "evaluate",
    "write_tiny_model",
]

_HOMES = {
    "check_backend": "backends",
    "check_model": "conformance",
    "RecordingModel": "replay",
    "ReplayModel": "replay",
    "Case": "scorers",
    "Scorer": "scorers",
    "Evaluation": "evals",
    "Trial": "evals",
    "cases_from_lines": "evals",
    "evaluate": "evals",
    "write_tiny_model": "tiny",
}


def __getattr__(name: str) -> Any:
    # Lazy: a test of an agent should not load torch because a suite for backends lives next door.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'models')}"), name)
