"""TODO node."""
