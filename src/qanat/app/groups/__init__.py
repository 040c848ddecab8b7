"""TODO groups."""
