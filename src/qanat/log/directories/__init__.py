"""TODO directories."""
