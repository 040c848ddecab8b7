"""TODO terminal."""
