"""Counters of transactions."""

from __future__ import annotations


class TransactionCounters:
    """Monotonic counts of a broker's coordinator."""

    __slots__ = ("aborted", "committed")

    def __init__(self) -> None:
        self.aborted = 0
        self.committed = 0
