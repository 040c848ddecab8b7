"""TODO simulation."""
