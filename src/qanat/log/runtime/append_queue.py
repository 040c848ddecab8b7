"""Append queues: appends to one log are written one after another, in the order in which they came.

An append that has to wait, for a worker that opens or writes its batch or for room among the unflushed bytes,
joins its log's queue first. Later appends wait behind it, however quickly they could be served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qanat.log.partition_log import PartitionLog


class AppendQueues:
    """The queues of one data directory. Belongs to one event loop."""

    __slots__ = ("by_log",)

    def __init__(self) -> None:
        self.by_log: dict[PartitionLog, deque[asyncio.Future[None]]] = {}
        """Queues that are not empty; an append to one of these logs must join its queue."""

    @asynccontextmanager
    async def join(self, log: PartitionLog) -> AsyncIterator[asyncio.Future[None]]:
        """Hold a place in the queue; the future is done once it is the first."""
        queue = self.by_log.setdefault(log, deque())
        front: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(front)
        if queue[0] is front:
            front.set_result(None)
        try:
            yield front
        finally:
            was_first = queue[0] is front
            queue.remove(front)
            if not queue:
                del self.by_log[log]
            elif was_first and not queue[0].done():
                # A cancelled one is leaving, and wakes the one behind it.
                queue[0].set_result(None)
