"""Who waits to append to which log: one after another, in the order in which they came.

An append that has to wait, for a worker that opens or writes its batch or for room on the way to the disk,
takes its place in its log's line first. Whoever comes later waits behind it, however quickly he could be served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qanat.log.partition_log import PartitionLog


class Lines:
    """The lines of one data directory. Belongs to one event loop."""

    __slots__ = ("by_log",)

    def __init__(self) -> None:
        self.by_log: dict[PartitionLog, deque[asyncio.Future[None]]] = {}
        """Of logs that somebody waits for; whoever has no place in a line that is there must take one."""

    @asynccontextmanager
    async def place(self, log: PartitionLog) -> AsyncIterator[asyncio.Future[None]]:
        """Inside, a place in the line is held; what it gives is done once nobody is before it."""
        line = self.by_log.setdefault(log, deque())
        front: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(front)
        if line[0] is front:
            front.set_result(None)
        try:
            yield front
        finally:
            was_first = line[0] is front
            line.remove(front)
            if not line:
                del self.by_log[log]
            elif was_first and not line[0].done():
                # One that is cancelled is on its way out, and calls the one behind it.
                line[0].set_result(None)
