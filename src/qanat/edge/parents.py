"""The parent that a node pulls from: the first of its list that works.

An unhealthy parent is left for the next one of the list, after the last for the first. While another than the first
feeds the node, earlier ones are probed, and the node returns to one that has answered three probes in a row.

Rule 1: one parent feeds a node at a time: two would append the same records.
Rule 2: switching loses nothing, since the position is the node's own log; the next parent is asked from there.
Rule 3: a parent whose data came through this node counts as failed.
"""

from __future__ import annotations

from qanat.edge.backoff import Backoff, Draw
from qanat.edge.health import SUCCESSES_NEEDED, Health, PipeHealth
from qanat.edge.topology import Parent

SILENT_PAUSE_MS = 1_000
"""The longest pause after a parent's silence."""


class ParentChoice:
    """Which parent feeds, and which one to probe."""

    def __init__(self, parents: tuple[Parent, ...], draw: Draw, now_ms: int) -> None:
        self.parents = parents
        self._draw = draw
        self._index = 0
        self.health = PipeHealth(now_ms)
        self._backoff = Backoff(draw)
        self._probe_backoff = Backoff(draw)
        self._probed = 0
        self._probe_successes = 0
        self._probe_ms = now_ms
        self.switches = 0

    @property
    def current(self) -> Parent | None:
        """The parent that feeds; None where there is none."""
        return self.parents[self._index] if self.parents else None

    def replace(self, parents: tuple[Parent, ...], now_ms: int) -> bool:
        """Take another list; whether another parent feeds from now on. The present one stays if it is first, or if it
        is in the list and works."""
        before = self.current
        if parents == self.parents:
            return False
        self.parents = parents
        stays = before in parents and (parents[0] == before or self.health.at(now_ms) is Health.HEALTHY)
        index = parents.index(before) if before is not None and stays else 0
        if stays:
            self._index = index
            self._restart_probes(now_ms)
        else:
            self._switch(index, now_ms)
        return self.current != before

    # The parent that feeds

    def succeeded(self, now_ms: int, lag_ms: int = 0) -> None:
        self._backoff.succeeded()
        self.health.succeeded(now_ms, lag_ms)

    def failed(self, now_ms: int, *, is_silent: bool = False) -> int:
        """A request failed; how long to wait until the next one. Another parent may be the present one then, which is
        asked at once the first time around. A parent that `is_silent` is asked again soon: it took long to learn of the
        silence, and no one has work with attempts that do not arrive."""
        self.health.failed()
        wait_ms = self._backoff.failed()
        if is_silent:
            wait_ms = min(wait_ms, SILENT_PAUSE_MS)
        if len(self.parents) > 1 and self.health.at(now_ms) is Health.UNHEALTHY:
            self._switch((self._index + 1) % len(self.parents), now_ms)
            return 0 if self._index else wait_ms
        return wait_ms

    def _switch(self, index: int, now_ms: int) -> None:
        self._index = index
        self.switches += 1
        self.health = PipeHealth(now_ms)
        self._backoff.succeeded()
        self._restart_probes(now_ms)

    # Parents before it

    def _restart_probes(self, now_ms: int) -> None:
        self._probed = self._probe_successes = 0
        self._probe_backoff.succeeded()
        self._probe_ms = now_ms + self._probe_backoff.failed()

    def to_probe(self, now_ms: int) -> Parent | None:
        """An earlier parent to send a probe now; None where there is none, or it is too soon."""
        if self._index == 0 or now_ms < self._probe_ms:
            return None
        return self.parents[self._probed]

    def probed(self, *, is_fit: bool, now_ms: int) -> bool:
        """A probe was answered, or not; whether the node returns to that parent now."""
        if not is_fit:
            self._probe_successes = 0
            self._probed = (self._probed + 1) % max(self._index, 1)
            self._probe_ms = now_ms + self._probe_backoff.failed()
            return False
        self._probe_successes += 1
        self._probe_backoff.succeeded()
        self._probe_ms = now_ms + self._probe_backoff.failed()
        if self._probe_successes < SUCCESSES_NEEDED:
            return False
        self._switch(self._probed, now_ms)
        return True
