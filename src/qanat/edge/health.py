"""The health of one pipe: HEALTHY, DEGRADED or UNHEALTHY, by what its requests met and how old its lag is.

    HEALTHY    -> DEGRADED    3 failures in a row, or a lag older than 30 s
    DEGRADED   -> UNHEALTHY   60 s without a success
    DEGRADED, UNHEALTHY -> HEALTHY   3 successes in a row, none with an old lag

Rule 1: health follows offsets and answers, never silence alone: an idle pipe answers its parked requests.
"""

from __future__ import annotations

from enum import Enum

FAILURES_MAX = 3
SUCCESSES_NEEDED = 3
LAG_MAX_MS = 30_000
SILENCE_MAX_MS = 60_000


class Health(Enum):
    """The three states."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"


class PipeHealth:
    """One pipe to one parent, from `now_ms` on."""

    def __init__(self, now_ms: int) -> None:
        self._state = Health.HEALTHY
        self._failures = 0
        self._successes = 0
        self.success_ms = now_ms
        """When the parent last answered; before the first answer, when we began to ask."""

    def succeeded(self, now_ms: int, lag_ms: int = 0) -> None:
        """A whole answer came. `lag_ms` is the age of the oldest record that the parent has and we lack; 0 for none."""
        self.success_ms = now_ms
        self._failures = 0
        if lag_ms > LAG_MAX_MS:
            self._successes = 0
            self._state = Health.DEGRADED
            return
        self._successes += 1
        if self._successes >= SUCCESSES_NEEDED:
            self._state = Health.HEALTHY

    def stalled(self, now_ms: int) -> None:
        """The parent answers, and this node cannot store what it says: no other parent would help."""
        self.success_ms = now_ms
        self.failed()

    def failed(self) -> None:
        """A request failed, or was not answered in time."""
        self._successes = 0
        self._failures += 1
        if self._failures >= FAILURES_MAX and self._state is Health.HEALTHY:
            self._state = Health.DEGRADED

    def at(self, now_ms: int) -> Health:
        """The state now."""
        if now_ms - self.success_ms >= SILENCE_MAX_MS:
            self._state = Health.UNHEALTHY
            self._successes = 0
        return self._state


class LagAge:
    """How long one partition has lacked what its parent had: at least so long, whatever came since.

    The goal is the parent's high watermark of a moment. While it is not reached, its age is that of the lag; then the
    present high watermark is the next goal.
    """

    def __init__(self) -> None:
        self._goal = self._since_ms = 0

    def answered(self, end: int, high_watermark: int, now_ms: int) -> int:
        """The parent has told its high watermark, and our log ends at `end`: the age in milliseconds."""
        if end >= self._goal or high_watermark < self._goal:
            self._goal, self._since_ms = high_watermark, now_ms
        return now_ms - self._since_ms if end < self._goal else 0
