"""From a schema to the tokens that are legal next. Knows bytes and ids only."""
