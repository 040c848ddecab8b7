"""How long answers may be waited for, many at a time and nearly for free.

A timer per answer would cost more than the answer: nearly every one comes long before its time. So one timer
looks at all of them every now and then, and a deadline is kept to within `STEP_S`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

STEP_S = 0.1


class Waiting(Protocol):
    """An answer that somebody waits for."""

    def time_out(self) -> None:
        """Answer without what was waited for."""


class AckTimeouts:
    """Who waits, and until when on the loop's clock. Belongs to one event loop."""

    def __init__(self) -> None:
        self._deadlines: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, waiting: Waiting, seconds: float) -> None:
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._deadlines[waiting] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(STEP_S, self._look)

    def end(self, waiting: Waiting) -> None:
        self._deadlines.pop(waiting, None)

    def close(self) -> None:
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for waiting in [waiting for waiting, deadline in self._deadlines.items() if deadline <= now]:
            self._deadlines.pop(waiting, None)
            waiting.time_out()
        if self._deadlines:
            self._timer = asyncio.get_running_loop().call_later(STEP_S, self._look)
