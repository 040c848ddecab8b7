"""TODO sink."""
