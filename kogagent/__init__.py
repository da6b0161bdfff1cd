"""Agent runtime with an in-process latency engine."""
