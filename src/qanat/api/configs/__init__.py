"""TODO configs."""
