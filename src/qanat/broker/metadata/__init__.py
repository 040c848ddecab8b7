"""TODO metadata."""
