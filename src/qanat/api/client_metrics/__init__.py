"""Metrics of clients (KIP-714): what each is to push, and what it pushes. `broker.runtime.client_metrics` keeps it."""
