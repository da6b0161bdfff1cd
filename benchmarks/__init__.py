"""What is measured, and how: each module is one benchmark, `python -m benchmarks.<name>` runs it."""
