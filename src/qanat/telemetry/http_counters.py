"""Counters of the HTTP server."""

from __future__ import annotations

from qanat.telemetry.listener_counters import ApiCounters


class HttpCounters:
    """Requests, streams and connections of the HTTP server."""

    __slots__ = ("answered", "connections", "requests", "streams")

    def __init__(self) -> None:
        self.answered: dict[tuple[str, int], int] = {}
        """By operation and status."""
        self.requests = ApiCounters()
        """All of them together; streams are left out."""
        self.streams = 0
        """Open streams, sampled once a second."""
        self.connections = 0
        """Open connections, sampled once a second."""
