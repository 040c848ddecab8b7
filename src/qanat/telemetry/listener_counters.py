# cython: language_level=3, annotation_typing=False
"""Counters of a Kafka listener: requests and responses."""

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
        """By error code, one for each field of a response that carries it."""
        self.duration_s = Histogram(SECONDS)
        """From reading a request until its response was ready, waiting included."""
        self.loop_s = 0.0
        """Time on the event loop: decoding, handling, encoding of responses that did not wait."""
        self.parked = 0
        """Requests that are parked now."""


class ListenerCounters:
    """One listener's connections and requests."""

    __slots__ = ("accepted", "by_api", "cut_off", "expired", "not_authenticated", "refused", "renewed")

    def __init__(self, api_keys: Iterable[int]) -> None:
        self.accepted = 0
        self.refused = 0
        """Connections beyond the limit, closed at once."""
        self.cut_off = 0
        """Connections that were closed because of invalid input."""
        self.not_authenticated = 0
        """Clients that failed to authenticate."""
        self.renewed = 0
        """Clients that authenticated again on their connection."""
        self.expired = 0
        """Connections that were closed because their client did not."""
        self.by_api = {key: ApiCounters() for key in api_keys}
        """Counters of every served API, by its key."""
