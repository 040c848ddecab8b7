"""Counters of the HTTP server."""

from __future__ import annotations

from qanat.telemetry.histogram import SECONDS, Histogram


class HttpCounters:
    """Requests, streams and connections of the HTTP server."""

    __slots__ = ("answered", "connections", "duration_s", "streams")

    def __init__(self) -> None:
        self.answered: dict[tuple[str, int], int] = {}
        """By operation and status."""
        self.duration_s = Histogram(SECONDS)
        """From a request's headers until its answer was ready, waiting included; streams are left out."""
        self.streams = 0
        """Open streams, sampled once a second."""
        self.connections = 0
        """Open connections, sampled once a second."""
