"""Delivery rules of one share group: its own settings, and the broker's where it has none."""

from __future__ import annotations

from msgspec import Struct

_DOUBLINGS_MAX = 40
"""More would exceed any lifetime."""


class ShareRules(Struct, frozen=True):
    """How records are delivered, and when they are archived."""

    lock_ms: int = 30_000
    """How long a record is locked for the member that acquired it."""
    delivery_count_limit: int = 5
    """A record with so many failed deliveries is archived."""
    max_record_locks: int = 2_000
    """No further records are acquired while so many are not finished."""
    backoff_ms: int = 0
    """How long a record is delayed after its first failed delivery; twice as long after every further one."""
    backoff_max_ms: int = 60_000
    """Never longer than this."""
    has_dead_letters: bool = False
    """Whether archived records go to a dead-letter topic first."""

    def delay_ms(self, delivery_count: int) -> int:
        """How long a record is delayed after so many failed deliveries."""
        return min(self.backoff_ms << min(max(delivery_count - 1, 0), _DOUBLINGS_MAX), self.backoff_max_ms)
