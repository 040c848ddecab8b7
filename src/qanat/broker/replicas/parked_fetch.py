"""A parked fetch: it waits for records with callbacks from the append to its answer, and no task; it never polls.

Kafka's Fetch, its fast path, HTTP's reads (which are Fetch requests) and share fetches wait by it, and so does a write
over HTTP under an idempotency key, until readers see it. A consumer at the end of its partitions sends one fetch after
another, and each is parked: every record that is read as soon as it is written pays for this.

Rule: an append only schedules the next read, so that it goes on first, and whatever else is appended in the same turn
      of the event loop is read with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

Wake = Callable[[], None]


class WaitsForRecords(Protocol):
    """A fetch that found too little."""

    def wait_for_more(self, wake: Wake) -> None:
        """Have `wake` called once by each partition, when there is more to read."""

    def stop_waiting(self, wake: Wake) -> None: ...

    def is_due(self) -> bool:
        """Whether enough has come since the last read for another one."""


class ParkedFetch:
    """Reads again when enough has come, or when the time is up; `stop` ends it."""

    __slots__ = ("_fetch", "_is_scheduled", "_loop", "_retry", "_timer", "is_over")

    def __init__(self, fetch: WaitsForRecords, max_wait_s: float, retry: Callable[[bool], None]) -> None:
        """`retry` reads again, and calls `stop` where it answers; its argument says whether the time is up."""
        self._fetch = fetch
        self._retry = retry
        self._is_scheduled = False
        self.is_over = False
        self._loop = loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max_wait_s, self._read, True)
        fetch.wait_for_more(self._wake)

    @property
    def remaining_ms(self) -> int:
        """How long it may still wait."""
        return max(round((self._timer.when() - self._loop.time()) * 1000), 0)

    def stop(self) -> None:
        """Wait no longer."""
        if not self.is_over:
            self.is_over = True
            self._timer.cancel()
            self._fetch.stop_waiting(self._wake)

    def _wake(self) -> None:
        if self.is_over or self._is_scheduled:
            return
        if self._fetch.is_due():
            self._is_scheduled = True
            self._loop.call_soon(self._read, False)
        else:
            self._fetch.wait_for_more(self._wake)

    def _read(self, is_late: bool) -> None:
        if self.is_over:
            return
        self._is_scheduled = False
        self._retry(is_late)
        if not self.is_over:
            self._fetch.wait_for_more(self._wake)


async def wait_for_records(fetch: WaitsForRecords, max_wait_s: float) -> None:
    """Return when another read is due, or the time is up: for fetches that read with a task."""
    due: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def retry(_: bool) -> None:
        parked.stop()
        if not due.done():
            due.set_result(None)

    parked = ParkedFetch(fetch, max_wait_s, retry)
    try:
        await due
    finally:
        parked.stop()
