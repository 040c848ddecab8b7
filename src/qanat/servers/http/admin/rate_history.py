"""Rates over time in bounded memory: rings of (time, records per second, bytes per second)."""

from __future__ import annotations

from array import array

import msgspec


class RateAt(msgspec.Struct):
    """Rates at one time."""

    at_ms: int
    records_per_s: float
    bytes_per_s: float


class RateRing:
    """The newest points, one every `every_ms` at most; between two of them the mean counts."""

    __slots__ = ("_bytes", "_every_ms", "_limit", "_pending", "_records", "_times")

    def __init__(self, every_ms: int, limit: int) -> None:
        self._every_ms = every_ms
        self._limit = limit
        self._times = array("q")
        self._records = array("f")
        self._bytes = array("f")
        self._pending: tuple[int, float, float, int] = (0, 0.0, 0.0, 0)
        """Beginning, sums and number of the passes that are no point yet."""

    def add(self, at_ms: int, records_per_s: float, bytes_per_s: float) -> None:
        """Note the rates of a pass."""
        since_ms, records, size, count = self._pending
        since_ms = since_ms if count else at_ms
        records, size, count = records + records_per_s, size + bytes_per_s, count + 1
        if self._times and at_ms - self._times[-1] < self._every_ms:
            self._pending = since_ms, records, size, count
            return
        self._times.append(at_ms)
        self._records.append(records / count)
        self._bytes.append(size / count)
        self._pending = (0, 0.0, 0.0, 0)
        if len(self._times) > self._limit:
            del self._times[0], self._records[0], self._bytes[0]

    def points(self) -> list[RateAt]:
        """Oldest first."""
        return [
            RateAt(at_ms, round(records, 3), round(size, 3))
            for at_ms, records, size in zip(self._times, self._records, self._bytes, strict=True)
        ]
