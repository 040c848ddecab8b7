# cython: language_level=3, annotation_typing=False
"""What clients asked of one listener and what they got, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable

from qanat.telemetry.histogram import SECONDS, Histogram


class ApiCounters:
    """One API's requests."""

    __slots__ = ("duration_s", "errors", "loop_s", "parked", "request_bytes", "requests", "response_bytes")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: dict[int, int] = {}
        """By error code, each place of an answer that carries one."""
        self.duration_s = Histogram(SECONDS)
        """From the look at a request until its answer was ready, waiting included."""
        self.loop_s = 0.0
        """The part of it that nobody else could use: decoding, handling, encoding what was answered at once."""
        self.parked = 0
        """Requests whose answer waits, now."""


class ListenerCounters:
    """One listener's connections and requests."""

    __slots__ = ("accepted", "by_api", "cut_off", "not_authenticated", "refused")

    def __init__(self, api_keys: Iterable[int]) -> None:
        self.accepted = 0
        self.refused = 0
        """Connections beyond the limit, closed at once."""
        self.cut_off = 0
        """Connections that were ended because of what came over them."""
        self.not_authenticated = 0
        """Clients that were not let in."""
        self.by_api = {key: ApiCounters() for key in api_keys}
        """Of every API that is served, by its key."""
