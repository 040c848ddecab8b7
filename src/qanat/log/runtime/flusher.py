"""The thread that waits for fsync: handed work by a queue, back on the loop by one wake-up.

Every acknowledged write of a durable topic makes this trip, one after another where a
client waits for each. An executor's costs 25 us there and back, most of it for locks
and futures that nobody looks at here; this one's costs 11.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

Then = Callable[[Any, BaseException | None], None]
"""Called on the loop with what was returned, or with what was raised."""


class Flusher:
    """One thread, started when there is first something to do. Belongs to one event loop."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[Any], Any], Any, asyncio.AbstractEventLoop, Then] | None] = (
            SimpleQueue()
        )
        self._thread: Thread | None = None

    def run(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        then: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        """Call a function on the thread, then `then` on the loop."""
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="log-flush", daemon=True)
            self._thread.start()
        self._work.put((function, argument, asyncio.get_running_loop(), then))

    def close(self) -> None:
        """Return once the thread has done what it was given."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            _do(*work)
            del work  # Or a log would live on here until the next one comes.


def _do(function: Callable[[Any], Any], argument: object, loop: asyncio.AbstractEventLoop, then: Then) -> None:
    try:
        result = function(argument)
    except BaseException as fault:  # noqa: BLE001 - whoever waits for it is told, whatever it is
        loop.call_soon_threadsafe(then, None, fault)
    else:
        loop.call_soon_threadsafe(then, result, None)
