"""Watching runs: traces, a report for a browser, spans and metrics. Knows events; no model, no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.observe.otel import OpenTelemetry
    from kogagent.observe.report import html_report
    from kogagent.observe.trace import RunTrace, Trace

_HOMES = {"OpenTelemetry": "otel", "RunTrace": "trace", "Trace": "trace", "html_report": "report"}

__all__ = ["OpenTelemetry", "RunTrace", "Trace", "html_report"]


def __getattr__(name: str) -> Any:
    # Lazy: who writes traces needs no template engine, who writes reports no telemetry.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
