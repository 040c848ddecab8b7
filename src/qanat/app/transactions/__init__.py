"""TODO transactions."""
