"""Append fairness: each iteration of the event loop writes a bounded number of bytes.

A hundred producers that the same fsync acknowledges send their next batches
at the same moment. Written one after another in a single iteration, they would
block the event loop for as long as they take, and delay the next fsync too:
the disk would idle while they are written, and they would idle while it works. So an
iteration writes about so many bytes; the other appends wait for the next, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque

BYTES_PER_ITERATION = 512 * 1024
"""Well under a millisecond of writing; many times what one iteration with many small batches writes."""


class AppendFairness:
    """Grants appends their share of an iteration. Belongs to one event loop."""

    __slots__ = ("_bytes_per_iteration", "_is_counting", "_room_bytes", "_waiting")

    def __init__(self, bytes_per_iteration: int = BYTES_PER_ITERATION) -> None:
        self._bytes_per_iteration = bytes_per_iteration
        self._room_bytes = bytes_per_iteration
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_counting = False

    async def take(self, size_bytes: int) -> None:
        """Return when the caller may write so many bytes; at once, unless this iteration's share is used up."""
        loop = asyncio.get_running_loop()
        if not self._is_counting:
            self._is_counting = True
            loop.call_soon(self._begin_next)
        if self._room_bytes > 0:
            self._room_bytes -= size_bytes
            return
        granted = loop.create_future()
        self._waiting.append((size_bytes, granted))
        await granted

    def _begin_next(self) -> None:
        self._room_bytes = self._bytes_per_iteration
        self._is_counting = bool(self._waiting)
        while self._waiting and self._room_bytes > 0:
            size_bytes, granted = self._waiting.popleft()
            if not granted.done():
                self._room_bytes -= size_bytes
                granted.set_result(None)
        if self._is_counting:
            asyncio.get_running_loop().call_soon(self._begin_next)
