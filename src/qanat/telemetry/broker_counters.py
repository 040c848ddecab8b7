"""Counters of the broker itself."""

from __future__ import annotations

from qanat.telemetry.listener_counters import ApiCounters


class BrokerCounters:
    """Monotonic counts."""

    __slots__ = (
        "generations",
        "logins_refused",
        "pushed",
        "replicas_repaired",
        "replicated_bytes",
        "topics_created",
        "topics_deleted",
        "unauthenticated_closed",
    )

    def __init__(self) -> None:
        self.generations = 0
        """Completed rebalances of consumer groups."""
        self.logins_refused = 0
        """Logins that were refused unseen, after too many failures."""
        self.unauthenticated_closed = 0
        """Connections that were closed before they authenticated: too slow, or too many."""
        self.replicas_repaired = 0
        """Damaged replicas that were truncated before the damage, to be fetched from their leaders again."""
        self.replicated_bytes = 0
        """Bytes that leaders sent to this broker as a follower."""
        self.pushed = ApiCounters()
        """Batches that push clients produced."""
        self.topics_created = 0
        self.topics_deleted = 0
