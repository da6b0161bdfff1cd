"""From a Python function to a tool. Knows nothing of models."""
