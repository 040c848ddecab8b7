"""The replication throttle: bytes a second for replicas that catch up, so that live traffic has room.

Bytes that were sent or received are a debt that is paid off at the rate. While there is debt, no more bytes are due.
"""

from __future__ import annotations

UNLIMITED = 2**63 - 1
"""The rate where none is set; Kafka's number for it."""


class Throttle:
    """One direction of one broker. The rate may differ with every call."""

    __slots__ = ("_debt_bytes", "_seen_ms")

    def __init__(self) -> None:
        self._debt_bytes = 0.0
        self._seen_ms = 0

    def spend(self, size: int, rate: int, now_ms: int) -> None:
        """Count bytes that have been moved."""
        self._pay(rate, now_ms)
        self._debt_bytes += size

    def is_exceeded(self, rate: int, now_ms: int) -> bool:
        """Whether more has been moved than was due by now; a rate of 0 allows nothing at all."""
        self._pay(rate, now_ms)
        return rate <= 0 or self._debt_bytes > 0

    def _pay(self, rate: int, now_ms: int) -> None:
        self._debt_bytes = max(self._debt_bytes - rate * (now_ms - self._seen_ms) / 1000, 0.0)
        self._seen_ms = now_ms
