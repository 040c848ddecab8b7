"""Pauses after failures: from one second to nearly a minute, spread by chance.

Ten thousand nodes whose parent was away do not return at once.
"""

from __future__ import annotations

from collections.abc import Callable

Draw = Callable[[], float]
"""Chance: a number from 0 to 1."""
FIRST_MS, LONGEST_MS = 1_000, 55_000
_POLL_SPREAD = 0.2


class Backoff:
    """Doubles from failure to failure, begins again after a success."""

    def __init__(self, draw: Draw, first_ms: int = FIRST_MS, longest_ms: int = LONGEST_MS) -> None:
        self._draw = draw
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._next_ms = first_ms

    def failed(self) -> int:
        """How long to wait now: between half of the present step and all of it."""
        step = self._next_ms
        self._next_ms = min(2 * step, self._longest_ms)
        return round(step * (0.5 + 0.5 * self._draw()))

    def succeeded(self) -> None:
        self._next_ms = self._first_ms


def spread(interval_ms: int, draw: Draw) -> int:
    """The pause between two polls: 20 % more or less."""
    return round(interval_ms * (1 + _POLL_SPREAD * (2 * draw() - 1)))
