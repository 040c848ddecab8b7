"""The fsync thread: it takes work from a queue, and returns to the event loop with one wake-up.

Every acknowledged write of a durable topic makes this trip, one after another where a
client waits for each. An executor's trip costs 25 us, most of it for locks
and futures that are not needed here; this one costs 11, and 40 where every step wakes up on cold caches.

So where only one client is served, and the disk has been quick just now and for a while (`is_quick`), the loop
itself may wait (`run_here`). After a single slow run, the thread waits again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

QUICK_S = 0.002
"""How long the loop may be blocked: as long as writing a large batch takes."""
QUICK_RUNS = 100
"""So many quick runs in a row, and the next one is expected to be quick."""
RECENT_S = 1.0
"""But not if the last of them is longer ago: another process may have begun to use the disk."""

Then = Callable[[Any, BaseException | None], None]
"""Called on the loop with the result, or with the exception."""


class FsyncThread:
    """One thread, started with the first work. Belongs to one event loop."""

    def __init__(self, clock_s: Callable[[], float] | None = None) -> None:
        """Without a clock, the speed of the disk is unknown: then the thread always waits."""
        self._clock_s = clock_s
        self._work: SimpleQueue[tuple[Callable[[Any], Any], Any, Then] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._quick_runs = 0
        self._ended_s = 0.0
        """When the last run ended."""

    @property
    def is_quick(self) -> bool:
        """Whether the disk has lately been so quick that the loop may wait for it."""
        clock_s = self._clock_s
        return clock_s is not None and self._quick_runs >= QUICK_RUNS and clock_s() - self._ended_s <= RECENT_S

    def run(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        then: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        """Call a function on the thread, then `then` on the loop."""
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._serve, args=(loop,), name="log-flush", daemon=True)
            self._thread.start()
        self._work.put((function, argument, then))

    def run_here(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        then: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        """Call a function here, then `then`: for the loop, where `is_quick` and nothing else is under way."""
        fault: BaseException | None = None
        result: Result | None = None
        try:
            result = self._timed(function, argument)
        except BaseException as error:  # noqa: BLE001 - `then` receives every exception
            fault = error
        then(result, fault)

    def close(self) -> None:
        """Return once the thread has done all its work."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            self._do(loop, *work)
            del work  # Or a log would stay referenced here until the next work comes.

    def _do(
        self, loop: asyncio.AbstractEventLoop, function: Callable[[Any], Any], argument: object, then: Then
    ) -> None:
        try:
            result = self._timed(function, argument)
        except BaseException as fault:  # noqa: BLE001 - `then` receives every exception
            loop.call_soon_threadsafe(then, None, fault)
        else:
            loop.call_soon_threadsafe(then, result, None)

    def _timed(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """Call it, and measure how long it took; on the thread, including the wait for the interpreter."""
        clock_s = self._clock_s
        if clock_s is None:
            return function(argument)
        began_s = clock_s()
        try:
            return function(argument)
        finally:
            self._ended_s = clock_s()
            self._quick_runs = self._quick_runs + 1 if self._ended_s - began_s <= QUICK_S else 0
