"""What holds for the deliveries of one share group: its own settings, and the broker's where it has none."""

from __future__ import annotations

from msgspec import Struct

_DOUBLINGS_MAX = 40
"""More would be longer than anybody lives."""


class ShareRules(Struct, frozen=True):
    """How records are given out, and when they are given up."""

    lock_ms: int = 30_000
    """How long a record is held for the member that it was given to."""
    delivery_count_limit: int = 5
    """A record that was given out so often and is not done is given up."""
    max_record_locks: int = 2_000
    """No more records are given out for the first time while so many are not done."""
    backoff_ms: int = 0
    """How long a record is kept back after its first failed delivery; twice as long after every further one."""
    backoff_max_ms: int = 60_000
    """Never longer than this."""
    has_dead_letters: bool = False
    """Whether records that are given up go to another topic before they are forgotten."""

    def delay_ms(self, delivery_count: int) -> int:
        """How long a record is kept back after so many failed deliveries."""
        return min(self.backoff_ms << min(max(delivery_count - 1, 0), _DOUBLINGS_MAX), self.backoff_max_ms)
