"""Other agent SDKs on the script of loop_overhead: same turns, tools, arguments. Knows nothing of ours."""
