"""TODO share."""
