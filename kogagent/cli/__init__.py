"""The command line. Joins engine, loop and demo for a person at a terminal; nothing of ours imports it."""
