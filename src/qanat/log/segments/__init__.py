"""TODO segments."""
