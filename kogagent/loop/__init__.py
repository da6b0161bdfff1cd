"""The agent loop. Knows no tokens, no device."""
