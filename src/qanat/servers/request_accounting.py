# cython: language_level=3, annotation_typing=False
"""Request accounting: every request is counted and timed here, on every path of every server, and logged where it is
slow.

Kafka's APIs, share groups' among them, have one by API; HTTP one by operation; push one for what is produced. What HTTP
and push ask of Kafka's handlers in this process belongs to their own request, and is not counted again. Compiled and
interpreted like `log.partition_log`.

Rule: a path calls `arrived` once for a request, and `answered_at_once` or `answered` once for its answer; what waits
      for its answer is parked in between.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.broker.settings.current_settings import CurrentSettings
    from qanat.telemetry.events import RateLimitedEvent
    from qanat.telemetry.listener_counters import ApiCounters

SHORTEST_SLOW_S = 0.001
"""`slow.request.ms` is at least this: a shorter request is not slow, whatever the setting."""


class RequestAccounting:
    """The requests of one kind at one server."""

    def __init__(
        self, name: str, counters: ApiCounters, settings: CurrentSettings, log_slow: RateLimitedEvent | None
    ) -> None:
        """`log_slow` is None for a kind that waits by design: a long wait is not slow."""
        self.counters = counters
        self._name = name
        self._settings = settings
        self._log_slow = log_slow

    def arrived(self, size: int) -> None:
        """A request of so many bytes is about to be handled."""
        self.counters.requests += 1
        self.counters.request_bytes += size

    def answered_at_once(self, began: float, size: int) -> float:
        """The answer was made without waiting; returns how long that took, in seconds."""
        elapsed_s = perf_counter() - began
        counters = self.counters
        counters.loop_s += elapsed_s
        counters.response_bytes += size
        counters.duration_s.observe(elapsed_s)
        return elapsed_s

    def handled(self, began: float) -> None:
        """The request was handled in one piece, and its answer must wait."""
        self.counters.loop_s += perf_counter() - began

    def parked(self) -> None:
        """The answer waits from now on."""
        self.counters.parked += 1

    def unparked(self) -> None:
        """The answer waits no longer: it is there, or its client is gone."""
        self.counters.parked -= 1

    def answered(self, began: float, size: int) -> float:
        """The answer to a request that waited; returns how long all took, in seconds."""
        elapsed_s = perf_counter() - began
        self.counters.response_bytes += size
        self.counters.duration_s.observe(elapsed_s)
        return elapsed_s

    def is_slow(self, elapsed_s: float) -> bool:
        """Whether a request that took so long is to be logged."""
        if elapsed_s < SHORTEST_SLOW_S or self._log_slow is None:
            return False
        return elapsed_s * 1000 >= self._settings.broker.slow_request_ms

    def log_slow(self, elapsed_s: float, client_id: str, peer: str) -> None:
        """Log a slow request and its client."""
        assert self._log_slow is not None, "it is slow"
        self._log_slow(api=self._name, took_ms=round(elapsed_s * 1000), client=client_id, peer=peer)
