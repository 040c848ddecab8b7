"""Named deadlines of a coordinator: session and rebalance timeouts.

Heartbeats move a deadline far more often than one is reached, so moving
it later costs nothing: the heap keeps the old entry, and looks up the current
deadline when that entry comes to the top. There is at most one live entry per
timer, and equal deadlines are met in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class Timers(Generic[Name]):
    """Named deadlines; setting one again moves it."""

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[Name, int] = {}
        self._queued: dict[Name, int] = {}
        self._heap: list[tuple[int, int, Name]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, timer: object) -> bool:
        return timer in self._deadlines

    def schedule(self, timer: Name, at_ms: int) -> None:
        self._deadlines[timer] = at_ms
        queued = self._queued.get(timer)
        if queued is None or at_ms < queued:
            self._push(timer, at_ms)

    def cancel(self, timer: Name) -> None:
        self._deadlines.pop(timer, None)

    def next_ms(self) -> int | None:
        """The earliest deadline; None where there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Name | None:
        """Take one timer whose deadline has come; handling it may set or cancel others, so call again afterwards."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heappop(self._heap)[2]
        del self._queued[timer]
        del self._deadlines[timer]
        return timer

    def _push(self, timer: Name, at_ms: int) -> None:
        self._sequence += 1
        self._queued[timer] = at_ms
        heappush(self._heap, (at_ms, self._sequence, timer))

    def _settle(self) -> None:
        """Bring a current deadline to the top: drop cancelled entries, put moved ones back."""
        while self._heap:
            at_ms, _, timer = self._heap[0]
            deadline = self._deadlines.get(timer)
            if deadline == at_ms and self._queued.get(timer) == at_ms:
                return
            heappop(self._heap)
            if self._queued.get(timer) != at_ms:
                continue  # An earlier entry has replaced it.
            del self._queued[timer]
            if deadline is not None:
                self._push(timer, deadline)
