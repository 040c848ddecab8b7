"""Credit: how many records and bytes may be on their way to a subscriber without an acknowledgement.

Rule 1: what is sent is taken, what is acknowledged is given back, and nothing else changes what is out.
Rule 2: something larger than the whole credit is sent alone: otherwise it would never be sent.
"""

from __future__ import annotations

RECORDS_MAX, BYTES_MAX = 1_000_000, 1024 * 1024 * 1024
"""The most that counts: the broker remembers every frame that is not acknowledged."""


class CreditWindow:
    """The credit of one subscription."""

    __slots__ = ("max_bytes", "max_records", "out_bytes", "out_records")

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self.out_records = 0
        self.out_bytes = 0
        self.grant(max_records, max_bytes)

    def grant(self, records: int, size: int) -> None:
        """The client grants so much from now on."""
        self.max_records = min(records, RECORDS_MAX)
        self.max_bytes = min(size, BYTES_MAX)

    @property
    def is_open(self) -> bool:
        """Whether anything at all may be sent: where it is not, nothing is read either."""
        return self.out_records < self.max_records and self.out_bytes < self.max_bytes

    @property
    def is_mostly_out(self) -> bool:
        """Whether more than three quarters of it are out: who has so much in hand can wait for more."""
        return 4 * self.out_records > 3 * self.max_records or 4 * self.out_bytes > 3 * self.max_bytes

    @property
    def left_records(self) -> int:
        return max(self.max_records - self.out_records, 0)

    @property
    def left_bytes(self) -> int:
        return max(self.max_bytes - self.out_bytes, 0)

    def fits(self, records: int, size: int) -> bool:
        """Whether this may be sent now."""
        if not self.is_open:
            return False
        if not self.out_records:
            return True
        return records <= self.left_records and size <= self.left_bytes

    def take(self, records: int, size: int) -> None:
        self.out_records += records
        self.out_bytes += size

    def give_back(self, records: int, size: int) -> None:
        self.out_records -= records
        self.out_bytes -= size
        assert self.out_records >= 0, "no more is given back than was taken"
        assert self.out_bytes >= 0, "no more is given back than was taken"
