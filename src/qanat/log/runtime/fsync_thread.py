"""The thread that waits for fsync: handed work by a queue, back on the loop by one wake-up.

Every acknowledged write of a durable topic makes this trip, one after another where a
client waits for each. An executor's costs 25 us there and back, most of it for locks
and futures that nobody looks at here; this one's costs 11, and 40 where every step wakes up on cold caches.

So where there is nobody but the one who waits, and the disk was quick just now and for a while (`is_quick`), the loop
itself may wait (`run_here`). A disk that is slow then, even once, is the thread's again.
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
"""What the loop may be kept from others for: as long as a large batch takes to be written."""
QUICK_RUNS = 100
"""So many quick runs in a row, and the next one is expected to be quick."""
RECENT_S = 1.0
"""But not if the last of them is longer ago: somebody else may have begun to use the disk."""

Then = Callable[[Any, BaseException | None], None]
"""Called on the loop with what was returned, or with what was raised."""


class Flusher:
    """One thread, started when there is first something to do. Belongs to one event loop."""

    def __init__(self, clock_s: Callable[[], float] | None = None) -> None:
        """Without a clock nobody knows how quick the disk is: then it is the thread's."""
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
        """Call a function here and now, then `then`: for the loop, where `is_quick` and nothing else is under way."""
        fault: BaseException | None = None
        result: Result | None = None
        try:
            result = self._timed(function, argument)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told, whatever it is
            fault = error
        then(result, fault)

    def close(self) -> None:
        """Return once the thread has done what it was given."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            self._do(loop, *work)
            del work  # Or a log would live on here until the next one comes.

    def _do(
        self, loop: asyncio.AbstractEventLoop, function: Callable[[Any], Any], argument: object, then: Then
    ) -> None:
        try:
            result = self._timed(function, argument)
        except BaseException as fault:  # noqa: BLE001 - whoever waits for it is told, whatever it is
            loop.call_soon_threadsafe(then, None, fault)
        else:
            loop.call_soon_threadsafe(then, result, None)

    def _timed(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """Call it, and note how long it took; on the thread, also how long the interpreter was not to be had."""
        clock_s = self._clock_s
        if clock_s is None:
            return function(argument)
        began_s = clock_s()
        try:
            return function(argument)
        finally:
            self._ended_s = clock_s()
            self._quick_runs = self._quick_runs + 1 if self._ended_s - began_s <= QUICK_S else 0
