"""The stop of a worker: the first signal drains, a second one or the end of the grace stops at once.

Time is an argument; the caller asks `decide` whenever a signal came, work finished or the deadline passed.
"""

from __future__ import annotations

from enum import Enum


class Stage(Enum):
    """What a worker does."""

    RUNNING = "running"
    """It takes records."""
    DRAINING = "draining"
    """It takes no new records, finishes what runs, commits, and leaves its groups."""
    STOPPING = "stopping"
    """It cancels what still runs; what is unfinished stays uncommitted, and runs again elsewhere."""


class Shutdown:
    """The stage of one worker."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._signals = 0
        self.deadline_s = float("inf")
        """When the grace ends; infinite before the first signal."""

    def signal(self, now_s: float) -> Stage:
        """SIGTERM, SIGINT, or a call of `stop`."""
        self._signals += 1
        if self._signals == 1:
            self.deadline_s = now_s + self._grace_s
        return self.decide(now_s)

    def decide(self, now_s: float) -> Stage:
        """The stage now."""
        if self._signals == 0:
            return Stage.RUNNING
        if self._signals > 1 or now_s >= self.deadline_s:
            return Stage.STOPPING
        return Stage.DRAINING
