"""A lease that a thread renews and an event loop uses.

Rule 1: the remaining time counts from when a renewal was sent, not from when its answer came.
Rule 2: a loop that has not run for `LOOP_SILENCE_MAX_MS` gets no more renewals: a broker that answers no
        requests must not stay registered for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from qanat.adapters.boot_clock import boottime_ms
from qanat.cluster.store import Lease

RENEWALS_PER_LIFE = 3
"""How often a lease is renewed in its lifetime, so that two attempts may fail."""
LOOP_SILENCE_MAX_MS = 30_000


class ThreadKeptLease:
    """Made on the loop. The methods below the line are called by the thread that renews."""

    def __init__(self, lease: Lease, now_ms: Callable[[], int] = boottime_ms) -> None:
        self._lease = lease
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._confirmed_ms: int | None = None
        self._loop_ran_ms = now_ms()
        self.next_ms = now_ms()
        self.is_wanted = True

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def interval_ms(self) -> int:
        return self._lease.ttl_ms // RENEWALS_PER_LIFE

    def remaining_ms(self) -> int:
        confirmed_ms = self._confirmed_ms
        return 0 if confirmed_ms is None else confirmed_ms + self._lease.ttl_ms - self._now_ms()

    async def lost(self) -> None:
        await self._over.wait()

    async def release(self) -> None:
        self.is_wanted = False

    # From here on: the thread's side.

    def begin(self) -> int | None:
        """The time of the renewal that is sent now; None, and the lease is abandoned, where the loop is silent."""
        now_ms = self._now_ms()
        if now_ms - self._loop_ran_ms > LOOP_SILENCE_MAX_MS:
            self.end()
            return None
        self._notify(self._note_run)
        self.next_ms = now_ms + self.interval_ms
        return now_ms

    def confirm(self, sent_ms: int) -> None:
        self._confirmed_ms = sent_ms

    def end(self) -> None:
        """The lease has expired; it is not renewed any more."""
        self.is_wanted = False
        self._confirmed_ms = None
        self._notify(self._over.set)

    def _note_run(self) -> None:
        self._loop_ran_ms = self._now_ms()

    def _notify(self, act: Callable[[], object]) -> None:
        # A closed loop has no waiters left.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)
