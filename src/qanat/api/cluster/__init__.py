"""TODO cluster."""
