"""TODO bundled."""
