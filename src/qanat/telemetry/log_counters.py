# cython: language_level=3, annotation_typing=False
"""Counters of the logs of a data directory."""

from __future__ import annotations

from qanat.telemetry.histogram import POWERS_OF_TWO, SECONDS, Histogram


class LogCounters:
    """Monotonic counts; one addition each on the hot path."""

    __slots__ = (
        "appended_bytes",
        "appended_records",
        "cold_reads",
        "compactions",
        "damage_found",
        "deleted_segments",
        "flush_acknowledged",
        "flush_s",
        "flushes",
        "scrubbed_bytes",
    )

    def __init__(self) -> None:
        self.appended_bytes = 0
        self.appended_records = 0
        self.cold_reads = 0
        self.compactions = 0
        self.damage_found = 0
        self.deleted_segments = 0
        self.flushes = 0
        self.flush_s = Histogram(SECONDS)
        """How long a round of group commit took: fsync, and the trip to a worker and back where there was one."""
        self.flush_acknowledged = Histogram(POWERS_OF_TWO)
        """How many waiting appends one round acknowledged."""
        self.scrubbed_bytes = 0

    def __repr__(self) -> str:
        return "LogCounters(" + ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__) + ")"
