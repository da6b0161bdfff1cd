"""The demo: an agent that answers questions about a made-up museum. Knows the SDK's public names only."""

from kogagent.demo.agent import DEFAULT_MODEL, DEFAULT_QUESTION, demo_history, demo_model, museum_agent
from kogagent.demo.examples import worked_examples

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_QUESTION",
    "demo_history",
    "demo_model",
    "museum_agent",
    "worked_examples",
]
