"""Timeouts of acknowledgements: one timer for many.

A timer per acknowledgement would cost more than the acknowledgement: nearly every one comes long before its timeout.
So one timer checks all of them from time to time, and a deadline holds to within `STEP_S`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

STEP_S = 0.1


class PendingAck(Protocol):
    """An acknowledgement that a client waits for."""

    def time_out(self) -> None:
        """Answer that it did not come in time."""


class AckTimeouts:
    """Pending acknowledgements and their deadlines on the loop's clock. Belongs to one event loop."""

    def __init__(self) -> None:
        self._deadlines: dict[PendingAck, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, waiting: PendingAck, seconds: float) -> None:
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._deadlines[waiting] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(STEP_S, self._expire)

    def end(self, waiting: PendingAck) -> None:
        self._deadlines.pop(waiting, None)

    def close(self) -> None:
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for waiting in [waiting for waiting, deadline in self._deadlines.items() if deadline <= now]:
            self._deadlines.pop(waiting, None)
            waiting.time_out()
        if self._deadlines:
            self._timer = asyncio.get_running_loop().call_later(STEP_S, self._expire)
