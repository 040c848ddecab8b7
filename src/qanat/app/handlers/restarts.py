"""When a worker process that ended is started again. Pure: time is an argument.

A worker that ran for a while is restarted soon; one that fails early is restarted after a pause that doubles.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 30.0
"""A worker that ran so long has not failed to start."""


@dataclass(slots=True)
class Restarts:
    """The restarts of one worker."""

    started_s: float = 0.0
    failures: int = 0
    """Failures in a row, each soon after its start."""

    def started(self, now_s: float) -> None:
        self.started_s = now_s

    def ended(self, now_s: float) -> float:
        """How long to wait before the next start."""
        if now_s - self.started_s >= STEADY_S:
            self.failures = 0
        self.failures += 1
        pause_s: float = min(FIRST_PAUSE_S * 2.0 ** (self.failures - 1), LONGEST_PAUSE_S)
        return pause_s
