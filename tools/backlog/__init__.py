"""A backlog of measurements, drawn from a seed, and a topic filled with it: for checks and for measuring."""
