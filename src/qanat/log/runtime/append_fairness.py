"""Turns of the event loop, shared by bytes: nobody's appends hold up everybody else.

A hundred producers that are acknowledged by the same fsync send their next batches
at the same moment. Written one after another in a single turn of the loop, they would
keep it from everything else for as long as they take, and from the next fsync too:
the disk would idle while they are written, and they would idle while it works. So a
turn writes about so many bytes, whoever is left waits for the next, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque

BYTES_PER_TURN = 512 * 1024
"""Well under a millisecond of writing; many times what one turn of many small batches brings."""


class AppendFairness:
    """Whose turn it is to write. Belongs to one event loop."""

    __slots__ = ("_bytes_per_turn", "_is_counting", "_room_bytes", "_waiting")

    def __init__(self, bytes_per_turn: int = BYTES_PER_TURN) -> None:
        self._bytes_per_turn = bytes_per_turn
        self._room_bytes = bytes_per_turn
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_counting = False

    async def take(self, size_bytes: int) -> None:
        """Return when it is the caller's turn to write so many bytes; at once, unless this turn is used up."""
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
        self._room_bytes = self._bytes_per_turn
        self._is_counting = bool(self._waiting)
        while self._waiting and self._room_bytes > 0:
            size_bytes, granted = self._waiting.popleft()
            if not granted.done():
                self._room_bytes -= size_bytes
                granted.set_result(None)
        if self._is_counting:
            asyncio.get_running_loop().call_soon(self._begin_next)
