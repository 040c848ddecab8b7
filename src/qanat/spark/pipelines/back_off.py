"""Back-off: how long to wait before something that failed is started again. Pure."""

from __future__ import annotations

FIRST_S, LONGEST_S = 1.0, 60.0
TRIES = 8
"""Failures without progress in between, after which the last one is final: two minutes of waiting."""


class BackOff:
    """Counts failures: each wait is twice as long, and progress begins anew."""

    def __init__(self) -> None:
        self.failures = 0

    def next_wait_s(self, *, has_progress: bool) -> float | None:
        """The wait after a failure; None where it is the last one.

        >>> back_off = BackOff()
        >>> [back_off.next_wait_s(has_progress=False) for _ in range(3)], back_off.next_wait_s(has_progress=True)
        ([1.0, 2.0, 4.0], 1.0)
        """
        self.failures = 1 if has_progress else self.failures + 1
        if self.failures >= TRIES:
            return None
        return min(LONGEST_S, FIRST_S * 2.0 ** (self.failures - 1))
