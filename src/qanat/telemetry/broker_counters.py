"""What the broker itself has done, as plain numbers."""

from __future__ import annotations


class BrokerCounters:
    """Monotonic counts."""

    __slots__ = ("generations", "replicas_repaired", "replicated_bytes", "topics_created", "topics_deleted")

    def __init__(self) -> None:
        self.generations = 0
        """Rebalances of consumer groups that came to their end."""
        self.replicas_repaired = 0
        """Damaged replicas that were cut back to what is sound, to be fetched from their leaders again."""
        self.replicated_bytes = 0
        """Bytes that leaders sent us as their follower."""
        self.topics_created = 0
        self.topics_deleted = 0
