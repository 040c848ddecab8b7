"""TODO reads."""
