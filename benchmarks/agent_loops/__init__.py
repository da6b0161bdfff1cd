"""Whole agent loops, timed turn by turn. README.md says what each measures."""
