"""Brokers in a tree: roles, topology, pipes and the refresh workflow. Nothing is here yet."""
