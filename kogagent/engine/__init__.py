"""Token ids only: the engine knows no text, no messages, no tools."""
