"""Device programs and their host side. Knows a spec and arrays; no tokens of text."""
