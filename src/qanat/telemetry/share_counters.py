"""Counters of queues."""

from __future__ import annotations


class ShareCounters:
    """Monotonic counts of a broker's queues."""

    __slots__ = ("dead_letters", "redelivered")

    def __init__(self) -> None:
        self.dead_letters = 0
        """Letters that were written."""
        self.redelivered = 0
        """Records that a member got after another attempt."""
